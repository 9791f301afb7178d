/* The filters of an edit: the client's conditions, and what Spillway adds to them. */
#include "rules/edit/edit_inner.h"

#include "rules/query/exact_id.h"
#include "rules/query/filter_split.h"
#include "rules/query/update.h"
#include "rules/rule/names.h"
#include "rules/rule/own_fields.h"

struct bytes edit_filter_left(const struct edit *edit)
{
	return edit->bare.length > 0 ? buffer_view(&edit->bare) : edit->write.filter.value;
}

/* ---- conditions ---- */

bool edit_can_pin(const struct edit *edit, const struct element *id)
{
	return edit->write.collation.type == 0 || exact_id_possible(id);
}

static void write_pin(struct buffer *out, const char *name, const void *context)
{
	const struct edit *edit = context;
	size_t pin;

	if (edit->write.collation.type == 0) {
		template_write(out, name, "{_id: {$eq: @id}}", fill("id", &edit->id));
		return;
	}
	pin = writer_open_document(out, name);
	exact_id_write(out, &edit->id);
	writer_close(out, pin);
}

struct fill edit_fill_pin(const struct edit *edit)
{
	return fill_with("pin", write_pin, edit);
}

struct fill edit_fill_filter(const struct edit *edit)
{
	return fill_document("filter", edit_filter_left(edit));
}

/* No concerned array has a state. */
static void splice_guard(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;

	(void)place;
	if (edit->all)
		template_write_fields(out, "{_spill: {$exists: false}}");
	for (size_t i = 0; !edit->all && i < edit->namespace->target_count; i++)
		if (edit->concerned[i])
			template_write_fields(out, "{_spill.@key: {$exists: false}}",
					      fill("key", edit->namespace->targets[i].rule->key));
}

struct fill edit_fill_guard(const struct edit *edit)
{
	return fill_spliced("guard", splice_guard, edit);
}

/* Conditions of which one holds if a concerned array has a state. */
static void splice_spilled(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	char name[12];

	if (edit->all)
		template_write(out, writer_index(name, (*place)++), "{_spill: {$exists: true}}");
	for (size_t i = 0; !edit->all && i < edit->namespace->target_count; i++)
		if (edit->concerned[i])
			template_write(out, writer_index(name, (*place)++),
				       "{_spill.@key: {$exists: true}}",
				       fill("key", edit->namespace->targets[i].rule->key));
}

static void splice_rest(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;

	filter_split_write(out, place, edit_filter_left(edit), edit->namespace, FILTER_REST_ALL);
}

struct fill edit_fill_rest(const struct edit *edit)
{
	return fill_spliced("rest", splice_rest, edit);
}

/* That a value is not in the array holds for main's part of the array, too. */
static void splice_candidates(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	char name[12];

	if (!edit->facts.reads || edit->membership.known) {
		writer_document(out, writer_index(name, (*place)++), edit_filter_left(edit));
		return;
	}
	splice_rest(out, place, edit);
	template_write(out, writer_index(name, (*place)++), "{$or: [@filter, ..@spilled]}",
		       edit_fill_filter(edit), fill_spliced("spilled", splice_spilled, edit));
}

struct fill edit_fill_candidates(const struct edit *edit)
{
	return fill_spliced("candidates", splice_candidates, edit);
}

/* ---- what was read still stands ---- */

/* Of an array that was edited in place: the same names, edition, and positions in the overflow. */
static void write_same_edition(const struct rule *rule, struct buffer *out,
			       const struct state *state)
{
	template_write_fields(out,
			      "{_spill.@key.e.g: @g, _spill.@key.e.l: @l, _spill.@key.e.v: @v, "
			      "_spill.@key.e.n: @n}",
			      fill("key", rule->key), fill_binary("g", state->generation),
			      fill_binary("l", state->later), fill("v", state->edition),
			      fill("n", state->moved));
}

/* The same generation, and as many elements in the overflow. */
static void write_same_state(const struct edit *edit, struct buffer *out, size_t target)
{
	struct element state, generation, count;
	struct state read;

	require(edit_state_of(edit, target, &state));
	if (state_is_edited(&state)) {
		require(edit_read_state(edit, target, &read));
		write_same_edition(edit->namespace->targets[target].rule, out, &read);
		return;
	}
	require(document_find(state.value, "g", &generation) &&
		document_find(state.value, "n", &count));
	template_write_fields(out, "{_spill.@key.g: @g, _spill.@key.n: @n}",
			      fill("key", edit->namespace->targets[target].rule->key),
			      fill("g", &generation), fill("n", &count));
}

/* And as many elements in main: the array is what was read. */
static void write_same_array(const struct edit *edit, struct buffer *out, size_t target)
{
	struct element length;
	char name[12];

	require(document_find(buffer_view(&edit->kept), writer_index(name, target), &length));
	write_same_state(edit, out, target);
	template_write_fields(out, "{@array: {$size: @length}}",
			      fill("array", edit->namespace->targets[target].rule->array),
			      fill("length", &length));
}

static void splice_same_arrays(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;

	(void)place;
	for (size_t i = 0; i < edit->namespace->target_count; i++)
		if (edit->concerned[i])
			write_same_array(edit, out, i);
}

static void splice_same_state(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;

	(void)place;
	write_same_state(edit, out, edit->target);
}

/* The array `target` is what was read. What the update does to the other rules' own fields depends
 * on whether they have a state, and on whether the state counts elements. */
static void splice_same_target(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;

	(void)place;
	write_same_array(edit, out, edit->target);
	for (size_t i = 0; i < edit->namespace->target_count; i++) {
		const struct rule *rule = edit->namespace->targets[i].rule;
		struct element state;

		if (!edit->concerned[i] || i == edit->target || !own_fields_any(rule))
			continue;
		if (edit_has_state(edit, i))
			write_same_state(edit, out, i);
		else
			template_write_fields(out, "{_spill.@key: {$exists: @exists}}",
					      fill("key", rule->key),
					      fill("exists", edit_state_of(edit, i, &state)));
	}
}

/* ---- the filters of writes ---- */

void edit_write_filter(struct edit *edit)
{
	bool unmatched = edit->sent.purpose == EDIT_UNMATCHED || edit->sent.purpose == EDIT_ASKS ||
			 edit->sent.purpose == EDIT_REFUSES;
	/* An upsert inserts what the filter says: the client's whole filter. */
	bool whole = unmatched || edit->sent.upsert;
	const char *text = "{$and: [@filter, {..@guard}]}";

	if (unmatched && !edit->sent.upsert) /* mongod looks at history and malformed updates */
		text = "{$and: [@filter, {_id: {$in: []}}, {..@guard}]}";
	else if (!unmatched && edit->named != EDIT_PINNED)
		text = "{$and: [@filter, @pin, {..@guard}]}";
	edit->sent.filter.length = 0;
	template_write_document(
		&edit->sent.filter, text,
		fill_document("filter", whole ? edit->write.filter.value : edit_filter_left(edit)),
		edit_fill_pin(edit), edit_fill_guard(edit));
}

void edit_write_swap(struct edit *edit)
{
	edit->sent.filter.length = 0;
	template_write_document(&edit->sent.filter, "{$and: [..@rest, @pin, {..@same}]}",
				edit_fill_rest(edit), edit_fill_pin(edit),
				fill_spliced("same", splice_same_arrays, edit));
}

void edit_write_probed(struct edit *edit)
{
	edit->sent.filter.length = 0;
	template_write_document(&edit->sent.filter, "{$and: [@filter, @pin, {..@same}]}",
				edit_fill_filter(edit), edit_fill_pin(edit),
				fill_spliced("same", splice_same_state, edit));
}

void edit_write_whole(struct edit *edit)
{
	struct element states;
	size_t start;

	edit->sent.filter.length = 0;
	template_write_document(&edit->sent.filter, "{$and: [@filter, @pin, {..@same}]}",
				edit_fill_filter(edit), edit_fill_pin(edit),
				fill_spliced("same", splice_same_target, edit));
	if (update_classify(&edit->write.update, edit->namespace).kind != UPDATE_WHOLE)
		return; /* a replacement leaves no state by itself */
	edit->sent.whole.length = 0;
	start = writer_open(&edit->sent.whole);
	require(document_find(buffer_view(&edit->kept), NAME_STATE, &states));
	update_write_whole(&edit->sent.whole, "u", &edit->write.update, edit->namespace, &states);
	writer_close(&edit->sent.whole, start);
	require(document_find(buffer_view(&edit->sent.whole), "u", &edit->sent.update));
}

/* ---- behind a fold ---- */

/* The path is, or leads into, a field of the rule's that the fold takes away or sets back. */
static bool goes_with_fold(struct bytes path, const struct rule *rule, const struct element *state)
{
	struct element value;

	for (enum own_field field = OWN_FLAG; field < OWN_FIELDS; field++) {
		const char *name = own_field_name(rule, field);

		if (name && path_relate(path, name) != PATH_APART &&
		    own_field_end(rule, field, state, &value) != OWN_FIELD_STAYS)
			return true;
	}
	return false;
}

static bool went_with_fold(const struct edit *edit, struct bytes path)
{
	struct element state;

	for (size_t i = 0; i < edit->namespace->target_count; i++)
		if (edit->concerned[i] && edit_state_of(edit, i, &state) &&
		    goes_with_fold(path, edit->namespace->targets[i].rule, &state))
			return true;
	return false;
}

void edit_write_bare(struct edit *edit)
{
	auto_buffer struct buffer left = {0};
	size_t document = writer_open(&left);
	struct element conjunct;
	enum cursor_step step;
	struct walk walk;
	bool less = false;

	step = filter_first_conjunct(&walk, edit_filter_left(edit), &conjunct);
	for (; step == CURSOR_ELEMENT; step = filter_next_conjunct(&walk, &conjunct)) {
		if (went_with_fold(edit, conjunct.name))
			less = true;
		else
			writer_element(&left, &conjunct);
	}
	writer_close(&left, document);
	if (!less)
		return;
	edit->bare.length = 0;
	buffer_append(&edit->bare, left.data, left.length);
}
