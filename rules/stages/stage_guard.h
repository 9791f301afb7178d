/* The stage behind an update pipeline that can compute names: no client may give a document a name
 * of Spillway's own. */
#pragma once

#include "protocol/cursor.h"
#include "protocol/writer.h"

/* An update pipeline (update_computes_names) -> appended to `out` as field `name`, with one more
 * stage. The stage changes nothing, unless the document has come to have a name of Spillway's own
 * (`_spill`, `_spill/...`, `_spill....`): then it raises the error that reassemble_forged knows. */
void stage_guard_write(struct buffer *out, const char *name, const struct element *u);
