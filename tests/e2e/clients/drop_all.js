// Drops all collections that are listed, as test harnesses do: by the Node.js driver, then by Mongoose.
// usage: node drop_all.js URI
'use strict';
const assert = require('assert');
const { MongoClient } = require('mongodb');
const mongoose = require('mongoose');

const LONG = [...Array(40).keys()];

async function drive(uri) {
	const client = await new MongoClient(uri).connect();
	const harness = client.db('harness');
	for (let turn = 0; turn < 2; turn++) {
		await harness.collection('books').insertMany([{ _id: 1, list: LONG }, { _id: 2, list: LONG }]);
		await harness.collection('plain').insertOne({ _id: 1 });
		const names = (await harness.collections()).map((each) => each.collectionName);
		assert.deepStrictEqual(names.sort(), ['books', 'plain']);
		for (const name of ['extra_books', ...names, 'extra_books']) {
			await harness.collection(name).drop();
		}
		assert.deepStrictEqual(await harness.listCollections().toArray(), []);
	}
	await client.close();
}

async function model(uri) {
	const connection = await mongoose.createConnection(uri, { dbName: 'harness' }).asPromise();
	const Book = connection.model('Book', new mongoose.Schema({ _id: Number, list: [Number] }), 'books');
	await Book.create({ _id: 1, list: LONG });
	const names = (await connection.listCollections()).map((each) => each.name);
	assert.deepStrictEqual(names, ['books']);
	for (const { collectionName } of await connection.db.collections()) {
		await connection.dropCollection(collectionName);
	}
	await Book.createCollection();
	assert.deepStrictEqual(await Book.find().lean(), []);
	await connection.dropDatabase();
	await connection.close();
}

drive(process.argv[2]).then(() => model(process.argv[2])).then(() => console.log('done'));
