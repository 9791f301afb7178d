/* The states of a document's arrays. */
#include "rules/rule/names.h"
#include "rules/rule/state.h"
#include "rules/stream/change_inner.h"

#include <stdlib.h>

must_check bool array_state_read(const struct element *field, struct array_state *state)
{
	struct state read;

	*state = (struct array_state){.alive = false};
	if (!field)
		return true;
	if (state_read_any(field, false, &read))
		return false;
	*state = (struct array_state){.alive = true,
				      .head = read.head,
				      .moved = read.moved,
				      .removed = read.removed,
				      .edition = read.edition};
	memcpy(state->generation, read.generation.data, GENERATION_BYTES);
	return true;
}

const struct array_state *array_states_find(const struct array_states *states, size_t target)
{
	for (size_t i = 0; i < states->count; i++)
		if (states->list[i].target == target)
			return &states->list[i];
	return NULL;
}

static void take_away(struct array_states *states, size_t target)
{
	size_t kept = 0;

	for (size_t i = 0; i < states->count; i++)
		if (states->list[i].target != target)
			states->list[kept++] = states->list[i];
	states->count = kept;
}

void array_states_set(struct array_states *states, const struct array_state *state)
{
	take_away(states, state->target);
	if (!state->alive)
		return;
	states->list = must_realloc(states->list, (states->count + 1) * sizeof(*states->list));
	states->list[states->count++] = *state;
}

must_check bool array_states_read(const struct ruled_namespace *namespace, struct bytes main,
				  struct array_states *states)
{
	struct array_state state;
	struct element all, field;

	states->count = 0;
	if (!document_find(main, NAME_STATE, &all) || all.type != BSON_BYTE_DOCUMENT)
		return true;
	for (size_t i = 0; i < namespace->target_count; i++) {
		if (!document_find(all.value, namespace->targets[i].rule->key, &field))
			continue;
		if (!array_state_read(&field, &state))
			return false;
		state.target = i;
		array_states_set(states, &state);
	}
	return true;
}

bool array_state_stands(const struct array_state *state, const struct array_states *now)
{
	const struct array_state *found = array_states_find(now, state->target);

	return found && found->edition == state->edition &&
	       memcmp(found->generation, state->generation, GENERATION_BYTES) == 0;
}

void array_states_fini(struct array_states *states)
{
	free(states->list);
	*states = (struct array_states){0};
}
