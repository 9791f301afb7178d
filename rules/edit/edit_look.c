/* E1: the document at work, and the cheapest exact way on if its array is spilled. */
#include "rules/edit/edit_inner.h"

#include "rules/reassembly/raised.h"

#define SWAPS_MAX 2 /* rounds in which a check-and-set is tried */

static enum edit_outcome swap(struct edit *edit)
{
	edit->sent.purpose = EDIT_SWAPS;
	edit->sent.upsert = false;
	edit->step = STEP_WRITE;
	return EDIT_WRITE;
}

enum edit_outcome edit_set_whole(struct edit *edit)
{
	edit->sent.update = (struct element){0};
	edit_write_whole(edit);
	return swap(edit);
}

/* ---- PROBE ---- */

/* Overflow documents that have the value. */
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

/* One of the last overflow documents ends at the place up to which the state links, or behind it.
 * Whether documents before these are missing is not seen: to count all would take as long as to
 * read them. */
static bool reaches_end(const struct edit *edit, struct bytes answer)
{
	int64_t linked = edit_moved_count(edit, edit->target);
	struct element ends, end;
	struct cursor cursor;

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

/* Whether the value is in the overflow. False: `*outcome` says what is done instead. */
static bool judge_probe(struct edit *edit, struct bytes answer, bool *found,
			enum edit_outcome *outcome)
{
	if (!edit_probes_edition(edit)) {
		*found = has_hit(answer);
		if (*found || reaches_end(edit, answer))
			return true;
		*outcome = edit_take_shortage(edit);
		return false;
	}
	switch (edit_take_probe_of_edition(edit, answer)) {
	case EDIT_PROBED_FOUND:
		*found = true;
		return true;
	case EDIT_PROBED_MISSING:
		*found = false;
		return true;
	case EDIT_PROBED_UNSURE:
		*outcome = edit_begin_fold(edit);
		return false;
	case EDIT_PROBED_SHORT:
		break;
	}
	*outcome = edit_take_shortage(edit);
	return false;
}

/* The value is there: a guard's condition does not hold, and a set has the value already. */
enum edit_outcome edit_take_probe(struct edit *edit, struct packet *reply)
{
	enum edit_outcome outcome;
	struct element document;
	struct cursor cursor;
	bool found;

	if (!edit_open_batch(edit, reply, &cursor, &outcome))
		return outcome;
	found = cursor_next(&cursor, &document) == CURSOR_ELEMENT &&
		document.type == BSON_BYTE_DOCUMENT;
	if (found && !judge_probe(edit, document.value, &found, &outcome))
		return outcome;
	edit->sent.update = (struct element){0};
	if (found && edit->facts.reads)
		return edit_take_none(edit);
	if (found)
		require(document_find(buffer_view(&edit->membership.without), "u",
				      &edit->sent.update));
	edit_write_probed(edit);
	return swap(edit);
}

/* ---- SETTLE ---- */

enum edit_outcome edit_take_settle(struct edit *edit, struct packet *reply)
{
	char message[RAISED_MESSAGE];
	enum edit_outcome outcome;
	struct element document, id;
	struct cursor cursor;
	enum error_code code;

	if (raised_died(&reply->summary))
		return edit_take_shortage(edit);
	/* It was edited in place since LOOK. */
	if (!reply->summary.ok && raised_tell(&reply->summary, message, &code) &&
	    code == ERROR_OBJECT_TOO_LARGE)
		return edit_pause(edit);
	if (reply->summary.code == ERROR_OBJECT_TOO_LARGE && !edit_in_transaction(edit) &&
	    edit_may_place(edit)) {
		edit->place.tried = true;
		return edit_begin_place(edit);
	}
	if (!edit_open_batch(edit, reply, &cursor, &outcome))
		return outcome;
	if (cursor_next(&cursor, &document) != CURSOR_ELEMENT)
		return edit_take_none(edit);
	if (!document_find(document.value, "_id", &id) || !edit_can_pin(edit, &id))
		return edit_refuse_unnamed(edit);
	if (edit->facts.swaps && edit->race.rounds < SWAPS_MAX &&
	    document.type == BSON_BYTE_DOCUMENT && edit_keep_settled(edit, document.value)) {
		edit_write_swap(edit);
		return swap(edit);
	}
	return edit_begin_fold(edit);
}

/* ---- LOOK ---- */

/* mongod puts no such array together: SETTLE would have to refuse what can be folded back. */
static bool has_edited(const struct edit *edit)
{
	struct element state;

	for (size_t i = 0; i < edit->namespace->target_count; i++)
		if (edit->concerned[i] && edit_state_of(edit, i, &state) && state_is_edited(&state))
			return true;
	return false;
}

/* An array that is too large for SETTLE would end the client's transaction. */
static bool settles_no_more(struct edit *edit)
{
	return edit_in_transaction(edit) && edit_may_place(edit);
}

/* A check-and-set that lost its race gives way to folding back. */
static enum edit_outcome take_spilled(struct edit *edit)
{
	if (edit->write.denied)
		return edit_refuse_unauthorized(edit);
	if (edit_sets_another(edit, false))
		return edit_set_whole(edit);
	if (edit->membership.known && edit->race.rounds < SWAPS_MAX &&
	    (edit_has_head(edit, edit->target) || edit_probes_edition(edit))) {
		edit->step = STEP_PROBE;
		return edit_send_probe(edit);
	}
	if (has_edited(edit) && !edit->place.tried && edit_may_place(edit))
		return edit_begin_place(edit);
	if (!edit->facts.reads || !edit->facts.settles || has_edited(edit) || settles_no_more(edit))
		return edit_begin_fold(edit);
	edit->step = STEP_SETTLE;
	return edit_send_settle(edit);
}

enum edit_outcome edit_take_look(struct edit *edit, struct packet *reply)
{
	enum edit_outcome outcome;
	struct element document, id;
	struct cursor cursor;

	if (!edit_open_batch(edit, reply, &cursor, &outcome))
		return outcome;
	if (cursor_next(&cursor, &document) != CURSOR_ELEMENT)
		return edit_take_none(edit);
	if (document.type != BSON_BYTE_DOCUMENT || !document_find(document.value, "_id", &id))
		return edit_refuse_unreadable(edit);
	if (!edit_keep_document(edit, document.value))
		return edit_refuse_unnamed(edit);
	edit->place.tried = false;
	if (edit_is_spilled(edit, document.value))
		return take_spilled(edit);
	edit->sent.upsert = false;
	return edit_tries_at_once(edit) ? edit_write(edit, EDIT_GUARDED) : edit_pause(edit);
}
