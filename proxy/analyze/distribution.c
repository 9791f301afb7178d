/* How long the arrays of a collection are: counted, sorted, asked. */
#include "proxy/analyze/distribution.h"

#include <math.h>
#include <stdlib.h>

#define NORMAL_95 1.96
#define TAIL 0.025      /* one in 40 on either side */
#define NORMAL_FROM 100 /* as many are like the normal distribution */

static void count_array(struct distribution *distribution, const struct distribution_row *row,
			int64_t size_class)
{
	if (size_class < 0)
		size_class = 0;
	if (size_class >= SIZE_CLASSES)
		size_class = SIZE_CLASSES - 1;
	distribution->classes[size_class] += row->documents;
	distribution->arrays += row->documents;
	distribution->elements += row->documents * row->length;
	distribution->bytes += row->bytes;
	if (row->largest > distribution->largest)
		distribution->largest = row->largest;
}

void distribution_add(struct distribution *distribution, const struct distribution_row *row,
		      int64_t size_class)
{
	if (row->length == LENGTH_MISSING)
		distribution->missing += row->documents;
	if (row->length == LENGTH_OTHER)
		distribution->other += row->documents;
	if (row->length < 0)
		return;
	count_array(distribution, row, size_class);
	if (distribution->count == distribution->capacity) {
		distribution->capacity = distribution->capacity ? 2 * distribution->capacity : 64;
		distribution->rows = must_realloc(
			distribution->rows, distribution->capacity * sizeof(*distribution->rows));
	}
	distribution->rows[distribution->count++] = *row;
}

static int by_length(const void *a, const void *b)
{
	const struct distribution_row *one = a, *other = b;

	return (one->length > other->length) - (one->length < other->length);
}

void distribution_finish(struct distribution *distribution)
{
	struct distribution_row *rows = distribution->rows;
	size_t kept = 0;

	if (distribution->count == 0)
		return;
	qsort(rows, distribution->count, sizeof(*rows), by_length);
	for (size_t i = 1; i < distribution->count; i++) {
		if (rows[i].length != rows[kept].length) {
			rows[++kept] = rows[i];
			continue;
		}
		rows[kept].documents += rows[i].documents;
		rows[kept].bytes += rows[i].bytes;
		if (rows[i].largest > rows[kept].largest)
			rows[kept].largest = rows[i].largest;
	}
	distribution->count = kept + 1;
}

void distribution_fini(struct distribution *distribution)
{
	free(distribution->rows);
	*distribution = (struct distribution){0};
}

/* The length of the array number `rank` (from 1), the shortest first. */
static int64_t length_at(const struct distribution *distribution, double rank)
{
	int64_t passed = 0;

	for (size_t i = 0; i < distribution->count; i++) {
		passed += distribution->rows[i].documents;
		if ((double)passed >= rank)
			return distribution->rows[i].length;
	}
	return distribution_longest(distribution);
}

int64_t distribution_longest(const struct distribution *distribution)
{
	return distribution->count ? distribution->rows[distribution->count - 1].length : 0;
}

int64_t distribution_percentile(const struct distribution *distribution, double share)
{
	return length_at(distribution, share * (double)distribution->arrays);
}

int64_t distribution_documents(const struct distribution *distribution)
{
	return distribution->arrays + distribution->missing + distribution->other;
}

int64_t distribution_percentile_of_all(const struct distribution *distribution, double share)
{
	int64_t all = distribution_documents(distribution), without = all - distribution->arrays;
	double rank = share * (double)all - (double)without;

	return rank > 0 ? length_at(distribution, rank) : 0;
}

int64_t distribution_bytes_percentile(const struct distribution *distribution, double share)
{
	double rank = share * (double)distribution->arrays;
	int64_t passed = 0;

	for (int i = 0; i < SIZE_CLASSES; i++) {
		int64_t bound = (int64_t)1 << i;

		passed += distribution->classes[i];
		if (passed > 0 && (double)passed >= rank)
			return bound < distribution->largest ? bound : distribution->largest;
	}
	return distribution->largest;
}

struct above distribution_above(const struct distribution *distribution, int64_t threshold)
{
	struct above above = {0};

	for (size_t i = 0; i < distribution->count; i++) {
		const struct distribution_row *row = &distribution->rows[i];

		if (row->length <= threshold)
			continue;
		above.documents += row->documents;
		above.elements += row->documents * (row->length - threshold);
	}
	return above;
}

int64_t distribution_above_bytes(const struct distribution *distribution, int64_t bytes)
{
	int64_t documents = 0;

	for (int i = 0; i < SIZE_CLASSES; i++)
		if ((int64_t)1 << i > bytes)
			documents += distribution->classes[i];
	return documents;
}

/* 0 -> 0, 1 -> 1, 2-3 -> 2, 4-7 -> 3. */
static size_t bar_of(int64_t length)
{
	size_t bar = 0;

	for (; length > 0; length >>= 1)
		bar++;
	return bar;
}

size_t distribution_histogram(const struct distribution *distribution,
			      struct histogram_bar bars[HISTOGRAM_BARS_MAX])
{
	size_t count;

	if (distribution->count == 0)
		return 0;
	count = bar_of(distribution_longest(distribution)) + 1;
	require(count <= HISTOGRAM_BARS_MAX);
	for (size_t i = 0; i < count; i++)
		bars[i] = (struct histogram_bar){
			.first = i ? (int64_t)1 << (i - 1) : 0,
			.last = i ? (int64_t)(((uint64_t)1 << i) - 1) : 0,
		};
	for (size_t i = 0; i < distribution->count; i++)
		bars[bar_of(distribution->rows[i].length)].documents +=
			distribution->rows[i].documents;
	return count;
}

struct interval share_interval(int64_t found, int64_t looked_at)
{
	double n = (double)looked_at, share, square, middle, half;

	if (looked_at <= 0)
		return (struct interval){0, 1};
	share = (double)found / n;
	square = NORMAL_95 * NORMAL_95;
	middle = (share + square / (2 * n)) / (1 + square / n);
	half = NORMAL_95 / (1 + square / n) * sqrt(share * (1 - share) / n + square / (4 * n * n));
	return (struct interval){found == 0 ? 0 : fmax(0, middle - half),
				 found == looked_at ? 1 : fmin(1, middle + half)};
}

/* How many of `n` drawn at random lie above what a share of all lies above: 19 times of 20 more
 * than `few` (-1: or none) and less than `many`. */
struct tails {
	double few;
	double many;
};

static struct tails binomial_tails(double n, double share)
{
	struct tails tails = {-1, 0};
	double left = 1, term = pow(1 - share, n);

	for (double count = 0; left > TAIL; count++) {
		left -= term;
		if (1 - left <= TAIL)
			tails.few = count;
		tails.many = count + 1;
		term *= (n - count) / (count + 1) * share / (1 - share);
	}
	return tails;
}

static struct tails normal_tails(double n, double share)
{
	double half = NORMAL_95 * sqrt(n * share * (1 - share));

	return (struct tails){n * share - half, n * share + half};
}

struct interval percentile_interval(const struct distribution *distribution, double share)
{
	double n = (double)distribution->arrays, above = 1 - share;
	struct tails tails =
		n * above < NORMAL_FROM ? binomial_tails(n, above) : normal_tails(n, above);

	return (struct interval){(double)length_at(distribution, fmax(0, n - tails.many + 1)),
				 tails.few < 0 ? INFINITY
					       : (double)length_at(distribution, n - tails.few)};
}
