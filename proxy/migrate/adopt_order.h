/* In which order elements stood that an application split into documents of their own: by the field
 * that the rule names, or by their `_id`, which drivers make of seconds, process and a counter. */
#pragma once

#include "protocol/bytes.h"

/* Of one overflow document. */
struct adopt_place {
	int64_t time; /* of the field; 0 where the rule names none */
	uint8_t id[12];
	int32_t size; /* of the element, as it will stand in the array */
};

struct adopt_order {
	struct buffer places;
	bool by_time;
};

void adopt_order_add(struct adopt_order *order, const struct adopt_place *place);
size_t adopt_order_count(const struct adopt_order *order);
const struct adopt_place *adopt_order_at(const struct adopt_order *order, size_t index);
/* Sorts them. NULL, or why there may have been another order. */
const char *adopt_order_find(struct adopt_order *order);
void adopt_order_fini(struct adopt_order *order);
