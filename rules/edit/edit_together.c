/* Documents of one statement that are written by one command.
 *
 * A search for many documents has read what LOOK and SETTLE would read of each: whether an array is
 * spilled, its state, and how much of it is in main. So those whose arrays are whole (E0) and those
 * that a check-and-set can write go out together, in their order, one statement each. A statement
 * does nothing where its document is gone or no longer meant. Where another writer has touched what
 * was read it raises an error, at which mongod stops: that document goes on alone. So does one that
 * has any other error, which then comes in the words that it has alone. */
#include "rules/edit/edit_inner.h"

#include "rules/reassembly/raised.h"
#include "rules/rule/names.h"

#define DOCUMENTS_MAX 500     /* in one command */
#define BYTES_MAX (2UL << 20) /* of it, but for a document that needs more by itself */

/* A hint says which documents are met, and a filter that raises an error which of them are judged.
 * A positional update needs the filter as it is. A filter that looks at the document, such as
 * $jsonSchema, would see the state that is read along. */
void edit_decide_together(struct edit *edit)
{
	const struct whole_write *write = &edit->write;
	const struct whole_write_facts *facts = &edit->facts;
	bool retried = command_has(&edit->sequence->match.command, FIELD_TXN_NUMBER) &&
		       !edit_in_transaction(edit); /* which mongod refuses */

	edit->list.together = write->many && write->collation.type == 0 && write->hint.type == 0 &&
			      !facts->raises && !facts->document &&
			      !(facts->reads && facts->positional) && !retried;
	edit->list.most = DOCUMENTS_MAX;
}

/* ---- the list ---- */

void edit_list_document(struct edit *edit, struct bytes document, bool whole)
{
	struct buffer *out = &edit->list.ids;
	struct element id, states = {.type = 0};
	bool spilled = edit->list.together && document_find(document, NAME_STATE, &states);

	require(document_find(document, "_id", &id));
	if (spilled && !(edit->facts.swaps && whole)) {
		buffer_append(out, document.data, document.length);
		return;
	}
	if (!spilled || !edit_write_settled(edit, document, out))
		template_write_document(out, "{_id: @id, _spill: @states}", fill("id", &id),
					fill("states", &states));
}

/* ---- the statements ---- */

/* Conditions of which one holds if a concerned array has a state: expressions. */
static void splice_spilled(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;

	if (edit->all)
		template_append(out, place, "{$ne: [{$type: '$_spill'}, 'missing']}");
	for (size_t i = 0; !edit->all && i < edit->namespace->target_count; i++)
		if (edit->concerned[i])
			template_append(out, place, "{$ne: [{$type: '$_spill.@key'}, 'missing']}",
					fill("key", edit->namespace->targets[i].rule->key));
}

#define IS_ANOTHER "{$ne: ['$_id', {$literal: @id}]}"

static void write_unspilled(struct edit *edit)
{
	template_write_document(
		&edit->sent.filter,
		edit->facts.reads ? "{$and: [@pin, {$or: [{$and: [@filter, {..@guard}]}, @raced]}]}"
				  : "{$and: [@filter, @pin, {$or: [{..@guard}, @raced]}]}",
		edit_fill_pin(edit), fill_document("filter", edit_filter_left(edit)),
		edit_fill_guard(edit), fill("id", &edit->id),
		fill_template("raced", "{$expr: {$cond: [@another, false, "
				       "{$cond: [{$or: [..@spilled]}, @raise, false]}]}}"),
		fill_template("another", IS_ANOTHER), fill_spliced("spilled", splice_spilled, edit),
		fill_template("raise", RAISE(RAISED_RACED)));
}

/* The array is what was read: expressions. */
static void splice_same(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;
	struct element state, generation, count;

	for (size_t i = 0; i < edit->namespace->target_count; i++) {
		if (!edit->concerned[i])
			continue;
		require(edit_state_of(edit, i, &state) &&
			document_find(state.value, "g", &generation) &&
			document_find(state.value, "n", &count));
		template_append(out, place, "{$eq: ['$_spill.@key.g', {$literal: @generation}]}",
				fill("key", edit->namespace->targets[i].rule->key),
				fill("generation", &generation));
		template_append(out, place, "{$eq: ['$_spill.@key.n', {$literal: @count}]}",
				fill("key", edit->namespace->targets[i].rule->key),
				fill("count", &count));
		template_append(out, place, "{$eq: [" EDIT_LENGTH ", @length]}",
				fill("array", edit->namespace->targets[i].rule->array),
				fill("length", edit_main_length(edit, i)));
	}
}

static void write_swap(struct edit *edit)
{
	template_write_document(&edit->sent.filter,
				"{$and: [..@rest, @pin, {$expr: {$cond: [@another, false, "
				"{$cond: [{$and: [..@same]}, true, @raise]}]}}]}",
				edit_fill_rest(edit), edit_fill_pin(edit), fill("id", &edit->id),
				fill_template("another", IS_ANOTHER),
				fill_spliced("same", splice_same, edit),
				fill_template("raise", RAISE(RAISED_RACED)));
}

/* Of an array that was edited in place, a check-and-set knows nothing. */
static bool is_settled(const struct edit *edit)
{
	struct element state;

	for (size_t i = 0; i < edit->namespace->target_count; i++)
		if (edit->concerned[i] &&
		    (edit_main_length(edit, i) < 0 || !edit_state_of(edit, i, &state) ||
		     state_is_edited(&state)))
			return false;
	return edit->facts.swaps;
}

/* False: it has to be looked at. */
static bool write_one(struct edit *edit, struct bytes document)
{
	if (!edit_keep_document(edit, document))
		return false;
	if (!edit_is_spilled(edit, document))
		write_unspilled(edit);
	else if (is_settled(edit))
		write_swap(edit);
	else
		return false;
	return true;
}

struct bytes edit_together(const struct edit *edit)
{
	const struct edit_list *list = &edit->list;

	return edit->sent.count > 0
		       ? (struct bytes){list->ids.data + list->first, list->last - list->first}
		       : (struct bytes){0};
}

must_check bool edit_together_next(struct bytes *documents, struct element *id, bool *swaps)
{
	struct bytes document;
	struct element states;

	if (!message_next_document(documents, &document))
		return false;
	require(document_find(document, "_id", id));
	*swaps = document_find(document, NAME_STATE, &states);
	return true;
}

bool edit_gather(struct edit *edit)
{
	struct edit_list *list = &edit->list;
	struct bytes left = {list->ids.data + list->next, list->ids.length - list->next}, document;
	bool alone = !list->together || list->alone;

	edit->sent.count = edit->sent.filter.length = edit->bare.length = 0;
	list->alone = false;
	list->first = list->last = list->next;
	while (!alone && edit->sent.count < list->most &&
	       edit->sent.filter.length + edit->sent.count * edit->write.bytes < BYTES_MAX &&
	       message_next_document(&left, &document) && write_one(edit, document)) {
		edit->sent.count++;
		list->last += document.length;
	}
	return edit->sent.count > 0;
}

/* ---- the reply ---- */

/* The error at which mongod has stopped. False: there is none. */
static bool find_error(const struct reply_summary *summary, struct bytes *error)
{
	struct element first;
	struct cursor cursor;

	if (summary->write_errors.length == 0 || !cursor_open(&cursor, summary->write_errors) ||
	    cursor_next(&cursor, &first) != CURSOR_ELEMENT || first.type != BSON_BYTE_DOCUMENT)
		return false;
	*error = first.value;
	return true;
}

static bool is_raced(struct bytes error)
{
	struct element code, message;
	struct bytes text;
	int64_t number;

	return document_find(error, "code", &code) && element_integer(&code, &number) &&
	       document_find(error, "errmsg", &message) && element_string(&message, &text) &&
	       raised_raced(number, text);
}

/* As if its statement had been the only one. */
static void write_error(struct buffer *out, struct bytes error)
{
	size_t list = writer_open_array(out, "writeErrors"), entry = writer_open_document(out, "0");
	struct element field;
	struct cursor cursor;

	require(cursor_open(&cursor, error));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (element_is(&field, "index"))
			writer_int32(out, "index", 0);
		else
			writer_element(out, &field);
	}
	writer_close(out, entry);
	writer_close(out, list);
}

/* edit->end.reply with this error, or without any. */
static void write_reply(struct edit *edit, struct bytes error)
{
	struct packet *reply = &edit->end.reply;
	struct buffer frame = {0};
	struct element field;
	struct cursor cursor;
	size_t start, body;

	start = message_begin(&frame, reply->header.request_id, reply->header.response_to, 0);
	message_begin_body(&frame);
	body = writer_open(&frame);
	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (!element_is(&field, "writeErrors"))
			writer_element(&frame, &field);
		else if (error.length > 0)
			write_error(&frame, error);
	}
	writer_close(&frame, body);
	message_end(&frame, start);
	packet_fini(reply);
	packet_read_reply(reply, &frame);
}

static void step_over(struct edit_list *list, size_t count)
{
	struct bytes left = {list->ids.data + list->next, list->ids.length - list->next}, document;

	while (count-- > 0 && message_next_document(&left, &document))
		list->next += document.length;
}

static void expect_less(struct edit_list *list)
{
	list->most = list->most / 2 + 1;
}

static void expect_more(struct edit_list *list)
{
	list->most = 2 * list->most < DOCUMENTS_MAX ? 2 * list->most : DOCUMENTS_MAX;
}

/* In a transaction the error has ended it, and nobody could ask again. */
bool edit_take_together(struct edit *edit)
{
	struct edit_list *list = &edit->list;
	struct bytes error;
	struct element index;
	int64_t failed;
	bool stands;

	if (!find_error(&edit->end.reply.summary, &error)) {
		list->next = list->last;
		expect_more(list);
		return true;
	}
	if (!document_find(error, "index", &index) || !element_integer(&index, &failed) ||
	    failed < 0 || (size_t)failed >= edit->sent.count)
		return false;
	stands = edit_in_transaction(edit) && !is_raced(error);
	step_over(list, (size_t)failed);
	list->last = list->next;
	step_over(list, stands);
	list->alone = true;
	expect_less(list);
	write_reply(edit, stands ? error : (struct bytes){0});
	return true;
}
