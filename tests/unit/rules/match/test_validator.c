/* Tests rules/match/validator.c: what a validator sees of an array whose tail has moved. */
#include "tests/unit/unit.h"

#include "protocol/template.h"
#include "rules/match/validator.h"

static const struct rule rule = {.name = "books", .array = "a.list", .key = "a/list"};

static enum validator_sees sees(const char *text)
{
	auto_buffer struct buffer validator = {0};

	template_write_document(&validator, text);
	return validator_sees(buffer_view(&validator), &rule);
}

static void expect_all(const char *const *texts, size_t count, enum validator_sees expected)
{
	for (size_t i = 0; i < count; i++)
		cr_expect_eq(sees(texts[i]), expected, "%s: %d", texts[i], sees(texts[i]));
}
#define EXPECT(expected, ...) \
	do { \
		static const char *const texts[] = {__VA_ARGS__}; \
		expect_all(texts, ARRAY_LENGTH(texts), expected); \
	} while (0)

Test(validator, presence_and_type_are_those_of_the_whole)
{
	EXPECT(VALIDATOR_SEES_WHOLE, "{}", "{title: {$type: 'string'}, n: {$gt: 3}}",
	       "{'a.list': {$exists: true}}", "{'a.list': {$type: 'array'}}",
	       "{a: {$type: 'object'}, $or: [{x: 1}, {a: {$exists: false}}]}",
	       "{$nor: [{'a.list': {$exists: false}}]}", "{$comment: 'why'}");
	EXPECT(VALIDATOR_SEES_WHOLE, "{$expr: {$isArray: '$a.list'}}",
	       "{$expr: {$isArray: ['$a.list']}}", "{$expr: {$eq: [{$type: '$a.list'}, 'array']}}",
	       "{$expr: {$and: [{$ne: [{$type: '$a'}, 'missing']}, {$lt: ['$x', '$y']}]}}",
	       "{$nor: [{$expr: {$or: [{$gt: ['$x', 1]}, {$isArray: '$b'}]}}]}");
}

Test(validator, a_schema_tells_where_it_looks)
{
	EXPECT(VALIDATOR_SEES_WHOLE, "{$jsonSchema: {bsonType: 'object', required: ['a', 'x']}}",
	       "{$jsonSchema: {properties: {a: {bsonType: 'object', required: ['list'], "
	       "properties: "
	       "{list: {bsonType: 'array', description: 'all'}}, additionalProperties: false}}}}",
	       "{$jsonSchema: {properties: {a: {properties: {list: {bsonType: ['array', 'null']}, "
	       "other: {items: {minItems: 3}}}, maxProperties: 2}}}}",
	       "{$jsonSchema: {properties: {x: {properties: {a: {minItems: 3}}}, list: {minItems: "
	       "3}}}}",
	       "{$jsonSchema: {anyOf: [{properties: {a: {properties: {list: {bsonType: "
	       "'array'}}}}}, {not: {required: ['a']}}], dependencies: {x: ['a'], y: {required: "
	       "['a']}}}}",
	       "{$jsonSchema: {properties: {a: {properties: {list: {anyOf: [{bsonType: 'array'}, "
	       "{bsonType: 'object', properties: {x: {}}}]}}}}}}",
	       "{$jsonSchema: {maxProperties: 3}}", /* its caller refuses it */
	       "{$jsonSchema: {additionalProperties: false}}");
}

Test(validator, elements_and_their_number_are_a_part)
{
	EXPECT(VALIDATOR_SEES_PART, "{'a.list': {$size: 3}}", "{'a.list': 3}", "{'a.list.x': 3}",
	       "{'a.list.0': {$exists: true}}", "{a: {list: []}}", "{a: {$ne: null}}",
	       "{'a.list': {$type: 'string'}}", "{'a.list': {$elemMatch: {x: 1}}}",
	       "{$and: [{x: 1}, {$nor: [{'a.list': {$gt: 4}}]}]}");
	EXPECT(VALIDATOR_SEES_PART, "{$expr: {$lt: [{$size: '$a.list'}, 10]}}", "{$expr: '$a'}",
	       "{$expr: {$isArray: '$a.list.x'}}", "{$expr: {$in: [3, '$a.list']}}",
	       "{$expr: {$eq: [{$type: '$a.list'}, {$type: '$a.list.x'}]}}",
	       "{$expr: {$gt: [{$size: {$getField: 'a'}}, 1]}}");
#define LIST(schema) "{$jsonSchema: {properties: {a: {properties: {list: {" schema "}}}}}}"
	EXPECT(VALIDATOR_SEES_PART, LIST("minItems: 1"), LIST("maxItems: 9"),
	       LIST("bsonType: 'array', items: {bsonType: 'int'}"), LIST("uniqueItems: true"),
	       LIST("additionalItems: false"), LIST("enum: [[1]]"), LIST("not: {maxItems: 4}"),
	       LIST("oneOf: [{bsonType: 'null'}, {items: {}}]"),
	       "{$jsonSchema: {properties: {a: {enum: [{list: []}]}}}}",
	       "{$jsonSchema: {properties: {'a.list': {bsonType: 'array'}}}}",
	       "{$jsonSchema: {properties: {a: {patternProperties: {l: {}}}}}}",
	       "{$jsonSchema: {properties: {a: {additionalProperties: {maxItems: 1}}}}}",
	       "{$jsonSchema: {dependencies: {x: {properties: {a: {properties: {list: {minItems: "
	       "2}}}}}}}}");
}

Test(validator, whole_documents_are_seen_but_by_a_fence)
{
	EXPECT(VALIDATOR_SEES_DOCUMENTS, "{$where: 'true'}",
	       "{$expr: {$eq: ['$x', '$$ROOT.a.list']}}",
	       "{$expr: {$eq: [{$bsonSize: '$$ROOT'}, 100]}}",
	       "{$expr: {$gte: [{$bsonSize: '$$ROOT'}, 100]}}",
	       "{$expr: {$not: [{$lte: [{$bsonSize: '$$ROOT'}, 100]}]}}",
	       "{$nor: [{$expr: {$lte: [{$bsonSize: '$$ROOT'}, 100]}}]}",
	       "{$expr: {$lte: [{$bsonSize: '$$ROOT'}, '$limit']}}",
	       "{$expr: {$lt: [{$size: {$objectToArray: '$$CURRENT'}}, 3]}}",
	       "{$expr: {$function: {body: 'f', args: [], lang: 'js'}}}");
	EXPECT(VALIDATOR_SEES_WHOLE, "{$expr: {$lte: [{$bsonSize: '$$ROOT'}, 100]}}",
	       "{$expr: {$gt: [100, {$bsonSize: '$$ROOT'}]}, x: 1}",
	       "{$and: [{$expr: {$and: [{$lt: [{$bsonSize: '$$ROOT'}, 100]}, '$x']}}]}");
}

Test(validator, which_fields_there_are_may_refuse_the_state)
{
	EXPECT(VALIDATOR_SEES_FIELDS, "{$and: [{$jsonSchema: {additionalProperties: false}}]}",
	       "{$jsonSchema: {allOf: [{additionalProperties: false}]}}",
	       "{$jsonSchema: {not: {maxProperties: 3}}}",
	       "{$jsonSchema: {dependencies: {x: {minProperties: 3}}}}",
	       "{$nor: [{$jsonSchema: {patternProperties: {x: {}}}}]}");
}

Test(validator, what_is_malformed_ends)
{
	auto_buffer struct buffer validator = {0};

	EXPECT(VALIDATOR_SEES_WHOLE, "{$and: 5, $or: [3], $jsonSchema: 4}",
	       "{$jsonSchema: {properties: 5, not: 3, allOf: [3], dependencies: {x: 3}}}");
	EXPECT(VALIDATOR_SEES_PART, "{$jsonSchema: {properties: {a: 5}}}");
	template_write_document(&validator, "{x: 1}");
	validator.data[4] = 0x55;
	cr_assert_eq(validator_sees(buffer_view(&validator), &rule), VALIDATOR_SEES_DOCUMENTS);
}
