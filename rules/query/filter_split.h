/* A filter taken apart into its conjuncts: those that read ruled arrays, and the rest. */
#pragma once

#include "rules/rule/rules.h"
#include "rules/rule/walk.h"

/* Goes through a filter's conjuncts, down through $and. An $and that is no array, or an empty one,
 * is a conjunct itself. CURSOR_INVALID where the filter can't be gone through. */
must_check enum cursor_step filter_first_conjunct(struct walk *walk, struct bytes filter,
						  struct element *conjunct);
must_check enum cursor_step filter_next_conjunct(struct walk *walk, struct element *conjunct);

struct filter_split {
	bool reads; /* some conjunct reads a ruled array, or may */
	bool alone; /* those that do read nothing else: what they say can change only with the
		       arrays */
};

enum filter_rest {
	FILTER_REST_ALL,
	FILTER_REST_QUIET, /* without $expr: some document could make it fail */
	FILTER_REST_ID,    /* those on _id alone */
};

/* What mongod looks at before an $expr of the filter: with a condition on _id its plan goes by that
 * index and has $expr before what names other paths; otherwise $expr comes last. Other indexes and
 * hints may lead to another order: then mongod alone answers with an error, for a document that
 * does not match. */
enum filter_rest filter_rest_before_expression(struct bytes filter);

/* Appends the conjuncts that don't read arrays of the namespace, one document each, to the array
 * that is open in `out`, as elements from *place on. Top-level $and's are taken apart, too. */
struct filter_split filter_split_write(struct buffer *out, size_t *place, struct bytes filter,
				       const struct ruled_namespace *namespace,
				       enum filter_rest wanted);
/* What keeps a filter from a $match of ours. */
enum filter_obstacle {
	FILTER_FITS,
	FILTER_WHERE,    /* $where */
	FILTER_NEAR,     /* $near, $nearSphere */
	FILTER_TEXT,     /* $text */
	FILTER_NAMELESS, /* a field of the top level whose name is empty */
	FILTER_MASK,     /* a long binary mask of bits */
	FILTER_UNREADABLE,
	FILTER_OBSTACLES,
};
/* Of one that is a stage behind others, or the first one. */
enum filter_obstacle filter_obstacle(struct bytes filter, bool first);
/* A text for each of them, with what to use instead; NULL for FILTER_FITS. */
#define FILTER_OBSTACLE_TEXTS(before, behind) \
	{ \
		[FILTER_WHERE] = before "$where" behind "use $expr", \
		[FILTER_NEAR] = before "$near" behind "use $geoWithin", \
		[FILTER_TEXT] = before "$text" behind "ask for it alone", \
		[FILTER_NAMELESS] = before "a condition on a field without a name" behind \
					   "give the field a name", \
		[FILTER_MASK] = before "a bit test with a long binary mask" behind \
				       "write a list of positions", \
		[FILTER_UNREADABLE] = before "what can't be read" behind "write it otherwise", \
	}

/* False where mongod refuses it in a $match behind other stages ($where, $text, $near), never finds
 * there what it asks for (a field of the top level whose name is empty), or where a binary mask
 * can't be written for that place (filter_words.h). */
bool filter_fits_pipeline(struct bytes filter);
/* The same of a $match that is the first stage. */
bool filter_fits_first(struct bytes filter);
/* $expr, or $sampleRate, stands somewhere in it. */
bool filter_has_expression(struct bytes filter);

/* The filter of a stage {$match: ...}. */
must_check bool filter_of_match(const struct element *stage, struct element *filter);
/* mongod makes one query of the $match stages at a pipeline's front. The filter of those from
 * `first` on, which `behind` follows, as many as can stand behind others: their own where it is
 * one, else a document that is appended to `out`. `behind` goes on behind them. How many they are.
 */
size_t filter_join_matches(struct buffer *out, const struct element *first, struct cursor *behind,
			   struct element *filter);

enum filter_at {
	FILTER_AT_START, /* what was a query, or the first stage, of the client's command: as such
			    it is evaluated */
	FILTER_AT_LATER, /* behind other stages of the client's */
};

/* Appends a stage {$match: ...}, as element *place of the array that is open in `out`. Where $expr
 * may fail on some document, conditions are looked at in mongod's order: that of a query's plan, or
 * as a later stage is written. */
void filter_write_match(struct buffer *out, size_t *place, struct bytes filter, enum filter_at at);
/* What a query's filter is written as where it is evaluated in a stage: itself, or a document that
 * is appended to `scratch` (filter_words.h). */
struct bytes filter_as_query(struct buffer *scratch, struct bytes filter);
/* The same, if that means what the filter means in every place. */
struct bytes filter_readable(struct buffer *scratch, struct bytes filter);
