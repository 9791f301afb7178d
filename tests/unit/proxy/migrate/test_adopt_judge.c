/* proxy/migrate/adopt_judge.c and adopt_copies.c: what an application split by hand, and what only
 * looks like it. */
#include "proxy/migrate/adopt_judge.h"

#include "tests/unit/unit.h"

#include <bson/bson.h>

static const struct rule rule = {
	.array = (char *)"f",
	.key = (char *)"f",
	.threshold = 2,
	.max_bytes = 1 << 20,
	.when_outlier = RULE_KEEP,
	.flag = {.field = (char *)"out",
		 .value = {.type = BSON_BYTE_BOOL, .value = {(const uint8_t *)"\1", 1}}},
	.overflow = {.link = (char *)"l",
		     .array = (char *)"a",
		     .batch_field = (char *)"i",
		     .batch_size = 1000},
};

static struct bytes view(const bson_t *document)
{
	return (struct bytes){bson_get_data(document), document->len};
}

/* {_id: 1, f: [0, 1], out: true} and these as its overflow, in batches of two. The reason against
 * it, or an empty text. */
static const char *judge(const int *elements, size_t count, size_t text)
{
	static char why[ADOPT_WHY_SIZE];
	struct adopt_split split;
	bson_t *main = BCON_NEW("_id", BCON_INT32(1), "f", "[", BCON_INT32(0), BCON_INT32(1), "]",
				"out", BCON_BOOL(true));
	char *long_text = bson_malloc0(text + 1);

	memset(long_text, 'x', text);
	adopt_split_init(&split, &rule, view(main));
	for (size_t i = 0; i < count; i += 2) {
		bson_t *batch =
			BCON_NEW("_id", BCON_INT32((int)i), "l", BCON_INT32(1), "i",
				 BCON_INT32((int)i / 2 + 1), "a", "[", BCON_INT32(elements[i]),
				 BCON_INT32(elements[i + 1]), BCON_UTF8(long_text), "]");

		adopt_split_batch(&split, view(batch));
		bson_destroy(batch);
	}
	adopt_split_end(&split);
	memcpy(why, split.why, sizeof(why));
	adopt_split_fini(&split);
	bson_destroy(main);
	bson_free(long_text);
	return why;
}

Test(adopt_judge, what_goes_on_behind_the_document_is_adopted)
{
	cr_assert_str_eq(judge((int[]){2, 3, 0, 5}, 4, 0), "");
}

Test(adopt_judge, copies_are_refused_wherever_they_stand)
{
	cr_assert(strstr(judge((int[]){0, 1, 2, 3}, 4, 0), "copies"));
	cr_assert(strstr(judge((int[]){1, 0, 2, 3}, 4, 0), "copies"));
	cr_assert(strstr(judge((int[]){2, 1, 3, 0}, 4, 0), "copies"));
}

Test(adopt_judge, what_no_reply_could_carry_is_refused)
{
	int elements[100] = {[0] = 7};

	cr_assert_str_eq(judge(elements, 40, 1 << 20), "");
	cr_assert(strstr(judge(elements, 100, 1 << 20), "no reply could carry it"));
}

/* {_id: 1, f: [0, 1], out: true} and one overflow document. The reason against it. */
static const char *judge_json(const struct rule *of, const char *json)
{
	static char why[ADOPT_WHY_SIZE];
	struct adopt_split split;
	bson_t *main = BCON_NEW("_id", BCON_INT32(1), "f", "[", BCON_INT32(0), BCON_INT32(1), "]",
				"out", BCON_BOOL(true)),
	       *batch;

	adopt_split_init(&split, of, view(main));
	batch = bson_new_from_json((const uint8_t *)json, -1, NULL);
	cr_assert_not_null(batch);
	adopt_split_batch(&split, view(batch));
	bson_destroy(batch);
	adopt_split_end(&split);
	memcpy(why, split.why, sizeof(why));
	adopt_split_fini(&split);
	bson_destroy(main);
	return why;
}

Test(adopt_judge, what_is_unclear_is_called_by_its_reason)
{
	struct rule elements = rule;

	elements.overflow.layout = RULE_ELEMENTS;
	elements.overflow.array = elements.overflow.batch_field = NULL;
	elements.overflow.created = (char *)"at";
	cr_assert_str_eq(judge_json(&rule, "{\"_id\": 1, \"l\": 1, \"i\": 1, \"a\": [2]}"), "");
	cr_assert_str_eq(
		judge_json(&rule, "{\"_id\": 1, \"l\": 1, \"i\": 1, \"a\": [2], \"a\": [3]}"),
		"'a' stands twice in an overflow document");
	cr_assert_str_eq(
		judge_json(
			&elements,
			"{\"_id\": {\"$oid\": \"0102030405060708090a0b0c\"}, \"l\": 1, \"at\": 5}"),
		"an overflow document has no time 'at'");
}

/* As many as one transaction takes, with numbers that fit. */
Test(adopt_judge, more_documents_than_a_transaction_takes_are_refused)
{
	struct adopt_split split;
	bson_t *main = BCON_NEW("_id", BCON_INT32(1), "f", "[", BCON_INT32(0), BCON_INT32(1), "]",
				"out", BCON_BOOL(true));

	for (int count = ADOPT_BATCHES_MAX; count <= ADOPT_BATCHES_MAX + 1; count++) {
		adopt_split_init(&split, &rule, view(main));
		for (int i = 0; i < count; i++) {
			bson_t *batch = BCON_NEW("_id", BCON_INT32(i), "l", BCON_INT32(1), "i",
						 BCON_INT32(i + 1), "a", "[", BCON_INT32(7), "]");

			adopt_split_batch(&split, view(batch));
			bson_destroy(batch);
		}
		adopt_split_end(&split);
		cr_assert_str_eq(split.why, count == ADOPT_BATCHES_MAX
						    ? ""
						    : "it has more than 10000 overflow documents");
		adopt_split_fini(&split);
	}
	bson_destroy(main);
}

/* Seconds, process and counter of ObjectIds; the fields' times. The doubt, or an empty text. */
static const char *doubt(const int (*ids)[4], size_t count, bool by_time)
{
	struct adopt_order order = {.by_time = by_time};
	const char *found;

	for (size_t i = 0; i < count; i++) {
		struct adopt_place place = {.time = by_time ? ids[i][3] : 0,
					    .id = {0, 0, 0, (uint8_t)ids[i][0], 0, 0, 0, 0,
						   (uint8_t)ids[i][1], (uint8_t)(ids[i][2] >> 16),
						   (uint8_t)(ids[i][2] >> 8), (uint8_t)ids[i][2]}};

		adopt_order_add(&order, &place);
	}
	found = adopt_order_find(&order);
	for (size_t i = 1; !found && by_time && i < count; i++)
		cr_assert_lt(adopt_order_at(&order, i - 1)->time, adopt_order_at(&order, i)->time);
	adopt_order_fini(&order);
	return found ? found : "";
}

Test(adopt_judge, an_order_that_the_ids_tell)
{
	cr_assert_str_eq(doubt(NULL, 0, false), "");
	cr_assert_str_eq(doubt((int[][4]){{2, 1, 7}, {1, 9, 3}, {2, 1, 9}, {3, 4, 0}}, 4, false),
			 "");
	cr_assert(strstr(doubt((int[][4]){{1, 1, 7}, {1, 2, 8}}, 2, false), "of two processes"));
	cr_assert(strstr(doubt((int[][4]){{1, 1, 0xffffff}, {1, 1, 0}}, 2, false), "one second"));
}

Test(adopt_judge, an_order_that_a_field_tells)
{
	cr_assert_str_eq(doubt((int[][4]){{1, 1, 1, 30}, {1, 2, 1, 10}, {9, 1, 1, 20}}, 3, true),
			 "");
	cr_assert(strstr(doubt((int[][4]){{1, 1, 1, 30}, {2, 1, 1, 10}, {3, 1, 1, 30}}, 3, true),
			 "of one time"));
}
