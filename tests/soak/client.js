// The Node.js driver at work for the soak: usage client.js URI DATABASE PREFIX COUNT PACE SEED. It does what client.py
// does, and prints the same lines.
'use strict';
const { MongoClient } = require('mongodb');

const LONGEST = 400;
let over = false;
let wake = () => {};
const ended = new Promise((resolve) => { wake = resolve; });
const second = { done: 0, longest: 0 };

function tell(what) {
	console.log(JSON.stringify({ at: Date.now() / 1000, ...what }));
}

function pause(milliseconds) {
	let timer;
	const slept = new Promise((resolve) => { timer = setTimeout(resolve, Math.max(0, milliseconds)); });
	return Promise.race([slept, ended]).then(() => clearTimeout(timer));
}

class Worker {
	constructor(uri, database, name, pace) {
		this.client = new MongoClient(uri, { writeConcern: { w: 'majority' }, maxPoolSize: 2 });
		this.books = this.client.db(database).collection('books');
		Object.assign(this, { name, pace, version: 0, array: [], number: 0 });
	}

	async attempt(what, operation) {
		const began = Date.now();
		try {
			const result = await operation();
			second.done++;
			second.longest = Math.max(second.longest, Date.now() - began);
			return result;
		} catch (error) {
			tell({ failed: what, error: String(error).slice(0, 300) });
			return null;
		}
	}

	async certainly(what, operation) {
		for (;;) {
			const result = await this.attempt(what, operation);
			if (result !== null) {
				return result;
			}
			await new Promise((resolve) => { setTimeout(resolve, 200); });
		}
	}

	wrong(what, found) {
		const short = JSON.stringify(found).slice(0, 300);
		tell({ wrong: what, document: this.name, found: short, expected: JSON.stringify(this.array.slice(-8)) });
	}

	same(what, found, expected) {
		if (JSON.stringify(found) !== JSON.stringify(expected)) {
			this.wrong(what, found);
		}
	}

	async write(what, update, after) {
		const change = { ...update, $set: { ...update.$set, v: this.version + 1 } };
		const query = { _id: this.name, v: this.version };
		const result = await this.attempt(what, () => this.books.updateOne(query, change));
		if (result === null) {
			await this.findOut(after);
			return;
		}
		if (result.matchedCount !== 1) {
			this.wrong(what, result);
		}
		this.version++;
		this.array = after;
	}

	async findOut(after) {
		const query = { _id: this.name, v: { $in: [this.version, this.version + 1, this.version + 2] } };
		this.version += 2;
		await this.certainly('fence', () => this.books.updateOne(query, { $set: { v: this.version } }));
		const found = (await this.certainly('find', () => this.books.findOne({ _id: this.name }))).list;
		if (JSON.stringify(found) === JSON.stringify(after)) {
			this.array = after;
		}
		this.same('after a failure', found, this.array);
	}

	async step() {
		const draw = Math.random();
		if (this.array.length >= LONGEST) {
			await this.write('empty', { $set: { list: [] } }, []);
		} else if (draw < 0.5 || this.array.length === 0) {
			this.number++;
			await this.write('push', { $push: { list: this.number } }, [...this.array, this.number]);
		} else if (draw < 0.6) {
			const gone = this.array[Math.floor(Math.random() * this.array.length)];
			await this.write('pull', { $pull: { list: gone } }, this.array.filter((each) => each !== gone));
		} else if (draw < 0.8) {
			const projection = { list: { $slice: -5 } };
			const found = await this.attempt('page', () => this.books.findOne({ _id: this.name }, { projection }));
			if (found !== null) {
				this.same('page', found.list, this.array.slice(-5));
			}
		} else {
			const found = await this.attempt('find', () => this.books.findOne({ _id: this.name }));
			if (found !== null) {
				this.same('find', found.list, this.array);
			}
		}
	}

	async run() {
		await this.certainly('insert', () => this.books.updateOne(
			{ _id: this.name }, { $setOnInsert: { list: [], v: 0 } }, { upsert: true }));
		await pause(Math.random() * 1000 / this.pace);
		while (!over) {
			const began = Date.now();
			await this.step();
			await pause(1000 / this.pace - (Date.now() - began));
		}
		this.same('end', (await this.certainly('find', () => this.books.findOne({ _id: this.name }))).list, this.array);
		await this.client.close();
	}
}

async function main(uri, database, prefix, count, pace) {
	process.stdin.on('end', () => { over = true; wake(); }).resume();
	const timer = setInterval(() => {
		tell({ done: second.done, longest: second.longest });
		Object.assign(second, { done: 0, longest: 0 });
	}, 1000);
	const workers = Array.from({ length: Number(count) },
		(_, i) => new Worker(uri, database, `${prefix}${i}`, Number(pace)));
	await Promise.all(workers.map((worker) => worker.run()));
	clearInterval(timer);
	tell({ over: workers.length });
}

main(...process.argv.slice(2)).catch((error) => {
	console.error(error);
	process.exitCode = 1;
});
