/* Tests rules/query/computed.c: which pipelines may make fields under hidden names. */
#include "tests/unit/ruled.h"
#include "tests/unit/wire_make.h"

#include "rules/query/computed.h"

/* Of the names big and ref. */
static const char *const hidden[] = {
	"[{'$project': {'ref': '$x'}}]",
	"[{'$project': {'x': 1, 'big.y': '$x'}}]",
	"[{'$group': {'_id': '$x', 'big': {'$sum': 1}}}, {'$sort': {'big': 1}}]",
	"[{'$set': {'ref': 1}}]",
	"[{'$addFields': {'x': 1, 'big': {'y': 1}}}]",
	"[{'$count': 'big'}]",
	"[{'$facet': {'big': []}}]",
	"[{'$lookup': {'from': 'other', 'pipeline': [], 'as': 'ref'}}]",
	"[{'$graphLookup': {'from': 'other', 'as': 'big'}}]",
	"[{'$unwind': {'path': '$x', 'includeArrayIndex': 'ref'}}]",
	"[{'$setWindowFields': {'output': {'big': {'$sum': 1}}}}]",
	"[{'$fill': {'output': {'big': {'value': 1}}}}]",
	"[{'$densify': {'field': 'big'}}]",
	"[{'$bucket': {'groupBy': '$x', 'boundaries': [1], 'output': {'big': {'$sum': 1}}}}]",
	"[{'$set': {'_spill': 1}}]",
	"[{'$project': {'x': 1}}, {'$set': {'ref': 1}}, {'$unset': 'x'}, {'$limit': 3}]",
	/* names that are not written in the pipeline */
	"[{'$replaceRoot': {'newRoot': '$x'}}]",
	"[{'$replaceWith': {'$mergeObjects': ['$x', '$y']}}]",
	"[{'$replaceWith': {}}]",
	"[{'$unionWith': 'other'}, {'$match': {'x': 1}}]",
	"[{'$collStats': {}}]",
	"[{'$whatComesNext': {}}]",
	"[{'$changeStream': {}}, {'$replaceRoot': {'newRoot': '$x'}}]",
};
static const char *const apart[] = {
	"[]",
	"[{'$project': {'x': '$big', 'y.big': 1}}, {'$unset': 'z'}]",
	("[{'$match': {'big': true}}, {'$sort': {'ref': 1}}, {'$unset': ['big']}, {'$redact': "
	 "'ref'}]"),
	"[{'$group': {'_id': '$ref', 'n': {'$sum': '$big'}}}]",
	"[{'$set': {'bigger': 1, 'referee': '$ref'}}]",
	"[{'$unwind': '$big'}]",
	"[{'$replaceWith': {'x': '$big'}}]",
	"[{'$replaceRoot': {'newRoot': {'_id': '$_id', 'x': 1}}}]",
	"[{'$changeStream': {}}, {'$match': {'big': 1}}]",
	/* they are gone again */
	"[{'$unionWith': 'other'}, {'$group': {'_id': '$big'}}]",
	"[{'$set': {'ref': 1}}, {'$project': {'x': '$ref'}}]",
	"[{'$replaceRoot': {'newRoot': '$x'}}, {'$count': 'n'}]",
	"[{'$set': {'ref': 1}}, {'$merge': 'other'}]",
	"[{'$unionWith': 'other'}, {'$out': 'other'}]",
	/* mongod refuses it */
	"[{'$set': {'ref': 1}}, 5]",
	"[{'$set': {'ref': 1}, '$match': {}}]",
};

static enum computed computed(const char *pipeline, const struct ruled_namespace *namespace)
{
	struct element array;

	cr_assert(document_find(made_bson(made_text("{'a': %s}", pipeline)), "a", &array));
	return computed_of(array.value, namespace);
}

Test(computed, fields_that_may_have_a_hidden_name)
{
	for (size_t i = 0; i < ARRAY_LENGTH(hidden); i++)
		cr_assert_eq(computed(hidden[i], &ruled_by_tags), COMPUTED_HIDDEN, "%s", hidden[i]);
	made_free();
}

Test(computed, fields_that_have_none)
{
	for (size_t i = 0; i < ARRAY_LENGTH(apart); i++)
		cr_assert_eq(computed(apart[i], &ruled_by_tags), COMPUTED_APART, "%s", apart[i]);
	made_free();
}

Test(computed, nothing_is_asked_where_a_rule_hides_nothing)
{
	for (size_t i = 0; i < ARRAY_LENGTH(hidden); i++)
		cr_assert_eq(computed(hidden[i], &ruled_by_path), COMPUTED_APART, "%s", hidden[i]);
	made_free();
}

Test(computed, names_that_stages_make_by_themselves)
{
	static struct rule rule;
	static struct target target = {.rule = &rule};
	static const struct ruled_namespace namespace = {.target_count = 1, .targets = &target};

	rule = ruled_tags;
	rule.flag.field = (char *)"count";
	rule.reference.field = (char *)"documentKey";
	cr_assert_eq(computed("[{'$sortByCount': '$x'}]", &namespace), COMPUTED_HIDDEN);
	cr_assert_eq(computed("[{'$bucketAuto': {'groupBy': '$x'}}]", &namespace), COMPUTED_HIDDEN);
	cr_assert_eq(computed("[{'$changeStream': {}}]", &namespace), COMPUTED_HIDDEN);
	cr_assert_eq(computed("[{'$changeStream': {}}, {'$changeStreamSplitLargeEvent': {}}]",
			      &namespace),
		     COMPUTED_UNMARKED);
	made_free();
}
