// mongosh at work: run with --file; $SECONDS_TO_RUN says for how long.
/* global db, print, ObjectId, process */
const same = (found, expected) => {
	if (JSON.stringify(found) !== JSON.stringify(expected)) {
		throw new Error(`found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`);
	}
};
const numbers = (count) => Array.from({ length: count }, (_, i) => ({ number: i }));
const shop = db.getSiblingDB('shop');

function transact(id) {
	const session = db.getMongo().startSession();
	const books = session.getDatabase('shop').books;
	// The mover may write at the same moment: then the transaction is tried again, as mongod asks.
	session.withTransaction(() => {
		books.updateOne({ _id: id }, { $push: { buyers: { number: 30 } } });
		same(books.findOne({ _id: id }).buyers, numbers(31));
	});
	session.endSession();
	same(shop.books.findOne({ _id: id }), { _id: id, buyers: numbers(31) });
}

// Two books, one in each batch: the second comes with a getMore.
function readOn(id) {
	const found = shop.books.find({ _id: { $in: [id, lasting] } }).sort({ _id: 1 }).batchSize(1).toArray();
	same(found, [{ _id: lasting, buyers: numbers(count) }, { _id: id, buyers: numbers(31) }]);
}

function round() {
	const id = `shell ${new ObjectId()}`;
	shop.books.insertOne({ _id: id, buyers: [] });
	for (let i = 0; i < 15; i++) {
		same(shop.books.updateOne({ _id: id }, { $push: { buyers: { number: i } } }).modifiedCount, 1);
	}
	same(shop.books.findOne({ _id: id }), { _id: id, buyers: numbers(15) });
	same(shop.books.find({ _id: id }, { buyers: 0 }).toArray(), [{ _id: id }]);
	same(shop.books.countDocuments({ _id: id }), 1);
	shop.books.replaceOne({ _id: id }, { buyers: numbers(30) });
	same(shop.books.findOne({ _id: id }, { buyers: 1, _id: 0 }), { buyers: numbers(30) });
	transact(id);
	readOn(id);
	same(shop.books.findOneAndDelete({ _id: id }).buyers, numbers(31));

	shop.notes.insertOne({ _id: id, list: [1, 2, 3] });
	shop.notes.updateOne({ _id: id }, { $pop: { list: 1 } });
	same(shop.notes.find({ list: 2, _id: id }).toArray(), [{ _id: id, list: [1, 2] }]);
	shop.notes.deleteOne({ _id: id });
}

// A book that lives through all rounds, so that its tail moves.
const lasting = `shell ${new ObjectId()}`;
let count = 0;

function grow() {
	if (count === 0 || count > 200) {
		shop.books.updateOne({ _id: lasting }, { $set: { buyers: numbers(10) } }, { upsert: true });
		count = 10;
	}
	shop.books.updateOne({ _id: lasting }, { $push: { buyers: { number: count++ } } });
	same(shop.books.findOne({ _id: lasting }), { _id: lasting, buyers: numbers(count) });
}

const until = Date.now() + Number(process.env.SECONDS_TO_RUN) * 1000;
let rounds = 0;
do {
	grow();
	round();
	rounds++;
} while (Date.now() < until);
print(`${rounds} rounds`);
