/* Tests rules/edit/edit_together.c: several documents of a statement are written by one command. */
#include "tests/unit/play.h"

#include "rules/write/write_inner.h"

#define EDIT "{'$set': {'f.0': 9}}"
#define CHANGE "{'$inc': {'x': 1}}"
#define STATEMENT(q, u) "{'q': " q ", 'u': " u ", 'multi': true}"
#define UPDATE(statements, more) \
	"{'update': 'books', 'updates': [" statements "]" more ", '$db': 'shop'}"
#define FOUND(documents) \
	"{'cursor': {'firstBatch': [" documents "], 'id': {'$numberLong': '0'}, 'ns': " \
	"'shop.books'}, 'ok': 1.0}"
#define RESULT(n) "{'n': " #n ", 'nModified': " #n ", 'ok': 1.0}"
#define FAILED(n, index, error) \
	"{'n': " #n ", 'writeErrors': [{'index': " #index ", " error "}], 'nModified': " #n \
	", 'ok': 1.0}"
#define BAD "'code': 2, 'errmsg': 'bad'"
#define RACED \
	"'code': 241, 'errmsg': 'Failed to parse objectId spillway: another writer int in " \
	"$convert'"
#define PIN(id) "{'_id': {'$eq': " #id "}}"
#define ALONE(q, id) "{'$and': [" q ", " PIN(id) ", {'_spill': {'$exists': false}}]}"
#define RAISES "{'$toObjectId': {'$concat': ['spillway: another writer ', {'$type': '$_id'}]}}"
#define NOT_SPILLED(id) \
	"{'$expr': {'$cond': [{'$ne': ['$_id', {'$literal': " #id "}]}, false, {'$cond': " \
	"[{'$or': [{'$ne': [{'$type': '$_spill'}, 'missing']}]}, " RAISES ", false]}]}}"
/* The filter reads no array: it holds, whatever is spilled. */
#define WHOLE(q, id) \
	"{'$and': [" q \
	", " PIN(id) ", {'$or': [{'_spill': {'$exists': false}}, " NOT_SPILLED(id) "]}]}"
/* It reads one: of a spilled document nothing is known by its head. */
#define MATCHED(q, id) \
	"{'$and': [" PIN(id) ", {'$or': [{'$and': [" q \
			     ", {'_spill': {'$exists': false}}]}, " NOT_SPILLED(id) "]}]}"
#define SWAPPED(id, length) \
	"{'$and': [" PIN(id) ", {'$expr': {'$cond': [{'$ne': ['$_id', {'$literal': " #id \
			     "}]}, false, {'$cond': [{'$and': [{'$eq': ['$_spill.f.g', " \
			     "{'$literal': " G1 "}]}, {'$eq': ['$_spill.f.n', {'$literal': 3}]}, " \
			     "{'$eq': [{'$cond': [{'$isArray': '$f'}, {'$size': '$f'}, -1]}, " \
			     "{'$numberLong': '" #length "'}]}]}, true, " RAISES "]}]}}]}"
#define STATE "{'f': {'g': " G1 ", 'h': 2, 'n': 3}}"
#define IMAGE(id, length) "{'_id': " #id ", '_spill': " STATE ", '0': " #length ", 'place': 1}"

#define BY_FIELD UPDATE(STATEMENT("{'x': 1}", EDIT), "")
#define BY_ARRAY UPDATE(STATEMENT("{'f': 5}", CHANGE), "")

static struct play play;

static void start(const char *command)
{
	play_command(&play, command, VERDICT_WRITE);
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
}

/* How many statements the command has that goes out. */
static size_t count_statements(const char *field)
{
	struct element statements, each;
	struct cursor cursor;
	size_t count = 0;

	cr_assert(document_find(play_message(&play).body, field, &statements));
	cr_assert(cursor_open(&cursor, statements.value));
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
		count++;
	return count;
}

Test(edit_together, whole_arrays_are_written_by_one_command)
{
	start(BY_FIELD);
	play_reply(&play, FOUND("{'_id': 1}, {'_id': 2}"));
	play_expect_sent(&play, 0,
			 UPDATE(STATEMENT(WHOLE("{'x': 1}", 1),
					  EDIT) ", " STATEMENT(WHOLE("{'x': 1}", 2), EDIT),
				""));
	cr_assert_eq(play.sent_id, PLAY_ID);
	play_reply(&play, RESULT(2));
	play_expect_answer(&play, RESULT(2));
	cr_assert_eq(play_notes(&play), 2);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(play.notes[i].reason, MOVER_EDITED);
		cr_assert_eq(load_int32(play.notes[i].id.data), i + 1);
	}
	play_close(&play);
}

Test(edit_together, spilled_ones_by_what_the_search_has_read)
{
	start(BY_ARRAY);
	play_reply(&play, FOUND("{'_id': 1}, {'_spill': {'id': 2, 'g': " G1 "}}"));
	cr_assert_str_eq(play_stages(&play), "$match $limit $project $sort $unionWith");
	play_reply(&play, FOUND("{'_id': 1}, " IMAGE(2, 4) ", {'_spill': {'id': 2, 'g': " G1 "}}"));
	play_expect_sent(&play, 0,
			 UPDATE(STATEMENT(MATCHED("{'f': 5}", 1),
					  CHANGE) ", " STATEMENT(SWAPPED(2, 4), CHANGE),
				""));
	play_reply(&play, RESULT(2));
	play_expect_answer(&play, RESULT(2));
	cr_assert_eq(play_notes(&play), 2);
	cr_assert_eq(play.notes[0].reason, MOVER_EDITED);
	cr_assert_eq(play.notes[1].reason, MOVER_APPENDED);
	cr_assert_eq(play.notes[1].elements, 0);
	play_close(&play);
}

/* The length of an array that was put together is the whole one: three of it are in the overflow.
 */
Test(edit_together, an_array_that_was_put_together_has_its_overflow_in_it)
{
	start(UPDATE(STATEMENT("{'f': {'$size': 7}}", CHANGE), ""));
	play_reply(&play, FOUND("{'_id': 2, '_spill': " STATE ", '0': 7}"));
	play_expect_sent(&play, 0, UPDATE(STATEMENT(SWAPPED(2, 4), CHANGE), ""));
	play_close(&play);
}

/* What is behind its end would be left out. */
Test(edit_together, a_list_that_is_too_long_writes_nothing)
{
	struct buffer *list;

	start(BY_FIELD);
	play_reply(&play, "{'cursor': {'firstBatch': [{'_id': 1}], 'id': {'$numberLong': '9'}, "
			  "'ns': 'shop.books'}, 'ok': 1.0}");
	list = &((struct sequence_write *)(void *)play.sequence)->edit.list.ids;
	buffer_reserve(list, WRITER_MOST); /* the system gives what is touched */
	list->length += WRITER_MOST;
	play_reply(&play, "{'cursor': {'nextBatch': [{'_id': 2}], 'id': {'$numberLong': '0'}, "
			  "'ns': 'shop.books'}, 'ok': 1.0}");
	play_expect_error(&play, 10334, "write fewer documents");
	play_close(&play);
}

Test(edit_together, deletes_go_the_same_way)
{
	start("{'delete': 'books', 'deletes': [{'q': {'f': 5}, 'limit': 0}], '$db': 'shop'}");
	play_reply(&play, FOUND(IMAGE(2, 4) ", {'_id': 3}"));
	play_expect_sent(
		&play, 0,
		"{'delete': 'books', 'deletes': [{'q': " SWAPPED(
			2, 4) ", 'limit': 0}, {'q': " MATCHED("{'f': 5}",
							      3) ", 'limit': 0}], '$db': 'shop'}");
	play_reply(&play, "{'n': 1, 'ok': 1.0}"); /* the other one is gone by now */
	play_expect_answer(&play, "{'n': 1, 'ok': 1.0}");
	cr_assert_eq(play_notes(&play), 2);
	cr_assert_eq(play.notes[0].reason, MOVER_DELETED);
	play_close(&play);
}

Test(edit_together, one_that_has_to_be_folded_back_goes_alone_in_its_turn)
{
	start(BY_FIELD);
	play_reply(&play, FOUND("{'_id': 1}, {'_id': 2, '_spill': " STATE "}, {'_id': 3}"));
	play_expect_sent(&play, 0, UPDATE(STATEMENT(WHOLE("{'x': 1}", 1), EDIT), ""));
	play_reply(&play, RESULT(1));
	play_expect_sent(&play, 0, UPDATE(STATEMENT(ALONE("{'x': 1}", 2), EDIT), ""));
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND("")); /* LOOK */
	play_expect_sent(&play, 0, UPDATE(STATEMENT(WHOLE("{'x': 1}", 3), EDIT), ""));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, RESULT(2));
	play_close(&play);
}

/* What is compared of such a state is not what a check-and-set knows. */
Test(edit_together, one_that_was_edited_in_place_goes_alone)
{
	start(BY_ARRAY);
	play_reply(&play,
		   FOUND("{'_id': 1}, {'_id': 2, '_spill': {'f': {'e': {'g': " G1 ", 'l': " G2
			 ", 'h': 2, 'n': 3, 'b': 3, 'r': 0, 'v': 0}}}, '0': 2, 'place': 1}"));
	play_expect_sent(&play, 0, UPDATE(STATEMENT(MATCHED("{'f': 5}", 1), CHANGE), ""));
	play_reply(&play, RESULT(1));
	play_expect_sent(&play, 0, UPDATE(STATEMENT(ALONE("{'f': 5}", 2), CHANGE), ""));
	play_close(&play);
}

/* What is before it is done, what is behind it is not. */
Test(edit_together, one_that_another_writer_touched_goes_alone)
{
	start(BY_ARRAY);
	play_reply(&play, FOUND("{'_id': 1}, {'_id': 2}, {'_id': 3}"));
	play_reply(&play, FAILED(1, 1, RACED));
	play_expect_sent(&play, 0, UPDATE(STATEMENT(ALONE("{'f': 5}", 2), CHANGE), ""));
	play_reply(&play, RESULT(1));
	play_expect_sent(&play, 0, UPDATE(STATEMENT(MATCHED("{'f': 5}", 3), CHANGE), ""));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, RESULT(3));
	cr_assert_eq(play_notes(&play), 3);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(load_int32(play.notes[i].id.data), i + 1);
	play_close(&play);
}

Test(edit_together, an_error_comes_in_the_words_that_its_document_has_alone)
{
	start(UPDATE(STATEMENT("{'y': 1}", "{'$inc': {'z': 1}}") ", " STATEMENT("{'x': 1}", EDIT),
		     ""));
	play_reply(&play, RESULT(4));
	play_reply(&play, FOUND("{'_id': 1}, {'_id': 2}, {'_id': 3}"));
	play_reply(&play, FAILED(1, 1, BAD));
	play_expect_sent(&play, 0, UPDATE(STATEMENT(ALONE("{'x': 1}", 2), EDIT), ""));
	play_reply(&play, FAILED(0, 0, BAD));
	/* as mongod says it, of an error among many nothing else is said */
	play_expect_answer(&play, FAILED(4, 1, BAD));
	play_close(&play);
}

/* It has ended with the error. */
Test(edit_together, in_a_transaction_an_error_stands)
{
	start(UPDATE(STATEMENT("{'y': 1}", "{'$inc': {'z': 1}}") ", " STATEMENT("{'x': 1}", EDIT),
		     ", 'ordered': false, " TRANSACTION));
	play_reply(&play, RESULT(4));
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND("{'_id': 1}, {'_id': 2}, {'_id': 3}"));
	play_expect_sent(&play, 0,
			 UPDATE(STATEMENT(WHOLE("{'x': 1}", 1), EDIT) ", " STATEMENT(
					WHOLE("{'x': 1}", 2),
					EDIT) ", " STATEMENT(WHOLE("{'x': 1}", 3), EDIT),
				", " TRANSACTION));
	play_reply(&play, FAILED(1, 1, BAD));
	play_expect_answer(&play, FAILED(4, 1, BAD));
	play_close(&play);
}

Test(edit_together, an_error_without_a_place_leaves_open_what_was_done)
{
	start(BY_FIELD);
	play_reply(&play, FOUND("{'_id': 1}, {'_id': 2}"));
	play_reply(&play, FAILED(1, 2, BAD));
	play_expect_error(&play, 112, "can't be read");
	play_close(&play);
}

/* The write goes to one document, as the state says nothing that a check-and-set could go by. */
Test(edit_together, damaged_states_are_looked_at)
{
	static const char *const found[] = {
		"{'_id': 1, '_spill': {'f': {'h': 2, 'n': 3}}, '0': 4}",
		"{'_id': 1, '_spill': {'f': {'g': " G1 ", 'h': 2}}, '0': 4}",
		"{'_id': 1, '_spill': {'f': {'g': " G1 ", 'h': 2, 'n': 3}}, '0': -1}",
		"{'_id': 1, '_spill': {'f': 7}, '0': 4}",
		"{'_id': 1, '_spill': 7, '0': 4}",
		"{'_id': 1, '_spill': {}, '0': 4}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(found); i++) {
		start(BY_ARRAY);
		play_reply(&play, made_text(FOUND("%s"), found[i]));
		play_expect_sent(&play, 0, UPDATE(STATEMENT(ALONE("{'f': 5}", 1), CHANGE), ""));
		play_close(&play);
	}
}

Test(edit_together, some_go_alone_always)
{
	static const struct {
		const char *q, *u, *more;
	} cases[] = {
		{"{'x': 1}", EDIT, ", 'hint': {'x': 1}"},
		{"{'x': 1}", EDIT, ", 'collation': {'locale': 'en'}"},
		{"{'$expr': {'$gt': ['$x', 1]}}", EDIT, ""}, /* raises errors of its own */
		{"{'f': 5}", "{'$set': {'f.$': 1}}", ""},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		play_command(
			&play,
			made_text("{'update': 'books', 'updates': [{'q': %s, 'u': %s, 'multi': "
				  "true%s}], '$db': 'shop'}",
				  cases[i].q, cases[i].u, cases[i].more),
			VERDICT_WRITE);
		play_reply(&play, FOUND("{'_id': 1}, {'_id': 2}"));
		cr_assert_eq(count_statements("updates"), 1, "%s", cases[i].q);
		play_close(&play);
	}
	/* mongod refuses it, as it is */
	start(UPDATE(STATEMENT("{'x': 1}", EDIT), ", " LSID ", " NUMBER));
	play_reply(&play, FOUND("{'_id': 1}, {'_id': 2}"));
	cr_assert_eq(count_statements("updates"), 1);
	play_close(&play);
}

static const char *list(size_t count)
{
	const char *text = "{'_id': 0}";

	for (size_t i = 1; i < count; i++)
		text = made_text("%s, {'_id': %zu}", text, i);
	return made_text(FOUND("%s"), text);
}

/* Each error has what is behind it sent again: fewer of them go. */
Test(edit_together, an_order_that_is_none_is_mongods_to_refuse)
{
	start(UPDATE(STATEMENT("{'x': 1}", EDIT), ", 'ordered': false"));
	play_reply(&play, FOUND("{'_id': 1}, {'_id': 2}"));
	play_expect_sent(&play, 0,
			 UPDATE(STATEMENT(WHOLE("{'x': 1}", 1),
					  EDIT) ", " STATEMENT(WHOLE("{'x': 1}", 2), EDIT),
				""));
	play_close(&play);
	start(UPDATE(STATEMENT("{'x': 1}", EDIT), ", 'ordered': 'x'"));
	play_reply(&play, FOUND("{'_id': 1}, {'_id': 2}"));
	play_expect_sent(&play, 0,
			 UPDATE(STATEMENT(WHOLE("{'x': 1}", 1),
					  EDIT) ", " STATEMENT(WHOLE("{'x': 1}", 2), EDIT),
				", 'ordered': 'x'"));
	play_close(&play);
}

Test(edit_together, so_many_go_at_once)
{
	start(BY_FIELD);
	play_reply(&play, list(600));
	cr_assert_eq(count_statements("updates"), 500);
	play_reply(&play, FAILED(10, 10, RACED));
	cr_assert_eq(count_statements("updates"), 1);
	play_reply(&play, RESULT(1));
	cr_assert_eq(count_statements("updates"), 251);
	play_reply(&play, RESULT(251));
	cr_assert_eq(count_statements("updates"), 338);
	play_reply(&play, RESULT(338));
	play_expect_answer(&play, RESULT(600));
	play_close(&play);
}

Test(edit_together, large_statements_are_fewer)
{
	const char *text = "x";

	while (strlen(text) < 300000)
		text = made_text("%s%s", text, text);
	start(made_text(UPDATE("{'q': {'x': 1}, 'u': {'$set': {'f.0': '%s'}}, 'multi': true}", ""),
			text));
	play_reply(&play, list(20));
	cr_assert_eq(count_statements("updates"), 4);
	play_close(&play);
}

/* Each of them may be written. */
Test(edit_together, what_is_cut_tells_the_mover_of_all)
{
	start(BY_FIELD);
	play_reply(&play, FOUND("{'_id': 1}, {'_id': 2}"));
	cr_assert_eq(play_cut(&play), 2, "%zu", play.note_count);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(play.notes[i].reason, MOVER_EDITED);
		cr_assert_eq(load_int32(play.notes[i].id.data), i + 1);
	}
	play_close(&play);
}
