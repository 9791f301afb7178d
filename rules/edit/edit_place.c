/* An edit in place: what X1 asks and takes, and what comes behind it. */
#include "rules/edit/edit_inner.h"

#include "rules/query/update.h"
#include "rules/rule/counts.h"
#include "rules/rule/own_fields.h"

#define TARGET_NAME_BYTES 8 /* a generation begins with what names its array */

static const struct rule *rule_of(const struct edit *edit)
{
	return edit->namespace->targets[edit->target].rule;
}

void edit_place_fini(struct edit_place *place)
{
	place_update_fini(&place->update);
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

/* Where nothing changes, what was pending is gone all the same, if X1 has cleaned up behind it. */
static bool commits(const struct edit *edit)
{
	return edit->place.end == PLACE_COUNTS ||
	       (edit->place.end == PLACE_STANDS && was_pending(edit));
}

static enum edit_outcome leave(struct edit *edit, enum place_end end)
{
	edit->place.end = end;
	return commits(edit) ? edit_send_commit(edit) : edit_send_abort(edit);
}

static enum edit_outcome refuse(struct edit *edit, enum error_code code, const char *message)
{
	(void)edit_refuse(edit, code, message);
	return leave(edit, PLACE_REFUSES);
}

static enum edit_outcome end(struct edit *edit)
{
	edit->sequence->end.holds = false;
	switch (edit->place.end) {
	case PLACE_COUNTS:
		return edit_write_placed(edit, true);
	case PLACE_STANDS:
		return edit_write_placed(edit, false);
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

/* ---- errors ---- */

static bool lost(int64_t code)
{
	return code == ERROR_WRITE_CONFLICT || code == ERROR_DUPLICATE_KEY ||
	       code == ERROR_LOCK_TIMEOUT || code == ERROR_NO_SUCH_TRANSACTION ||
	       code == ERROR_SNAPSHOT_UNAVAILABLE;
}

/* Any error has ended the transaction; it is ended once more, in case it was none of mongod's. */
static enum edit_outcome take_error(struct edit *edit, struct packet *reply, int64_t code)
{
	if (lost(code))
		return leave(edit, PLACE_LOSES);
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

static enum edit_outcome take_hold(struct edit *edit, const struct packet *reply)
{
	struct element value, collated;

	if (!document_find(reply->message.body, "value", &value) ||
	    value.type != BSON_BYTE_DOCUMENT)
		return leave(edit, PLACE_LOSES);
	if (edit->write.collation.type == 0 && document_find(value.value, "collated", &collated) &&
	    element_truth(&collated))
		return refuse(edit, ERROR_OBJECT_TOO_LARGE,
			      EDIT_TOO_LARGE
			      "; in a collection with a default collation, an edit in place needs "
			      "the collation in the command");
	edit->place.main.length = 0;
	buffer_append(&edit->place.main, value.value.data, value.value.length);
	return was_pending(edit) ? edit_send_clean(edit) : edit_send_tiles(edit);
}

static enum edit_outcome take_tiles(struct edit *edit, struct packet *reply)
{
	switch (place_list(edit, reply)) {
	case PLACE_LISTED:
		return edit_send_lowest(edit);
	case PLACE_LISTED_FITS:
		return leave(edit, PLACE_FITS);
	case PLACE_LISTED_HOLE:
		return leave(edit, PLACE_LACKS);
	case PLACE_LISTED_BROKEN:
		break;
	}
	return refuse(edit, ERROR_WRITE_CONFLICT,
		      "the server's reply on the overflow can't be read");
}

/* ---- HITS to the end ---- */

static enum edit_outcome take_hits(struct edit *edit, const struct packet *reply)
{
	struct edit_place *place = &edit->place;

	if (!place_copy(edit, reply))
		return refuse(edit, ERROR_WRITE_CONFLICT,
			      "the server's reply on the overflow can't be read");
	if (edit->input->memory_short)
		return refuse(edit, ERROR_TEMPORARILY_UNAVAILABLE,
			      "no memory is left for the parts of the array that this write "
			      "changes (limits.memory); try again later");
	if (place->copies.length > EDIT_COPIES_MOST)
		return refuse(edit, ERROR_OBJECT_TOO_LARGE,
			      EDIT_TOO_LARGE "; what it changes in place passes 48,000,000 bytes");
	if (place->cursor_id != 0)
		return edit_send_hits_on(edit);
	place_copy_main(edit);
	return place->copies.length == 0 ? leave(edit, PLACE_STANDS) : edit_send_copies(edit);
}

static enum edit_outcome discard(struct edit *edit)
{
	return edit->place.state.head > 0 || place_counts_total(edit) ? edit_send_discard(edit)
								      : edit_send_commit(edit);
}

/* Marks are changes, too. */
static enum edit_outcome take_apply(struct edit *edit, const struct packet *reply)
{
	struct edit_place *place = &edit->place;
	int64_t changed;

	if (!document_find_integer(reply->message.body, "nModified", &changed))
		return refuse(edit, ERROR_WRITE_CONFLICT, "the server's reply can't be read");
	if (changed == place->marks)
		return leave(edit, PLACE_STANDS);
	place->end = PLACE_COUNTS;
	place->head = place->state.head;
	place->removed = place->state.removed;
	place->total = -1;
	return place->update.removes ? edit_send_sizes(edit) : discard(edit);
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
		return take_tiles(edit, reply);
	case PLACE_LOWEST:
		place->lowest = place_lowest(edit, reply);
		return edit_send_hits(edit);
	case PLACE_HITS:
		return take_hits(edit, reply);
	case PLACE_INSERT:
		return place->inserted < place->copies.length ? edit_send_copies(edit)
							      : edit_send_apply(edit);
	case PLACE_APPLY:
		return take_apply(edit, reply);
	case PLACE_SIZES:
		return place_take_sizes(edit, reply)
			       ? discard(edit)
			       : refuse(edit, ERROR_WRITE_CONFLICT,
					"the server's reply on the overflow can't be read");
	case PLACE_DISCARD:
		return edit_send_commit(edit);
	case PLACE_COMMIT:
	case PLACE_ABORT:
		break;
	}
	return end(edit);
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
	return take(edit, reply);
}

/* ---- its beginning ---- */

/* Of one array alone, by an update whose filter reads none. In a client's transaction nothing could
 * be taken back where nothing changes; findAndModify has the array in its image. */
must_check bool edit_may_place(struct edit *edit)
{
	const struct whole_write *write = &edit->write;
	size_t concerned = 0;
	struct state read;

	for (size_t i = 0; i < edit->namespace->target_count; i++) {
		concerned += edit->concerned[i];
		if (edit->concerned[i])
			edit->target = i;
	}
	if (concerned != 1 || edit->facts.reads || edit->facts.positional || !write->counted ||
	    write->denied || edit_in_transaction(edit) ||
	    !edit_read_state(edit, edit->target, &read))
		return false;
	place_update_fini(&edit->place.update);
	return place_update_judge(&write->update, &write->array_filters, rule_of(edit),
				  &edit->place.update);
}

/* Behind edit_may_place. */
enum edit_outcome edit_begin_place(struct edit *edit)
{
	struct edit_place *place = &edit->place;
	struct place_update update = place->update;
	struct state *state = &place->state;
	bool tried = place->tried;

	place->update = (struct place_update){0};
	edit_place_fini(place);
	place->update = update;
	place->tried = tried;
	require(edit_read_state(edit, edit->target, state));
	if (state->later.data) {
		memcpy(place->later, state->later.data, GENERATION_BYTES);
	} else {
		memcpy(place->later, state->generation.data, TARGET_NAME_BYTES);
		arc4random_buf(place->later + TARGET_NAME_BYTES,
			       GENERATION_BYTES - TARGET_NAME_BYTES);
		state->bound = state->moved;
	}
	state->later = (struct bytes){place->later, GENERATION_BYTES};
	arc4random_buf(place->pending, GENERATION_BYTES);
	arc4random_buf(place->session, GENERATION_BYTES);
	return edit_send_hold(edit);
}
