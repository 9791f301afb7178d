/* The name of a generation: `g` in a main document's state, and in an overflow document's `_spill`.
 *
 * This file alone decides what a sound name is. Readers, edits, the mover, the garbage collection
 * and `verify` all ask here. What is not sound is unreadable for all of them: none may take such a
 * name for one that nobody needs. */
#pragma once

#include "protocol/cursor.h"

#define GENERATION_BYTES 16
#define GENERATION_TARGET_BYTES 8 /* the first of them: whose array it was born for */

/* The field is a binary of subtype 0 with 16 bytes: `name` is a view of these. */
must_check bool generation_read(const struct element *field, struct bytes *name);
/* The same of the field at the path, if there is one. */
must_check bool generation_find(struct bytes document, const char *path, struct bytes *name);
/* Draws a new name, behind its first GENERATION_TARGET_BYTES. */
void generation_draw(uint8_t *name);
