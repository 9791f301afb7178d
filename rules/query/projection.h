/* What a find's projection returns of the ruled arrays, and how it is written so that what comes
 * back can be put together. */
#pragma once

#include "protocol/cursor.h"
#include "rules/rule/rules.h"

/* An inclusion finds `_spill` behind so many repeated names, and no more. At most ten. */
#define PROJECTION_SPARES 8

/* Of several, the last in this list. */
enum projection_kind {
	PROJECTION_NONE,    /* empty: everything is returned */
	PROJECTION_FORWARD, /* f is not returned and our names aren't either: as it is */
	PROJECTION_INCLUDE, /* inclusive, f (whole) among it, or a hidden name */
	PROJECTION_EXCLUDE, /* exclusive, of whole paths apart from f, of f itself or of a prefix */
	PROJECTION_REFUSE,  /* cuts f or computes on it ($slice, $elemMatch, f.$, f.sub, expressions
			       that read f) */
	PROJECTION_RESERVED,
	PROJECTION_BROKEN,
};

struct projection {
	enum projection_kind kind;
	const struct rule *rule; /* PROJECTION_REFUSE: the first rule concerned; else NULL */
	char what[64];           /* of the last three kinds: what decided it, as in reads.h */
};

/* As mongod 6.0.5 reads it: nested documents are dotted paths, anything but a bool or number is
 * computed; where nothing but `_id` is included or excluded, `_id: 1` makes the projection
 * inclusive, else $slice exclusive, else $elemMatch inclusive, else it is exclusive. What mongod
 * refuses (paths that collide, inclusion and exclusion mixed) may be called anything that leaves it
 * refused. */
struct projection projection_classify(struct bytes projection,
				      const struct ruled_namespace *namespace);

/* False where a part of `_id`, or something else, takes its name: overflow can't be found by it. */
bool projection_keeps_id(struct bytes projection);
bool projection_hides_id(struct bytes projection);
/* As find decides it. */
bool projection_inclusive(struct bytes projection);
/* Both inclusive and exclusive, which mongod refuses. */
bool projection_mixes(struct bytes projection);

/* Nothing but fields by their paths: no expression, operator or position. */
bool projection_names_fields(struct bytes projection);

/* A projection of kind INCLUDE or EXCLUDE -> appended to `out` as field `name` so that what comes
 * back can be merged and stripped:
 * INCLUDE: plus `_spill: 1` (of several rules only the states of the arrays that are returned),
 * less the hidden names. EXCLUDE: with every ruled array excluded: plus `_spill: 0` and the hidden
 * names; of several rules with some excluded: plus their states; else as it is. Both, with some f
 * returned and `_id: 0`: an exclusion can't compute "$_id", and a document without state carries
 * nothing that could be told from one with. So `_id` stays, and {"_spill./id": {$meta:
 * "recordId"}}, which mongod takes under inclusions, exclusions and apiStrict, marks each document
 * (its value is null in findAndModify's `fields`). merge.h takes both away. */
void projection_write(struct buffer *out, const char *name, struct bytes projection,
		      const struct ruled_namespace *namespace);
/* Whether projection_write puts that mark into such a projection. Each document of a collection has
 * a record id, so each document that comes back carries the mark. Those of a view, or of a time
 * series collection, have none. */
bool projection_marks(struct bytes projection, const struct ruled_namespace *namespace);
bool projection_mark_found(struct bytes document);
/* The same of one with windows of all ruled arrays (windows_of): these are widened, so that they
 * can be cut out of whole arrays. */
void projection_write_windows(struct buffer *out, const char *name, struct bytes projection,
			      const struct ruled_namespace *namespace);
/* Appends to an inclusion that returns no ruled array what it needs to return `_spill`, too. */
void projection_write_state(struct buffer *out);
