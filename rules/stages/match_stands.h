/* Where a $match stands in a pipeline, for filters that mongod evaluates differently in a query and
 * in a stage (filter_words.h). mongod moves a $match to the front past some stages. Stages by which
 * arrays are put together stop it: a filter that mongod would have moved is written as the query it
 * was. */
#pragma once

#include "protocol/cursor.h"

/* Where in a pipeline a $match stands, behind the stages before it. */
enum match_stands {
	MATCH_STANDS_QUERY,   /* mongod moves it to the front, into the query */
	MATCH_STANDS_APART,   /* mongod leaves it where it is */
	MATCH_STANDS_BEHIND,  /* the same of a $limit and the like; but mongod moves it past stages
				 of Spillway's, and may read it anew then */
	MATCH_STANDS_UNCLEAR, /* that depends on the stages, and on the $match */
};
/* The same behind one more stage, {$verb: ...}. */
enum match_stands match_stands_behind(enum match_stands before, const struct element *stage);

/* The stage can't be written in a pipeline in which arrays are put together before it: it is a
 * $match, or a $facet with one, that mongod evaluates in two ways or refuses in some places. Says
 * why; NULL: it can. */
const char *match_unclear(enum match_stands stands, const struct element *stage);
/* The same of all stages from number `first` on. */
const char *match_unclear_from(struct bytes pipeline, size_t first);

/* A $match with the filter that stands there has to be written by filter_as_query, to find behind
 * Spillway's stages what the client asked for. */
bool match_differs(enum match_stands stands, struct bytes filter);
