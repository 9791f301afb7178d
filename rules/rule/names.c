/* The names that the rules are about. */
#include "rules/rule/names.h"

#include "rules/rule/own_fields.h"
#include "rules/rule/walk.h"

/* The path's part that begins at `at`; `at` goes behind it and its dot. */
static struct bytes next_part(struct bytes path, size_t *at)
{
	const uint8_t *start = path.data + *at;
	const uint8_t *dot = memchr(start, '.', path.length - *at);
	struct bytes part = {start, dot ? (size_t)(dot - start) : path.length - *at};

	*at += part.length + 1;
	return part;
}

static bool part_leads_through_array(struct bytes part)
{
	if (part.length > 0 && part.data[0] == '$')
		return true;
	for (size_t i = 0; i < part.length; i++) {
		if (part.data[i] < '0' || part.data[i] > '9')
			return false;
	}
	return true;
}

/* Nothing is passed over before the first part: a document is no array. */
static bool reaches_through_arrays(struct bytes path, struct bytes array)
{
	size_t at = 0, array_at = 0;
	struct bytes wanted = next_part(array, &array_at);

	if (!bytes_equal(next_part(path, &at), wanted))
		return false;
	while (at <= path.length && array_at <= array.length) {
		size_t behind = array_at;
		struct bytes part = next_part(path, &at);

		if (bytes_equal(part, next_part(array, &behind)))
			array_at = behind;
		else if (!part_leads_through_array(part))
			return false;
	}
	return true;
}

enum path_relation name_relate(struct bytes path, const char *array)
{
	enum path_relation relation = path_relate(path, array);

	if (relation != PATH_APART || !reaches_through_arrays(path, bytes_of(array)))
		return relation;
	return PATH_BELOW;
}

const struct rule *name_rule(struct bytes path, const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;

		/* Most paths differ in their first letter. */
		if (path.length > 0 && path.data[0] == (uint8_t)rule->array[0] &&
		    name_relate(path, rule->array) != PATH_APART)
			return rule;
	}
	return NULL;
}

bool name_is_state(struct bytes path)
{
	const size_t length = strlen(NAME_STATE);

	return bytes_begin_with(path, NAME_STATE) &&
	       (path.length == length || path.data[length] == '.' || path.data[length] == '/');
}

bool name_is_spare(struct bytes name)
{
	return bytes_begin_with(name, NAME_STATE "/");
}

void name_state_path(struct buffer *path, const struct rule *rule)
{
	buffer_append(path, NAME_STATE ".", strlen(NAME_STATE "."));
	buffer_append(path, rule->key, strlen(rule->key) + 1);
}

bool name_occurs(struct bytes document, const char *path)
{
	struct walk walk;
	struct element element;
	struct bytes text;
	enum cursor_step step = walk_first(&walk, BSON_BYTE_DOCUMENT, document, &element);

	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element)) {
		if (path_relate(element.name, path) != PATH_APART)
			return true;
		if (element_string(&element, &text) && text.length > 1 && text.data[0] == '$' &&
		    path_relate((struct bytes){text.data + 1, text.length - 1}, path) != PATH_APART)
			return true;
		if (!walk_within(&walk, &element))
			return true;
	}
	return step != CURSOR_END;
}

must_check bool name_split(struct bytes full, struct bytes *database, struct bytes *collection)
{
	const uint8_t *dot = full.length ? memchr(full.data, '.', full.length) : NULL;

	if (!dot)
		return false;
	*database = (struct bytes){full.data, (size_t)(dot - full.data)};
	*collection = (struct bytes){dot + 1, full.length - database->length - 1};
	return true;
}

struct name_hidden name_hidden(const struct rule *rule)
{
	struct name_hidden hidden = {0};

	if (!rule->expose.flag)
		hidden.fields[0] = rule->flag.field;
	if (!rule->expose.reference)
		hidden.fields[1] = rule->reference.field;
	if (!rule->expose.counters) {
		hidden.fields[2] = rule->counters.documents;
		/* The application's own counter is no secret to it. */
		if (!rule->counters.owned_by_app)
			hidden.fields[3] = rule->counters.total;
	}
	return hidden;
}

const char *name_find_hidden(struct bytes path, const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		struct name_hidden hidden = name_hidden(namespace->targets[i].rule);

		for (size_t j = 0; j < NAME_FIELDS; j++) {
			if (hidden.fields[j] && path_relate(path, hidden.fields[j]) != PATH_APART)
				return hidden.fields[j];
		}
	}
	return NULL;
}

static bool has_part(struct bytes path, const char *name)
{
	size_t length = strlen(name);

	for (size_t at = 0; at + length <= path.length; at++)
		if ((at == 0 || path.data[at - 1] == '.' || path.data[at - 1] == '$') &&
		    memcmp(path.data + at, name, length) == 0 &&
		    (at + length == path.length || path.data[at + length] == '.'))
			return true;
	return false;
}

static bool has_hidden_part(struct bytes path, const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		struct name_hidden hidden = name_hidden(namespace->targets[i].rule);

		for (size_t j = 0; j < NAME_FIELDS; j++)
			if (hidden.fields[j] && has_part(path, hidden.fields[j]))
				return true;
	}
	return false;
}

bool name_hides_any(const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		struct name_hidden hidden = name_hidden(namespace->targets[i].rule);

		for (size_t j = 0; j < NAME_FIELDS; j++)
			if (hidden.fields[j])
				return true;
	}
	return false;
}

bool name_is_said(const struct element *within, const struct ruled_namespace *namespace,
		  bool (*means)(struct bytes path, const struct ruled_namespace *namespace))
{
	struct walk walk;
	struct element element;
	struct bytes text;
	enum cursor_step step = walk_first(&walk, within->type, within->value, &element);

	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element))
		if (means(element.name, namespace) ||
		    (element_string(&element, &text) && means(text, namespace)) ||
		    !walk_within(&walk, &element))
			return true;
	return step != CURSOR_END;
}

bool name_hidden_occurs(struct bytes pipeline, const struct ruled_namespace *namespace)
{
	const struct element all = {.type = BSON_BYTE_ARRAY, .value = pipeline};

	return name_hides_any(namespace) && name_is_said(&all, namespace, has_hidden_part);
}

bool name_is_other(struct bytes path, const struct ruled_namespace *namespace)
{
	return name_rule(path, namespace) || name_is_state(path) ||
	       name_find_hidden(path, namespace);
}

static const char *find_kept(struct bytes path, const struct rule *rule)
{
	for (enum own_field field = OWN_TOTAL; field < OWN_FIELDS; field++) {
		const char *name = own_field_name(rule, field);

		if (name && path_relate(path, name) != PATH_APART)
			return name;
	}
	return NULL;
}

const char *name_find_reserved(struct bytes path, const struct ruled_namespace *namespace)
{
	const char *found = name_find_hidden(path, namespace);

	for (size_t i = 0; !found && i < namespace->target_count; i++)
		found = find_kept(path, namespace->targets[i].rule);
	return found;
}

bool path_has_position(struct bytes path)
{
	bool digits = true;
	size_t part = 0;

	for (size_t i = 0; i <= path.length; i++) {
		if (i < path.length && path.data[i] != '.') {
			digits = digits && path.data[i] >= '0' && path.data[i] <= '9';
			continue;
		}
		if (digits && i > part)
			return true;
		digits = true;
		part = i + 1;
	}
	return false;
}
