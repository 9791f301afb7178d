// The quickstart's show, run by mongosh: a book outgrows its threshold through Spillway, and stands
// there whole, while mongod itself holds it in two places. Throws where anything shown is wrong.
// Environment: SPILLWAY_URI, MONGOD_URI; PATIENCE_S, how long a tail may take to move (30).

const THRESHOLD = 50;
const CUSTOMERS = 120;
const PATIENCE_S = Number(process.env.PATIENCE_S ?? 30);
const TIMED = 200;

const name = (i) => `user${String(i).padStart(3, "0")}`;
const customers = (n) => Array.from({ length: n }, (_, i) => name(i));

function step(text) {
	print(`\n${text}`);
}

function check(what, holds) {
	if (!holds) {
		throw new Error(`wrong: ${what}`);
	}
	print(`   ok: ${what}`);
}

function same(a, b) {
	return EJSON.stringify(a) === EJSON.stringify(b);
}

// Asks again until it holds; how long a tail takes to move is the rule's business (settle, gather).
function eventually(what, holds) {
	const deadline = Date.now() + PATIENCE_S * 1000;
	while (!holds()) {
		if (Date.now() > deadline) {
			throw new Error(`not within ${PATIENCE_S} s: ${what}`);
		}
		sleep(20);
	}
}

function summary(list) {
	return list.length > 4 ? `[ ${list.slice(0, 2)}, ..., ${list.at(-1)} ] (${list.length})` : list;
}

function show(document) {
	for (const [key, value] of Object.entries(document)) {
		print(`      ${key}: ${Array.isArray(value) ? summary(value) : EJSON.stringify(value)}`);
	}
}

// The median of repeated calls, in milliseconds. (mongosh waits for answers in a loop like this, not
// inside the callbacks of Array's functions.)
function timed(f) {
	const times = [];
	for (let i = 0; i < TIMED; i++) {
		const begin = process.hrtime.bigint();
		f(i);
		times.push(Number(process.hrtime.bigint() - begin) / 1e6);
	}
	return times.sort((a, b) => a - b)[TIMED / 2];
}

function pushThroughSpillway(shop) {
	step(`1. Through Spillway: ${CUSTOMERS} customers are pushed to one book.`);
	shop.sales.insertOne({ _id: 2, title: "The Wooden Amulet", customers_purchased: [] });
	for (const customer of customers(CUSTOMERS)) {
		const result = shop.sales.updateOne(
			{ _id: 2 },
			{ $push: { customers_purchased: customer } },
		);
		if (result.modifiedCount !== 1) {
			throw new Error(`the push of ${customer} answered ${EJSON.stringify(result)}`);
		}
	}
	check(`${CUSTOMERS} pushes are acknowledged`, true);
}

function readThroughSpillway(shop) {
	const book = shop.sales.findOne({ _id: 2 });
	show(book);
	check("the book has all its customers, in order",
		same(book.customers_purchased, customers(CUSTOMERS)));
	check("nothing of Spillway's own is seen",
		same(Object.keys(book), ["_id", "title", "customers_purchased"]));
}

function readFromMongod(shop) {
	const book = shop.sales.findOne({ _id: 2 });
	const extras = shop.extra_sales.find({ book_id: 2 }).sort({ "_spill.i": 1 }).toArray();
	print("   shop.sales:");
	show(book);
	for (const extra of extras) {
		print("   shop.extra_sales:");
		show(extra);
	}
	const spilled = extras.flatMap((extra) => extra.customers_purchased_extra);
	check(`the book holds the first ${THRESHOLD} customers and has_extras: true`,
		same(book.customers_purchased, customers(THRESHOLD)) && book.has_extras === true);
	check(`extra_sales holds the other ${CUSTOMERS - THRESHOLD}, in order`,
		same(spilled, customers(CUSTOMERS).slice(THRESHOLD)));
}

function timeBoth(shop, direct) {
	const push = (collection) => timed((i) => collection.updateOne(
		{ _id: "timed" }, { $push: { customers_purchased: name(i) } }, { upsert: true }));
	const find = (collection, id) => timed(() => collection.findOne({ _id: id }));
	print(`   a push:                ${push(shop.sales).toFixed(2)} ms`);
	print(`   straight at mongod:    ${push(direct.plain).toFixed(2)} ms`);
	print(`   the whole book read:   ${find(shop.sales, 2).toFixed(2)} ms`);
	direct.plain.insertOne({ _id: 2, customers_purchased: customers(CUSTOMERS) });
	print(`   as one document:       ${find(direct.plain, 2).toFixed(2)} ms`);
	check(`${TIMED} timed pushes are all there, in order`,
		same(shop.sales.findOne({ _id: "timed" }).customers_purchased, customers(TIMED)));
}

const shop = connect(process.env.SPILLWAY_URI).getSiblingDB("shop");
const direct = connect(process.env.MONGOD_URI).getSiblingDB("shop");

pushThroughSpillway(shop);

step("2. Through Spillway: the book is read whole.");
readThroughSpillway(shop);

step("3. Straight from mongod: the same book once its tail has moved, and its overflow.");
eventually("the book's tail moves to extra_sales",
	() => direct.sales.findOne({ _id: 2 }).customers_purchased.length === THRESHOLD);
readFromMongod(direct);

step("4. Through Spillway: still whole.");
readThroughSpillway(shop);

step(`5. The median of ${TIMED}, as mongosh sees it:`);
timeBoth(shop, direct);
print("");
