/* Tests proxy/analyze/distribution.c: percentiles, what is beyond a threshold, the histogram,
 * errors of samples. */
#include "tests/unit/unit.h"

#include "proxy/analyze/distribution.h"

#include <math.h>

static void add(struct distribution *distribution, int64_t length, int64_t documents)
{
	struct distribution_row row = {length, documents, documents * (5 + 8 * length),
				       5 + 8 * length};

	distribution_add(distribution, &row, 3);
}

/* 1 to 100, each once, added from the end. */
static struct distribution one_to_hundred(void)
{
	struct distribution distribution = {0};

	for (int64_t length = 100; length >= 1; length--)
		add(&distribution, length, 1);
	distribution_finish(&distribution);
	return distribution;
}

Test(distribution, percentiles_are_nearest_ranks)
{
	struct distribution distribution = one_to_hundred();

	cr_assert_eq(distribution_percentile(&distribution, 0.5), 50);
	cr_assert_eq(distribution_percentile(&distribution, 0.9), 90);
	cr_assert_eq(distribution_percentile(&distribution, 0.99), 99);
	cr_assert_eq(distribution_percentile(&distribution, 0.999), 100);
	cr_assert_eq(distribution_percentile(&distribution, 0), 1);
	cr_assert_eq(distribution_percentile(&distribution, 1), 100);
	cr_assert_eq(distribution_longest(&distribution), 100);
	cr_assert_eq(distribution.elements, 5050);
	distribution_fini(&distribution);
}

Test(distribution, without_arrays_everything_is_zero)
{
	struct distribution distribution = {0};
	struct histogram_bar bars[HISTOGRAM_BARS_MAX];

	add(&distribution, LENGTH_MISSING, 7);
	add(&distribution, LENGTH_OTHER, 2);
	distribution_finish(&distribution);
	cr_assert_eq(distribution.missing, 7);
	cr_assert_eq(distribution.other, 2);
	cr_assert_eq(distribution.arrays, 0);
	cr_assert_eq(distribution_percentile(&distribution, 0.5), 0);
	cr_assert_eq(distribution_longest(&distribution), 0);
	cr_assert_eq(distribution_bytes_percentile(&distribution, 0.5), 0);
	cr_assert_eq(distribution_above(&distribution, 0).documents, 0);
	cr_assert_eq(distribution_histogram(&distribution, bars), 0);
	distribution_fini(&distribution);
}

Test(distribution, rows_of_one_length_are_one)
{
	struct distribution distribution = {0};

	add(&distribution, 7, 2);
	add(&distribution, 3, 1);
	add(&distribution, 7, 5);
	distribution_finish(&distribution);
	cr_assert_eq(distribution.count, 2);
	cr_assert_eq(distribution.rows[0].length, 3);
	cr_assert_eq(distribution.rows[1].documents, 7);
	distribution_fini(&distribution);
}

Test(distribution, beyond_a_threshold_are_the_elements_behind_it)
{
	struct distribution distribution = one_to_hundred();
	struct above above = distribution_above(&distribution, 98);

	cr_assert_eq(above.documents, 2);
	cr_assert_eq(above.elements, 1 + 2);
	cr_assert_eq(distribution_above(&distribution, 100).documents, 0);
	cr_assert_eq(distribution_above(&distribution, 0).elements, 5050);
	distribution_fini(&distribution);
}

Test(distribution, bytes_are_told_as_a_bound)
{
	struct distribution distribution = {0};
	struct distribution_row small = {1, 90, 90 * 13, 13}, large = {9, 10, 10 * 900, 900};

	distribution_add(&distribution, &small, 4);
	distribution_add(&distribution, &large, 10);
	distribution_finish(&distribution);
	cr_assert_eq(distribution_bytes_percentile(&distribution, 0.5), 16);
	cr_assert_eq(distribution_bytes_percentile(&distribution, 0.9), 16);
	cr_assert_eq(distribution_bytes_percentile(&distribution, 0.91), 900,
		     "no bound is larger than what is there");
	distribution_fini(&distribution);
}

Test(distribution, bars_double_and_hold_every_array)
{
	struct distribution distribution = one_to_hundred();
	struct histogram_bar bars[HISTOGRAM_BARS_MAX];
	size_t count = distribution_histogram(&distribution, bars);
	int64_t documents = 0;

	cr_assert_eq(count, 8);
	cr_assert_eq(bars[0].last, 0);
	cr_assert_eq(bars[1].documents, 1);
	cr_assert_eq(bars[3].first, 4);
	cr_assert_eq(bars[3].last, 7);
	cr_assert_eq(bars[3].documents, 4);
	cr_assert_eq(bars[7].documents, 100 - 63);
	for (size_t i = 0; i < count; i++) {
		documents += bars[i].documents;
		cr_assert(i == 0 || bars[i].first == bars[i - 1].last + 1);
	}
	cr_assert_eq(documents, 100);
	distribution_fini(&distribution);
}

Test(distribution, a_length_that_no_array_has_fits_the_bars)
{
	struct distribution distribution = {0};
	struct histogram_bar bars[HISTOGRAM_BARS_MAX];

	add(&distribution, INT32_MAX, 1);
	distribution_finish(&distribution);
	cr_assert_eq(distribution_histogram(&distribution, bars), 32);
	distribution_fini(&distribution);
}

/* Wilson's interval, against values from tables. */
Test(distribution, a_share_of_a_sample_has_an_error)
{
	struct interval half = share_interval(50, 100), none = share_interval(0, 100);

	cr_assert_float_eq(half.low, 0.4038, 0.0001);
	cr_assert_float_eq(half.high, 0.5962, 0.0001);
	for (int64_t looked_at = 1; looked_at < 3000; looked_at++) {
		cr_assert_eq(share_interval(0, looked_at).low, 0);
		cr_assert_eq(share_interval(looked_at, looked_at).high, 1);
	}
	cr_assert_float_eq(none.high, 0.0370, 0.0001);
	cr_assert_float_eq(share_interval(100, 100).high, 1, 1e-9);
	cr_assert_float_eq(share_interval(0, 0).high, 1, 1e-9);
}

Test(distribution, a_percentile_of_a_sample_has_an_error)
{
	struct distribution distribution = one_to_hundred();
	struct interval median = percentile_interval(&distribution, 0.5);

	cr_assert_float_eq(median.low, 40, 1e-9);
	cr_assert_float_eq(median.high, 61, 1e-9);
	cr_assert_float_eq(percentile_interval(&distribution, 0.9).low, 84, 1e-9);
	cr_assert_float_eq(percentile_interval(&distribution, 0.9).high, 96, 1e-9);
	/* A sample of a hundred tells little of one in a thousand. */
	cr_assert_float_eq(percentile_interval(&distribution, 0.999).low, 99, 1e-9);
	cr_assert(isinf(percentile_interval(&distribution, 0.999).high));
	distribution_fini(&distribution);
}
