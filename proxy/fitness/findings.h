/* A list of findings, as `spillway check` prints it: what is wrong, and what to do about it. */
#pragma once

#include "protocol/bytes.h"
#include "rules/match/fitness_judge.h"

/* First the values of enum unfit_code, in their order. */
enum finding_code {
#define UNFIT(name, code, kind, remedy) FINDING_UNFIT_##name,
#include "rules/match/unfit.def"
#undef UNFIT
#define FINDING(name, code, kind, remedy) FINDING_##name,
#include "proxy/fitness/findings.def"
#undef FINDING
};

struct finding {
	enum finding_code code;
	char *rule; /* NULL: it concerns the servers as a whole */
	char *what;
	char *remedy; /* NULL: a note, which only tells */
};

/* All zeros is an empty list. */
struct findings {
	struct finding *list;
	size_t count;
	size_t capacity;
	size_t problems; /* those that are no notes */
};

/* Adds what is wrong, and on what, with the remedy that belongs to the code. A code without a
 * remedy makes a note; of equal notes one is kept. */
void findings_add(struct findings *findings, enum finding_code code, const char *rule,
		  const char *what, ...) __attribute__((format(printf, 4, 5)));
/* Gives the finding that was added last another remedy. */
void findings_remedy(struct findings *findings, const char *remedy, ...)
	__attribute__((format(printf, 2, 3)));
void findings_fini(struct findings *findings);

/* What to do about a rule that can't hold. */
const char *unfit_remedy(enum unfit_code code);

/* Appends them: problems first, then notes. */
void findings_text(struct buffer *out, const struct findings *findings);
/* Appends `"findings": [...]` and `"notes": [...]` to the BSON document that is open. */
void findings_bson(struct buffer *out, const struct findings *findings);
