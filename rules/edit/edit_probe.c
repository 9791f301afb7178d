/* PROBE of an array that was edited in place: whether a value is in what counts of its overflow. */
#include "rules/edit/edit_inner.h"

#include "rules/query/reads.h"
#include "rules/rule/counts.h"

#define LENGTH "n"

bool edit_probes_edition(const struct edit *edit)
{
	const struct rule *rule = edit->namespace->targets[edit->target].rule;
	struct element state;
	struct state read;

	return rule->overflow.layout == RULE_BATCHES && edit_state_of(edit, edit->target, &state) &&
	       state_is_edited(&state) && edit_read_state(edit, edit->target, &read);
}

/* The overflow documents that count. */
static void splice_counting(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	struct state state;

	(void)place;
	require(edit_read_state(edit, edit->target, &state));
	edit_write_linked(out, edit);
	template_write_fields(out, "{" COUNTS_CONDITIONS "}", COUNTS_FILLS(&state));
}

/* '0': which of them have the value. '1': all of them. */
enum edit_outcome edit_send_probe_of_edition(struct edit *edit)
{
	const struct target *target = &edit->namespace->targets[edit->target];
	size_t body = sequence_begin_command(edit->sequence);

	template_write_fields(
		&edit->sequence->buffer,
		"{aggregate: @collection, pipeline: [{$match: {$and: [@pin]}}, "
		"{$lookup: {from: @overflow, pipeline: [{$match: {..@counting, "
		"$or: [..@conditions]}}, {$project: {_id: 0, _spill: 1}}], as: '0'}}, "
		"{$lookup: {from: @overflow, pipeline: [{$match: {..@counting}}, "
		"{$project: {_id: 0, _spill: 1, " LENGTH ": {$size: '$@array'}}}], as: '1'}}, "
		"{$project: {_id: 0, '0': 1, '1': 1}}], cursor: {}, collation: @collation}",
		fill("collection", edit->namespace->collection), edit_fill_pin(edit),
		fill("overflow", target->overflow_collection),
		fill_spliced("counting", splice_counting, edit),
		fill_documents("conditions", buffer_view(&edit->membership.overflow)),
		fill("array", target->rule->overflow.array),
		fill("collation", &edit->write.collation));
	return edit_send_body(edit, body);
}

/* ---- the answer ---- */

/* Those of the answer's list `name`, as many as there are; false if it has something else. */
static bool list_counted(struct bytes answer, const char *name, struct buffer *list)
{
	struct element documents, document, length;
	enum cursor_step step;
	struct cursor cursor;

	if (!document_find(answer, name, &documents) || documents.type != BSON_BYTE_ARRAY ||
	    !cursor_open(&cursor, documents.value))
		return false;
	while ((step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT) {
		struct counted counted = {.held = 0};

		if (document.type != BSON_BYTE_DOCUMENT ||
		    !placed_find(document.value, &counted.placed))
			return false;
		if (document_find(document.value, LENGTH, &length) &&
		    !element_integer(&length, &counted.held))
			return false;
		buffer_append(list, &counted, sizeof(counted));
	}
	return step == CURSOR_END;
}

static bool has_value(const struct buffer *hits, const struct counted *of)
{
	const struct counted *hit = (const void *)hits->data;

	for (size_t i = 0; i < hits->length / sizeof(*hit); i++)
		if (hit[i].placed.position == of->placed.position &&
		    bytes_equal(hit[i].placed.generation, of->placed.generation))
			return true;
	return false;
}

/* Of a batch that holds the value, a part alone may count. */
static enum edit_probed judge(struct buffer *all, const struct buffer *hits,
			      const struct state *state)
{
	enum edit_probed probed = EDIT_PROBED_MISSING;
	const struct counted *of;
	struct counts counts;
	enum counts_step step;
	int64_t skip, take;

	if (all->length == 0)
		return EDIT_PROBED_SHORT;
	counts_open(&counts, state, (struct counted *)(void *)all->data, all->length / sizeof(*of));
	while ((step = counts_next(&counts, &of, &skip, &take)) == COUNTS_PIECE) {
		if (!has_value(hits, of))
			continue;
		if (skip == 0 && take == of->held)
			probed = EDIT_PROBED_FOUND;
		else if (probed == EDIT_PROBED_MISSING)
			probed = EDIT_PROBED_UNSURE;
	}
	return step == COUNTS_END ? probed : EDIT_PROBED_SHORT;
}

enum edit_probed edit_take_probe_of_edition(const struct edit *edit, struct bytes answer)
{
	auto_buffer struct buffer all = {0}, hits = {0};
	struct state state;

	require(edit_read_state(edit, edit->target, &state));
	if (state.moved == 0)
		return EDIT_PROBED_MISSING;
	return list_counted(answer, "0", &hits) && list_counted(answer, "1", &all)
		       ? judge(&all, &hits, &state)
		       : EDIT_PROBED_SHORT;
}
