/* One write for which a ruled array has to be whole: asks, folds the array back, asks again. */
#include "rules/edit/edit.h"

#include "protocol/writer.h"
#include "rules/rule/generation.h"
#include "rules/rule/id_text.h"
#include "rules/rule/names.h"
#include "rules/reassembly/reassemble.h"
#include "rules/query/update.h"

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS_LEAST 4
#define PATIENCE 10000000 /* microseconds for which a write tries on, losing against others */
#define SWAPS_MAX 2       /* rounds in which a check-and-set is tried */
#define PAUSE_LEAST 5     /* milliseconds */
#define PAUSE_SPAN 46
/* What doesn't fit in a document, with its overhead, is not worth fetching to its end. */
#define DOCUMENT_MAX (16 << 20)

enum edit_step {
	STEP_BEGIN,
	STEP_SEARCH,             /* for the documents that the filter means */
	STEP_SEARCH_BY_OVERFLOW, /* the same, with what the overflow says of outliers */
	STEP_KILL,               /* a cursor of that, which is not needed */
	STEP_WRITE,
	STEP_WORDS, /* for an error that quotes the filter */
	STEP_LOOK,
	STEP_SETTLE,
	STEP_PROBE,
	STEP_FETCH,
	STEP_FOLD,
	STEP_PAUSED, /* before LOOK */
};

void edit_fini(struct edit *edit)
{
	if (edit->fetching)
		fetch_fini(&edit->fetch);
	free(edit->concerned);
	membership_fini(&edit->membership);
	probe_fini(&edit->probe);
	buffer_fini(&edit->ids);
	buffer_fini(&edit->kept);
	buffer_fini(&edit->short_states);
	buffer_fini(&edit->empty);
	buffer_fini(&edit->bare);
	buffer_fini(&edit->filter);
	buffer_fini(&edit->whole);
	packet_fini(&edit->reply);
	packet_fini(&edit->failure);
	free(edit->told);
	*edit = (struct edit){0};
}

size_t edit_memory(const struct edit *edit)
{
	return edit->ids.capacity + edit->kept.capacity + edit->short_states.capacity +
	       edit->bare.capacity + edit->filter.capacity + edit->reply.raw.capacity +
	       edit->probe.named.capacity + edit->probe.generations.capacity +
	       (edit->fetching ? edit->fetch.kept_bytes : 0);
}

struct bytes edit_cause(const struct edit *edit)
{
	static const char marker[] = " :: caused by :: ";
	struct element message;
	struct bytes text;
	const uint8_t *at;

	if (!document_find(edit->failure.message.body, "errmsg", &message) ||
	    !element_string(&message, &text))
		return bytes_of("");
	at = memmem(text.data, text.length, marker, strlen(marker));
	if (!at)
		return text;
	at += strlen(marker);
	return (struct bytes){at, text.length - (size_t)(at - text.data)};
}

static enum edit_outcome refuse(struct edit *edit, enum error_code code, const char *message)
{
	edit->code = code;
	edit->message = message;
	return EDIT_REFUSED;
}

static enum edit_outcome fail(struct edit *edit, struct packet *reply)
{
	packet_fini(&edit->reply);
	edit->reply = packet_steal(reply);
	return EDIT_FAILED;
}

/* An error of the server's state, not of what was asked: the driver may try again. */
static bool is_passing(const struct sequence *sequence, const struct packet *reply)
{
	struct reply_summary summary;
	struct element labels;

	return reply->kind != PACKET_MESSAGE || !reply_summarise(reply->message.body, &summary) ||
	       document_find(reply->message.body, "errorLabels", &labels) ||
	       sequence_lacks_label(sequence, reply);
}

/* Counts a round that was lost against another writer. mongod tries again by itself for as long as
 * it takes; so does a write of ours for some seconds. What a transaction sees does not change, so a
 * few rounds must do there. */
static bool may_try_on(struct edit *edit, const struct sequence *sequence,
		       const struct sequence_input *input)
{
	if (edit->rounds++ == 0)
		edit->losing_since = input->now;
	return edit->rounds < ROUNDS_LEAST ||
	       (!command_has(&sequence->match.command, FIELD_AUTOCOMMIT) &&
		input->now - edit->losing_since < PATIENCE);
}

static enum edit_outcome refuse_lost(struct edit *edit, const struct sequence *sequence)
{
	return refuse(edit, ERROR_WRITE_CONFLICT,
		      command_has(&sequence->match.command, FIELD_AUTOCOMMIT)
			      ? "another writer changed the array while this transaction was "
				"open; nothing was applied, run the transaction again"
			      : "other writers kept changing the array for ten seconds; nothing "
				"was applied, try again");
}

/* What was asked lost against another writer. */
static enum edit_outcome pause_before_look(struct edit *edit, struct sequence *sequence,
					   const struct sequence_input *input)
{
	if (!may_try_on(edit, sequence, input))
		return refuse_lost(edit, sequence);
	edit->step = STEP_PAUSED;
	sequence->pause = PAUSE_LEAST + arc4random_uniform(PAUSE_SPAN);
	return EDIT_PAUSE;
}

/* What the document's state links was not all in the overflow. A rewrite shows in another state at
 * the next look. Where that is the same, it stood all the time, and its overflow has been removed.
 */
static enum edit_outcome take_shortage(struct edit *edit, struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct element states;

	if (!document_find(buffer_view(&edit->kept), NAME_STATE, &states))
		return pause_before_look(edit, sequence, input);
	if (bytes_equal(buffer_view(&edit->short_states), states.value))
		return refuse(edit, ERROR_COMMAND_NOT_SUPPORTED,
			      "overflow documents are missing, so that the array can't be put "
			      "together; nothing was applied; 'spillway verify' names the array's "
			      "document");
	edit->short_states.length = 0;
	buffer_append(&edit->short_states, states.value.data, states.value.length);
	return pause_before_look(edit, sequence, input);
}

static bool out_of_time(struct edit *edit, struct sequence *sequence,
			const struct sequence_input *input)
{
	if (sequence_time_left(sequence, input) != 0)
		return false;
	edit->code = ERROR_MAX_TIME_EXPIRED;
	edit->message = "operation exceeded time limit";
	return true;
}

/* ---- E0 ---- */

static enum edit_outcome write_now(struct edit *edit)
{
	edit_write_filter(edit);
	edit->swapped = false;
	edit->update = (struct element){0};
	edit->step = STEP_WRITE;
	return EDIT_WRITE;
}

static enum edit_outcome swap(struct edit *edit)
{
	edit_write_swap(edit);
	edit->swapped = true;
	edit->upsert = false;
	edit->step = STEP_WRITE;
	return EDIT_WRITE;
}

static enum edit_outcome swap_probed(struct edit *edit)
{
	edit_write_probed(edit);
	edit->swapped = true;
	edit->upsert = false;
	edit->step = STEP_WRITE;
	return EDIT_WRITE;
}

static enum edit_outcome write_whole(struct edit *edit)
{
	edit->update = (struct element){0};
	edit_write_whole(edit);
	edit->swapped = true;
	edit->upsert = false;
	edit->step = STEP_WRITE;
	return EDIT_WRITE;
}

/* Nothing matches: the write is sent to be answered, or to insert. */
static enum edit_outcome write_none(struct edit *edit)
{
	edit->none = true;
	edit->upsert = edit->write.upsert;
	return write_now(edit);
}

static enum edit_outcome search(struct edit *edit, struct sequence *sequence,
				const struct sequence_input *input)
{
	if (out_of_time(edit, sequence, input))
		return EDIT_REFUSED;
	edit->step = edit->by_overflow ? STEP_SEARCH_BY_OVERFLOW : STEP_SEARCH;
	edit->none = edit->listed = false;
	edit->ids.length = edit->next = 0; /* of a list that broke off nothing stays */
	edit->bare.length = 0;
	return edit->by_overflow ? edit_search_by_overflow(edit, sequence, input)
				 : edit_send_search(edit, sequence, input);
}

static enum edit_outcome look(struct edit *edit, struct sequence *sequence,
			      const struct sequence_input *input)
{
	if (out_of_time(edit, sequence, input))
		return EDIT_REFUSED;
	if (edit->id.type == 0)
		return search(edit, sequence, input);
	edit->step = STEP_LOOK;
	return edit_send_look(edit, sequence, input);
}

/* n of an update or delete, or of a findAndModify's lastErrorObject. */
static bool matched_none(struct bytes body, const struct reply_summary *summary)
{
	struct element n;
	int64_t count = summary->n;

	if (count < 0 &&
	    (!document_find_path(body, "lastErrorObject.n", &n) || !element_integer(&n, &count)))
		return false;
	return count == 0 && summary->write_errors.length == 0;
}

/* The error of an upsert's insert, as the command's or as the only statement's. */
static bool is_duplicate(const struct reply_summary *summary)
{
	struct cursor cursor;
	struct element error, code;
	int64_t number;

	if (!summary->ok)
		return summary->code == ERROR_DUPLICATE_KEY;
	return summary->write_errors.length > 0 && cursor_open(&cursor, summary->write_errors) &&
	       cursor_next(&cursor, &error) == CURSOR_ELEMENT && error.type == BSON_BYTE_DOCUMENT &&
	       document_find(error.value, "code", &code) && element_integer(&code, &number) &&
	       number == ERROR_DUPLICATE_KEY;
}

/* mongod's answer stands. */
static enum edit_outcome done(struct edit *edit)
{
	edit->more =
		edit->listed && (edit->next < edit->ids.length || edit->failure.raw.length > 0);
	return EDIT_DONE;
}

static enum edit_outcome take_write(struct edit *edit, struct sequence *sequence,
				    const struct sequence_input *input, struct packet *reply)
{
	struct reply_summary summary = {0};

	packet_fini(&edit->reply);
	edit->reply = packet_steal(reply);
	if (edit->reply.kind != PACKET_MESSAGE ||
	    !reply_summarise(edit->reply.message.body, &summary))
		return EDIT_FAILED;
	/* A retry of what once inserted: history wants to be asked by an upsert. */
	if (summary.code == ERROR_RETRY_OF_ANOTHER_KIND && edit->write.upsert && !edit->upsert)
		return write_none(edit);
	if (edit_tell_forged(edit, sequence))
		return done(edit);
	if (edit_words_wanted(edit)) {
		edit->step = STEP_WORDS;
		return edit_send_words(edit, sequence);
	}
	if (edit->upsert && is_duplicate(&summary) &&
	    !command_has(&sequence->match.command, FIELD_AUTOCOMMIT))
		return look(edit, sequence, input);
	if (!summary.ok || !matched_none(edit->reply.message.body, &summary))
		return done(edit);
	if (edit->asks) {
		edit->asks = false;
		return search(edit, sequence, input);
	}
	if (edit->none)
		return edit->failure.raw.length > 0 ? EDIT_REJECTED : done(edit);
	return edit->swapped ? pause_before_look(edit, sequence, input)
			     : look(edit, sequence, input);
}

/* ---- replies to reads ---- */

static enum edit_outcome next_document(struct edit *edit);

/* mongod's text would quote a command that the client has not sent. */
static enum edit_outcome refuse_unauthorized(struct edit *edit)
{
	return refuse(edit, ERROR_UNAUTHORIZED,
		      "the user may not read what this write needs: the collection and the "
		      "array's overflow");
}

static enum edit_outcome refuse_damaged(struct edit *edit, enum error_code code,
					const char *message)
{
	free(edit->told);
	edit->told = must_strndup(message, strlen(message));
	return refuse(edit, code, edit->told);
}

/* The server's error to a read. Where it is the filter's, the write is asked, too: it may say the
 * same in its own words. */
static enum edit_outcome fail_read(struct edit *edit, const struct sequence *sequence,
				   struct packet *reply)
{
	struct reply_summary summary;
	char message[REASSEMBLE_MESSAGE];
	const char *outgrown = NULL;
	enum error_code code;

	if (reply_is_unauthorized(reply))
		return refuse_unauthorized(edit);
	if (reply->kind == PACKET_MESSAGE && reply_summarise(reply->message.body, &summary)) {
		if (reassemble_tell(reply->message.body, &summary, message, &code))
			return refuse_damaged(edit, code, message);
		outgrown = reassemble_outgrown(reply->message.body, &summary);
	}
	if (outgrown)
		return refuse(edit, ERROR_OBJECT_TOO_LARGE, outgrown);
	if (is_passing(sequence, reply))
		return fail(edit, reply);
	packet_fini(&edit->failure);
	edit->failure = packet_steal(reply);
	/* mongod has done the documents before that one; what fails in a transaction undoes them.
	 */
	if (edit->step == STEP_SEARCH && edit->listed && edit->ids.length > 0 &&
	    !command_has(&sequence->match.command, FIELD_AUTOCOMMIT))
		return next_document(edit);
	if (edit->reply.raw.length > 0)
		return EDIT_REJECTED;
	edit->none = true;
	edit->upsert = false;
	return write_now(edit);
}

/* The documents of a cursor's reply. False: `*outcome` says what it was instead. */
static bool open_batch(struct edit *edit, const struct sequence *sequence, struct packet *reply,
		       struct cursor *cursor, enum edit_outcome *outcome)
{
	struct reply_summary summary;
	struct reply_cursor read;

	if (reply->kind != PACKET_MESSAGE || !reply_summarise(reply->message.body, &summary) ||
	    !summary.ok) {
		*outcome = fail_read(edit, sequence, reply);
		return false;
	}
	*outcome = refuse(edit, ERROR_WRITE_CONFLICT, "the server's reply can't be read");
	read = reply_read_cursor(summary.cursor);
	return element_integer(&read.id, &edit->cursor_id) && read.batch.data &&
	       cursor_open(cursor, read.batch);
}

static bool generation_died(const struct packet *reply)
{
	struct reply_summary summary;

	return reply->kind == PACKET_MESSAGE && reply_summarise(reply->message.body, &summary) &&
	       reassemble_died(reply->message.body, &summary);
}

/* ---- which documents ---- */

static enum edit_outcome next_document(struct edit *edit)
{
	struct bytes left = {edit->ids.data + edit->next, edit->ids.length - edit->next};
	struct cursor cursor;
	struct element element;

	/* `ids` holds documents {_id}, one behind the other. */
	left.length = (size_t)load_int32(left.data);
	edit->next += left.length;
	edit->rounds = edit->listed ? 0 : edit->rounds;
	edit->upsert = edit->none = false;
	edit->bare.length = 0;
	require(cursor_open(&cursor, left) && cursor_next(&cursor, &element) == CURSOR_ELEMENT);
	edit->id = element;
	return write_now(edit);
}

/* Of the first `most` documents. */
static bool keep_ids(struct edit *edit, struct cursor *cursor, size_t most)
{
	struct element document, id;

	while (most-- > 0 && cursor_next(cursor, &document) == CURSOR_ELEMENT) {
		size_t start;

		if (document.type != BSON_BYTE_DOCUMENT ||
		    !document_find(document.value, "_id", &id) || !edit_can_pin(edit, &id))
			return false;
		start = writer_open(&edit->ids);
		writer_element(&edit->ids, &id);
		writer_close(&edit->ids, start);
	}
	return true;
}

static enum edit_outcome refuse_unnamed(struct edit *edit)
{
	return refuse(edit, ERROR_COMMAND_NOT_SUPPORTED,
		      "under a collation, a document whose _id holds a symbol, a text in an "
		      "array or a text that no path leads to can't be named exactly");
}

/* `ids` has them all. */
static enum edit_outcome begin_documents(struct edit *edit)
{
	edit->listed = edit->write.many;
	if (edit->ids.length > 0)
		return next_document(edit);
	if (edit->upsert) /* it met a duplicate, and that stands */
		return done(edit);
	return write_none(edit);
}

static enum edit_outcome take_search(struct edit *edit, struct sequence *sequence,
				     const struct sequence_input *input, struct packet *reply)
{
	enum edit_outcome outcome;
	struct cursor cursor;

	if (generation_died(reply))
		return pause_before_look(edit, sequence, input);
	if (!open_batch(edit, sequence, reply, &cursor, &outcome))
		return outcome;
	edit->listed = true;
	if (!keep_ids(edit, &cursor, SIZE_MAX))
		return refuse_unnamed(edit);
	if (input->memory_short)
		return refuse(edit, ERROR_TEMPORARILY_UNAVAILABLE,
			      "no memory is left for the list of documents (limits.memory); try "
			      "again later");
	if (edit->cursor_id != 0)
		return edit_send_get_more(edit, sequence);
	return begin_documents(edit);
}

static enum edit_outcome search_all(struct edit *edit, struct sequence *sequence,
				    const struct sequence_input *input)
{
	edit->by_overflow = false;
	return search(edit, sequence, input);
}

static enum edit_outcome take_hits(struct edit *edit, struct sequence *sequence,
				   const struct sequence_input *input, struct packet *reply)
{
	struct cursor cursor;
	struct bytes batch;
	size_t documents;

	if (generation_died(reply))
		return pause_before_look(edit, sequence, input);
	switch (edit_take_hits(edit, input, reply, &batch, &documents)) {
	case EDIT_HITS_FOUND:
		break;
	case EDIT_HITS_AGAIN:
		return search(edit, sequence, input);
	case EDIT_HITS_KILL:
		edit->step = STEP_KILL;
		return edit_send_kill(edit, sequence);
	case EDIT_HITS_ALL:
		return search_all(edit, sequence, input);
	case EDIT_HITS_DAMAGED:
		return fail_read(edit, sequence, reply);
	}
	require(cursor_open(&cursor, batch));
	return keep_ids(edit, &cursor, documents) ? begin_documents(edit) : refuse_unnamed(edit);
}

/* ---- E1 ---- */

static bool state_stands(const struct edit *edit, struct bytes document)
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

/* The document at work matches no longer. What made it so may have been another attempt at this
 * very statement, which a driver has sent again: history has the answer by now. Or a write that may
 * yet be rolled back: the answer waits for the write concern. In a transaction neither can be. */
static enum edit_outcome take_none(struct edit *edit, struct sequence *sequence,
				   const struct sequence_input *input)
{
	if (edit->pinned || edit->listed) {
		if (edit->write.upsert && !edit->upsert && !edit->listed) {
			edit->upsert = true;
			return write_now(edit);
		}
		if (!edit->upsert && !edit->listed &&
		    !command_has(&sequence->match.command, FIELD_AUTOCOMMIT))
			return write_none(edit);
		return done(edit);
	}
	edit->id = (struct element){0};
	return edit->rounds < ROUNDS_LEAST && may_try_on(edit, sequence, input)
		       ? search(edit, sequence, input)
		       : pause_before_look(edit, sequence, input);
}

/* E1's document has this array's length in main; -1 where it is no spilled array. */
static int64_t length_in_main(const struct edit *edit, size_t target)
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

static int64_t moved_count(const struct edit *edit, size_t target)
{
	struct element states, state, count;
	int64_t moved;

	require(document_find(buffer_view(&edit->kept), NAME_STATE, &states) &&
		document_find(states.value, edit->namespace->targets[target].rule->key, &state) &&
		document_find(state.value, "n", &count));
	return element_integer(&count, &moved) ? moved : 0;
}

/* Some spilled array can't be what it is set to: `target`. `whatever` its length is, it is too
 * large to be set at all. */
static bool sets_another(struct edit *edit, bool whatever)
{
	if (!edit->facts.sets)
		return false;
	for (size_t i = 0; i < edit->namespace->target_count; i++) {
		const struct rule *rule = edit->namespace->targets[i].rule;
		int64_t length = length_in_main(edit, i);

		edit->target = i;
		if (length >= 0 &&
		    (whatever || length + moved_count(edit, i) !=
					 update_whole_length(&edit->write.update, rule)))
			return true;
	}
	return false;
}

/* The copy that `id` looks into from now on. False where it can't be named: the `_id` may have
 * changed its form since it was listed. */
static bool keep_document(struct edit *edit, struct bytes document)
{
	struct buffer copy = {0};

	buffer_append(&copy, document.data, document.length);
	buffer_fini(&edit->kept);
	edit->kept = copy;
	require(document_find(buffer_view(&edit->kept), "_id", &edit->id));
	return edit_can_pin(edit, &edit->id);
}

static enum edit_outcome begin_fold(struct edit *edit, struct sequence *sequence,
				    const struct sequence_input *input);

/* The cheapest exact way on with a document whose array is spilled. A check-and-set that lost its
 * race gives way to folding back. */
static enum edit_outcome take_spilled(struct edit *edit, struct sequence *sequence,
				      const struct sequence_input *input)
{
	if (edit->write.denied)
		return refuse_unauthorized(edit);
	if (sets_another(edit, false))
		return write_whole(edit);
	if (edit->membership.known && edit->rounds < SWAPS_MAX &&
	    edit_has_head(edit, edit->target)) {
		edit->step = STEP_PROBE;
		return edit_send_probe(edit, sequence, input);
	}
	if (!edit->facts.reads || !edit->facts.settles)
		return begin_fold(edit, sequence, input);
	edit->step = STEP_SETTLE;
	return edit_send_settle(edit, sequence, input);
}

/* A probe's answer: overflow documents that have the value. */
static bool has_hit(struct bytes answer)
{
	struct element hits, hit;
	struct cursor cursor;

	return document_find(answer, "0", &hits) && hits.type == BSON_BYTE_ARRAY &&
	       cursor_open(&cursor, hits.value) && cursor_next(&cursor, &hit) == CURSOR_ELEMENT;
}

static int64_t number_in(struct bytes document, const char *name, int64_t otherwise)
{
	struct element element;
	int64_t number;

	return document_find(document, name, &element) && element_integer(&element, &number)
		       ? number
		       : otherwise;
}

static bool ends_behind(struct bytes document, int64_t linked)
{
	int64_t place = number_in(document, "p", -1);

	return place >= 0 && place >= linked - number_in(document, "n", 1);
}

/* One of its last documents ends where the state says that the overflow does, or behind it. Whether
 * others are missing in front of them is not seen: to count all would take as long as to read them.
 */
static bool reaches_end(const struct edit *edit, struct bytes answer)
{
	const struct rule *rule = edit->namespace->targets[edit->target].rule;
	struct element states, state, ends, end;
	struct cursor cursor;
	int64_t linked;

	require(document_find(buffer_view(&edit->kept), NAME_STATE, &states) &&
		document_find(states.value, rule->key, &state));
	linked = number_in(state.value, "n", 0);
	if (linked == 0)
		return true;
	if (!document_find(answer, "1", &ends) || ends.type != BSON_BYTE_ARRAY ||
	    !cursor_open(&cursor, ends.value))
		return false;
	while (cursor_next(&cursor, &end) == CURSOR_ELEMENT)
		if (end.type == BSON_BYTE_DOCUMENT && ends_behind(end.value, linked))
			return true;
	return false;
}

/* Found, a guard's condition does not hold, and a set has the value already. */
static enum edit_outcome take_probe(struct edit *edit, struct sequence *sequence,
				    const struct sequence_input *input, struct packet *reply)
{
	enum edit_outcome outcome;
	struct element document;
	struct cursor cursor;
	bool found;

	if (!open_batch(edit, sequence, reply, &cursor, &outcome))
		return outcome;
	found = cursor_next(&cursor, &document) == CURSOR_ELEMENT &&
		document.type == BSON_BYTE_DOCUMENT;
	if (found && !has_hit(document.value) && !reaches_end(edit, document.value))
		return take_shortage(edit, sequence, input);
	found = found && has_hit(document.value);
	edit->update = (struct element){0};
	if (found && edit->facts.reads)
		return take_none(edit, sequence, input);
	if (found)
		require(document_find(buffer_view(&edit->membership.without), "u", &edit->update));
	return swap_probed(edit);
}

static enum edit_outcome take_look(struct edit *edit, struct sequence *sequence,
				   const struct sequence_input *input, struct packet *reply)
{
	enum edit_outcome outcome;
	struct element document, id;
	struct cursor cursor;

	if (!open_batch(edit, sequence, reply, &cursor, &outcome))
		return outcome;
	if (cursor_next(&cursor, &document) != CURSOR_ELEMENT)
		return take_none(edit, sequence, input);
	if (document.type != BSON_BYTE_DOCUMENT || !document_find(document.value, "_id", &id))
		return refuse(edit, ERROR_WRITE_CONFLICT, "the server's reply can't be read");
	if (!keep_document(edit, document.value))
		return refuse_unnamed(edit);
	if (!state_stands(edit, document.value)) {
		edit->upsert = false;
		return edit->rounds < ROUNDS_LEAST && may_try_on(edit, sequence, input)
			       ? write_now(edit)
			       : pause_before_look(edit, sequence, input);
	}
	return take_spilled(edit, sequence, input);
}

/* What the check-and-set names: the state, and how much of each array is in main. False where an
 * array that was read has no state. */
static bool keep_settled(struct edit *edit, struct bytes document)
{
	auto_buffer struct buffer kept = {0};
	size_t start = writer_open(&kept);
	struct element id, states, state, count, length;
	struct bytes generation;
	int64_t all, moved;
	char name[12];

	if (!document_find(document, "_id", &id) || !document_find(document, NAME_STATE, &states) ||
	    states.type != BSON_BYTE_DOCUMENT)
		return false;
	writer_element(&kept, &id);
	writer_element(&kept, &states);
	for (size_t i = 0; i < edit->namespace->target_count; i++) {
		if (!edit->concerned[i])
			continue;
		if (!document_find(states.value, edit->namespace->targets[i].rule->key, &state) ||
		    state.type != BSON_BYTE_DOCUMENT ||
		    !generation_find(state.value, "g", &generation) ||
		    !document_find(state.value, "n", &count) || !element_integer(&count, &moved) ||
		    !document_find(document, writer_index(name, i), &length) ||
		    !element_integer(&length, &all) || all < moved)
			return false;
		writer_int64(&kept, writer_index(name, i), all - moved);
	}
	writer_close(&kept, start);
	return keep_document(edit, buffer_view(&kept));
}

static enum edit_outcome take_settle(struct edit *edit, struct sequence *sequence,
				     const struct sequence_input *input, struct packet *reply)
{
	enum edit_outcome outcome;
	struct element document, id;
	struct cursor cursor;

	if (generation_died(reply))
		return take_shortage(edit, sequence, input);
	if (!open_batch(edit, sequence, reply, &cursor, &outcome))
		return outcome;
	if (cursor_next(&cursor, &document) != CURSOR_ELEMENT)
		return take_none(edit, sequence, input);
	if (!document_find(document.value, "_id", &id) || !edit_can_pin(edit, &id))
		return refuse_unnamed(edit);
	if (edit->facts.swaps && edit->rounds < SWAPS_MAX && document.type == BSON_BYTE_DOCUMENT &&
	    keep_settled(edit, document.value))
		return swap(edit);
	return begin_fold(edit, sequence, input);
}

/* ---- INFLATE ---- */

static enum edit_outcome too_large(struct edit *edit)
{
	if (sets_another(edit, true))
		return write_whole(edit);
	return refuse(edit, ERROR_OBJECT_TOO_LARGE,
		      "the whole array, which this write needs in one document, passes 16 MB");
}

static enum edit_outcome fold(struct edit *edit, struct sequence *sequence,
			      const struct sequence_input *input)
{
	bool whole = edit_write_fold(edit, sequence, input);

	fetch_fini(&edit->fetch);
	edit->fetching = false;
	if (!whole)
		return take_shortage(edit, sequence, input);
	if (sequence->output.length > DOCUMENT_MAX)
		return too_large(edit);
	edit->step = STEP_FOLD;
	return EDIT_SEND;
}

static enum edit_outcome fetch_on(struct edit *edit, struct sequence *sequence,
				  const struct sequence_input *input, struct packet *reply)
{
	switch (fetch_next(&edit->fetch, sequence, input, reply)) {
	case FETCH_SEND:
		if (input->memory_short)
			return refuse(edit, ERROR_TEMPORARILY_UNAVAILABLE,
				      "no memory is left for the whole array (limits.memory); try "
				      "again later");
		edit->step = STEP_FETCH;
		return EDIT_SEND;
	case FETCH_COMPLETE:
		return fold(edit, sequence, input);
	case FETCH_FAILED:
		return reply_is_unauthorized(&edit->fetch.failed) ? refuse_unauthorized(edit)
								  : fail(edit, &edit->fetch.failed);
	case FETCH_TIMEOUT:
		return refuse(edit, ERROR_MAX_TIME_EXPIRED, "operation exceeded time limit");
	case FETCH_TOO_MUCH:
		return too_large(edit);
	case FETCH_BROKEN:
		break;
	}
	return refuse(edit, ERROR_WRITE_CONFLICT,
		      "an overflow document can't be read; run 'spillway verify'");
}

/* E1's document says what a merge would take: a fold takes the whole state away. */
static bool state_is_sound(const struct edit *edit)
{
	struct merge *merge = merge_new(edit->namespace);
	bool sound = merge_add_document(merge, buffer_view(&edit->kept)) == MERGE_TAKEN;

	merge_free(merge);
	return sound;
}

/* Of the document at work. */
static enum edit_outcome refuse_state(struct edit *edit)
{
	char message[REASSEMBLE_MESSAGE];

	snprintf(message, sizeof(message),
		 "the document with %s: its state (_spill) can't be read, or belongs to a rule "
		 "that is gone; run 'spillway verify --repair'",
		 id_text(&edit->id).text);
	return refuse_damaged(edit, ERROR_COMMAND_NOT_SUPPORTED, message);
}

static enum edit_outcome begin_fold(struct edit *edit, struct sequence *sequence,
				    const struct sequence_input *input)
{
	if (!state_is_sound(edit))
		return refuse_state(edit);
	edit_write_empty(edit);
	fetch_init(&edit->fetch, edit->namespace);
	edit->fetch.most = 2 * DOCUMENT_MAX;
	edit->fetching = true;
	if (merge_add_document(edit->fetch.merge, buffer_view(&edit->empty)) != MERGE_TAKEN)
		return refuse_state(edit);
	return fetch_on(edit, sequence, input, NULL);
}

/* The code of the only statement's error; 0 where there is none. */
static int64_t statement_error(const struct reply_summary *summary)
{
	struct cursor cursor;
	struct element error, code;
	int64_t number = 0;

	if (summary->write_errors.length > 0 && cursor_open(&cursor, summary->write_errors) &&
	    cursor_next(&cursor, &error) == CURSOR_ELEMENT && error.type == BSON_BYTE_DOCUMENT &&
	    document_find(error.value, "code", &code) && element_integer(&code, &number))
		return number;
	return number;
}

/* Nothing has changed. What is no judgement on the document, as a change of primaries, passes. */
static enum edit_outcome refuse_fold(struct edit *edit, int64_t code)
{
	if (code == ERROR_DOCUMENT_VALIDATION_FAILURE)
		return refuse(edit, ERROR_COMMAND_NOT_SUPPORTED,
			      "a validator refuses to take the array back into its document");
	if (code == ERROR_MAX_TIME_EXPIRED)
		return refuse(edit, ERROR_MAX_TIME_EXPIRED, "operation exceeded time limit");
	return refuse(edit, ERROR_WRITE_CONFLICT,
		      "the server can't take the array back into its document now; try again");
}

static enum edit_outcome take_fold(struct edit *edit, struct sequence *sequence,
				   const struct sequence_input *input, struct packet *reply)
{
	struct reply_summary summary;
	int64_t code;

	if (reply->kind != PACKET_MESSAGE || !reply_summarise(reply->message.body, &summary))
		return fail(edit, reply);
	code = summary.ok ? statement_error(&summary) : summary.code;
	if (code == ERROR_OBJECT_TOO_LARGE || code == ERROR_BSON_OBJECT_TOO_LARGE_TO_UPDATE)
		return too_large(edit);
	if (!summary.ok)
		return fail(edit, reply);
	if (code != 0)
		return refuse_fold(edit, code);
	if (summary.n == 0)
		return pause_before_look(edit, sequence, input);
	edit->folded = true;
	edit_write_bare(edit);
	edit->upsert = false;
	return write_now(edit);
}

/* What fails in a transaction ends it: nothing could be asked behind a search that fails. So the
 * write that matches nothing comes first there; its answer stands for the write's. */
static enum edit_outcome begin(struct edit *edit, struct sequence *sequence,
			       const struct sequence_input *input)
{
	if (edit->pinned)
		return write_now(edit);
	if (!command_has(&sequence->match.command, FIELD_AUTOCOMMIT)) {
		edit_decide_search(edit);
		return search(edit, sequence, input);
	}
	edit->none = edit->asks = true;
	return write_now(edit);
}

enum edit_outcome edit_next(struct edit *edit, struct sequence *sequence,
			    const struct sequence_input *input, struct packet *reply)
{
	if (edit->more) {
		edit->more = false;
		return edit->next < edit->ids.length ? next_document(edit) : EDIT_REJECTED;
	}
	switch ((enum edit_step)edit->step) {
	case STEP_BEGIN:
		return begin(edit, sequence, input);
	case STEP_SEARCH:
		return take_search(edit, sequence, input, reply);
	case STEP_SEARCH_BY_OVERFLOW:
		return take_hits(edit, sequence, input, reply);
	case STEP_KILL:
		return search_all(edit, sequence, input);
	case STEP_WRITE:
		return take_write(edit, sequence, input, reply);
	case STEP_WORDS:
		edit_take_words(edit, reply);
		return done(edit);
	case STEP_LOOK:
		return take_look(edit, sequence, input, reply);
	case STEP_SETTLE:
		return take_settle(edit, sequence, input, reply);
	case STEP_PROBE:
		return take_probe(edit, sequence, input, reply);
	case STEP_FETCH:
		return fetch_on(edit, sequence, input, reply);
	case STEP_FOLD:
		return take_fold(edit, sequence, input, reply);
	case STEP_PAUSED:
		return look(edit, sequence, input);
	}
	require(!"a step of another part");
}
