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

static void take_name(struct part *part, const struct element *field, struct bytes *name)
{
	part->count++;
	part->sound = generation_read(field, name) && part->sound;
}

static bool stands(const struct part *part, bool strict)
{
	return part->sound && part->count > 0 && !(strict && part->count > 1);
}

/* A whole number of 0 or more. */
static bool is_count(const struct part *part, bool strict, int64_t number)
{
	return stands(part, strict) && number >= 0;
}

must_check const char *state_read(const struct element *field, bool strict, struct state *state)
{
	struct part generation = {0, true}, head = {0, true}, moved = {0, true};
	bool edited = false;
	struct element each;
	struct cursor cursor;
	enum cursor_step step;

	*state = (struct state){.head = -1, .moved = -1};
	if (field->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, field->value))
		return "the array's state in _spill is no document";
	while ((step = cursor_next(&cursor, &each)) == CURSOR_ELEMENT) {
		if (element_is(&each, "g"))
			take_name(&generation, &each, &state->generation);
		else if (element_is(&each, "h"))
			take_number(&head, &each, &state->head);
		else if (element_is(&each, "n"))
			take_number(&moved, &each, &state->moved);
		else if (element_is(&each, "e"))
			edited = true;
	}
	if (step != CURSOR_END || edited || !stands(&generation, strict)) {
		state->generation = (struct bytes){0};
		return edited ? "the array was edited in place (e in the state)"
			      : "g in the state is missing, twice, or no binary of subtype 0 and "
				"16 bytes";
	}
	if (!is_count(&head, strict, state->head))
		return "h in the state is missing, twice, or no whole number of 0 or more";
	if (!is_count(&moved, strict, state->moved))
		return "n in the state is missing, twice, or no whole number of 0 or more";
	return NULL;
}

/* ---- editions ---- */

bool state_is_edited(const struct element *field)
{
	struct element editions;

	return field->type == BSON_BYTE_DOCUMENT && document_find(field->value, "e", &editions) &&
	       editions.type == BSON_BYTE_DOCUMENT;
}

/* What stands in `e`. */
struct parts {
	struct part generation, later, pending;
	struct part head, moved, bound, removed, edition;
};

static void take_part(struct parts *parts, const struct element *field, struct state *state)
{
	if (element_is(field, "g"))
		take_name(&parts->generation, field, &state->generation);
	else if (element_is(field, "l"))
		take_name(&parts->later, field, &state->later);
	else if (element_is(field, "w"))
		take_name(&parts->pending, field, &state->pending);
	else if (element_is(field, "h"))
		take_number(&parts->head, field, &state->head);
	else if (element_is(field, "n"))
		take_number(&parts->moved, field, &state->moved);
	else if (element_is(field, "b"))
		take_number(&parts->bound, field, &state->bound);
	else if (element_is(field, "r"))
		take_number(&parts->removed, field, &state->removed);
	else if (element_is(field, "v"))
		take_number(&parts->edition, field, &state->edition);
}

static bool parts_are_sound(const struct parts *parts, bool strict, const struct state *state)
{
	return stands(&parts->generation, strict) && stands(&parts->later, strict) &&
	       parts->pending.sound && !(strict && parts->pending.count > 1) &&
	       !bytes_equal(state->generation, state->later) &&
	       is_count(&parts->head, strict, state->head) &&
	       is_count(&parts->moved, strict, state->moved) &&
	       is_count(&parts->bound, strict, state->bound) &&
	       is_count(&parts->removed, strict, state->removed) &&
	       is_count(&parts->edition, strict, state->edition) && state->bound <= state->moved &&
	       state->removed <= state->moved && state->edition < INT32_MAX;
}

/* Beside `e` there is nothing of the old form. */
static bool find_editions(struct bytes field, struct element *editions)
{
	struct cursor cursor;
	struct element each;
	enum cursor_step step;
	size_t count = 0;

	if (!cursor_open(&cursor, field))
		return false;
	while ((step = cursor_next(&cursor, &each)) == CURSOR_ELEMENT) {
		if (element_is(&each, "g") || element_is(&each, "h") || element_is(&each, "n"))
			return false;
		if (element_is(&each, "e")) {
			*editions = each;
			count++;
		}
	}
	return step == CURSOR_END && count == 1 && editions->type == BSON_BYTE_DOCUMENT;
}

static bool read_editions(const struct element *field, bool strict, struct state *state)
{
	struct parts parts = {{0, true}, {0, true}, {0, true}, {0, true},
			      {0, true}, {0, true}, {0, true}, {0, true}};
	struct element editions = {0}, each;
	struct cursor cursor;
	enum cursor_step step;

	*state = (struct state){.head = -1, .moved = -1};
	if (!find_editions(field->value, &editions) || !cursor_open(&cursor, editions.value))
		return false;
	while ((step = cursor_next(&cursor, &each)) == CURSOR_ELEMENT)
		take_part(&parts, &each, state);
	return step == CURSOR_END && parts_are_sound(&parts, strict, state);
}

must_check const char *state_read_any(const struct element *field, bool strict, struct state *state)
{
	const char *wrong = state_read(field, strict, state);

	/* What it takes has no `e`: most arrays were never edited in place. */
	if (!wrong || !state_is_edited(field))
		return wrong;
	if (read_editions(field, strict, state))
		return NULL;
	*state = (struct state){.head = -1, .moved = -1};
	return "e in the state is not what an edit in place writes";
}

size_t state_names(const struct element *field, struct bytes names[STATE_NAMES])
{
	struct state state;

	if (field->type != BSON_BYTE_DOCUMENT)
		return 0;
	if (!state_is_edited(field))
		return generation_find(field->value, "g", &names[0]);
	if (state_read_any(field, false, &state))
		return 0;
	names[0] = state.generation;
	names[1] = state.later;
	return STATE_NAMES;
}

/* ---- what stands ---- */

static bool same_state(const struct element *before, const struct element *now)
{
	struct state first, second;

	(void)!state_read_any(before, false, &first);
	(void)!state_read_any(now, false, &second);
	return first.generation.data && second.generation.data &&
	       bytes_equal(first.generation, second.generation) &&
	       bytes_equal(first.later, second.later) && first.edition == second.edition;
}

must_check bool states_stand(const struct ruled_namespace *namespace, struct bytes before,
			     struct bytes now)
{
	struct element old, new;

	for (size_t i = 0; i < namespace->target_count; i++)
		if (state_find(namespace->targets[i].rule, before, &old) &&
		    !(state_find(namespace->targets[i].rule, now, &new) && same_state(&old, &new)))
			return false;
	return true;
}
