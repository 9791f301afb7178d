/* Stages that fail if a document has a field that must not be written: mongod does the rest. */
#pragma once

#include "protocol/template.h"
#include "rules/rule/rules.h"

/* Appends the update pipeline `u` as the array `name`. Behind the client's stages comes one that
 * raises RAISED_FORGED if they have made a name of Spillway's own (`_spill`, `_spill/...`,
 * `_spill....`). */
void stage_guard_write(struct buffer *out, const char *name, const struct element *u);

enum stage_guard_mode {
	STAGE_GUARD_WHOLE, /* documents are replaced, kept or refused as a whole */
	STAGE_GUARD_FIELDS,
	STAGE_GUARD_OTHER, /* a pipeline, or anything not understood */
};
/* What a $merge does with documents that are there already. */
enum stage_guard_mode stage_guard_mode(const struct element *merge);
/* Where a stage's value says `into`, `from`, ...: a name, or {db, coll}. False: it says nothing
 * that mongod takes. `database` stays as it is if the value doesn't name one. */
bool stage_guard_target(const struct element *value, const char *key, struct bytes *database,
			struct bytes *collection);
/* Appends the stage before a $merge into a ruled namespace. It raises RAISED_UNSAFE if a document
 * names `_spill`, or, unless it is written as a whole, an array or what goes with it. */
void stage_guard_write_merge(struct buffer *out, size_t *place,
			     const struct ruled_namespace *namespace, const struct element *merge);
