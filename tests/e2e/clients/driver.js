// The Node.js driver at work: usage driver.js URI SECONDS; rounds of everything until the time is up.
'use strict';
const assert = require('assert');
const { MongoClient, ObjectId } = require('mongodb');

const numbers = (count) => Array.from({ length: count }, (_, i) => ({ number: i }));

async function arrays(books, id) {
	await books.insertOne({ _id: id, title: 'a', buyers: numbers(12), last: true });
	for (let i = 12; i < 20; i++) {
		const pushed = await books.updateOne({ _id: id },
			{ $push: { buyers: { number: i } }, $set: { title: 'b' } });
		assert.deepStrictEqual([pushed.matchedCount, pushed.modifiedCount], [1, 1]);
	}
	const whole = { _id: id, title: 'b', buyers: numbers(20), last: true };
	assert.deepStrictEqual(await books.findOne({ _id: id }), whole);
	assert.deepStrictEqual(Object.keys(await books.findOne({ _id: id })), Object.keys(whole));
	const without = await books.findOne({ _id: id }, { projection: { buyers: 0 } });
	assert.deepStrictEqual(without, { _id: id, title: 'b', last: true });
	const after = await books.findOneAndUpdate({ _id: id },
		{ $push: { buyers: { $each: [{ number: 20 }] } } }, { returnDocument: 'after' });
	assert.deepStrictEqual(after.buyers, numbers(21));
}

// A book that lives through all rounds, so that its tail moves; `count` is how many it has.
async function grow(books, id, count) {
	if (count === 0 || count > 200) {
		await books.updateOne({ _id: id }, { $set: { buyers: numbers(10) } }, { upsert: true });
		count = 10;
	}
	await books.updateOne({ _id: id }, { $push: { buyers: { number: count } } });
	assert.deepStrictEqual(await books.findOne({ _id: id }), { _id: id, buyers: numbers(count + 1) });
	return count + 1;
}

async function bulk(books, id) {
	const made = await books.bulkWrite([
		{ updateOne: { filter: { _id: id }, update: { $push: { buyers: { number: 21 } } } } },
		{ insertOne: { document: { _id: `${id} too`, buyers: numbers(9) } } },
		{ updateOne: { filter: { _id: id }, update: { $set: { buyers: numbers(7) } } } },
		{ deleteOne: { filter: { _id: `${id} too` } } },
	]);
	assert.deepStrictEqual([made.matchedCount, made.insertedCount, made.deletedCount], [2, 1, 1]);
	const found = await books.find({ _id: id }).batchSize(1).toArray();
	assert.deepStrictEqual(found[0].buyers, numbers(7));
}

async function transaction(client, books, id) {
	await client.withSession((session) => session.withTransaction(async () => {
		await books.updateOne({ _id: id }, { $push: { buyers: { number: 7 } } }, { session });
		const inside = await books.findOne({ _id: id }, { session });
		assert.deepStrictEqual(inside.buyers, numbers(8));
	}));
	assert.deepStrictEqual((await books.findOne({ _id: id })).buyers, numbers(8));
}

async function plain(notes) {
	const { insertedId } = await notes.insertOne({ text: 'x', list: [1, 2, 3, 4, 5, 6, 7] });
	await notes.updateOne({ _id: insertedId }, { $pull: { list: { $gt: 3 } }, $inc: { n: 1 } });
	const found = await notes.find({ _id: insertedId, list: 2 }).toArray();
	assert.deepStrictEqual(found, [{ _id: insertedId, text: 'x', list: [1, 2, 3], n: 1 }]);
	const counted = await notes.aggregate([{ $match: { _id: insertedId } }, { $unwind: '$list' },
		{ $count: 'n' }]).toArray();
	assert.deepStrictEqual(counted, [{ n: 3 }]);
	await notes.deleteOne({ _id: insertedId });
}

async function main(uri, seconds) {
	const client = await MongoClient.connect(uri);
	const until = Date.now() + seconds * 1000;
	const books = client.db('shop').collection('books');
	const lasting = `driver ${new ObjectId()}`;
	let rounds = 0;
	let count = 0;
	do {
		count = await grow(books, lasting, count);
		const id = `driver ${new ObjectId()}`;
		await arrays(books, id);
		await bulk(books, id);
		await transaction(client, books, id);
		assert.strictEqual((await books.deleteOne({ _id: id })).deletedCount, 1);
		await plain(client.db('shop').collection('notes'));
		rounds++;
	} while (Date.now() < until);
	await client.close();
	console.log(`${rounds} rounds`);
}

main(process.argv[2], Number(process.argv[3])).catch((error) => {
	console.error(error);
	process.exitCode = 1;
});
