/* What an edit does if it can't go on: it tries again, fails or refuses. */
#include "rules/edit/edit_inner.h"

#include "rules/reassembly/raised.h"
#include "rules/rule/id_text.h"
#include "rules/rule/names.h"
#include "rules/rule/state.h"

#include <stdio.h>
#include <stdlib.h>

#define PATIENCE 10000000 /* microseconds for which a write tries on, losing against others */
#define PAUSE_LEAST 5     /* milliseconds */
#define PAUSE_SPAN 46

bool edit_in_transaction(const struct edit *edit)
{
	return command_has(&edit->sequence->match.command, FIELD_AUTOCOMMIT);
}

enum edit_outcome edit_refuse(struct edit *edit, enum error_code code, const char *message)
{
	edit->end.code = code;
	edit->end.message = message;
	return EDIT_REFUSED;
}

/* mongod's text would quote a command that the client has not sent. */
enum edit_outcome edit_refuse_unauthorized(struct edit *edit)
{
	return edit_refuse(edit, ERROR_UNAUTHORIZED,
			   "the user may not read what this write needs: the collection and the "
			   "array's overflow");
}

enum edit_outcome edit_refuse_unnamed(struct edit *edit)
{
	return edit_refuse(edit, ERROR_COMMAND_NOT_SUPPORTED,
			   "under a collation, a document whose _id holds a symbol, a text in an "
			   "array or a text that no path leads to can't be named exactly");
}

enum edit_outcome edit_refuse_unreadable(struct edit *edit)
{
	return edit_refuse(edit, ERROR_WRITE_CONFLICT, "the server's reply can't be read");
}

enum edit_outcome edit_refuse_memory(struct edit *edit, const char *message)
{
	return edit_refuse(edit, ERROR_TEMPORARILY_UNAVAILABLE, message);
}

enum edit_outcome edit_refuse_time(struct edit *edit)
{
	return edit_refuse(edit, ERROR_MAX_TIME_EXPIRED, "operation exceeded time limit");
}

static enum edit_outcome refuse_damaged(struct edit *edit, enum error_code code,
					const char *message)
{
	free(edit->end.told);
	edit->end.told = must_strndup(message, strlen(message));
	return edit_refuse(edit, code, edit->end.told);
}

enum edit_outcome edit_refuse_state(struct edit *edit, bool foreign)
{
	char message[RAISED_MESSAGE];

	snprintf(message, sizeof(message), "the document with %s: %s", id_text(&edit->id).text,
		 foreign ? "its array is split under a rule that the configuration no longer has"
			 : RAISED_DAMAGED_WORDS);
	return refuse_damaged(edit, foreign ? ERROR_COMMAND_NOT_SUPPORTED : ERROR_DATA_CORRUPTION,
			      message);
}

/* ---- races ---- */

/* mongod tries a write again for as long as it takes. Spillway does so for some seconds. What a
 * transaction sees does not change, so a few rounds must do there. */
bool edit_may_try_on(struct edit *edit)
{
	if (edit->race.rounds++ == 0)
		edit->race.since = edit->input->now;
	return edit->race.rounds < EDIT_ROUNDS_LEAST ||
	       (!edit_in_transaction(edit) && edit->input->now - edit->race.since < PATIENCE);
}

bool edit_tries_at_once(struct edit *edit)
{
	return edit->race.rounds < EDIT_ROUNDS_LEAST && edit_may_try_on(edit);
}

enum edit_outcome edit_pause(struct edit *edit)
{
	if (!edit_may_try_on(edit))
		return edit_refuse(
			edit, ERROR_WRITE_CONFLICT,
			edit_in_transaction(edit)
				? "another writer changed the array while this transaction was "
				  "open; nothing was applied, run the transaction again"
				: "other writers kept changing the array for ten seconds; nothing "
				  "was applied, try again");
	edit->step = STEP_PAUSED;
	edit->sequence->pause = PAUSE_LEAST + arc4random_uniform(PAUSE_SPAN);
	return EDIT_PAUSE;
}

static bool names_same(struct bytes document, const struct element *id)
{
	struct element other;

	return document_find(document, "_id", &other) &&
	       bytes_equal(element_raw(&other), element_raw(id));
}

/* Its array can't be put together any more: what sets it anew needs nothing of it. */
static enum edit_outcome take_lost(struct edit *edit)
{
	char message[RAISED_MESSAGE];

	if (edit_sets_another(edit, true))
		return edit_set_whole(edit);
	snprintf(message, sizeof(message), "the document with %s: %s; nothing was applied",
		 id_text(&edit->id).text, RAISED_LOST_WORDS);
	return refuse_damaged(edit, ERROR_DATA_CORRUPTION, message);
}

/* A rewrite shows in another generation at the next look. If that is the same, it stood all the
 * time, and its overflow was removed. */
enum edit_outcome edit_take_shortage(struct edit *edit)
{
	struct element states;

	if (!document_find(buffer_view(&edit->kept), NAME_STATE, &states))
		return edit_pause(edit);
	if (edit->short_before.length > 0 &&
	    states_stand(edit->namespace, buffer_view(&edit->short_before),
			 buffer_view(&edit->kept)) &&
	    names_same(buffer_view(&edit->short_before), &edit->id))
		return take_lost(edit);
	edit->short_before.length = 0;
	buffer_append(&edit->short_before, edit->kept.data, edit->kept.length);
	return edit_pause(edit);
}

/* ---- the server's errors ---- */

enum edit_outcome edit_fail(struct edit *edit, struct packet *reply)
{
	packet_fini(&edit->end.reply);
	edit->end.reply = packet_steal(reply);
	return EDIT_FAILED;
}

/* An error of the server's state, not of what was asked: the driver may try again. */
static bool is_passing(const struct packet *reply)
{
	struct element labels;

	return !reply->summary.readable || sequence_ends_all(reply->summary.code) ||
	       document_find(reply->message.body, "errorLabels", &labels);
}

bool edit_keep_failure(struct edit *edit, struct packet *reply, enum edit_outcome *outcome)
{
	char message[RAISED_MESSAGE];
	const char *outgrown = raised_outgrown(&reply->summary);
	enum error_code code;

	if (reply_is_unauthorized(reply)) {
		*outcome = edit_refuse_unauthorized(edit);
	} else if (raised_tell(&reply->summary, message, &code)) {
		*outcome = refuse_damaged(edit, code, message);
	} else if (outgrown) {
		*outcome = edit_refuse(edit, ERROR_OBJECT_TOO_LARGE, outgrown);
	} else if (is_passing(reply)) {
		*outcome = edit_fail(edit, reply);
	} else {
		packet_fini(&edit->end.failure);
		edit->end.failure = packet_steal(reply);
		return true;
	}
	return false;
}

int64_t edit_error_code(const struct reply_summary *summary)
{
	struct cursor cursor;
	struct element error, code;
	int64_t number;

	if (!summary->ok)
		return summary->code;
	return summary->write_errors.length > 0 && cursor_open(&cursor, summary->write_errors) &&
			       cursor_next(&cursor, &error) == CURSOR_ELEMENT &&
			       error.type == BSON_BYTE_DOCUMENT &&
			       document_find(error.value, "code", &code) &&
			       element_integer(&code, &number)
		       ? number
		       : 0;
}

int32_t edit_cause_code(const struct edit *edit)
{
	return (int32_t)edit_error_code(&edit->end.failure.summary);
}

struct bytes edit_cause(const struct edit *edit)
{
	static const char marker[] = " :: caused by :: ";
	const struct reply_summary *summary = &edit->end.failure.summary;
	struct bytes text = summary->message;
	struct element first;
	const uint8_t *at;

	if (!text.data && summary->write_errors.length > 0 &&
	    document_find_path(summary->write_errors, "0.errmsg", &first))
		(void)!element_string(&first, &text);
	if (!text.data)
		return bytes_of("");
	at = memmem(text.data, text.length, marker, strlen(marker));
	if (!at)
		return text;
	at += strlen(marker);
	return (struct bytes){at, text.length - (size_t)(at - text.data)};
}
