/* Tests rules/query/bulk_ops.c, bulk_reply.c, match_bulk_write.c, sequence_bulk_write.c:
 * mongod 8.0's bulkWrite, run by run, through every order of replies. */
#include "tests/unit/play.h"

#include "rules/write/bulk_reply.h"
#include "rules/query/bulk_ops.h"
#include "rules/sequence/sequence_inner.h"

#define BULK(ops, fields) \
	"{'bulkWrite': 1, 'ops': [" ops \
	"], 'nsInfo': [{'ns': 'shop.books'}, {'ns': 'shop.plain'}, " \
	"{'ns': 'tenant_1.posts'}]" fields ", '$db': 'admin'}"
#define ALL ", 'errorsOnly': false"
#define QUIET ", 'errorsOnly': true"
#define LOOSE ", 'ordered': false"

#define INSERT(namespace, id) "{'insert': " #namespace ", 'document': {'_id': " #id "}}"
#define INSERT_LONG(namespace, id) \
	"{'insert': " #namespace ", 'document': {'_id': " #id ", 'f': [1, 2, 3]}}"
#define PUSH(namespace, id) \
	"{'update': " #namespace ", 'filter': {'_id': " #id "}, 'updateMods': {'$push': {'f': " \
				 "1}}}"
#define PUSHED(id) "{'q': {'_id': " #id "}, 'u': {'$push': {'f': 1}}}"
#define DELETE(namespace, id) "{'delete': " #namespace ", 'filter': {'_id': " #id "}}"
#define DELETED(id) "{'q': {'_id': " #id "}, 'limit': 1}"

#define COUNTS(errors, inserted, matched, modified, upserted, deleted) \
	"'nErrors': " #errors ", 'nInserted': " #inserted ", 'nMatched': " #matched \
	", 'nModified': " #modified ", 'nUpserted': " #upserted ", 'nDeleted': " #deleted ", "
#define ANSWER(items, counts) \
	"{'cursor': {'id': {'$numberLong': '0'}, 'firstBatch': [" items \
	"], 'ns': 'admin.$cmd.bulkWrite'}, " counts "'ok': 1.0}"
#define DONE(index, n) "{'ok': 1.0, 'idx': " #index ", 'n': " #n "}"
#define UPDATED(index, n, modified) \
	"{'ok': 1.0, 'idx': " #index ", 'n': " #n ", 'nModified': " #modified "}"
#define DUPLICATE(index) \
	"{'index': " #index ", 'code': 11000, 'keyPattern': {'_id': 1}, 'errmsg': 'twice'}"
#define FAILED_INSERT(index) \
	"{'ok': 0.0, 'idx': " #index ", 'code': 11000, 'errmsg': 'twice', 'keyPattern': {'_id': " \
	"1}, 'n': 0}"
#define FAILED_UPDATE(index) \
	"{'ok': 0.0, 'idx': " #index ", 'code': 2, 'errmsg': 'bad', 'n': 0, 'nModified': 0}"
#define FAILED_DELETE(index) "{'ok': 0.0, 'idx': " #index ", 'code': 2, 'errmsg': 'bad', 'n': 0}"
#define BAD(index) "{'index': " #index ", 'code': 2, 'errmsg': 'bad'}"

static struct play play;

static void begin(const char *json)
{
	play_command(&play, json, VERDICT_BULK_WRITE);
}

/* The body that goes out, and the statements in its sequence. */
#define expect_run(json, name, documents) \
	do { \
		play_expect_helper(&play, json); \
		play_expect_documents(&play, name, documents); \
	} while (0)

#define BODY(command, collection, database) \
	"{'" command "': '" collection "', 'ordered': true, '$db': '" database "'}"
#define LOOSE_BODY(command, collection, database) \
	"{'" command "': '" collection "', 'ordered': false, '$db': '" database "'}"

/* ---- what is sent, and what comes of it ---- */

Test(bulk_write, each_op_becomes_a_statement_of_the_older_command)
{
	begin(BULK(INSERT(0, 1) ", " INSERT_LONG(0, 2) ", " PUSH(0, 3) ", " DELETE(
			   0, 4) ", " INSERT(1, 5),
		   ALL));
	expect_run(BODY("insert", "books", "shop"), "documents",
		   "[{'_id': 1}, {'_id': 2, 'f': [1, 2, 3]}]");
	play_reply(&play, "{'n': 2, 'ok': 1.0}");
	expect_run(BODY("update", "books", "shop"), "updates", "[" PUSHED(3) "]");
	play_reply(&play, "{'n': 1, 'nModified': 1, 'ok': 1.0}");
	expect_run(BODY("delete", "books", "shop"), "deletes", "[" DELETED(4) "]");
	play_reply(&play, "{'n': 0, 'ok': 1.0}");
	expect_run(BODY("insert", "plain", "shop"), "documents", "[{'_id': 5}]");
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_expect_answer(&play, ANSWER(DONE(0, 1) ", " DONE(1, 1) ", " UPDATED(2, 1, 1) ", " DONE(
						 3, 0) ", " DONE(4, 1),
					 COUNTS(0, 3, 1, 1, 0, 0)));
	cr_assert_eq(play_notes(&play), 3);
	play_close(&play);
}

Test(bulk_write, what_is_cut_in_a_run_is_noted_with_the_runs_before)
{
	begin(BULK(INSERT_LONG(0, 2) ", " PUSH(0, 3) ", " DELETE(0, 4), ALL));
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	expect_run(BODY("update", "books", "shop"), "updates", "[" PUSHED(3) "]");
	cr_assert_eq(play_notes(&play), 1);
	cr_assert_eq(play_cut(&play), 2);
	cr_assert_eq(play.notes[1].reason, MOVER_APPENDED);
	play_close(&play);
}

Test(bulk_write, every_field_of_an_op_goes_with_it)
{
	begin(BULK("{'update': 0, 'filter': {'a': 1}, 'updateMods': {'$set': {'t': 1}}, 'multi': "
		   "true, 'upsert': true, 'arrayFilters': [{'x': 1}], 'hint': 'a_1', 'collation': "
		   "{'locale': 'de'}, 'constants': {'c': 1}, 'sort': {'a': 1}}, "
		   "{'update': 0, 'filter': {}, 'updateMods': [{'$set': {'t': 1}}], "
		   "'upsertSupplied': true, 'hint': {'a': 1}}, "
		   "{'delete': 1, 'filter': {'a': 1}, 'multi': true, 'hint': {'a': 1}, "
		   "'collation': {'locale': 'de'}}, {'delete': 1, 'filter': {}, 'multi': false}",
		   QUIET));
	expect_run(BODY("update", "books", "shop"), "updates",
		   "[{'q': {'a': 1}, 'u': {'$set': {'t': 1}}, 'multi': true, 'upsert': true, "
		   "'arrayFilters': [{'x': 1}], 'hint': 'a_1', 'collation': {'locale': 'de'}, "
		   "'c': {'c': 1}, 'sort': {'a': 1}}, {'q': {}, 'u': [{'$set': {'t': 1}}], "
		   "'upsertSupplied': true, 'hint': {'a': 1}}]");
	play_reply(&play, "{'n': 5, 'nModified': 4, 'upserted': [{'index': 1, '_id': 7}], 'ok': "
			  "1.0}");
	expect_run(BODY("delete", "plain", "shop"), "deletes",
		   "[{'q': {'a': 1}, 'hint': {'a': 1}, 'collation': {'locale': 'de'}, 'limit': 0}, "
		   "{'q': {}, 'limit': 1}]");
	play_reply(&play, "{'n': 9, 'ok': 1.0}");
	play_expect_answer(&play, ANSWER("", COUNTS(0, 0, 4, 4, 1, 9)));
	play_close(&play);
}

Test(bulk_write, fields_of_the_command_go_with_each_run)
{
	begin("{'bulkWrite': 1, 'ops': [" INSERT(0, 1) ", " DELETE(
		0,
		2) "], 'nsInfo': [{'ns': 'shop.books', 'collectionUUID': 5}], 'errorsOnly': true, "
		   "'cursor': {'batchSize': 1}, 'bypassDocumentValidation': true, 'let': {'a': 1}, "
		   "'comment': 'c', 'writeConcern': {'w': 1}, 'readConcern': {'level': 'local'}, "
		   "'apiVersion': '1', '$clusterTime': {}, 'maxTimeMS': 500, '$db': 'admin'}");
	expect_run("{'insert': 'books', 'ordered': true, 'bypassDocumentValidation': true, "
		   "'comment': 'c', 'writeConcern': {'w': 1}, 'readConcern': {'level': 'local'}, "
		   "'apiVersion': '1', '$clusterTime': {}, 'collectionUUID': 5, 'maxTimeMS': "
		   "{'$numberLong': '500'}, '$db': 'shop'}",
		   "documents", "[{'_id': 1}]");
	play.now += 100000;
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	expect_run("{'delete': 'books', 'ordered': true, 'bypassDocumentValidation': true, 'let': "
		   "{'a': 1}, 'comment': 'c', 'writeConcern': {'w': 1}, 'readConcern': {'level': "
		   "'local'}, 'apiVersion': '1', '$clusterTime': {}, 'collectionUUID': 5, "
		   "'maxTimeMS': {'$numberLong': '400'}, '$db': 'shop'}",
		   "deletes", "[" DELETED(2) "]");
	play_close(&play);
}

/* ---- results behind the first batch ---- */

#define SIZED(size) ALL ", 'cursor': {'batchSize': " #size "}"
#define THREE DONE(0, 1) ", " DONE(1, 1) ", " DONE(2, 1)
#define KEPT(items) \
	"{'aggregate': 1, 'pipeline': [{'$documents': {'$literal': [" items \
	"]}}], 'cursor': {'batchSize': 0}, '$db': 'shop'}"
#define SPLIT(items) \
	"{'cursor': {'id': {'$numberLong': '77'}, 'firstBatch': [" items \
	"], 'ns': 'shop.$cmd.aggregate'}, " COUNTS(0, 3, 0, 0, 0, 0) "'ok': 1.0}"

static void insert_three(const char *command)
{
	begin(command);
	expect_run(BODY("insert", "books", "shop"), "documents",
		   "[{'_id': 1}, {'_id': 2}, {'_id': 3}]");
	play_reply(&play, "{'n': 3, 'ok': 1.0}");
}

static void reply_with_cursor(void)
{
	play_reply(&play, "{'cursor': {'id': {'$numberLong': '77'}, 'firstBatch': [], 'ns': "
			  "'shop.$cmd.aggregate'}, 'ok': 1.0}");
}

#define INSERTS INSERT(0, 1) ", " INSERT(0, 2) ", " INSERT(0, 3)

Test(bulk_write, results_behind_the_first_batch_wait_in_a_cursor)
{
	insert_three(BULK(INSERTS, SIZED(2)));
	play_expect_helper(&play, KEPT(DONE(2, 1)));
	reply_with_cursor();
	play_expect_answer(&play, SPLIT(DONE(0, 1) ", " DONE(1, 1)));
	play_close(&play);
	insert_three(BULK(INSERTS, SIZED(0)));
	play_expect_helper(&play, KEPT(THREE));
	reply_with_cursor();
	play_expect_answer(&play, SPLIT(""));
	play_close(&play);
}

Test(bulk_write, a_batch_size_that_all_results_fit_in_needs_no_cursor)
{
	static const char *const commands[] = {BULK(INSERTS, SIZED(3)), BULK(INSERTS, SIZED(4)),
					       BULK(INSERTS, SIZED(null)),
					       BULK(INSERTS, ALL ", 'cursor': {}")};

	for (size_t i = 0; i < ARRAY_LENGTH(commands); i++) {
		insert_three(commands[i]);
		play_expect_answer(&play, ANSWER(THREE, COUNTS(0, 3, 0, 0, 0, 0)));
		play_close(&play);
	}
}

Test(bulk_write, a_batch_size_counts_the_results_that_the_client_wants)
{
	insert_three(BULK(INSERTS, QUIET ", 'cursor': {'batchSize': 0}"));
	play_expect_answer(&play, ANSWER("", COUNTS(0, 3, 0, 0, 0, 0)));
	play_close(&play);
}

Test(bulk_write, without_a_cursor_all_results_come_at_once)
{
	static const char *const replies[] = {
		"{'ok': 0.0, 'code': 40324, 'errmsg': 'Unrecognized pipeline stage name'}",
		"{'ok': 1.0}",
		"{'ok': 1.0, 'cursor': {'id': {'$numberLong': '77'}, 'firstBatch': []}}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(replies); i++) {
		insert_three(BULK(INSERTS, SIZED(1)));
		play_expect_helper(&play, KEPT(DONE(1, 1) ", " DONE(2, 1)));
		play_reply(&play, replies[i]);
		play_expect_answer(&play, ANSWER(THREE, COUNTS(0, 3, 0, 0, 0, 0)));
		play_close(&play);
	}
}

/* A rule without a flag: the update is no edit, and goes out with what takes the array's state
 * along. */
Test(bulk_write, a_run_behind_another_has_no_limit_that_the_client_did_not_set)
{
	struct message message;
	struct element field;

	begin(BULK(INSERT(2, 1) ", {'update': 2, 'filter': {'s': 1}, 'updateMods': {'$unset': "
				"{'likes': "
				"1}}, 'multi': true}",
		   ALL));
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	cr_assert(message_parse(play.sequence->output, &message));
	cr_assert(document_find(message.body, "update", &field));
	cr_assert(!document_find(message.body, "maxTimeMS", &field));
	play_close(&play);
}

Test(bulk_write, a_limit_that_is_used_up_ends_it)
{
	begin(BULK(INSERT(0, 1) ", " DELETE(0, 2), ", 'maxTimeMS': 500"));
	play.now += 600000;
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_expect_error(&play, ERROR_MAX_TIME_EXPIRED, "time limit");
	play_close(&play);
}

Test(bulk_write, ops_may_stand_in_a_sequence_and_so_may_namespaces)
{
	struct made made = {.body = "{'bulkWrite': 1, 'nsInfo': [{'ns': 'shop.books'}], "
				    "'errorsOnly': true, '$db': 'admin'}",
			    .sequence = "ops",
			    .documents = "[" PUSH(0, 1) ", " PUSH(0, 2) "]"};

	play_request(&play, made, VERDICT_BULK_WRITE);
	expect_run(BODY("update", "books", "shop"), "updates", "[" PUSHED(1) ", " PUSHED(2) "]");
	play_reply(&play, "{'n': 2, 'nModified': 2, 'ok': 1.0}");
	play_expect_answer(&play, ANSWER("", COUNTS(0, 0, 2, 2, 0, 0)));
	cr_assert_eq(play_notes(&play), 2);
	cr_assert_eq(play.notes[0].reason, MOVER_APPENDED);
	cr_assert_str_eq(play.notes[1].rule->name, "books");
	cr_assert_eq(play.notes[1].id_type, BSON_BYTE_INT32);
	cr_assert_eq(load_int32(play.notes[1].id.data), 2);
	play_close(&play);
	made = (struct made){.body = "{'bulkWrite': 1, 'ops': [" PUSH(0, 1) "], '$db': 'admin'}",
			     .sequence = "nsInfo",
			     .documents = "[{'ns': 'shop.books'}]"};
	play_request(&play, made, VERDICT_BULK_WRITE);
	expect_run(BODY("update", "books", "shop"), "updates", "[" PUSHED(1) "]");
	play_close(&play);
}

Test(bulk_write, runs_end_where_the_kind_or_the_namespace_changes)
{
	begin(BULK(INSERT(1, 1) ", " INSERT(0, 2) ", " INSERT(0, 3) ", " INSERT(2, 4) ", " DELETE(
			   2, 5) ", " DELETE(2, 6),
		   QUIET));
	expect_run(BODY("insert", "plain", "shop"), "documents", "[{'_id': 1}]");
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	expect_run(BODY("insert", "books", "shop"), "documents", "[{'_id': 2}, {'_id': 3}]");
	play_reply(&play, "{'n': 2, 'ok': 1.0}");
	expect_run(BODY("insert", "posts", "tenant_1"), "documents", "[{'_id': 4}]");
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	expect_run(BODY("delete", "posts", "tenant_1"), "deletes",
		   "[" DELETED(5) ", " DELETED(6) "]");
	play_reply(&play, "{'n': 2, 'ok': 1.0}");
	play_expect_answer(&play, ANSWER("", COUNTS(0, 4, 0, 0, 0, 2)));
	play_close(&play);
}

Test(bulk_write, an_upsert_tells_its_id)
{
	begin(BULK("{'update': 0, 'filter': {'_id': 3}, 'updateMods': {'$push': {'f': 1}}, "
		   "'upsert': true}",
		   ALL));
	play_reply(&play, "{'n': 1, 'nModified': 0, 'upserted': [{'index': 0, '_id': {'a': 3}}], "
			  "'ok': 1.0}");
	play_expect_answer(&play, ANSWER("{'ok': 1.0, 'idx': 0, 'n': 1, 'nModified': 0, "
					 "'upserted': {'_id': {'a': 3}}}",
					 COUNTS(0, 0, 0, 0, 1, 0)));
	play_close(&play);
}

Test(bulk_write, what_the_last_reply_says_goes_on)
{
	begin(BULK(INSERT(0, 1) ", " INSERT(1, 1), QUIET));
	play_reply(&play, "{'n': 1, 'opTime': 1, 'writeConcernError': {'code': 64}, 'ok': 1.0, "
			  "'errorLabels': ['x']}");
	play_reply(&play, "{'n': 1, 'electionId': 7, 'opTime': 2, 'ok': 1.0, '$clusterTime': {}, "
			  "'operationTime': 3}");
	play_expect_answer(
		&play,
		"{'cursor': {'id': {'$numberLong': '0'}, 'firstBatch': [], 'ns': "
		"'admin.$cmd.bulkWrite'}, " COUNTS(
			0, 2, 0, 0, 0,
			0) "'electionId': 7, 'opTime': 2, "
			   "'writeConcernError': {'code': 64}, 'errorLabels': ['x'], 'ok': 1.0, "
			   "'$clusterTime': {}, 'operationTime': 3}");
	play_close(&play);
}

/* ---- errors of ops ---- */

Test(bulk_write, an_ordered_one_stops_at_the_first_error)
{
	begin(BULK(INSERT(0, 1) ", " INSERT(0, 1) ", " INSERT(0, 2) ", " DELETE(0, 3), ALL));
	play_reply(&play, "{'n': 1, 'writeErrors': [" DUPLICATE(1) "], 'ok': 1.0}");
	play_expect_answer(&play,
			   ANSWER(DONE(0, 1) ", " FAILED_INSERT(1), COUNTS(1, 1, 0, 0, 0, 0)));
	play_close(&play);
	begin(BULK(PUSH(0, 1) ", " PUSH(0, 2) ", " PUSH(0, 3), ALL));
	play_reply(&play, "{'n': 1, 'nModified': 1, 'ok': 1.0}");
	play_reply(&play, "{'n': 0, 'nModified': 0, 'writeErrors': [" BAD(0) "], 'ok': 1.0}");
	play_expect_answer(
		&play, ANSWER(UPDATED(0, 1, 1) ", " FAILED_UPDATE(1), COUNTS(1, 0, 1, 1, 0, 0)));
	play_close(&play);
}

Test(bulk_write, an_unordered_one_goes_on)
{
	begin(BULK(
		INSERT(0, 1) ", " INSERT(0, 1) ", " INSERT(0, 2) ", " DELETE(0, 3) ", " PUSH(1, 4),
		ALL LOOSE));
	expect_run(LOOSE_BODY("insert", "books", "shop"), "documents",
		   "[{'_id': 1}, {'_id': 1}, {'_id': 2}]");
	play_reply(&play, "{'n': 2, 'writeErrors': [" DUPLICATE(1) "], 'ok': 1.0}");
	play_reply(&play, "{'n': 0, 'writeErrors': [" BAD(0) "], 'ok': 1.0}");
	play_reply(&play, "{'n': 1, 'nModified': 0, 'ok': 1.0}");
	play_expect_answer(&play, ANSWER(DONE(0, 1) ", " FAILED_INSERT(1) ", " DONE(
						 2, 1) ", " FAILED_DELETE(3) ", " UPDATED(4, 1, 0),
					 COUNTS(2, 2, 1, 0, 0, 0)));
	play_close(&play);
}

Test(bulk_write, only_errors_are_listed_where_only_they_are_wanted)
{
	begin(BULK(PUSH(0, 1) ", " PUSH(0, 2) ", " PUSH(0, 3) ", " DELETE(0, 4), QUIET LOOSE));
	expect_run(LOOSE_BODY("update", "books", "shop"), "updates",
		   "[" PUSHED(1) ", " PUSHED(2) ", " PUSHED(3) "]");
	play_reply(&play,
		   "{'n': 1, 'nModified': 1, 'writeErrors': [" BAD(0) ", " BAD(2) "], 'ok': 1.0}");
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_expect_answer(
		&play, ANSWER(FAILED_UPDATE(0) ", " FAILED_UPDATE(2), COUNTS(2, 0, 1, 1, 0, 1)));
	play_close(&play);
}

/* ---- errors of commands ---- */

#define UNAUTHORIZED "{'ok': 0.0, 'errmsg': 'no', 'code': 13, 'codeName': 'Unauthorized'}"

Test(bulk_write, an_error_before_anything_was_applied_is_the_whole_answer)
{
	begin(BULK(INSERT(0, 1) ", " INSERT(1, 2), ALL));
	play_reply(&play, UNAUTHORIZED);
	play_expect_answer(&play, UNAUTHORIZED);
	play_close(&play);
}

Test(bulk_write, an_error_behind_what_was_applied_is_that_of_its_ops)
{
	begin(BULK(INSERT(0, 1) ", " INSERT(1, 2) ", " INSERT(1, 3) ", " DELETE(0, 4), ALL));
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_reply(&play, UNAUTHORIZED);
	play_expect_answer(&play, ANSWER(DONE(0, 1) ", {'ok': 0.0, 'idx': 1, 'code': 13, 'errmsg': "
						    "'no', 'n': 0}",
					 COUNTS(1, 1, 0, 0, 0, 0)));
	play_close(&play);
	begin(BULK(INSERT(0, 1) ", " INSERT(1, 2) ", " INSERT(1, 3) ", " DELETE(0, 4),
		   QUIET LOOSE));
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_reply(&play, UNAUTHORIZED);
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_expect_answer(&play,
			   ANSWER("{'ok': 0.0, 'idx': 1, 'code': 13, 'errmsg': 'no', 'n': 0}, "
				  "{'ok': 0.0, 'idx': 2, 'code': 13, 'errmsg': 'no', 'n': 0}",
				  COUNTS(2, 1, 0, 0, 0, 1)));
	play_close(&play);
}

Test(bulk_write, an_error_that_makes_the_client_try_again_is_the_whole_answer)
{
	begin(BULK(INSERT(0, 1) ", " INSERT(1, 2), ALL ", " LSID ", " NUMBER));
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_reply(&play, "{'ok': 0.0, 'code': 10107, 'errorLabels': ['RetryableWriteError', "
			  "'NoWritesPerformed']}");
	play_expect_answer(&play, "{'ok': 0.0, 'code': 10107, 'errorLabels': "
				  "['RetryableWriteError']}");
	play_close(&play);
	begin(BULK(INSERT(0, 1) ", " INSERT(1, 2), ALL));
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_reply(&play, "{'ok': 0.0, 'code': 11600}");
	play_expect_answer(&play, "{'ok': 0.0, 'code': 11600}");
	play_close(&play);
}

Test(bulk_write, a_reply_that_cannot_be_read_goes_on_as_it_came)
{
	static const char *const replies[] = {
		"{'n': 'x', 'ok': 1.0}",
		"{'n': 0, 'writeErrors': [" BAD(5) "], 'ok': 1.0}",
		"{'n': 0, 'writeErrors': [" BAD(1) ", " BAD(0) "], 'ok': 1.0}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(replies); i++) {
		begin(BULK(INSERT(0, 1) ", " INSERT(0, 2), ALL));
		play_reply(&play, replies[i]);
		play_expect_passed(&play);
		play_close(&play);
	}
	begin(BULK(INSERT(0, 1), ALL));
	play_reply_broken(&play);
	play_expect_passed(&play);
	play_close(&play);
}

/* ---- sessions ---- */

#define NUMBERED(command, statements) \
	"{'" command "': 'books', 'ordered': true, " LSID ", " NUMBER ", " statements \
	", '$db': 'shop'}"

Test(bulk_write, each_op_keeps_its_statement_id)
{
	begin(BULK(INSERT(0, 1) ", " INSERT(0, 2) ", " DELETE(0, 3), QUIET ", " LSID ", " NUMBER));
	play_expect_helper(&play, NUMBERED("insert", "'stmtId': 0"));
	play_reply(&play, "{'n': 2, 'retriedStmtIds': [0, 1], 'ok': 1.0}");
	play_expect_helper(&play, NUMBERED("delete", "'stmtId': 2"));
	play_reply(&play, "{'n': 1, 'retriedStmtIds': [2], 'ok': 1.0}");
	play_expect_answer(&play, ANSWER("", COUNTS(0, 2, 0, 0, 0, 1) "'retriedStmtIds': [0, 1, "
								      "2], "));
	play_close(&play);
	begin(BULK(INSERT(0, 1) ", " INSERT(0, 2) ", " DELETE(0, 3),
		   QUIET ", " LSID ", " NUMBER ", 'stmtId': 5"));
	play_expect_helper(&play, NUMBERED("insert", "'stmtId': 5"));
	play_reply(&play, "{'n': 2, 'ok': 1.0}");
	play_expect_helper(&play, NUMBERED("delete", "'stmtId': 7"));
	play_close(&play);
	begin(BULK(INSERT(0, 1) ", " INSERT(0, 2) ", " DELETE(0, 3),
		   QUIET ", " LSID ", " NUMBER ", 'stmtIds': [4, 9, 1]"));
	play_expect_helper(&play, NUMBERED("insert", "'stmtIds': [4, 9]"));
	play_reply(&play, "{'n': 2, 'ok': 1.0}");
	play_expect_helper(&play, NUMBERED("delete", "'stmtIds': [1]"));
	play_close(&play);
}

Test(bulk_write, a_transaction_begins_once)
{
	begin(BULK(INSERT(1, 1) ", " DELETE(1, 2) ", " PUSH(0, 3),
		   ", " TRANSACTION ", 'startTransaction': true, 'readConcern': {'level': "
		   "'snapshot'}" LOOSE));
	play_expect_helper(&play, "{'insert': 'plain', 'ordered': false, " TRANSACTION
				  ", 'startTransaction': true, 'readConcern': {'level': "
				  "'snapshot'}, 'stmtId': 0, '$db': 'shop'}");
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_expect_helper(&play, "{'delete': 'plain', 'ordered': false, " TRANSACTION
				  ", 'stmtId': 1, '$db': 'shop'}");
	play_reply(&play, "{'n': 0, 'writeErrors': [" BAD(0) "], 'ok': 1.0}");
	/* nothing comes behind an error */
	play_expect_answer(&play,
			   ANSWER(DONE(0, 1) ", " FAILED_DELETE(1), COUNTS(1, 1, 0, 0, 0, 0)));
	play_close(&play);
	begin(BULK(INSERT(1, 1) ", " DELETE(1, 2), ", " TRANSACTION));
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_reply(&play, "{'ok': 0.0, 'code': 112, 'errorLabels': ['TransientTransactionError']}");
	play_expect_answer(&play, "{'ok': 0.0, 'code': 112, 'errorLabels': "
				  "['TransientTransactionError']}");
	play_close(&play);
}

#define WAITS_FOR_NOBODY(command) \
	"{'" command "': 'books', 'ordered': true, 'writeConcern': {'w': 1}, '$db': 'shop'}"

Test(bulk_write, what_wants_no_answer_gets_none)
{
	struct made made = {
		.body = BULK(INSERT(0, 1) ", " PUSH(0, 2), ", 'writeConcern': {'w': 0}"),
		.flags = MESSAGE_MORE_TO_COME};

	play_request(&play, made, VERDICT_BULK_WRITE);
	expect_run(WAITS_FOR_NOBODY("insert"), "documents", "[{'_id': 1}]");
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	expect_run(WAITS_FOR_NOBODY("update"), "updates", "[" PUSHED(2) "]");
	play_reply(&play, "{'n': 1, 'nModified': 1, 'ok': 1.0}");
	cr_assert_eq(play.outcome, SEQUENCE_DONE);
	cr_assert_eq(play.sequence->output.length, 0);
	cr_assert_eq(play_notes(&play), 1);
	play_close(&play);
	begin(BULK(INSERT(0, 1), ", 'writeConcern': {'w': 0}"));
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_expect_answer(&play, ANSWER("", COUNTS(0, 1, 0, 0, 0, 0)));
	play_close(&play);
}

/* ---- sequences inside ---- */

Test(bulk_write, an_update_that_needs_the_whole_array_runs_its_edit)
{
	begin(BULK("{'insert': 1, 'document': {'_id': 9}}, {'update': 0, 'filter': {'_id': 1}, "
		   "'updateMods': {'$pull': {'f': 2}}}, {'delete': 1, 'filter': {'_id': 9}}",
		   ALL));
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_expect_documents(&play, "updates",
			      "[{'q': {'$and': [{'_id': 1}, {'_spill': {'$exists': false}}]}, "
			      "'u': {'$pull': {'f': 2}}}]");
	play_reply(&play, "{'n': 1, 'nModified': 1, 'ok': 1.0}");
	play_expect_documents(&play, "deletes", "[" DELETED(9) "]");
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_expect_answer(&play, ANSWER(DONE(0, 1) ", " UPDATED(1, 1, 1) ", " DONE(2, 1),
					 COUNTS(0, 1, 1, 1, 0, 1)));
	play_close(&play);
}

#define STATE "'_spill': {'f': {'g': " G1 ", 'h': 2, 'n': 3}}"
#define FOUND(documents) \
	"{'cursor': {'firstBatch': [" documents "], 'id': {'$numberLong': '0'}, 'ns': 'shop.x'}, " \
	"'ok': 1.0}"

/* Up to an edit in place, of which a server that is no member of a set knows nothing. */
static void edit_in_place(void)
{
	play_reply(&play, "{'n': 0, 'nModified': 0, 'ok': 1.0}");
	play_reply(&play, FOUND("{'_id': 1, " STATE "}"));
	play_reply(&play, FOUND("{'book': 1, '_spill': {'g': " G1 ", 'p': 0, 'i': 1}, 'more': "
				"[3, 4, 5]}"));
	play_reply(&play, "{'ok': 0.0, 'code': 10334, 'errmsg': 'too large'}");
	cr_assert(play.sequence->end.holds);
	play_reply(&play, "{'ok': 0.0, 'code': 20, 'errmsg': 'x'}"); /* to its first command */
	cr_assert(play.sequence->end.holds);
	play_reply(&play, "{'ok': 0.0, 'code': 20, 'errmsg': 'x'}"); /* to its end */
	cr_assert_not(play.sequence->end.holds);
}

/* The caller goes on with it where the client has gone, and keeps its session. */
Test(bulk_write, a_transaction_of_an_edit_in_place_is_known)
{
	struct sequence_session first;

	begin(BULK("{'update': 0, 'filter': {'_id': 1}, 'updateMods': {'$pull': {'f': 2}}}, "
		   "{'update': 0, 'filter': {'_id': 1}, 'updateMods': {'$pull': {'f': 3}}}",
		   ALL LOOSE));
	edit_in_place();
	first = play.sequence->end.own;
	cr_assert_eq(first.number, 1);
	edit_in_place();
	cr_assert_eq(play.sequence->end.own.number, 2);
	cr_assert_arr_eq(play.sequence->end.own.id, first.id, sizeof(first.id));
	cr_assert_eq(play.outcome, SEQUENCE_DONE);
	play_close(&play);
}

Test(bulk_write, a_push_that_is_refused_for_its_size_has_its_tail_moved)
{
	begin(BULK(PUSH(0, 1), ALL));
	play_reply(&play, "{'n': 0, 'nModified': 0, 'writeErrors': [{'index': 0, 'code': 17419, "
			  "'errmsg': 'too large'}], 'ok': 1.0}");
	cr_assert_eq(play.outcome, SEQUENCE_MOVE);
	cr_assert_str_eq(play.sequence->move.note.rule->name, "books");
	play_moved(&play, true);
	play_expect_documents(&play, "updates", "[" PUSHED(1) "]");
	play_reply(&play, "{'n': 1, 'nModified': 1, 'ok': 1.0}");
	play_expect_answer(&play, ANSWER(UPDATED(0, 1, 1), COUNTS(0, 0, 1, 1, 0, 0)));
	play_close(&play);
}

/* ---- limits ---- */

Test(bulk_write, it_stops_where_the_answer_grows_too_large)
{
	auto_free char *text = must_malloc(BULK_REPLY_ITEMS_MAX);
	struct element batch, item, field;

	memset(text, 'x', BULK_REPLY_ITEMS_MAX - 1);
	text[BULK_REPLY_ITEMS_MAX - 1] = 0;
	begin(BULK(PUSH(0, 1) ", " PUSH(0, 2) ", " PUSH(0, 3), ALL LOOSE));
	play_reply(&play, made_text("{'n': 0, 'nModified': 0, 'writeErrors': [{'index': 0, 'code': "
				    "2, 'errmsg': '%s'}], 'ok': 1.0}",
				    text));
	cr_assert_eq(play.outcome, SEQUENCE_DONE);
	cr_assert(document_find_path(play_message(&play).body, "cursor.firstBatch", &batch));
	cr_assert(document_find(batch.value, "1", &item));
	made_expect(item.value, "{'ok': 0.0, 'idx': 1, 'code': 146, 'errmsg': 'BulkWrite response "
				"size exceeded limit (16777216 bytes)', 'n': 0, 'nModified': 0}");
	cr_assert_not(document_find(batch.value, "2", &item));
	cr_assert(document_find(play_message(&play).body, "nErrors", &field));
	cr_assert_eq(load_int32(field.value.data), 2);
	play_close(&play);
}

Test(bulk_write, a_run_that_is_too_long_behind_what_was_applied_is_told_as_its_ops)
{
	begin(BULK(INSERT(1, 1) ", " PUSH(1, 1) ", " DELETE(1, 2), LOOSE QUIET));
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_outgrow(&play);
	expect_run("{'delete': 'plain', 'ordered': false, '$db': 'shop'}", "deletes",
		   "[" DELETED(2) "]");
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_expect_answer(
		&play, ANSWER("{'ok': 0.0, 'idx': 1, 'code': 10334, 'errmsg': '" SEQUENCE_OUTGROWN
			      "', 'n': 0, 'nModified': 0}",
			      COUNTS(1, 1, 0, 0, 0, 1)));
	play_close(&play);

	begin(BULK(INSERT(1, 1) ", " PUSH(1, 1), ""));
	play_outgrow(&play);
	play_expect_error(&play, 10334, "passes the 48,000,000 bytes");
	play_close(&play);

	begin(BULK(INSERT(1, 1) ", " DELETE(1, 2), ", " TRANSACTION));
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_outgrow(&play);
	play_expect_error(&play, 10334, "passes the 48,000,000 bytes");
	play_close(&play);
}

Test(bulk_write, null_is_as_nothing_where_mongod_takes_it_so)
{
	begin(BULK("{'update': {'$numberDecimal': '0.4'}, 'filter': {'_id': 3}, 'updateMods': "
		   "{'$push': {'f': 1}}, 'multi': null, 'upsert': null, 'arrayFilters': null, "
		   "'collation': null, 'constants': null, 'sort': null}, "
		   "{'delete': 0.9, 'filter': {'_id': 4}, 'multi': null, 'collation': null}, "
		   "{'insert': {'$numberDecimal': '1.5'}, 'document': {'_id': 5, 'comments': [1]}}",
		   ", 'ordered': null, 'errorsOnly': null, 'stmtId': null, 'cursor': null"));
	expect_run(BODY("update", "books", "shop"), "updates", "[" PUSHED(3) "]");
	play_reply(&play, "{'n': 1, 'nModified': 1, 'ok': 1.0}");
	expect_run(BODY("delete", "books", "shop"), "deletes", "[" DELETED(4) "]");
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	expect_run(BODY("insert", "posts", "tenant_1"), "documents",
		   "[{'_id': 5, 'comments': [1]}]");
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_expect_answer(&play, ANSWER(UPDATED(0, 1, 1) ", " DONE(1, 1) ", " DONE(2, 1),
					 COUNTS(0, 1, 1, 1, 0, 1)));
	play_close(&play);
}

/* ---- what is refused ---- */

struct refusal {
	const char *ops;
	const char *fields;
	enum error_code code;
	const char *says;
};

static void expect_refused(const char *json, enum error_code code, const char *says)
{
	play_command(&play, json, VERDICT_REFUSE);
	play_expect_error(&play, code, says);
	play_close(&play);
}

Test(bulk_write, broken_ops_are_refused_and_nothing_is_sent)
{
	static const struct refusal refusals[] = {
		{"", "", ERROR_INVALID_LENGTH, "between 1 and 100000"},
		{"5", "", ERROR_FAILED_TO_PARSE, "ops"},
		{"{}", "", ERROR_FAILED_TO_PARSE, "an op"},
		{"{'document': {}, 'insert': 0}", "", ERROR_FAILED_TO_PARSE, "begin with"},
		{"{'insert': 0}", "", ERROR_FAILED_TO_PARSE, "an op"},
		{"{'insert': 0, 'document': {}, 'document': {}}", "", ERROR_FAILED_TO_PARSE,
		 "an op"},
		{"{'insert': 0, 'document': 5}", "", ERROR_TYPE_MISMATCH, "ops.document"},
		{"{'insert': 'x', 'document': {}}", "", ERROR_TYPE_MISMATCH, "ops.insert"},
		{"{'insert': 3, 'document': {}}", "", ERROR_BAD_VALUE, "invalid nsInfo index"},
		{"{'insert': -1, 'document': {}}", "", ERROR_BAD_VALUE, "invalid nsInfo index"},
		{"{'insert': 0, 'document': {}, 'multi': true}", "", ERROR_COMMAND_NOT_SUPPORTED,
		 "multi"},
		{"{'update': 0, 'filter': {}}", "", ERROR_FAILED_TO_PARSE, "an op"},
		{"{'update': 0, 'filter': {}, 'updateMods': 5}", "", ERROR_TYPE_MISMATCH,
		 "updateMods"},
		{"{'update': 0, 'filter': {}, 'updateMods': {}, 'multi': 1}", "",
		 ERROR_TYPE_MISMATCH, "multi"},
		{"{'update': 0, 'filter': {}, 'updateMods': {}, 'arrayFilters': {}}", "",
		 ERROR_TYPE_MISMATCH, "arrayFilters"},
		{"{'update': 0, 'filter': {}, 'updateMods': [{}, 5]}", "", ERROR_TYPE_MISMATCH,
		 "updateMods"},
		{"{'update': 0, 'filter': {}, 'updateMods': {}, 'arrayFilters': [{}, 5]}", "",
		 ERROR_TYPE_MISMATCH, "arrayFilters"},
		{"{'update': 0, 'filter': {}, 'updateMods': {}, 'sampleId': 1}", "",
		 ERROR_COMMAND_NOT_SUPPORTED, "sampleId"},
		{"{'delete': 0, 'filter': {}, 'hint': 5}", "", ERROR_TYPE_MISMATCH, "hint"},
		{INSERT(0, 1), ", 'ordered': 1", ERROR_TYPE_MISMATCH, "ordered"},
		{INSERT(0, 1), ", 'errorsOnly': 1", ERROR_TYPE_MISMATCH, "errorsOnly"},
		{INSERT(0, 1), ", 'cursor': 5", ERROR_TYPE_MISMATCH, "cursor"},
		{INSERT(0, 1), ", 'cursor': {'batchSize': 'x'}", ERROR_TYPE_MISMATCH, "batchSize"},
		{INSERT(0, 1), ", 'cursor': {'batchSize': -1}", ERROR_BAD_VALUE, "batchSize"},
		{INSERT(0, 1), ", 'cursor': {'odd': 1}", ERROR_FAILED_TO_PARSE, "odd"},
		{"{'insert': {'$numberDecimal': '2'}, 'document': {}}", "", ERROR_BAD_VALUE,
		 "invalid nsInfo index"},
		{"{'insert': {'$numberDecimal': '-1'}, 'document': {}}", "", ERROR_BAD_VALUE,
		 "invalid nsInfo index"},
		{"{'insert': null, 'document': {}}", "", ERROR_BAD_VALUE, "invalid nsInfo index"},
		{"{'insert': 0, 'document': null}", "", ERROR_FAILED_TO_PARSE, "an op"},
		{INSERT(0, 1), ", 'stmtId': 1, 'stmtIds': [1]", ERROR_INVALID_OPTIONS, "both"},
		{INSERT(0, 1), ", 'stmtIds': [1, 2]", ERROR_INVALID_LENGTH, "2 statement ids"},
		{INSERT(0, 1), ", 'stmtIds': ['x']", ERROR_FAILED_TO_PARSE, "stmtIds"},
		{INSERT(0, 1), ", 'stmtIds': 1", ERROR_FAILED_TO_PARSE, "stmtIds"},
		{INSERT(0, 1), ", 'stmtId': {'$numberLong': '5000000000'}", ERROR_FAILED_TO_PARSE,
		 "stmtId"},
		{INSERT(0, 1), ", 'documents': []", ERROR_FAILED_TO_PARSE, "unknown field"},
		{INSERT(0, 1), ", 'ops': []", ERROR_FAILED_TO_PARSE, "command"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(refusals); i++)
		expect_refused(made_text("{'bulkWrite': 1, 'ops': [%s], 'nsInfo': [{'ns': "
					 "'shop.books'}]%s, '$db': 'admin'}",
					 refusals[i].ops, refusals[i].fields),
			       refusals[i].code, refusals[i].says);
}

Test(bulk_write, other_namespaces_must_be_sound_too)
{
	static const struct refusal refusals[] = {
		{"{'ns': 'x'}", NULL, ERROR_INVALID_NAMESPACE, "Invalid namespace"},
		{"{'ns': '.x'}", NULL, ERROR_INVALID_NAMESPACE, "Invalid namespace"},
		{"{'ns': 'x.'}", NULL, ERROR_INVALID_NAMESPACE, "Invalid namespace"},
		{"{'ns': 5}", NULL, ERROR_INVALID_NAMESPACE, "Invalid namespace"},
		{"{}", NULL, ERROR_FAILED_TO_PARSE, "nsInfo"},
		{"{'ns': 'a.b', 'ns': 'a.b'}", NULL, ERROR_COMMAND_NOT_SUPPORTED, "nsInfo"},
		{"{'ns': 'a.b', 'encryptionInformation': {}}", NULL, ERROR_COMMAND_NOT_SUPPORTED,
		 "nsInfo"},
		{"{'ns': 'shop.books_more'}", NULL, ERROR_COMMAND_NOT_SUPPORTED, "overflow"},
		{"5", NULL, ERROR_FAILED_TO_PARSE, "bulkWrite"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(refusals); i++)
		expect_refused(made_text("{'bulkWrite': 1, 'ops': [" INSERT(
						 0, 1) "], 'nsInfo': [{'ns': 'shop.books'}, %s], "
						       "'$db': 'admin'}",
					 refusals[i].ops),
			       refusals[i].code, refusals[i].says);
	expect_refused("{'bulkWrite': 1, 'ops': [" INSERT(0, 1) "], 'nsInfo': [{'ns': "
								"'shop.books'}], '$db': 'shop'}",
		       ERROR_UNAUTHORIZED, "admin database");
	expect_refused("{'bulkWrite': 1, 'nsInfo': [{'ns': 'shop.books'}], '$db': 'admin'}",
		       ERROR_FAILED_TO_PARSE, "ops");
	expect_refused("{'explain': {'bulkWrite': 1, 'ops': [" DELETE(
			       0, 1) "], 'nsInfo': [{'ns': 'shop.books'}], '$db': 'admin'}, '$db': "
				     "'admin'}",
		       ERROR_COMMAND_NOT_SUPPORTED, "explain");
	expect_refused("{'explain': {'bulkWrite': 1, 'ops': [" DELETE(
			       0, 1) "], 'nsInfo': [{'ns': 'shop.books'}]}, '$db': 'admin'}",
		       ERROR_COMMAND_NOT_SUPPORTED, "explain");
}

/* mongod is asked about the op; it would run it. */
static void expect_refused_op(const char *json, const char *says)
{
	play_command(&play, json, VERDICT_BULK_WRITE);
	if (play.outcome == SEQUENCE_SEND)
		play_reply(&play, "{'queryPlanner': {}, 'ok': 1.0}");
	play_expect_error(&play, ERROR_COMMAND_NOT_SUPPORTED, says);
	play_close(&play);
}

Test(bulk_write, an_op_that_a_rule_refuses_refuses_the_whole)
{
	expect_refused_op(BULK(INSERT(1, 1) ", {'update': 0, 'filter': {}, 'updateMods': {'$set': "
					    "{'_spill.f': 1}}}",
			       ALL),
			  "_spill");
	expect_refused(BULK(INSERT(1, 1) ", {'insert': 0, 'document': {'_spill': 1}}", ALL),
		       ERROR_COMMAND_NOT_SUPPORTED, "_spill");
	expect_refused_op(BULK(INSERT(1, 1) ", {'delete': 0, 'filter': {'$where': 'this.f'}}", ALL),
			  "books");
	expect_refused(BULK(INSERT(1, 1) ", {'update': 0, 'filter': {'_id': 1}, 'sort': {'a': 1}, "
					 "'updateMods': {'$pull': {'f': 2}}}",
			    ALL),
		       ERROR_FAILED_TO_PARSE, "an op");
}

#define BY_NEAR(namespace) "{'delete': " #namespace ", 'filter': {'f': {'$near': 1}}}"
#define NEAR_STATEMENT "{'q': {'f': {'$near': 1}}, 'limit': 1}"

static void refuse_near(void)
{
	play_expect_helper(&play, "{'explain': {'delete': 'books', 'ordered': false, 'deletes': "
				  "[" NEAR_STATEMENT "]}, 'verbosity': 'queryPlanner', '$db': "
				  "'shop'}");
	play_reply(&play, "{'ok': 0.0, 'code': 2, 'errmsg': 'bad'}");
}

Test(bulk_write, an_op_that_mongod_refuses_has_its_error_beside_the_others)
{
	begin(BULK(INSERT(0, 1) ", " BY_NEAR(0) ", " INSERT(0, 2), ALL LOOSE));
	refuse_near();
	expect_run("{'insert': 'books', 'ordered': false, '$db': 'shop'}", "documents",
		   "[{'_id': 1}]");
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	expect_run("{'insert': 'books', 'ordered': false, '$db': 'shop'}", "documents",
		   "[{'_id': 2}]");
	play_reply(&play, "{'n': 1, 'ok': 1.0}");
	play_expect_answer(&play, ANSWER(DONE(0, 1) ", " FAILED_DELETE(1) ", " DONE(2, 1),
					 COUNTS(1, 2, 0, 0, 0, 0)));
	play_close(&play);
}

Test(bulk_write, ops_that_mongod_refuses_alone)
{
	begin(BULK(BY_NEAR(0) ", " BY_NEAR(0), ALL LOOSE));
	refuse_near();
	refuse_near();
	play_expect_answer(
		&play, ANSWER(FAILED_DELETE(0) ", " FAILED_DELETE(1), COUNTS(2, 0, 0, 0, 0, 0)));
	play_close(&play);
}

Test(bulk_write, what_names_no_ruled_namespace_is_forwarded)
{
	static const char *const bodies[] = {
		"{'bulkWrite': 1, 'ops': [5], 'nsInfo': [{'ns': 'shop.plain'}], '$db': 'admin'}",
		"{'bulkWrite': 1, 'ops': 'x', 'nsInfo': [], '$db': 'x'}",
		"{'bulkWrite': 1, 'ops': []}",
		"{'bulkWrite': 1, 'nsInfo': 5}",
	};
	struct shop shop = shop_open();

	for (size_t i = 0; i < ARRAY_LENGTH(bodies); i++) {
		struct packet packet = made_packet(made_frame(&(struct made){.body = bodies[i]}));
		struct match match;

		match_packet(shop.cache, &packet, &match);
		cr_expect_eq(match.verdict, VERDICT_FORWARD, "%s: %s", bodies[i],
			     match.refusal.message);
		packet_fini(&packet);
	}
	shop_close(&shop);
}

static void judge(void *context, struct match *match)
{
	(*(int *)context)++;
	if (match->touches_array)
		match_refuse(match, match->namespace->targets[0].rule, "unfit", "because");
}

Test(bulk_write, the_caller_judges_each_run)
{
	int calls = 0;
	const struct match_judge judging = {judge, &calls};
	struct shop shop = shop_open();
	struct packet packet = made_packet(made_frame(
		&(struct made){.body = BULK(INSERT(0, 1) ", " INSERT(1, 2) ", " PUSH(0, 3), ALL)}));
	struct match match;

	match_packet_judged(shop.cache, &packet, &judging, &match);
	cr_assert_eq(match.verdict, VERDICT_REFUSE);
	cr_assert(strstr(match.refusal.message, "unfit: because"));
	cr_assert_eq(calls, 4);
	packet_fini(&packet);
	shop_close(&shop);
}

static void append_document(struct buffer *out, const char *json)
{
	struct bytes document = made_bson(json);

	buffer_append(out, document.data, document.length);
}

/* Inserts and deletes in turn, each a run of its own, beside a comment. */
static struct buffer frame_of_runs(size_t count, size_t comment)
{
	static const char *const ops[] = {INSERT_LONG(0, 1), DELETE(0, 1)};
	auto_free char *text = must_malloc(comment + 1);
	struct buffer frame = {0};
	size_t start = message_begin(&frame, 7, 0, 0), body, sequence;

	memset(text, 'c', comment);
	text[comment] = '\0';
	message_begin_body(&frame);
	body = writer_open(&frame);
	writer_int32(&frame, "bulkWrite", 1);
	writer_string(&frame, "comment", text);
	writer_string(&frame, "$db", "admin");
	writer_close(&frame, body);
	sequence = message_begin_sequence(&frame, bytes_of("nsInfo"));
	append_document(&frame, "{'ns': 'shop.books'}");
	message_end_sequence(&frame, sequence);
	sequence = message_begin_sequence(&frame, bytes_of("ops"));
	for (size_t i = 0; i < count; i++)
		append_document(&frame, ops[i % 2]);
	message_end_sequence(&frame, sequence);
	message_end(&frame, start);
	return frame;
}

static int32_t code_of_runs(size_t count, size_t comment)
{
	struct shop shop = shop_open();
	struct buffer frame = frame_of_runs(count, comment);
	struct packet packet;
	struct match match;
	int32_t code;

	packet_read(&packet, &frame);
	match_packet(shop.cache, &packet, &match);
	code = match.verdict == VERDICT_REFUSE ? (int32_t)match.refusal.code : 0;
	packet_fini(&packet);
	shop_close(&shop);
	return code;
}

/* Each run is written with the command's other fields. */
Test(bulk_write, what_all_runs_repeat_of_the_command_has_a_limit)
{
	cr_expect_eq(code_of_runs(100000, 2000), 0);
	cr_expect_eq(code_of_runs(100000, 3000), ERROR_OBJECT_TOO_LARGE);
	cr_expect_eq(code_of_runs(2, 10000000), 0);
	cr_expect_eq(code_of_runs(2000, 10000000), ERROR_OBJECT_TOO_LARGE);
}
