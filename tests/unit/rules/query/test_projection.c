/* Tests rules/query/projection.c, projection_leaves.c: what a find's projection returns, and how it
 * is written. */
#include "tests/unit/ruled.h"

#include "protocol/writer.h"
#include "rules/query/projection.h"

/* Under the rule on `tags` alone. */
struct projecting {
	const char *json;
	enum projection_kind kind;
	const char *what;
};

static const struct projecting projectings[] = {
	{"{}", PROJECTION_NONE, ""},
	/* not returned */
	{"{'x': 1}", PROJECTION_FORWARD, ""},
	{"{'_id': 1}", PROJECTION_FORWARD, ""},
	{"{'_id': 0, 'x': true}", PROJECTION_FORWARD, ""},
	{"{'_id.tags': 1}", PROJECTION_FORWARD, ""},
	{"{'x': {'tags': 1}}", PROJECTION_FORWARD, ""},
	{"{'x.$': 1, 'y': {'$slice': 1}}", PROJECTION_FORWARD, ""},
	{"{'x': {'$elemMatch': {'tags': '$tags'}}}", PROJECTION_FORWARD, ""},
	{"{'_id': 0, 'x': {'$elemMatch': {'y': 1}}}", PROJECTION_FORWARD, ""},
	{"{'_id': 1, 'x': {'$slice': 1}}", PROJECTION_FORWARD, ""},
	{"{'x': {'$elemMatch': {'y': 1}}, 'y': {'$meta': 'recordId'}}", PROJECTION_FORWARD, ""},
	{"{'x': '$y', '_id': 0}", PROJECTION_FORWARD, ""},
	{"{'x': {'$slice': ['$y', 1]}}", PROJECTION_FORWARD, ""},
	{"{'x': null}", PROJECTION_FORWARD, ""},
	{"{'x': []}", PROJECTION_FORWARD, ""},
	{"{'x': 'text'}", PROJECTION_FORWARD, ""},
	{"{'x': {'$literal': '$tags'}}", PROJECTION_FORWARD, ""},
	{"{'tags': 'text'}", PROJECTION_FORWARD, ""},
	{"{'tags': {'$size': '$x'}, 'y': 1}", PROJECTION_FORWARD, ""},
	{"{'_id': '$x'}", PROJECTION_FORWARD, ""},
	/* returned whole */
	{"{'tags': 1}", PROJECTION_INCLUDE, ""},
	{"{'tags': true, '_id': 0}", PROJECTION_INCLUDE, ""},
	{"{'tags': -0.3, 'x': '$y'}", PROJECTION_INCLUDE, ""},
	{"{'tags': {'$numberLong': '7'}, 'x': {'$slice': 1}}", PROJECTION_INCLUDE, ""},
	{"{'tags': 1, 'x.$': 1}", PROJECTION_INCLUDE, ""},
	{"{'tags': {'$numberDouble': 'NaN'}}", PROJECTION_INCLUDE, ""},
	/* the others returned */
	{"{'_id': 0}", PROJECTION_EXCLUDE, ""},
	{"{'x': 0}", PROJECTION_EXCLUDE, ""},
	{"{'x': false, '_id': 1}", PROJECTION_EXCLUDE, ""},
	{"{'x': {'y': 0}}", PROJECTION_EXCLUDE, ""},
	{"{'x': {'$slice': [1, 2]}}", PROJECTION_EXCLUDE, ""},
	{"{'x': {'$slice': 1}, '_id': 0}", PROJECTION_EXCLUDE, ""},
	{"{'x': {'$meta': 'recordId'}}", PROJECTION_EXCLUDE, ""},
	{"{'x': {'$elemMatch': {'y': 1}}, 'y': 0}", PROJECTION_EXCLUDE, ""},
	{"{'x': {'$elemMatch': {'y': 1}}, 'y': {'$slice': 1}}", PROJECTION_EXCLUDE, ""},
	{"{'tags': 0}", PROJECTION_EXCLUDE, ""},
	/* a DBRef's fields */
	{"{'x': {'$ref': 0}}", PROJECTION_EXCLUDE, ""},
	{"{'x': {'$id': 0}, 'tags': 0}", PROJECTION_EXCLUDE, ""},
	{"{'x': {'$db': 1, 'y': 1}}", PROJECTION_FORWARD, ""},
	{"{'x': {'$id': 1}, 'tags': 1}", PROJECTION_INCLUDE, ""},
	{"{'x': {'$ref': 0}, 'tags': {'$slice': 1}}", PROJECTION_REFUSE, "$slice"},
	{"{'tags': {'$id': 1}}", PROJECTION_REFUSE, "a part of the array"},
	{"{'tags': -0.0, 'x': 0, '_id': 0}", PROJECTION_EXCLUDE, ""},
	{"{'big': 0}", PROJECTION_EXCLUDE, ""},
	{"{'_id.tags': 0}", PROJECTION_REFUSE, "a part of _id"},
	{"{'_id': 'x', 'tags': 1}", PROJECTION_REFUSE, "a part of _id"},
	/* cut or computed on */
	{"{'tags': {'$slice': 5}}", PROJECTION_REFUSE, "$slice"},
	{"{'tags': {'$elemMatch': {'x': 1}}}", PROJECTION_REFUSE, "$elemMatch"},
	{"{'tags': {'$meta': 'recordId'}}", PROJECTION_REFUSE, "$meta"},
	{"{'tags.$': 1}", PROJECTION_REFUSE, "a part of the array"},
	{"{'tags.x': 1}", PROJECTION_REFUSE, "a part of the array"},
	{"{'tags.x': 0}", PROJECTION_REFUSE, "a part of the array"},
	{"{'tags': {'x': 1}}", PROJECTION_REFUSE, "a part of the array"},
	{"{'tags': {'x': '$y'}}", PROJECTION_REFUSE, "a part of the array"},
	{"{'x': '$tags'}", PROJECTION_REFUSE, "a field path"},
	{"{'x': {'y': {'$size': '$tags'}}}", PROJECTION_REFUSE, "a field path"},
	{"{'x': ['$$ROOT']}", PROJECTION_REFUSE, "$$ROOT"},
	{"{'x': {'$slice': ['$tags', 1]}}", PROJECTION_REFUSE, "a field path"},
	{"{'tags': '$tags'}", PROJECTION_REFUSE, "a field path"},
	{"{'x': {'$getField': 'y'}}", PROJECTION_REFUSE, "$getField"},
	{"{'x': {'$numberDecimal': '0E+3'}}", PROJECTION_EXCLUDE, ""},
	{"{'x': {'$numberDecimal': '1'}}", PROJECTION_FORWARD, ""},
	{"{'x': {'$numberDecimal': '1'}, 'tags': {'$slice': 1}}", PROJECTION_REFUSE, "$slice"},
	{"{'tags': {'$slice': {'$numberDecimal': '1'}}}", PROJECTION_REFUSE, "$slice"},
	/* our own names */
	{"{'_spill': 1}", PROJECTION_RESERVED, "_spill"},
	{"{'tags': {'$slice': 1}, '_spill.tags': 0}", PROJECTION_RESERVED, "_spill"},
	{"{'_spill': {'tags': 1}}", PROJECTION_RESERVED, "_spill"},
	{"{'x': '$_spill'}", PROJECTION_RESERVED, "_spill"},
	{"{'big': '$x'}", PROJECTION_RESERVED, "big"},
	{"{'count': {'$slice': 1}}", PROJECTION_RESERVED, "count.parts"},
	/* the merge strips what is hidden */
	{"{'big': 1}", PROJECTION_INCLUDE, ""},
	{"{'x': 1, 'count': {'tags': 1}}", PROJECTION_INCLUDE, ""},
	/* mongod refuses these */
	{"{'x': {}}", PROJECTION_FORWARD, ""},
	{"{'x': 1, 'y': 0}", PROJECTION_FORWARD, ""},
	{"{'_id': 0, '_id': 0}", PROJECTION_EXCLUDE, ""},
};

static bson_t *quoted(const char *json)
{
	char text[1024];
	size_t length = strlen(json);

	cr_assert_lt(length, sizeof(text));
	for (size_t i = 0; i <= length; i++)
		text[i] = json[i] == '\'' ? '"' : json[i];
	return ruled_json(text);
}

Test(projection, each_form_has_its_kind)
{
	for (size_t i = 0; i < ARRAY_LENGTH(projectings); i++) {
		const struct projecting *projecting = &projectings[i];
		bson_t *document = quoted(projecting->json);
		struct projection projection =
			projection_classify(ruled_bytes(document), &ruled_by_tags);

		cr_assert_eq(projection.kind, projecting->kind, "%s: %d", projecting->json,
			     projection.kind);
		cr_assert_str_eq(projection.what, projecting->what, "%s: %s", projecting->json,
				 projection.what);
		bson_destroy(document);
	}
}

static const struct projecting path_projectings[] = {
	{"{'a': 1}", PROJECTION_INCLUDE, ""},
	{"{'a.b': 1}", PROJECTION_INCLUDE, ""},
	{"{'a': {'b': 1, 'c': 0.5}}", PROJECTION_INCLUDE, ""},
	{"{'a.c': 1}", PROJECTION_FORWARD, ""},
	{"{'a': {'c': 1, 'd': '$x'}}", PROJECTION_FORWARD, ""},
	{"{'a': '$x'}", PROJECTION_FORWARD, ""},
	{"{'a': {'b': {'c': 1}}}", PROJECTION_REFUSE, "a part of the array"},
	{"{'a': {'b.c': 1}}", PROJECTION_REFUSE, "a part of the array"},
	{"{'a': {'b': {'$slice': 1}}}", PROJECTION_REFUSE, "$slice"},
	{"{'a': {'$slice': 1}}", PROJECTION_REFUSE, "$slice"},
	{"{'a.$': 1}", PROJECTION_REFUSE, "a part of the array"},
	{"{'a.0.b': 1}", PROJECTION_REFUSE, "a part of the array"},
	{"{'a': {'b': 0}}", PROJECTION_EXCLUDE, ""},
	{"{'a': {'c': 0}}", PROJECTION_EXCLUDE, ""},
	{"{'a': 0}", PROJECTION_EXCLUDE, ""},
	{"{'long': 1}", PROJECTION_FORWARD, ""},
};

Test(projection, an_array_on_a_path_is_returned_with_its_prefix)
{
	for (size_t i = 0; i < ARRAY_LENGTH(path_projectings); i++) {
		const struct projecting *projecting = &path_projectings[i];
		bson_t *document = quoted(projecting->json);
		struct projection projection =
			projection_classify(ruled_bytes(document), &ruled_by_path);

		cr_assert_eq(projection.kind, projecting->kind, "%s: %d", projecting->json,
			     projection.kind);
		cr_assert_str_eq(projection.what, projecting->what, "%s: %s", projecting->json,
				 projection.what);
		bson_destroy(document);
	}
}

struct rewriting {
	const struct ruled_namespace *namespace;
	const char *from, *to;
};

#define MARK "'_spill./id': {'$meta': 'recordId'}"

/* Each of the results was tried on mongod 6.0.5: it returns what is said, marked, and no more. */
static const struct rewriting rewritings[] = {
	{&ruled_by_tags, "{'tags': 1, 'x': {'y': '$z'}}",
	 "{'p': {'tags': 1, 'x': {'y': '$z'}, " SPARE "'_spill': 1}}"},
	{&ruled_by_path, "{'a': 1}", "{'p': {'a': 1, " SPARE "'_spill': 1}}"},
	{&ruled_by_tags, "{'_id': 0, 'tags': 1}", "{'p': {'tags': 1, '_spill.tags': 1, " MARK "}}"},
	{&ruled_by_tags, "{'big': 1, '_id': 0}", "{'p': {'big': 1, '_id': 0}}"},
	{&ruled_by_tags, "{'big': 1, 'tags': 1}",
	 "{'p': {'big': 1, 'tags': 1, " SPARE "'_spill': 1}}"},
	{&ruled_by_both, "{'tags': 1}", "{'p': {'tags': 1, '_spill.tags': 1}}"},
	{&ruled_by_both, "{'tags': 1, 'a': 'text'}",
	 "{'p': {'tags': 1, 'a': 'text', " SPARE "'_spill.tags': 1}}"},
	{&ruled_by_both, "{'tags': 1, 'a.b': 1}", "{'p': {'tags': 1, 'a.b': 1, '_spill': 1}}"},
	{&ruled_by_both, "{'tags': 1, 'a.b': 1, '_id': 0}",
	 "{'p': {'tags': 1, 'a.b': 1, '_spill.tags': 1, '_spill.a/b': 1, " MARK "}}"},
	{&ruled_by_tags, "{'x': 0}", "{'p': {'x': 0}}"},
	{&ruled_by_tags, "{'_id': 0}", "{'p': {'_spill./id/no': 0, " MARK "}}"},
	{&ruled_by_tags, "{'_id': 0, 'x': 0, 'y': {'$slice': 1}}",
	 "{'p': {'x': 0, 'y': {'$slice': 1}, " MARK "}}"},
	{&ruled_by_tags, "{'tags': 0}",
	 "{'p': {'tags': 0, '_spill': 0, 'big': 0, 'ref': 0, 'count.parts': 0, 'count.tags': 0}}"},
	{&ruled_by_tags, "{'tags': 0, '_id': 0, 'count': {'x': 0}, 'ref': 0}",
	 "{'p': {'tags': 0, '_id': 0, 'count': {'x': 0}, 'ref': 0, '_spill': 0, 'big': 0,"
	 " 'count.parts': 0, 'count.tags': 0}}"},
	{&ruled_by_tags, "{'tags': 0, 'count': 0}",
	 "{'p': {'tags': 0, 'count': 0, '_spill': 0, 'big': 0, 'ref': 0}}"},
	{&ruled_by_path, "{'a': {'b': 0}}", "{'p': {'a': {'b': 0}, '_spill': 0}}"},
	{&ruled_by_both, "{'a': 0}", "{'p': {'a': 0, '_spill.a/b': 0}}"},
	{&ruled_by_both, "{'a': 0, '_id': 0}", "{'p': {'a': 0, '_spill.a/b': 0, " MARK "}}"},
	{&ruled_by_both, "{'a': 0, 'tags': 0}",
	 "{'p': {'a': 0, 'tags': 0, '_spill': 0, 'big': 0, 'ref': 0, 'count.parts': 0,"
	 " 'count.tags': 0}}"},
};

static void check_rewriting(const struct ruled_namespace *namespace, const char *from,
			    const char *to)
{
	auto_buffer struct buffer out = {0};
	bson_t *document = quoted(from), *expected = quoted(to);
	enum projection_kind kind = projection_classify(ruled_bytes(document), namespace).kind;
	size_t start = writer_open(&out);

	cr_assert(kind == PROJECTION_INCLUDE || kind == PROJECTION_EXCLUDE, "%s", from);
	projection_write(&out, "p", ruled_bytes(document), namespace);
	writer_close(&out, start);
	cr_assert(bytes_equal(buffer_view(&out), ruled_bytes(expected)), "%s", from);
	bson_destroy(document);
	bson_destroy(expected);
}

Test(projection, it_is_written_so_that_the_reply_can_be_merged_and_stripped)
{
	for (size_t i = 0; i < ARRAY_LENGTH(rewritings); i++)
		check_rewriting(rewritings[i].namespace, rewritings[i].from, rewritings[i].to);
}

/* {x: {x: {...}}} around {tags: 1}. */
static enum projection_kind kind_of_nested(size_t depth)
{
	auto_buffer struct buffer projection = {0};
	size_t starts[CURSOR_MAX_DEPTH + 1];

	starts[0] = writer_open(&projection);
	for (size_t i = 1; i < depth; i++)
		starts[i] = writer_open_document(&projection, "x");
	writer_int32(&projection, "tags", 1);
	for (size_t i = depth; i-- > 0;)
		writer_close(&projection, starts[i]);
	return projection_classify(buffer_view(&projection), &ruled_by_tags).kind;
}

Test(projection, nesting_is_followed_as_far_as_mongod_goes)
{
	cr_assert_eq(kind_of_nested(1), PROJECTION_INCLUDE);
	cr_assert_eq(kind_of_nested(200), PROJECTION_FORWARD);
	cr_assert_eq(kind_of_nested(CURSOR_MAX_DEPTH + 1), PROJECTION_BROKEN);
}

/* `count` fields under a name of 10,000 letters. */
static enum projection_kind kind_of_repeated(size_t count)
{
	auto_buffer struct buffer projection = {0};
	char name[10001], field[12];
	size_t start = writer_open(&projection), inner;

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	inner = writer_open_document(&projection, name);
	for (size_t i = 0; i < count; i++)
		writer_int32(&projection, writer_index(field, i), 1);
	writer_close(&projection, inner);
	writer_close(&projection, start);
	return projection_classify(buffer_view(&projection), &ruled_by_tags).kind;
}

Test(projection, a_long_prefix_of_many_paths_is_refused)
{
	cr_assert_eq(kind_of_repeated(100), PROJECTION_FORWARD);
	cr_assert_eq(kind_of_repeated(105), PROJECTION_BROKEN);
}

Test(projection, broken_projections_are_found_out_at_each_level)
{
	static const struct bytes broken[] = {
		{(const uint8_t *)"\6\0\0\0\0", 5},
		{(const uint8_t *)"\x0c\0\0\0\3x\0\4\0\0\0\0", 12},
		/* {x: {y: <no type 0x77>}} */
		{(const uint8_t *)"\x10\0\0\0\3x\0\x08\0\0\0\x77y\0\0\0", 16},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(broken); i++)
		cr_assert_eq(projection_classify(broken[i], &ruled_by_tags).kind, PROJECTION_BROKEN,
			     "%zu", i);
}
