/* The replies that the server owes on one connection, and what each is for. */
#include "proxy/client/pending.h"

#include <stdlib.h>

static struct pending_entry *pending_at(const struct pending *pending, uint32_t place)
{
	uint32_t capacity = pending->capacity ? pending->capacity : PENDING_INLINE;
	const struct pending_entry *entries =
		pending->entries ? pending->entries : pending->inline_entries;

	return (struct pending_entry *)(uintptr_t)&entries[(pending->first + place) % capacity];
}

static void pending_grow(struct pending *pending)
{
	uint32_t capacity = (pending->capacity ? pending->capacity : PENDING_INLINE) * 2;
	struct pending_entry *entries = must_malloc(capacity * sizeof(*entries));

	for (uint32_t i = 0; i < pending->count; i++)
		entries[i] = *pending_at(pending, i);
	free(pending->entries);
	pending->entries = entries;
	pending->capacity = capacity;
	pending->first = 0;
}

void pending_push_any(struct pending *pending, struct pending_entry entry)
{
	if (pending->count == (pending->capacity ? pending->capacity : PENDING_INLINE))
		pending_grow(pending);
	*pending_at(pending, pending->count) = entry;
	pending->count++;
}

void pending_pop(struct pending *pending)
{
	require(pending->count > 0);
	pending->first =
		(pending->first + 1) % (pending->capacity ? pending->capacity : PENDING_INLINE);
	pending->count--;
	pending->old -= pending->old > 0;
	if (pending->count == 0 && pending->entries)
		pending_fini(pending);
}

struct pending_entry *pending_match(struct pending *pending, int32_t response_to)
{
	uint32_t place = 0;

	while (place < pending->count && pending_at(pending, place)->request_id != response_to)
		place++;
	if (place == pending->count)
		return NULL;
	for (; place > 0; place--) {
		pending_pop(pending);
		pending->timed = false;
	}
	return pending_at(pending, 0);
}

void pending_fini(struct pending *pending)
{
	free(pending->entries);
	*pending = (struct pending){.asked = pending->asked, .timed = pending->timed};
}

bool pending_only_hello(const struct pending *pending)
{
	for (uint32_t i = 0; i < pending->count; i++)
		if (pending_at(pending, i)->kind != PENDING_HELLO)
			return false;
	return true;
}

void pending_age(struct pending *pending)
{
	pending->old = pending_only_hello(pending) ? 0 : pending->count;
}

bool pending_begins_with_hello(const struct pending *pending)
{
	return pending->count > 0 &&
	       pending_at((struct pending *)(uintptr_t)pending, 0)->kind == PENDING_HELLO;
}
