/* Does the outlier pattern pay for an array of this distribution, and from which threshold? Pure.
 */
#pragma once

#include "proxy/distribution.h"

enum verdict {
	VERDICT_PAYS,
	VERDICT_NOTHING,  /* no array is there */
	VERDICT_SMALL,    /* none is long or large enough to matter */
	VERDICT_UNIFORM,  /* all are about as long */
	VERDICT_TOO_MANY, /* wherever the threshold lies, too many documents are beyond it */
	VERDICT_SLIGHT,   /* what stands beyond is next to nothing */
};

struct advice {
	enum verdict verdict;
	int64_t threshold;  /* where it pays; else the one that comes nearest, or 0 */
	struct above above; /* that threshold */
};

struct advice advice_make(const struct distribution *distribution);
/* The verdict as one word for programs, and as sentences for people. */
const char *advice_word(enum verdict verdict);
const char *advice_sentence(enum verdict verdict);

/* The thresholds that are tried, in rising order; 0 ends them. */
extern const int64_t advice_candidates[];
