/* Tests proxy/analyze/advice.c: when the pattern pays, and from which threshold. */
#include "tests/unit/unit.h"

#include "proxy/analyze/advice.h"

/* So many documents of one length, elements of so many bytes; a length of 0 documents ends it. */
struct some {
	int64_t documents;
	int64_t length;
};

/* As mongod counts them: what is larger than half of it. */
static int64_t class_of(int64_t bytes)
{
	int64_t class = 0;

	while ((int64_t)1 << class < bytes)
		class ++;
	return class;
}

static struct advice advise_on(const struct some *some, int64_t element, bool sampled)
{
	struct distribution distribution = {0};
	struct advice advice;

	for (; some->documents > 0; some++) {
		int64_t bytes = some->length > 0 ? some->length * element : 0;

		distribution_add(&distribution,
				 &(struct distribution_row){some->length, some->documents,
							    some->documents * bytes, bytes},
				 class_of(bytes));
	}
	distribution_finish(&distribution);
	advice = advice_make(&distribution, sampled);
	distribution_fini(&distribution);
	return advice;
}

static struct advice advise(const struct some *some, int64_t element)
{
	return advise_on(some, element, false);
}

#define SOME(...) \
	(const struct some[]) \
	{ \
		__VA_ARGS__, \
		{ \
			0 \
		} \
	}

Test(advice, a_few_long_ones_pay)
{
	struct advice advice = advise(SOME({990, 10}, {10, 10000}), 8);

	cr_assert_eq(advice.verdict, VERDICT_PAYS);
	cr_assert_eq(advice.threshold, 50);
	cr_assert_eq(advice.above.documents, 10);
	cr_assert_eq(advice.above.elements, 10 * 9950);
}

Test(advice, the_threshold_leaves_one_percent_of_outliers)
{
	struct advice advice = advise(SOME({900, 10}, {60, 90}, {35, 300}, {5, 4000}), 8);

	cr_assert_eq(advice.verdict, VERDICT_PAYS);
	cr_assert_eq(advice.threshold, 500);
}

Test(advice, else_five_percent)
{
	struct advice advice = advise(SOME({960, 10}, {40, 4000}), 8);

	cr_assert_eq(advice.verdict, VERDICT_PAYS);
	cr_assert_eq(advice.threshold, 50);
}

Test(advice, a_document_without_the_array_is_like_one_whose_array_is_empty)
{
	const int64_t lengths[] = {0, LENGTH_MISSING, LENGTH_OTHER};

	for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
		struct advice few = advise(SOME({9700, lengths[i]}, {270, 5}, {30, 5000}), 8);
		struct advice many = advise(SOME({900, lengths[i]}, {100, 5000}), 8);

		cr_assert_eq(few.verdict, VERDICT_PAYS);
		cr_assert_eq(few.threshold, 50);
		cr_assert_eq(many.verdict, VERDICT_TOO_MANY);
	}
}

Test(advice, few_that_are_large_and_no_longer_than_others_pay)
{
	struct distribution distribution = {0};
	struct distribution_row small = {8, 495, 495 * 150, 150}, large = {8, 5, 5 << 22, 1 << 22};
	struct advice advice;

	distribution_add(&distribution, &small, 8);
	distribution_add(&distribution, &large, 22);
	distribution_finish(&distribution);
	advice = advice_make(&distribution, false);
	cr_assert_eq(advice.verdict, VERDICT_FAT);
	cr_assert_eq(advice.above.documents, 5);
	large.documents = 45; /* more than one in twenty */
	distribution_add(&distribution, &large, 22);
	distribution_finish(&distribution);
	cr_assert_eq(advice_make(&distribution, false).verdict, VERDICT_UNIFORM);
	distribution_fini(&distribution);
}

Test(advice, more_than_five_percent_are_no_outliers)
{
	cr_assert_eq(advise(SOME({900, 10}, {100, 4000}), 8).verdict, VERDICT_TOO_MANY);
}

Test(advice, what_is_always_long_has_no_outliers)
{
	cr_assert_eq(advise(SOME({500, 1000}, {500, 1400}), 8).verdict, VERDICT_UNIFORM);
}

Test(advice, short_ones_are_no_burden)
{
	cr_assert_eq(advise(SOME({500, 2}, {500, 40}), 8).verdict, VERDICT_SMALL);
}

Test(advice, fat_elements_make_short_arrays_a_burden)
{
	struct advice advice = advise(SOME({995, 2}, {5, 40}), 100000);

	cr_assert_eq(advice.verdict, VERDICT_PAYS);
	cr_assert_eq(advice.threshold, 10);
}

Test(advice, outliers_that_are_hardly_longer_do_not_pay)
{
	cr_assert_eq(advise(SOME({1000, 40}, {5, 210}), 8).verdict, VERDICT_SLIGHT);
}

Test(advice, no_array_no_advice)
{
	cr_assert_eq(advise(SOME({0}), 8).verdict, VERDICT_NOTHING);
}

Test(advice, every_verdict_has_its_words)
{
	for (enum verdict verdict = VERDICT_PAYS; verdict <= VERDICT_SPLIT; verdict++) {
		cr_assert(*advice_word(verdict));
		cr_assert_eq(strstr(advice_sentence(verdict), "does not pay") == NULL,
			     advice_pays(verdict) || advice_is_open(verdict));
	}
}

Test(advice, a_sample_without_outliers_leaves_it_open)
{
	struct advice advice = advise_on(SOME({1000, 3}), 8, true);

	cr_assert_eq(advice.verdict, VERDICT_OPEN);
	cr_assert_eq(advice.outliers.found, 0);
	cr_assert_float_eq(advice.outliers.between.high, 0.0038, 0.0001);
	cr_assert_eq(advise_on(SOME({0}), 8, true).verdict, VERDICT_OPEN);
	cr_assert_eq(advise_on(SOME({500, 1000}, {500, 1400}), 8, true).verdict, VERDICT_OPEN);
	advice = advise_on(SOME({1000, 40}, {5, 210}), 8, true); /* slight, where that is all */
	cr_assert_eq(advice.verdict, VERDICT_OPEN);
	cr_assert_eq(advice.outliers.found, 5);
}

Test(advice, a_sample_tells_what_is_beyond_its_error)
{
	cr_assert_eq(advise_on(SOME({990, 10}, {10, 10000}), 8, true).verdict, VERDICT_PAYS);
	cr_assert_eq(advise_on(SOME({900, 10}, {100, 4000}), 8, true).verdict, VERDICT_TOO_MANY);
	cr_assert_eq(advise_on(SOME({94, 10}, {6, 4000}), 8, true).verdict, VERDICT_OPEN);
}
