// The Node.js driver signs in: usage sign_in.js URI; prints what became of it as JSON.
'use strict';
const { MongoClient } = require('mongodb');

async function main(uri) {
	const client = new MongoClient(uri, { serverSelectionTimeoutMS: 10000 });
	try {
		const books = client.db('shop').collection('books');
		await books.updateOne({ _id: 'driver' }, { $push: { list: 'one' } }, { upsert: true });
		console.log(JSON.stringify({ list: (await books.findOne({ _id: 'driver' })).list }));
	} catch (error) {
		console.log(JSON.stringify({ code: error.code, message: error.message }));
	} finally {
		await client.close();
	}
}

main(process.argv[2]);
