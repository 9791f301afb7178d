/* A screen of `spillway status` and `spillway top`: text made of answers of /status. */
#pragma once

#include "protocol/bytes.h"

#include <bson/bson.h>

/* Lines for people. `before`: the answer `seconds` ago, whose difference gives rates; NULL: totals
 * are shown. At most `rows` lines of each table. */
struct screen {
	const bson_t *now, *before;
	double seconds;
	int rows;
};

void screen_print(const struct screen *screen, struct buffer *out);
