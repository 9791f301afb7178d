/* The Java driver at work: usage Driver.java URI SECONDS; rounds of everything until the time is up. */

import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.Sorts;
import com.mongodb.client.model.UpdateOptions;
import com.mongodb.client.model.Updates;
import java.util.ArrayList;
import java.util.List;
import org.bson.Document;
import org.bson.conversions.Bson;
import org.bson.types.ObjectId;

class Driver {
	static final int FEW = 8, MANY = 20, GROWTH = 200;

	final MongoClient client;
	final MongoCollection<Document> books;
	final ObjectId lasting = new ObjectId();
	int count = 0;

	Driver(MongoClient client) {
		this.client = client;
		this.books = client.getDatabase("shop").getCollection("books");
	}

	static void require(boolean right, Object found) {
		if (!right)
			throw new IllegalStateException("not as it should be: " + found);
	}

	static List<Integer> numbers(int count) {
		List<Integer> made = new ArrayList<>();
		for (int i = 0; i < count; i++)
			made.add(i);
		return made;
	}

	void push(ObjectId id, int number) {
		long modified = books.updateOne(Filters.eq(id), Updates.push("buyers", number)).getModifiedCount();
		require(modified == 1, modified);
	}

	void requireNumbers(ObjectId id, int count) {
		Document found = books.find(Filters.eq(id)).first();
		require(new Document("_id", id).append("buyers", numbers(count)).equals(found), found);
	}

	/* A book that lives through the rounds, so that its tail moves. */
	void grow() {
		if (count == 0 || count > GROWTH) {
			Bson change = Updates.set("buyers", numbers(FEW));
			books.updateOne(Filters.eq(lasting), change, new UpdateOptions().upsert(true));
			count = FEW;
		}
		push(lasting, count++);
		requireNumbers(lasting, count);
	}

	void transact(ObjectId id) {
		try (ClientSession session = client.startSession()) {
			session.withTransaction(() -> {
				books.updateOne(session, Filters.eq(id), Updates.push("buyers", MANY));
				Document found = books.find(session, Filters.eq(id)).first();
				require(found.getList("buyers", Integer.class).size() == MANY + 1, found);
				return null;
			});
		}
		requireNumbers(id, MANY + 1);
	}

	/* Two books, one in each batch: the second comes with a getMore. */
	void readOn(ObjectId id) {
		List<Document> found = new ArrayList<>();
		books.find(Filters.in("_id", lasting, id)).sort(Sorts.ascending("_id")).batchSize(1).into(found);
		require(found.size() == 2, found);
		require(found.get(0).get("buyers").equals(numbers(count)), found);
		require(found.get(1).get("buyers").equals(numbers(MANY + 1)), found);
	}

	void round() {
		ObjectId id = new ObjectId();
		grow();
		books.insertOne(new Document("_id", id).append("buyers", numbers(FEW)));
		for (int i = FEW; i < MANY; i++)
			push(id, i);
		requireNumbers(id, MANY);
		transact(id);
		readOn(id);
		books.deleteOne(Filters.eq(id));
	}

	public static void main(String[] arguments) {
		long until = System.nanoTime() + (long) (Double.parseDouble(arguments[1]) * 1e9);
		int rounds = 0;
		try (MongoClient client = MongoClients.create(arguments[0])) {
			Driver driver = new Driver(client);
			do {
				driver.round();
				rounds++;
			} while (System.nanoTime() < until);
		}
		System.out.println(rounds + " rounds");
	}
}
