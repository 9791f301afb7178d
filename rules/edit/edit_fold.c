/* INFLATE: fetches the overflow of the document at work, and folds its arrays back. */
#include "rules/edit/edit_inner.h"

#include "rules/rule/names.h"
#include "rules/rule/own_fields.h"

#include <stdlib.h>

/* An array that does not fit in a document, with its overhead, is not worth fetching to its end. */
static size_t most_of(const struct edit *edit)
{
	int64_t most = edit->namespace->targets[0].rule->fold_limit;

	for (size_t i = 1; i < edit->namespace->target_count; i++)
		if (edit->namespace->targets[i].rule->fold_limit < most)
			most = edit->namespace->targets[i].rule->fold_limit;
	return (size_t)most;
}

static int by_text(const void *one, const void *other)
{
	return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* Arrays without an element at the paths, which are sorted and have their first `shared` bytes in
 * common: the parents that stand open in `out`. */
static void write_empty_arrays(struct buffer *out, const char **paths, size_t count, size_t shared)
{
	static const uint8_t empty[] = {5, 0, 0, 0, 0};

	for (size_t i = 0, next; i < count; i = next) {
		const char *part = paths[i] + shared, *dot = strchr(part, '.');
		size_t parents = dot ? (size_t)(dot + 1 - paths[i]) : 0, parent;
		auto_free char *name = must_strndup(part, dot ? (size_t)(dot - part) : 0);

		next = i + 1;
		if (!dot) {
			writer_array(out, part, (struct bytes){empty, sizeof(empty)});
			continue;
		}
		while (next < count && strncmp(paths[i], paths[next], parents) == 0)
			next++;
		parent = writer_open_document(out, name);
		write_empty_arrays(out, paths + i, next - i, parents);
		writer_close(out, parent);
	}
}

/* The arrays to be folded back. */
static void splice_empty_arrays(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	auto_free const char **paths = must_calloc(edit->namespace->target_count, sizeof(*paths));
	struct element state;
	size_t count = 0;

	(void)place;
	for (size_t i = 0; i < edit->namespace->target_count; i++)
		if (edit->concerned[i] && edit_state_of(edit, i, &state))
			paths[count++] = edit->namespace->targets[i].rule->array;
	qsort(paths, count, sizeof(*paths), by_text);
	write_empty_arrays(out, paths, count, 0);
}

/* The state of an array that was edited in place. */
static void write_headless_editions(struct buffer *out, const char *key, const struct state *state)
{
	template_write(out, key, "{e: {g: @g, l: @l, b: @b, h: 0, n: @n, r: @r, v: @v}}",
		       fill_binary("g", state->generation), fill_binary("l", state->later),
		       fill("b", state->bound), fill("n", state->moved), fill("r", state->removed),
		       fill("v", state->edition));
}

/* Their states: nothing of the array is in main. */
static void splice_headless(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	struct element state;

	(void)place;
	for (size_t i = 0; i < edit->namespace->target_count; i++) {
		struct element generation = {.type = 0}, count = {.type = 0};
		struct state read;

		if (!edit->concerned[i] || !edit_state_of(edit, i, &state))
			continue;
		if (state_is_edited(&state) && edit_read_state(edit, i, &read)) {
			write_headless_editions(out, edit->namespace->targets[i].rule->key, &read);
			continue;
		}
		(void)!document_find(state.value, "g", &generation);
		(void)!document_find(state.value, "n", &count);
		template_write(out, edit->namespace->targets[i].rule->key, "{g: @g, h: 0, n: @n}",
			       fill("g", &generation), fill("n", &count));
	}
}

static void write_empty(struct edit *edit)
{
	edit->empty.length = 0;
	template_write_document(&edit->empty, "{_id: @id, ..@arrays, _spill: {..@states}}",
				fill("id", &edit->id),
				fill_spliced("arrays", splice_empty_arrays, edit),
				fill_spliced("states", splice_headless, edit));
}

/* ---- the command ---- */

struct folding {
	const struct edit *edit;
	struct bytes overflow; /* the arrays, with nothing but their overflow in them */
};

/* What a concerned array with a state gets back, and where. */
static bool find_push(const struct folding *folding, size_t target, struct element *elements,
		      struct element *head)
{
	const struct rule *rule = folding->edit->namespace->targets[target].rule;
	struct element state;

	return document_find_path(folding->overflow, rule->array, elements) &&
	       elements->type == BSON_BYTE_ARRAY && edit_state_of(folding->edit, target, &state) &&
	       document_find_path(state.value, state_is_edited(&state) ? "e.h" : "h", head);
}

static bool finds_all(const struct folding *folding)
{
	const struct edit *edit = folding->edit;
	struct element state, elements, head;

	for (size_t i = 0; i < edit->namespace->target_count; i++)
		if (edit->concerned[i] && edit_state_of(edit, i, &state) &&
		    !find_push(folding, i, &elements, &head))
			return false;
	return true;
}

/* An operator without a field stays away. */
static void close_operator(struct buffer *out, size_t mark, size_t start)
{
	if (out->length > start + sizeof(int32_t))
		writer_close(out, start);
	else
		out->length = mark;
}

static void write_pushes(struct buffer *out, const char *name, const void *context)
{
	const struct folding *folding = context;
	const struct edit *edit = folding->edit;
	size_t mark = out->length, push = writer_open_document(out, name);
	struct element elements, head;

	for (size_t i = 0; i < edit->namespace->target_count; i++)
		if (edit->concerned[i] && find_push(folding, i, &elements, &head))
			template_write_fields(
				out, "{@array: {$each: @elements, $position: @head}}",
				fill("array", edit->namespace->targets[i].rule->array),
				fill("elements", &elements), fill("head", &head));
	close_operator(out, mark, push);
}

/* The rule's own fields become what they were before: `value` where the application had them (end:
 * RETURNS), else they go. */
static void write_own_fields(const struct edit *edit, struct buffer *out, enum own_field_end end)
{
	struct element state, value;

	for (size_t i = 0; i < edit->namespace->target_count; i++) {
		const struct rule *rule = edit->namespace->targets[i].rule;

		if (!edit->concerned[i] || !edit_state_of(edit, i, &state))
			continue;
		for (enum own_field field = OWN_FLAG; field < OWN_FIELDS; field++) {
			const char *name = own_field_name(rule, field);

			if (!name || own_field_end(rule, field, &state, &value) != end)
				continue;
			if (end == OWN_FIELD_RETURNS)
				writer_renamed(out, name, &value);
			else
				writer_int32(out, name, 1);
		}
	}
}

static bool goes(const struct edit *edit, const struct element *state)
{
	for (size_t i = 0; !edit->all && i < edit->namespace->target_count; i++)
		if (edit->concerned[i] && element_is(state, edit->namespace->targets[i].rule->key))
			return true;
	return edit->all;
}

/* `_spill` with the states of other arrays; nothing where there are none. A change stream tells a
 * fold from a client's write by this: the latter takes a state out of `_spill`. False: none is
 * written. */
static bool write_staying(const struct edit *edit, struct buffer *out)
{
	size_t mark = out->length, start = writer_open_document(out, NAME_STATE);
	struct element states, state;
	struct cursor cursor;

	if (document_find(buffer_view(&edit->kept), NAME_STATE, &states) &&
	    states.type == BSON_BYTE_DOCUMENT && cursor_open(&cursor, states.value))
		while (cursor_next(&cursor, &state) == CURSOR_ELEMENT)
			if (!goes(edit, &state))
				writer_element(out, &state);
	close_operator(out, mark, start);
	return out->length > mark;
}

static void write_returning(struct buffer *out, const char *name, const void *context)
{
	size_t mark = out->length, set = writer_open_document(out, name);

	write_own_fields(context, out, OWN_FIELD_RETURNS);
	(void)write_staying(context, out);
	close_operator(out, mark, set);
}

/* `_spill` goes as a whole where nothing is left in it. */
static void splice_going(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	auto_buffer struct buffer staying = {0};

	(void)place;
	if (!write_staying(edit, &staying))
		template_write_fields(out, "{_spill: 1}");
	write_own_fields(edit, out, OWN_FIELD_GOES);
}

/* It is the client's write behind this one that waits as long as the client's write concern says: a
 * member that has that write has this one, too. A transaction's end has a write concern of its own.
 */
static void write_rest(struct edit *edit)
{
	const struct command *command = &edit->sequence->match.command;
	int64_t left = sequence_time_left(edit->sequence, edit->input);
	struct buffer *out = &edit->sequence->buffer;
	struct element bypass = edit_bypass(edit);

	sequence_write_cursor_fields(edit->sequence);
	template_write_fields(out, "{bypassDocumentValidation: @bypass, $clusterTime: @time}",
			      fill("bypass", &bypass),
			      fill("time", &command->fields[FIELD_CLUSTER_TIME]));
	sequence_write_time(out, left);
	if (!command_has(command, FIELD_AUTOCOMMIT))
		template_write_fields(out, "{writeConcern: {w: 1}}");
}

/* False if the generation has died meanwhile. */
static bool write_fold(struct edit *edit)
{
	auto_buffer struct buffer overflow = {0};
	struct folding folding = {.edit = edit};
	struct element states;
	size_t body;

	if (!merge_write_document(edit->fetch.merge, 0, &overflow))
		return false;
	folding.overflow = buffer_view(&overflow);
	if (!finds_all(&folding))
		return false;
	require(document_find(buffer_view(&edit->kept), NAME_STATE, &states));
	body = sequence_begin_command(edit->sequence);
	/* The state as it was holds its generation and its count. */
	template_write_fields(&edit->sequence->buffer,
			      "{update: @collection, updates: [{q: {_id: @id, _spill: {$eq: "
			      "@states}}, u: {$push: @pushes, $set: @returning, $unset: "
			      "{..@going}}}], $db: @database}",
			      fill("collection", edit->namespace->collection),
			      fill("id", &edit->id), fill("states", &states),
			      fill_with("pushes", write_pushes, &folding),
			      fill_with("returning", write_returning, edit),
			      fill_spliced("going", splice_going, edit),
			      fill("database", edit->namespace->database));
	write_rest(edit);
	sequence_send_command(edit->sequence, body);
	return true;
}

/* ---- the steps ---- */

static enum edit_outcome too_large(struct edit *edit)
{
	if (edit_sets_another(edit, true))
		return edit_set_whole(edit);
	if (!edit_may_place(edit))
		return edit_refuse(edit, ERROR_OBJECT_TOO_LARGE, EDIT_TOO_LARGE);
	edit->place.tried = true;
	return edit_begin_place(edit);
}

static enum edit_outcome fold(struct edit *edit)
{
	bool whole = write_fold(edit);

	fetch_fini(&edit->fetch);
	if (!whole)
		return edit_take_shortage(edit);
	if (edit->sequence->output.length > most_of(edit))
		return too_large(edit);
	edit->step = STEP_FOLD;
	return EDIT_SEND;
}

enum edit_outcome edit_take_overflow(struct edit *edit, struct packet *reply)
{
	switch (fetch_next(&edit->fetch, edit->sequence, edit->input, reply)) {
	case FETCH_SEND:
		if (edit->input->memory_short)
			return edit_refuse_memory(edit, "no memory is left for the whole array "
							"(limits.memory); try again later");
		edit->step = STEP_FETCH;
		return EDIT_SEND;
	case FETCH_COMPLETE:
		return fold(edit);
	case FETCH_FAILED:
		return reply_is_unauthorized(&edit->fetch.failed)
			       ? edit_refuse_unauthorized(edit)
			       : edit_fail(edit, &edit->fetch.failed);
	case FETCH_TIMEOUT:
		return edit_refuse_time(edit);
	case FETCH_TOO_MUCH:
		return too_large(edit);
	case FETCH_BROKEN:
		break;
	}
	return edit_refuse(edit, ERROR_WRITE_CONFLICT,
			   "the server's reply on the overflow can't be read; try again");
}

/* A merge has to take the document: a fold takes its whole state away. */
static enum merge_intake judge_state(const struct edit *edit)
{
	struct merge *merge = merge_new(edit->namespace);
	enum merge_intake intake = merge_add_document(merge, buffer_view(&edit->kept));

	merge_free(merge);
	return intake;
}

enum edit_outcome edit_begin_fold(struct edit *edit)
{
	enum merge_intake intake = judge_state(edit);

	if (intake != MERGE_TAKEN)
		return edit_refuse_state(edit, intake == MERGE_FOREIGN);
	write_empty(edit);
	fetch_init(&edit->fetch, edit->namespace);
	edit->fetch.most = 2 * most_of(edit);
	if (merge_add_document(edit->fetch.merge, buffer_view(&edit->empty)) != MERGE_TAKEN)
		return edit_refuse_state(edit, false);
	return edit_take_overflow(edit, NULL);
}

/* Nothing has changed. What is no judgement on the document, as a change of primaries, passes. */
static enum edit_outcome refuse_fold(struct edit *edit, int64_t code)
{
	if (code == ERROR_DOCUMENT_VALIDATION_FAILURE)
		return edit_refuse(edit, ERROR_COMMAND_NOT_SUPPORTED,
				   "a validator refuses to take the array back into its document");
	if (code == ERROR_MAX_TIME_EXPIRED)
		return edit_refuse_time(edit);
	return edit_refuse(edit, ERROR_WRITE_CONFLICT,
			   "the server can't take the array back into its document now; try again");
}

enum edit_outcome edit_take_fold(struct edit *edit, struct packet *reply)
{
	const struct reply_summary *summary = &reply->summary;
	int64_t code = edit_error_code(summary);

	if (!summary->readable)
		return edit_fail(edit, reply);
	if (code == ERROR_OBJECT_TOO_LARGE || code == ERROR_BSON_OBJECT_TOO_LARGE_TO_UPDATE)
		return edit_in_transaction(edit) /* which the error has ended */
			       ? edit_refuse(edit, ERROR_OBJECT_TOO_LARGE, EDIT_TOO_LARGE)
			       : too_large(edit);
	if (!summary->ok)
		return edit_fail(edit, reply);
	if (code != 0)
		return refuse_fold(edit, code);
	if (summary->n == 0)
		return edit_pause(edit);
	edit->folded = true;
	edit_write_bare(edit);
	edit->sent.upsert = false;
	return edit_write(edit, EDIT_GUARDED);
}
