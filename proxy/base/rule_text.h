/* A rule as somebody would write it into the configuration file, for an array that may need one. */
#pragma once

#include "protocol/bytes.h"

/* Appends an item of the list `rules`, indented by two. The names of the rule, of the link and of
 * the array in the overflow are ours, to be changed at will. */
void rule_text_write(struct buffer *out, const char *namespace, const char *array,
		     int64_t threshold);

/* False: it has a '*', which stands for any characters in a rule. */
bool rule_text_can_name(const char *namespace);
