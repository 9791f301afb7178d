/* Tests rules/read/member.c and sequence_member.c: finds that ask one document for an element. */
#include "tests/unit/play.h"

#define FIND(fields) "{'find': 'books', " fields ", '$db': 'shop'}"
#define REPLY(documents) \
	"{'cursor': {'firstBatch': [" documents \
	"], 'id': {'$numberLong': '0'}, 'ns': 'shop.books'}, 'ok': 1.0}"
#define IDS "'projection': {'_id': 1}"
#define ASKS_INT FIND("'filter': {'_id': 1, 'f': 5}, " IDS)
#define STATE(n) "'_spill': {'f': {'g': " G1 ", 'h': 2, 'n': {'$numberLong': '" #n "'}}}"
#define MAIN(fields) "{'_id': 1, " fields "'_spill/length': 2}"
#define SPARES \
	"'_spill/0': 1, '_spill/1': 1, '_spill/2': 1, '_spill/3': 1, '_spill/4': 1, " \
	"'_spill/5': 1, '_spill/6': 1, '_spill/7': 1, '_spill': 1, "
#define LENGTH(array) \
	"'_spill/length': {'$cond': [{'$isArray': '" array "'}, {'$size': '" array "'}, -1]}"
#define ASKED_MAIN(filter, element) \
	"{'find': 'books', 'filter': " filter ", '$db': 'shop', 'projection': {'_id': 1, " SPARES \
	"'f': {'$elemMatch': " element "}, " LENGTH("$f") "}}"
#define OF_GENERATION(n) \
	"'book': {'$eq': 1}, '_spill.g': " G1 ", '_spill.p': {'$lt': {'$numberLong': '" #n "'}}"
#define PLACE "'_id': 0, '_spill.p': 1, '_spill/length': {'$size': '$more'}"
#define ASKED_ONE \
	"{'find': 'books_more', 'filter': {'book': {'$eq': 1}, '_spill.g': " G1 \
	", '_spill.p': 0, 'more': {'$size': {'$numberLong': '3'}}}, " \
	"'projection': {'_id': 0, '_spill.p': 1, 'more': {'$elemMatch': {'$eq': 5}}}, " \
	"'limit': 1, 'singleBatch': true, '$db': 'shop', " NEAREST "}"
#define ASKED_HIT \
	"{'find': 'books_more', 'filter': {" OF_GENERATION( \
		3000) ", 'more': 5}, " \
		      "'projection': {" PLACE \
		      "}, 'limit': 1, 'singleBatch': true, '$db': 'shop', " NEAREST "}"
#define ASKED_ALL \
	"{'find': 'books_more', 'filter': {" OF_GENERATION( \
		3000) "}, 'sort': {'_spill.i': 1}, " \
		      "'projection': {" PLACE "}, 'batchSize': 2147483647, 'singleBatch': true, " \
		      "'$db': 'shop', " NEAREST "}"
#define BATCH(p, length) \
	"{'_spill': {'p': {'$numberLong': '" #p "'}}, '_spill/length': " #length "}"

static struct play play;

static void start(const char *command)
{
	play_command(&play, command, VERDICT_AGGREGATE);
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
}

static void expect_put_together(void)
{
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
	cr_assert(bytes_are(play_message(&play).body.length > 0
				    ? (struct bytes){play_message(&play).body.data + 5, 9}
				    : (struct bytes){0},
			    "aggregate"));
}

static void expect_answer(const char *json)
{
	play_expect_answer(&play, json);
	play_close(&play);
}

Test(sequence_member, main_tells_of_its_own_elements)
{
	start(ASKS_INT);
	play_expect_helper(&play, ASKED_MAIN("{'_id': 1}", "{'$eq': 5}"));
	play_reply(&play, REPLY(MAIN("'f': [5], " STATE(3) ", ")));
	expect_answer(REPLY("{'_id': 1}"));
}

Test(sequence_member, a_document_without_overflow_needs_no_more)
{
	static const char *const found[] = {"", MAIN(""), MAIN("'_spill': {}, "),
					    MAIN(STATE(0) ", ")};

	for (size_t i = 0; i < ARRAY_LENGTH(found); i++) {
		struct made reply = {0};
		char json[512];

		start(ASKS_INT);
		snprintf(json, sizeof(json), REPLY("%s"), found[i]);
		reply.body = json;
		play_reply_made(&play, reply);
		expect_answer(REPLY(""));
	}
}

Test(sequence_member, the_clients_other_fields_and_conditions_stay)
{
	start(FIND("'filter': {'$and': [{'f.x': 5, 'y': 2}, {'_id': {'$eq': 1}}]}, 'limit': 1, "
		   "'projection': {'y': 1}, 'comment': 'c', 'maxTimeMS': 900, " LSID));
	play_expect_helper(&play,
			   "{'find': 'books', 'filter': {'$and': [{'y': 2}, {'_id': {'$eq': 1}}]}, "
			   "'limit': 1, 'comment': 'c', 'maxTimeMS': 900, " LSID
			   ", '$db': 'shop', 'projection': {'y': 1, " SPARES
			   "'f': {'$elemMatch': {'x': 5}}, " LENGTH("$f") "}}");
	play_reply(&play, REPLY("{'_id': 1, 'y': 2, 'f': [{'x': 5}], '_spill/length': 1}"));
	expect_answer(REPLY("{'_id': 1, 'y': 2}"));
}

Test(sequence_member, an_overflow_of_one_document_is_asked_once)
{
	start(ASKS_INT);
	play_reply(&play, REPLY(MAIN(STATE(3) ", ")));
	play_expect_helper(&play, ASKED_ONE);
	play_reply(&play, REPLY("{'_spill': {'p': 0}, 'more': [5]}"));
	expect_answer(REPLY("{'_id': 1}"));
	start(ASKS_INT);
	play_reply(&play, REPLY(MAIN(STATE(3) ", ")));
	play_reply(&play, REPLY("{'_spill': {'p': 0}}"));
	expect_answer(REPLY(""));
	start(ASKS_INT);
	play_reply(&play, REPLY(MAIN(STATE(3) ", ")));
	play_reply(&play, REPLY(""));
	cr_assert_eq(play_find(play_message(&play).body, "filter.more").length, 4); /* HIT */
	play_close(&play);
}

Test(sequence_member, a_long_overflow_is_asked_for_the_element_then_for_holes)
{
	start(ASKS_INT);
	play_reply(&play, REPLY(MAIN(STATE(3000) ", ")));
	play_expect_helper(&play, ASKED_HIT);
	play_reply(&play, REPLY(BATCH(1000, 1000)));
	expect_answer(REPLY("{'_id': 1}"));
	start(ASKS_INT);
	play_reply(&play, REPLY(MAIN(STATE(3000) ", ")));
	play_reply(&play, REPLY(""));
	play_expect_helper(&play, ASKED_ALL);
	play_reply(&play, REPLY(BATCH(0, 1000) ", " BATCH(1000, 2000)));
	expect_answer(REPLY(""));
}

Test(sequence_member, overflow_that_is_not_all_there_proves_nothing)
{
	static const char *const batches[] = {"", BATCH(1, 2), BATCH(0, 1) ", " BATCH(2, 1),
					      BATCH(0, 2)};

	for (size_t i = 0; i < ARRAY_LENGTH(batches); i++) {
		char json[512];

		start(ASKS_INT);
		play_reply(&play, REPLY(MAIN(STATE(3) ", ")));
		play_reply(&play, REPLY(""));
		play_reply(&play, REPLY(""));
		snprintf(json, sizeof(json), REPLY("%s"), batches[i]);
		play_reply(&play, json);
		play_expect_helper(&play, ASKED_MAIN("{'_id': 1}", "{'$eq': 5}"));
		play_close(&play);
	}
	start(ASKS_INT);
	for (int i = 0; i < 3; i++) {
		play_reply(&play, REPLY(MAIN(STATE(3000) ", ")));
		play_expect_helper(&play, ASKED_HIT);
		play_reply(&play, REPLY(BATCH(2500, 501)));
	}
	expect_put_together();
	cr_assert_eq(play.sequence->counts.repeats, 3);
	play_close(&play);
}

Test(sequence_member, what_is_not_as_expected_is_put_together)
{
	static const char *const found[] = {
		"{'_id': 1, 'f': [5], '_spill/length': -1}",
		"{'_id': 1, 'y': 1, 'y': 1, 'f': [5], '_spill/length': 2}",
		"{'f': [5], '_spill/length': 2}",
		"{'_id': 1, '_spill': 5, 'f': [5], '_spill/length': 2}",
		"{'_id': 1, '_spill': {'f': 5}, 'f': [5], '_spill/length': 2}",
		"{'_id': 1, '_spill': {'f': {'g': 'x', 'h': 2, 'n': 3}}, '_spill/length': 2}",
		"{'_id': 1, '_spill': {'f': {'g': " G1 ", 'h': 3, 'n': 3}}, '_spill/length': 2}",
		"{'_id': 1, '_spill': {'f': {'g': " G1 ", 'h': 2, 'n': -1}}, '_spill/length': 2}",
		"{'_id': 1, '_spill': {'f': {'g': " G1 ", 'h': 2}}, '_spill/length': 2}",
		MAIN(STATE(3) ", '_spill/collated': true, "),
	};

	for (size_t i = 0; i < ARRAY_LENGTH(found); i++) {
		char json[512];

		start(ASKS_INT);
		snprintf(json, sizeof(json), REPLY("%s"), found[i]);
		play_reply(&play, json);
		expect_put_together();
		play_close(&play);
	}
}

Test(sequence_member, an_error_is_left_to_who_puts_together)
{
	static const char error[] =
		"{'ok': 0.0, 'errmsg': 'no', 'code': 2, 'codeName': 'BadValue'}";

	start(ASKS_INT);
	play_reply(&play, error);
	expect_put_together();
	play_close(&play);
	start(ASKS_INT);
	play_reply(&play, REPLY(MAIN(STATE(3000) ", ")));
	play_reply(&play, error);
	expect_put_together();
	play_reply(&play, REPLY("{'_id': 1}"));
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_member, texts_ask_for_a_collation)
{
	start(FIND("'filter': {'_id': 1, 'f': 'x'}, " IDS));
	made_expect(play_find(play_message(&play).body, "projection._spill/collated"),
		    "{'$eq': ['\u00e9', 'e\u0301']}");
	play_close(&play);
}

Test(sequence_member, a_whole_document_is_read_by_the_clients_find)
{
	start(FIND("'filter': {'_id': 1, 'f': 5}"));
	play_reply(&play, REPLY(MAIN("'f': [5], " STATE(3) ", ")));
	play_expect_forwarded(&play);
	play_reply(&play, REPLY("{'_id': 1, 'f': [5, 6]}"));
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_member, a_document_with_the_element_in_the_overflow_is_read_by_its_generation)
{
	start(FIND("'filter': {'_id': 1, 'f': 5, 'y': 2}, 'projection': {'f': 0}"));
	play_reply(&play, REPLY(MAIN(STATE(3) ", ")));
	play_reply(&play, REPLY("{'_spill': {'p': 0}, 'more': [5]}"));
	play_expect_sent(
		&play, 0,
		"{'find': 'books', 'filter': {'$and': [{'_id': 1}, {'y': 2}, {'_spill.f.g': " G1
		"}]}, 'projection': {'f': 0, '_spill': 0, 'has_extras': 0}, '$db': 'shop'}");
	play_reply(&play, REPLY("{'_id': 1, 'y': 2}"));
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_member, a_document_that_is_gone_by_then_is_asked_for_again)
{
	start(FIND("'filter': {'_id': 1, 'f': 5}"));
	play_reply(&play, REPLY(MAIN(STATE(3) ", ")));
	play_reply(&play, REPLY("{'_spill': {'p': 0}, 'more': [5]}"));
	play_reply(&play, REPLY(""));
	play_expect_helper(&play, ASKED_MAIN("{'_id': 1}", "{'$eq': 5}"));
	play_reply(&play, REPLY(MAIN("'f': [5], ")));
	play_expect_forwarded(&play);
	play_reply(&play, REPLY(""));
	play_reply(&play, REPLY(MAIN("")));
	expect_answer(REPLY(""));
}

Test(sequence_member, all_commands_have_the_clients_time_together)
{
	start(FIND("'filter': {'_id': 1, 'f': 5}, 'maxTimeMS': 100"));
	play_reply(&play, REPLY(MAIN(STATE(3) ", ")));
	play_reply(&play, REPLY("{'_spill': {'p': 0}, 'more': [5]}"));
	play.now += 60000;
	play_reply(&play, REPLY(""));
	cr_assert_eq(load_int64(play_find(play_message(&play).body, "maxTimeMS").data), 40);
	play_close(&play);
}

Test(sequence_member, time_that_is_up_ends_it)
{
	start(FIND("'filter': {'_id': 1, 'f': 5}, 'maxTimeMS': 100"));
	play.now += 100000;
	play_reply(&play, REPLY(MAIN(STATE(3) ", ")));
	play_expect_error(&play, 50, "time limit");
	play_close(&play);
}

Test(sequence_member, how_an_element_satisfies_a_condition)
{
	static const char *const conditions[][2] = {
		{"'f': {'$eq': 5}", "{'$eq': 5}"},
		{"'f': {'$in': [5, 6]}", "{'$in': [5, 6]}"},
		{"'f': {'$regularExpression': {'pattern': 'x', 'options': ''}}",
		 "{'$in': [{'$regularExpression': {'pattern': 'x', 'options': ''}}]}"},
		{"'f': {'x': 5}", "{'$eq': {'x': 5}}"},
		{"'f': {'$elemMatch': {'x': 5, 'y': 6}}", "{'x': 5, 'y': 6}"},
		{"'f.x.y': {'$in': [5]}", "{'x.y': {'$in': [5]}}"},
		{"'f.x': {'$elemMatch': {'$gt': 5}}", "{'x': {'$elemMatch': {'$gt': 5}}}"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(conditions); i++) {
		char json[512];

		snprintf(json, sizeof(json), FIND("'filter': {'_id': 1, %s}"), conditions[i][0]);
		start(json);
		made_expect(play_find(play_message(&play).body, "projection.f.$elemMatch"),
			    conditions[i][1]);
		play_close(&play);
	}
}

Test(sequence_member, other_finds_are_put_together)
{
	static const char *const others[] = {
		FIND("'filter': {'_id': {'$in': [1]}, 'f': 5}"),
		FIND("'filter': {'_id': 1, 'f': 5, 'f.x': 6}"),
		FIND("'filter': {'_id': 1, 'f': {'$gt': 5, '$lt': 7}}"),
		FIND("'filter': {'_id': 1, 'f': {'$ne': 5}}"),
		FIND("'filter': {'_id': 1, 'f': null}"),
		FIND("'filter': {'_id': 1, 'f': [5]}"),
		FIND("'filter': {'_id': 1, 'f': {'$in': [5, null]}}"),
		FIND("'filter': {'_id': 1, 'f': {'$size': 5}}"),
		FIND("'filter': {'_id': 1, 'f': {'$all': [5]}}"),
		FIND("'filter': {'_id': 1, 'f.3': 5}"),
		FIND("'filter': {'_id': 1, 'f..x': 5}"),
		FIND("'filter': {'_id': 1, 'f.x.': 5}"),
		FIND("'filter': {'_id': 1, '$or': [{'f': 5}]}"),
		FIND("'filter': {'_id': 1, '$nor': [{'f': 5}]}"),
		FIND("'filter': {'_id': 1, 'f': {'$not': {'$eq': 5}}}"),
		FIND("'filter': {'_id': 1, '$expr': {'$in': [5, '$f']}}"),
		FIND("'filter': {'_id': 1, 'f': 5, 'has_extras': true}"),
		FIND("'filter': {'_id': 1, 'f': 5}, 'collation': {'locale': 'en'}"),
		FIND("'filter': {'_id': 1, 'f': 5}, 'sort': {'x': 1}"),
		FIND("'filter': {'_id': 1, 'f': 5}, 'batchSize': 1"),
		FIND("'filter': {'_id': 1, 'f': 5}, 'skip': 1"),
		FIND("'filter': {'_id': 1, 'f': 5}, 'hint': {'_id': 1}"),
		FIND("'filter': {'_id': 1, 'f': 5}, 'readConcern': {'level': 'snapshot'}"),
		FIND("'filter': {'_id': 1, 'f': 5}, " TRANSACTION),
		FIND("'filter': {'_id': 1, 'f': 5}, 'projection': {'s': {'$meta': 'textScore'}}"),
		"{'count': 'books', 'query': {'_id': 1, 'f': 5}, '$db': 'shop'}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
		struct bytes body;
		struct element first;

		play_command(&play, others[i], VERDICT_AGGREGATE);
		body = play_message(&play).body;
		cr_assert_not(document_find(body, "projection", &first), "%s: %s", others[i],
			      made_json(body));
		play_close(&play);
	}
}

/* ---- an array that was edited in place ---- */

#define EDITED \
	MAIN("'_spill': {'f': {'e': {'g': " G1 ", 'l': " G2 ", 'b': {'$numberLong': '8'}, " \
	     "'h': {'$numberLong': '2'}, 'n': {'$numberLong': '12'}, 'r': {'$numberLong': '1'}, " \
	     "'v': 4}}}, ")
#define PLACED(g, p, more, length) \
	"{'_spill': {'g': " g ", 'p': {'$numberLong': '" #p "'}" more \
	"}, '_spill/length': " #length "}"

/* The command that follows on these replies. */
static void expect_asks(const char *const replies[2], const char *field)
{
	start(ASKS_INT);
	play_reply(&play, REPLY(EDITED));
	for (size_t i = 0; i < 2 && replies[i]; i++)
		play_reply(&play, replies[i]);
	if (!field)
		expect_put_together();
	else
		cr_assert_gt(play_find(play_message(&play).body, field).length, 0);
	play_close(&play);
}

Test(sequence_member, what_counts_in_an_edition_has_the_element)
{
	static const char *const there[][2] = {
		{REPLY(PLACED(G2, 0, ", 'e': 4, 'w': 4", 3)), NULL},
		{REPLY(PLACED(G2, 8, ", 'e': 4", 4)), NULL},
		{REPLY(PLACED(G1, 4, "", 4)), REPLY("")},
		{REPLY(PLACED(G1, 4, "", 4)), REPLY(PLACED(G2, 0, ", 'e': 1, 'w': 4", 3))},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(there); i++) {
		start(ASKS_INT);
		play_reply(&play, REPLY(EDITED));
		play_reply(&play, there[i][0]);
		if (there[i][1])
			play_reply(&play, there[i][1]);
		expect_answer(REPLY("{'_id': 1}"));
	}
}

Test(sequence_member, what_an_edit_may_have_changed_is_no_answer)
{
	static const char *const asks[][3] = {
		{REPLY(PLACED(G2, 8, ", 'e': 4", 5)), NULL, "projection.f"},
		{REPLY(PLACED(G1, 4, "", 5)), NULL, NULL},
		{REPLY(PLACED(G2, 0, ", 'e': 5, 'w': 4", 3)), NULL, NULL},
		{REPLY("{'_spill/length': 2}"), NULL, NULL},
		{REPLY(PLACED(G1, 4, "", 4)), REPLY(PLACED(G2, 0, ", 'e': 1, 'w': 5", 3)), NULL},
		{REPLY(PLACED(G1, 4, "", 4)), REPLY("{'_spill': 1}"), NULL},
		{REPLY(""), REPLY(PLACED(G1, 0, "", 8) ", " PLACED(G2, 8, ", 'e': 4", 3)),
		 "projection.f"},
		{REPLY(""), REPLY(""), "projection.f"},
		{REPLY(""), REPLY("{'_spill': 1}"), NULL},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(asks); i++)
		expect_asks(asks[i], asks[i][2]);
}

/* What mongod has left out may have changed the element, or have it. */
Test(sequence_member, a_list_that_the_server_may_have_cut_is_no_answer)
{
	static const char *const hits[] = {PLACED(G1, 4, "", 4), ""};

	for (size_t i = 0; i < ARRAY_LENGTH(hits); i++) {
		start(ASKS_INT);
		play_reply(&play, REPLY(EDITED));
		play_reply(&play, made_text(REPLY("%s"), hits[i]));
		play_reply(&play, made_text(REPLY("{'_spill': {'g': " G2
						  ", 'p': 0, 'w': 4}, '_spill/length': 3, 'pad': "
						  "'%0*d'}"),
					    15 << 20, 0));
		expect_put_together();
		play_close(&play);
	}
}

Test(sequence_member, an_edition_that_is_all_there_proves_that_no_element_is)
{
	start(ASKS_INT);
	play_reply(&play, REPLY(EDITED));
	play_reply(&play, REPLY(""));
	play_reply(&play, REPLY(PLACED(G2, 0, ", 'e': 4, 'w': 4", 3) ", " PLACED(
				  G1, 0, "", 8) ", " PLACED(G2, 8, ", 'e': 4", 4)));
	expect_answer(REPLY(""));
}

Test(sequence_member, a_document_is_brought_by_its_edition)
{
	start(FIND("'filter': {'_id': 1, 'f': 5}"));
	play_reply(&play, REPLY(EDITED));
	play_reply(&play, REPLY(PLACED(G2, 8, ", 'e': 4", 4)));
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
	cr_assert(bytes_contain(play.sequence->output, "_spill.f.e.v"));
	play_reply(&play, REPLY(""));
	cr_assert_gt(play_find(play_message(&play).body, "projection.f").length, 0); /* MAIN */
	play_close(&play);
}
