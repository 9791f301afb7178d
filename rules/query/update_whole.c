/* Writes an update that sets or unsets a ruled array as a whole, so that the array's state goes
 * with it. */
#include "rules/query/update_operators.h"
#include "rules/rule/names.h"
#include "rules/rule/own_fields.h"
#include "rules/query/update.h"

#include "protocol/writer.h"

static bool sets_whole(const struct element *u, const struct rule *rule)
{
	struct changes changes;
	struct change change;

	if (!changes_open(&changes, u->value))
		return false;
	while (changes_next(&changes, &change) == CURSOR_ELEMENT) {
		if (path_covers(change.path, rule->array) &&
		    (bytes_are(change.verb, "$set") || bytes_are(change.verb, "$unset")))
			return true;
	}
	return false;
}

static int64_t array_length(const struct element *array)
{
	struct cursor cursor;
	struct element element;
	enum cursor_step step = CURSOR_INVALID;
	int64_t length = 0;

	if (array->type == BSON_BYTE_ARRAY && cursor_open(&cursor, array->value))
		step = cursor_next(&cursor, &element);
	for (; step == CURSOR_ELEMENT; step = cursor_next(&cursor, &element))
		length++;
	return step == CURSOR_END ? length : -1;
}

/* Of the array that a value set at `path` brings. */
static int64_t length_within(struct bytes path, const struct element *value,
			     const struct rule *rule)
{
	const char *rest = rule->array + path.length;
	struct element array = *value;
	struct bytes document;

	if (*rest == '\0')
		return array_length(value);
	rest += path.length > 0;
	return element_document(value, &document) && document_find_path(document, rest, &array)
		       ? array_length(&array)
		       : -1;
}

int64_t update_whole_length(const struct element *u, const struct rule *rule)
{
	static const struct bytes whole = {0};
	struct changes changes;
	struct change change;
	int64_t length = -1;

	if (u->type != BSON_BYTE_DOCUMENT || !changes_open(&changes, u->value))
		return -1;
	if (!document_begins_with_operator(u->value))
		return length_within(whole, u, rule);
	while (changes_next(&changes, &change) == CURSOR_ELEMENT) {
		if (path_covers(change.path, rule->array) && bytes_are(change.verb, "$set"))
			length = length_within(change.path, &change.value, rule);
	}
	return length;
}

bool update_sets_array(const struct element *u, const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++)
		if (update_whole_length(u, namespace->targets[i].rule) > 0)
			return true;
	return false;
}

bool update_needs_state(const struct element *u, const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;

		if (own_fields_any(rule) && u->type == BSON_BYTE_DOCUMENT && sets_whole(u, rule))
			return true;
	}
	return false;
}

/* True where an operator of the client's names the path, a prefix of it, or a path in it. */
static bool client_names(const struct element *u, const char *path)
{
	struct changes changes;
	struct change change;

	if (!changes_open(&changes, u->value))
		return false;
	while (changes_next(&changes, &change) == CURSOR_ELEMENT) {
		if (path_relate(change.path, path) != PATH_APART)
			return true;
	}
	return false;
}

/* Our elements for the update's $set and $unset. */
struct resets {
	struct buffer set;
	struct buffer unset;
};

static void add_field_reset(struct resets *resets, const struct rule *rule, enum own_field field,
			    const struct element *state)
{
	const char *name = own_field_name(rule, field);
	struct element value;
	enum own_field_end end = own_field_end(rule, field, state, &value);

	if (end == OWN_FIELD_RETURNS)
		writer_renamed(&resets->set, name, &value);
	else if (end == OWN_FIELD_GOES)
		writer_int32(&resets->unset, name, 1);
}

static void add_state_reset(struct resets *resets, const struct rule *rule)
{
	auto_buffer struct buffer path = {0};

	name_state_path(&path, rule);
	writer_int32(&resets->unset, (const char *)path.data, 1);
}

/* Where nothing was moved they are the application's own. */
static void collect_field_resets(struct resets *resets, const struct element *u,
				 const struct rule *rule, const struct element *states)
{
	struct element state;

	if (!states || !document_find(states->value, rule->key, &state))
		return;
	for (enum own_field field = OWN_FLAG; field < OWN_FIELDS; field++) {
		const char *name = own_field_name(rule, field);

		if (name && !client_names(u, name))
			add_field_reset(resets, rule, field, &state);
	}
}

static void collect_resets(struct resets *resets, const struct element *u,
			   const struct ruled_namespace *namespace, const struct element *states)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;

		if (!sets_whole(u, rule))
			continue;
		add_state_reset(resets, rule);
		collect_field_resets(resets, u, rule, states);
	}
}

/* The operator's document, if any, and our elements behind it, which are used up. */
static void write_merged(struct buffer *out, const char *verb, struct bytes fields,
			 struct buffer *ours)
{
	size_t start;

	if (ours->length == 0 && fields.length == 0)
		return;
	start = writer_open_document(out, verb);
	buffer_append(out, fields.data, fields.length);
	buffer_append(out, ours->data, ours->length);
	writer_close(out, start);
	buffer_fini(ours);
	*ours = (struct buffer){0};
}

void update_write_merged(struct buffer *out, const char *name, const struct element *u,
			 struct buffer *set, struct buffer *unset)
{
	struct cursor cursor;
	struct element verb;
	size_t start = writer_open_document(out, name);

	require(cursor_open(&cursor, u->value)); /* it has been classified */
	while (cursor_next(&cursor, &verb) == CURSOR_ELEMENT) {
		struct bytes fields = {verb.value.data + 4, verb.value.length - 5};
		bool takes = verb.type == BSON_BYTE_DOCUMENT;

		if (takes && element_is(&verb, "$set") && set->length > 0)
			write_merged(out, "$set", fields, set);
		else if (takes && element_is(&verb, "$unset") && unset->length > 0)
			write_merged(out, "$unset", fields, unset);
		else
			writer_element(out, &verb);
	}
	write_merged(out, "$set", (struct bytes){0}, set);
	write_merged(out, "$unset", (struct bytes){0}, unset);
	writer_close(out, start);
}

void update_write_whole(struct buffer *out, const char *name, const struct element *u,
			const struct ruled_namespace *namespace, const struct element *states)
{
	struct resets resets = {0};

	collect_resets(&resets, u, namespace, states);
	update_write_merged(out, name, u, &resets.set, &resets.unset);
}
