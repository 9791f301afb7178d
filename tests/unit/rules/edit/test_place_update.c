/* Tests rules/edit/place_update.c: which updates are done batch by batch, which batches they
 * concern, and what these and main get. */
#include "tests/unit/wire_make.h"

#include "protocol/message.h"
#include "protocol/writer.h"
#include "rules/edit/place_update.h"

#include <time.h>

static const struct rule batches = {.array = (char *)"a.f",
				    .key = (char *)"a/f",
				    .overflow = {.link = (char *)"of", .array = (char *)"part"}};
static const struct rule elements = {.array = (char *)"a.f",
				     .key = (char *)"a/f",
				     .overflow = {.link = (char *)"of", .layout = RULE_ELEMENTS}};

static struct element of_json(const char *json, uint8_t type)
{
	struct element element = {.type = 0};

	if (json)
		element = (struct element){.type = type, .value = made_bson(json)};
	return element;
}

static struct element filters_of(const char *json)
{
	struct element wrapped = of_json(json, BSON_BYTE_DOCUMENT), list = {.type = 0};

	if (json)
		cr_assert(document_find(wrapped.value, "l", &list));
	return list;
}

/* What it concerns: "no", "all", or the conditions one behind the other. */
static const char *concerned(const char *update, const char *filters)
{
	struct element u = of_json(update, BSON_BYTE_DOCUMENT), list = filters_of(filters);
	struct place_update place;
	struct bytes left, condition;
	const char *all = "";

	if (!place_update_judge(&u, &list, &batches, &place))
		return "no";
	left = buffer_view(&place.concerned);
	while (message_next_document(&left, &condition))
		all = made_text("%s%s%s", all, *all ? ", " : "", made_json(condition));
	if (place.all)
		all = "all";
	place_update_fini(&place);
	return all;
}

#define ARRAY "{ \"part\" : { \"$elemMatch\" : { \"$type\" : \"array\" } } }"
#define NO_DOCUMENT "{ \"part\" : { \"$elemMatch\" : { \"$not\" : { \"$type\" : \"object\" } } } }"

Test(place_update, a_pull_concerns_what_it_may_match)
{
	cr_expect_str_eq(concerned("{\"$pull\": {\"a.f\": 7}}", NULL),
			 "{ \"part\" : { \"$elemMatch\" : { \"$eq\" : 7 } } }");
	cr_expect_str_eq(concerned("{\"$pull\": {\"a.f\": {\"id\": 7}}}", NULL),
			 "{ \"part\" : { \"$elemMatch\" : { \"id\" : 7 } } }");
	cr_expect_str_eq(
		concerned("{\"$pull\": {\"a.f\": {\"$gte\": 7}}}", NULL),
		"{ \"$or\" : [ { \"part\" : { \"$elemMatch\" : { \"$gte\" : 7 } } }, " ARRAY
		" ] }");
	cr_expect_str_eq(concerned("{\"$pull\": {\"a.f\": {\"$bitsAllSet\": 1}}}", NULL), "all");
	cr_expect_str_eq(concerned("{\"$pull\": {\"a.f\": {\"$jsonSchema\": {}}}}", NULL), "all");
	cr_expect_str_eq(concerned("{\"$pullAll\": {\"a.f\": [1, 2]}}", NULL),
			 "{ \"part\" : { \"$elemMatch\" : { \"$eq\" : 1 } } }, "
			 "{ \"part\" : { \"$elemMatch\" : { \"$eq\" : 2 } } }");
}

Test(place_update, an_array_filter_concerns_what_it_may_match)
{
	cr_expect_str_eq(
		concerned("{\"$set\": {\"a.f.$[x].k\": 1}}", "{\"l\": [{\"x.id\": 7}]}"),
		"{ \"$or\" : [ { \"part\" : { \"$elemMatch\" : { \"id\" : 7 } } }, " NO_DOCUMENT
		" ] }");
	cr_expect_str_eq(concerned("{\"$set\": {\"a.f.$[x]\": 1}}",
				   "{\"l\": [{\"y\": 1}, {\"x\": {\"$lt\": 7}}]}"),
			 "{ \"$or\" : [ { \"part\" : { \"$elemMatch\" : { \"$lt\" : 7 } } }, " ARRAY
			 " ] }");
	cr_expect_str_eq(
		concerned("{\"$set\": {\"a.f.$[x]\": 1}}", "{\"l\": [{\"x\": {\"id\": 1}}]}"),
		"all");
	cr_expect_str_eq(concerned("{\"$set\": {\"a.f.$[x].k\": 1}}",
				   "{\"l\": [{\"$or\": [{\"x.a\": 1}, {\"x.b\": 1}]}]}"),
			 "all");
	cr_expect_str_eq(concerned("{\"$inc\": {\"a.f.$[].k\": 1}}", NULL), "all");
	cr_expect_str_eq(concerned("{\"$set\": {\"a.f.$[x].k\": 1}}", "{\"l\": [{\"y\": 1}]}"),
			 "no");
}

Test(place_update, what_needs_the_whole_array_is_none)
{
	static const char *const others[] = {
		"{\"$push\": {\"a.f\": {\"$each\": [1], \"$position\": 0}}}",
		"{\"$addToSet\": {\"a.f\": {\"$each\": [1, 2]}}}",
		"{\"$set\": {\"a.f\": [1]}}",
		"{\"$set\": {\"a\": 1}}",
		"{\"$set\": {\"b\": 1}}",
		"{\"$rename\": {\"a.f\": \"b\"}}",
		"{\"$currentDate\": {\"a.f.$[].at\": {\"$type\": \"timestamp\"}}}",
		"{\"$set\": {\"a.f.03\": 1}}",
		"{\"$set\": {\"a.f.3\": 1, \"a.f.4\": 1}}",
		"{\"$set\": {\"a.f.3\": 1, \"a.f.$[].k\": 1}}",
		"{\"$pop\": {\"a.f\": 2}}",
		"{\"$pull\": {\"a.f\": 1}, \"$unset\": {\"a\": 1}}",
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		cr_expect_str_eq(concerned(others[i], NULL), "no", "%s", others[i]);
	cr_expect_str_eq(concerned("{\"$set\": {\"a.f.3.$[x]\": 1}}", "{\"l\": [{\"x\": 1}]}"),
			 "no");
}

Test(place_update, elements_in_documents_of_their_own_are_left)
{
	struct element u = of_json("{\"$pull\": {\"a.f\": 7}}", BSON_BYTE_DOCUMENT);
	struct element none = {.type = 0};
	struct place_update place;

	cr_expect_not(place_update_judge(&u, &none, &elements, &place));
}

/* What a batch and main get; `at`: the element's place there. */
static const char *written(const char *update, int64_t at, bool main)
{
	static const uint8_t five[8] = {5};
	struct element u = of_json(update, BSON_BYTE_DOCUMENT), none = {.type = 0};
	auto_buffer struct buffer out = {0};
	struct place_update place;
	const char *text;
	size_t document;

	cr_assert(place_update_judge(&u, &none, &batches, &place), "%s", update);
	place.now = (struct element){.type = BSON_BYTE_DATE, .value = {five, sizeof(five)}};
	document = writer_open(&out);
	if (main)
		place_update_write_main(&out, "u", &u, &place, &batches, at);
	else
		place_update_write_batch(&out, "u", &u, &place, &batches, at);
	writer_close(&out, document);
	text = made_json(buffer_view(&out));
	place_update_fini(&place);
	return text;
}

Test(place_update, a_batch_gets_the_operators_on_the_array)
{
	cr_expect_str_eq(
		written("{\"$set\": {\"b\": 1, \"a.f.7.k\": 2}, \"$inc\": {\"c\": 1}}", 3, false),
		"{ \"u\" : { \"$set\" : { \"part.3.k\" : 2 } } }");
	cr_expect_str_eq(
		written("{\"$set\": {\"a.f.$.k\": 2}, \"$inc\": {\"a.f.$.n\": 1}}", 0, false),
		"{ \"u\" : { \"$set\" : { \"part.$.k\" : 2 }, \"$inc\" : { \"part.$.n\" : 1 } "
		"} }");
	cr_expect_str_eq(written("{\"$pull\": {\"a.f\": 7}}", 0, false),
			 "{ \"u\" : { \"$pull\" : { \"part\" : 7 } } }");
}

Test(place_update, main_gets_the_rest_and_its_own_part_of_the_array)
{
	cr_expect_str_eq(
		written("{\"$set\": {\"b\": 1, \"a.f.7.k\": 2}, \"$inc\": {\"c\": 1}}", 3, true),
		"{ \"u\" : { \"$set\" : { \"b\" : 1, \"a.f.3.k\" : 2 }, \"$inc\" : { \"c\" : 1 } } "
		"}");
	cr_expect_str_eq(
		written("{\"$set\": {\"b\": 1, \"a.f.7.k\": 2}, \"$inc\": {\"c\": 1}}", -1, true),
		"{ \"u\" : { \"$set\" : { \"b\" : 1 }, \"$inc\" : { \"c\" : 1 } } }");
	cr_expect_str_eq(written("{\"$pop\": {\"a.f\": 1}}", -1, true), "{ \"u\" : {  } }");
}

#define FIVE "{ \"$date\" : \"1970-01-01T00:00:00.005Z\" }"
#define B ", \"b\": true"

Test(place_update, several_elements_get_the_time_by_set)
{
	cr_expect_str_eq(written("{\"$currentDate\": {\"a.f.$[].at\": true" B "}}", 0, false),
			 "{ \"u\" : { \"$set\" : { \"part.$[].at\" : " FIVE " } } }");
	cr_expect_str_eq(written("{\"$currentDate\": {\"a.f.$[].at\": true" B "}}", 0, true),
			 "{ \"u\" : { \"$set\" : { \"a.f.$[].at\" : " FIVE " }, "
			 "\"$currentDate\" : { \"b\" : true } } }");
	cr_expect_str_eq(written("{\"$currentDate\": {\"a.f.$[].at\": true" B "}}", -1, true),
			 "{ \"u\" : { \"$currentDate\" : { \"b\" : true } } }");
	cr_expect_str_eq(
		written("{\"$set\": {\"a.f.$[].k\": 2}, \"$currentDate\": {\"a.f.$[].at\": true}}",
			0, false),
		"{ \"u\" : { \"$set\" : { \"part.$[].k\" : 2, \"part.$[].at\" : " FIVE " } } }");
	cr_expect_str_eq(written("{\"$currentDate\": {\"a.f.3\": true}}", 1, false),
			 "{ \"u\" : { \"$currentDate\" : { \"part.1\" : true } } }");
}

#define MANY 60000     /* a statement may have 200,000 fields: two for a filter, one for a path */
#define MOST_SECONDS 5 /* some tenths of one; what grows by the square takes minutes */

/* {$set: {a.f.$[i0].k: 1, a.f.$[i1].k: 1, ...}} */
static struct bytes many_paths(struct buffer *out)
{
	size_t document = writer_open(out), set = writer_open_document(out, "$set");
	char path[64];

	for (size_t i = 0; i < MANY; i++) {
		snprintf(path, sizeof(path), "a.f.$[i%zu].k", i);
		writer_int32(out, path, 1);
	}
	writer_close(out, set);
	writer_close(out, document);
	return buffer_view(out);
}

/* [{i0.id: 0}, {i1.id: 1}, ...] */
static struct bytes many_filters(struct buffer *out)
{
	size_t array = writer_open(out), filter;
	char name[64], index[12];

	for (size_t i = 0; i < MANY; i++) {
		filter = writer_open_document(out, writer_index(index, i));
		snprintf(name, sizeof(name), "i%zu.id", i);
		writer_int32(out, name, (int32_t)i);
		writer_close(out, filter);
	}
	writer_close(out, array);
	return buffer_view(out);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static size_t count_documents(struct bytes left)
{
	struct bytes document;
	size_t count = 0;

	while (message_next_document(&left, &document))
		count++;
	return count;
}

Test(place_update, many_paths_by_many_array_filters_take_no_longer_than_both)
{
	auto_buffer struct buffer paths = {0}, filters = {0};
	struct element u = {.type = BSON_BYTE_DOCUMENT, .value = many_paths(&paths)};
	struct element list = {.type = BSON_BYTE_ARRAY, .value = many_filters(&filters)};
	struct place_update place;
	double start = seconds();

	cr_assert(place_update_judge(&u, &list, &batches, &place));
	cr_expect_lt(seconds() - start, MOST_SECONDS);
	cr_expect_eq(count_documents(buffer_view(&place.concerned)), MANY);
	cr_expect_eq(count_documents(buffer_view(&place.filters)), MANY);
	place_update_fini(&place);
}
