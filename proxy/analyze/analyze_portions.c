/* A collection in portions of `_id`. Their bounds are drawn, so they are of about the same size. */
#include "proxy/analyze/analyze_portions.h"

#include "protocol/message.h"

#define FROM 100000   /* documents from which on it is worth while */
#define PORTION 50000 /* documents */
#define PORTIONS_MOST 100
#define DRAWN 10      /* for each portion: the more, the more alike they are */
#define SWEEPS_MOST 2 /* so many times the way from the first record to the last */

int64_t portions_wanted(int64_t documents)
{
	int64_t portions = documents / PORTION;

	if (documents <= FROM)
		return 0;
	return (portions < PORTIONS_MOST ? portions : PORTIONS_MOST) * DRAWN;
}

static void add_record(struct portions *portions, int64_t record)
{
	double step = (double)record - (double)portions->last;

	if (portions->drawn == 0)
		portions->least = portions->most = record;
	else
		portions->way += step < 0 ? -step : step;
	if (record < portions->least)
		portions->least = record;
	if (record > portions->most)
		portions->most = record;
	portions->last = record;
}

void portions_add(struct portions *portions, struct bytes document)
{
	struct element id;
	int64_t record;

	if (!document_find(document, "_id", &id) ||
	    !document_find_integer(document, "$recordId", &record)) {
		portions->unknown = true;
		return;
	}
	add_record(portions, record);
	/* The first and the last portion are half as large. */
	if (++portions->drawn % DRAWN == DRAWN / 2)
		buffer_append(&portions->bounds, document.data, document.length);
}

bool portions_fit(const struct portions *portions)
{
	double straight = (double)portions->most - (double)portions->least;

	return !portions->unknown && portions->bounds.length > 0 &&
	       portions->way <= SWEEPS_MOST * straight;
}

must_check bool portions_next(struct portions *portions, struct portion *portion)
{
	struct bytes bounds = buffer_view(&portions->bounds), document;
	struct bytes left = {bounds.data + portions->place, bounds.length - portions->place};

	if (portions->ended)
		return false;
	portion->from = portions->bound;
	portions->bound = (struct element){0};
	portions->ended = !message_next_document(&left, &document) ||
			  !document_find(document, "_id", &portions->bound);
	portion->to = portions->bound;
	portions->place = bounds.length - left.length;
	return true;
}

void portions_fini(struct portions *portions)
{
	buffer_fini(&portions->bounds);
}
