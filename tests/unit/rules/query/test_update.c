/* Tests rules/query/update.c, update_pipeline.c, update_whole.c: what writes do
 * to the ruled arrays. */
#include "tests/unit/ruled.h"

#include "protocol/writer.h"
#include "rules/stages/stage_guard.h"
#include "rules/rule/own_fields.h"
#include "rules/query/update.h"

/* The value of "u", under both rules, on `tags` and on `a.b`. */
struct writing {
	const char *json;
	enum update_kind kind;
	const char *what;
};

static const struct writing writings[] = {
	/* not ours */
	{"{'u': {'$set': {'x': 1, 'tagsx': 2, 'a.c': 3}, '$inc': {'__v': 1}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$unset': {'x': 1}, '$pull': {'x': {'tags': 1}}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$rename': {'x': 'y'}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$set': {'x': {'tags': [1], '_spill': 2}}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$inc': {'total': 1}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$set': {'long': true}}}", UPDATE_PLAIN, ""},
	/* appending */
	{"{'u': {'$push': {'tags': 1}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$push': {'a.b': {'$each': []}}, '$inc': {'__v': 1}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$push': {'tags': {'$position': 0}}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$push': {'tags': {'$each': 1}}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$push': {'tags': {'$each': [1], '$position': 0}}}}", UPDATE_EDIT,
	 "$push with modifiers"},
	{"{'u': {'$push': {'tags': {'$slice': -5, '$each': [1]}}}}", UPDATE_EDIT,
	 "$push with modifiers"},
	{"{'u': {'$push': {'tags': {'$each': [], '$sort': 1}}}}", UPDATE_EDIT,
	 "$push with modifiers"},
	{"{'u': {'$push': {'tags': {'$each': [], 'x': 1}}}}", UPDATE_EDIT, "$push with modifiers"},
	{"{'u': {'$push': {'tags.0': 1}}}", UPDATE_EDIT, "$push"},
	{"{'u': {'$push': {'a': 1}}}", UPDATE_EDIT, "$push"},
	{"{'u': {'$push': {'a.0.b': 1}}}", UPDATE_EDIT, "$push"},
	{"{'u': {'$push': {'a.$[].b': 1}}}", UPDATE_EDIT, "$push"},
	/* on insert only */
	{"{'u': {'$setOnInsert': {'tags': [], 'a.b': []}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$setOnInsert': {'a': {'b': [1]}, 'tags.0': 1}}}", UPDATE_PLAIN, ""},
	/* whole */
	{"{'u': {'$set': {'tags': [1]}}}", UPDATE_WHOLE, "$set"},
	{"{'u': {'$set': {'a': 1}}}", UPDATE_WHOLE, "$set"},
	{"{'u': {'$unset': {'a.b': 1}}}", UPDATE_WHOLE, "$unset"},
	{"{'u': {'$set': {'x': 1}, '$set': {'tags': []}}}", UPDATE_WHOLE, "$set"},
	{"{'u': {'$push': {'tags': 1}, '$set': {'a.b': []}}}", UPDATE_WHOLE, "$set"},
	/* in the middle */
	{"{'u': {'$set': {'tags.3': 1}}}", UPDATE_EDIT, "$set"},
	{"{'u': {'$set': {'tags.$': 1}}}", UPDATE_EDIT, "$set"},
	{"{'u': {'$set': {'tags.$[].x': 1}}}", UPDATE_EDIT, "$set"},
	{"{'u': {'$inc': {'a.b.$[e].x': 1}}}", UPDATE_EDIT, "$inc"},
	{"{'u': {'$unset': {'tags.3': 1}}}", UPDATE_EDIT, "$unset"},
	{"{'u': {'$set': {'a.0': 1}}}", UPDATE_EDIT, "$set"},
	{"{'u': {'$pull': {'tags': 1}}}", UPDATE_EDIT, "$pull"},
	{"{'u': {'$pullAll': {'tags': [1]}}}", UPDATE_EDIT, "$pullAll"},
	{"{'u': {'$pop': {'a.b': 1}}}", UPDATE_EDIT, "$pop"},
	{"{'u': {'$addToSet': {'tags': 1}}}", UPDATE_EDIT, "$addToSet"},
	{"{'u': {'$min': {'tags': 1}}}", UPDATE_EDIT, "$min"},
	{"{'u': {'$currentDate': {'a': true}}}", UPDATE_EDIT, "$currentDate"},
	{"{'u': {'$rename': {'tags': 'x'}}}", UPDATE_EDIT, "$rename"},
	{"{'u': {'$rename': {'x': 'a'}}}", UPDATE_EDIT, "$rename"},
	{"{'u': {'$rename': {'y': 'z', 'x': 'a.b'}}}", UPDATE_EDIT, "$rename"},
	{"{'u': {'$brandNew': {'tags': 1}}}", UPDATE_EDIT, "$brandNew"},
	{"{'u': {'$set': {'tags': []}, '$pull': {'a.b': 1}}}", UPDATE_EDIT, "$pull"},
	{"{'u': {'$set': {'tags.0': 1}, '$inc': {'tags.1': 1}}}", UPDATE_EDIT, "$set"},
	/* mongod refuses these */
	{"{'u': {'$set': {'tags': []}, '$push': {'tags': 1}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$pull': {'a.b.0': 1}, '$unset': {'a': 1}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$set': {'tags': []}, '$setOnInsert': {'tags.0': 1}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$rename': {'x': 'tags'}, '$set': {'tags': 1}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$push': {'tags': 1}, '$push': {'tags': 2}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$set': 1, '$push': 'tags', '$pull': [{'tags': 1}]}}", UPDATE_PLAIN, ""},
	{"{'u': {'$rename': {'x': 1}}}", UPDATE_PLAIN, ""},
	{"{'u': {'$brandNew': {'x': 1}, '$v': 1}}", UPDATE_PLAIN, ""},
	{"{'u': 1}", UPDATE_PLAIN, ""},
	{"{'u': null}", UPDATE_PLAIN, ""},
	/* our own names */
	{"{'u': {'$set': {'_spill': 1}}}", UPDATE_RESERVED, "_spill"},
	{"{'u': {'$unset': {'_spill.tags.g': 1}, '$pull': {'tags': 1}}}", UPDATE_RESERVED,
	 "_spill"},
	{"{'u': {'$rename': {'x': '_spill'}}}", UPDATE_RESERVED, "_spill"},
	{"{'u': {'$set': {'big': 1}}}", UPDATE_RESERVED, "big"},
	{"{'u': {'$setOnInsert': {'big.x': 1}}}", UPDATE_RESERVED, "big"},
	{"{'u': {'$inc': {'count.tags': 1}}}", UPDATE_RESERVED, "count.tags"},
	{"{'u': {'$set': {'count': {}}}}", UPDATE_RESERVED, "count.parts"},
	{"{'u': {'$brandNew': {'ref': 1}, '$set': {'tags': []}, '$unset': {'tags': 1}}}",
	 UPDATE_RESERVED, "ref"},
	/* replacements */
	{"{'u': {}}", UPDATE_REPLACE, ""},
	{"{'u': {'x': 1, 'tags': [1]}}", UPDATE_REPLACE, ""},
	{"{'u': {'': 1, '$set': {'tags': 1}}}", UPDATE_REPLACE, ""},
	{"{'u': {'x': {'_spill': 1}, 'big': true, 'ref': 1}}", UPDATE_REPLACE, ""},
	{"{'u': {'x': 1, '_spill': {}}}", UPDATE_RESERVED, "_spill"},
	{"{'u': {'x': 1, '_spill/0': {}}}", UPDATE_RESERVED, "_spill"},
	{"{'u': {'$set': {'_spill/9.a': 1}}}", UPDATE_RESERVED, "_spill"},
	{"{'u': {'$set': {'a._spill/9': 1, '_spilled/': 1}}}", UPDATE_PLAIN, ""},
	/* pipelines */
	{"{'u': []}", UPDATE_PLAIN, ""},
	{"{'u': [{'$set': {'x': {'$add': ['$y', 1]}, 'a.c': '$x'}}, {'$unset': 'y'}]}",
	 UPDATE_PLAIN, ""},
	{"{'u': [{'$addFields': {'x': {'$literal': '$tags'}}}, {'$unset': ['y', 'z']}]}",
	 UPDATE_PLAIN, ""},
	{"{'u': [{'$project': {'x': 0, 'y': false, 'z': 0.0}}]}", UPDATE_PLAIN, ""},
	{"{'u': [1, {}, {'$unset': 1}]}", UPDATE_EDIT, "$unset"},
	{"{'u': [{'$set': {'tags': []}}]}", UPDATE_EDIT, "$set"},
	{"{'u': [{'$set': {'a': {'c': 1}}}]}", UPDATE_EDIT, "$set"},
	{"{'u': [{'$set': {'x': 1}}, {'$addFields': {'tags.0': 1}}]}", UPDATE_EDIT, "$addFields"},
	{"{'u': [{'$set': {'x': {'$size': '$tags'}}}]}", UPDATE_EDIT, "a field path"},
	{"{'u': [{'$set': {'x': '$$ROOT'}}]}", UPDATE_EDIT, "$$ROOT"},
	{"{'u': [{'$unset': 'a'}]}", UPDATE_EDIT, "$unset"},
	{"{'u': [{'$unset': ['x', 'tags']}]}", UPDATE_EDIT, "$unset"},
	{"{'u': [{'$project': {'tags': 0}}]}", UPDATE_EDIT, "$project"},
	{"{'u': [{'$project': {'x': 1}}]}", UPDATE_EDIT, "$project"},
	{"{'u': [{'$project': {'x': '$y'}}]}", UPDATE_EDIT, "$project"},
	{"{'u': [{'$replaceWith': {'x': 1}}]}", UPDATE_EDIT, "$replaceWith"},
	{"{'u': [{'$set': {'tags': 1}, '$unset': '_spill'}]}", UPDATE_RESERVED, "_spill"},
	{"{'u': [{'$set': {'x': '$_spill.tags.n'}}]}", UPDATE_RESERVED, "_spill"},
	{"{'u': [{'$set': {'_spill.x': 1}}]}", UPDATE_RESERVED, "_spill"},
	{"{'u': [{'$project': {'big': 0}}]}", UPDATE_RESERVED, "big"},
	{"{'u': [{'$unset': ['ref']}]}", UPDATE_RESERVED, "ref"},
};

/* JSON with ' for ". */
static bson_t *quoted(const char *json)
{
	char text[1024];
	size_t length = strlen(json);

	cr_assert_lt(length, sizeof(text));
	for (size_t i = 0; i <= length; i++)
		text[i] = json[i] == '\'' ? '"' : json[i];
	return ruled_json(text);
}

static struct element field_u(const bson_t *document)
{
	struct element u = {0};

	cr_assert(document_find(ruled_bytes(document), "u", &u));
	return u;
}

Test(update, each_form_has_its_kind)
{
	for (size_t i = 0; i < ARRAY_LENGTH(writings); i++) {
		const struct writing *writing = &writings[i];
		bson_t *document = quoted(writing->json);
		struct element u = field_u(document);
		struct update update = update_classify(&u, &ruled_by_both);

		cr_assert_eq(update.kind, writing->kind, "%s: %d", writing->json, update.kind);
		cr_assert_str_eq(update.what, writing->what, "%s: %s", writing->json, update.what);
		cr_assert_eq(update.rule != NULL,
			     update.kind == UPDATE_WHOLE || update.kind == UPDATE_EDIT, "%s",
			     writing->json);
		bson_destroy(document);
	}
}

struct effect {
	const char *json;
	int64_t elements; /* -1: no $push */
	bool long_array;
};

static const struct effect effects[] = {
	{"{'u': {'$push': {'tags': 1}}}", 1, false},
	{"{'u': {'$push': {'tags': [1, 2]}}}", 1, false},
	{"{'u': {'$push': {'tags': {'x': [1, 2]}}}}", 1, false},
	{"{'u': {'$push': {'tags': {'$each': [1, 2, 3, 4, 5]}, 'a.b': 1, 'x': 1}}}", 6, false},
	{"{'u': {'$push': {'tags': {'$each': []}}}}", 0, false},
	{"{'u': {'$push': {'tags': 1}, '$set': {'a.b': [1, 2, 3, 4]}}}", 1, true},
	{"{'u': {'$set': {'tags': [1, 2, 3]}}}", -1, false},
	{"{'u': {'$set': {'tags': [1, 2, 3, 4]}}}", -1, true},
	{"{'u': {'$set': {'tags': {'0': 1, '1': 1, '2': 1, '3': 1}}}}", -1, false},
	{"{'u': {'$set': {'a': {'x': 1, 'b': [1, 2, 3, 4]}}}}", -1, true},
	{"{'u': {'$set': {'a': {'b.c': 1, 'b': {'c': [1, 2, 3, 4]}}}}}", -1, false},
	{"{'u': {'$set': {'a': [{'b': [1, 2, 3, 4]}]}}}", -1, false},
	{"{'u': {'$setOnInsert': {'tags': [1, 2, 3, 4]}}}", -1, true},
	{"{'u': {'$setOnInsert': {'tags': [1, 2, 3]}}}", -1, false},
	{"{'u': {'$unset': {'tags': [1, 2, 3, 4]}}}", -1, false},
	{"{'u': {'tags': [1, 2, 3, 4]}}", -1, true},
	{"{'u': {'a': {'b': [1, 2, 3, 4]}}}", -1, true},
	{"{'u': {'a': {'b': [1, 2, 3]}, 'b': [1, 2, 3, 4]}}", -1, false},
	{"{'u': {'tags': ['0123456789012345678901234567890123456789', "
	 "'0123456789012345678901234567890123456789012345678901234567890123456789',"
	 "'0123456789012345678901234567890123456789012345678901234567890123456789']}}",
	 -1, true},
	/* mongod refuses these */
	{"{'u': {'$push': {'tags': 1}, '$set': {'tags': [1, 2, 3, 4]}}}", -1, false},
};

Test(update, pushed_elements_and_long_arrays_are_told)
{
	for (size_t i = 0; i < ARRAY_LENGTH(effects); i++) {
		const struct effect *effect = &effects[i];
		bson_t *document = quoted(effect->json);
		struct element u = field_u(document);
		struct update update = update_classify(&u, &ruled_by_both);

		cr_assert_eq(update.appends, effect->elements >= 0, "%s", effect->json);
		cr_assert_eq(update.elements, effect->elements < 0 ? 0 : effect->elements,
			     "%s: %ld", effect->json, (long)update.elements);
		cr_assert_eq(update.long_array, effect->long_array, "%s", effect->json);
		bson_destroy(document);
	}
}

struct rewriting {
	const struct ruled_namespace *namespace;
	const char *from, *to;
};

static const struct rewriting rewritings[] = {
	{&ruled_by_tags, "{'u': {'$set': {'tags': [1]}}}",
	 "{'w': {'$set': {'tags': [1]}, '$unset': {'_spill.tags': 1, 'big': 1}}}"},
	{&ruled_by_tags, "{'u': {'$unset': {'x': '', 'tags': ''}, '$inc': {'__v': 1}}}",
	 "{'w': {'$unset': {'x': '', 'tags': '', '_spill.tags': 1, 'big': 1}, '$inc': {'__v': "
	 "1}}}"},
	/* mongod takes an operator twice */
	{&ruled_by_tags, "{'u': {'$unset': {'x': 1}, '$unset': {'tags': 1}, '$unset': {}}}",
	 "{'w': {'$unset': {'x': 1, '_spill.tags': 1, 'big': 1}, '$unset': {'tags': 1}, '$unset': "
	 "{}}}"},
	{&ruled_by_tags, "{'u': {'$unset': 1, '$set': {'tags': 1}}}",
	 "{'w': {'$unset': 1, '$set': {'tags': 1}, '$unset': {'_spill.tags': 1, 'big': 1}}}"},
	/* the flag goes back to what it is otherwise */
	{&ruled_by_path, "{'u': {'$set': {'a': {}}}}",
	 "{'w': {'$set': {'a': {}, 'long': false}, '$unset': {'_spill.a/b': 1}}}"},
	{&ruled_by_path, "{'u': {'$unset': {'a.b': 1}}}",
	 "{'w': {'$unset': {'a.b': 1, '_spill.a/b': 1}, '$set': {'long': false}}}"},
	/* unless the client says */
	{&ruled_by_path, "{'u': {'$set': {'a': {}}, '$unset': {'long': 1}}}",
	 "{'w': {'$set': {'a': {}}, '$unset': {'long': 1, '_spill.a/b': 1}}}"},
	{&ruled_by_path, "{'u': {'$set': {'a': {}}, '$rename': {'x': 'long'}}}",
	 "{'w': {'$set': {'a': {}}, '$rename': {'x': 'long'}, '$unset': {'_spill.a/b': 1}}}"},
	/* of two rules */
	{&ruled_by_both, "{'u': {'$set': {'tags': [], 'a.b': []}}}",
	 "{'w': {'$set': {'tags': [], 'a.b': [], 'long': false},"
	 " '$unset': {'_spill.tags': 1, 'big': 1, '_spill.a/b': 1}}}"},
	{&ruled_by_both, "{'u': {'$set': {'tags': []}, '$push': {'a.b': 1}}}",
	 "{'w': {'$set': {'tags': []}, '$push': {'a.b': 1}, '$unset': {'_spill.tags': 1, 'big': "
	 "1}}}"},
};

static void check_rewriting_of(const struct ruled_namespace *namespace, const char *from,
			       const char *to, const struct element *states)
{
	auto_buffer struct buffer out = {0};
	bson_t *document = quoted(from), *expected = quoted(to);
	struct element u = field_u(document);
	size_t start = writer_open(&out);

	cr_assert_eq(update_classify(&u, namespace).kind, UPDATE_WHOLE, "%s", from);
	update_write_whole(&out, "w", &u, namespace, states);
	writer_close(&out, start);
	cr_assert(bytes_equal(buffer_view(&out), ruled_bytes(expected)), "%s", from);
	bson_destroy(document);
	bson_destroy(expected);
}

Test(update, a_whole_write_takes_the_state_along)
{
	bson_t *document = quoted("{'u': {'tags': {'n': 1}, 'a/b': {'n': 1}}}");
	struct element states = field_u(document);

	for (size_t i = 0; i < ARRAY_LENGTH(rewritings); i++)
		check_rewriting_of(rewritings[i].namespace, rewritings[i].from, rewritings[i].to,
				   &states);
	bson_destroy(document);
}

Test(update, where_nothing_was_moved_the_flag_is_the_applications)
{
	check_rewriting_of(&ruled_by_both, "{'u': {'$set': {'tags': [], 'a': 1}}}",
			   "{'w': {'$set': {'tags': [], 'a': 1}, '$unset': {'_spill.tags': 1, "
			   "'_spill.a/b': 1}}}",
			   NULL);
}

/* `long` is the flag of a.b, and false otherwise. */
Test(update, a_flag_of_the_applications_own_comes_back_where_spillway_changed_it)
{
	static const struct {
		const char *states, *to;
	} cases[] = {
		{"{'u': {'a/b': {'g': 1}}}",
		 "{'w': {'$unset': {'a.b': 1, '_spill.a/b': 1}, '$set': {'long': false}}}"},
		{"{'u': {'a/b': {'g': 1, 'a': ['long']}}}",
		 "{'w': {'$unset': {'a.b': 1, '_spill.a/b': 1, 'long': 1}}}"},
		{"{'u': {'tags': {'g': 1}}}", "{'w': {'$unset': {'a.b': 1, '_spill.a/b': 1}}}"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		bson_t *document = quoted(cases[i].states);
		struct element states = field_u(document);

		check_rewriting_of(&ruled_by_path, "{'u': {'$unset': {'a.b': 1}}}", cases[i].to,
				   &states);
		bson_destroy(document);
	}
}

/* What stood in them before the first move is in the state's `b`; nothing is known without it. */
Test(update, counters_and_reference_come_back_as_they_were)
{
	static const struct {
		const char *states, *to;
	} cases[] = {
		{"{'u': {'tags': {'n': 5, 'b': {'t': 7, 'd': 0.0, 'r': 'x'}}}}",
		 ", 'big': 1}, '$set': {'total': 7, 'documents': 0.0, 'ref': 'x'}}}"},
		{"{'u': {'tags': {'n': 5, 'b': {'t': null, 'd': 3}}}}",
		 ", 'big': 1, 'ref': 1}, '$set': {'total': null, 'documents': 0}}}"},
		{"{'u': {'tags': {'n': 5, 'b': {}}}}",
		 ", 'big': 1, 'total': 1, 'documents': 1, 'ref': 1}}}"},
		{"{'u': {'tags': {'n': 0}}}", "}}}"},
		{"{'u': {'other': {'n': 5, 'b': {}}}}", "}}}"},
	};
	struct rule rule = ruled_tags;
	struct target target = {.rule = &rule};
	struct ruled_namespace namespace = {.target_count = 1, .targets = &target};
	char to[256];

	rule.counters.total = (char *)"total";
	rule.counters.documents = (char *)"documents";
	rule.reference.field = (char *)"ref";
	rule.reference.format = (char *)RULE_ID_MARK;
	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		bson_t *document = quoted(cases[i].states);
		struct element states = field_u(document);

		snprintf(to, sizeof(to), "{'w': {'$unset': {'tags': 1, '_spill.tags': 1%s",
			 cases[i].to);
		check_rewriting_of(&namespace, "{'u': {'$unset': {'tags': 1}}}", to, &states);
		bson_destroy(document);
	}
}

/* An application may write the total that it keeps itself, and names that are shown but not kept.
 */
Test(update, counters_that_spillway_keeps_are_reserved)
{
	static const struct {
		bool exposed, of_app;
		const char *update;
		enum update_kind kind;
	} cases[] = {
		{false, false, "{'u': {'$inc': {'total': 1}}}", UPDATE_RESERVED},
		{true, false, "{'u': {'$inc': {'total': 1}}}", UPDATE_RESERVED},
		{true, false, "{'u': {'$rename': {'x': 'documents.y'}}}", UPDATE_RESERVED},
		{true, false, "{'u': [{'$set': {'documents': 1}}]}", UPDATE_RESERVED},
		{true, false, "{'u': {'$unset': {'ref': 1}}}", UPDATE_RESERVED},
		{true, false, "{'u': {'$set': {'big': true}}}", UPDATE_PLAIN},
		{false, true, "{'u': {'$inc': {'total': 1}, '$push': {'tags': 1}}}", UPDATE_PLAIN},
		{false, true, "{'u': {'$inc': {'documents': 1}}}", UPDATE_RESERVED},
		{false, false, "{'u': {'total': 1, 'documents': 2}}", UPDATE_REPLACE},
	};
	struct rule rule = ruled_tags;
	struct target target = {.rule = &rule};
	struct ruled_namespace namespace = {.target_count = 1, .targets = &target};

	rule.counters.total = (char *)"total";
	rule.counters.documents = (char *)"documents";
	rule.reference.field = (char *)"ref";
	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		bson_t *document = quoted(cases[i].update);
		struct element u = field_u(document);

		rule.expose.flag = rule.expose.counters = rule.expose.reference = cases[i].exposed;
		rule.counters.owned_by_app = cases[i].of_app;
		cr_assert_eq(update_classify(&u, &namespace).kind, cases[i].kind, "%s",
			     cases[i].update);
		bson_destroy(document);
	}
}

Test(update, broken_updates_are_found_out_at_each_level)
{
	static const struct element broken[] = {
		{.type = 3, .value = {(const uint8_t *)"\6\0\0\0\0", 5}},
		{.type = 4, .value = {(const uint8_t *)"\6\0\0\0\0", 5}},
		/* {$set: <length 4>} */
		{.type = 3, .value = {(const uint8_t *)"\x0f\0\0\0\3$set\0\4\0\0\0\0", 15}},
		/* {$set: {x: <no type 0x77>}} */
		{.type = 3,
		 .value = {(const uint8_t *)"\x13\0\0\0\3$set\0\x08\0\0\0\x77x\0\0\0", 19}},
		/* [{$set: {x: <no type 0x77>}}] */
		{.type = 4,
		 .value = {(const uint8_t
				    *)"\x1b\0\0\0\3\x30\0\x13\0\0\0\3$set\0\x08\0\0\0\x77x\0\0\0\0",
			   27}},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(broken); i++)
		cr_assert_eq(update_classify(&broken[i], &ruled_by_tags).kind, UPDATE_BROKEN, "%zu",
			     i);
}

Test(update, documents_are_looked_at_for_long_arrays_and_our_name)
{
	bson_t *ordinary = quoted("{'tags': [1, 2, 3], 'a': {'b': [1]}, 'x': [1, 2, 3, 4]}");
	bson_t *outlier = quoted("{'tags': [1, 2, 3], 'a': {'b': [1, 2, 3, 4], '_spill': 1}}");
	bson_t *named = quoted("{'x': 1, '_spill': 1}");

	cr_assert_not(document_is_outlier(ruled_bytes(ordinary), &ruled_by_both));
	cr_assert(document_is_outlier(ruled_bytes(outlier), &ruled_by_both));
	cr_assert_not(document_is_outlier(ruled_bytes(outlier), &ruled_by_tags));
	cr_assert_not(document_names_state(ruled_bytes(outlier)));
	cr_assert(document_names_state(ruled_bytes(named)));
	bson_destroy(ordinary);
	bson_destroy(outlier);
	bson_destroy(named);
}

Test(update, a_pipeline_that_may_compute_names_is_told_from_one_that_spells_them)
{
	static const struct {
		const char *json;
		bool computes;
	} pipelines[] = {
		{"{'u': {'$set': {'x': 1}}}", false},
		{"{'u': {'$replaceWith': 1}}", false},
		{"{'u': []}", false},
		{"{'u': [1, {}]}", false},
		{"{'u': [{'$set': {'x': {'$setField': 1}}}, {'$addFields': {'y': '$$ROOT'}}]}",
		 false},
		{"{'u': [{'$unset': 'x'}, {'$project': {'x': 1}}]}", false},
		{"{'u': [{'$replaceWith': '$x'}]}", true},
		{"{'u': [{'$set': {'x': 1}}, {'$replaceRoot': {'newRoot': '$x'}}]}", true},
		{"{'u': [{'$set': {'x': 1}, '$replaceWith': 1}]}", true},
		{"{'u': [{'$newStage': 1}]}", true},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(pipelines); i++) {
		bson_t *document = quoted(pipelines[i].json);
		struct element u;

		cr_assert(document_find(ruled_bytes(document), "u", &u));
		cr_assert_eq(update_computes_names(&u), pipelines[i].computes, "%s",
			     pipelines[i].json);
		/* Only an edit of all arrays has the guard. */
		if (pipelines[i].computes)
			cr_assert_eq(update_classify(&u, &ruled_by_both).kind, UPDATE_EDIT);
		bson_destroy(document);
	}
}

Test(update, a_guarded_pipeline_has_the_clients_stages_and_one_behind_them)
{
	auto_buffer struct buffer out = {0};
	bson_t *document = quoted("{'u': [{'$set': {'a': 1}}, {'$replaceWith': '$x'}]}");
	size_t start = writer_open(&out);
	struct element u, guarded, before, after, guard;
	struct cursor clients, ours;

	cr_assert(document_find(ruled_bytes(document), "u", &u));
	cr_assert_eq(update_stage_count(&u), 2);
	stage_guard_write(&out, "u", &u);
	writer_close(&out, start);
	cr_assert(document_find(buffer_view(&out), "u", &guarded));
	cr_assert(cursor_open(&clients, u.value) && cursor_open(&ours, guarded.value));
	while (cursor_next(&clients, &before) == CURSOR_ELEMENT) {
		cr_assert_eq(cursor_next(&ours, &after), CURSOR_ELEMENT);
		cr_assert(bytes_equal(element_raw(&before), element_raw(&after)));
	}
	cr_assert_eq(cursor_next(&ours, &after), CURSOR_ELEMENT);
	cr_assert(document_find_path(after.value, "$set._spill", &guard));
	cr_assert_eq(cursor_next(&ours, &after), CURSOR_END);
	bson_destroy(document);
}
