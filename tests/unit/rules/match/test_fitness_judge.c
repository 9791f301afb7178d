/* Tests rules/match/fitness_judge.c: where a rule can't hold. */
#include "tests/unit/unit.h"

#include "rules/match/fitness_judge.h"

#include <bson/bson.h>

static struct rule rule = {.name = "books",
			   .array = "a.list",
			   .key = "a/list",
			   .flag = {.field = "more", .value = {.type = BSON_BYTE_BOOL}},
			   .overflow = {.link = "book", .array = "part", .batch_field = "number"}};

static struct unfit why;

/* JSON is written with ' for ". */
static bson_t *parse(const char *json)
{
	auto_free char *text = must_strndup(json, strlen(json));
	bson_error_t error;
	bson_t *built;

	for (char *at = text; *at; at++)
		*at = *at == '\'' ? '"' : *at;
	built = bson_new_from_json((const uint8_t *)text, -1, &error);
	cr_assert_not_null(built, "%s: %s", text, error.message);
	return built;
}

enum judged { MAIN, OVERFLOW, MAIN_INDEX, OVERFLOW_INDEX };

static bool judge(enum judged what, const char *json)
{
	bson_t *built = parse(json);
	struct bytes bytes = {bson_get_data(built), built->len};
	bool fit = false;

	why.reason[0] = '\0';
	switch (what) {
	case MAIN:
		fit = judge_main_collection(&rule, bytes, &why);
		break;
	case OVERFLOW:
		fit = judge_overflow_collection(bytes, &why);
		break;
	case MAIN_INDEX:
		fit = judge_main_index(&rule, bytes, &why);
		break;
	case OVERFLOW_INDEX:
		fit = judge_overflow_index(&rule, bytes, &why);
		break;
	}
	bson_destroy(built);
	cr_assert_eq(fit, why.reason[0] == '\0', "%s: '%s'", json, why.reason);
	return fit;
}

static void fits(enum judged what, const char *json)
{
	cr_assert(judge(what, json), "%s: %s", json, why.reason);
}

static void refused(enum judged what, const char *json, const char *word)
{
	cr_assert_not(judge(what, json), "%s", json);
	cr_assert(strstr(why.reason, word), "%s: '%s' says nothing of '%s'", json, why.reason,
		  word);
}

Test(fitness, an_ordinary_collection_is_fit)
{
	fits(MAIN, "{'name': 'books', 'type': 'collection', 'options': {}}");
	fits(OVERFLOW, "{'name': 'books', 'type': 'collection', 'options': {}}");
}

Test(fitness, views_time_series_and_capped_collections_are_not)
{
	for (enum judged what = MAIN; what <= OVERFLOW; what++) {
		refused(what, "{'type': 'view', 'options': {'viewOn': 'x'}}", "view");
		refused(what, "{'type': 'timeseries', 'options': {}}", "time series");
		refused(what, "{'type': 'collection', 'options': {'capped': true, 'size': 10}}",
			"capped");
	}
}

#define VALIDATOR(text) "{'type': 'collection', 'options': {'validator': " text "}}"

Test(fitness, a_validator_that_looks_at_the_array_refuses)
{
	refused(MAIN, VALIDATOR("{'a.list': {'$size': 3}}"), "a.list");
	refused(MAIN, VALIDATOR("{'a.list.5': {'$exists': false}}"), "a.list");
	refused(MAIN, VALIDATOR("{'$or': [{'b': 1}, {'a': {'$gt': 3}}]}"), "a.list");
	refused(MAIN, VALIDATOR("{'$expr': {'$lt': [{'$size': '$a.list'}, 10]}}"), "a.list");
	refused(MAIN,
		VALIDATOR("{'$jsonSchema': {'properties': {'a': {'properties': {'list': "
			  "{'minItems': 2}}}}}}"),
		"a.list");
	fits(MAIN, VALIDATOR("{'$expr': {'$lte': [{'$bsonSize': '$$ROOT'}, 200]}}"));
	refused(MAIN,
		VALIDATOR("{'$and': [{'$expr': {'$lt': [{'$size': {'$objectToArray': "
			  "'$$CURRENT'}}, 3]}}]}"),
		"whole");
	fits(MAIN, VALIDATOR("{'title': {'$ne': 'none'}}"));
	fits(MAIN, VALIDATOR("{'$expr': {'$lt': ['$year', '$age']}}"));
	fits(MAIN, VALIDATOR("{'$jsonSchema': {'required': ['title']}}"));
}

Test(fitness, a_validator_that_refuses_our_names_refuses)
{
	refused(MAIN, VALIDATOR("{'$jsonSchema': {'maxProperties': 5}}"), "_spill");
	refused(MAIN, VALIDATOR("{'$jsonSchema': {'not': {'minProperties': 5}}}"), "_spill");
	refused(MAIN, VALIDATOR("{'$jsonSchema': {'allOf': [{'patternProperties': {}}]}}"),
		"_spill");
	fits(MAIN, VALIDATOR("{'$jsonSchema': {'properties': {'x': {'maxProperties': 5}}}}"));
	refused(MAIN, VALIDATOR("{'$jsonSchema': {'additionalProperties': false}}"), "_spill");
	refused(MAIN,
		VALIDATOR("{'$jsonSchema': {'properties': {'_spill': {}}, 'additionalProperties': "
			  "false}}"),
		"more");
	fits(MAIN,
	     VALIDATOR(
		     "{'$jsonSchema': {'properties': {'_spill': {}, 'more': {'bsonType': 'bool'}}, "
		     "'additionalProperties': false}}"));
	refused(MAIN,
		VALIDATOR("{'$jsonSchema': {'properties': {'more': {'bsonType': 'string'}}}}"),
		"more");
	refused(MAIN, VALIDATOR("{'_spill': {'$exists': false}}"), "_spill");
	refused(MAIN, VALIDATOR("{'more': false}"), "more");
	refused(OVERFLOW, VALIDATOR("{'$jsonSchema': {'additionalProperties': false}}"), "_spill");
}

static void set_counters(bool of_app)
{
	rule.counters.total = (char *)"total";
	rule.counters.documents = (char *)"documents";
	rule.counters.owned_by_app = of_app;
	rule.reference.field = (char *)"ref";
}

#define PROPERTY(text) VALIDATOR("{'$jsonSchema': {'properties': {" text "}}}")

Test(fitness, a_validator_that_refuses_counters_or_the_reference_refuses)
{
	fits(MAIN, PROPERTY("'total': {'bsonType': 'string'}"));
	set_counters(false);
	refused(MAIN, PROPERTY("'total': {'bsonType': 'string'}"), "counter 'total'");
	refused(MAIN, PROPERTY("'documents': {'bsonType': 'int', 'maximum': 5}"),
		"counter 'documents'");
	refused(MAIN, PROPERTY("'ref': {'bsonType': 'objectId'}"), "reference 'ref'");
	fits(MAIN, PROPERTY("'total': {'bsonType': 'int'}, 'documents': {'bsonType': 'number'}, "
			    "'ref': {'bsonType': 'string'}"));
	set_counters(true);
	fits(MAIN, PROPERTY("'total': {'bsonType': 'string'}"));
}

/* What Spillway writes there could meet another document's. */
Test(fitness, a_unique_index_over_a_field_that_spillway_writes_refuses)
{
	fits(MAIN_INDEX, "{'name': 'u', 'key': {'total': 1}, 'unique': true}");
	set_counters(false);
	refused(MAIN_INDEX, "{'name': 'u', 'key': {'b': 1, 'total': 1}, 'unique': true}", "total");
	refused(MAIN_INDEX, "{'name': 'u', 'key': {'more': 1}, 'unique': true}", "more");
	refused(MAIN_INDEX,
		"{'name': 'u', 'key': {'b': 1}, 'unique': true, 'partialFilterExpression': "
		"{'documents': {'$gt': 0}}}",
		"documents");
	fits(MAIN_INDEX, "{'name': 'u', 'key': {'total': 1}}");
	set_counters(true);
	fits(MAIN_INDEX, "{'name': 'u', 'key': {'total': 1}, 'unique': true}");
}

/* mongod takes neither a number nor a text for a place, and no number for a language. */
Test(fitness, an_index_that_takes_nothing_of_what_spillway_writes_refuses)
{
	fits(MAIN_INDEX, "{'name': 'g', 'key': {'ref': '2dsphere'}}");
	set_counters(false);
	refused(MAIN_INDEX, "{'name': 'g', 'key': {'b': 1, 'ref': '2dsphere'}}", "'ref'");
	refused(MAIN_INDEX, "{'name': 'g', 'key': {'total': '2d'}}", "'total'");
	refused(MAIN_INDEX, "{'name': 'g', 'key': {'_spill.list': '2dsphere'}}", "'_spill'");
	fits(MAIN_INDEX, "{'name': 'g', 'key': {'place': '2dsphere', 'total': 1}}");
	refused(MAIN_INDEX,
		"{'name': 't', 'key': {'_fts': 'text', '_ftsx': 1}, 'weights': {'title': 1}, "
		"'language_override': 'ref'}",
		"'ref'");
	fits(MAIN_INDEX, "{'name': 't', 'key': {'_fts': 'text', '_ftsx': 1}, 'weights': {'title': "
			 "1}, 'language_override': 'language'}");
	set_counters(true);
	fits(MAIN_INDEX, "{'name': 'g', 'key': {'total': '2d'}}");
}

Test(fitness, a_validator_that_only_warns_is_no_matter)
{
	fits(MAIN, "{'options': {'validator': {'a.list': 1}, 'validationAction': 'warn'}}");
	fits(MAIN, "{'options': {'validator': {'a.list': 1}, 'validationLevel': 'off'}}");
	refused(MAIN, "{'options': {'validator': {'a.list': 1}, 'validationLevel': 'moderate'}}",
		"a.list");
}

Test(fitness, indexes_over_the_array_that_need_it_whole_refuse)
{
	refused(MAIN_INDEX, "{'name': 'u', 'key': {'a.list': 1}, 'unique': true}", "unique");
	refused(MAIN_INDEX, "{'name': 'u', 'key': {'b': 1, 'a.list.x': 1}, 'unique': true}",
		"unique");
	refused(MAIN_INDEX, "{'name': 'u', 'key': {'a': 1}, 'unique': true}", "unique");
	refused(MAIN_INDEX,
		"{'name': 'u', 'key': {'b': 1}, 'unique': true, 'partialFilterExpression': "
		"{'a.list': 1}}",
		"unique");
	refused(MAIN_INDEX, "{'name': 't', 'key': {'a.list.at': 1}, 'expireAfterSeconds': 5}",
		"TTL");
	refused(MAIN_INDEX,
		"{'name': 't', 'key': {'at': 1}, 'expireAfterSeconds': 5, "
		"'partialFilterExpression': {'a.list.x': {'$gt': 1}}}",
		"TTL");
	refused(MAIN_INDEX,
		"{'name': 't', 'key': {'_fts': 'text', '_ftsx': 1}, 'weights': {'title': 1}, "
		"'partialFilterExpression': {'a.list': 3}}",
		"text");
	refused(MAIN_INDEX,
		"{'name': 't', 'key': {'_fts': 'text', '_ftsx': 1}, 'weights': {'a.list.title': "
		"1}}",
		"text");
	refused(MAIN_INDEX,
		"{'name': 't', 'key': {'_fts': 'text', '_ftsx': 1}, 'weights': {'$**': 1}}",
		"text");
	refused(MAIN_INDEX, "{'name': 'g', 'key': {'a.list.place': '2dsphere'}}", "2dsphere");
	refused(MAIN_INDEX, "{'name': 'no key'}", "read");
}

Test(fitness, other_indexes_are_fine)
{
	fits(MAIN_INDEX, "{'name': '_id_', 'key': {'_id': 1}}");
	fits(MAIN_INDEX, "{'name': 'm', 'key': {'a.list': 1}}");
	fits(MAIN_INDEX, "{'name': 'u', 'key': {'isbn': 1}, 'unique': true}");
	fits(MAIN_INDEX, "{'name': 't', 'key': {'at': 1}, 'expireAfterSeconds': 5}");
	fits(MAIN_INDEX, "{'name': 'w', 'key': {'$**': 1}}");
	fits(MAIN_INDEX,
	     "{'name': 't', 'key': {'_fts': 'text', '_ftsx': 1}, 'weights': {'title': 1}}");
	fits(MAIN_INDEX,
	     "{'name': 'p', 'key': {'b': 1}, 'partialFilterExpression': {'a.list': 1}}");
	fits(MAIN_INDEX,
	     "{'name': 'p', 'key': {'b': 1}, 'unique': true, 'partialFilterExpression': "
	     "{'a.list': {'$exists': true}, 'a': {'$exists': true}}}");
	fits(MAIN_INDEX, "{'name': 't', 'key': {'at': 1}, 'expireAfterSeconds': 5, "
			 "'partialFilterExpression': {'a.list': {'$exists': true}}}");
}

Test(fitness, an_overflow_has_one_unique_index_and_nothing_that_removes)
{
	fits(OVERFLOW_INDEX, "{'name': 'b', 'key': {'book': 1, 'number': 1}, 'unique': true}");
	fits(OVERFLOW_INDEX, "{'name': 'm', 'key': {'part': 1}}");
	refused(OVERFLOW_INDEX, "{'name': 'u', 'key': {'part': 1}, 'unique': true}", "unique");
	refused(OVERFLOW_INDEX, "{'name': 't', 'key': {'createdAt': 1}, 'expireAfterSeconds': 5}",
		"TTL");
	refused(OVERFLOW, "{'options': {'collation': {'locale': 'en'}}}", "collation");
}

static bool is_batch_index(const char *json)
{
	bson_t *built = parse(json);
	bool is = judge_is_batch_index(&rule, (struct bytes){bson_get_data(built), built->len});

	bson_destroy(built);
	return is;
}

Test(fitness, the_batch_index_is_known_by_its_key)
{
	cr_assert(is_batch_index("{'key': {'book': 1, 'number': 1}, 'unique': true}"));
	cr_assert_not(is_batch_index("{'key': {'book': 1, 'number': 1}}"));
	cr_assert_not(is_batch_index("{'key': {'number': 1, 'book': 1}, 'unique': true}"));
	cr_assert_not(is_batch_index("{'key': {'book': 1, 'number': 1, 'x': 1}, 'unique': true}"));
	cr_assert_not(is_batch_index("{'key': {'book': 1}, 'unique': true}"));
	cr_assert_not(is_batch_index("{'key': {'book': 1, 'number': 1}, 'unique': true, "
				     "'partialFilterExpression': {'x': 1}}"));
}

static bool orders(const char *json)
{
	bson_t *built = parse(json);
	bool is = judge_orders_overflow(&rule, (struct bytes){bson_get_data(built), built->len});

	bson_destroy(built);
	return is;
}

#define ORDER "'key': {'book': 1, 'number': 1}"

Test(fitness, every_overflow_document_has_to_stand_in_the_index_it_is_walked_by)
{
	cr_assert(orders("{" ORDER "}"));
	cr_assert(orders("{" ORDER ", 'unique': true, 'hidden': true}"));
	cr_assert_not(orders("{'key': {'book': -1, 'number': 1}}"));
	cr_assert_not(orders("{'key': {'book': 1, 'number': 1, 'x': 1}}"));
	cr_assert_not(orders("{" ORDER ", 'sparse': true}"));
	cr_assert_not(orders("{" ORDER ", 'collation': {'locale': 'de'}}"));
	cr_assert_not(orders("{" ORDER ", 'partialFilterExpression': {'x': 1}}"));
}

static bool is_place_index(const char *json, enum rule_layout layout)
{
	bson_t *built = parse(json);
	struct rule other = rule;
	bool is;

	other.overflow.layout = layout;
	is = judge_is_place_index(&other, (struct bytes){bson_get_data(built), built->len});
	bson_destroy(built);
	return is;
}

#define PLACES "'unique': true, 'partialFilterExpression': {'_spill.p': "

Test(fitness, the_index_of_places_is_known_by_what_it_is_over)
{
	cr_assert(is_place_index("{'key': {'_spill.p': 1, 'book': 1}, " PLACES
				 "{'$exists': true}}}",
				 RULE_ELEMENTS));
	cr_assert_not(is_place_index(
		"{'key': {'_spill.p': 1, 'book': 1}, " PLACES "{'$exists': true}}}", RULE_BATCHES));
	cr_assert_not(is_place_index("{'key': {'book': 1, '_spill.p': 1}, " PLACES
				     "{'$exists': true}}}",
				     RULE_ELEMENTS));
	cr_assert_not(is_place_index("{'key': {'_spill.p': 1, 'book': 1}, 'unique': true}",
				     RULE_ELEMENTS));
	cr_assert_not(is_place_index("{'key': {'_spill.p': 1, 'book': 1}, " PLACES "{'$gt': 5}}}",
				     RULE_ELEMENTS));
	cr_assert_not(is_place_index("{'key': {'_spill.p': 1, 'book': 1}, " PLACES
				     "{'$exists': true}, 'x': 1}}",
				     RULE_ELEMENTS));
	cr_assert_not(is_place_index("{'key': {'_spill.p': 1, 'book': 1}, " PLACES
				     "{'$exists': true, '$lt': 9}}}",
				     RULE_ELEMENTS));
}
