// Mongoose at work: usage mongoose.js URI SECONDS; rounds of what its users write until time is up.
'use strict';
const assert = require('assert');
const mongoose = require('mongoose');

const schema = new mongoose.Schema({ title: String, buyers: [mongoose.Schema.Types.Mixed] },
	{ collection: 'books', minimize: false });
const Book = mongoose.model('Book', schema);

const numbers = (count) => Array.from({ length: count }, (_, i) => ({ number: i }));

async function same(id, expected) {
	const found = await Book.findById(id).lean();
	assert.deepStrictEqual(found.buyers, expected);
	assert.deepStrictEqual(Object.keys(found).sort(), ['__v', '_id', 'buyers', 'title']);
	return found;
}

async function round() {
	const book = await Book.create({ title: 'a', buyers: numbers(4) });
	// Each save sends $push and increments __v; a wrong `n` would be a VersionError.
	for (let i = 4; i < 14; i++) {
		book.buyers.push({ number: i });
		if (i === 8) {
			book.title = 'b';
		}
		await book.save();
	}
	assert.strictEqual((await same(book._id, numbers(14))).__v, 10);

	const loaded = await Book.findById(book._id);
	loaded.buyers.push({ number: 14 }, { number: 15 });
	await loaded.save();
	loaded.buyers = numbers(9); // the whole array, guarded by __v
	await loaded.save();
	await same(book._id, numbers(9));
	loaded.buyers = numbers(3);
	await loaded.save();
	await same(book._id, numbers(3));

	const image = await Book.findOneAndUpdate({ _id: book._id },
		{ $push: { buyers: { $each: numbers(9) } } }, { returnDocument: 'after' });
	assert.strictEqual(image.buyers.length, 12);
	assert.strictEqual(await Book.countDocuments({ _id: book._id }), 1);
	assert.ok(await Book.exists({ _id: book._id }));

	await Book.updateOne({ _id: book._id }, { $push: { buyers: 'd' } });
	const upserted = new mongoose.Types.ObjectId();
	await Book.updateOne({ _id: upserted }, { $push: { buyers: 'd' } }, { upsert: true });
	assert.strictEqual((await Book.findById(upserted)).buyers.length, 1);
	await Book.replaceOne({ _id: book._id }, { title: 'c', buyers: numbers(20) });
	assert.deepStrictEqual((await Book.findById(book._id).lean()).buyers, numbers(20));
	await Book.insertMany([{ title: 'd', buyers: numbers(8) }, { title: 'd', buyers: [] }]);
	await Book.deleteMany({ title: 'd' });
	await Book.deleteOne({ _id: upserted });
	assert.strictEqual((await Book.deleteOne({ _id: book._id })).deletedCount, 1);
}

// A book that lives through all rounds, so that its tail moves.
async function grow(lasting) {
	const book = lasting || new Book({ title: 'lasting', buyers: [] });
	if (book.buyers.length > 200) {
		book.buyers = numbers(10);
	} else {
		book.buyers.push({ number: book.buyers.length });
	}
	await book.save();
	await same(book._id, numbers(book.buyers.length));
	return book;
}

async function main(uri, seconds) {
	const until = Date.now() + seconds * 1000;
	let rounds = 0;
	let lasting = null;
	await mongoose.connect(uri, { dbName: 'shop', autoIndex: false });
	do {
		lasting = await grow(lasting);
		await round();
		rounds++;
	} while (Date.now() < until);
	await mongoose.disconnect();
	console.log(`${rounds} rounds`);
}

main(process.argv[2], Number(process.argv[3])).catch((error) => {
	console.error(error);
	process.exitCode = 1;
});
