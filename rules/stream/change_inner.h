/* What the files of change.h share. */
#pragma once

#include "rules/stream/change.h"

/* `field` is the array's state in `_spill`; NULL: there is none. False where it is damaged. */
must_check bool array_state_read(const struct element *field, struct array_state *state);
/* Of removedFields and truncatedArrays. */
must_check bool change_name_in_list(const struct element *item, struct bytes *name);
