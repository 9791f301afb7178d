/* In which order elements stood that an application split into documents of their own. */
#include "proxy/migrate/adopt_order.h"

#include <stdlib.h>
#include <string.h>

#define SECONDS 4            /* bytes of an ObjectId */
#define PROCESS 5            /* behind them; then three of a counter */
#define COUNTER_FAR 0x800000 /* it began anew in between */

void adopt_order_add(struct adopt_order *order, const struct adopt_place *place)
{
	buffer_append(&order->places, place, sizeof(*place));
}

size_t adopt_order_count(const struct adopt_order *order)
{
	return order->places.length / sizeof(struct adopt_place);
}

const struct adopt_place *adopt_order_at(const struct adopt_order *order, size_t index)
{
	require(index < adopt_order_count(order));
	return &((const struct adopt_place *)(const void *)order->places.data)[index];
}

static int compare(const void *one, const void *other)
{
	const struct adopt_place *a = one, *b = other;

	if (a->time != b->time)
		return (a->time > b->time) - (a->time < b->time);
	return memcmp(a->id, b->id, sizeof(a->id));
}

static int counter_of(const struct adopt_place *place)
{
	const uint8_t *counter = place->id + SECONDS + PROCESS;

	return counter[0] << 16 | counter[1] << 8 | counter[2];
}

/* Two neighbours of which either may have been the first. */
static const char *find_doubt(const struct adopt_order *order, const struct adopt_place *one,
			      const struct adopt_place *next)
{
	if (order->by_time)
		return one->time == next->time
			       ? "two of its overflow documents are of one time: which of them was "
				 "the first can't be told"
			       : NULL;
	if (memcmp(one->id, next->id, SECONDS) != 0)
		return NULL;
	if (memcmp(one->id, next->id, SECONDS + PROCESS) == 0 &&
	    counter_of(next) - counter_of(one) < COUNTER_FAR)
		return NULL;
	return "the _ids of two of its overflow documents are of one second and of two processes: "
	       "which of them was the first can't be told, unless a field tells (overflow.created)";
}

const char *adopt_order_find(struct adopt_order *order)
{
	size_t count = adopt_order_count(order);
	const char *doubt = NULL;

	if (count > 0)
		qsort(order->places.data, count, sizeof(struct adopt_place), compare);
	for (size_t i = 1; !doubt && i < count; i++)
		doubt = find_doubt(order, adopt_order_at(order, i - 1), adopt_order_at(order, i));
	return doubt;
}

void adopt_order_fini(struct adopt_order *order)
{
	buffer_fini(&order->places);
}
