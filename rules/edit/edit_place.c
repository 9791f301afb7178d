/* An edit in place: what X1 asks and takes, and what comes behind it. */
#include "rules/edit/edit_inner.h"

#include "rules/query/filter_split.h"
#include "rules/query/reads.h"
#include "rules/rule/counts.h"
#include "rules/rule/own_fields.h"

void edit_place_fini(struct edit_place *place)
{
	place_update_fini(&place->update);
	probe_fini(&place->condition);
	buffer_fini(&place->main);
	packet_fini(&place->listed);
	buffer_fini(&place->batches);
	buffer_fini(&place->pieces);
	buffer_fini(&place->copies);
	buffer_fini(&place->marked);
	*place = (struct edit_place){0};
}

size_t edit_place_memory(const struct edit_place *place)
{
	return place->main.capacity + place->listed.raw.capacity + place->batches.capacity +
	       place->pieces.capacity + place->copies.capacity + place->marked.capacity;
}

/* ---- the end of X1 ---- */

/* The state has a pending edit's name, which the transaction has replaced by its own. */
static bool was_pending(const struct edit *edit)
{
	struct state read;

	return edit_read_state(edit, edit->target, &read) && read.pending.data;
}

static enum edit_outcome end(struct edit *edit)
{
	edit->sequence->end.holds = false;
	switch (edit->place.end) {
	case PLACE_COUNTS:
		return edit_write_placed(edit, true);
	case PLACE_STANDS:
		return edit_write_placed(edit, false);
	case PLACE_UNMEANT:
		return edit_take_none(edit);
	case PLACE_FITS:
		return edit_begin_fold(edit);
	case PLACE_LOSES:
		return edit_pause(edit);
	case PLACE_LACKS:
		return edit_take_shortage(edit);
	case PLACE_REJECTS:
		return EDIT_REJECTED;
	case PLACE_FAILS:
		return EDIT_FAILED;
	case PLACE_REFUSES:
		return EDIT_REFUSED;
	}
	require(!"an end of an edit in place without a name");
}

/* In the client's own transaction: what goes on leaves the array as it was met. What ends here ends
 * that transaction, too. */
static enum edit_outcome leave_inside(struct edit *edit)
{
	switch (edit->place.end) {
	case PLACE_STANDS:
	case PLACE_UNMEANT:
	case PLACE_FITS:
	case PLACE_LACKS:
		return edit_send_restore(edit);
	case PLACE_COUNTS:
	case PLACE_LOSES:
	case PLACE_REJECTS:
	case PLACE_FAILS:
	case PLACE_REFUSES:
		break;
	}
	return end(edit);
}

static enum edit_outcome leave(struct edit *edit, enum place_end end)
{
	edit->place.end = end;
	if (edit_in_transaction(edit))
		return leave_inside(edit);
	return end == PLACE_COUNTS ? edit_send_commit(edit) : edit_send_abort(edit);
}

static enum edit_outcome refuse(struct edit *edit, enum error_code code, const char *message)
{
	(void)edit_refuse(edit, code, message);
	return leave(edit, PLACE_REFUSES);
}

/* ---- errors ---- */

static bool lost(int64_t code)
{
	return code == ERROR_WRITE_CONFLICT || code == ERROR_DUPLICATE_KEY ||
	       code == ERROR_LOCK_TIMEOUT || code == ERROR_NO_SUCH_TRANSACTION ||
	       code == ERROR_SNAPSHOT_UNAVAILABLE;
}

/* Any error has ended the transaction; it is ended once more, in case it was none of mongod's. The
 * client's own is not run again here. */
static enum edit_outcome take_error(struct edit *edit, struct packet *reply, int64_t code)
{
	if (lost(code) && !edit_in_transaction(edit))
		return leave(edit, PLACE_LOSES);
	if (code == ERROR_DUPLICATE_KEY)
		return refuse(edit, ERROR_WRITE_CONFLICT,
			      "another edit has taken the numbers of this one's copies; nothing "
			      "was applied, run the transaction again");
	if (code == ERROR_ILLEGAL_OPERATION && edit->place.step == PLACE_HOLD)
		return refuse(edit, ERROR_OBJECT_TOO_LARGE,
			      EDIT_TOO_LARGE
			      "; to edit it in place takes a transaction, and this server is no "
			      "member of a replica set");
	if (code == ERROR_UNAUTHORIZED)
		return refuse(edit, ERROR_OBJECT_TOO_LARGE,
			      EDIT_TOO_LARGE
			      "; to edit it in place, the user has to be allowed to write the "
			      "array's overflow");
	if (code == ERROR_OBJECT_TOO_LARGE || code == ERROR_BSON_OBJECT_TOO_LARGE_TO_UPDATE)
		return refuse(edit, ERROR_OBJECT_TOO_LARGE, "a part of the array would pass 16 MB");
	if (code == ERROR_DOCUMENT_VALIDATION_FAILURE)
		return refuse(edit, ERROR_COMMAND_NOT_SUPPORTED,
			      "a validator refuses to have the array edited in place");
	if (edit->place.step == PLACE_APPLY && reply->summary.ok) {
		packet_fini(&edit->end.failure);
		edit->end.failure = packet_steal(reply);
		return leave(edit, PLACE_REJECTS);
	}
	(void)edit_fail(edit, reply);
	return leave(edit, PLACE_FAILS);
}

/* The transaction may stand or not. */
static enum edit_outcome end_commit(struct edit *edit, struct packet *reply, int64_t code)
{
	if (lost(code)) {
		edit->place.end = PLACE_LOSES;
	} else {
		(void)edit_fail(edit, reply);
		edit->place.end = PLACE_FAILS;
	}
	return end(edit);
}

/* ---- HOLD to TILES ---- */

static enum edit_outcome unreadable(struct edit *edit)
{
	return refuse(edit, ERROR_WRITE_CONFLICT, "the server's reply on the array can't be read");
}

/* The time that $currentDate stands for. */
static bool keep_time(struct edit *edit)
{
	struct element *now = &edit->place.update.now;

	return document_find(buffer_view(&edit->place.main), "now", now) &&
	       now->type == BSON_BYTE_DATE;
}

static enum edit_outcome take_hold(struct edit *edit, const struct packet *reply)
{
	struct element value, collated, part;

	if (!document_find(reply->message.body, "value", &value) ||
	    value.type != BSON_BYTE_DOCUMENT)
		return leave(edit, PLACE_LOSES);
	if (edit->write.collation.type == 0 && document_find(value.value, "collated", &collated) &&
	    element_truth(&collated))
		return refuse(edit, ERROR_OBJECT_TOO_LARGE,
			      EDIT_TOO_LARGE
			      "; in a collection with a default collation, an edit in place needs "
			      "the collation in the command");
	if (!document_find(value.value, "head", &part) ||
	    !document_find(value.value, "tail", &part))
		return unreadable(edit);
	edit->place.main.length = 0;
	buffer_append(&edit->place.main, value.value.data, value.value.length);
	if (edit->place.update.dated && !keep_time(edit))
		return unreadable(edit);
	return was_pending(edit) ? edit_send_clean(edit) : edit_send_tiles(edit);
}

/* ---- which elements are meant ---- */

/* Nothing in the array changes, as long as it is what X1 has met. */
static enum edit_outcome stand(struct edit *edit)
{
	edit->place.aim.measured = true;
	edit->place.after.total = -1;
	return leave(edit, PLACE_STANDS);
}

static enum edit_outcome aim_pop(struct edit *edit)
{
	place_aim_pop(edit);
	switch (edit->place.aim.where) {
	case PLACE_NOWHERE:
		return stand(edit);
	case PLACE_IN_BATCH:
		return edit_send_lowest(edit);
	default:
		return leave(edit, PLACE_COUNTS);
	}
}

static enum edit_outcome aim(struct edit *edit)
{
	switch (edit->place.update.kind) {
	case PLACE_FIRST:
	case PLACE_LAST:
		return aim_pop(edit);
	case PLACE_AT:
		place_aim(edit);
		break;
	case PLACE_MATCHED:
		edit->place.aim.where = PLACE_IN_HEAD;
		break;
	case PLACE_EACH:
		break;
	}
	return edit_send_lowest(edit);
}

static enum edit_outcome take_lengths(struct edit *edit, const struct packet *reply)
{
	switch (place_measure(edit, reply)) {
	case PLACE_LISTED:
		return edit->facts.reads && edit->place.update.kind != PLACE_MATCHED
			       ? edit_send_ask_main(edit)
			       : aim(edit);
	case PLACE_LISTED_FITS:
		return leave(edit, PLACE_FITS);
	case PLACE_LISTED_HOLE:
		return leave(edit, PLACE_LACKS);
	case PLACE_LISTED_LONG:
		return refuse(
			edit, ERROR_OBJECT_TOO_LARGE,
			"the document that this command answers with passes 48,000,000 bytes; "
			"leave the array out of it (fields), or use an update");
	case PLACE_LISTED_BROKEN:
		break;
	}
	return unreadable(edit);
}

static enum edit_outcome insert(struct edit *edit);

/* `f.$` that is neither in the head nor in the overflow is in the tail, or nowhere. */
static enum edit_outcome ask_tail(struct edit *edit)
{
	edit->place.aim.where = PLACE_IN_TAIL;
	return place_length(edit, "tail") > 0 ? insert(edit) : leave(edit, PLACE_UNMEANT);
}

/* Behind ASK: of a batch that counts in part, another part may meet the condition. */
static enum edit_outcome go_on_asking(struct edit *edit, enum place_asked asked)
{
	bool matched = edit->place.update.kind == PLACE_MATCHED;

	if (asked == PLACE_ASKED_PART)
		return edit_send_ask_part(edit);
	if (matched)
		return asked == PLACE_ASKED_THERE ? edit_send_hits(edit) : ask_tail(edit);
	edit->place.aim = (struct place_aim){.where = PLACE_EVERYWHERE};
	return asked == PLACE_ASKED_THERE ? aim(edit) : leave(edit, PLACE_UNMEANT);
}

static enum edit_outcome take_ask(struct edit *edit, const struct packet *reply)
{
	if (!place_take_asked(edit, reply))
		return unreadable(edit);
	return go_on_asking(edit, place_ask_from(edit, 0));
}

static enum edit_outcome take_ask_part(struct edit *edit, const struct packet *reply)
{
	return go_on_asking(edit, place_found(reply)
					  ? PLACE_ASKED_THERE
					  : place_ask_from(edit, edit->place.aim.piece + 1));
}

/* ---- HITS to the end ---- */

/* Of what was copied before nothing is sent again. */
static enum edit_outcome insert(struct edit *edit)
{
	struct edit_place *place = &edit->place;
	size_t before = place->copies.length;

	place_copy_main(edit);
	place->scratch = place->scratch || place->copies.length > before;
	return place->copies.length == place->inserted ? stand(edit) : edit_send_copies(edit);
}

/* Where no batch is meant, none is read. */
static enum edit_outcome take_lowest(struct edit *edit, const struct packet *reply)
{
	struct edit_place *place = &edit->place;

	place->lowest = place_lowest(edit, reply);
	if (place->aim.where == PLACE_EVERYWHERE || place->aim.where == PLACE_IN_BATCH)
		return edit_send_hits(edit);
	return place->update.kind == PLACE_MATCHED && place->state.head == 0 ? edit_send_ask(edit)
									     : insert(edit);
}

static enum edit_outcome take_hits(struct edit *edit, const struct packet *reply)
{
	struct edit_place *place = &edit->place;

	if (!place_copy(edit, reply))
		return unreadable(edit);
	if (edit->input->memory_short)
		return refuse(edit, ERROR_TEMPORARILY_UNAVAILABLE,
			      "no memory is left for the parts of the array that this write "
			      "changes (limits.memory); try again later");
	if (place->copies.length > EDIT_COPIES_MOST)
		return refuse(edit, ERROR_OBJECT_TOO_LARGE,
			      EDIT_TOO_LARGE "; what it changes in place passes 48,000,000 bytes");
	return place->cursor_id != 0 ? edit_send_hits_on(edit) : insert(edit);
}

static enum edit_outcome discard(struct edit *edit)
{
	return edit->place.scratch ? edit_send_discard(edit) : leave(edit, PLACE_COUNTS);
}

/* Marks are changes, too. */
static enum edit_outcome take_apply(struct edit *edit, const struct packet *reply)
{
	struct edit_place *place = &edit->place;
	int64_t changed;

	if (!document_find_integer(reply->message.body, "nModified", &changed))
		return refuse(edit, ERROR_WRITE_CONFLICT, "the server's reply can't be read");
	if (place->update.kind == PLACE_MATCHED && reply->summary.n == 0)
		return place->aim.where == PLACE_IN_HEAD ? edit_send_ask(edit)
							 : leave(edit, PLACE_UNMEANT);
	if (changed == place->marks)
		return stand(edit);
	place->end = PLACE_COUNTS;
	place->after = (struct place_after){place->state.head, place->state.removed, -1};
	return place->update.removes ? edit_send_sizes(edit) : discard(edit);
}

static enum edit_outcome restore_copies(struct edit *edit)
{
	return edit->place.inserted > 0 ? edit_send_restore_copies(edit) : end(edit);
}

static enum edit_outcome take(struct edit *edit, struct packet *reply)
{
	struct edit_place *place = &edit->place;

	switch (place->step) {
	case PLACE_HOLD:
		return take_hold(edit, reply);
	case PLACE_CLEAN:
		return edit_send_unmark(edit);
	case PLACE_UNMARK:
		return edit_send_tiles(edit);
	case PLACE_TILES:
		return place_list(edit, reply) ? edit_send_lengths(edit) : unreadable(edit);
	case PLACE_LENGTHS:
		return take_lengths(edit, reply);
	case PLACE_ASK_MAIN:
		return place_found(reply) ? aim(edit) : edit_send_ask(edit);
	case PLACE_ASK:
		return take_ask(edit, reply);
	case PLACE_ASK_PART:
		return take_ask_part(edit, reply);
	case PLACE_LOWEST:
		return take_lowest(edit, reply);
	case PLACE_HITS:
		return take_hits(edit, reply);
	case PLACE_INSERT:
		return place->inserted < place->copies.length ? edit_send_copies(edit)
							      : edit_send_apply(edit);
	case PLACE_APPLY:
		return take_apply(edit, reply);
	case PLACE_SIZES:
		return place_take_sizes(edit, reply) ? discard(edit) : unreadable(edit);
	case PLACE_DISCARD:
		return leave(edit, PLACE_COUNTS);
	case PLACE_RESTORE:
		return place->marks > 0 ? edit_send_restore_marks(edit) : restore_copies(edit);
	case PLACE_RESTORE_MARKS:
		return restore_copies(edit);
	case PLACE_RESTORE_COPIES:
	case PLACE_COMMIT:
	case PLACE_ABORT:
		break;
	}
	return end(edit);
}

/* mongod ends a batch at 16 MB. HITS alone asks for more. */
static bool is_cut(const struct edit *edit, const struct packet *reply)
{
	struct reply_cursor cursor = reply_read_cursor(reply->summary.cursor);
	int64_t id;

	return edit->place.step != PLACE_HITS && element_integer(&cursor.id, &id) && id != 0;
}

enum edit_outcome edit_take_place(struct edit *edit, struct packet *reply)
{
	int64_t code = edit_error_code(&reply->summary);
	enum place_step step = edit->place.step;

	if (step == PLACE_ABORT) /* mongod may have ended it before */
		return end(edit);
	if (!reply->summary.readable) {
		(void)edit_fail(edit, reply);
		return leave(edit, PLACE_FAILS);
	}
	if (code != 0 && step == PLACE_COMMIT)
		return end_commit(edit, reply, code);
	if (code != 0)
		return take_error(edit, reply, code);
	if (step != PLACE_COMMIT && sequence_time_left(edit->sequence, edit->input) == 0)
		return refuse(edit, ERROR_MAX_TIME_EXPIRED, "operation exceeded time limit");
	if (is_cut(edit, reply))
		return refuse(edit, ERROR_OBJECT_TOO_LARGE,
			      EDIT_TOO_LARGE "; to edit it in place, the list of its overflow "
					     "documents may not pass 16 MB, either: let each hold "
					     "more elements (batch.size)");
	return take(edit, reply);
}

/* ---- its beginning ---- */

/* The filter's one condition on an array. False if there are several, or none; `*rest`: there are
 * conditions on other fields than _id. */
static bool find_condition(const struct edit *edit, struct buffer *alone, bool *rest)
{
	size_t document = writer_open(alone), reading = 0;
	struct element conjunct;
	enum cursor_step step;
	struct walk walk;

	*rest = false;
	step = filter_first_conjunct(&walk, edit->write.filter.value, &conjunct);
	for (; step == CURSOR_ELEMENT; step = filter_next_conjunct(&walk, &conjunct)) {
		if (element_is(&conjunct, "_id") || element_is(&conjunct, "$comment"))
			continue;
		if (reads_nothing_of(&conjunct, edit->namespace))
			*rest = true;
		else if (reading++ == 0)
			writer_element(alone, &conjunct);
	}
	writer_close(alone, document);
	return step == CURSOR_END && reading == 1;
}

/* One element satisfies what the filter says of the array, or none does. Which one `$` means, other
 * arrays' conditions could tell, too. */
static bool can_ask(struct edit *edit)
{
	struct edit_place *place = &edit->place;
	bool matched = place->update.kind == PLACE_MATCHED, rest;
	auto_buffer struct buffer alone = {0};

	if (!edit->facts.reads)
		return !matched;
	probe_fini(&place->condition);
	return find_condition(edit, &alone, &rest) && !(matched && rest) &&
	       probe_of_filter(buffer_view(&alone), edit->namespace, &place->condition) &&
	       place->condition.exact &&
	       place->condition.target == &edit->namespace->targets[edit->target];
}

/* Of one array alone. */
must_check bool edit_may_place(struct edit *edit)
{
	const struct whole_write *write = &edit->write;
	struct state read;

	if (!edit_concerns_one(edit) || !edit->facts.bare || write->denied ||
	    !edit_read_state(edit, edit->target, &read))
		return false;
	place_update_fini(&edit->place.update);
	return place_update_judge(&write->update, &write->array_filters, edit_rule(edit),
				  &edit->place.update) &&
	       (edit->place.update.kind == PLACE_MATCHED) == edit->facts.positional &&
	       can_ask(edit);
}

/* Behind edit_may_place. */
enum edit_outcome edit_begin_place(struct edit *edit)
{
	struct sequence_session *own = &edit->sequence->end.own;
	struct edit_place *place = &edit->place, former = *place;
	struct state *state = &place->state;

	place->update = (struct place_update){0};
	place->condition = (struct probe){0};
	edit_place_fini(place);
	place->update = former.update;
	place->condition = former.condition;
	place->tried = former.tried;
	place->aim.at = place->update.at;
	place->after.total = -1;
	require(edit_read_state(edit, edit->target, state) && state->generation.data);
	if (state->later.data) {
		memcpy(place->names.later, state->later.data, GENERATION_BYTES);
	} else {
		memcpy(place->names.later, state->generation.data, GENERATION_TARGET_BYTES);
		generation_draw(place->names.later);
		state->bound = state->moved;
	}
	state->later = (struct bytes){place->names.later, GENERATION_BYTES};
	arc4random_buf(place->names.pending, GENERATION_BYTES);
	if (own->number++ == 0)
		arc4random_buf(own->id, sizeof(own->id));
	return edit_send_hold(edit);
}
