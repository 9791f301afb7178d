/* One write for which a ruled array has to be whole: asks, folds the array back, asks again. */
#include "rules/edit/edit_inner.h"

#include "rules/reassembly/raised.h"

#include <stdlib.h>

void edit_fini(struct edit *edit)
{
	fetch_fini(&edit->fetch);
	edit_place_fini(&edit->place);
	free(edit->concerned);
	membership_fini(&edit->membership);
	probe_fini(&edit->search.probe);
	buffer_fini(&edit->list.ids);
	buffer_fini(&edit->kept);
	buffer_fini(&edit->short_before);
	buffer_fini(&edit->empty);
	buffer_fini(&edit->bare);
	buffer_fini(&edit->sent.filter);
	buffer_fini(&edit->sent.whole);
	packet_fini(&edit->end.reply);
	packet_fini(&edit->end.failure);
	free(edit->end.told);
	*edit = (struct edit){0};
}

size_t edit_memory(const struct edit *edit)
{
	return edit->list.ids.capacity + edit->kept.capacity + edit->short_before.capacity +
	       edit->bare.capacity + edit->sent.filter.capacity + edit->end.reply.raw.capacity +
	       edit->search.probe.named.capacity + edit->search.probe.generations.capacity +
	       edit->fetch.kept_bytes + edit_place_memory(&edit->place);
}

static bool out_of_time(const struct edit *edit)
{
	return sequence_time_left(edit->sequence, edit->input) == 0;
}

/* ---- E0 ---- */

enum edit_outcome edit_write(struct edit *edit, enum edit_purpose purpose)
{
	edit->sent.purpose = purpose;
	edit->sent.update = (struct element){0};
	edit_write_filter(edit);
	edit->step = STEP_WRITE;
	return EDIT_WRITE;
}

static enum edit_outcome write_unmatched(struct edit *edit)
{
	edit->sent.upsert = edit->write.upsert;
	return edit_write(edit, EDIT_UNMATCHED);
}

static enum edit_outcome search(struct edit *edit)
{
	if (out_of_time(edit))
		return edit_refuse_time(edit);
	edit->step = edit->search.by_overflow ? STEP_SEARCH_BY_OVERFLOW : STEP_SEARCH;
	edit->named = EDIT_FOUND;
	edit->list.ids.length = edit->list.next = 0; /* of a list that broke off nothing stays */
	edit->bare.length = 0;
	return edit->search.by_overflow ? edit_search_by_overflow(edit) : edit_send_search(edit);
}

static enum edit_outcome look(struct edit *edit)
{
	if (out_of_time(edit))
		return edit_refuse_time(edit);
	if (edit->id.type == 0)
		return search(edit);
	edit->step = STEP_LOOK;
	return edit_send_look(edit);
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

/* mongod's answer stands. */
static enum edit_outcome done(struct edit *edit)
{
	if (edit->named != EDIT_LISTED ||
	    (edit->list.next == edit->list.ids.length && edit->end.failure.raw.length == 0))
		return EDIT_DONE;
	edit->step = STEP_NEXT;
	return EDIT_PART;
}

static enum edit_outcome take_matched_none(struct edit *edit)
{
	switch (edit->sent.purpose) {
	case EDIT_GUARDED:
		return look(edit);
	case EDIT_SWAPS:
		return edit_pause(edit);
	case EDIT_ASKS:
		return search(edit);
	case EDIT_REFUSES:
		packet_fini(&edit->end.reply);
		edit->end.reply = packet_steal(&edit->end.failure);
		return edit->end.reply.raw.length > 0 ? EDIT_FAILED : EDIT_REFUSED;
	case EDIT_TOGETHER:
	case EDIT_UNMATCHED:
		break;
	}
	return edit->end.failure.raw.length > 0 ? EDIT_REJECTED : done(edit);
}

static enum edit_outcome ask_words(struct edit *edit)
{
	edit->step = STEP_WORDS;
	return edit_send_words(edit);
}

static enum edit_outcome take_write(struct edit *edit, struct packet *reply)
{
	const struct reply_summary *summary = &edit->end.reply.summary;

	packet_fini(&edit->end.reply);
	edit->end.reply = packet_steal(reply);
	if (!summary->readable)
		return EDIT_FAILED;
	/* The retry of a statement that inserted: history wants to be asked by an upsert. */
	if (summary->code == ERROR_RETRY_OF_ANOTHER_KIND && edit->write.upsert &&
	    !edit->sent.upsert)
		return write_unmatched(edit);
	if (edit_tell_forged(edit))
		return done(edit);
	if (edit_words_wanted(edit))
		return ask_words(edit);
	if (edit->sent.upsert && edit_error_code(summary) == ERROR_DUPLICATE_KEY &&
	    !edit_in_transaction(edit))
		return look(edit);
	if (!summary->ok || !matched_none(edit->end.reply.message.body, summary))
		return done(edit);
	return take_matched_none(edit);
}

static enum edit_outcome take_together(struct edit *edit, struct packet *reply)
{
	packet_fini(&edit->end.reply);
	edit->end.reply = packet_steal(reply);
	if (!edit->end.reply.summary.readable)
		return EDIT_FAILED;
	if (!edit->end.reply.summary.ok)
		return done(edit);
	if (!edit_take_together(edit)) {
		packet_fini(&edit->end.reply);
		return edit_refuse_unreadable(edit);
	}
	return !edit_tell_forged(edit) && edit_words_wanted(edit) ? ask_words(edit) : done(edit);
}

/* ---- which documents ---- */

static enum edit_outcome next_document(struct edit *edit)
{
	struct edit_list *list = &edit->list;
	struct bytes left = {list->ids.data + list->next, list->ids.length - list->next}, document;

	require(message_next_document(&left, &document) &&
		document_find(document, "_id", &edit->id));
	list->next += document.length;
	if (edit->named == EDIT_LISTED)
		edit->race.rounds = 0;
	edit->sent.upsert = false;
	edit->bare.length = 0;
	return edit_write(edit, EDIT_GUARDED);
}

static enum edit_outcome next_documents(struct edit *edit)
{
	if (!edit_gather(edit))
		return next_document(edit);
	edit->sent.purpose = EDIT_TOGETHER;
	edit->sent.update = (struct element){0};
	edit->sent.upsert = false;
	edit->step = STEP_TOGETHER;
	return EDIT_WRITE;
}

/* Of the first `most` documents. */
static bool keep_ids(struct edit *edit, struct cursor *cursor, size_t most)
{
	bool whole = !edit->search.by_overflow || !edit->search.probe.light;
	struct element document, id;

	while (most-- > 0 && cursor_next(cursor, &document) == CURSOR_ELEMENT) {
		if (document.type != BSON_BYTE_DOCUMENT ||
		    !document_find(document.value, "_id", &id) || !edit_can_pin(edit, &id))
			return false;
		edit_list_document(edit, document.value, whole);
	}
	return true;
}

/* The list is complete. */
static enum edit_outcome begin_documents(struct edit *edit)
{
	edit->named = edit->write.many ? EDIT_LISTED : EDIT_FOUND;
	if (edit->list.ids.length > 0)
		return next_documents(edit);
	if (edit->sent.upsert) /* it met a duplicate, and that stands */
		return done(edit);
	return write_unmatched(edit);
}

/* The server's error to a read. If the filter itself causes the error, the write is asked, too: it
 * may say the same in its own words. */
static enum edit_outcome fail_read(struct edit *edit, struct packet *reply)
{
	enum edit_outcome outcome;

	if (!edit_keep_failure(edit, reply, &outcome))
		return outcome;
	/* mongod has written the documents before that one. In a transaction the failure undoes
	 * them. */
	if (edit->step == STEP_SEARCH && edit->list.ids.length > 0 && !edit_in_transaction(edit)) {
		edit->named = EDIT_LISTED;
		return next_documents(edit);
	}
	if (edit->end.reply.raw.length > 0)
		return EDIT_REJECTED;
	edit->sent.upsert = false;
	return edit_write(edit, EDIT_UNMATCHED);
}

bool edit_open_batch(struct edit *edit, struct packet *reply, struct cursor *cursor,
		     enum edit_outcome *outcome)
{
	struct reply_cursor read;

	if (!reply->summary.ok) {
		*outcome = fail_read(edit, reply);
		return false;
	}
	*outcome = edit_refuse_unreadable(edit);
	read = reply_read_cursor(reply->summary.cursor);
	return element_integer(&read.id, &edit->search.cursor_id) && read.batch.data &&
	       cursor_open(cursor, read.batch);
}

static enum edit_outcome take_search(struct edit *edit, struct packet *reply)
{
	enum edit_outcome outcome;
	struct cursor cursor;

	if (raised_died(&reply->summary)) {
		edit->search.damage = REASSEMBLE_LOOKS; /* tells a rewrite from damage */
		return edit_pause(edit);
	}
	if (!edit_open_batch(edit, reply, &cursor, &outcome))
		return outcome;
	if (!keep_ids(edit, &cursor, SIZE_MAX))
		return edit_refuse_unnamed(edit);
	if (writer_full(&edit->list.ids)) /* what comes behind is left out of it */
		return edit_refuse(edit, ERROR_OBJECT_TOO_LARGE,
				   "the list of the documents that this statement writes passes "
				   "256 MB; write fewer documents by one statement");
	if (edit->input->memory_short)
		return edit_refuse_memory(edit, "no memory is left for the list of documents "
						"(limits.memory); try again later");
	if (edit->search.cursor_id != 0)
		return edit_send_get_more(edit);
	return begin_documents(edit);
}

static enum edit_outcome search_all(struct edit *edit)
{
	edit->search.by_overflow = false;
	return search(edit);
}

static enum edit_outcome take_hits(struct edit *edit, struct packet *reply)
{
	struct cursor cursor;
	struct bytes batch;
	size_t documents;

	if (raised_died(&reply->summary)) {
		edit->search.damage = REASSEMBLE_LOOKS; /* tells a rewrite from damage */
		return edit_pause(edit);
	}
	switch (edit_take_hits(edit, reply, &batch, &documents)) {
	case EDIT_HITS_FOUND:
		break;
	case EDIT_HITS_AGAIN:
		return search(edit);
	case EDIT_HITS_KILL:
		edit->step = STEP_KILL;
		return edit_send_kill(edit);
	case EDIT_HITS_ALL:
		return search_all(edit);
	case EDIT_HITS_FAILED:
		return fail_read(edit, reply);
	}
	require(cursor_open(&cursor, batch));
	return keep_ids(edit, &cursor, documents) ? begin_documents(edit)
						  : edit_refuse_unnamed(edit);
}

/* What made a pinned document match no longer may have been another attempt at this very statement,
 * which a driver has sent again: history has the answer by now. Or a write that may yet be rolled
 * back: the answer waits for the write concern. In a transaction neither can be. */
enum edit_outcome edit_take_none(struct edit *edit)
{
	switch (edit->named) {
	case EDIT_PINNED:
		if (edit->write.upsert && !edit->sent.upsert) {
			edit->sent.upsert = true;
			return edit_write(edit, EDIT_GUARDED);
		}
		return edit->sent.upsert || edit_in_transaction(edit) ? done(edit)
								      : write_unmatched(edit);
	case EDIT_LISTED:
		return done(edit);
	case EDIT_FOUND:
		break;
	}
	edit->id = (struct element){0};
	return edit_tries_at_once(edit) ? search(edit) : edit_pause(edit);
}

/* ---- the story ---- */

static enum edit_outcome begin(struct edit *edit)
{
	if (edit_in_transaction(edit)) /* an error of the search is its end */
		edit->search.damage = REASSEMBLE_LOOKS;
	if (edit->named == EDIT_PINNED)
		return edit_write(edit, EDIT_GUARDED);
	if (edit_in_transaction(edit))
		return edit_write(edit, EDIT_ASKS);
	edit_decide_search(edit);
	return search(edit);
}

/* A search that can't go on may stand behind an attempt that has changed what it looks for: the
 * driver has lost that attempt's reply. (It repeats the write by itself if the server's state
 * causes the error.) */
static bool may_have_history(const struct edit *edit, enum edit_outcome outcome)
{
	const struct reply_summary *failure = &edit->end.reply.summary;

	return !edit->sent.any && !edit_in_transaction(edit) &&
	       command_has(&edit->sequence->match.command, FIELD_TXN_NUMBER) &&
	       (outcome == EDIT_REFUSED ||
		(outcome == EDIT_FAILED && failure->code == ERROR_MAX_TIME_EXPIRED));
}

static enum edit_outcome ask_history(struct edit *edit)
{
	edit->end.failure = packet_steal(&edit->end.reply);
	edit->sent.upsert = false;
	return edit_write(edit, EDIT_REFUSES);
}

static enum edit_outcome take(struct edit *edit, struct packet *reply)
{
	switch (edit->step) {
	case STEP_BEGIN:
		return begin(edit);
	case STEP_SEARCH:
		return take_search(edit, reply);
	case STEP_SEARCH_BY_OVERFLOW:
		return take_hits(edit, reply);
	case STEP_KILL:
		return search_all(edit);
	case STEP_WRITE:
		return take_write(edit, reply);
	case STEP_WORDS:
		edit_take_words(edit, reply);
		return done(edit);
	case STEP_TOGETHER:
		return take_together(edit, reply);
	case STEP_NEXT:
		return edit->list.next < edit->list.ids.length ? next_documents(edit)
							       : EDIT_REJECTED;
	case STEP_LOOK:
		return edit_take_look(edit, reply);
	case STEP_PROBE:
		return edit_take_probe(edit, reply);
	case STEP_SETTLE:
		return edit_take_settle(edit, reply);
	case STEP_FETCH:
		return edit_take_overflow(edit, reply);
	case STEP_FOLD:
		return edit_take_fold(edit, reply);
	case STEP_PLACE:
		return edit_take_place(edit, reply);
	case STEP_PAUSED:
		return look(edit);
	}
	require(!"a step of another part");
}

enum edit_outcome edit_next(struct edit *edit, const struct sequence_input *input,
			    struct packet *reply)
{
	enum edit_outcome outcome;

	edit->input = input;
	outcome = take(edit, reply);
	if (may_have_history(edit, outcome))
		outcome = ask_history(edit);
	edit->sent.any = edit->sent.any || outcome == EDIT_WRITE;
	return outcome;
}
