/* Tests rules/query/reads.c, reads_filter.c, reads_expression.c: what reads the ruled arrays. */
#include "tests/unit/ruled.h"

#include "protocol/writer.h"
#include "rules/rule/known_indexes.h"
#include "rules/query/reads.h"

/* Read under both rules, on `tags` and on `a.b`. */
struct reading {
	const char *json;
	enum reads_kind kind;
	const char *what;
};

static const struct reading filters[] = {
	{"{}", READS_NOTHING, ""},
	{"{\"_id\": 1, \"x\": {\"$in\": [1, \"$tags\"]}}", READS_NOTHING, ""},
	{"{\"tags\": 1}", READS_ARRAY, "a condition"},
	{"{\"tags\": {\"y\": 1}}", READS_ARRAY, "a condition"},
	{"{\"tags\": {\"$elemMatch\": {\"y\": 1}}}", READS_ARRAY, "$elemMatch"},
	{"{\"tags\": {\"$ne\": 5}}", READS_ARRAY, "$ne"},
	{"{\"tags.14\": {\"$exists\": false}}", READS_ARRAY, "$exists"},
	{"{\"tags.x.y\": 1}", READS_ARRAY, "a condition"},
	{"{\"tags.\": 1}", READS_ARRAY, "a condition"},
	{"{\"tagsx\": 1, \"tag\": 2, \"x.tags\": 3, \".tags\": 4, \"0.tags\": 5}", READS_NOTHING,
	 ""},
	{"{\"a\": null}", READS_ARRAY, "a condition"},
	{"{\"a.c\": 1, \"a.bc\": 2}", READS_NOTHING, ""},
	{"{\"a.0.b\": 1}", READS_ARRAY, "a condition"},
	{"{\"a.0\": 1}", READS_ARRAY, "a condition"},
	{"{\"a..b\": 1}", READS_ARRAY, "a condition"},
	{"{\"a.0.1.b.2.x\": 1}", READS_ARRAY, "a condition"},
	{"{\"a.0.c\": 1}", READS_NOTHING, ""},
	{"{\"bigger\": true, \"counted.tags\": {\"$gt\": 5}}", READS_NOTHING, ""},
	/* what clients don't see */
	{"{\"big\": {\"$ne\": true}}", READS_ARRAY, "$ne"},
	{"{\"$or\": [{\"x\": 1}, {\"big.x\": 1}]}", READS_ARRAY, "a condition"},
	{"{\"$expr\": {\"$not\": \"$big\"}}", READS_ARRAY, "a field path"},
	/* a condition looks at its field only */
	{"{\"x\": {\"tags\": 1}}", READS_NOTHING, ""},
	{"{\"x\": {\"$elemMatch\": {\"tags\": 1, \"_spill\": 2}}}", READS_NOTHING, ""},
	{"{\"x\": {\"$not\": {\"$elemMatch\": {\"a.b\": 1}}}}", READS_NOTHING, ""},
	{"{\"x\": {\"$ref\": \"tags\", \"$id\": 1, \"$db\": \"a\"}}", READS_NOTHING, ""},
	/* mongod refuses these */
	{"{\"x\": {\"$where\": \"1\"}}", READS_NOTHING, ""},
	{"{\"$and\": {\"tags\": 1}}", READS_NOTHING, ""},
	{"{\"$and\": [1, [{\"tags\": 1}], \"$tags\"]}", READS_NOTHING, ""},
	/* lists */
	{"{\"$and\": [{\"x\": 1}, {\"$or\": [{\"y\": 1}, {\"$nor\": [{\"tags\": 1}]}]}]}",
	 READS_ARRAY, "a condition"},
	{"{\"$and\": [{\"x\": 1}], \"$or\": [{\"y\": 1}], \"$nor\": [{\"z\": 1}]}", READS_NOTHING,
	 ""},
	{"{\"$or\": [{\"$and\": []}, {}], \"a.b\": {\"$size\": 2}}", READS_ARRAY, "$size"},
	{"{\"$and\": [{\"x\": 1}], \"$and\": [{\"tags\": 1}]}", READS_ARRAY, "a condition"},
	/* operators on the document */
	{"{\"$comment\": \"$tags\", \"$sampleRate\": 0.5}", READS_NOTHING, ""},
	{"{\"$alwaysTrue\": 1, \"$alwaysFalse\": 1}", READS_NOTHING, ""},
	{"{\"$where\": \"this.x\"}", READS_ARRAY, "$where"},
	{"{\"$jsonSchema\": {}}", READS_ARRAY, "$jsonSchema"},
	{"{\"$_internalSchemaMinProperties\": 3}", READS_ARRAY, "$_internalSchemaMinProperties"},
	{"{\"$not\": {\"x\": 1}}", READS_ARRAY, "$not"},
	{"{\"$\": 1}", READS_ARRAY, "an unknown operator"},
	{"{\"$se cret\": 1}", READS_ARRAY, "an unknown operator"},
	{"{\"$expr\": {\"$gt\": [\"$x\", 1]}}", READS_NOTHING, ""},
	{"{\"$nor\": [{\"$expr\": {\"$gt\": [{\"$size\": \"$tags\"}, 1]}}]}", READS_ARRAY,
	 "a field path"},
	{"{\"$expr\": \"$$ROOT\"}", READS_ARRAY, "$$ROOT"},
	/* our own names */
	{"{\"_spill\": {\"$exists\": true}}", READS_RESERVED, "_spill"},
	{"{\"tags\": 1, \"$or\": [{\"_spill.tags.g\": 1}]}", READS_RESERVED, "_spill"},
	{"{\"$where\": \"1\", \"$expr\": \"$_spill\"}", READS_RESERVED, "_spill"},
	{"{\"_spilled\": 1, \"x._spill\": 1}", READS_NOTHING, ""},
};

Test(reads, filters_name_the_array_or_may_see_the_whole_document)
{
	for (size_t i = 0; i < ARRAY_LENGTH(filters); i++) {
		bson_t *filter = ruled_json(filters[i].json);
		struct reads reads = reads_of_filter(ruled_bytes(filter), &ruled_by_both);

		cr_assert_eq(reads.kind, filters[i].kind, "%s: %d", filters[i].json, reads.kind);
		cr_assert_str_eq(reads.what, filters[i].what, "%s: %s", filters[i].json,
				 reads.what);
		cr_assert_eq(reads.rule != NULL, reads.kind == READS_ARRAY, "%s", filters[i].json);
		bson_destroy(filter);
	}
}

static void expect_text_read(const char *indexes, enum reads_kind kind, bool asks)
{
	static const char filter[] = "{\"$or\": [{\"x\": 1}, {\"$text\": {\"$search\": \"x\"}}]}";
	struct index_book book;
	struct ruled_namespace namespace = ruled_by_both;
	bson_t *text = ruled_json(filter), *list = ruled_json(indexes);
	struct reads reads;

	index_book_init(&book, 1);
	namespace.indexes = index_book_find(&book, bytes_of("shop"), bytes_of("books"));
	known_indexes_take(namespace.indexes, ruled_bytes(list));
	reads = reads_of_filter(ruled_bytes(text), &namespace);
	cr_expect_eq(reads.kind, kind, "%s: %d", indexes, reads.kind);
	cr_expect_eq(reads.asks, asks, "%s", indexes);
	bson_destroy(text);
	bson_destroy(list);
	index_book_fini(&book);
}

#define TEXT "\"key\": {\"_fts\": \"text\", \"_ftsx\": 1"
Test(reads, a_text_search_sees_what_its_index_is_over)
{
	expect_text_read("{}", READS_NOTHING, true);
	expect_text_read("{\"0\": {\"key\": {\"tags\": 1}}}", READS_NOTHING, true);
	expect_text_read("{\"0\": {\"key\": {\"_id\": 1}}, \"1\": {" TEXT
			 "}, \"weights\": {\"x\": 1, \"y.z\": 2}}}",
			 READS_NOTHING, false);
	expect_text_read("{\"0\": {" TEXT "}, \"weights\": {\"x\": 1, \"tags.t\": 1}}}",
			 READS_ARRAY, false);
	expect_text_read("{\"0\": {" TEXT "}, \"weights\": {\"$**\": 1}}}", READS_ARRAY, false);
	expect_text_read("{\"0\": {" TEXT ", \"a.b\": 1}, \"weights\": {\"x\": 1}}}", READS_ARRAY,
			 false);
	expect_text_read("{\"0\": {" TEXT "}, \"weights\": {\"x\": 1}, "
			 "\"partialFilterExpression\": {\"tags\": 1}}}",
			 READS_ARRAY, false);
}

/* The value of "e". */
static const struct reading expressions[] = {
	{"{\"e\": 1}", READS_NOTHING, ""},
	{"{\"e\": \"tags\"}", READS_NOTHING, ""},
	{"{\"e\": \"$\"}", READS_NOTHING, ""},
	{"{\"e\": \"$$\"}", READS_NOTHING, ""},
	{"{\"e\": \"$tags\"}", READS_ARRAY, "a field path"},
	{"{\"e\": \"$tags.x\"}", READS_ARRAY, "a field path"},
	{"{\"e\": \"$a\"}", READS_ARRAY, "a field path"},
	{"{\"e\": \"$a.c\"}", READS_NOTHING, ""},
	{"{\"e\": [1, {\"$add\": [1, \"$a.b\"]}]}", READS_ARRAY, "a field path"},
	{"{\"e\": {\"y\": {\"z\": \"$tags\"}}}", READS_ARRAY, "a field path"},
	{"{\"e\": {\"tags\": \"$x\"}}", READS_NOTHING, ""},
	{"{\"e\": {\"$literal\": \"$tags\"}}", READS_NOTHING, ""},
	{"{\"e\": {\"$const\": [\"$$ROOT\"]}}", READS_NOTHING, ""},
	{"{\"e\": \"$$ROOT\"}", READS_ARRAY, "$$ROOT"},
	{"{\"e\": \"$$CURRENT\"}", READS_ARRAY, "$$CURRENT"},
	{"{\"e\": \"$$ROOT.x\"}", READS_NOTHING, ""},
	{"{\"e\": \"$$ROOT.a\"}", READS_ARRAY, "a field path"},
	{"{\"e\": \"$$CURRENT.tags.x\"}", READS_ARRAY, "a field path"},
	{"{\"e\": [\"$$NOW\", \"$$REMOVE\", \"$$ROOTS\", \"$$this.tags\"]}", READS_NOTHING, ""},
	{"{\"e\": {\"$let\": {\"vars\": {\"v\": \"$x\"}, \"in\": \"$$v.tags\"}}}", READS_NOTHING,
	 ""},
	{"{\"e\": {\"$let\": {\"vars\": {\"v\": \"$$ROOT\"}, \"in\": \"$$v.x\"}}}", READS_ARRAY,
	 "$$ROOT"},
	{"{\"e\": {\"$let\": {\"vars\": {\"CURRENT\": \"$a\"}, \"in\": \"$b\"}}}", READS_ARRAY,
	 "a field path"},
	{"{\"e\": {\"$map\": {\"input\": \"$x\", \"in\": {\"$size\": \"$$this\"}}}}", READS_NOTHING,
	 ""},
	{"{\"e\": {\"$getField\": \"tags\"}}", READS_ARRAY, "$getField"},
	{"{\"e\": {\"$cond\": [true, {\"$function\": {\"body\": \"\", \"args\": []}}, 1]}}",
	 READS_ARRAY, "$function"},
	{"{\"e\": {\"$topN\": {\"n\": 1, \"sortBy\": {\"tags\": 1}, \"output\": \"$x\"}}}",
	 READS_ARRAY, "$topN"},
	{"{\"e\": {\"$brandNew\": 1}}", READS_ARRAY, "$brandNew"},
	{"{\"e\": {\"$setField\": {\"field\": \"x\", \"input\": \"$$ROOT\", \"value\": 1}}}",
	 READS_ARRAY, "$$ROOT"},
	{"{\"e\": \"$_spill\"}", READS_RESERVED, "_spill"},
	{"{\"e\": [\"$tags\", \"$$ROOT._spill.tags\"]}", READS_RESERVED, "_spill"},
	{"{\"e\": {\"$zip\": {\"inputs\": [\"$x\", \"$y\"]}}}", READS_NOTHING, ""},
	{"{\"e\": {\"$abs\": 1}}", READS_NOTHING, ""},
};

Test(reads, expressions_read_by_paths_variables_and_operators)
{
	for (size_t i = 0; i < ARRAY_LENGTH(expressions); i++) {
		bson_t *document = ruled_json(expressions[i].json);
		struct element expression;
		struct reads reads;

		cr_assert(document_find(ruled_bytes(document), "e", &expression));
		reads = reads_of_expression(&expression, &ruled_by_both);
		cr_assert_eq(reads.kind, expressions[i].kind, "%s: %d", expressions[i].json,
			     reads.kind);
		cr_assert_str_eq(reads.what, expressions[i].what, "%s: %s", expressions[i].json,
				 reads.what);
		bson_destroy(document);
	}
}

static const struct reading key_patterns[] = {
	{"{}", READS_NOTHING, ""},
	{"{\"_id\": 1, \"x.y\": -1, \"score\": {\"$meta\": \"textScore\"}}", READS_NOTHING, ""},
	{"{\"$natural\": -1}", READS_NOTHING, ""},
	{"{\"x\": 1, \"tags\": 1}", READS_ARRAY, "a key"},
	{"{\"a\": \"hashed\"}", READS_ARRAY, "a key"},
	{"{\"tags.x\": 1}", READS_ARRAY, "a key"},
	{"{\"$**\": 1}", READS_ARRAY, "an unknown operator"},
	{"{\"a.$**\": 1}", READS_ARRAY, "a key"},
	{"{\"x.$**\": 1}", READS_NOTHING, ""},
	{"{\"tags\": 1, \"_spill.tags.t\": 1}", READS_RESERVED, "_spill"},
};

Test(reads, key_patterns_name_the_array)
{
	for (size_t i = 0; i < ARRAY_LENGTH(key_patterns); i++) {
		bson_t *keys = ruled_json(key_patterns[i].json);
		struct reads reads = reads_of_keys(ruled_bytes(keys), &ruled_by_both);

		cr_assert_eq(reads.kind, key_patterns[i].kind, "%s: %d", key_patterns[i].json,
			     reads.kind);
		cr_assert_str_eq(reads.what, key_patterns[i].what, "%s: %s", key_patterns[i].json,
				 reads.what);
		bson_destroy(keys);
	}
}

Test(reads, the_rule_is_that_of_the_array_that_is_read)
{
	bson_t *filter = ruled_json("{\"a.b.c\": 1, \"tags\": 1}");

	cr_assert_eq(reads_of_filter(ruled_bytes(filter), &ruled_by_both).rule, &ruled_path);
	cr_assert_eq(reads_of_filter(ruled_bytes(filter), &ruled_by_tags).rule, &ruled_tags);
	bson_destroy(filter);
}

/* mongod passes over the names of an array's elements. */
Test(reads, an_element_of_an_array_is_read_whatever_its_name)
{
	auto_buffer struct buffer filter = {0};
	size_t whole = writer_open(&filter), array, literal;

	array = writer_open_array(&filter, "$expr");
	literal = writer_open_document(&filter, "$literal");
	writer_string(&filter, "$abs", "$tags");
	writer_close(&filter, literal);
	writer_close(&filter, array);
	writer_close(&filter, whole);
	cr_assert_eq(reads_of_filter(buffer_view(&filter), &ruled_by_tags).kind, READS_ARRAY);
}

/* {$and: [{$and: [...]}]}, `depth` times, around {tags: 1}: two levels each. */
static enum reads_kind kind_of_lists(size_t depth)
{
	auto_buffer struct buffer filter = {0};
	size_t starts[2 * CURSOR_MAX_DEPTH + 1];

	starts[0] = writer_open(&filter);
	for (size_t i = 0; i < depth; i++) {
		starts[2 * i + 1] = writer_open_array(&filter, "$and");
		starts[2 * i + 2] = writer_open_document(&filter, "0");
	}
	writer_int32(&filter, "tags", 1);
	for (size_t i = 2 * depth + 1; i-- > 0;)
		writer_close(&filter, starts[i]);
	return reads_of_filter(buffer_view(&filter), &ruled_by_tags).kind;
}

/* {$expr: {$abs: {$abs: ...}}} around "$tags", `depth` documents in all. */
static enum reads_kind kind_of_expression(size_t depth)
{
	auto_buffer struct buffer filter = {0};
	size_t starts[CURSOR_MAX_DEPTH + 2];

	starts[0] = writer_open(&filter);
	for (size_t i = 1; i < depth; i++)
		starts[i] = writer_open_document(&filter, i == 1 ? "$expr" : "$abs");
	writer_string(&filter, "$abs", "$tags");
	for (size_t i = depth; i-- > 0;)
		writer_close(&filter, starts[i]);
	return reads_of_filter(buffer_view(&filter), &ruled_by_tags).kind;
}

Test(reads, nesting_is_followed_as_deep_as_mongod_goes_and_deeper_is_refused)
{
	cr_assert_eq(kind_of_lists(100), READS_ARRAY);
	cr_assert_eq(kind_of_lists(CURSOR_MAX_DEPTH), READS_BROKEN);
	cr_assert_eq(kind_of_expression(200), READS_ARRAY);
	cr_assert_eq(kind_of_expression(CURSOR_MAX_DEPTH + 2), READS_BROKEN);
}

Test(reads, broken_documents_are_found_out_at_each_level)
{
	static const struct {
		struct bytes filter;
	} broken[] = {
		{{(const uint8_t *)"", 0}},
		{{(const uint8_t *)"\6\0\0\0\0", 5}},
		/* {$and: [<length 4>]} */
		{{(const uint8_t *)"\x16\0\0\0\4$and\0\x0b\0\0\0\3\x30\0\4\0\0\0\0", 22}},
		/* {$expr: {x: <no type 0x77>}} */
		{{(const uint8_t *)"\x14\0\0\0\3$expr\0\x08\0\0\0\x77x\0\0\0", 20}},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(broken); i++) {
		struct reads reads = reads_of_filter(broken[i].filter, &ruled_by_tags);

		cr_assert_eq(reads.kind, READS_BROKEN, "%zu", i);
		cr_assert_str_eq(reads.what, "broken or too deep BSON");
	}
	cr_assert_eq(reads_of_keys(broken[0].filter, &ruled_by_tags).kind, READS_BROKEN);
	cr_assert_eq(reads_of_keys(broken[1].filter, &ruled_by_tags).kind, READS_BROKEN);
}
