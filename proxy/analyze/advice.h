/* Does the outlier pattern pay for an array of this distribution, and from which threshold? Pure.
 */
#pragma once

#include "proxy/analyze/distribution.h"

enum verdict {
	VERDICT_PAYS,
	VERDICT_FAT,      /* it pays: a few arrays are long in bytes, not in elements */
	VERDICT_NOTHING,  /* no array is there */
	VERDICT_SMALL,    /* none is long or large enough to matter */
	VERDICT_UNIFORM,  /* all are about as long */
	VERDICT_TOO_MANY, /* wherever the threshold lies, too many documents are beyond it */
	VERDICT_SLIGHT,   /* what stands beyond is next to nothing */
	VERDICT_OPEN,     /* a sample does not tell: outliers are what it may have missed */
	VERDICT_SPLIT,    /* what was looked at are parts of arrays (never of advice_make) */
};

/* An array of more bytes is an outlier whatever its length: what max_bytes is by default. */
#define ADVICE_FAT (1024 * 1024)

struct advice {
	enum verdict verdict;
	int64_t threshold;  /* where it pays; else the one that comes nearest, or 0 */
	struct above above; /* that threshold; of VERDICT_FAT, documents above ADVICE_FAT bytes */
	struct {
		int64_t found;           /* in the sample, beyond any threshold worth having */
		struct interval between; /* the share of all documents that they stand for */
	} outliers;                      /* of VERDICT_OPEN */
};

/* `sampled`: the distribution is of documents drawn at random. Of these it says that the pattern
 * does not pay only where too many are outliers, with the sample's error allowed for. */
struct advice advice_make(const struct distribution *distribution, bool sampled);
bool advice_pays(enum verdict verdict);
/* Neither that it pays nor that it does not. */
bool advice_is_open(enum verdict verdict);
/* The verdict as one word for programs, and as sentences for people. */
const char *advice_word(enum verdict verdict);
const char *advice_sentence(enum verdict verdict);

/* The thresholds that are tried, in rising order; 0 ends them. */
extern const int64_t advice_candidates[];
