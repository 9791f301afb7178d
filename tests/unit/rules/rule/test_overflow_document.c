/* Tests rules/rule/overflow_document.c: what an overflow document of one element holds. */
#include "tests/unit/wire_make.h"

#include "protocol/writer.h"
#include "rules/rule/overflow_document.h"

static struct rule elements = {.overflow = {.layout = RULE_ELEMENTS, .link = (char *)"post"}};

/* Stores {e: element} as a mover does: the document as mongod has it. `whole`: v is in it. */
static struct bytes stored(const char *json, bool *whole)
{
	static struct buffer out;
	struct element element;
	size_t start, state;

	out.length = 0;
	cr_assert(document_find(made_bson(json), "e", &element));
	start = writer_open(&out);
	writer_int32(&out, "_id", 1);
	writer_int32(&out, "post", 7);
	*whole = overflow_write_fields(&elements, &element, &out);
	state = writer_open_document(&out, "_spill");
	writer_int64(&out, "p", 3);
	if (*whole)
		writer_renamed(&out, "v", &element);
	writer_close(&out, state);
	writer_close(&out, start);
	return made_copy(buffer_view(&out));
}

static void comes_back(const char *json, bool wanted_whole, const char *fields)
{
	struct buffer scratch = {0};
	struct element element, again;
	struct bytes array, document;
	struct cursor cursor;
	bool whole;

	document = stored(json, &whole);
	cr_assert_eq(whole, wanted_whole, "%s", json);
	cr_assert(overflow_elements(&elements, document, &scratch, &array));
	cr_assert(document_find(made_bson(json), "e", &element));
	cr_assert(cursor_open(&cursor, array));
	cr_assert_eq(cursor_next(&cursor, &again), CURSOR_ELEMENT);
	cr_assert(element_is(&again, "0"));
	cr_assert_eq(again.type, element.type);
	cr_assert(bytes_equal(again.value, element.value), "%s", json);
	cr_assert_eq(cursor_next(&cursor, &again), CURSOR_END);
	scratch.length = 0;
	cr_assert(overflow_write_own(&elements, document, &scratch));
	made_expect(buffer_view(&scratch), fields);
	buffer_fini(&scratch);
	made_free();
}

Test(overflow_document, a_document_is_its_fields)
{
	comes_back("{'e': {'author': 'a', 'text': 't', 'n': {'_id': 1, 'post': 2}}}", false,
		   "{'author': 'a', 'text': 't', 'n': {'_id': 1, 'post': 2}}");
	comes_back("{'e': {}}", false, "{}");
	comes_back("{'e': {'t': {'$timestamp': {'t': 0, 'i': 1}}, 'n': {'a.b': 1}}}", false,
		   "{'t': {'$timestamp': {'t': 0, 'i': 1}}, 'n': {'a.b': 1}}");
}

Test(overflow_document, what_its_fields_would_not_give_back_is_kept_whole)
{
	comes_back("{'e': 5}", true, "{}");
	comes_back("{'e': null}", true, "{}");
	comes_back("{'e': [{'a': 1}]}", true, "{}");
	comes_back("{'e': {'text': 't', '_id': 5}}", true, "{'text': 't'}");
	comes_back("{'e': {'post': 1, 'text': 't'}}", true, "{'text': 't'}");
	comes_back("{'e': {'_spill': {'v': 2}, 'x': 1}}", true, "{'x': 1}");
	comes_back("{'e': {'$a': 1, 'x': 1}}", true, "{'x': 1}");
	comes_back("{'e': {'': 1, 'x': 1}}", true, "{'x': 1}");
	comes_back("{'e': {'_spill.p': 1, 'x': 1}}", true, "{'x': 1}");
	comes_back("{'e': {'x': 1, 't': {'$timestamp': {'t': 0, 'i': 0}}}}", true,
		   "{'x': 1, 't': {'$timestamp': {'t': 0, 'i': 0}}}");
}

Test(overflow_document, a_large_one_is_not_stored_twice)
{
	auto_free char *text = must_malloc((1 << 20) + 1);
	const char *json;

	memset(text, 'x', 1 << 20);
	text[1 << 20] = '\0';
	json = made_text("{'e': {'text': '%s', '_id': 5}}", text);
	comes_back(json, true, "{}");
}

Test(overflow_document, batches_hold_their_array)
{
	static const struct rule batches = {
		.overflow = {.link = (char *)"post", .array = (char *)"more"}};
	struct buffer scratch = {0};
	struct bytes array;

	cr_assert(overflow_elements(&batches, made_bson("{'post': 1, 'more': [1, 2]}"), &scratch,
				    &array));
	made_expect(array, "{'0': 1, '1': 2}");
	cr_assert_not(
		overflow_elements(&batches, made_bson("{'post': 1, 'more': 5}"), &scratch, &array));
	cr_assert_not(overflow_elements(&batches, made_bson("{'post': 1}"), &scratch, &array));
	cr_assert_eq(scratch.length, 0);
	made_free();
}

Test(overflow_document, what_orders_them)
{
	struct rule rule = {.overflow = {.link = (char *)"post", .array = (char *)"more"}};

	cr_assert_str_eq(overflow_order_path(&rule), "_spill.i");
	rule.overflow.batch_field = (char *)"number";
	cr_assert_str_eq(overflow_order_path(&rule), "number");
	cr_assert_str_eq(overflow_order_path(&elements), "_spill.p");
}
