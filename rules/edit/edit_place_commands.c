/* The commands of an edit in place. */
#include "rules/edit/edit_inner.h"

#include "rules/query/update.h"
#include "rules/reassembly/expressions.h"
#include "rules/rule/counts.h"
#include "rules/rule/names.h"
#include "rules/rule/overflow_document.h"
#include "rules/rule/own_fields.h"

#include <stdio.h>

#define INSERT_BYTES_MAX (12 << 20) /* a command's body may have 16 MB */
#define ALL_AT_ONCE 1000000         /* small documents of one reply */

static struct bytes name_of(const uint8_t *name)
{
	return (struct bytes){name, GENERATION_BYTES};
}

static void splice_linked(struct buffer *out, size_t *place, const void *context)
{
	(void)place;
	edit_write_linked(out, context);
}

#define FILLS(edit) \
	COUNTS_FILLS(&(edit)->place.state), edit_fill_pin(edit), \
		fill("collection", (edit)->namespace->collection), \
		fill("overflow", (edit)->namespace->targets[(edit)->target].overflow_collection), \
		fill("array", edit_rule(edit)->overflow.array), \
		fill("order", overflow_order_path(edit_rule(edit))), \
		fill("key", edit_rule(edit)->key), fill("main", edit_rule(edit)->array), \
		fill_spliced("linked", splice_linked, edit), \
		fill_binary("pending", name_of((edit)->place.names.pending)), \
		fill("next", (int32_t)((edit)->place.state.edition + 1)), \
		fill("first", place_first(edit)), fill("lowest", (edit)->place.lowest), \
		fill("collation", &(edit)->write.collation)

/* ---- the transaction ---- */

static void write_session(struct edit *edit, const char *database)
{
	static const uint8_t head[] = {GENERATION_BYTES, 0, 0, 0, 4};
	const struct sequence_session *own = &edit->sequence->end.own;
	uint8_t uuid[sizeof(head) + sizeof(own->id)];
	const struct element id = {.type = BSON_BYTE_BINARY, .value = {uuid, sizeof(uuid)}};
	const struct command *command = &edit->sequence->match.command;

	if (edit_in_transaction(edit)) {
		sequence_write_cursor_fields(edit->sequence);
		writer_string(&edit->sequence->buffer, "$db", database);
		return;
	}
	memcpy(uuid, head, sizeof(head));
	memcpy(uuid + sizeof(head), own->id, sizeof(own->id));
	template_write_fields(
		&edit->sequence->buffer,
		"{lsid: {id: @id}, txnNumber: @number, autocommit: false, "
		"..@start, $db: @database, comment: @comment}",
		fill("id", &id), fill("number", own->number),
		fill_template("start", edit->place.begun ? "{}" : "{startTransaction: true}"),
		fill("database", database), fill("comment", &command->fields[FIELD_COMMENT]));
	sequence_write_api_fields(edit->sequence);
}

static enum edit_outcome send(struct edit *edit, enum place_step step, size_t body,
			      const char *database)
{
	write_session(edit, database);
	edit->place.begun = true;
	edit->sequence->end.holds = !edit_in_transaction(edit);
	edit->place.step = step;
	edit->step = STEP_PLACE;
	sequence_send_command(edit->sequence, body);
	return EDIT_SEND;
}

static enum edit_outcome send_filled(struct edit *edit, enum place_step step, const char *text,
				     const struct fill *fills)
{
	size_t body = sequence_begin_command(edit->sequence);

	template_fill_fields(&edit->sequence->buffer, text, fills);
	return send(edit, step, body, edit->namespace->database);
}

/* A command on the namespace's database, by template. */
#define COMMAND(edit, step, ...) \
	send_filled((edit), (step), TEMPLATE_TEXT(__VA_ARGS__), TEMPLATE_FILLS(__VA_ARGS__))

/* ---- the state that it leaves ---- */

static void write_editions(struct buffer *out, const char *name, const void *context)
{
	const struct edit *edit = context;
	const struct state *state = &edit->place.state;

	template_write(out, name, "{g: @g, l: @l, b: @b, h: @h, n: @n, r: @r, v: @v, w: @pending}",
		       fill_binary("g", state->generation), fill_binary("l", state->later),
		       fill("b", state->bound), fill("h", state->head), fill("n", state->moved),
		       fill("r", state->removed), fill("v", (int32_t)state->edition),
		       fill_binary("pending", name_of(edit->place.names.pending)));
}

/* What stands beside the editions. */
static void splice_beside(struct buffer *out, size_t *place, const void *context)
{
	struct element state, each;
	struct cursor cursor;

	(void)place;
	require(edit_state_of(context, ((const struct edit *)context)->target, &state) &&
		cursor_open(&cursor, state.value));
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
		if (!element_is(&each, "g") && !element_is(&each, "h") && !element_is(&each, "n") &&
		    !element_is(&each, "e"))
			writer_element(out, &each);
}

/* The first command: pushes wait for the transaction, instead of ending it by a write conflict. */
enum edit_outcome edit_send_hold(struct edit *edit)
{
	int64_t head = edit->place.state.head;
	struct element state, bypass = edit_bypass(edit);

	require(edit_state_of(edit, edit->target, &state));
	return COMMAND(
		edit, PLACE_HOLD,
		"{findAndModify: @collection, query: {$and: [@pin, {'_spill.@key': {$eq: "
		"@state}}]}, update: {$set: {'_spill.@key': {e: @editions, ..@beside}}}, fields: "
		"{_id: 0, head: @head, tail: {$cond: [true, {$slice: ['$@main', @from, "
		"2147483647]}, 0]}, bytes: {$bsonSize: '$$ROOT'}, collated: " EXPRESSION_IS_COLLATED
		", ..@time}, collation: @collation, bypassDocumentValidation: @bypass}",
		FILLS(edit), fill("state", &state), fill_with("editions", write_editions, edit),
		fill("bypass", &bypass), fill_spliced("beside", splice_beside, edit),
		fill_template("head", head > 0 ? "{$cond: [true, {$slice: ['$@main', @from]}, 0]}"
					       : "{$literal: []}"),
		fill("from", head),
		fill_template("time", edit->place.update.dated ? "{now: '$$NOW'}" : "{}"));
}

/* ---- what an edit has left that died ---- */

enum edit_outcome edit_send_clean(struct edit *edit)
{
	return COMMAND(
		edit, PLACE_CLEAN,
		"{delete: @overflow, deletes: [{q: {..@linked, '_spill.g': @later, '_spill.e': "
		"{$gt: @edition}}, limit: 0}]}",
		FILLS(edit));
}

enum edit_outcome edit_send_unmark(struct edit *edit)
{
	return COMMAND(
		edit, PLACE_UNMARK,
		"{update: @overflow, updates: [{q: {..@linked, '_spill.g': {$in: [@older, "
		"@later]}, '_spill.u': {$gt: @edition}}, u: {$unset: {'_spill.u': 1}}, multi: "
		"true}]}",
		FILLS(edit));
}

/* ---- the batches ---- */

enum edit_outcome edit_send_tiles(struct edit *edit)
{
	return COMMAND(edit, PLACE_TILES,
		       "{find: @overflow, filter: {..@linked, " COUNTS_CONDITIONS "}, projection: "
		       "{_spill: 1, bytes: {$bsonSize: '$$ROOT'}}, batchSize: @most}",
		       FILLS(edit), fill("most", (int32_t)ALL_AT_ONCE));
}

/* Most batches are full. To compare a length costs mongod a fourth of what it costs to tell one. */
enum edit_outcome edit_send_lengths(struct edit *edit)
{
	return COMMAND(edit, PLACE_LENGTHS,
		       "{find: @overflow, filter: {..@linked, " COUNTS_CONDITIONS
		       ", '@array': {$not: {$size: "
		       "@full}}}, projection: {held: " EDIT_LENGTH "}, batchSize: @most}",
		       FILLS(edit), fill("full", edit_rule(edit)->overflow.batch_size),
		       fill("most", (int32_t)ALL_AT_ONCE));
}

static void splice_aimed(struct buffer *out, size_t *place, const void *context)
{
	(void)place;
	place_write_aimed(out, context);
}

/* Whether main's part of the array meets the filter's condition on it. */
enum edit_outcome edit_send_ask_main(struct edit *edit)
{
	return COMMAND(
		edit, PLACE_ASK_MAIN,
		"{find: @collection, filter: {$and: [@pin, @condition]}, projection: {_id: 1}, "
		"limit: 1, singleBatch: true, collation: @collation}",
		FILLS(edit), fill_document("condition", buffer_view(&edit->place.condition.main)));
}

/* Which batches do. */
enum edit_outcome edit_send_ask(struct edit *edit)
{
	return COMMAND(edit, PLACE_ASK,
		       "{find: @overflow, filter: {..@linked, " COUNTS_CONDITIONS
		       ", $and: [@condition]}, "
		       "projection: {_id: 1}, batchSize: @most, collation: @collation}",
		       FILLS(edit), fill("most", (int32_t)ALL_AT_ONCE),
		       fill_document("condition", buffer_view(&edit->place.condition.overflow)));
}

/* Whether what counts of a batch does. */
enum edit_outcome edit_send_ask_part(struct edit *edit)
{
	struct place_piece piece = place_aimed(edit);

	return COMMAND(edit, PLACE_ASK_PART,
		       "{aggregate: @overflow, pipeline: [{$match: {..@aimed}}, {$set: {'@array': "
		       "{$slice: ['$@array', @skip, @take]}}}, {$match: {$and: [@condition]}}, "
		       "{$project: {_id: 1}}], cursor: {}, collation: @collation}",
		       FILLS(edit), fill_spliced("aimed", splice_aimed, edit),
		       fill("skip", piece.skip), fill("take", piece.take),
		       fill_document("condition", buffer_view(&edit->place.condition.overflow)));
}

enum edit_outcome edit_send_lowest(struct edit *edit)
{
	return COMMAND(
		edit, PLACE_LOWEST,
		"{find: @overflow, filter: {..@linked}, projection: {_id: 0, '@order': 1}, sort: "
		"{'@order': 1}, limit: 1, singleBatch: true}",
		FILLS(edit));
}

enum edit_outcome edit_send_hits(struct edit *edit)
{
	const struct place_update *update = &edit->place.update;

	if (edit->place.aim.where == PLACE_IN_BATCH)
		return COMMAND(edit, PLACE_HITS, "{find: @overflow, filter: {..@aimed}}",
			       FILLS(edit), fill_spliced("aimed", splice_aimed, edit));
	return COMMAND(
		edit, PLACE_HITS,
		"{find: @overflow, filter: {..@linked, " COUNTS_CONDITIONS ", ..@concerned}, "
		"collation: @collation}",
		FILLS(edit),
		fill_template("concerned", update->all ? "{}"
					   : update->concerned.length == 0
						   ? "{_id: {$in: []}}" /* {$pullAll: {f: []}} */
						   : "{$or: [..@conditions]}"),
		fill_documents("conditions", buffer_view(&update->concerned)));
}

enum edit_outcome edit_send_hits_on(struct edit *edit)
{
	return COMMAND(edit, PLACE_HITS, "{getMore: @cursor, collection: @overflow}", FILLS(edit),
		       fill("cursor", edit->place.cursor_id));
}

enum edit_outcome edit_send_copies(struct edit *edit)
{
	struct edit_place *place = &edit->place;
	struct bytes left = {place->copies.data + place->inserted,
			     place->copies.length - place->inserted};
	struct bytes sent = {left.data, 0}, document;

	while (message_next_document(&left, &document)) {
		if (sent.length > 0 && sent.length + document.length > INSERT_BYTES_MAX)
			break;
		sent.length += document.length;
	}
	place->inserted += sent.length;
	return COMMAND(edit, PLACE_INSERT, "{insert: @overflow, documents: [..@documents]}",
		       FILLS(edit), fill_documents("documents", sent));
}

static void splice_marked(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	struct bytes left = buffer_view(&edit->place.marked), document;
	struct element id;
	char name[12];

	while (message_next_document(&left, &document))
		if (document_find(document, "_id", &id))
			writer_renamed(out, writer_index(name, (*place)++), &id);
}

/* The copies of batches, and of the head. Their numbers lead there without a look at others. */
#define NUMBERED "..@linked, '@order': {$gte: @first, $lt: @lowest}"
#define COPIED NUMBERED ", '_spill.g': {$in: [@later, @pending]}, '_spill.e': @next"

static void write_batch_update(struct buffer *out, const char *name, const void *context)
{
	const struct edit *edit = context;

	place_update_write_batch(out, name, &edit->write.update, &edit->place.update,
				 edit_rule(edit), edit->place.aim.at);
}

/* The copies that the client's operators are meant for. */
static void splice_copies(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	enum place_where where = edit->place.aim.where;

	(void)place;
	template_write_fields(out,
			      where == PLACE_EVERYWHERE ? "{'_spill.g': {$in: [@later, @pending]}}"
			      : where == PLACE_IN_BATCH
				      ? "{'_spill.g': @later, '_spill.p': @position}"
				      : "{'_spill.g': @pending}",
			      COUNTS_FILLS(&edit->place.state),
			      fill_binary("pending", name_of(edit->place.names.pending)),
			      fill("position", where == PLACE_IN_BATCH ? place_aimed(edit).position
								       : INT64_C(-1)));
}

/* Where the filter says which element is meant, it does so of the copy, too. */
enum edit_outcome edit_send_apply(struct edit *edit)
{
	const struct edit_place *place = &edit->place;
	bool matched = place->update.kind == PLACE_MATCHED;

	return COMMAND(
		edit, PLACE_APPLY,
		"{update: @overflow, updates: [{q: {_id: {$in: [..@marked]}}, u: {$set: "
		"{'_spill.u': @next}}, multi: true}, {q: {..@linked, ..@copies, '_spill.e': "
		"@next, ..@matched}, u: @u, ..@filters, multi: true, collation: @collation}]}",
		FILLS(edit), fill_spliced("marked", splice_marked, edit),
		fill_spliced("copies", splice_copies, edit),
		fill_template("matched", matched ? "{$and: [@condition]}" : "{}"),
		fill_document("condition", buffer_view(&place->condition.overflow)),
		fill_with("u", write_batch_update, edit),
		fill_template("filters", place->update.filters.length > 0
						 ? "{arrayFilters: [..@given]}"
						 : "{}"),
		fill_documents("given", buffer_view(&place->update.filters)));
}

enum edit_outcome edit_send_sizes(struct edit *edit)
{
	return COMMAND(edit, PLACE_SIZES,
		       "{find: @overflow, filter: {" COPIED
		       "}, projection: {_id: 0, g: '$_spill.g', p: "
		       "'$_spill.p', held: {$size: '$@array'}}, batchSize: @most}",
		       FILLS(edit), fill("most", (int32_t)ALL_AT_ONCE));
}

enum edit_outcome edit_send_discard(struct edit *edit)
{
	return COMMAND(edit, PLACE_DISCARD,
		       "{delete: @overflow, deletes: [{q: {" NUMBERED
		       ", '_spill.g': @pending}, limit: 0}]}",
		       FILLS(edit));
}

/* ---- its end ---- */

/* The client's statement behind it waits as long as the client's write concern says: a member that
 * has the statement has the transaction, too. */
enum edit_outcome edit_send_commit(struct edit *edit)
{
	size_t body = sequence_begin_command(edit->sequence);

	template_write_fields(&edit->sequence->buffer,
			      "{commitTransaction: 1, writeConcern: {w: 1}}");
	return send(edit, PLACE_COMMIT, body, "admin");
}

enum edit_outcome edit_send_abort(struct edit *edit)
{
	size_t body = sequence_begin_command(edit->sequence);

	template_write_fields(&edit->sequence->buffer, "{abortTransaction: 1}");
	return send(edit, PLACE_ABORT, body, "admin");
}

/* The state as it was met. */
enum edit_outcome edit_send_restore(struct edit *edit)
{
	struct element state, bypass = edit_bypass(edit);

	require(edit_state_of(edit, edit->target, &state));
	return COMMAND(edit, PLACE_RESTORE,
		       "{update: @collection, updates: [{q: {$and: [@pin, {'_spill.@key.e.w': "
		       "@pending}]}, u: {$set: {'_spill.@key': @state}}, collation: @collation}], "
		       "bypassDocumentValidation: @bypass}",
		       FILLS(edit), fill("state", &state), fill("bypass", &bypass));
}

/* Those that APPLY has made: a batch that counts had none, but for what UNMARK has removed. */
enum edit_outcome edit_send_restore_marks(struct edit *edit)
{
	return COMMAND(edit, PLACE_RESTORE_MARKS,
		       "{update: @overflow, updates: [{q: {_id: {$in: [..@marked]}, '_spill.u': "
		       "@next}, u: {$unset: {'_spill.u': 1}}, multi: true}]}",
		       FILLS(edit), fill_spliced("marked", splice_marked, edit));
}

enum edit_outcome edit_send_restore_copies(struct edit *edit)
{
	return COMMAND(edit, PLACE_RESTORE_COPIES,
		       "{delete: @overflow, deletes: [{q: {" COPIED "}, limit: 0}]}", FILLS(edit));
}

/* ---- X2 ---- */

/* The client's statement as far as main's part of the array is meant, and our fields, which are
 * used up. Nothing is left of it where all that it does is done in a batch: {$set: {}}. */
static void write_main_update(struct edit *edit, struct buffer *set, struct buffer *unset)
{
	const struct edit_place *place = &edit->place;
	auto_buffer struct buffer own = {0};
	size_t document = writer_open(&own);
	struct element u;
	struct buffer *out = &edit->sent.whole;

	place_update_write_main(&own, "u", &edit->write.update, &place->update, edit_rule(edit),
				place->aim.where == PLACE_IN_BATCH ? -1 : place->aim.at);
	writer_close(&own, document);
	require(document_find(buffer_view(&own), "u", &u));
	out->length = 0;
	document = writer_open(out);
	if (u.value.length == 5 && set->length == 0)
		template_write(out, "u", "{$set: {}}");
	else
		update_write_merged(out, "u", &u, set, unset);
	writer_close(out, document);
	require(document_find(buffer_view(out), "u", &edit->sent.update));
}

static void write_counting(struct edit *edit)
{
	const struct edit_place *place = &edit->place;
	const struct rule *rule = edit_rule(edit);
	struct buffer set = {0}, unset = {0};

	template_write_fields(
		&set,
		"{'_spill.@key.e.v': @edition, '_spill.@key.e.h': @head, "
		"'_spill.@key.e.r': @removed, ..@counted}",
		fill("key", rule->key), fill("edition", (int32_t)place->state.edition + 1),
		fill("head", place->after.head), fill("removed", place->after.removed),
		fill_template("counted", place->after.total >= 0 ? "{@field: @total}" : "{}"),
		fill("field", own_field_name(rule, OWN_TOTAL)),
		fill("total", (int32_t)place->after.total));
	template_write_fields(&unset, "{'_spill.@key.e.w': 1}", fill("key", rule->key));
	write_main_update(edit, &set, &unset);
}

static void write_standing(struct edit *edit)
{
	struct buffer set = {0}, unset = {0};

	write_main_update(edit, &set, &unset);
}

/* What the total was reckoned from, or what tells which element is the last one. */
static void splice_length(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	const struct place_aim *aim = &edit->place.aim;
	char last[24];

	(void)place;
	snprintf(last, sizeof(last), "%lld", (long long)edit->place.state.head);
	if (edit->place.after.total >= 0 || aim->measured)
		template_write_fields(out, "{@main: {$size: @length}}",
				      fill("main", edit_rule(edit)->array),
				      fill("length", (int32_t)(place_length(edit, "head") +
							       place_length(edit, "tail"))));
	else if (aim->longer)
		template_write_fields(out, "{@main.@last: {$exists: true}}",
				      fill("main", edit_rule(edit)->array), fill("last", last));
}

/* The state has the name of this edit; or, if X1 is not to count, it is as it was read. */
static void splice_stands(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	const struct state *state = &edit->place.state;
	bool counts = edit->place.end == PLACE_COUNTS;
	struct element read;

	(void)place;
	require(edit_state_of(edit, edit->target, &read));
	template_write_fields(
		out,
		counts ? "{'_spill.@key.e.g': @g, '_spill.@key.e.l': @l, '_spill.@key.e.v': @v, "
			 "'_spill.@key.e.n': @n, '_spill.@key.e.w': @w, ..@length}"
		       : "{'_spill.@key': {$eq: @read}, ..@length}",
		fill("key", edit_rule(edit)->key), fill("read", &read),
		fill_binary("g", state->generation), fill_binary("l", state->later),
		fill("v", (int32_t)state->edition), fill("n", state->moved),
		fill_binary("w", name_of(edit->place.names.pending)),
		fill_spliced("length", splice_length, edit));
}

/* The filter's condition on the array was answered, but where it says which element is meant. */
static bool asks_on(const struct edit *edit)
{
	return edit->place.update.kind == PLACE_MATCHED && edit->place.aim.where != PLACE_IN_BATCH;
}

enum edit_outcome edit_write_placed(struct edit *edit, bool counts)
{
	edit->sent.purpose = EDIT_SWAPS;
	edit->sent.upsert = false;
	edit->step = STEP_WRITE;
	if (counts)
		write_counting(edit);
	else
		write_standing(edit);
	edit->sent.filter.length = 0;
	template_write_document(&edit->sent.filter, "{$and: [..@filter, @pin, {..@stands}]}",
				fill_template("filter", asks_on(edit) ? "[@whole]" : "[..@rest]"),
				fill_document("whole", edit->write.filter.value),
				edit_fill_rest(edit), edit_fill_pin(edit),
				fill_spliced("stands", splice_stands, edit));
	return EDIT_WRITE;
}
