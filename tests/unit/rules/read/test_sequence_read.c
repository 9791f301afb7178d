/* Tests rules/read/sequence_read.c, fetch.c, sequence_fields.c: finds, getMores and aggregates,
 * through every order of replies. */
#include "tests/unit/play.h"

#define OK "'ok': 1.0"
#define CURSOR(batch) \
	"{'cursor': {" batch ", 'id': {'$numberLong': '0'}, 'ns': 'shop.books'}, " OK "}"
#define OPEN(batch) \
	"{'cursor': {" batch ", 'id': {'$numberLong': '9'}, 'ns': 'shop.books'}, " OK "}"
/* A main document of which two elements are overflow. */
#define SPILLED(id, g) \
	"{'_id': " #id ", 'f': [1, 2, 5], '_spill': {'f': {'g': " g ", 'h': 2, 'n': 2}}}"
#define WHOLE(id) "{'_id': " #id ", 'f': [1, 2, 3, 4, 5]}"
#define BATCH(id, g, i, p, elements) \
	"{'book': " #id ", '_spill': {'g': " g ", 'p': " #p ", 'i': " #i "}, 'more': [" elements \
	"]}"
#define OVERFLOW(documents) \
	"{'cursor': {'firstBatch': [" documents "], 'id': {'$numberLong': '0'}, " \
	"'ns': 'shop.books_more'}, " OK "}"
#define ASKS(ids, gs, fields) \
	"{'find': 'books_more', 'filter': {'book': {'$in': [" ids "]}, " \
	"'_spill.g': {'$in': [" gs "]}}, 'sort': {'book': 1, '_spill.i': 1}, " \
	"'batchSize': 2147483647, '$db': 'shop', " fields "}"
#define KILLS(fields) \
	"{'killCursors': 'books', 'cursors': [{'$numberLong': '9'}], '$db': 'shop'" fields "}"
#define NOT_MASTER \
	"{'ok': 0.0, 'errmsg': 'not primary', 'code': 10107, 'codeName': 'NotWritablePrimary'}"

static struct play play;

/* The client's find has been answered with one spilled document, its cursor still open. */
static void start_find(const char *find)
{
	play_command(&play, find, VERDICT_READ);
	play_reply(&play, OPEN("'firstBatch': [" SPILLED(7, G1) "]"));
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
}

#define FIND "{'find': 'books', '$db': 'shop'}"

/* Of whatever size they are; it is no damage. */
Test(sequence_read, more_elements_than_a_message_holds_are_too_many)
{
	play_command(&play, FIND, VERDICT_READ);
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [1, 2], '_spill': {'f': {'g': " G1
				 ", 'h': 2, 'n': 7000000}}}]"));
	play_reply(&play, made_text(OVERFLOW(BATCH(7, G1, 1, 0, "'%0*d'")), 3 * 7000000, 0));
	play_expect_error(&play, 10334, "passes the limit of a message");
	play_close(&play);
}

Test(sequence_read, a_spilled_document_is_put_together_between_its_neighbours)
{
	play_command(&play, FIND, VERDICT_READ);
	play_expect_forwarded(&play);
	play_reply(
		&play,
		"{'cursor': {'partialResultsReturned': true, 'firstBatch': [{'_id': 1}, " SPILLED(
			7, G1) ", {'_id': 3, 'f': []}], 'id': {'$numberLong': '0'}, "
			       "'ns': 'shop.books'}, 'ok': 1.0, 'operationTime': {'$timestamp': "
			       "{'t': 5, 'i': 6}}}");
	play_expect_helper(&play, ASKS("7", G1, NEAREST));
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4")));
	play_expect_answer(
		&play,
		"{'cursor': {'partialResultsReturned': true, 'firstBatch': [{'_id': 1}, " WHOLE(
			7) ", {'_id': 3, 'f': []}], 'id': {'$numberLong': '0'}, "
			   "'ns': 'shop.books'}, 'ok': 1.0, 'operationTime': {'$timestamp': "
			   "{'t': 5, 'i': 6}}}");
	cr_assert_eq(play.sequence->counts.merged, 1);
	cr_assert_eq(play.sequence->counts.fetches, 1);
	cr_assert_eq(play_notes(&play), 0);
	play_close(&play);
}

Test(sequence_read, replies_that_need_nothing_pass_as_they_are)
{
	static const char *const replies[] = {
		CURSOR("'firstBatch': [{'_id': 1, 'f': [1, 2]}]"),
		OPEN("'firstBatch': []"), /* batchSize: 0 */
		OPEN("'firstBatch': [{'f': 1}]"),
		"{'queryPlanner': {}, 'ok': 1.0}", /* an aggregate's explain */
		"{'ok': 0.0, 'errmsg': 'no', 'code': 96, 'codeName': 'OperationFailed'}",
		NOT_MASTER,
		"{'cursor': 5, 'ok': 1.0}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(replies); i++) {
		play_command(&play, FIND, VERDICT_READ);
		play_reply(&play, replies[i]);
		play_expect_passed(&play);
		play_close(&play);
	}
	play_command(&play, FIND, VERDICT_READ);
	play_reply_broken(&play);
	play_expect_passed(&play);
	play_close(&play);
	play_command(&play, FIND, VERDICT_READ);
	play_reply_old(&play);
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_read, hidden_names_are_taken_out_without_any_helper)
{
	play_command(&play, FIND, VERDICT_READ);
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 1, 'has_extras': true, '_spill': {}, "
				 "'x': 1, '$recordId': {'$numberLong': '4'}}]"));
	play_expect_answer(&play, CURSOR("'firstBatch': [{'_id': 1, 'x': 1, "
					 "'$recordId': {'$numberLong': '4'}}]"));
	play_close(&play);
}

Test(sequence_read, a_get_more_and_an_aggregate_are_merged_too)
{
	play_command(&play,
		     "{'getMore': {'$numberLong': '9'}, 'collection': 'books', '$db': 'shop'}",
		     VERDICT_READ);
	play_expect_forwarded(&play);
	play_reply(&play, CURSOR("'nextBatch': [" SPILLED(7, G1) "]"));
	play_expect_helper(&play, ASKS("7", G1, NEAREST));
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4")));
	play_expect_answer(&play, CURSOR("'nextBatch': [" WHOLE(7) "]"));
	play_close(&play);

	play_command(&play,
		     "{'aggregate': 'books', 'pipeline': [{'$limit': 5}], 'cursor': {}, "
		     "'$db': 'shop'}",
		     VERDICT_READ);
	play_expect_forwarded(&play);
	play_reply(&play, OPEN("'firstBatch': [" SPILLED(7, G1) "]"));
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4")));
	play_expect_answer(&play, OPEN("'firstBatch': [" WHOLE(7) "]"));
	play_close(&play);
}

Test(sequence_read, overflow_comes_in_as_many_replies_as_it_needs)
{
	start_find(FIND);
	play_reply(
		&play,
		"{'cursor': {'firstBatch': [" BATCH(
			7, G1, 1, 0,
			"3") "], "
			     "'id': {'$numberLong': '55'}, 'ns': 'shop.books_more'}, 'ok': 1.0}");
	play_expect_helper(&play, "{'getMore': {'$numberLong': '55'}, 'collection': 'books_more', "
				  "'$db': 'shop'}");
	play_reply(&play, "{'cursor': {'nextBatch': [], 'id': {'$numberLong': '55'}, "
			  "'ns': 'shop.books_more'}, 'ok': 1.0}");
	play_expect_helper(&play, "{'getMore': {'$numberLong': '55'}, 'collection': 'books_more', "
				  "'$db': 'shop'}");
	play_reply(&play,
		   "{'cursor': {'nextBatch': [" BATCH(
			   7, G1, 2, 1,
			   "4") "], "
				"'id': {'$numberLong': '0'}, 'ns': 'shop.books_more'}, 'ok': 1.0}");
	play_expect_answer(&play, OPEN("'firstBatch': [" WHOLE(7) "]"));
	cr_assert_eq(play.sequence->counts.fetches, 1);
	play_close(&play);
}

/* So that mongod builds its reply in memory of the right size. */
Test(sequence_read, much_overflow_comes_by_a_get_more)
{
	static const char spilled[] =
		"{'_id': 7, 'f': [1], '_spill': {'f': {'g': " G1 ", 'h': 1, 'n': %d}}}";

	for (int many = 0; many <= 1; many++) {
		play_command(&play, FIND, VERDICT_READ);
		play_reply(&play, made_text("{'cursor': {'firstBatch': [%s], 'id': 0, 'ns': "
					    "'shop.books'}, 'ok': 1.0}",
					    made_text(spilled, 20000 + many)));
		play_expect_helper(
			&play,
			made_text("{'find': 'books_more', 'filter': {'book': {'$in': "
				  "[7]}, '_spill.g': {'$in': [" G1 "]}}, 'sort': {'book': "
				  "1, '_spill.i': 1}, 'batchSize': %d, '$db': 'shop', " NEAREST "}",
				  many ? 1 : 2147483647));
		/* Of the one document that the find brings, no large reply is expected. */
		if (many)
			cr_assert_eq(play.sequence->reply.expected, 0);
		else
			cr_assert_gt(play.sequence->reply.expected, 20000 * sizeof("_0____"));
		play_close(&play);
	}
}

/* Documents made from the format and their numbers, with commas between them. */
static const char *hundred(const char *format)
{
	const char *all = "";

	for (int i = 0; i < 100; i++) {
		const char *number = made_text("%d", i), *one = "";

		for (const char *c = format; *c; c++)
			one = *c == '#' ? made_text("%s%s", one, number)
					: made_text("%s%c", one, *c);
		all = made_text(i ? "%s, %s" : "%s%s", all, one);
	}
	return all;
}

Test(sequence_read, one_query_serves_a_hundred_documents)
{
	play_command(&play, FIND, VERDICT_READ);
	play_reply(&play, made_text(CURSOR("'firstBatch': [%s]"),
				    hundred("{'_id': #, 'f': [1, 2], '_spill': {'f': {'g': " G1
					    ", 'h': 2, 'n': 1}}}")));
	play_reply(&play, made_text(OVERFLOW("%s"), hundred("{'book': #, '_spill': {'g': " G1
							    ", 'p': 0, 'i': 1}, 'more': [3]}")));
	play_expect_answer(&play, made_text(CURSOR("'firstBatch': [%s]"),
					    hundred("{'_id': #, 'f': [1, 2, 3]}")));
	cr_assert_eq(play.sequence->counts.merged, 100);
	cr_assert_eq(play.sequence->counts.fetches, 1);
	play_close(&play);
}

Test(sequence_read, each_rule_of_a_namespace_has_its_overflow)
{
	play_command(&play, "{'find': 'pairs', '$db': 'shop'}", VERDICT_READ);
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 'k', 'f': [1, 2], 'a': {'g': [6, 7], "
				 "'z': 1}, '_spill': {'f': {'g': " G1 ", 'h': 2, 'n': 1}, "
				 "'a/g': {'g': " G2 ", 'h': 1, 'n': 2}}}]"));
	play_expect_helper(&play,
			   "{'find': 'pairs_more', 'filter': {'pair': {'$in': ['k']}, "
			   "'_spill.g': {'$in': [" G1 "]}}, 'sort': {'pair': 1, "
			   "'_spill.i': 1}, 'batchSize': 2147483647, '$db': 'shop', " NEAREST "}");
	play_reply(&play, OVERFLOW("{'pair': 'k', '_spill': {'g': " G1 ", 'p': 0}, 'more': [3]}"));
	play_expect_helper(&play,
			   "{'find': 'rest', 'filter': {'of': {'$in': ['k']}, "
			   "'_spill.g': {'$in': [" G2 "]}}, 'sort': {'of': 1, "
			   "'number': 1}, 'batchSize': 2147483647, '$db': 'side', " NEAREST "}");
	play_reply(&play, OVERFLOW("{'of': 'k', 'number': 1, '_spill': {'g': " G2 ", 'p': 0}, "
				   "'rest': [8, 9]}"));
	play_expect_answer(&play, CURSOR("'firstBatch': [{'_id': 'k', 'f': [1, 2, 3], "
					 "'a': {'g': [6, 8, 9, 7], 'z': 1}}]"));
	play_close(&play);
}

/* ---- what helpers carry ---- */

#define API "'apiVersion': '1', 'apiStrict': true, 'apiDeprecationErrors': true"
#define CLUSTER_TIME \
	"'$clusterTime': {'clusterTime': {'$timestamp': {'t': 9, 'i': 1}}, 'signature': {}}"
#define SECONDARY "'$readPreference': {'mode': 'secondary', 'tags': [{'a': 'b'}]}"

struct carried {
	const char *find;     /* fields of the client's find */
	const char *overflow; /* of our find in the overflow */
	const char *get_more; /* of our getMore there */
	const char *kill;     /* of our killCursors, behind a comma */
};

Test(sequence_read, helpers_carry_what_the_client_s_command_carried)
{
	static const struct carried cases[] = {
		{"'batchSize': 2, 'noCursorTimeout': true, 'sort': {'x': 1}, 'collation': "
		 "{'locale': 'de'}",
		 NEAREST, "", ""},
		{LSID ", 'readConcern': {'level': 'majority', 'afterClusterTime': {'$timestamp': "
		      "{'t': 1, 'i': 2}}}",
		 LSID ", 'readConcern': {'level': 'majority', 'afterClusterTime': {'$timestamp': "
		      "{'t': 1, 'i': 2}}}, " NEAREST,
		 ", " LSID, ", " LSID},
		{SECONDARY ", 'comment': {'c': 1}", "'comment': {'c': 1}, " SECONDARY,
		 ", 'comment': {'c': 1}", ", 'comment': {'c': 1}"},
		{API ", " CLUSTER_TIME, API ", " NEAREST ", " CLUSTER_TIME, ", " API, ", " API},
		/* no read concern, and no read preference of ours, behind a transaction's first */
		{TRANSACTION ", 'startTransaction': true, 'readConcern': {'level': 'snapshot'}",
		 TRANSACTION, ", " TRANSACTION, ", " TRANSACTION},
		{TRANSACTION ", '$readPreference': {'mode': 'primary'}",
		 TRANSACTION ", '$readPreference': {'mode': 'primary'}", ", " TRANSACTION,
		 ", " TRANSACTION},
		/* what is left of it; a limit of 0 is none */
		{"'maxTimeMS': 500", NEAREST ", 'maxTimeMS': {'$numberLong': '260'}", "", ""},
		{"'maxTimeMS': 0", NEAREST, "", ""},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		play_command(&play,
			     made_text("{'find': 'books', '$db': 'shop', %s}", cases[i].find),
			     VERDICT_READ);
		play.now += 240999;
		play_reply(&play, OPEN("'firstBatch': [" SPILLED(7, G1) "]"));
		play_expect_helper(&play, made_text(ASKS("7", G1, "%s"), cases[i].overflow));
		play_reply(&play, "{'cursor': {'firstBatch': [], 'id': {'$numberLong': '55'}, "
				  "'ns': 'shop.books_more'}, 'ok': 1.0}");
		play_expect_helper(&play, made_text("{'getMore': {'$numberLong': '55'}, "
						    "'collection': 'books_more', '$db': 'shop'%s}",
						    cases[i].get_more));
		play_reply(&play, NOT_MASTER);
		play_expect_helper(&play, made_text(KILLS("%s"), cases[i].kill));
		play_close(&play);
	}
}

Test(sequence_read, helpers_of_a_snapshot_read_the_same_snapshot)
{
	play_command(&play,
		     "{'find': 'books', '$db': 'shop', " LSID
		     ", 'readConcern': {'level': 'snapshot'}}",
		     VERDICT_READ);
	play_reply(
		&play,
		"{'cursor': {'firstBatch': [" SPILLED(
			7, G1) "], 'id': {'$numberLong': "
			       "'0'}, 'ns': 'shop.books', 'atClusterTime': {'$timestamp': {'t': 8, "
			       "'i': 2}}}, 'ok': 1.0}");
	play_expect_helper(
		&play, ASKS("7", G1,
			    LSID ", 'readConcern': {'level': 'snapshot', "
				 "'atClusterTime': {'$timestamp': {'t': 8, 'i': 2}}}, " NEAREST));
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4")));
	play_expect_answer(&play,
			   "{'cursor': {'firstBatch': [" WHOLE(
				   7) "], 'id': {'$numberLong': "
				      "'0'}, 'ns': 'shop.books', 'atClusterTime': {'$timestamp': "
				      "{'t': 8, 'i': 2}}}, 'ok': 1.0}");
	play_close(&play);
}

/* ---- how the client's command goes out ---- */

Test(sequence_read, a_projection_is_completed_so_that_its_documents_can_be_merged)
{
	play_command(&play,
		     "{'find': 'books', 'filter': {'x': 1}, 'projection': {'f': 1}, 'limit': 3, "
		     "'$db': 'shop'}",
		     VERDICT_READ);
	play_expect_sent(&play, 0,
			 "{'find': 'books', 'filter': {'x': 1}, 'projection': {'f': 1, "
			 "'_spill': 1}, 'limit': 3, '$db': 'shop'}");
	cr_assert_eq(play.sent_id, PLAY_ID, "it is the client's command still");
	play_reply(&play, CURSOR("'firstBatch': [" SPILLED(7, G1) "]"));
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4")));
	play_expect_answer(&play, CURSOR("'firstBatch': [" WHOLE(7) "]"));
	play_close(&play);

	play_command(&play, "{'find': 'books', 'projection': {'x': 1}, '$db': 'shop'}",
		     VERDICT_READ);
	play_expect_forwarded(&play);
	play_close(&play);
}

Test(sequence_read, a_hidden_id_links_the_overflow_and_is_taken_out)
{
	play_command(&play, "{'find': 'books', 'projection': {'_id': 0, 'f': 1}, '$db': 'shop'}",
		     VERDICT_READ);
	play_expect_sent(&play, 0,
			 "{'find': 'books', 'projection': {'f': 1, '_spill.f': 1, '_spill./id': "
			 "{'$meta': 'recordId'}}, '$db': 'shop'}");
	play_reply(&play,
		   CURSOR("'firstBatch': [{'_id': 7, 'f': [1, 2, 5], '_spill': {'f': {'g': " G1
			  ", 'h': 2, 'n': 2}, '/id': {'$numberLong': '1'}}}]"));
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4")));
	play_expect_answer(&play, CURSOR("'firstBatch': [{'f': [1, 2, 3, 4, 5]}]"));
	play_close(&play);
}

Test(sequence_read, the_server_streams_no_replies_as_helpers_need_the_connection)
{
	struct made made = {
		.body = "{'getMore': {'$numberLong': '9'}, 'collection': 'books', '$db': 'shop'}",
		.flags = MESSAGE_EXHAUST_ALLOWED,
		.checksum = true};

	play_request(&play, made, VERDICT_READ);
	play_expect_sent(&play, 0, made.body);
	cr_assert_eq(play.sent_id, PLAY_ID);
	play_close(&play);
	made.packed = true;
	made.compressor = COMPRESSOR_ZLIB;
	play_request(&play, made, VERDICT_READ);
	play_expect_sent(&play, 0, made.body);
	play_reply(&play, CURSOR("'nextBatch': [" SPILLED(7, G1) "]"));
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4")));
	play_expect_answer(&play, CURSOR("'nextBatch': [" WHOLE(7) "]"));
	play_close(&play);
}

/* By other rules, the next getMore may go out as it is: its bytes have the id that is answered, and
 * the cursor that the answer names. */
Test(sequence_read, the_next_request_of_a_stream_has_its_ids_in_its_bytes)
{
	struct packet next, sent;
	struct element cursor;

	for (int packed = 0; packed < 2; packed++) {
		struct made made = {.body = "{'getMore': {'$numberLong': '9'}, 'collection': "
					    "'books', '$db': 'shop'}",
				    .flags = MESSAGE_EXHAUST_ALLOWED,
				    .packed = packed,
				    .compressor = COMPRESSOR_ZLIB};

		play_request(&play, made, VERDICT_READ);
		play_reply(&play, "{'cursor': {'nextBatch': [{'_id': 1}], 'id': {'$numberLong': "
				  "'77'}, 'ns': 'shop.books'}, 'ok': 1.0}");
		cr_assert_eq(play.outcome, SEQUENCE_DONE);
		cr_assert(sequence_streams(play.sequence, &next));
		cr_assert_eq(next.header.request_id, load_int32(play.sequence->output.data + 4));
		cr_assert(document_find(next.message.body, "getMore", &cursor));
		cr_assert_eq(load_int64(cursor.value.data), 77);
		packet_read(&sent, &next.raw);
		cr_assert_eq(packet_compressed(&sent), packed == 1);
		cr_assert_eq(sent.header.request_id, next.header.request_id);
		cr_assert(document_find(sent.message.body, "getMore", &cursor));
		cr_assert_eq(load_int64(cursor.value.data), 77);
		packet_fini(&sent);
		packet_fini(&next);
		play_close(&play);
	}
}

Test(sequence_read, a_read_that_wants_no_reply_gets_none)
{
	struct made made = {.body = FIND, .flags = MESSAGE_MORE_TO_COME};

	play_request(&play, made, VERDICT_READ);
	cr_assert_eq(play.outcome, SEQUENCE_SEND_LAST);
	cr_assert(bytes_equal(play.sequence->output, play.request));
	play_close(&play);
	made.body = "{'find': 'books', 'projection': {'f': 1}, '$db': 'shop'}";
	play_request(&play, made, VERDICT_READ);
	cr_assert_eq(play.outcome, SEQUENCE_SEND_LAST);
	play_close(&play);
}

Test(sequence_read, packed_and_checked_requests_and_replies)
{
	struct made packed = {.body = FIND, .packed = true, .compressor = COMPRESSOR_SNAPPY};
	struct made checked = {.body = FIND, .checksum = true};

	play_request(&play, packed, VERDICT_READ);
	play_expect_forwarded(&play);
	packed.body = OPEN("'firstBatch': [" SPILLED(7, G1) "]");
	play_reply_made(&play, packed);
	play_expect_helper(&play, ASKS("7", G1, NEAREST));
	packed.body = OVERFLOW(BATCH(7, G1, 1, 0, "3, 4"));
	play_reply_made(&play, packed);
	play_expect_answer(&play, OPEN("'firstBatch': [" WHOLE(7) "]"));
	play_close(&play);

	packed.body = FIND;
	play_request(&play, packed, VERDICT_READ);
	packed.body = CURSOR("'firstBatch': []");
	play_reply_made(&play, packed);
	play_expect_passed(&play);
	play_close(&play);

	play_request(&play, checked, VERDICT_READ);
	play_expect_forwarded(&play);
	checked.body = CURSOR("'firstBatch': [" SPILLED(7, G1) "]");
	play_reply_made(&play, checked);
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4")));
	play_expect_answer(&play, CURSOR("'firstBatch': [" WHOLE(7) "]"));
	play_close(&play);
}

/* ---- helpers that fail ---- */

Test(sequence_read, the_server_s_error_goes_on_and_the_cursor_is_closed)
{
	start_find(FIND);
	play_reply(&play, NOT_MASTER);
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'cursorsKilled': [{'$numberLong': '9'}], 'ok': 1.0}");
	play_expect_answer(&play, NOT_MASTER);
	play_close(&play);

	/* whatever becomes of that */
	start_find(FIND);
	play_reply(&play, NOT_MASTER);
	play_reply_broken(&play);
	play_expect_answer(&play, NOT_MASTER);
	play_close(&play);

	/* there is none to close */
	play_command(&play, FIND, VERDICT_READ);
	play_reply(&play, CURSOR("'firstBatch': [" SPILLED(7, G1) "]"));
	play_reply(&play, NOT_MASTER);
	play_expect_answer(&play, NOT_MASTER);
	play_close(&play);

	/* a getMore's documents are gone: nobody may read on behind them */
	play_command(&play,
		     "{'getMore': {'$numberLong': '9'}, 'collection': 'books', '$db': 'shop'}",
		     VERDICT_READ);
	play_reply(&play, OPEN("'nextBatch': [" SPILLED(7, G1) "]"));
	play_reply(&play, NOT_MASTER);
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_answer(&play, NOT_MASTER);
	play_close(&play);
}

/* Replies to the overflow query that can't be right. */
Test(sequence_read, overflow_that_cannot_be_read_is_an_error)
{
	static const char *const replies[] = {
		"{'ok': 1.0}",
		"{'cursor': {}, 'ok': 1.0}",
		"{'cursor': {'firstBatch': 5, 'id': 0}, 'ok': 1.0}",
		"{'cursor': {'firstBatch': []}, 'ok': 1.0}",
		"{'cursor': {'firstBatch': [], 'id': 'x'}, 'ok': 1.0}",
		"{'cursor': {'firstBatch': [5], 'id': 0}, 'ok': 1.0}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(replies); i++) {
		start_find(FIND);
		play_reply(&play, replies[i]);
		play_expect_helper(&play, KILLS(""));
		play_reply(&play, "{'ok': 1.0}");
		play_expect_error(&play, 134,
				  "Spillway rule 'books': the server's reply on "
				  "'shop.books_more' can't be read");
		play_close(&play);
	}
	start_find(FIND);
	play_reply_broken(&play);
	play_reply(&play, "{'ok': 1.0}");
	play_expect_error(&play, 134, "can't be read");
	play_close(&play);
	start_find(FIND);
	play_reply_old(&play);
	play_reply(&play, "{'ok': 1.0}");
	play_expect_error(&play, 134, "can't be read");
	play_close(&play);
}

Test(sequence_read, documents_that_cannot_be_read_are_an_error)
{
	static const struct {
		const char *batch;
		enum error_code code;
		const char *says;
	} cases[] = {
		{"'firstBatch': [{'_id': 1, '_spill': {'f': 5}}]", 301,
		 "the document with _id '1' (int): its state (_spill) is damaged"},
		{"'firstBatch': [{'_id': 0}, {'_id': 'x y', '_spill': 5}]", 301,
		 "the document with _id 'x y' (string): its state"},
		{"'firstBatch': [{'_id': {'$oid': '00112233445566778899aabb'}, '_spill': 5}]", 301,
		 "the document with _id '00112233445566778899aabb' (objectId): its state"},
		{"'firstBatch': [{'_id': {'a': 1}, '_spill': 5}]", 301,
		 "the document with _id '?' (object): its state"},
		{"'firstBatch': [{'_id': 1, '_spill': {'gone': {'g': " G1 ", 'h': 1, 'n': 1}}}]",
		 115, "a rule that the configuration no longer has"},
		{"'firstBatch': [{'_id': 1, '_spill/7': 1}]", 115, "begins with '_spill/'"},
		{"'firstBatch': [5]", 134, "reply can't be read"},
		{"'firstBatch': 5", 134, "reply can't be read"},
		{"'thirdBatch': []", 134, "reply can't be read"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		play_command(&play, FIND, VERDICT_READ);
		play_reply(&play, made_text(OPEN("%s"), cases[i].batch));
		play_expect_helper(&play, KILLS(""));
		play_reply(&play, "{'ok': 1.0}");
		play_expect_error(&play, (int)cases[i].code, cases[i].says);
		play_close(&play);
	}
}

Test(sequence_read, the_client_s_time_is_used_up)
{
	static const char find[] = "{'find': 'books', 'maxTimeMS': 100, '$db': 'shop'}";

	play_command(&play, find, VERDICT_READ);
	play.now += 100000;
	play_reply(&play, OPEN("'firstBatch': [" SPILLED(7, G1) "]"));
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_error(&play, 50, "operation exceeded time limit");
	play_close(&play);

	/* while a document is to be read again */
	start_find(find);
	play.now += 100000;
	play_reply(&play, OVERFLOW(""));
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_error(&play, 50, "operation exceeded time limit");
	play_close(&play);
}

Test(sequence_read, a_read_gives_up_where_memory_is_short)
{
	start_find(FIND);
	cr_assert(sequence_memory(play.sequence) > 100);
	play.memory_short = true;
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4")));
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_error(&play, 365, "limits.memory");
	play_close(&play);

	/* while the overflow's cursor is open as well */
	start_find(FIND);
	play_reply(&play, "{'cursor': {'firstBatch': [], 'id': {'$numberLong': '55'}, 'ns': "
			  "'shop.books_more'}, 'ok': 1.0}");
	play.memory_short = true;
	play_reply(&play, "{'cursor': {'nextBatch': [], 'id': {'$numberLong': '55'}, 'ns': "
			  "'shop.books_more'}, 'ok': 1.0}");
	play_expect_helper(&play, "{'killCursors': 'books_more', 'cursors': [{'$numberLong': "
				  "'55'}], '$db': 'shop'}");
	play_reply(&play, "{'ok': 1.0}");
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_error(&play, 365, "limits.memory");
	play_close(&play);
}

Test(sequence_read, an_overflow_cursor_of_another_database_is_closed_there)
{
	play_command(&play, "{'find': 'pairs', '$db': 'shop'}", VERDICT_READ);
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 1, 'a': {'g': [5]}, '_spill': {'a/g': "
				 "{'g': " G2 ", 'h': 1, 'n': 1}}}]"));
	play_reply(&play, "{'cursor': {'firstBatch': [5], 'id': {'$numberLong': '55'}, 'ns': "
			  "'side.rest'}, 'ok': 1.0}");
	play_expect_helper(&play, "{'killCursors': 'rest', 'cursors': [{'$numberLong': '55'}], "
				  "'$db': 'side'}");
	play_reply(&play, "{'ok': 1.0}");
	play_expect_error(&play, 134, "'side.rest' can't be read");
	play_close(&play);
}

Test(sequence_read, an_error_that_quotes_another_projection_is_told_of_the_clients_own)
{
#define QUOTES(projection) \
	"{'ok': 0.0, 'errmsg': 'error processing query: ns=shop.booksProj: " projection \
	"', 'code': 2, 'codeName': 'BadValue'}"
	play_command(&play, "{'find': 'books', 'projection': {'f': 0}, '$db': 'shop'}",
		     VERDICT_READ);
	play_reply(&play, QUOTES("f, _spill"));
	play_expect_helper(&play, "{'explain': {'find': 'books', 'projection': {'f': 0}}, "
				  "'verbosity': 'queryPlanner', '$db': 'shop'}");
	play_reply(&play, QUOTES("f"));
	play_expect_answer(&play, QUOTES("f"));
	play_close(&play);
	/* it is its own */
	play_command(&play, FIND, VERDICT_READ);
	play_reply(&play, QUOTES(""));
	play_expect_passed(&play);
	play_close(&play);
}

/* ---- windows ---- */

#define LAST_TWO \
	"{'find': 'books', 'filter': {'_id': 7}, 'projection': {'f': {'$slice': -2}}, '$db': " \
	"'shop'}"
#define OVERLAP(g, least, until) \
	"'book': {'$in': [7]}, '_spill.g': " g ", '_spill.i': {'$gte': {'$numberLong': '" #least \
	"'}}, '_spill.p': {'$lt': {'$numberLong': '" #until "'}}"
#define ASKS_WINDOW(filter, fields) \
	"{'find': 'books_more', 'filter': {" filter "}, 'sort': {'book': 1, '_spill.i': 1}, " \
	"'batchSize': 2147483647, '$db': 'shop', " fields "}"

static void start_window(void)
{
	play_command(&play, LAST_TWO, VERDICT_READ);
	/* a head more than the window, so that the end of the array is seen */
	play_expect_sent(&play, 0,
			 "{'find': 'books', 'filter': {'_id': 7}, 'projection': {'f': {'$slice': "
			 "-4}}, '$db': 'shop'}");
	play_reply(&play, CURSOR("'firstBatch': [" SPILLED(7, G1) "]"));
}

Test(sequence_read, a_window_takes_only_the_batches_that_overlap)
{
	start_window();
	play_expect_helper(&play, ASKS_WINDOW(OVERLAP(G1, 1, 2), NEAREST));
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4")));
	play_expect_answer(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [4, 5]}]"));
	cr_assert_eq(play.sequence->counts.merged, 1);
	play_close(&play);

	/* from where the first of them can be */
	start_window();
	play_close(&play);
	play_command(&play,
		     "{'find': 'books', 'limit': 1, 'projection': {'f': {'$slice': [2500, 3]}}, "
		     "'$db': 'shop'}",
		     VERDICT_READ);
	play_expect_sent(&play, 0,
			 "{'find': 'books', 'limit': 1, 'projection': {'f': {'$slice': 2503}}, "
			 "'$db': 'shop'}");
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [1, 2], '_spill': {'f': {'g': " G1
				 ", 'h': 2, 'n': 9000}}}]"));
	play_expect_helper(&play, ASKS_WINDOW(OVERLAP(G1, 3, 2501), NEAREST));
	play_reply(&play, OVERFLOW(BATCH(7, G1, 3, 2497, "8, 9, 10, 11, 12")));
	play_expect_answer(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [9, 10, 11]}]"));
	play_close(&play);
}

/* mongod can't hold the document that it puts together, or the aggregate. */
Test(sequence_read, a_window_that_passes_mongod_s_limit_is_told)
{
	static const char *const failed[][2] = {
		{"Executor error during find command :: caused by :: BSONObj size: 22020351 is "
		 "invalid. First element: _id: 7",
		 "a document passes 16 MB on the way"},
		{"BSONObj size: 17000000 is invalid. First element: aggregate: books",
		 "stands twice in what mongod is asked"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(failed); i++) {
		play_command(&play, LAST_TWO, VERDICT_READ);
		play_reply(&play,
			   CURSOR("'firstBatch': [{'_id': 7, 'f': [1, 2, 3, 5], '_spill': {'f': "
				  "{'g': " G1 ", 'h': 3, 'n': 2}}}]"));
		play_reply(&play, made_text("{'ok': 0.0, 'errmsg': '%s', 'code': 10334, "
					    "'codeName': 'BSONObjectTooLarge'}",
					    failed[i][0]));
		play_expect_error(&play, 10334, failed[i][1]);
		play_close(&play);
	}

	/* of the client's own find, it is mongod's word */
	play_command(&play, LAST_TWO, VERDICT_READ);
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'BSONObj size: 22020351 is invalid', 'code': "
			  "10334, 'codeName': 'BSONObjectTooLarge'}");
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_read, windows_of_many_documents_are_asked_for_at_once)
{
	play_command(&play,
		     "{'find': 'books', 'limit': 9, 'projection': {'f': {'$slice': -2}, 'x': 0}, "
		     "'$db': 'shop'}",
		     VERDICT_READ);
	play_reply(&play,
		   CURSOR("'firstBatch': [" SPILLED(
			   7, G1) ", {'_id': 1, 'f': [1, 2, 3]}, {'_id': "
				  "2, 'f': 5}, {'_id': 3}, {'_id': 4, 'f': [6], '_spill': {}}, "
				  "{'_id': 5, 'f': [1, 2, 8, 9], '_spill': {'f': {'g': " G2
				  ", 'h': 2, 'n': 4}}}, " SPILLED(8, G2) "]"));
	/* the one whose window lies in what main has asks for nothing */
	play_expect_helper(&play,
			   ASKS_WINDOW("'$or': [{" OVERLAP(
					       G1, 1, 2) "}, {'book': {'$in': [8]}, '_spill.g': " G2
							 ", '_spill.i': {'$gte': {'$numberLong': "
							 "'1'}}, '_spill.p': {'$lt': "
							 "{'$numberLong': '2'}}}]",
				       NEAREST));
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4") ", " BATCH(8, G2, 1, 0, "13, 14")));
	play_expect_answer(
		&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [4, 5]}, {'_id': 1, 'f': [2, 3]}, "
			      "{'_id': 2, "
			      "'f': 5}, {'_id': 3}, {'_id': 4, 'f': [6]}, {'_id': 5, 'f': [8, 9]}, "
			      "{'_id': 8, 'f': [14, 5]}]"));
	cr_assert_eq(play.sequence->counts.fetches, 1);
	cr_assert_eq(play.sequence->counts.merged, 2);
	play_close(&play);
}

/* Asks this collection; `batch` answers. */
static void expect_batches(const char *collection, const char *batch)
{
	struct bytes body = play_message(&play).body;
	struct element find;

	cr_assert_eq(play.outcome, SEQUENCE_SEND);
	cr_assert(document_find(body, "find", &find));
	cr_assert(memmem(find.value.data, find.value.length, collection, strlen(collection)));
	play_reply(&play, made_text(OVERFLOW("%s"), batch));
}

/* Of the other rule's array all batches are wanted; or none, where it doesn't come. */
Test(sequence_read, a_window_of_one_array_and_another_that_comes_whole_or_not)
{
	for (int whole = 0; whole < 2; whole++) {
		play_command(
			&play,
			made_text("{'find': 'shown', 'filter': {'_id': 7}, 'projection': {'f': "
				  "{'$slice': [3, 1]}%s}, '$db': 'shop'}",
				  whole ? "" : ", 'g': 0"),
			VERDICT_READ);
		play_reply(&play,
			   made_text(CURSOR("'firstBatch': [{'_id': 7, 'f': [1, 2]%s, "
					    "'_spill': {'f': {'g': " G1 ", 'h': 2, 'n': 4}%s}}]"),
				     whole ? ", 'g': [1]" : "",
				     whole ? ", 'g': {'g': " G2 ", 'h': 1, 'n': 2}" : ""));
		expect_batches("shown_more", "{'of': 7, '_spill': {'g': " G1
					     ", 'p': 0, 'i': 1}, 'more': [3, 4, 5, 6]}");
		if (whole)
			expect_batches("shown_wide", "{'of': 7, '_spill': {'g': " G2
						     ", 'p': 0, 'i': 1}, 'more': [8, 9]}");
		play_expect_answer(&play,
				   made_text(CURSOR("'firstBatch': [{'_id': 7, 'f': [4]%s}]"),
					     whole ? ", 'g': [1, 8, 9]" : ""));
		play_close(&play);
	}
}

Test(sequence_read, windows_that_need_no_overflow)
{
	play_command(&play,
		     "{'find': 'books', 'limit': 50, 'projection': {'f': {'$slice': 2}, "
		     "'_id': 0, 'x': 1}, '$db': 'shop'}",
		     VERDICT_READ);
	play_expect_sent(&play, 0,
			 "{'find': 'books', 'limit': 50, 'projection': {'f': {'$slice': "
			 "2}, 'x': 1, " SPARE
			 "'_spill.f': 1, '_spill./id': {'$meta': 'recordId'}}, "
			 "'$db': 'shop'}");
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [1, 2], '_spill': {'f': {'g': " G1
				 ", 'h': 2, 'n': 2}, '/id': 5}}]"));
	play_expect_answer(&play, CURSOR("'firstBatch': [{'f': [1, 2]}]"));
	play_close(&play);

	/* what is not spilled, and no longer than its window, passes as it came */
	play_command(&play, LAST_TWO, VERDICT_READ);
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [1, 2]}]"));
	play_expect_passed(&play);
	play_close(&play);
	play_command(&play, LAST_TWO, VERDICT_READ);
	play_reply(&play, NOT_MASTER);
	play_expect_passed(&play);
	play_close(&play);
}

#define WINDOW_AGAIN \
	"{'find': 'books', 'filter': {'$and': [{'_id': 7}, {'_id': 7}]}, 'projection': {'f': " \
	"{'$slice': -4}}, 'singleBatch': true, '$db': 'shop', " NEAREST "}"

Test(sequence_read, a_window_whose_generation_died_is_read_again)
{
	start_window();
	play_reply(&play, OVERFLOW(""));
	play_expect_helper(&play, WINDOW_AGAIN);
	/* now among all batches: they may be larger than the rule has them today */
	play_reply(&play, CURSOR("'firstBatch': [" SPILLED(7, G2) "]"));
	play_expect_helper(&play, ASKS_WINDOW(OVERLAP(G2, 1, 2), NEAREST));
	play_reply(&play, OVERFLOW(BATCH(7, G2, 1, 1, "4")));
	play_expect_answer(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [4, 5]}]"));
	cr_assert_eq(play.sequence->counts.repeats, 1);
	play_close(&play);

	/* it was folded back, or is gone */
	start_window();
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [1, 2, 3]}]"));
	play_expect_answer(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [2, 3]}]"));
	play_close(&play);
	start_window();
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, CURSOR("'firstBatch': []"));
	play_expect_answer(&play, CURSOR("'firstBatch': []"));
	play_close(&play);

	/* never short */
	start_window();
	for (int i = 0; i < 5; i++) {
		play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3")));
		play_expect_helper(&play, WINDOW_AGAIN);
		play_reply(&play, i % 2 ? CURSOR("'firstBatch': [" SPILLED(7, G1) "]")
					: CURSOR("'firstBatch': [" SPILLED(7, G2) "]"));
	}
	play_reply(&play, OVERFLOW(""));
	play_expect_error(&play, 134, "try again");
	play_close(&play);
	/* the state still stands: overflow is missing */
	start_window();
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, CURSOR("'firstBatch': [" SPILLED(7, G1) "]"));
	play_reply(&play, OVERFLOW(""));
	play_expect_error(&play, 301, "the document with _id '7' (int): overflow documents are");
	play_close(&play);
}

Test(sequence_read, a_larger_batch_than_the_rule_s_is_found_the_second_time)
{
	static const char spilled[] =
		CURSOR("'firstBatch': [{'_id': 7, 'f': [1, 2], '_spill': {'f': {'g': " G1
		       ", 'h': 2, 'n': 1500}}}]");

	play_command(&play, LAST_TWO, VERDICT_READ);
	play_reply(&play, spilled);
	play_expect_helper(&play, ASKS_WINDOW(OVERLAP(G1, 2, 1500), NEAREST));
	play_reply(&play, OVERFLOW(""));
	play_expect_helper(&play, WINDOW_AGAIN);
	play_reply(&play, spilled);
	play_expect_helper(&play, ASKS_WINDOW(OVERLAP(G1, 1, 1500), NEAREST));
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 1497, "6, 7, 8")));
	play_expect_answer(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [7, 8]}]"));
	play_close(&play);
}

static void expect_aggregate(void)
{
	struct bytes body;
	struct element first, pipeline;

	cr_assert_eq(play.outcome, SEQUENCE_SEND);
	body = play_message(&play).body;
	cr_assert(document_find(body, "aggregate", &first), "%s", made_json(body));
	cr_assert(document_find_path(body, "pipeline.1.$set", &pipeline) ||
		  document_find(body, "pipeline", &pipeline));
}

/* An outlier of a find of windows that may have several replies. */
#define MARKED(id, g) \
	"{'_id': " #id \
	", 'f': [1, 2, 5], '_spill': {'/window': {'f': [0, -2, false]}, 'f': {'g': " g \
	", 'h': 2, 'n': 2}}}"
#define LOOKS_AT(id) \
	"{'find': 'books', 'filter': {'_id': {'$eq': " #id \
	"}}, 'projection': {'_id': 1, '_spill': " \
	"1}, 'limit': 1, 'singleBatch': true, '$db': 'shop', " NEAREST "}"

/* The server is asked for marks, or to cut all windows. */
static void expect_aggregate_with(const char *text)
{
	expect_aggregate();
	cr_assert(strstr(made_json(play_message(&play).body), text), "%s", text);
}

/* A find of windows whose documents do not come in one reply has been asked once more. */
static void start_marked(const char *projection)
{
	play_command(&play,
		     made_text("{'find': 'books', 'projection': {'f': {'$slice': -2}%s}, "
			       "'$db': 'shop'}",
			       projection),
		     VERDICT_READ);
	play_reply(&play, OPEN("'firstBatch': [" SPILLED(7, G1) "]"));
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'ok': 1.0}");
	expect_aggregate_with("/window");
}

Test(sequence_read, ordinary_documents_come_cut_and_outliers_with_a_mark_in_all_replies)
{
	start_marked("");
	play_reply(&play, OPEN("'firstBatch': [{'_id': 1, 'f': [8, 9]}, " MARKED(7, G1) "]"));
	play_expect_helper(&play, ASKS_WINDOW(OVERLAP(G1, 1, 2), NEAREST));
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4")));
	play_expect_answer(
		&play, OPEN("'firstBatch': [{'_id': 1, 'f': [8, 9]}, {'_id': 7, 'f': [4, 5]}]"));
	play_close(&play);

	play_command(&play,
		     "{'getMore': {'$numberLong': '9'}, 'collection': 'books', '$db': 'shop'}",
		     VERDICT_READ);
	play_reply(&play, CURSOR("'nextBatch': [" MARKED(
				  7, G1) ", {'_id': 1, 'f': [8, 9, 10]}, " MARKED(8, G2) "]"));
	play_expect_helper(
		&play, ASKS_WINDOW("'$or': [{" OVERLAP(
					   G1, 1, 2) "}, {'book': {'$in': [8]}, "
						     "'_spill.g': " G2 ", '_spill.i': {'$gte': "
						     "{'$numberLong': '1'}}, '_spill.p': {'$lt': "
						     "{'$numberLong': '2'}}}]",
				   NEAREST));
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4") ", " BATCH(8, G2, 1, 0, "3, 6")));
	play_expect_answer(&play, CURSOR("'nextBatch': [{'_id': 7, 'f': [4, 5]}, {'_id': 1, 'f': "
					 "[8, 9, 10]}, {'_id': 8, 'f': [6, 5]}]"));
	play_close(&play);

	/* nothing is spilled */
	start_marked(", 'x': 1");
	play_reply(&play, OPEN("'firstBatch': [{'_id': 1, 'f': [8, 9]}]"));
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_read, a_mark_that_no_spillway_writes_is_damage)
{
	start_marked("");
	play_reply(&play, OPEN("'firstBatch': [{'_id': 7, 'f': [1], '_spill': {'/window': 5}}]"));
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_error(&play, 301, "damaged");
	play_close(&play);
}

Test(sequence_read, a_marked_document_whose_generation_died_is_looked_at_again)
{
	/* its batches are longer than those of today */
	start_marked("");
	play_reply(&play, OPEN("'firstBatch': [" MARKED(7, G1) "]"));
	play_reply(&play, OVERFLOW(""));
	play_expect_helper(&play, LOOKS_AT(7));
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7, '_spill': {'f': {'g': " G1
				 ", 'h': 2, 'n': 2}}}]"));
	play_expect_helper(&play, ASKS_WINDOW(OVERLAP(G1, 1, 2), NEAREST));
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4")));
	play_expect_answer(&play, OPEN("'firstBatch': [{'_id': 7, 'f': [4, 5]}]"));
	play_close(&play);

	/* rewritten: mongod cuts all windows */
	start_marked("");
	play_reply(&play, OPEN("'firstBatch': [" MARKED(7, G1) "]"));
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7}]"));
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'ok': 1.0}");
	expect_aggregate_with("$lookup");
	play_reply(&play, OPEN("'firstBatch': [{'_id': 7, 'f': [4, 5]}]"));
	play_expect_passed(&play);
	play_close(&play);

	/* a getMore can't begin again */
	play_command(&play,
		     "{'getMore': {'$numberLong': '9'}, 'collection': 'books', '$db': 'shop'}",
		     VERDICT_READ);
	play_reply(&play, CURSOR("'nextBatch': [" MARKED(7, G1) "]"));
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, CURSOR("'firstBatch': []"));
	play_reply(&play, CURSOR("'firstBatch': [{'name': 'books'}]"));
	play_expect_error(&play, 134, "_id");
	play_close(&play);
}

Test(sequence_read, windows_that_no_mark_can_say_are_cut_by_the_server)
{
	/* more documents than one reply holds, without the `_id` by which overflow is found */
	play_command(&play,
		     "{'find': 'books', 'projection': {'f': {'$slice': -2}, '_id': 0}, '$db': "
		     "'shop'}",
		     VERDICT_READ);
	play_reply(&play, OPEN("'firstBatch': [{'_id': 1, 'f': [8, 9], '_spill': {'/id': null}}]"));
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'ok': 1.0}");
	expect_aggregate_with("$lookup");
	play_reply(&play, OPEN("'firstBatch': [{'f': [4, 5]}]"));
	play_expect_answer(&play, OPEN("'firstBatch': [{'f': [4, 5]}]"));
	play_close(&play);

	/* a longer head than the rule's, at once and when it is read again */
	play_command(&play, LAST_TWO, VERDICT_READ);
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [1, 2, 3, 4], '_spill': {'f': "
				 "{'g': " G1 ", 'h': 3, 'n': 2}}}]"));
	expect_aggregate();
	play_reply(&play, NOT_MASTER);
	play_expect_answer(&play, NOT_MASTER);
	play_close(&play);
	start_window();
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [1, 2, 3, 4], '_spill': {'f': "
				 "{'g': " G1 ", 'h': 3, 'n': 2}}}]"));
	expect_aggregate();
	/* its error is told as a find's */
	play_reply(
		&play,
		"{'ok': 0.0, 'errmsg': 'PlanExecutor error during aggregation :: caused by :: no', "
		"'code': 2, 'codeName': 'BadValue'}");
	play_expect_answer(&play,
			   "{'ok': 0.0, 'errmsg': 'Executor error during find command :: caused "
			   "by :: no', 'code': 2, 'codeName': 'BadValue'}");
	play_close(&play);
}

/* Nothing is said of a document of the find's reply, which is not there any more. */
Test(sequence_read, a_reply_without_a_batch_blames_no_document_of_the_reply_before)
{
	static const char longer_head[] =
		CURSOR("'firstBatch': [{'_id': 7, 'f': [1, 2, 3, 4], '_spill': {'f': {'g': " G1
		       ", 'h': 3, 'n': 2}}}]");
	static const char no_batch[] =
		"{'cursor': {'id': {'$numberLong': '0'}, 'ns': 'shop.books'}, 'ok': 1.0}";

	play_command(&play, LAST_TWO, VERDICT_READ);
	play_reply(&play, longer_head);
	expect_aggregate();
	play_reply(&play, no_batch);
	play_expect_error(&play, 134, "the server's reply can't be read");
	play_close(&play);

	/* nor of one that was read again, and died once more */
	start_window();
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, CURSOR("'firstBatch': [" SPILLED(7, G2) "]"));
	play_reply(&play, OVERFLOW(""));
	play_expect_helper(&play, WINDOW_AGAIN);
	play_reply(&play, no_batch);
	play_expect_error(&play, 134, "the server's reply can't be read");
	play_close(&play);
}

Test(sequence_read, what_only_a_find_can_say_is_refused_where_it_cannot_cut)
{
	const char *find = "{'find': 'books', 'projection': {'f': {'$slice': -2}}, 'limit': 2, "
			   "'showRecordId': true, '$db': 'shop'}";

	play_command(&play, find, VERDICT_READ);
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [1, 2, 3], '$recordId': 1}]"));
	play_expect_answer(&play,
			   CURSOR("'firstBatch': [{'_id': 7, 'f': [2, 3], '$recordId': 1}]"));
	play_close(&play);
	play_command(&play, find, VERDICT_READ);
	play_reply(&play, OPEN("'firstBatch': [{'_id': 7, 'f': [1, 2, 3], '$recordId': 1}]"));
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_error(&play, 115, "showRecordId");
	play_close(&play);
}

Test(sequence_read, a_window_s_helpers_may_fail)
{
	start_window();
	play_reply(&play, NOT_MASTER);
	play_expect_answer(&play, NOT_MASTER);
	play_close(&play);
	start_window();
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, NOT_MASTER);
	play_expect_answer(&play, NOT_MASTER);
	play_close(&play);
	/* a main document without all of its head */
	play_command(&play, LAST_TWO, VERDICT_READ);
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [1], '_spill': {'f': {'g': " G1
				 ", 'h': 2, 'n': 2}}}]"));
	play_expect_error(&play, 301, "spillway verify");
	play_close(&play);

	start_window();
	play.memory_short = true;
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4")));
	play_expect_error(&play, 365, "limits.memory");
	play.memory_short = false;
	play_close(&play);
}

Test(sequence_read, a_window_s_helpers_carry_what_the_client_s_command_carried)
{
	play_command(&play,
		     "{'find': 'books', 'filter': {'_id': 7}, 'projection': {'f': {'$slice': -2}}, "
		     "'maxTimeMS': 100, 'startTransaction': true, 'readConcern': {'level': "
		     "'snapshot'}, " TRANSACTION ", '$db': 'shop'}",
		     VERDICT_READ);
	play.now += 30000;
	play_reply(&play, CURSOR("'firstBatch': [" SPILLED(7, G1) "]"));
	play_expect_helper(&play, ASKS_WINDOW(OVERLAP(G1, 1, 2),
					      TRANSACTION ", 'maxTimeMS': {'$numberLong': '70'}"));
	play.now += 70000;
	play_reply(&play, OVERFLOW(""));
	play_end_transaction(&play);
	play_expect_error(&play, 50, "operation exceeded time limit");
	play_close(&play);
}

/* ---- generations that die ---- */

#define AGAIN(id) \
	"{'find': 'books', 'filter': {'$and': [{'_id': " #id "}]}, 'singleBatch': true, " \
	"'$db': 'shop', " NEAREST "}"

Test(sequence_read, a_document_whose_generation_died_is_read_again)
{
	start_find(FIND);
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3"))); /* one is missing */
	play_expect_helper(&play, AGAIN(7));
	play_reply(&play, CURSOR("'firstBatch': [" SPILLED(7, G2) "]"));
	play_expect_helper(&play, ASKS("7", G2, NEAREST));
	play_reply(&play, OVERFLOW(BATCH(7, G2, 1, 0, "3, 4")));
	play_expect_answer(&play, OPEN("'firstBatch': [" WHOLE(7) "]"));
	cr_assert_eq(play.sequence->counts.repeats, 1);
	cr_assert_eq(play.sequence->counts.fetches, 2);
	play_close(&play);

	/* it is whole meanwhile, and a hole is as bad as an end too early */
	start_find(FIND);
	play_reply(&play, OVERFLOW(BATCH(7, G1, 2, 1, "4, 5")));
	play_expect_helper(&play, AGAIN(7));
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7, 'f': [9]}]"));
	play_expect_answer(&play, OPEN("'firstBatch': [{'_id': 7, 'f': [9]}]"));
	play_close(&play);
}

Test(sequence_read, it_is_read_again_by_the_client_s_own_conditions)
{
	play_command(&play,
		     "{'find': 'books', 'filter': {'x': {'$gt': '$$a'}}, 'sort': {'x': 1}, "
		     "'skip': 5, 'limit': 5, 'batchSize': 1, 'collation': {'locale': 'de'}, "
		     "'let': {'a': 1}, 'projection': {'f': 1}, 'showRecordId': true, "
		     "'maxTimeMS': 100, 'comment': 'c', '$db': 'shop', " SECONDARY "}",
		     VERDICT_READ);
	play_reply(&play, OPEN("'firstBatch': [" SPILLED(7, G1) "]"));
	play.now += 30000;
	play_reply(&play, OVERFLOW(""));
	play_expect_helper(&play, "{'find': 'books', 'filter': {'$and': [{'_id': 7}, {'x': {'$gt': "
				  "'$$a'}}]}, 'projection': {'f': 1, '_spill': 1}, 'collation': "
				  "{'locale': 'de'}, 'let': {'a': 1}, 'showRecordId': true, "
				  "'singleBatch': true, '$db': 'shop', 'comment': 'c', " SECONDARY
				  ", 'maxTimeMS': {'$numberLong': '70'}}");
	/* under that collation others may come, too */
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7.0, 'f': []}, {'_id': 7, 'f': [8], "
				 "'$recordId': 5}]"));
	play_expect_answer(&play, OPEN("'firstBatch': [{'_id': 7, 'f': [8], '$recordId': 5}]"));
	play_close(&play);
}

Test(sequence_read, it_is_read_again_within_the_client_s_bounds)
{
#define BOUNDS "'min': {'x': 1}, 'max': {'x': 9}, 'hint': {'x': 1}"
	start_find("{'find': 'books', 'hint': {'x': 1}, 'max': {'x': 9}, 'min': {'x': 1}, '$db': "
		   "'shop'}");
	play_reply(&play, OVERFLOW(""));
	play_expect_helper(&play, "{'find': 'books', 'filter': {'$and': [{'_id': 7}]}, " BOUNDS
				  ", 'singleBatch': true, '$db': 'shop', " NEAREST "}");
	play_reply(&play, CURSOR("'firstBatch': []"));
	play_expect_answer(&play, OPEN("'firstBatch': []"));
	play_close(&play);
}

Test(sequence_read, what_is_gone_when_it_is_read_again_is_left_out)
{
	play_command(&play, FIND, VERDICT_READ);
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 1}, " SPILLED(7, G1) ", {'_id': 2}]"));
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, CURSOR("'firstBatch': []"));
	play_expect_answer(&play, CURSOR("'firstBatch': [{'_id': 1}, {'_id': 2}]"));
	play_close(&play);
}

Test(sequence_read, the_times_of_the_newest_reply_are_the_answer_s)
{
#define TIMES(t) \
	"'operationTime': {'$timestamp': {'t': " #t ", 'i': 1}}, '$clusterTime': {'clusterTime': " \
	"{'$timestamp': {'t': " #t ", 'i': 1}}}"
#define TIMED(document, t) \
	"{'cursor': {'firstBatch': [" document \
	"], 'id': {'$numberLong': '0'}, 'ns': 'shop.books'}, " OK ", " TIMES(t) "}"
	play_command(&play, FIND, VERDICT_READ);
	play_reply(&play, TIMED(SPILLED(7, G1), 5));
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, TIMED("{'_id': 7}", 6));
	play_expect_answer(&play, TIMED("{'_id': 7}", 6));
	play_close(&play);
}

Test(sequence_read, the_server_s_error_when_it_is_read_again_goes_on)
{
	start_find(FIND);
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, NOT_MASTER);
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_answer(&play, NOT_MASTER);
	play_close(&play);

	start_find(FIND);
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, "{'cursor': {}, 'ok': 1.0}");
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_error(&play, 134, "can't be read");
	play_close(&play);

	start_find(FIND);
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7, '_spill': {'f': 5}}]"));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_error(&play, 301, "the document with _id '7' (int): its state");
	play_close(&play);
}

/* An overflow document that can't be read is as one that is missing. */
Test(sequence_read, a_damaged_document_is_told_from_a_rewritten_one)
{
	static const char *const damaged[] = {
		"",
		BATCH(7, G1, 1, 0, "3"),
		BATCH(7, G2, 1, 0, "3, 4"),
		"{'book': 7, 'more': [3, 4]}",
		"{'book': 7, '_spill': {'g': " G1 ", 'p': 0}, 'more': 5}",
		"{'book': 7, '_spill': {'g': " G1 ", 'p': 'x'}, 'more': [3, 4]}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(damaged); i++) {
		start_find(FIND);
		play_reply(&play, made_text(OVERFLOW("%s"), damaged[i]));
		play_expect_helper(&play, AGAIN(7));
		play_reply(&play, CURSOR("'firstBatch': [" SPILLED(7, G1) "]"));
		play_reply(&play, made_text(OVERFLOW("%s"), damaged[i]));
		play_expect_helper(&play, KILLS(""));
		play_reply(&play, "{'ok': 1.0}");
		play_expect_error(&play, 301,
				  "the document with _id '7' (int): overflow documents are");
		play_close(&play);
	}
}

static void die_five_times(const char *id)
{
	for (int i = 0; i < 5; i++) {
		play_reply(&play, OVERFLOW(""));
		cr_assert_eq(play.outcome, SEQUENCE_SEND);
		play_reply(&play,
			   made_text(CURSOR("'firstBatch': [{'_id': %s, 'f': [1], '_spill': "
					    "{'f': {'g': {'$binary': {'base64': "
					    "'AgIDAgICAgICAgICAgIC%cQ==', 'subType': '00'}}, "
					    "'h': 1, 'n': 1}}}]"),
				     id, 'A' + i));
	}
}

Test(sequence_read, after_five_times_it_is_an_error_never_a_short_array)
{
	start_find(FIND);
	die_five_times("7");
	play_reply(&play, OVERFLOW(""));
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_error(&play, 134, "an array was rewritten while it was being read; try again");
	play_close(&play);
}

Test(sequence_read, each_document_may_die_five_times)
{
	play_command(&play, FIND, VERDICT_READ);
	play_reply(&play, CURSOR("'firstBatch': [" SPILLED(7, G1) ", " SPILLED(8, G2) "]"));
	for (int i = 0; i < 4; i++) {
		play_reply(&play, OVERFLOW(""));
		play_reply(&play, i % 2 ? CURSOR("'firstBatch': [" SPILLED(7, G1) "]")
					: CURSOR("'firstBatch': [" SPILLED(7, G2) "]"));
	}
	play_reply(&play, OVERFLOW(BATCH(7, G1, 1, 0, "3, 4")));
	play_expect_helper(&play, AGAIN(8));
	for (int i = 0; i < 4; i++) {
		play_reply(&play, i % 2 ? CURSOR("'firstBatch': [" SPILLED(8, G2) "]")
					: CURSOR("'firstBatch': [" SPILLED(8, G1) "]"));
		play_reply(&play, OVERFLOW(""));
	}
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 8}]"));
	play_expect_answer(&play, CURSOR("'firstBatch': [" WHOLE(7) ", {'_id': 8}]"));
	cr_assert_eq(play.sequence->counts.repeats, 9);
	play_close(&play);
}

#define LOOKS(id) \
	"{'find': 'books', 'filter': {'_id': {'$eq': " #id "}}, 'projection': {'_id': 1, " \
	"'_spill': 1}, 'limit': 1, 'singleBatch': true, '$db': 'shop', " NEAREST "}"
#define GET_MORE "{'getMore': {'$numberLong': '9'}, 'collection': 'books', '$db': 'shop'}"
#define LISTS \
	"{'listCollections': 1, 'filter': {'name': 'books'}, 'nameOnly': true, " \
	"'authorizedCollections': true, '$db': 'shop', " NEAREST "}"
#define LISTED(collections) \
	"{'cursor': {'firstBatch': [" collections "], 'id': {'$numberLong': '0'}, " \
	"'ns': 'shop.$cmd.listCollections'}, 'ok': 1.0}"
#define THERE LISTED("{'name': 'books', 'type': 'collection'}")
#define DENIED "{'ok': 0.0, 'errmsg': 'no', 'code': 13, 'codeName': 'Unauthorized'}"

Test(sequence_read, where_it_cannot_be_read_again_it_is_an_error)
{
	play_command(&play, GET_MORE, VERDICT_READ);
	play_reply(&play, CURSOR("'nextBatch': [" SPILLED(7, G1) "]"));
	play_reply(&play, OVERFLOW(""));
	play_expect_helper(&play, LOOKS(7));
	play_reply(&play, CURSOR("'firstBatch': [{'_id': 7}]"));
	play_expect_helper(&play, LISTS);
	play_reply(&play, THERE);
	play_expect_error(&play, 134, "try again");
	play_close(&play);
	/* the state still stands */
	play_command(&play, GET_MORE, VERDICT_READ);
	play_reply(&play, CURSOR("'nextBatch': [" SPILLED(7, G1) "]"));
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, CURSOR("'firstBatch': [" SPILLED(7, G1) "]"));
	play_expect_helper(&play, ASKS("7", G1, NEAREST));
	play_reply(&play, OVERFLOW(""));
	play_expect_error(&play, 301, "the document with _id '7' (int): overflow documents are");
	play_close(&play);
	play_command(&play, "{'aggregate': 'books', 'pipeline': [], 'cursor': {}, '$db': 'shop'}",
		     VERDICT_READ);
	play_reply(&play, CURSOR("'firstBatch': [" SPILLED(7, G1) "]"));
	play_reply(&play, OVERFLOW(""));
	play_expect_helper(&play, LOOKS(7));
	play_reply(&play, CURSOR("'firstBatch': []"));
	play_expect_error(&play, 134, "try again");
	play_close(&play);
}

/* What a getMore meets whose collection may have been dropped. */
Test(sequence_read, a_get_more_says_that_its_collection_was_dropped)
{
	static const char dead[] = "{'ok': 0.0, 'errmsg': 'spillway: the generation ended', "
				   "'code': 241, 'codeName': 'ConversionFailure'}";
	static const char unresolved[] =
		"{'ok': 0.0, 'errmsg': 'Executor error during getMore :: caused by :: Unable to "
		"resolve 6c1b', 'code': 26, 'codeName': 'NamespaceNotFound'}";
	static const char *const failed[] = {dead, unresolved};

	for (size_t i = 0; i < ARRAY_LENGTH(failed); i++) {
		play_command(&play, GET_MORE, VERDICT_READ);
		play_reply(&play, failed[i]);
		play_expect_helper(&play, LISTS);
		play_reply(&play, LISTED(""));
		play_expect_error(&play, 175, "collection dropped: 'shop.books'");
		play_close(&play);
	}

	/* its own cursor is closed before */
	play_command(&play, GET_MORE, VERDICT_READ);
	play_reply(&play, OPEN("'nextBatch': [" SPILLED(7, G1) "]"));
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, CURSOR("'firstBatch': []"));
	play_reply(&play, LISTED(""));
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_error(&play, 175, "collection dropped");
	play_close(&play);
}

/* The pipeline may have been an aggregate's, and run in the getMore only. */
Test(sequence_read, a_get_more_has_mongod_s_own_errors_for_those_that_stand_for_them)
{
	static const struct {
		const char *mark;
		int32_t code;
		const char *said;
	} raised[] = {
		{"no document to merge int", 5911200,
		 "Executor error during getMore :: caused by :: $mergeObjects only supports "
		 "objects"},
		{"no matching element int", 51246,
		 "Executor error during getMore :: caused by :: positional operator '.$' couldn't "
		 "find a matching element in the array"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(raised); i++) {
		play_command(&play, GET_MORE, VERDICT_READ);
		play_reply(&play, made_text("{'ok': 0.0, 'errmsg': 'Executor error during getMore "
					    ":: caused by :: Failed to parse objectId spillway: %s "
					    "in $convert with no onError value', 'code': 241, "
					    "'codeName': 'ConversionFailure'}",
					    raised[i].mark));
		play_expect_error(&play, raised[i].code, raised[i].said);
		play_close(&play);
	}
}

Test(sequence_read, a_get_more_whose_collection_is_there_says_what_it_met)
{
	static const char *const listed[] = {THERE, DENIED};

	for (size_t i = 0; i < ARRAY_LENGTH(listed); i++) {
		play_command(&play, GET_MORE, VERDICT_READ);
		play_reply(&play, "{'ok': 0.0, 'errmsg': 'spillway: the generation ended', "
				  "'code': 241, 'codeName': 'ConversionFailure'}");
		play_reply(&play, listed[i]);
		play_expect_error(&play, 134, "try again");
		play_close(&play);

		play_command(&play, GET_MORE, VERDICT_READ);
		play_reply(&play, "{'ok': 0.0, 'errmsg': 'Unable to resolve 6c1b', 'code': 26, "
				  "'codeName': 'NamespaceNotFound'}");
		play_reply(&play, listed[i]);
		play_expect_error(&play, 26, "Unable to resolve 6c1b");
		play_close(&play);
	}

	/* a transaction keeps its collections; nothing else is asked of other errors */
	play_command(&play,
		     "{'getMore': {'$numberLong': '9'}, 'collection': 'books', '$db': "
		     "'shop', " TRANSACTION "}",
		     VERDICT_READ);
	play_reply(&play, CURSOR("'nextBatch': [" SPILLED(7, G1) "]"));
	play_reply(&play, OVERFLOW(""));
	play_reply(&play, CURSOR("'firstBatch': []"));
	play_end_transaction(&play);
	play_expect_error(&play, 134, "try again");
	play_close(&play);
	play_command(&play, GET_MORE, VERDICT_READ);
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'ns not found', 'code': 26, "
			  "'codeName': 'NamespaceNotFound'}");
	play_expect_passed(&play);
	play_close(&play);
}

/* ---- what a reply has no room for ---- */

/* {_id: 5, f: [1]}, as a remainder keeps it. */
#define REST(more) \
	"{'_spill': {'/rest': {'$binary': {'base64': " \
	"'HQAAABBfaWQABQAAAARmAAwAAAAQMAABAAAAAAA=', 'subType': '00'}}" more "}}"
#define RESTED "{'_id': 5, 'f': [1]}"

Test(sequence_read, documents_of_a_remainder_are_what_they_were)
{
	play_command(&play, GET_MORE, VERDICT_READ);
	play_expect_forwarded(&play);
	play_reply(&play, OPEN("'nextBatch': [" REST("") ", " REST("") "]"));
	play_expect_answer(&play, OPEN("'nextBatch': [" RESTED ", " RESTED "]"));
	play_close(&play);
}

Test(sequence_read, behind_a_remainder_the_client_goes_on_where_it_would_have)
{
	play_command(&play, GET_MORE, VERDICT_READ);
	play_reply(&play, OPEN("'nextBatch': [" REST(", '/then': {'$numberLong': '77'}") "]"));
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'cursorsKilled': [], 'ok': 1.0}");
	play_expect_answer(&play,
			   "{'cursor': {'nextBatch': [" RESTED
			   "], 'id': {'$numberLong': '77'}, 'ns': 'shop.books'}, 'ok': 1.0}");
	play_close(&play);

	play_command(&play, GET_MORE, VERDICT_READ);
	play_reply(&play, CURSOR("'nextBatch': [" REST(", '/then': {'$numberLong': '77'}") "]"));
	play_expect_answer(&play,
			   "{'cursor': {'nextBatch': [" RESTED
			   "], 'id': {'$numberLong': '77'}, 'ns': 'shop.books'}, 'ok': 1.0}");
	play_close(&play);

	play_command(&play, GET_MORE, VERDICT_READ);
	play_reply(&play, CURSOR("'nextBatch': [" REST(", '/then': {'$numberLong': '0'}") "]"));
	play_expect_answer(&play, CURSOR("'nextBatch': [" RESTED "]"));
	play_close(&play);
}

Test(sequence_read, a_remainder_that_is_none_is_an_error)
{
	static const char *const broken[] = {
		"{'_spill': {'/rest': 5}}",
		"{'_spill': {'/rest': {'$binary': {'base64': 'AAAA', 'subType': '00'}}}}",
		"{'_spill': {'/then': {'$numberLong': '7'}}}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(broken); i++) {
		char reply[256];

		snprintf(reply, sizeof(reply), CURSOR("'nextBatch': [%s]"), broken[i]);
		play_command(&play, GET_MORE, VERDICT_READ);
		play_reply(&play, reply);
		play_expect_error(&play, 134, "can't be read");
		play_close(&play);
	}
}

/* A reply with one overflow document whose two elements are strings of `size` letters. */
static char *long_overflow(int id, const char *g, size_t size)
{
	char *text = malloc(2 * size + 1000), *letters = malloc(size + 1);

	memset(letters, 'x', size);
	letters[size] = '\0';
	sprintf(text,
		"{'cursor': {'firstBatch': [{'book': %d, '_spill': {'g': %s, 'p': 0, 'i': 1}, "
		"'more': "
		"['%s', '%s']}], 'id': {'$numberLong': '%d'}, 'ns': 'shop.books_more'}, 'ok': 1.0}",
		id, g, letters, letters, id == 7 ? 55 : 0);
	free(letters);
	return text;
}

/* Two documents of 26 MB: the client's find has got to where the second has no room. */
static void start_large(const char *find)
{
	auto_free char *first = long_overflow(7, G1, 13000000),
		       *second = long_overflow(8, G2, 13000000);

	play_command(&play, find, VERDICT_READ);
	play_reply(&play, OPEN("'firstBatch': [" SPILLED(7, G1) ", " SPILLED(8, G2) "]"));
	play_reply(&play, first);
	play_reply(&play, second);
}

Test(sequence_read, what_has_no_room_in_a_reply_is_kept_by_the_server)
{
	struct element field, batch;
	struct message message;
	struct bytes cursor;

	start_large("{'find': 'books', '$db': 'shop'}");
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
	message = play_message(&play);
	cr_assert(document_find(message.body, "aggregate", &field));
	cr_assert(document_find(message.body, "pipeline", &field));
	cr_assert(memmem(field.value.data, field.value.length, "/then\0\x09\0\0", 8));
	play_reply(&play, "{'cursor': {'firstBatch': [], 'id': {'$numberLong': '99'}, 'ns': "
			  "'shop.books'}, 'ok': 1.0}");
	cr_assert_eq(play.outcome, SEQUENCE_DONE);
	cursor = (struct bytes){0};
	cr_assert(document_find(play_message(&play).body, "cursor", &field));
	cursor = field.value;
	cr_assert(document_find(cursor, "id", &field) && load_int64(field.value.data) == 99);
	cr_assert(document_find(cursor, "firstBatch", &batch));
	cr_assert(document_find(batch.value, "0", &field) && field.value.length > 26000000);
	cr_assert_not(document_find(batch.value, "1", &field));
	play_close(&play);
}

Test(sequence_read, a_single_batch_has_no_remainder)
{
	start_large("{'find': 'books', 'singleBatch': true, '$db': 'shop'}");
	cr_assert_eq(play.outcome, SEQUENCE_DONE);
	play_close(&play);
}

Test(sequence_read, a_remainder_that_the_server_does_not_keep_is_the_clients_error)
{
	start_large("{'find': 'books', '$db': 'shop'}");
	play_reply(&play, NOT_MASTER);
	play_expect_helper(&play, KILLS(""));
	play_reply(&play, "{'cursorsKilled': [], 'ok': 1.0}");
	play_expect_answer(&play, NOT_MASTER);
	play_close(&play);
}

/* Its documents have no record id, and a getMore could not tell that their `_id` is hidden. */
Test(sequence_read, a_view_whose_id_is_hidden_is_asked_by_an_aggregate)
{
	play_command(&play, "{'find': 'books', 'projection': {'_id': 0, 'f': 1}, '$db': 'shop'}",
		     VERDICT_READ);
	play_reply(&play,
		   "{'cursor': {'firstBatch': [{'_id': 7, 'f': [1]}], 'id': {'$numberLong': '9'}, "
		   "'ns': 'shop.books'}, 'ok': 1.0}");
	play_expect_helper(&play, "{'killCursors': 'books', 'cursors': [{'$numberLong': '9'}], "
				  "'$db': 'shop'}");
	play_reply(&play, "{'cursorsKilled': [{'$numberLong': '9'}], 'ok': 1.0}");
	expect_aggregate();
	play_reply(&play, CURSOR("'firstBatch': [{'f': [1]}]"));
	play_expect_answer(&play, CURSOR("'firstBatch': [{'f': [1]}]"));
	play_close(&play);
}
