// The Node.js driver under traffic: usage traffic.js URI FIRST_ID; pushes and reads until standard input ends. Prints a
// line for every 20 operations, and at last what failed and how many pushes each document has.
'use strict';
const { MongoClient } = require('mongodb');

const WORKERS = 4;
let over = false;
let done = 0;
const failures = [];
const pushed = {};

async function attempt(operation) {
	try {
		await operation();
		if (++done % 20 === 0) {
			console.log(done);
		}
		return 1;
	} catch (error) {
		failures.push(String(error).slice(0, 300));
		return 0;
	}
}

async function work(books, id) {
	pushed[id] = 0;
	while (!over) {
		pushed[id] += await attempt(() => books.updateOne({ _id: id }, { $push: { list: pushed[id] } }, { upsert: true }));
		await attempt(() => books.findOne({ _id: id }));
	}
}

async function main(uri, first) {
	const client = new MongoClient(uri, { writeConcern: { w: 'majority' } });
	const books = client.db('shop').collection('books');
	process.stdin.on('end', () => { over = true; }).resume();
	await Promise.all(Array.from({ length: WORKERS }, (_, i) => work(books, first + i)));
	await client.close();
	console.log(JSON.stringify({ failures, pushed }));
}

main(process.argv[2], Number(process.argv[3])).catch((error) => {
	console.error(error);
	process.exitCode = 1;
});
