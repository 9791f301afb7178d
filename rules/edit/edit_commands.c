/* The commands of an edit, beside the write itself. */
#include "rules/edit/edit_inner.h"

#include "rules/query/filter_split.h"
#include "rules/query/reads.h"
#include "rules/reassembly/reassemble.h"
#include "rules/rule/overflow_document.h"

#define PROBE_ENDS 4 /* overflow documents among which the end of what is linked is looked for */

static struct fill fill_collection(const struct edit *edit)
{
	return fill_text("collection", edit->namespace->collection);
}

static struct fill fill_hint(const struct edit *edit)
{
	return fill_element("hint", &edit->write.hint);
}

/* A document that makes the filter fail takes its whole batch with it. */
static struct fill fill_batch(const struct edit *edit)
{
	return fill_template("batch",
			     edit->write.many && edit->facts.raises ? "{batchSize: 1}" : "{}");
}

struct element edit_bypass(const struct edit *edit)
{
	struct element bypass = {.type = 0};

	(void)!document_find(edit->sequence->match.command.body, "bypassDocumentValidation",
			     &bypass);
	return bypass;
}

enum edit_outcome edit_send_body(struct edit *edit, size_t body)
{
	sequence_write_read_fields(edit->sequence, edit->input, edit->namespace->database,
				   (struct bytes){0});
	sequence_send_command(edit->sequence, body);
	return EDIT_SEND;
}

enum edit_outcome edit_send_read(struct edit *edit, size_t body)
{
	template_write_fields(&edit->sequence->buffer, "{collation: @collation, let: @let}",
			      fill("collation", &edit->write.collation),
			      fill("let", &edit->sequence->match.command.fields[FIELD_LET]));
	return edit_send_body(edit, body);
}

static void splice_lengths(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	char name[12];

	(void)place;
	for (size_t i = 0; i < edit->namespace->target_count; i++)
		if (edit->concerned[i])
			template_write(out, writer_index(name, i), EDIT_LENGTH,
				       fill("array", edit->namespace->targets[i].rule->array));
}

struct fill edit_fill_lengths(const struct edit *edit)
{
	return fill_spliced("lengths", splice_lengths, edit);
}

struct fill edit_fill_read(const struct edit *edit)
{
	if (!edit->list.together)
		return fill_template("read", "{}");
	return fill_template("read", edit->facts.swaps ? "{_spill: 1, ..@lengths}" : "{_spill: 1}");
}

/* ---- the search ---- */

static enum edit_outcome send_find(struct edit *edit)
{
	size_t body = sequence_begin_command(edit->sequence);

	template_write_fields(
		&edit->sequence->buffer,
		"{find: @collection, filter: @filter, projection: {_id: 1, _spill: 1}, "
		"sort: @sort, hint: @hint, ..@limit, ..@batch}",
		fill_collection(edit), fill("filter", &edit->write.filter),
		fill("sort", &edit->write.sort), fill_hint(edit),
		fill_template("limit", edit->write.many ? "{}" : "{limit: 1}"), fill_batch(edit));
	return edit_send_read(edit, body);
}

/* {$natural: 1} is a hint of a pipeline. */
static bool sorts_naturally(const struct edit *edit)
{
	struct element order;

	return edit->write.sort.type == BSON_BYTE_DOCUMENT &&
	       document_find(edit->write.sort.value, "$natural", &order);
}

/* Sorted by _id, mongod meets the documents one by one. It does not judge those behind the first
 * one that matches. */
static bool sorts_first(const struct edit *edit)
{
	return edit->facts.raises && reads_by_id(&edit->write.sort, &edit->write.collation);
}

static void write_sort(const struct edit *edit, struct buffer *out, const char *name, bool first)
{
	const struct element *sort = &edit->write.sort;

	if (sort->type == BSON_BYTE_DOCUMENT && sort->value.length > 5 && !sorts_naturally(edit) &&
	    sorts_first(edit) == first)
		template_write(out, name, "{$sort: @sort}", fill("sort", sort));
}

static void write_first_sort(struct buffer *out, const char *name, const void *context)
{
	write_sort(context, out, name, true);
}

static void write_later_sort(struct buffer *out, const char *name, const void *context)
{
	write_sort(context, out, name, false);
}

/* A filter that may raise an error is judged behind the search's own limit: mongod judges many
 * documents in the first stage before it needs the second one. */
static void splice_harmless(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	struct bytes filter = edit_filter_left(edit);
	char name[12];

	filter_split_write(out, place, filter, edit->namespace,
			   filter_rest_before_expression(filter));
	template_write(out, writer_index(name, (*place)++), "{}"); /* $and takes no empty array */
}

/* mongod puts the documents together and judges the filter on what clients would see. Arrays that
 * the write does not concern stay as they are stored: the filter does not read them, and one of
 * them may be damaged or edited in place. */
static void splice_whole(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	const struct element *strict = &edit->sequence->match.command.fields[FIELD_API_STRICT];
	bool one = edit->id.type != 0; /* SETTLE, of the document at work */
	bool state = one ? edit->facts.swaps : edit->list.together;

	reassemble_write_stages(out, place, edit->namespace,
				(struct reassembly){state ? REASSEMBLE_STATE : REASSEMBLE_VALUES,
						    one, .strict = element_truth(strict),
						    .damage = edit->search.damage,
						    .only = edit->concerned});
	filter_write_match(out, place, edit_filter_left(edit), FILTER_AT_START);
}

struct fill edit_fill_whole(const struct edit *edit)
{
	return fill_spliced("whole", splice_whole, edit);
}

static enum edit_outcome send_aggregate(struct edit *edit)
{
	size_t body = sequence_begin_command(edit->sequence);
	bool hinted = edit->write.hint.type != 0 || !sorts_naturally(edit);

	template_write_fields(
		&edit->sequence->buffer,
		"{aggregate: @collection, pipeline: [{$match: {$and: [..@candidates]}}, "
		"@first_sort, ..@whole, @sort, ..@limit, {$project: {_id: 1, ..@read}}], "
		"cursor: {..@batch}, hint: @hint}",
		fill_collection(edit),
		edit->facts.raises ? fill_spliced("candidates", splice_harmless, edit)
				   : edit_fill_candidates(edit),
		fill_with("first_sort", write_first_sort, edit), edit_fill_whole(edit),
		fill_with("sort", write_later_sort, edit),
		fill_template("limit", edit->write.many ? "[]" : "[{$limit: 1}]"),
		edit_fill_read(edit), edit_fill_lengths(edit), fill_batch(edit),
		fill("hint", hinted ? &edit->write.hint : &edit->write.sort));
	return edit_send_read(edit, body);
}

enum edit_outcome edit_send_search(struct edit *edit)
{
	return edit->facts.reads ? send_aggregate(edit) : send_find(edit);
}

enum edit_outcome edit_send_get_more(struct edit *edit)
{
	struct sequence *sequence = edit->sequence;
	size_t body = sequence_begin_command(sequence);

	template_write_fields(
		&sequence->buffer,
		"{getMore: @cursor, collection: @collection, ..@batch, $db: @database}",
		fill("cursor", edit->search.cursor_id), fill_collection(edit), fill_batch(edit),
		fill("database", edit->namespace->database));
	sequence_write_cursor_fields(sequence);
	sequence_send_command(sequence, body);
	return EDIT_SEND;
}

/* ---- the document at work ---- */

/* The hint goes along: its index may lack documents. */
enum edit_outcome edit_send_look(struct edit *edit)
{
	size_t body = sequence_begin_command(edit->sequence);

	template_write_fields(&edit->sequence->buffer,
			      "{find: @collection, filter: {$and: [@pin, ..@candidates]}, "
			      "projection: {_id: 1, _spill: 1, ..@sizes}, hint: @hint, limit: 1}",
			      fill_collection(edit), edit_fill_pin(edit),
			      edit_fill_candidates(edit), edit_fill_lengths(edit),
			      fill_template("sizes", edit->facts.sets ? "{..@lengths}" : "{}"),
			      fill_hint(edit));
	return edit_send_read(edit, body);
}

enum edit_outcome edit_send_settle(struct edit *edit)
{
	size_t body = sequence_begin_command(edit->sequence);

	template_write_fields(
		&edit->sequence->buffer,
		"{aggregate: @collection, pipeline: [{$match: {$and: [@pin, ..@rest]}}, ..@whole, "
		"{$project: {_id: 1, ..@state}}], cursor: {..@batch}}",
		fill_collection(edit), edit_fill_pin(edit), edit_fill_rest(edit),
		edit_fill_whole(edit),
		fill_template("state", edit->facts.swaps ? "{_spill: 1, ..@lengths}" : "{}"),
		edit_fill_lengths(edit), fill_batch(edit));
	return edit_send_read(edit, body);
}

/* ---- the probe ---- */

void edit_write_linked(struct buffer *out, const struct edit *edit)
{
	const char *link = edit->namespace->targets[edit->target].rule->overflow.link;

	if (edit->id.type == BSON_BYTE_STRING)
		template_write_fields(
			out, "{$expr: {$let: {vars: {id: {$literal: @id}}, in: {$and: [@same]}}}}",
			fill("id", &edit->id), fill("link", link),
			fill_template("same", EXPRESSION_SAME_TEXT("$@link", "$$id")));
	template_write_fields(out, "{@link: @id}", fill("link", link), fill("id", &edit->id));
}

static void splice_generation(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	struct element state, generation;

	(void)place;
	require(edit_state_of(edit, edit->target, &state) &&
		document_find(state.value, "g", &generation));
	edit_write_linked(out, edit);
	template_write_fields(out, "{_spill.g: @generation}", fill("generation", &generation));
}

/* An overflow document without batches holds one element. */
static void write_batch_length(struct buffer *out, const char *name, const void *context)
{
	const struct rule *rule = context;

	if (rule->overflow.layout == RULE_BATCHES)
		template_write(out, name, EDIT_LENGTH, fill("array", rule->overflow.array));
}

/* '0': is the value in the overflow that the state links? What lies behind that stands in main,
 * too. '1': where the overflow ends, by its last documents (two may have come in another order);
 * one seek in the index. The overflow is joined to main: without a collation of the command's,
 * values compare under main's collation. */
static enum edit_outcome send_probe_of_generation(struct edit *edit)
{
	const struct target *target = &edit->namespace->targets[edit->target];
	size_t body = sequence_begin_command(edit->sequence);

	template_write_fields(
		&edit->sequence->buffer,
		"{aggregate: @collection, pipeline: [{$match: {$and: [@pin]}}, "
		"{$lookup: {from: @overflow, pipeline: [{$match: {..@generation, "
		"$or: [..@conditions]}}, {$limit: 1}, {$project: {_id: 1}}], as: '0'}}, "
		"{$lookup: {from: @overflow, pipeline: [{$match: {..@generation}}, "
		"{$sort: {@order: -1}}, {$limit: @ends}, {$project: {_id: 0, p: '$_spill.p', "
		"n: @length}}], as: '1'}}, "
		"{$project: {_id: 0, '0': 1, '1': 1}}], cursor: {}, collation: @collation}",
		fill_collection(edit), edit_fill_pin(edit),
		fill("overflow", target->overflow_collection),
		fill_spliced("generation", splice_generation, edit),
		fill_documents("conditions", buffer_view(&edit->membership.overflow)),
		fill("order", overflow_order_path(target->rule)), fill("ends", (int32_t)PROBE_ENDS),
		fill_with("length", write_batch_length, target->rule),
		fill("collation", &edit->write.collation));
	return edit_send_body(edit, body);
}

enum edit_outcome edit_send_probe(struct edit *edit)
{
	return edit_probes_edition(edit) ? edit_send_probe_of_edition(edit)
					 : send_probe_of_generation(edit);
}
