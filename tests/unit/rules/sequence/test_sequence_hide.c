/* Tests rules/sequence/sequence_hide.c: lists without overflow collections, drops of these. */
#include "tests/unit/play.h"

#include "rules/sequence/permission.h"

static struct play play;

#define LISTED \
	"{'cursor': {'id': {'$numberLong': '0'}, 'ns': 'shop.$cmd.listCollections', " \
	"'firstBatch': []}, 'ok': 1.0}"
#define UNAUTHORIZED(words) "{'ok': 0.0, 'errmsg': '" words "', 'code': 13}"
#define MORE \
	"{'$nor': [{'type': 'collection', 'name': {'$in': ['books_more', 'pairs_more', " \
	"'bare_more', 'marked_more', 'shown_more', 'shown_wide']}}]}"

Test(sequence_hide, a_list_has_a_condition_more)
{
	play_command(&play, "{'listCollections': 1, 'nameOnly': true, '$db': 'shop'}",
		     VERDICT_HIDE);
	play_expect_sent(&play, 0,
			 "{'listCollections': 1, 'filter': " MORE
			 ", 'nameOnly': true, '$db': 'shop'}");
	play_reply(&play, LISTED);
	play_expect_passed(&play);
	play_close(&play);
	play_command(&play, "{'listCollections': 1, 'filter': null, '$db': 'shop'}", VERDICT_HIDE);
	play_expect_sent(&play, 0, "{'listCollections': 1, 'filter': " MORE ", '$db': 'shop'}");
	play_close(&play);
}

Test(sequence_hide, the_clients_filter_stays_and_patterns_are_regular_expressions)
{
	play_command(&play,
		     "{'listCollections': 1, 'filter': {'name': {'$ne': 'x'}, '$nor': [{}]}, "
		     "'$db': 'tenant_5'}",
		     VERDICT_HIDE);
	play_expect_sent(&play, 0,
			 "{'listCollections': 1, 'filter': {'name': {'$ne': 'x'}, '$nor': [{}], "
			 "'$nor': [{'type': 'collection', 'name': {'$in': "
			 "['posts_likes_overflow']}}]}, '$db': 'tenant_5'}");
	play_close(&play);
}

Test(sequence_hide, mongod_says_to_the_clients_own_command_that_the_user_may_not)
{
	play_command(&play, "{'listCollections': 1, '$db': 'shop'}", VERDICT_HIDE);
	play_reply(&play, UNAUTHORIZED("with the condition"));
	play_expect_forwarded(&play);
	play_reply(&play, UNAUTHORIZED("of the own command"));
	play_expect_passed(&play);
	play_close(&play);
}

/* The user has got the right in between. */
Test(sequence_hide, a_list_without_the_condition_is_not_passed_on)
{
	play_command(&play, "{'listCollections': 1, '$db': 'shop'}", VERDICT_HIDE);
	play_reply(&play, UNAUTHORIZED("with the condition"));
	play_reply(&play, LISTED);
	play_expect_answer(&play, UNAUTHORIZED("with the condition"));
	play_close(&play);
}

/* ---- drop ---- */

#define DROP "{'drop': 'books_more', '$db': 'shop'}"
#define GIVEN \
	"{'ok': 0.0, 'errmsg': '1099512627776 value for maxTimeMS is out of range', 'code': 2}"
#define INDEXES(more) \
	"{'cursor': {'id': {'$numberLong': '0'}, 'ns': 'shop.books_more', 'firstBatch': " \
	"[{'v': 2, 'key': {'_id': 1}, 'name': '_id_'}" more "]}, 'ok': 1.0}"
#define OURS \
	", {'v': 2, 'key': {'book': 1, '_spill.i': 1}, 'name': 'a', 'unique': true}, " \
	"{'v': 2, 'key': {'more': 1}, 'name': 'b'}"

static void ask(void)
{
	play_command(&play, DROP, VERDICT_HIDE);
	play_expect_helper(&play, "{'drop': 'books_more', '$db': 'shop', 'maxTimeMS': "
				  "{'$numberLong': '1099512627776'}}");
}

Test(sequence_hide, a_drop_of_an_overflow_collection_is_answered_and_drops_nothing)
{
	ask();
	play_reply(&play, GIVEN);
	play_expect_helper(&play, "{'listIndexes': 'books_more', '$db': 'shop'}");
	play_reply(&play, INDEXES(OURS));
	play_expect_answer(&play, "{'nIndexesWas': 3, 'ns': 'shop.books_more', 'ok': 1.0}");
	cr_assert_eq(play_notes(&play), 0);
	play_close(&play);
}

Test(sequence_hide, a_drop_of_what_is_not_there_fails_as_at_mongod)
{
	ask();
	play_reply(&play, GIVEN);
	play_reply(&play,
		   "{'ok': 0.0, 'errmsg': 'ns does not exist: shop.books_more', 'code': 26}");
	play_expect_answer(&play, "{'ok': 0.0, 'errmsg': 'ns not found', 'code': 26, 'codeName': "
				  "'NamespaceNotFound'}");
	play_close(&play);
}

Test(sequence_hide, a_drop_that_the_user_may_not_run_fails_with_mongods_error)
{
	ask();
	play_reply(&play, UNAUTHORIZED("not authorized to execute command { drop: books_more, $db: "
				       "shop, maxTimeMS: 1099512627776 }"));
	play_expect_answer(&play, UNAUTHORIZED("not authorized to execute command { drop: "
					       "books_more, $db: shop }"));
	play_close(&play);
	ask();
	play_reply(&play, "{'ok': 1.0}"); /* no mongod */
	play_expect_error(&play, ERROR_COMMAND_NOT_SUPPORTED, "did not say");
	play_close(&play);
}

#define FOUND(documents) \
	"{'cursor': {'id': {'$numberLong': '0'}, 'ns': 'x', 'firstBatch': [" documents \
	"]}, 'ok': 1.0}"

Test(sequence_hide, an_overflow_that_is_just_being_made_is_empty)
{
	ask();
	play_reply(&play, GIVEN);
	play_reply(&play, INDEXES(""));
	play_reply(&play, FOUND(""));
	play_expect_answer(&play, "{'nIndexesWas': 1, 'ns': 'shop.books_more', 'ok': 1.0}");
	play_close(&play);
	ask();
	play_reply(&play, GIVEN);
	play_reply(&play, INDEXES(""));
	play_reply(&play, UNAUTHORIZED("no"));
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_hide, what_lacks_spillways_index_may_be_an_applications_own)
{
	ask();
	play_reply(&play, GIVEN);
	play_reply(&play, INDEXES(""));
	play_expect_helper(
		&play, "{'find': 'books_more', 'limit': 1, 'singleBatch': true, '$db': 'shop'}");
	play_reply(&play, FOUND("{'_id': 1}"));
	play_expect_error(&play, ERROR_COMMAND_NOT_SUPPORTED, "lacks the index");
	play_close(&play);
	ask();
	play_reply(&play, GIVEN);
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'not primary', 'code': 13435}");
	play_expect_passed(&play);
	play_close(&play);
}

/* ---- dbStats ---- */

#define STATS \
	"{'db': 'shop', 'collections': 3, 'views': 1, 'objects': 201, 'avgObjSize': 808.0, " \
	"'dataSize': 162.454, 'storageSize': 12.288, 'freeStorageSize': 3.0, 'indexes': 4, " \
	"'indexSize': 32.768, 'indexFreeStorageSize': 2.0, 'totalSize': 45.056, " \
	"'totalFreeStorageSize': 5.0, 'scaleFactor': 1000.0, 'fsUsedSize': 7.5, 'ok': 1.0}"
#define NAMES(id, batch, names) \
	"{'cursor': {'id': {'$numberLong': '" id "'}, 'ns': 'shop.$cmd.listCollections', '" batch \
	"': [" names "]}, 'ok': 1.0}"
#define COLLECTION \
	"{'cursor': {'id': {'$numberLong': '0'}, 'ns': 'x', 'firstBatch': [{'size': 40000, " \
	"'count': 100, 'storageSize': 4096, 'freeStorageSize': 1000, 'nindexes': 1, " \
	"'totalIndexSize': 8192, 'indexFree': 500}]}, 'ok': 1.0}"
#define ASKED(name) \
	"{'aggregate': '" name "', 'pipeline': [{'$collStats': {'storageStats': {}}}, " \
	"{'$replaceWith': '$storageStats'}, {'$project': {'count': 1, 'size': 1, 'storageSize': " \
	"1, 'freeStorageSize': 1, 'nindexes': 1, 'totalIndexSize': 1, 'indexFree': {'$sum': " \
	"{'$map': {'input': {'$objectToArray': '$indexDetails'}, 'in': " \
	"'$$this.v.block-manager.file bytes available for reuse'}}}}}], 'cursor': {}, '$db': " \
	"'shop', " NEAREST "}"

Test(sequence_hide, what_overflow_collections_have_is_taken_from_db_stats)
{
	play_command(&play, "{'dbStats': 1, 'scale': 1000, '$db': 'shop'}", VERDICT_HIDE);
	play_expect_forwarded(&play);
	play_reply(&play, STATS);
	play_reply(&play, NAMES("7", "firstBatch", "{'name': 'books_more'}"));
	play_expect_helper(&play, "{'getMore': {'$numberLong': '7'}, 'collection': "
				  "'$cmd.listCollections', '$db': 'shop'}");
	play_reply(&play, NAMES("0", "nextBatch", "{'name': 'gone_more'}, {'name': 'bare_more'}"));
	play_expect_helper(&play, ASKED("books_more"));
	play_reply(&play, COLLECTION);
	play_expect_helper(&play, ASKED("gone_more"));
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'gone', 'code': 26}");
	play_expect_helper(&play, ASKED("bare_more"));
	play_reply(&play, COLLECTION);
	play_expect_answer(
		&play,
		"{'db': 'shop', 'collections': 1, 'views': 1, 'objects': 1, 'avgObjSize': "
		"82454.0, 'dataSize': 82.454, 'storageSize': 4.096, 'freeStorageSize': 1.0, "
		"'indexes': 2, 'indexSize': 16.384, 'indexFreeStorageSize': 1.0, 'totalSize': "
		"20.48, 'totalFreeStorageSize': 2.0, 'scaleFactor': 1000.0, 'fsUsedSize': 7.5, "
		"'ok': 1.0}");
	play_close(&play);
}

/* They were written to, or dropped, between one question and the next. */
Test(sequence_hide, no_figure_of_db_stats_is_below_zero)
{
	play_command(&play, "{'dbStats': 1, '$db': 'shop'}", VERDICT_HIDE);
	play_reply(&play, "{'objects': 3, 'avgObjSize': 5.0, 'dataSize': 15.0, 'scaleFactor': 1.0, "
			  "'ok': 1.0}");
	play_reply(&play, NAMES("0", "firstBatch", "{'name': 'books_more'}"));
	play_reply(&play, COLLECTION);
	play_expect_answer(&play, "{'objects': 0, 'avgObjSize': 0.0, 'dataSize': 0.0, "
				  "'scaleFactor': 1.0, 'ok': 1.0}");
	play_close(&play);
}

Test(sequence_hide, the_clients_time_holds_for_all_of_db_stats)
{
	for (size_t asked = 0; asked < 2; asked++) {
		play_command(&play, "{'dbStats': 1, 'maxTimeMS': 100, '$db': 'shop'}",
			     VERDICT_HIDE);
		play.now += asked ? 60000 : 100000;
		play_reply(&play, STATS);
		play.now += 60000;
		if (asked)
			play_reply(&play, NAMES("0", "firstBatch", "{'name': 'books_more'}"));
		play_expect_error(&play, ERROR_MAX_TIME_EXPIRED, "time limit");
		play_close(&play);
	}
}

Test(sequence_hide, db_stats_without_overflow_or_without_the_right_are_mongods)
{
	play_command(&play, "{'dbStats': 1, '$db': 'shop'}", VERDICT_HIDE);
	play_reply(&play, STATS);
	play_reply(&play, NAMES("0", "firstBatch", ""));
	play_expect_answer(&play, STATS);
	play_close(&play);
	play_command(&play, "{'dbStats': 1, '$db': 'shop'}", VERDICT_HIDE);
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'scale has to be > 0'}");
	play_expect_passed(&play);
	play_close(&play);
	for (size_t asked = 0; asked < 2; asked++) {
		play_command(&play, "{'dbStats': 1, '$db': 'shop'}", VERDICT_HIDE);
		play_reply(&play, STATS);
		if (asked)
			play_reply(&play, NAMES("0", "firstBatch", "{'name': 'books_more'}"));
		play_reply(&play, UNAUTHORIZED("no"));
		play_expect_passed(&play);
		play_close(&play);
	}
}
