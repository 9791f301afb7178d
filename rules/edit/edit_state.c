/* What an edit has read of the document at work: its `_id`, its states, lengths of its arrays. */
#include "rules/edit/edit_inner.h"

#include "rules/query/update.h"
#include "rules/rule/generation.h"
#include "rules/rule/names.h"

bool edit_keep_document(struct edit *edit, struct bytes document)
{
	struct buffer copy = {0};

	buffer_append(&copy, document.data, document.length);
	buffer_fini(&edit->kept);
	edit->kept = copy;
	require(document_find(buffer_view(&edit->kept), "_id", &edit->id));
	return edit_can_pin(edit, &edit->id);
}

must_check bool edit_state_of(const struct edit *edit, size_t index, struct element *state)
{
	struct element states;

	return document_find(buffer_view(&edit->kept), NAME_STATE, &states) &&
	       states.type == BSON_BYTE_DOCUMENT &&
	       document_find(states.value, edit->namespace->targets[index].rule->key, state) &&
	       state->type == BSON_BYTE_DOCUMENT;
}

must_check bool edit_read_state(const struct edit *edit, size_t index, struct state *read)
{
	struct element state;

	return edit_state_of(edit, index, &state) && !state_read_any(&state, false, read);
}

must_check bool edit_has_state(const struct edit *edit, size_t index)
{
	struct element state, count;
	struct bytes generation;
	struct state read;

	if (!edit_state_of(edit, index, &state))
		return false;
	if (state_is_edited(&state))
		return edit_read_state(edit, index, &read);
	return generation_find(state.value, "g", &generation) &&
	       document_find(state.value, "n", &count);
}

must_check bool edit_has_head(const struct edit *edit, size_t index)
{
	struct element state, head;
	int64_t length;

	return edit_has_state(edit, index) && edit_state_of(edit, index, &state) &&
	       document_find(state.value, "h", &head) && element_integer(&head, &length) &&
	       length >= 0;
}

int64_t edit_moved_count(const struct edit *edit, size_t target)
{
	struct element state, count;
	struct state read;
	int64_t moved;

	require(edit_state_of(edit, target, &state));
	if (state_is_edited(&state))
		return edit_read_state(edit, target, &read) ? state_elements(&read) : 0;
	require(document_find(state.value, "n", &count));
	return element_integer(&count, &moved) ? moved : 0;
}

bool edit_is_spilled(const struct edit *edit, struct bytes document)
{
	struct element states, state;

	if (!document_find(document, NAME_STATE, &states))
		return false;
	for (size_t i = 0; !edit->all && i < edit->namespace->target_count; i++)
		if (edit->concerned[i] && states.type == BSON_BYTE_DOCUMENT &&
		    document_find(states.value, edit->namespace->targets[i].rule->key, &state))
			return true;
	return edit->all;
}

int64_t edit_main_length(const struct edit *edit, size_t target)
{
	struct element length;
	int64_t value;
	char name[12];

	return edit->concerned[target] && edit_has_state(edit, target) &&
			       document_find(buffer_view(&edit->kept), writer_index(name, target),
					     &length) &&
			       element_integer(&length, &value)
		       ? value
		       : -1;
}

bool edit_sets_another(struct edit *edit, bool whatever)
{
	if (!edit->facts.sets)
		return false;
	for (size_t i = 0; i < edit->namespace->target_count; i++) {
		const struct rule *rule = edit->namespace->targets[i].rule;
		int64_t length = edit_main_length(edit, i);

		edit->target = i;
		if (length >= 0 &&
		    (whatever || length + edit_moved_count(edit, i) !=
					 update_whole_length(&edit->write.update, rule)))
			return true;
	}
	return false;
}

/* How many of the array's elements are in main: its whole length is in the answer. */
static bool settled_length(const struct edit *edit, size_t target, struct bytes document,
			   const struct element *states, int64_t *length)
{
	struct element state, count, whole;
	struct bytes generation;
	int64_t all, moved;
	char name[12];

	if (!document_find(states->value, edit->namespace->targets[target].rule->key, &state) ||
	    state.type != BSON_BYTE_DOCUMENT || state_is_edited(&state) ||
	    !generation_find(state.value, "g", &generation) ||
	    !document_find(state.value, "n", &count) || !element_integer(&count, &moved) ||
	    !document_find(document, writer_index(name, target), &whole) ||
	    !element_integer(&whole, &all) || all < moved)
		return false;
	*length = all - moved;
	return true;
}

static bool write_lengths(const struct edit *edit, struct bytes document,
			  const struct element *states, struct buffer *out)
{
	int64_t length;
	char name[12];

	for (size_t i = 0; i < edit->namespace->target_count; i++) {
		if (!edit->concerned[i])
			continue;
		if (!settled_length(edit, i, document, states, &length))
			return false;
		writer_int64(out, writer_index(name, i), length);
	}
	return true;
}

bool edit_write_settled(const struct edit *edit, struct bytes document, struct buffer *out)
{
	size_t start = writer_open(out);
	struct element id, states;

	if (document_find(document, "_id", &id) && document_find(document, NAME_STATE, &states) &&
	    states.type == BSON_BYTE_DOCUMENT) {
		writer_element(out, &id);
		writer_element(out, &states);
		if (write_lengths(edit, document, &states, out)) {
			writer_close(out, start);
			return true;
		}
	}
	out->length = start;
	return false;
}

bool edit_keep_settled(struct edit *edit, struct bytes document)
{
	auto_buffer struct buffer kept = {0};

	return edit_write_settled(edit, document, &kept) &&
	       edit_keep_document(edit, buffer_view(&kept));
}
