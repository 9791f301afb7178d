// What Mongoose, Compass and the Node.js driver read: usage reads.js URI DATABASE. Prints a line of JSON for each form.
'use strict';
const mongoose = require('mongoose');

const { Schema } = mongoose;
const Book = mongoose.model('Book', new Schema(
	{ title: String, list: { type: [Number], default: undefined }, kept: { list: [{ x: Number, y: Number, _id: false }] } },
	{ collection: 'books', _id: false }).add({ _id: Number }));
const Shelf = mongoose.model('Shelf', new Schema(
	{ _id: Number, first: { type: Number, ref: 'Book' }, books: [{ type: Number, ref: 'Book' }] },
	{ collection: 'shelves' }));

const all = async (cursor) => {
	const found = [];
	for await (const each of cursor) found.push(each.toObject ? each.toObject() : each);
	return found;
};
const byId = (found) => found.sort((a, b) => a._id - b._id);
const compass = (stages) => mongoose.connection.db.collection('books')
	.aggregate(stages, { allowDiskUse: true, maxTimeMS: 60000, batchSize: 3 }).toArray();

const forms = {
	'populate': () => Shelf.find().sort({ _id: 1 }).populate('books').populate('first'),
	'populate lean': () => Shelf.find().sort({ _id: 1 }).populate('books').lean(),
	'populate selected': () => Shelf.findById(1).populate({ path: 'books', select: 'list', options: { sort: { _id: -1 } } }),
	'populate without the array': () => Shelf.findById(1).populate('books', '-list'),
	'populate that matches': () => Shelf.findById(1).populate({ path: 'books', match: { list: { $gte: 9 } } }),
	'populate limited': () => Shelf.find().sort({ _id: 1 }).populate({ path: 'books', perDocumentLimit: 1 }),
	'populate of a document': async () => (await Shelf.findById(2)).populate(['books', 'first']),
	'slice': () => Book.find().sort({ _id: 1 }).slice('list', 2),
	'slice from behind': () => Book.find().sort({ _id: 1 }).slice('list', -2),
	'slice of a page': () => Book.find().sort({ _id: 1 }).slice('list', [1, 3]),
	'slice of one': () => Book.findOne({ _id: 3 }).slice('list', [2, 2]).select('-kept'),
	'lean': () => Book.find().sort({ _id: 1 }).lean(),
	'hydrated': () => Book.find().sort({ _id: 1 }),
	'selected': () => Book.find({}, 'list title').sort({ _id: 1 }),
	'a cursor': () => all(Book.find().sort({ _id: 1 }).batchSize(2).cursor()),
	'a lean cursor': () => all(Book.find({ list: { $lt: 4 } }).sort({ _id: 1 }).lean().cursor({ batchSize: 1 })),
	'each of a cursor': async () => {
		const found = [];
		await Book.find().sort({ _id: -1 }).cursor().eachAsync((some) => { found.push(some.map((one) => one._id)); }, { batchSize: 3 });
		return found;
	},
	'an aggregate': () => Book.aggregate().match({ _id: { $lt: 5 } }).unwind('list').group({ _id: '$_id', n: { $sum: '$list' } }).sort('_id'),
	'an aggregate cursor': () => all(Book.aggregate([{ $sort: { _id: 1 } }, { $project: { last: { $last: '$list' }, list: 1 } }]).cursor({ batchSize: 2 })),
	'where': () => Book.where('list').gt(8).size(9).sort({ _id: 1 }),
	'elements': () => Book.find().elemMatch('kept.list', { x: 1, y: { $gt: 1 } }).sort({ _id: 1 }),
	'exists': async () => Boolean(await Book.exists({ 'list.7': { $exists: true } })),
	'counts': async () => [await Book.countDocuments({ list: 7 }), await Book.estimatedDocumentCount()],
	'distinct': () => Book.distinct('list', { _id: { $gt: 1 } }),
	'a driver\'s cursor': () => mongoose.connection.db.collection('books').find({}, { batchSize: 1, noCursorTimeout: true }).sort({ _id: 1 }).toArray(),
	'a stream': () => all(mongoose.connection.db.collection('books').find().sort({ _id: 1 }).batchSize(2).stream()),
	'a sample': async () => byId(await compass([{ $match: {} }, { $sample: { size: 1000 } }])),
	'a sample that matches': async () => byId(await compass([{ $match: { list: { $size: 9 } } }, { $sample: { size: 100 } }, { $project: { list: 1 } }])),
	'a schema\'s documents': () => compass([{ $sort: { _id: 1 } }, { $limit: 5 }]),
	'a page': () => mongoose.connection.db.collection('books').find({}, { skip: 2, limit: 3, sort: { _id: 1 }, allowDiskUse: true }).toArray(),
	'a count by hint': () => mongoose.connection.db.collection('books').countDocuments({}, { hint: '_id_', maxTimeMS: 60000 }),
	'a histogram': () => compass([{ $match: { list: { $exists: true } } }, { $group: { _id: { $size: { $cond: [{ $isArray: '$list' }, '$list', []] } }, n: { $sum: 1 } } }, { $sort: { _id: 1 } }]),
};

async function main() {
	await mongoose.connect(process.argv[2], { dbName: process.argv[3], autoIndex: false, autoCreate: false });
	await mongoose.connection.db.collection('shelves').insertMany([
		{ _id: 1, first: 3, books: [1, 2, 3, 4] }, { _id: 2, first: 6, books: [6, 0, 99] }, { _id: 3, books: [] }]);
	for (const [name, form] of Object.entries(forms)) {
		const found = await form();
		console.log(JSON.stringify({ name, found }));
	}
	await mongoose.disconnect();
}

main().catch((error) => {
	console.error(error);
	process.exit(1);
});
