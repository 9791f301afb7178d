/* What `spillway check` finds: each says what is wrong and what to do about it. */
#pragma once

#include "protocol/bytes.h"

struct finding {
	char *kind; /* a word for programs */
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

/* `what` and `remedy` are taken over (made by malloc, as bson_strdup_printf does). */
void findings_add(struct findings *findings, const char *kind, const char *rule, char *what,
		  char *remedy);
/* The same note is kept once. */
void findings_note(struct findings *findings, const char *kind, const char *rule, char *what);
void findings_fini(struct findings *findings);

/* Appends them: problems first, then notes. */
void findings_text(struct buffer *out, const struct findings *findings);
/* Appends `"findings": [...]` and `"notes": [...]` to the BSON document that is open. */
void findings_bson(struct buffer *out, const struct findings *findings);
