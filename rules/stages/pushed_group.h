/* Groups that mongod runs in its other engine, together with the query in front of them.
 *
 * Behind Spillway's stages the same group runs in the first engine. Of equal values with several
 * types $min and $max return the first one there, and the last one in the other engine. The other
 * engine returns a Code or a Symbol as a string, and MinKey and MaxKey in a document, where another
 * stage follows. Nothing in a pipeline tells which values a group will meet. So the group is
 * written with stages behind it that raise an error where such values come
 * (docs/internals/mongod.md). */
#pragma once

#include "protocol/cursor.h"
#include "protocol/writer.h"

/* Whether mongod may run a group in the other engine that stands behind one more stage, where it
 * may behind the stages `before`. */
bool pushed_behind(bool before, const struct element *stage);

/* A pipeline has a $lookup that mongod may run in the other engine. */
bool pushed_joins(struct bytes pipeline);

/* Appends the stage and those that check what comes of it, from *place on. False: it is no stage
 * that groups, and nothing is written. `follows`: another stage of the client's stands behind. */
bool pushed_write_group(struct buffer *out, size_t *place, const struct element *stage,
			bool follows);
