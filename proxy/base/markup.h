/* What comes from outside, as text in HTML or XML. */
#pragma once

#include "protocol/bytes.h"

/* Appends the text with its markup taken away; control characters become '?'. */
void markup_text(struct buffer *out, const char *text);
