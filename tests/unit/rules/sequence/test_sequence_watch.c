/* Tests rules/sequence/sequence_watch.c: commands that change collections. */
#include "tests/unit/play.h"

static struct play play;

#define RENAME \
	"{'renameCollection': 'shop.new', 'to': 'shop.pairs', 'dropTarget': true, '$db': 'admin'}"
#define SOURCE \
	"{'find': 'new', 'filter': {'_spill': {'$exists': true, '$ne': {}}}, 'projection': " \
	"{'_id': 1}, " \
	"'limit': 1, 'singleBatch': true, '$db': 'shop', " NEAREST "}"
#define FOUND(documents) \
	"{'cursor': {'id': {'$numberLong': '0'}, 'ns': 'x', 'firstBatch': [" documents \
	"]}, 'ok': 1.0}"

Test(sequence_watch, a_drop_is_answered_when_the_overflow_of_each_rule_has_been_tended)
{
	static const char *const replies[] = {
		"{'ok': 1.0}",
		"{'ok': 0.0, 'errmsg': 'ns not found', 'code': 26}", /* tried again, perhaps */
	};

	for (size_t i = 0; i < ARRAY_LENGTH(replies); i++) {
		play_command(&play, "{'drop': 'pairs', '$db': 'shop'}", VERDICT_WATCH);
		play_expect_forwarded(&play);
		play_reply(&play, replies[i]);
		cr_assert_eq(play.sequence->match.tending, MOVER_TEND_GONE);
		play_tended(&play, "pairs", "first");
		play_tended(&play, "pairs", "second");
		play_expect_passed(&play);
		cr_assert_eq(play_notes(&play), 0);
		play_close(&play);
	}
}

#define STRICT "{'collMod': 'books', 'validationAction': 'error', '$db': 'shop'}"
#define LIST "{'listCollections': 1, 'filter': {'name': 'books'}, '$db': 'shop', " NEAREST "}"
#define OPTIONS(options) FOUND("{'name': 'books', 'options': {" options "}}")

Test(sequence_watch, a_validator_that_only_warned_is_judged_before_it_refuses)
{
	static const char *const good[] = {
		OPTIONS(""),
		OPTIONS("'validator': {'f': {'$exists': true}}, 'validationAction': 'warn'"),
		OPTIONS("'validator': {'f': 3}, 'validationLevel': 'off'"),
		FOUND(""),
		"{'ok': 0.0, 'errmsg': 'no', 'code': 13}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
		play_command(&play, STRICT, VERDICT_WATCH);
		play_expect_helper(&play, LIST);
		play_reply(&play, good[i]);
		play_expect_forwarded(&play);
		play_close(&play);
	}
	play_command(&play, STRICT, VERDICT_WATCH);
	play_reply(&play, OPTIONS("'validator': {'f': 3}, 'validationAction': 'warn'"));
	play_expect_error(&play, ERROR_COMMAND_NOT_SUPPORTED, "its validator looks at 'f'");
	play_close(&play);
	play_command(&play, "{'collMod': 'books', 'validationLevel': 'off', '$db': 'shop'}",
		     VERDICT_WATCH);
	play_reply(&play, OPTIONS("'validator': {'f': 3}, 'validationLevel': 'moderate'"));
	play_expect_forwarded(&play);
	play_close(&play);
}

Test(sequence_watch, what_failed_is_passed_on_at_once)
{
	static const char *const commands[] = {
		"{'drop': 'books', '$db': 'shop'}",
		"{'createIndexes': 'books', 'indexes': [{'key': {'f': 1}}], '$db': 'shop'}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(commands); i++) {
		play_command(&play, commands[i], VERDICT_WATCH);
		play_reply(&play, "{'ok': 0.0, 'errmsg': 'no', 'code': 13}");
		play_expect_passed(&play);
		play_close(&play);
	}
	play_command(&play, commands[0], VERDICT_WATCH);
	play_reply_old(&play);
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_watch, indexes_on_the_array_are_tended_and_others_are_not)
{
	static const struct {
		const char *command;
		bool tended;
	} cases[] = {
		{"{'createIndexes': 'books', 'indexes': [{'key': {'f': 1}}], '$db': 'shop'}", true},
		{"{'createIndexes': 'books', 'indexes': [{'key': {'x': 1}}, {'key': {'f.a': 1}}], "
		 "'$db': 'shop'}",
		 true},
		{"{'createIndexes': 'books', 'indexes': [{'key': {'x': 1}}], '$db': 'shop'}",
		 false},
		{"{'dropIndexes': 'books', 'index': 'x_1', '$db': 'shop'}", true},
		{"{'collMod': 'books', '$db': 'shop'}", false},
		{"{'create': 'books', '$db': 'shop'}", false},
		{"{'dropDatabase': 1, '$db': 'shop'}", false},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		play_command(&play, cases[i].command, VERDICT_WATCH);
		play_reply(&play, "{'ok': 1.0}");
		if (cases[i].tended)
			play_tended(&play, "books", "books");
		play_expect_passed(&play);
		play_close(&play);
	}
}

Test(sequence_watch, an_index_waits_for_the_overflow_of_its_own_arrays_alone)
{
	static const struct {
		const char *indexes;
		bool first, second;
	} cases[] = {
		{"{'key': {'f': 1}}", true, false},
		{"{'key': {'x': 1, 'a.g.n': 1}}", false, true},
		{"{'key': {'a': 1}}", false, true},
		{"{'key': {'f': 1}}, {'key': {'a.g': 1}}", true, true},
		{"{'key': {'$**': 1}}", true, true},
		{"{'key': {'f': 1}}, {'name': 'none'}", true, true},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		char command[200];

		snprintf(command, sizeof(command),
			 "{'createIndexes': 'pairs', 'indexes': [%s], '$db': 'shop'}",
			 cases[i].indexes);
		play_command(&play, command, VERDICT_WATCH);
		play_reply(&play, "{'ok': 1.0}");
		if (cases[i].first)
			play_tended(&play, "pairs", "first");
		if (cases[i].second)
			play_tended(&play, "pairs", "second");
		play_expect_passed(&play);
		play_close(&play);
	}
}

Test(sequence_watch, a_rename_goes_out_when_every_document_is_whole)
{
	play_command(&play, RENAME, VERDICT_WATCH);
	play_expect_helper(&play, SOURCE);
	play_reply(&play, FOUND(""));
	play_expect_forwarded(&play);
	play_reply(&play, "{'ok': 1.0}");
	play_tended(&play, "pairs", "first");
	play_tended(&play, "pairs", "second");
	play_expect_passed(&play);
	cr_assert_eq(play_notes(&play), 2);
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(play.notes[i].reason, MOVER_SOMEWHERE);
		cr_assert(bytes_are(play.notes[i].collection, "pairs"));
	}
	play_close(&play);
}

Test(sequence_watch, a_rename_that_failed_leaves_no_note)
{
	play_command(&play, RENAME, VERDICT_WATCH);
	play_reply(&play, FOUND(""));
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'target namespace exists', 'code': 48}");
	play_expect_passed(&play);
	cr_assert_eq(play_notes(&play), 0);
	play_close(&play);
}

Test(sequence_watch, a_rename_is_refused_where_tails_would_stay_behind)
{
	play_command(&play, RENAME, VERDICT_WATCH);
	play_reply(&play, FOUND("{'_id': 1}"));
	play_expect_error(&play, 115, "stay behind");
	cr_assert_eq(play_notes(&play), 0);
	play_close(&play);
}

Test(sequence_watch, a_rename_whose_source_can_t_be_read_does_not_go_out)
{
	play_command(&play, RENAME, VERDICT_WATCH);
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'not allowed', 'code': 13}");
	play_expect_passed(&play);
	play_close(&play);
	play_command(&play, RENAME, VERDICT_WATCH);
	play_reply_old(&play);
	play_expect_error(&play, 9, "can't be read");
	play_close(&play);
}

#define WITHIN "{'renameCollection': 'tenant_1.posts', 'to': 'tenant_2.posts', '$db': 'admin'}"

Test(sequence_watch, a_rename_within_one_pattern_tends_both_names)
{
	play_command(&play, WITHIN, VERDICT_WATCH);
	play_reply(&play, FOUND(""));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_helper(&play, "{'find': 'posts', 'filter': {'_spill': {'$exists': true, '$ne': "
				  "{}}}, 'projection': {'_id': 1}, 'limit': 1, 'singleBatch': "
				  "true, '$db': 'tenant_2', " NEAREST "}");
	play_reply(&play, FOUND(""));
	cr_assert(bytes_are(play.sequence->move.note.database, "tenant_1"));
	play_tended(&play, "posts", "posts");
	cr_assert(bytes_are(play.sequence->move.note.database, "tenant_2"));
	play_tended(&play, "posts", "posts");
	cr_assert_eq(play.outcome, SEQUENCE_DONE);
	cr_assert_eq(play_notes(&play), 1);
	play_close(&play);
}

/* The overflow is not tended: what moved is there. */
Test(sequence_watch, a_rename_during_which_a_tail_moved_goes_back)
{
	static const struct {
		const char *reply, *said;
	} cases[] = {{"{'ok': 1.0}", "its old name again"},
		     {"{'ok': 0.0, 'errmsg': 'exists', 'code': 48}", "straight at the server"}};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		play_command(&play, WITHIN, VERDICT_WATCH);
		play_reply(&play, FOUND(""));
		play_reply(&play, "{'ok': 1.0}");
		play_reply(&play, FOUND("{'_id': 1}"));
		play_expect_helper(&play, "{'renameCollection': 'tenant_2.posts', 'to': "
					  "'tenant_1.posts', '$db': 'admin'}");
		play_reply(&play, cases[i].reply);
		play_expect_error(&play, 115, cases[i].said);
		cr_assert_eq(play_notes(&play), 0);
		play_close(&play);
	}
}

/* ---- an index over two paths inside the elements ---- */

#define INDEX(keys) \
	"{'createIndexes': 'books', 'indexes': [{'key': " keys ", 'name': 'x'}], '$db': 'shop'}"

Test(sequence_watch, a_transaction_starts_with_the_question)
{
	static const char index[] = "{'createIndexes': 'books', 'indexes': [{'key': {'f.a': 1, "
				    "'f.b': 1}, 'name': 'x'}], " TRANSACTION "%s, '$db': 'shop'}";

	play_command(&play, made_text(index, ", 'startTransaction': true"), VERDICT_WATCH);
	cr_assert_gt(play_find(play_message(&play).body, "startTransaction").length, 0);
	play_reply(&play, FOUND(""));
	play_expect_sent(&play, 0, made_text(index, ""));
	play_close(&play);
}

Test(sequence_watch, elements_in_the_overflow_may_forbid_an_index)
{
	struct element conditions, condition, type;
	struct cursor cursor;

	play_command(&play, INDEX("{'f.a': 1, 'n': 1, 'f.b': -1}"), VERDICT_WATCH);
	cr_assert(document_find_path(play_message(&play).body, "filter.$or", &conditions));
	cr_assert(cursor_open(&cursor, conditions.value));
	cr_assert(cursor_next(&cursor, &condition) == CURSOR_ELEMENT);
	cr_assert(document_find_path(condition.value, "more.$elemMatch.a.$type", &type));
	cr_assert(document_find_path(condition.value, "more.$elemMatch.b.$type", &type));
	cr_assert(cursor_next(&cursor, &condition) == CURSOR_END);
	play_reply(&play, "{'cursor': {'firstBatch': [{'_id': 1}], 'id': 0}, 'ok': 1.0}");
	play_expect_error(&play, 171, "cannot index parallel arrays");
	play_close(&play);
	play_command(&play, INDEX("{'f.c.a': 1, 'f.c.b': -1}"), VERDICT_WATCH);
	play_reply(&play, "{'cursor': {'firstBatch': [{'_id': 1}], 'id': 0}, 'ok': 1.0}");
	play_expect_error(&play, 115, "may have parallel arrays");
	play_close(&play);
	play_command(&play, INDEX("{'f.a': 1, 'f.b': -1}"), VERDICT_WATCH);
	play_reply(&play, "{'cursor': {'firstBatch': [], 'id': 0}, 'ok': 1.0}");
	play_expect_forwarded(&play);
	play_close(&play);
}

Test(sequence_watch, other_indexes_are_not_asked_about)
{
	static const char *const commands[] = {
		INDEX("{'f.a': 1, 'n': 1}"), INDEX("{'f': 1, 'f.a': 1}"),
		INDEX("{'f.a': 1, 'f.a.b': 1}"), INDEX("{'n.a': 1, 'n.b': 1}")};

	for (size_t i = 0; i < ARRAY_LENGTH(commands); i++) {
		play_command(&play, commands[i], VERDICT_WATCH);
		play_expect_forwarded(&play);
		play_close(&play);
	}
}

Test(sequence_watch, an_index_of_very_deep_paths_is_refused)
{
	play_command(&play, INDEX("{'f.a': 1, 'f.0.1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17': 1}"),
		     VERDICT_WATCH);
	play_expect_error(&play, 115, "too deep");
	play_close(&play);
}

/* The question was the transaction's first command. */
Test(sequence_watch, an_index_in_a_transaction_starts_it_once)
{
	play_command(&play,
		     "{'createIndexes': 'books', 'indexes': [{'key': {'f.a': 1, 'f.b': 1}, 'name': "
		     "'x'}], '$db': 'shop', 'readConcern': {'level': 'local'}, 'startTransaction': "
		     "true, " TRANSACTION "}",
		     VERDICT_WATCH);
	play_reply(&play, "{'cursor': {'firstBatch': [], 'id': 0}, 'ok': 1.0}");
	play_expect_sent(&play, 0,
			 "{'createIndexes': 'books', 'indexes': [{'key': {'f.a': 1, 'f.b': 1}, "
			 "'name': 'x'}], '$db': 'shop', " TRANSACTION "}");
	play_close(&play);
}
