/* What the update of an event says of ruled arrays, and of their states. */
#include "rules/stream/change.h"

#include "rules/rule/names.h"
#include "rules/stream/change_inner.h"

#include <stdlib.h>

/* ---- the names ---- */

/* `gone`: where the array was, nothing is any more that may be one. Whoever does that to an array
 * with overflow names its state, too. */
static void look_at_name(struct bytes name, bool gone, const struct ruled_namespace *namespace,
			 struct change_names *names)
{
	enum path_relation relation = PATH_APART;

	if (name_is_state(name)) {
		names->state = true;
		return;
	}
	for (size_t i = 0; i < namespace->target_count && relation == PATH_APART; i++)
		relation = path_relate(name, namespace->targets[i].rule->array);
	if (relation != PATH_APART)
		names->array |= !gone || relation == PATH_BELOW;
	else if (name_find_hidden(name, namespace))
		names->hidden = true;
}

static void look_at_value(const struct element *value, const struct ruled_namespace *namespace,
			  struct change_names *names)
{
	look_at_name(value->name,
		     value->type != BSON_BYTE_ARRAY && value->type != BSON_BYTE_DOCUMENT, namespace,
		     names);
}

bool change_name_in_list(const struct element *item, struct bytes *name)
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
				look_at_value(&item, namespace, &names);
			else if (change_name_in_list(&item, &name))
				look_at_name(name, element_is(&part, "removedFields"), namespace,
					     &names);
	}
	return names;
}

/* ---- the states ---- */

/* What an update does to the states. */
struct advance {
	const struct array_states *states; /* before it */
	struct change_task *task;
	bool whole; /* `_spill` was set or removed as a whole */
	bool broken;
};

static const struct rule *rule_at(const struct advance *advance, size_t target)
{
	return advance->task->namespace->targets[target].rule;
}

static struct change_array *touch(struct advance *advance, size_t target)
{
	struct change_task *task = advance->task;
	const struct array_state *before = array_states_find(advance->states, target);
	struct change_array *array;

	for (size_t i = 0; i < task->count; i++)
		if (task->arrays[i].target == target)
			return &task->arrays[i];
	task->arrays = must_realloc(task->arrays, (task->count + 1) * sizeof(*task->arrays));
	array = &task->arrays[task->count++];
	*array = (struct change_array){.target = target};
	if (before)
		array->before = *before;
	array->now = array->before;
	array->now.target = target;
	return array;
}

/* The array whose state the name is in, and the rest behind "_spill.<key>"; NULL: of a rule that
 * the configuration does not have. */
static struct change_array *touch_state(struct advance *advance, struct bytes name,
					const char **rest)
{
	const struct ruled_namespace *namespace = advance->task->namespace;
	size_t prefix = strlen(NAME_STATE ".");

	for (size_t i = 0; i < namespace->target_count; i++) {
		const char *key = namespace->targets[i].rule->key;
		size_t end = prefix + strlen(key);

		if (name.length < end || memcmp(name.data + prefix, key, end - prefix) != 0 ||
		    (name.length > end && name.data[end] != '.'))
			continue;
		*rest = (const char *)name.data + end; /* a name has a NUL behind it */
		return touch(advance, i);
	}
	return NULL;
}

static void take_state(struct advance *advance, struct change_array *array,
		       const struct element *field)
{
	if (!array_state_read(field, &array->now))
		advance->broken = true;
	array->now.target = array->target;
}

/* An edit in place names parts of `e`, and so does the mover behind one; its `w` tells nothing. */
static void take_part(struct advance *advance, struct change_array *array, const char *part,
		      const struct element *value)
{
	struct array_state *now = &array->now;
	struct bytes name;

	if (strcmp(part, ".n") == 0 || strcmp(part, ".e.n") == 0)
		advance->broken |= !element_integer(value, &now->moved);
	else if (strcmp(part, ".h") == 0 || strcmp(part, ".e.h") == 0)
		advance->broken |= !element_integer(value, &now->head);
	else if (strcmp(part, ".e.r") == 0)
		advance->broken |= !element_integer(value, &now->removed);
	else if (strcmp(part, ".e.v") == 0)
		advance->broken |= !element_integer(value, &now->edition);
	else if (strcmp(part, ".g") == 0 && generation_read(value, &name))
		memcpy(now->generation, name.data, GENERATION_BYTES);
	else if (strcmp(part, ".e.w") != 0 && (strcmp(part, ".g") == 0 || strcmp(part, ".e") == 0 ||
					       strncmp(part, ".e.", 3) == 0))
		advance->broken = true;
}

/* `states` NULL: `_spill` was removed. */
static void take_whole(struct advance *advance, const struct element *states)
{
	const struct ruled_namespace *namespace = advance->task->namespace;
	struct element field;

	advance->whole = true;
	for (size_t i = 0; i < namespace->target_count; i++) {
		bool found = states && states->type == BSON_BYTE_DOCUMENT &&
			     document_find(states->value, namespace->targets[i].rule->key, &field);

		if (found || array_states_find(advance->states, i))
			take_state(advance, touch(advance, i), found ? &field : NULL);
	}
}

static void take_name(struct advance *advance, struct bytes name)
{
	const struct ruled_namespace *namespace = advance->task->namespace;

	for (size_t i = 0; i < namespace->target_count; i++)
		if (path_relate(name, rule_at(advance, i)->array) != PATH_APART)
			touch(advance, i)->named = true;
}

static void advance_set(struct advance *advance, const struct element *value)
{
	struct change_array *array;
	const char *part;

	if (element_is(value, NAME_STATE)) {
		take_whole(advance, value);
	} else if (!bytes_begin_with(value->name, NAME_STATE ".")) {
		take_name(advance, value->name);
	} else {
		array = touch_state(advance, value->name, &part);
		if (!array)
			advance->broken = true;
		else if (*part == '\0')
			take_state(advance, array, value);
		else
			take_part(advance, array, part, value);
	}
}

static void advance_removed(struct advance *advance, struct bytes name)
{
	struct change_array *array;
	const char *part;

	if (bytes_are(name, NAME_STATE)) {
		take_whole(advance, NULL);
	} else if (!bytes_begin_with(name, NAME_STATE ".")) {
		take_name(advance, name);
	} else {
		array = touch_state(advance, name, &part);
		if (!array)
			advance->broken = true;
		else if (*part == '\0')
			take_state(advance, array, NULL);
	}
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
				 change_name_in_list(&item, &name))
				take_name(advance, name);
	}
}

/* ---- what it means ---- */

/* A fold sets or removes `_spill` as a whole; a client's write takes an array's state out of it. */
static enum change_meaning judge_end(const struct change_array *array, bool whole)
{
	if (whole)
		return CHANGE_OWN;
	return array->named || array_state_elements(&array->before) == 0 ? CHANGE_CLIENTS
									 : CHANGE_SET;
}

static enum change_meaning judge(const struct change_array *array, bool whole)
{
	const struct array_state *before = &array->before, *now = &array->now;

	if (!before->alive) /* what has come to be with elements was split by hand, and adopted */
		return now->alive && now->moved != 0 ? CHANGE_UNCLEAR : CHANGE_CLIENTS;
	if (!now->alive)
		return judge_end(array, whole);
	if (memcmp(before->generation, now->generation, GENERATION_BYTES) != 0)
		return now->moved == 0 ? CHANGE_OWN : CHANGE_UNCLEAR;
	if (now->edition != before->edition)
		return CHANGE_EDITED;
	return now->moved == before->moved ? CHANGE_CLIENTS : CHANGE_OWN;
}

void change_advance(struct bytes change, struct array_states *states, struct change_task *task)
{
	struct advance advance = {.states = states, .task = task};

	advance_by(&advance, change);
	task->unclear = advance.broken;
	for (size_t i = 0; i < task->count; i++) {
		struct change_array *array = &task->arrays[i];

		array->meaning = judge(array, advance.whole);
		task->own |= array->meaning == CHANGE_OWN;
		task->edited |= array->meaning == CHANGE_EDITED;
		task->unclear |= array->meaning == CHANGE_UNCLEAR;
		array_states_set(states, &array->now);
		if (!array->now.alive)
			array->before = (struct array_state){.alive = false};
	}
}

struct change_array *change_unknown(const struct change_task *task)
{
	for (size_t i = 0; i < task->count; i++)
		if (task->arrays[i].meaning == CHANGE_SET && !task->arrays[i].asked)
			return &task->arrays[i];
	return NULL;
}

bool change_splits(const struct change_array *array)
{
	return array->before.alive && array_state_elements(&array->before) > 0;
}

void change_task_fini(struct change_task *task)
{
	for (size_t i = 0; i < task->count; i++)
		buffer_fini(&task->arrays[i].stored);
	free(task->arrays);
	*task = (struct change_task){.namespace = task->namespace};
}
