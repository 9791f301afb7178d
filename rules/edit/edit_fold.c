/* INFLATE: what an edit sends to fold arrays back. */
#include "rules/edit/edit.h"

#include "protocol/writer.h"
#include "rules/rule/names.h"
#include "rules/rule/own_fields.h"

#include <stdlib.h>

struct parents {
	size_t opened[CURSOR_MAX_DEPTH];
	size_t depth;
};

static void close_parents(struct buffer *out, struct parents *parents, size_t depth)
{
	while (parents->depth > depth)
		writer_close(out, parents->opened[--parents->depth]);
}

static size_t shared_parents(const char *one, const char *other)
{
	size_t shared = 0;

	for (; *one && *one == *other; one++, other++)
		shared += *one == '.';
	return shared;
}

/* The parents that the path before it has, too, stand open. */
static void write_at_path(struct buffer *out, struct parents *parents, const char *path)
{
	static const uint8_t empty[] = {5, 0, 0, 0, 0};
	const char *dot = strchr(path, '.');

	for (size_t depth = 0; dot && depth < CURSOR_MAX_DEPTH;
	     path = dot + 1, dot = strchr(path, '.'), depth++) {
		auto_free char *part = must_strndup(path, (size_t)(dot - path));

		if (depth == parents->depth)
			parents->opened[parents->depth++] = writer_open_document(out, part);
	}
	writer_array(out, path, (struct bytes){empty, sizeof(empty)});
}

static int by_text(const void *one, const void *other)
{
	return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* The arrays to be folded back, without an element; of several in one parent, in one parent. */
static void write_empty_arrays(const struct edit *edit, struct buffer *out)
{
	auto_free const char **paths = must_calloc(edit->namespace->target_count, sizeof(*paths));
	struct parents parents = {.depth = 0};
	struct element state;
	size_t count = 0;

	for (size_t i = 0; i < edit->namespace->target_count; i++)
		if (edit->concerned[i] && edit_state_of(edit, i, &state))
			paths[count++] = edit->namespace->targets[i].rule->array;
	qsort(paths, count, sizeof(*paths), by_text);
	for (size_t i = 0; i < count; i++) {
		close_parents(out, &parents, i > 0 ? shared_parents(paths[i - 1], paths[i]) : 0);
		write_at_path(out, &parents, paths[i]);
	}
	close_parents(out, &parents, 0);
}

/* {g, h: 0, n} of the state. */
static void write_headless(struct buffer *out, const char *key, const struct element *state)
{
	size_t start = writer_open_document(out, key);
	struct element field;

	if (document_find(state->value, "g", &field))
		writer_element(out, &field);
	writer_int32(out, "h", 0);
	if (document_find(state->value, "n", &field))
		writer_element(out, &field);
	writer_close(out, start);
}

void edit_write_empty(struct edit *edit)
{
	struct buffer *out = &edit->empty;
	size_t document, states;
	struct element state;

	out->length = 0;
	document = writer_open(out);
	writer_element(out, &edit->id);
	write_empty_arrays(edit, out);
	states = writer_open_document(out, NAME_STATE);
	for (size_t i = 0; i < edit->namespace->target_count; i++)
		if (edit->concerned[i] && edit_state_of(edit, i, &state))
			write_headless(out, edit->namespace->targets[i].rule->key, &state);
	writer_close(out, states);
	writer_close(out, document);
}

static bool write_pushes(const struct edit *edit, struct buffer *out, struct bytes overflow)
{
	size_t push = 0;
	bool opened = false;

	for (size_t i = 0; i < edit->namespace->target_count; i++) {
		const struct rule *rule = edit->namespace->targets[i].rule;
		struct element state, array, head;
		size_t field;

		if (!edit->concerned[i] || !edit_state_of(edit, i, &state))
			continue;
		if (!document_find_path(overflow, rule->array, &array) ||
		    array.type != BSON_BYTE_ARRAY || !document_find(state.value, "h", &head))
			return false;
		if (!opened)
			push = writer_open_document(out, "$push");
		opened = true;
		field = writer_open_document(out, rule->array);
		writer_array(out, "$each", array.value);
		writer_renamed(out, "$position", &head);
		writer_close(out, field);
	}
	if (opened)
		writer_close(out, push);
	return true;
}

/* A field of the rule's as it was before: restored where the application had it, else taken away.
 */
static void write_field(const struct edit *edit, size_t target, enum own_field field,
			struct buffer *out, bool restored)
{
	const struct rule *rule = edit->namespace->targets[target].rule;
	const char *name = own_field_name(rule, field);
	struct element state, value;
	enum own_field_end end;

	if (!name || !edit_state_of(edit, target, &state))
		return;
	end = own_field_end(rule, field, &state, &value);
	if (end == OWN_FIELD_RETURNS && restored)
		writer_renamed(out, name, &value);
	else if (end == OWN_FIELD_GOES && !restored)
		writer_int32(out, name, 1);
}

static void write_fields(const struct edit *edit, struct buffer *out, bool restored)
{
	for (size_t i = 0; i < edit->namespace->target_count; i++)
		for (enum own_field field = OWN_FLAG; edit->concerned[i] && field < OWN_FIELDS;
		     field++)
			write_field(edit, i, field, out, restored);
}

/* `_spill` goes as a whole where nothing is left in it. */
static void write_unset_states(const struct edit *edit, struct buffer *out)
{
	struct element state;

	if (edit->all) {
		writer_int32(out, NAME_STATE, 1);
		return;
	}
	for (size_t i = 0; i < edit->namespace->target_count; i++) {
		auto_buffer struct buffer path = {0};

		if (!edit->concerned[i] || !edit_state_of(edit, i, &state))
			continue;
		name_state_path(&path, edit->namespace->targets[i].rule);
		writer_int32(out, (const char *)path.data, 1);
	}
}

static void write_resets(const struct edit *edit, struct buffer *out)
{
	size_t mark = out->length, set = writer_open_document(out, "$set"), unset;

	write_fields(edit, out, true);
	writer_close(out, set);
	if (out->length - mark == strlen("$set") + 2 + 5)
		out->length = mark; /* mongod takes an empty one, but why send it */
	unset = writer_open_document(out, "$unset");
	write_unset_states(edit, out);
	write_fields(edit, out, false);
	writer_close(out, unset);
}

/* {q: {_id, _spill: as it was}, u: {$push: {f: {$each: ov, $position: h}}, $unset: {...}}}. The
 * whole state as it was holds S.g and S.n. */
static bool write_fold_statement(const struct edit *edit, struct buffer *out, struct bytes overflow)
{
	size_t statement = writer_open_document(out, "0"), q, u, state;
	struct element states;
	bool sound;

	require(document_find(buffer_view(&edit->kept), NAME_STATE, &states));
	q = writer_open_document(out, "q");
	writer_element(out, &edit->id);
	state = writer_open_document(out, NAME_STATE);
	writer_renamed(out, "$eq", &states);
	writer_close(out, state);
	writer_close(out, q);
	u = writer_open_document(out, "u");
	sound = write_pushes(edit, out, overflow);
	write_resets(edit, out);
	writer_close(out, u);
	writer_close(out, statement);
	return sound;
}

/* It is the client's write behind it that waits as long as the client says, and so for this one,
 * too: a member that has that one has this one. */
static void write_concern(struct sequence *sequence)
{
	size_t concern;

	if (command_has(&sequence->match.command, FIELD_AUTOCOMMIT))
		return; /* the transaction's end has one */
	concern = writer_open_document(&sequence->buffer, "writeConcern");
	writer_int32(&sequence->buffer, "w", 1);
	writer_close(&sequence->buffer, concern);
}

static void write_update_fields(struct sequence *sequence, const struct sequence_input *input,
				const char *database)
{
	struct buffer *out = &sequence->buffer;
	int64_t left = sequence_time_left(sequence, input);
	struct element bypass;

	writer_string(out, "$db", database);
	sequence_write_cursor_fields(sequence);
	if (document_find(sequence->match.command.body, "bypassDocumentValidation", &bypass))
		writer_element(out, &bypass);
	if (command_has(&sequence->match.command, FIELD_CLUSTER_TIME))
		writer_element(out, &sequence->match.command.fields[FIELD_CLUSTER_TIME]);
	if (left > 0)
		writer_int64(out, "maxTimeMS", left);
	write_concern(sequence);
}

must_check bool edit_write_fold(struct edit *edit, struct sequence *sequence,
				const struct sequence_input *input)
{
	auto_buffer struct buffer overflow = {0};
	struct buffer *out = &sequence->buffer;
	size_t body, list;
	bool sound;

	if (!merge_write_document(edit->fetch.merge, 0, &overflow))
		return false;
	body = sequence_begin_command(sequence);
	writer_string(out, "update", edit->namespace->collection);
	list = writer_open_array(out, "updates");
	sound = write_fold_statement(edit, out, buffer_view(&overflow));
	writer_close(out, list);
	write_update_fields(sequence, input, edit->namespace->database);
	sequence_send_command(sequence, body);
	return sound;
}
