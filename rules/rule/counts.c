/* Which overflow documents count of an array that was edited in place. */
#include "rules/rule/counts.h"

#include "rules/rule/names.h"

#include <stdlib.h>

#define POSITION_MOST (INT64_C(1) << 62) /* any more is no position */

static bool is_position(int64_t number)
{
	return number >= 0 && number <= POSITION_MOST;
}

static bool take_field(const struct element *field, struct placed *placed)
{
	if (field->name.length != 1)
		return true;
	switch (field->name.data[0]) {
	case 'g':
		return generation_read(field, &placed->generation);
	case 'p':
		return element_integer(field, &placed->position);
	case 'e':
		return element_integer(field, &placed->first) && placed->first >= 0;
	case 'u':
		return element_integer(field, &placed->until) && placed->until >= 0;
	case 'w':
		return element_integer(field, &placed->width) && is_position(placed->width);
	default:
		return true;
	}
}

must_check bool placed_read(const struct element *field, struct placed *placed)
{
	struct cursor cursor;
	struct element each;
	enum cursor_step step;

	*placed = (struct placed){.position = -1, .until = PLACED_FOR_EVER, .width = -1};
	if (field->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, field->value))
		return false;
	while ((step = cursor_next(&cursor, &each)) == CURSOR_ELEMENT)
		if (!take_field(&each, placed))
			return false;
	return step == CURSOR_END && placed->generation.data && is_position(placed->position);
}

must_check bool placed_find(struct bytes document, struct placed *placed)
{
	struct element field;

	return document_find(document, NAME_STATE, &field) && placed_read(&field, placed);
}

static bool is_older(const struct placed *placed, const struct state *state)
{
	return bytes_equal(placed->generation, state->generation);
}

bool placed_counts(const struct placed *placed, const struct state *state)
{
	bool older = is_older(placed, state);

	return (older || bytes_equal(placed->generation, state->later)) &&
	       placed->position < (older ? state->bound : state->moved) &&
	       placed->first <= state->edition && state->edition < placed->until;
}

int64_t placed_end(const struct placed *placed, const struct state *state, int64_t held)
{
	int64_t most = is_older(placed, state) ? state->bound : state->moved;
	int64_t width = placed->width >= 0 ? placed->width : held;

	return width < most - placed->position ? placed->position + width : most;
}

static int by_position(const void *one, const void *other)
{
	const struct counted *first = one, *second = other;

	return (first->placed.position > second->placed.position) -
	       (first->placed.position < second->placed.position);
}

void counts_open(struct counts *counts, const struct state *state, struct counted *all,
		 size_t count)
{
	size_t later = 0;

	for (size_t i = 0; i < count; i++)
		if (!is_older(&all[i].placed, state)) {
			struct counted each = all[i];

			all[i] = all[later];
			all[later++] = each;
		}
	if (later > 0)
		qsort(all, later, sizeof(*all), by_position);
	if (later < count)
		qsort(all + later, count - later, sizeof(*all), by_position);
	*counts = (struct counts){state, all, all + later, all + later, all + count, 0};
}

static int64_t end_of(const struct counts *counts, const struct counted *each)
{
	return placed_end(&each->placed, counts->state, each->held);
}

/* The first one that reaches further than all that was taken. */
static const struct counted *pass_taken(const struct counts *counts, const struct counted *from,
					const struct counted *end)
{
	while (from < end && end_of(counts, from) <= counts->reached)
		from++;
	return from;
}

/* A batch of the later name, up to its end; an older one, up to the next one of these. */
must_check enum counts_step counts_next(struct counts *counts, const struct counted **of,
					int64_t *skip, int64_t *take)
{
	int64_t end;

	if (counts->reached >= counts->state->moved)
		return COUNTS_END;
	counts->later = pass_taken(counts, counts->later, counts->split);
	counts->older = pass_taken(counts, counts->older, counts->end);
	if (counts->later < counts->split && counts->later->placed.position <= counts->reached) {
		*of = counts->later;
		end = end_of(counts, *of);
	} else if (counts->older < counts->end &&
		   counts->older->placed.position <= counts->reached) {
		*of = counts->older;
		end = end_of(counts, *of);
		if (counts->later < counts->split && counts->later->placed.position < end)
			end = counts->later->placed.position;
	} else {
		return COUNTS_HOLE;
	}
	*skip = counts->reached - (*of)->placed.position;
	*take = end - counts->reached;
	if ((*of)->placed.width >= 0) {
		if (*skip > 0 || end != end_of(counts, *of))
			return COUNTS_HOLE; /* which of its elements are these? */
		*take = (*of)->held;
	}
	counts->reached = end;
	return COUNTS_PIECE;
}
