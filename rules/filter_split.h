/* stand-in until merged */
#pragma once
#include "rules/rules.h"
struct filter_split {
	bool reads;
	bool alone;
};
struct filter_split filter_split_write(struct buffer *out, size_t *place, struct bytes filter,
				       const struct ruled_namespace *namespace);
