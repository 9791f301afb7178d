// The Node.js driver on a replica set: usage members.js URI; prints the members it finds and what a secondary reads.
'use strict';
const { MongoClient } = require('mongodb');

async function main(uri) {
	const client = new MongoClient(uri);
	const found = new Map();
	client.on('serverDescriptionChanged', ({ newDescription }) =>
		found.set(newDescription.address, newDescription.type));
	try {
		const books = client.db('shop').collection('books', { readPreference: 'secondary' });
		const lists = [];
		for (let i = 0; i < 10; i++) {
			lists.push((await books.findOne({ _id: 1 })).list);
		}
		await client.db('shop').collection('books').findOne();
		console.log(JSON.stringify({ found: Object.fromEntries(found), lists }));
	} finally {
		await client.close();
	}
}

main(process.argv[2]).catch((error) => {
	console.error(error);
	process.exitCode = 1;
});
