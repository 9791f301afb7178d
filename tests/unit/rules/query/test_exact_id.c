/* Tests rules/query/exact_id.c: an `_id` named under any collation. */
#include "tests/unit/wire_make.h"

#include "protocol/writer.h"
#include "rules/query/exact_id.h"

#include <stdio.h>
#include <time.h>

struct named {
	const char *id;     /* in a document */
	const char *filter; /* NULL: it can't be named */
};

static void expect_named(const struct named *named)
{
	struct bytes document = made_bson(made_text("{'_id': %s}", named->id));
	auto_buffer struct buffer out = {0};
	struct element id;
	size_t start;

	cr_assert(document_find(document, "_id", &id));
	cr_assert_eq(exact_id_possible(&id), named->filter != NULL, "%s", named->id);
	if (!named->filter)
		return;
	start = writer_open(&out);
	exact_id_write(&out, &id);
	writer_close(&out, start);
	made_expect(buffer_view(&out), named->filter);
}

Test(exact_id, texts_are_named_wherever_a_path_leads)
{
	static const struct named cases[] = {
		{"5", "{'_id': {'$eq': 5}}"},
		{"{}", "{'_id': {'$eq': {}}}"},
		{"{'a': 1, 'b': [1, {'c': 2}], 'a': 2}",
		 "{'_id': {'$eq': {'a': 1, 'b': [1, {'c': 2}], 'a': 2}}}"},
		{"{'a': ['x']}", NULL},
		{"{'a': [{'b': [{'c': 'x'}]}]}", NULL},
		{"{'a': {'b': 'x', 'b': 'X'}}", NULL},
		{"{'a': {'b': 1}, 'a': {'b': 'x'}}", NULL},
		{"{'a.b': 'x'}", NULL},
		{"{'': 'x'}", NULL},
		{"{'$x': 'x'}", NULL},
		{"{'a': 'nul\\u0000'}", NULL},
		{"{'a': {'$symbol': 'x'}}", NULL},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
		expect_named(&cases[i]);
	expect_named(&(struct named){made_text("{'a': '%09000d'}", 1), NULL});
	expect_named(&(struct named){
		made_text("{'a': '%07000d', 'b': '%07000d', 'c': '%07000d'}", 1, 1, 1), NULL});
}

/* The fields behind `_id`, as {path: pattern}. */
Test(exact_id, each_text_has_its_path_and_pattern)
{
	struct bytes document = made_bson("{'_id': {'a': 'x y', 'n': 3, 'b': {'c': 'é', 'd': {'e': "
					  "'.'}}, 'f': ''}}");
	auto_buffer struct buffer out = {0}, paths = {0};
	struct element id, field, pattern;
	struct cursor cursor;
	size_t start;

	cr_assert(document_find(document, "_id", &id) && exact_id_possible(&id));
	start = writer_open(&out);
	exact_id_write(&out, &id);
	writer_close(&out, start);
	start = writer_open(&paths);
	cr_assert(cursor_open(&cursor, buffer_view(&out)));
	cr_assert_eq(cursor_next(&cursor, &field), CURSOR_ELEMENT);
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		auto_free char *name =
			must_strndup((const char *)field.name.data, field.name.length);

		cr_assert(document_find(field.value, "$regex", &pattern));
		writer_renamed(&paths, name, &pattern);
	}
	writer_close(&paths, start);
	made_expect(buffer_view(&paths), "{'_id.a': '\\\\Ax\\\\ y\\\\z', '_id.b.c': '\\\\Aé\\\\z', "
					 "'_id.b.d.e': '\\\\A\\\\.\\\\z', '_id.f': "
					 "'\\\\A\\\\z'}");
}

/* ---- many texts ---- */

#define TEXTS 1400 /* 16,000 bytes are the most */
#define TIMES 100
#define MOST_SECONDS 1 /* a tenth of one; each name beside all others takes some */

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* {t0: "", t1: "", ...}, and perhaps {..., n: 1, n: 1} */
static void write_texts(struct buffer *out, bool repeats)
{
	size_t document = writer_open(out), id = writer_open_document(out, "_id");
	char name[16];

	for (int i = 0; i < TEXTS; i++) {
		snprintf(name, sizeof(name), "%x", 4096 + i);
		writer_string(out, name, "");
	}
	for (int i = 0; i < 2 * repeats; i++)
		writer_int32(out, "n", 1);
	writer_close(out, id);
	writer_close(out, document);
}

Test(exact_id, many_texts_are_named_in_the_time_of_as_many_looks)
{
	auto_buffer struct buffer once = {0}, twice = {0};
	struct element id, repeats;
	double start = seconds();

	write_texts(&once, false);
	write_texts(&twice, true);
	cr_assert(document_find(buffer_view(&once), "_id", &id));
	cr_assert(document_find(buffer_view(&twice), "_id", &repeats));
	for (int i = 0; i < TIMES; i++) {
		cr_assert(exact_id_possible(&id));
		cr_assert_not(exact_id_possible(&repeats));
	}
	cr_expect_lt(seconds() - start, MOST_SECONDS);
}
