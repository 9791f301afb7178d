/* An `_id` as a message names it: "_id 'x' (string)". */
#pragma once

#include "protocol/cursor.h"

struct id_text {
	char text[200];
};

/* Long texts are cut; what is no UTF-8 comes as '?'. Types are named as $type names them. */
struct id_text id_text(const struct element *id);
