/* The states of documents' arrays at a place of a change stream. */
#include "rules/stream/known.h"

#include "rules/rule/hash.h"

#include <stdlib.h>

#define NONE SIZE_MAX

static size_t *slot_of(const struct knowledge *knowledge, const struct element *id)
{
	return &knowledge->slots[hash_bytes(id->value, knowledge->key ^ id->type) &
				 (knowledge->slot_count - 1)];
}

struct known *knowledge_find(const struct knowledge *knowledge,
			     const struct ruled_namespace *namespace, const struct element *id)
{
	size_t at = knowledge->slot_count ? *slot_of(knowledge, id) : NONE;

	for (; at != NONE; at = knowledge->list[at].next) {
		struct known *known = &knowledge->list[at];

		if (known->namespace == namespace && known->id.type == id->type &&
		    bytes_equal(known->id.value, id->value))
			return known;
	}
	return NULL;
}

static void put(struct knowledge *knowledge, size_t at)
{
	size_t *slot = slot_of(knowledge, &knowledge->list[at].id);

	knowledge->list[at].next = *slot;
	*slot = at;
}

static void grow(struct knowledge *knowledge)
{
	if (!knowledge->key)
		knowledge->key = (uint64_t)arc4random() << 32 | arc4random();
	knowledge->capacity = knowledge->capacity ? 2 * knowledge->capacity : 8;
	knowledge->list =
		must_realloc(knowledge->list, knowledge->capacity * sizeof(*knowledge->list));
	knowledge->slot_count = 2 * knowledge->capacity;
	free(knowledge->slots);
	knowledge->slots = must_malloc(knowledge->slot_count * sizeof(*knowledge->slots));
	for (size_t i = 0; i < knowledge->slot_count; i++)
		knowledge->slots[i] = NONE;
	for (size_t i = 0; i < knowledge->count; i++)
		put(knowledge, i);
}

struct known *knowledge_add(struct knowledge *knowledge, const struct ruled_namespace *namespace,
			    const struct element *id)
{
	struct known *known = knowledge_find(knowledge, namespace, id);

	if (known)
		return known;
	if (knowledge->count == knowledge->capacity)
		grow(knowledge);
	known = &knowledge->list[knowledge->count++];
	*known = (struct known){.namespace = namespace, .id = *id};
	put(knowledge, knowledge->count - 1);
	return known;
}

bool knowledge_has_states(const struct knowledge *knowledge)
{
	for (size_t i = 0; i < knowledge->count; i++)
		if (knowledge->list[i].states.count > 0)
			return true;
	return false;
}

void knowledge_clear(struct knowledge *knowledge, struct bytes database, struct bytes collection)
{
	for (size_t i = 0; i < knowledge->count; i++) {
		const struct ruled_namespace *namespace = knowledge->list[i].namespace;

		if (bytes_are(database, namespace->database) &&
		    (collection.length == 0 || bytes_are(collection, namespace->collection)))
			knowledge->list[i].states.count = 0;
	}
}

void knowledge_fini(struct knowledge *knowledge)
{
	for (size_t i = 0; i < knowledge->count; i++)
		array_states_fini(&knowledge->list[i].states);
	free(knowledge->list);
	free(knowledge->slots);
	*knowledge = (struct knowledge){0};
}
