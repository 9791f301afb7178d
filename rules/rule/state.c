/* The state of a ruled array. */
#include "rules/rule/state.h"

#include "rules/rule/generation.h"
#include "rules/rule/names.h"

must_check bool state_find(const struct rule *rule, struct bytes main, struct element *field)
{
	struct element all;

	return document_find(main, NAME_STATE, &all) && all.type == BSON_BYTE_DOCUMENT &&
	       document_find(all.value, rule->key, field);
}

/* One of the parts. */
struct part {
	size_t count;
	bool sound; /* each that was met */
};

static void take_number(struct part *part, const struct element *field, int64_t *number)
{
	part->count++;
	part->sound = part->sound && element_integer(field, number);
}

static bool stands(const struct part *part, bool strict)
{
	return part->sound && part->count > 0 && !(strict && part->count > 1);
}

must_check const char *state_read(const struct element *field, bool strict, struct state *state)
{
	struct part generation = {0, true}, head = {0, true}, moved = {0, true};
	struct element each;
	struct cursor cursor;
	enum cursor_step step;

	*state = (struct state){.head = -1, .moved = -1};
	if (field->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, field->value))
		return "the array's state in _spill is no document";
	while ((step = cursor_next(&cursor, &each)) == CURSOR_ELEMENT) {
		if (element_is(&each, "g")) {
			generation.count++;
			generation.sound &= generation_read(&each, &state->generation);
		} else if (element_is(&each, "h")) {
			take_number(&head, &each, &state->head);
		} else if (element_is(&each, "n")) {
			take_number(&moved, &each, &state->moved);
		}
	}
	if (step != CURSOR_END || !stands(&generation, strict)) {
		state->generation = (struct bytes){0};
		return "g in the state is missing, twice, or no binary of subtype 0 and 16 bytes";
	}
	if (!stands(&head, strict) || state->head < 0)
		return "h in the state is missing, twice, or no whole number of 0 or more";
	if (!stands(&moved, strict) || state->moved < 0)
		return "n in the state is missing, twice, or no whole number of 0 or more";
	return NULL;
}

static bool same_generation(const struct element *before, const struct element *now)
{
	struct bytes first, second;

	return before->type == BSON_BYTE_DOCUMENT && now->type == BSON_BYTE_DOCUMENT &&
	       generation_find(before->value, "g", &first) &&
	       generation_find(now->value, "g", &second) && bytes_equal(first, second);
}

must_check bool states_stand(const struct ruled_namespace *namespace, struct bytes before,
			     struct bytes now)
{
	struct element old, new;

	for (size_t i = 0; i < namespace->target_count; i++)
		if (state_find(namespace->targets[i].rule, before, &old) &&
		    !(state_find(namespace->targets[i].rule, now, &new) &&
		      same_generation(&old, &new)))
			return false;
	return true;
}
