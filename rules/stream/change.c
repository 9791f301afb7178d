/* What the update of an event says of a ruled array, and of its state. */
#include "rules/stream/change.h"

#include "rules/rule/names.h"
#include "rules/rule/state.h"

must_check bool array_state_read(const struct element *field, struct array_state *state)
{
	struct state read;

	*state = (struct array_state){0};
	if (!field)
		return true;
	if (state_read(field, false, &read))
		return false;
	*state = (struct array_state){.alive = true, .head = read.head, .moved = read.moved};
	memcpy(state->generation, read.generation.data, GENERATION_BYTES);
	return true;
}

must_check bool array_state_of(const struct rule *rule, struct bytes main,
			       struct array_state *state)
{
	struct element field;

	return array_state_read(state_find(rule, main, &field) ? &field : NULL, state);
}

/* ---- the names ---- */

static void look_at_name(struct bytes name, const struct ruled_namespace *namespace,
			 struct change_names *names)
{
	if (name_is_state(name))
		names->state = true;
	else if (path_relate(name, namespace->targets[0].rule->array) != PATH_APART)
		names->array = true;
	else if (name_find_hidden(name, namespace))
		names->hidden = true;
}

/* Of removedFields and truncatedArrays. */
static bool name_in_list(const struct element *item, struct bytes *name)
{
	struct element field;

	if (item->type == BSON_BYTE_DOCUMENT)
		return document_find(item->value, "field", &field) && element_string(&field, name);
	return element_string(item, name);
}

struct change_names change_look(struct bytes change, const struct ruled_namespace *namespace)
{
	struct change_names names = {0};
	struct cursor parts, items;
	struct element part, item;
	struct bytes name;

	if (!cursor_open(&parts, change))
		return names;
	while (cursor_next(&parts, &part) == CURSOR_ELEMENT) {
		if ((part.type != BSON_BYTE_DOCUMENT && part.type != BSON_BYTE_ARRAY) ||
		    !cursor_open(&items, part.value))
			continue;
		while (cursor_next(&items, &item) == CURSOR_ELEMENT)
			if (part.type == BSON_BYTE_DOCUMENT)
				look_at_name(item.name, namespace, &names);
			else if (name_in_list(&item, &name))
				look_at_name(name, namespace, &names);
	}
	return names;
}

/* ---- the state ---- */

/* What an update does to the state. */
struct advance {
	const struct rule *rule;
	struct array_state state;
	bool whole; /* `_spill` went as a whole */
	bool array; /* the array, or what it is in, is named */
	bool broken;
};

/* The rest of a name behind "_spill.<key>", or NULL where it names something else. */
static const char *behind_state(struct bytes name, const struct rule *rule)
{
	size_t prefix = strlen(NAME_STATE "."), key = strlen(rule->key);

	if (!bytes_begin_with(name, NAME_STATE ".") || name.length < prefix + key ||
	    memcmp(name.data + prefix, rule->key, key) != 0 ||
	    (name.length > prefix + key && name.data[prefix + key] != '.'))
		return NULL;
	return (const char *)name.data + prefix + key; /* a name has a NUL behind it */
}

static void take_state(struct advance *advance, const struct element *field)
{
	if (!array_state_read(field, &advance->state))
		advance->broken = true;
}

static void take_part(struct advance *advance, const char *part, const struct element *value)
{
	struct bytes name;

	if (strcmp(part, ".n") == 0)
		advance->broken |= !element_integer(value, &advance->state.moved);
	else if (strcmp(part, ".h") == 0)
		advance->broken |= !element_integer(value, &advance->state.head);
	else if (strcmp(part, ".g") == 0 && generation_read(value, &name))
		memcpy(advance->state.generation, name.data, GENERATION_BYTES);
	else if (strcmp(part, ".g") == 0)
		advance->broken = true;
}

static void advance_set(struct advance *advance, const struct element *value)
{
	const char *part = behind_state(value->name, advance->rule);
	struct element state;

	if (path_relate(value->name, advance->rule->array) != PATH_APART)
		advance->array = true;
	if (element_is(value, NAME_STATE) && value->type == BSON_BYTE_DOCUMENT)
		take_state(advance,
			   document_find(value->value, advance->rule->key, &state) ? &state : NULL);
	else if (part && *part == '\0')
		take_state(advance, value);
	else if (part)
		take_part(advance, part, value);
	else if (bytes_begin_with(value->name, NAME_STATE "."))
		advance->broken = true; /* of a rule that the configuration does not have */
}

static void advance_removed(struct advance *advance, struct bytes name)
{
	const char *part;

	if (path_relate(name, advance->rule->array) != PATH_APART)
		advance->array = true;
	if (bytes_are(name, NAME_STATE))
		advance->whole = true;
	part = behind_state(name, advance->rule);
	if (!part && bytes_begin_with(name, NAME_STATE "."))
		advance->broken = true;
	if (bytes_are(name, NAME_STATE) || (part && *part == '\0'))
		advance->state = (struct array_state){0};
}

static void advance_by(struct advance *advance, struct bytes change)
{
	struct cursor parts, items;
	struct element part, item;
	struct bytes name;

	advance->broken = !cursor_open(&parts, change);
	while (!advance->broken && cursor_next(&parts, &part) == CURSOR_ELEMENT) {
		if (!cursor_open(&items, part.value))
			continue;
		while (cursor_next(&items, &item) == CURSOR_ELEMENT)
			if (element_is(&part, "updatedFields"))
				advance_set(advance, &item);
			else if (element_is(&part, "removedFields") && element_string(&item, &name))
				advance_removed(advance, name);
			else if (element_is(&part, "truncatedArrays") &&
				 name_in_list(&item, &name) &&
				 path_relate(name, advance->rule->array) != PATH_APART)
				advance->array = true;
	}
}

static bool same_generation(const struct array_state *one, const struct array_state *other)
{
	return memcmp(one->generation, other->generation, GENERATION_BYTES) == 0;
}

/* A fold takes `_spill` away as a whole; a client's write takes the array's state out of it. */
static enum change_meaning judge_end(const struct advance *advance,
				     const struct array_state *before)
{
	if (advance->whole)
		return CHANGE_OWN;
	return advance->array || before->moved == 0 ? CHANGE_CLIENTS : CHANGE_SET;
}

static enum change_meaning judge(const struct advance *advance, const struct array_state *before)
{
	const struct array_state *now = &advance->state;

	if (advance->broken)
		return CHANGE_UNCLEAR;
	if (!before->alive) /* what has come to be with elements was split by hand, and adopted */
		return now->alive && now->moved != 0 ? CHANGE_UNCLEAR : CHANGE_CLIENTS;
	if (!now->alive)
		return judge_end(advance, before);
	if (!same_generation(before, now))
		return now->moved == 0 ? CHANGE_OWN : CHANGE_UNCLEAR;
	return now->moved == before->moved ? CHANGE_CLIENTS : CHANGE_OWN;
}

must_check enum change_meaning change_advance(struct bytes change, const struct rule *rule,
					      struct array_state *state)
{
	struct advance advance = {.rule = rule, .state = *state};
	enum change_meaning meaning;

	advance_by(&advance, change);
	meaning = judge(&advance, state);
	*state = advance.state;
	return meaning;
}
