/* Does the outlier pattern pay for an array of this distribution, and from which threshold? */
#include "proxy/analyze/advice.h"

/* The pattern's own text: outliers are a few documents. */
#define OUTLIERS_GOOD 0.01
#define OUTLIERS_MOST 0.05
/* An outlier is so many times as long as the document in the middle. */
#define TIMES_MEDIAN 4
/* Below this, in elements and in bytes, there is nothing to be won. */
#define SHORT_LENGTH 50
#define SHORT_BYTES (16 * 1024)
/* A smaller share of the elements than this is not worth moving. */
#define MOVED_LEAST 0.05

const int64_t advice_candidates[] = {5,    10,   20,    50,    100,   200,    500, 1000,
				     2000, 5000, 10000, 20000, 50000, 100000, 0};

static double share(int64_t part, int64_t whole)
{
	return whole > 0 ? (double)part / (double)whole : 0;
}

/* The least threshold worth having: 50 elements, or fewer where they are fat. */
static int64_t least_threshold(const struct distribution *distribution)
{
	int64_t median = distribution_percentile_of_all(distribution, 0.5), least = SHORT_LENGTH;

	if (distribution->elements > 0 && distribution->bytes > 0) {
		double fat = (double)distribution->bytes / (double)distribution->elements;

		if (SHORT_BYTES / fat < (double)least)
			least = (int64_t)(SHORT_BYTES / fat);
	}
	return median * TIMES_MEDIAN > least ? median * TIMES_MEDIAN : least;
}

/* The lowest candidate beyond which some documents are, but at most this share of them. */
static int64_t find_threshold(const struct distribution *distribution, int64_t least, double most)
{
	for (const int64_t *each = advice_candidates; *each; each++) {
		struct above above = distribution_above(distribution, *each);

		if (*each >= least && above.documents > 0 &&
		    share(above.documents, distribution_documents(distribution)) <= most)
			return *each;
	}
	return 0;
}

static enum verdict judge_threshold(const struct distribution *distribution,
				    const struct advice *advice)
{
	if (share(advice->above.elements, distribution->elements) < MOVED_LEAST &&
	    distribution->largest < ADVICE_FAT)
		return VERDICT_SLIGHT;
	return VERDICT_PAYS;
}

/* Few arrays have so many bytes, and they are far from the others. */
static bool few_are_fat(const struct distribution *distribution, int64_t fat)
{
	return fat > 0 && share(fat, distribution_documents(distribution)) <= OUTLIERS_MOST &&
	       distribution_bytes_percentile(distribution, 0.5) * TIMES_MEDIAN <= ADVICE_FAT;
}

static struct advice judge(const struct distribution *distribution)
{
	struct advice advice = {0};
	int64_t least = least_threshold(distribution);
	int64_t fat = distribution_above_bytes(distribution, ADVICE_FAT);

	if (distribution->arrays == 0)
		return (struct advice){.verdict = VERDICT_NOTHING};
	if (distribution->largest < SHORT_BYTES &&
	    distribution_longest(distribution) <= SHORT_LENGTH)
		return (struct advice){.verdict = VERDICT_SMALL};
	advice.threshold = find_threshold(distribution, least, OUTLIERS_GOOD);
	if (advice.threshold == 0)
		advice.threshold = find_threshold(distribution, least, OUTLIERS_MOST);
	advice.above =
		distribution_above(distribution, advice.threshold ? advice.threshold : least);
	if (advice.threshold)
		advice.verdict = judge_threshold(distribution, &advice);
	else if (few_are_fat(distribution, fat))
		advice = (struct advice){.verdict = VERDICT_FAT, .above = {.documents = fat}};
	else if (share(advice.above.documents, distribution_documents(distribution)) >
		 OUTLIERS_MOST)
		advice.verdict = VERDICT_TOO_MANY;
	else
		advice.verdict = VERDICT_UNIFORM;
	return advice;
}

static void estimate_outliers(struct advice *advice, const struct distribution *distribution)
{
	struct above above = distribution_above(distribution, least_threshold(distribution));

	advice->outliers.found = above.documents;
	advice->outliers.between =
		share_interval(above.documents, distribution_documents(distribution));
}

struct advice advice_make(const struct distribution *distribution, bool sampled)
{
	struct advice advice = judge(distribution);

	if (!sampled || advice_pays(advice.verdict) ||
	    (advice.verdict == VERDICT_TOO_MANY &&
	     share_interval(advice.above.documents, distribution_documents(distribution)).low >
		     OUTLIERS_MOST))
		return advice;
	advice.verdict = VERDICT_OPEN;
	estimate_outliers(&advice, distribution);
	return advice;
}

bool advice_pays(enum verdict verdict)
{
	return verdict == VERDICT_PAYS || verdict == VERDICT_FAT;
}

bool advice_is_open(enum verdict verdict)
{
	return verdict == VERDICT_OPEN || verdict == VERDICT_SPLIT;
}

const char *advice_word(enum verdict verdict)
{
	static const char *const words[] = {
		[VERDICT_PAYS] = "pays",       [VERDICT_NOTHING] = "no arrays",
		[VERDICT_SMALL] = "too small", [VERDICT_UNIFORM] = "uniform",
		[VERDICT_SLIGHT] = "slight",   [VERDICT_TOO_MANY] = "too many outliers",
		[VERDICT_OPEN] = "open",       [VERDICT_FAT] = "pays by bytes",
		[VERDICT_SPLIT] = "split",
	};

	return words[verdict];
}

const char *advice_sentence(enum verdict verdict)
{
	static const char *const sentences[] = {
		[VERDICT_PAYS] = "the pattern pays",
		[VERDICT_FAT] = "the pattern pays: a few arrays are much larger than the others, "
				"though not longer",
		[VERDICT_SPLIT] = "what is told here is of parts of arrays, so no verdict: ask "
				  "through Spillway's address",
		[VERDICT_NOTHING] = "the pattern does not pay: there is no such array",
		[VERDICT_SMALL] = "the pattern does not pay: no array is long or large enough to "
				  "be a burden",
		[VERDICT_UNIFORM] =
			"the pattern does not pay: the arrays are about as long as each other, "
			"there are no outliers",
		[VERDICT_TOO_MANY] = "the pattern does not pay: more than 5% of the documents "
				     "would be outliers; another schema suits them better",
		[VERDICT_SLIGHT] = "the pattern does not pay: outliers are few and hardly longer; "
				   "less than 5% of the elements would move",
		[VERDICT_OPEN] = "a sample does not tell whether the pattern pays: the few "
				 "documents that it is for may not be in it (name a larger one, "
				 "--sample N)",
	};

	return sentences[verdict];
}
