/* mongo-c-driver at work: usage mongoc_client URI SECONDS; rounds of everything until the time is
 * up. */
#include <mongoc/mongoc.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	AT_FIRST = 8,
	IN_THE_END = 20,
	AT_MOST = 200,
};

static void __attribute__((format(printf, 1, 2))) fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

static void append_numbers(bson_t *document, int count)
{
	bson_t array;
	char buffer[16];
	const char *key;

	BSON_APPEND_ARRAY_BEGIN(document, "buyers", &array);
	for (int i = 0; i < count; i++) {
		size_t length = bson_uint32_to_string((uint32_t)i, &key, buffer, sizeof(buffer));

		bson_append_int32(&array, key, (int)length, i);
	}
	bson_append_array_end(document, &array);
}

static void require_book(mongoc_collection_t *books, const bson_t *selector, const bson_t *expected)
{
	mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(books, selector, NULL, NULL);
	const bson_t *found;
	bson_error_t error;

	if (!mongoc_cursor_next(cursor, &found)) {
		mongoc_cursor_error(cursor, &error);
		fail("no book: %s", error.message);
	}
	if (!bson_equal(found, expected))
		fail("found %s, expected %s", bson_as_canonical_extended_json(found, NULL),
		     bson_as_canonical_extended_json(expected, NULL));
	mongoc_cursor_destroy(cursor);
}

static void push(mongoc_collection_t *books, const bson_t *selector, int number)
{
	bson_t *change = BCON_NEW("$push", "{", "buyers", BCON_INT32(number), "}");
	bson_error_t error;
	bson_t reply;
	bson_iter_t modified;

	if (!mongoc_collection_update_one(books, selector, change, NULL, &reply, &error))
		fail("push: %s", error.message);
	if (!bson_iter_init_find(&modified, &reply, "modifiedCount") ||
	    bson_iter_as_int64(&modified) != 1)
		fail("push: modifiedCount is not 1");
	bson_destroy(&reply);
	bson_destroy(change);
}

static void insert_book(mongoc_collection_t *books, const bson_t *selector)
{
	bson_t *book = bson_copy(selector);
	bson_error_t error;

	append_numbers(book, AT_FIRST);
	if (!mongoc_collection_insert_one(books, book, NULL, NULL, &error))
		fail("insert: %s", error.message);
	bson_destroy(book);
}

static void require_numbers(mongoc_collection_t *books, const bson_t *selector, int count)
{
	bson_t *expected = bson_copy(selector);

	append_numbers(expected, count);
	require_book(books, selector, expected);
	bson_destroy(expected);
}

static void delete_book(mongoc_collection_t *books, const bson_t *selector)
{
	bson_error_t error;

	if (!mongoc_collection_delete_one(books, selector, NULL, NULL, &error))
		fail("delete: %s", error.message);
}

/* The reply has the label by which the driver runs the transaction again. */
static bool push_inside(mongoc_client_session_t *session, void *context, bson_t **reply,
			bson_error_t *error)
{
	mongoc_collection_t *books = mongoc_client_get_collection(
		mongoc_client_session_get_client(session), "shop", "books");
	bson_t *change = BCON_NEW("$push", "{", "buyers", BCON_INT32(IN_THE_END), "}");
	bson_t options = BSON_INITIALIZER, answer = BSON_INITIALIZER;
	bool done = mongoc_client_session_append(session, &options, error) &&
		    mongoc_collection_update_one(books, context, change, &options, &answer, error);

	*reply = bson_copy(&answer);
	bson_destroy(&answer);
	bson_destroy(&options);
	bson_destroy(change);
	mongoc_collection_destroy(books);
	return done;
}

static void transact(mongoc_client_t *client, bson_t *selector)
{
	mongoc_client_session_t *session;
	bson_error_t error;

	session = mongoc_client_start_session(client, NULL, &error);
	if (!session || !mongoc_client_session_with_transaction(session, push_inside, NULL,
								selector, NULL, &error))
		fail("transaction: %s", error.message);
	mongoc_client_session_destroy(session);
}

/* Two books in batches of one: the second comes with a getMore. */
static void require_both(mongoc_collection_t *books, const bson_t *one, const bson_t *other)
{
	bson_t *filter = BCON_NEW("$or", "[", BCON_DOCUMENT(one), BCON_DOCUMENT(other), "]");
	bson_t *options = BCON_NEW("batchSize", BCON_INT32(1));
	mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(books, filter, options, NULL);
	const bson_t *found;
	bson_error_t error;
	int count = 0;

	while (mongoc_cursor_next(cursor, &found))
		count++;
	if (mongoc_cursor_error(cursor, &error))
		fail("getMore: %s", error.message);
	if (count != 2)
		fail("%d books, not two", count);
	mongoc_cursor_destroy(cursor);
	bson_destroy(options);
	bson_destroy(filter);
}

/* One more for the book that lives through the rounds, so that its tail moves. */
static void grow(mongoc_collection_t *books, const bson_t *selector, int *count)
{
	if (*count == 0 || *count > AT_MOST) {
		delete_book(books, selector);
		insert_book(books, selector);
		*count = AT_FIRST;
	}
	push(books, selector, (*count)++);
	require_numbers(books, selector, *count);
}

static void select_new(bson_t *selector)
{
	bson_oid_t identifier;

	bson_oid_init(&identifier, NULL);
	bson_init(selector);
	BSON_APPEND_OID(selector, "_id", &identifier);
}

static void run_round(mongoc_client_t *client, mongoc_collection_t *books, const bson_t *lasting)
{
	bson_t selector;

	select_new(&selector);
	insert_book(books, &selector);
	for (int i = AT_FIRST; i < IN_THE_END; i++)
		push(books, &selector, i);
	require_numbers(books, &selector, IN_THE_END);
	transact(client, &selector);
	require_numbers(books, &selector, IN_THE_END + 1);
	require_both(books, lasting, &selector);
	delete_book(books, &selector);
	bson_destroy(&selector);
}

static int run(mongoc_client_t *client, double seconds)
{
	mongoc_collection_t *books = mongoc_client_get_collection(client, "shop", "books");
	int64_t until = bson_get_monotonic_time() + (int64_t)(seconds * 1e6);
	int rounds = 0, count = 0;
	bson_t lasting;

	select_new(&lasting);
	do {
		grow(books, &lasting, &count);
		run_round(client, books, &lasting);
		rounds++;
	} while (bson_get_monotonic_time() < until);
	bson_destroy(&lasting);
	mongoc_collection_destroy(books);
	return rounds;
}

int main(int count, char **arguments)
{
	mongoc_client_t *client;

	if (count != 3)
		fail("usage: mongoc_client URI SECONDS");
	mongoc_init();
	client = mongoc_client_new(arguments[1]);
	if (!client)
		fail("no such URI: %s", arguments[1]);
	printf("%d rounds\n", run(client, atof(arguments[2])));
	mongoc_client_destroy(client);
	mongoc_cleanup();
	return 0;
}
