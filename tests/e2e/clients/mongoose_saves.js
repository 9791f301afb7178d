// Every form of Mongoose's save() and of its models' updates: usage mongoose_saves.js URI DATABASE.
// Makes a document for each form, says "made", waits for a line, then prints what became of each form.
'use strict';
const assert = require('assert');
const mongoose = require('mongoose');

const { Schema } = mongoose;
const partSchema = new Schema({ text: String, marks: [Number] });
const fields = {
	title: String,
	list: { type: [Number], default: undefined },
	other: [Number],
	kept: { list: { type: [partSchema], default: undefined } },
};
const options = { collection: 'books', minimize: false };
const Book = mongoose.model('Book', new Schema(fields, { ...options, timestamps: true }));
const Cautious = mongoose.model('Cautious', new Schema(fields, { ...options, optimisticConcurrency: true }));
const Unversioned = mongoose.model('Unversioned', new Schema(fields, { ...options, versionKey: false }));
const Mixed = mongoose.model('Mixed', new Schema({ list: Schema.Types.Mixed }, options));

// Ids that begin with 0 are ours: they are the same in every run.
const numbered = (number) => new mongoose.Types.ObjectId(number.toString(16).padStart(24, '0'));
const part = (number, text) => ({ _id: numbered(number), text, marks: [number, 1, 2] });

// A form that loads its document, changes it and saves it.
const saved = (change, model = Book) => async (id) => {
	const book = await model.findById(id);
	await change(book);
	await book.save();
	return { version: book.__v, list: book.list };
};

// A form in which somebody else saves between the loading and the saving.
const crossed = (first, second, model = Book) => async (id) => {
	const [one, two] = [await model.findById(id), await model.findById(id)];
	first(one);
	await one.save();
	second(two);
	await two.save();
	return two.__v;
};

const updated = (update, more) => (id) => Book.updateOne({ _id: id }, update, more);
const modified = (update, more) => (id) =>
	Book.findOneAndUpdate({ _id: id }, update, { returnDocument: 'after', ...more }).lean();

const saves = {
	'push': saved((book) => book.list.push(8)),
	'two pushes': saved((book) => { book.list.push(8, 9); book.list.push(10); }),
	'push beside another field': saved((book) => { book.list.push(8); book.title = 'b'; }),
	'push at a position': saved((book) => book.list.push({ $each: [8, 9], $position: 0 })),
	'push of subdocuments': saved((book) => book.kept.list.push(part(90, 'new'), part(91, 'newer'))),
	'two arrays pushed': saved((book) => { book.list.push(8); book.kept.list.push(part(90, 'new')); }),
	'concat': saved((book) => { book.list = book.list.concat([8, 9]); }),
	'addToSet': saved((book) => book.list.addToSet(8, 3, 9)),
	'addToSet of what is there': saved((book) => book.list.addToSet(6)),
	'pull': saved((book) => book.list.pull(3)),
	'pull of several': saved((book) => book.list.pull(1, 6, 77)),
	'pull of subdocuments': saved((book) => book.kept.list.pull(numbered(2), numbered(5))),
	'deleteOne of a subdocument': saved((book) => book.kept.list.id(numbered(4)).deleteOne()),
	'unshift': saved((book) => book.list.unshift(-1, 0)),
	'shift': saved((book) => book.list.shift()),
	'pop': saved((book) => book.list.pop()),
	'splice': saved((book) => book.list.splice(2, 3)),
	'splice that inserts': saved((book) => book.list.splice(5, 1, 50, 51)),
	'$pop': saved((book) => book.list.$pop()),
	'$shift': saved((book) => book.list.$shift()),
	'sort': saved((book) => book.list.sort((a, b) => b - a)),
	'reverse': saved((book) => book.kept.list.reverse()),
	'filter': saved((book) => { book.list = book.list.filter((value) => value % 2); }),
	'another array': saved((book) => { book.list = [9, 8, 7, 6, 5, 4, 3, 2]; }),
	'an empty array': saved((book) => { book.list = []; }),
	'no array': saved((book) => { book.list = undefined; }),
	'no parent': saved((book) => { book.kept = undefined; }),
	'markModified': saved((book) => book.markModified('list')),
	'markModified of mixed': saved((book) => { book.list[5] = 'x'; book.markModified('list'); }, Mixed),
	'mixed to a document': saved((book) => { book.list = { a: 1 }; }, Mixed),
	'mixed by index': saved((book) => { book.set('list.5', 'x'); }, Mixed),
	'set by index': saved((book) => book.list.set(1, 50)),
	'assigned by index': saved((book) => { book.list[6] = 50; }),
	'set beyond the end': saved((book) => book.list.set(9, 50)),
	'a subdocument by index': saved((book) => { book.kept.list[5].text = 'changed'; }),
	'a subdocument by id': saved((book) => { book.kept.list.id(numbered(3)).text = 'changed'; }),
	'two subdocuments': saved((book) => { book.kept.list[0].text = 'a'; book.kept.list[6].text = 'b'; }),
	'a subdocument replaced': saved((book) => book.kept.list.set(4, part(44, 'other'))),
	'push within a subdocument': saved((book) => book.kept.list[5].marks.push(5, 6)),
	'pull within a subdocument': saved((book) => book.kept.list[5].marks.pull(1)),
	'index within a subdocument': saved((book) => book.kept.list[5].marks.set(0, 9)),
	'a subdocument and a push': saved((book) => { book.kept.list[5].text = 'c'; book.list.push(8); }),
	'push then pull': saved((book) => { book.list.push(8); book.list.pull(2); }),
	'push then splice': saved((book) => { book.list.push(8); book.list.splice(0, 1); }),
	'a subdocument and a push of the same': saved((book) => {
		book.kept.list[5].text = 'c';
		book.kept.list.push(part(90, 'new'));
	}),
	'nothing changed': saved(() => {}),
	'another field': saved((book) => { book.title = 'b'; }),
	'saved again and again': async (id) => {
		const book = await Book.findById(id);
		const steps = [
			() => book.list.push(8), () => book.list.set(7, 9), () => book.list.pull(2), () => book.list.shift(),
			() => book.list.push(1, 2), () => book.list.$pop(), () => book.list.sort(), () => book.list.addToSet(5, 99),
		];
		for (const step of steps) {
			step();
			await book.save();
		}
		return { version: book.__v, list: book.list };
	},
	'unversioned push': saved((book) => book.list.push(8), Unversioned),
	'unversioned splice': saved((book) => book.list.splice(0, 2), Unversioned),
	'cautious push': saved((book) => book.list.push(8), Cautious),
	'cautious pull': saved((book) => book.list.pull(3), Cautious),
};

const conflicts = {
	'two pushes do not cross': crossed((one) => one.list.push(8), (two) => two.list.push(9)),
	'push and a subdocument': crossed((one) => one.list.push(8), (two) => { two.kept.list[5].text = 'c'; }),
	'pull and an index': crossed((one) => one.list.pull(1), (two) => two.list.set(5, 50)),
	'splice and a splice': crossed((one) => one.list.splice(0, 1), (two) => two.list.splice(0, 1)),
	'index and an index': crossed((one) => one.list.set(5, 50), (two) => two.list.set(6, 60)),
	'pull and a pull': crossed((one) => one.list.pull(1), (two) => two.list.pull(2)),
	'pop and another array': crossed((one) => one.list.pop(), (two) => { two.list = [1]; }),
	'cautious pushes': crossed((one) => one.list.push(8), (two) => two.list.push(9), Cautious),
	'cautious titles': crossed((one) => { one.title = 'b'; }, (two) => { two.title = 'c'; }, Cautious),
	'the document is gone': async (id) => {
		const book = await Book.findById(id);
		await Book.deleteOne({ _id: id });
		book.list.push(8);
		await book.save();
	},
};

const models = {
	'updateOne $push': updated({ $push: { list: 8 } }),
	'updateOne $pull': updated({ $pull: { list: { $gt: 3 } } }),
	'updateOne $pull of a subdocument': updated({ $pull: { 'kept.list': { _id: numbered(4) } } }),
	'updateOne $addToSet': updated({ $addToSet: { list: { $each: [5, 8] } } }),
	'updateOne $pop': updated({ $pop: { list: -1 } }),
	'updateOne without operators': updated({ list: [4, 3, 2, 1], title: 'b' }),
	'updateOne by index': updated({ 'kept.list.5.text': 'c' }),
	'updateOne $[]': updated({ $inc: { 'list.$[]': 1 } }),
	'updateOne with array filters': updated({ $set: { 'kept.list.$[e].text': 'c' } },
		{ arrayFilters: [{ 'e._id': numbered(6) }] }),
	'updateOne with a position': (id) =>
		Book.updateOne({ _id: id, 'kept.list._id': numbered(6) }, { $set: { 'kept.list.$.text': 'c' } }),
	'updateOne with an element in the filter': (id) =>
		Book.updateOne({ _id: id, list: { $ne: 5 } }, { $push: { list: 5 } }),
	'updateMany': (id) => Book.updateMany({ _id: { $in: [id] } }, { $pull: { list: 5 }, $set: { title: 'b' } }),
	'an upsert': (id, number) => Book.updateOne({ _id: numbered(0x5000 + number) },
		{ $push: { list: { $each: [3, 1, 2], $sort: 1 } }, $addToSet: { other: 1 } }, { upsert: true }),
	'findOneAndUpdate $push': modified({ $push: { list: 8 } }),
	'findOneAndUpdate $pull': modified({ $pull: { list: 3 } }),
	'findOneAndUpdate before': modified({ $pull: { list: 3 } }, { returnDocument: 'before' }),
	'findOneAndUpdate $push sliced': modified({ $push: { list: { $each: [8], $slice: -4 } } }),
	'findOneAndUpdate by index': modified({ 'list.5': 50 }),
	'findOneAndUpdate with array filters': modified({ $inc: { 'list.$[e]': 10 } }, { arrayFilters: [{ e: { $gt: 4 } }] }),
	'findOneAndUpdate with everything': async (id) => {
		const { lastErrorObject, value } = await Book.findOneAndUpdate({ _id: id },
			{ $pull: { list: 3 }, $push: { other: 1 }, $inc: { __v: 1 } }, { includeResultMetadata: true });
		return { lastErrorObject, value };
	},
	'findOneAndUpdate with a position': (id) => Book.findOneAndUpdate({ _id: id, list: 6 }, { $set: { 'list.$': 60 } },
		{ returnDocument: 'after' }).lean(),
	'findOneAndReplace': (id) => Book.findOneAndReplace({ _id: id }, { title: 'b', list: [5, 4, 3, 2, 1] },
		{ returnDocument: 'after' }).lean(),
	'findByIdAndDelete': (id) => Book.findByIdAndDelete(id).lean(),
	'replaceOne': (id) => Book.replaceOne({ _id: id }, { title: 'b', list: [5, 4, 3, 2, 1] }),
	'a pipeline': (id) => Book.updateOne({ _id: id },
		[{ $set: { list: { $concatArrays: ['$list', [8]] } } }], { updatePipeline: true }),
	'bulkWrite': (id, number) => Book.bulkWrite([
		{ updateOne: { filter: { _id: id }, update: { $pull: { list: 3 } } } },
		{ updateOne: { filter: { _id: id }, update: { $set: { 'list.0': 9 } } } },
		{ insertOne: { document: { _id: numbered(0x6000 + number), title: 'n', list: [1, 2, 3, 4] } } },
		{ updateMany: { filter: { _id: numbered(0x6000 + number) }, update: { $pop: { list: 1 } } } },
		{ deleteOne: { filter: { _id: numbered(0x7000) } } },
	]),
	'bulkSave': async (id, number) => {
		const old = await Book.findById(id);
		old.list.pull(3);
		old.kept.list[5].text = 'c';
		const book = new Book({ _id: numbered(0x8000 + number), title: 'n', list: [1, 2, 3, 4] });
		const result = await Book.bulkSave([old, book]);
		old.list.push(9);
		book.list.splice(1, 1);
		const again = await Book.bulkSave([old, book]);
		return [counts(result), counts(again), old.__v, book.__v];
	},
	'bulkSave that crosses': async (id, number) => {
		const two = await Book.findById(id);
		await saved((book) => book.list.splice(0, 1))(id);
		two.list.splice(0, 1);
		const book = new Book({ _id: numbered(0x9000 + number), title: 'n', list: [1, 2, 3, 4] });
		return counts(await Book.bulkSave([two, book]));
	},
	'a transaction': (id) => mongoose.connection.transaction(async (session) => {
		const book = await Book.findById(id).session(session);
		book.list.splice(1, 2);
		await book.save({ session });
		book.kept.list.pull(numbered(2));
		await book.save({ session });
		return (await Book.findById(id).session(session).lean()).list;
	}),
	'a transaction given up': async (id) => {
		const session = await mongoose.startSession();
		session.startTransaction();
		const book = await Book.findById(id).session(session);
		book.list.pull(2);
		await book.save({ session });
		await session.abortTransaction();
		await session.endSession();
	},
};

const counts = (result) => [result.matchedCount, result.modifiedCount, result.insertedCount, result.upsertedCount];
const forms = { ...saves, ...conflicts, ...models };

async function outcome(form, number) {
	try {
		return { gave: await form(numbered(0x1000 + number), number) };
	} catch (error) {
		return { threw: error.name, code: error.code, said: error.code ? error.message : undefined };
	}
}

// What mongod says to a write, as the driver saw it.
function watch(replies) {
	mongoose.connection.getClient().on('commandSucceeded', ({ commandName, reply }) => {
		if (['update', 'findAndModify', 'insert', 'delete'].includes(commandName)) {
			const { n, nModified, writeErrors, lastErrorObject } = reply;
			replies.push({ commandName, n, nModified, lastErrorObject, errors: writeErrors?.map(({ code }) => code) });
		}
	});
}

async function main(uri, dbName) {
	await mongoose.connect(uri, { dbName, autoIndex: false, monitorCommands: true });
	const parts = [1, 2, 3, 4, 5, 6, 7].map((number) => part(number, `part ${number}`));
	await Book.create(Object.keys(forms).map((form, number) => ({
		_id: numbered(0x1000 + number), title: form, list: [1, 2, 3, 4, 5, 6, 7], kept: { list: parts },
	})), { ordered: true });
	assert.strictEqual(await Book.countDocuments(), Object.keys(forms).length);
	console.log('made');
	await new Promise((resolve) => process.stdin.once('data', resolve));
	process.stdin.pause();

	const replies = [];
	watch(replies);
	for (const [number, [name, form]] of Object.entries(forms).entries()) {
		const result = await outcome(form, number);
		console.log(JSON.stringify({ name, ...result, replies: replies.splice(0) }));
	}
	await mongoose.disconnect();
}

main(process.argv[2], process.argv[3]).catch((error) => {
	console.error(error);
	process.exitCode = 1;
});
