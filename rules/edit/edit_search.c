/* How an edit whose filter reads an array, and names no document, finds those that it means where
 * the overflow tells which outliers they can be (probe.h). */
#include "rules/edit/edit_inner.h"

#include "rules/reassembly/raised.h"

#define HITS_FEW 16 /* more of them: several documents match, most likely */

/* Which of several is written, or first, is told by the order in which mongod would meet them. It
 * is all one where they all go. Without conditions on other fields they are met as they are stored,
 * and can be brought into that order. */
static bool is_ordered(const struct edit *edit)
{
	return edit->write.many && edit->write.update.type != 0 && !edit->search.probe.rest;
}

static int32_t room(const struct edit *edit)
{
	bool all = edit->write.many && (edit->write.update.type == 0 || is_ordered(edit));

	return all ? PROBE_ROOM : 1;
}

/* What can fail on a document has to be judged in mongod's order; a hint says where to look, and a
 * sort which of several is meant. */
void edit_decide_search(struct edit *edit)
{
	edit->search.by_overflow =
		edit->facts.reads && !edit->facts.raises && !edit->membership.known &&
		!edit->write.denied && edit->write.hint.type == 0 && edit->write.sort.type == 0 &&
		probe_of_filter(edit->write.filter.value, edit->namespace, &edit->search.probe);
	edit->search.probe.light = edit->search.by_overflow && edit->search.probe.exact;
	edit->search.probe.many = edit->search.probe.light && room(edit) > 1;
}

/* ---- what is sent ---- */

static void splice_candidates(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;

	probe_write_candidates(out, place, edit->write.filter.value, edit->namespace,
			       &edit->search.probe);
}

static void splice_hits(struct buffer *out, size_t *place, const void *context)
{
	const struct edit *edit = context;

	probe_write_hits(out, place, &edit->search.probe);
}

/* One document more than there is room for says that these are not all. */
enum edit_outcome edit_search_by_overflow(struct edit *edit)
{
	size_t body = sequence_begin_command(edit->sequence);

	edit->search.asked = edit->input->now;
	edit->search.count++;
	template_write_fields(
		&edit->sequence->buffer,
		"{aggregate: @collection, pipeline: [..@candidates, ..@judged, "
		"{$limit: @room}, {$project: {_id: 1, ..@read, ..@place}}, ..@order, ..@hits], "
		"cursor: {batchSize: @batch}}",
		fill("collection", edit->namespace->collection),
		fill_spliced("candidates", splice_candidates, edit),
		fill_template("judged", edit->search.probe.light ? "[]" : "[..@whole]"),
		edit_fill_whole(edit), fill("room", room(edit) + 1), edit_fill_read(edit),
		edit_fill_lengths(edit),
		fill_template("place", is_ordered(edit) ? "{place: {$meta: 'recordId'}}" : "{}"),
		fill_template("order", is_ordered(edit) ? "[{$sort: {place: 1}}]" : "[]"),
		fill_spliced("hits", splice_hits, edit),
		fill("batch", room(edit) + probe_hits_most(&edit->search.probe) + 3));
	return edit_send_read(edit, body);
}

enum edit_outcome edit_send_kill(struct edit *edit)
{
	sequence_send_kill(edit->sequence, edit->namespace->database, edit->namespace->collection,
			   edit->search.cursor_id);
	return EDIT_SEND;
}

/* ---- what comes back ---- */

enum edit_hits edit_take_hits(struct edit *edit, const struct packet *reply, struct bytes *batch,
			      size_t *documents)
{
	struct reply_cursor cursor;
	char message[RAISED_MESSAGE];
	enum probe_found found;
	enum error_code code;

	if (!reply->summary.ok)
		return raised_tell(&reply->summary, message, &code) ||
				       sequence_ends_all(reply->summary.code)
			       ? EDIT_HITS_FAILED
			       : EDIT_HITS_ALL;
	cursor = reply_read_cursor(reply->summary.cursor);
	if (!element_integer(&cursor.id, &edit->search.cursor_id) || !cursor.batch.data)
		return EDIT_HITS_ALL;
	if (edit->search.cursor_id != 0)
		return EDIT_HITS_KILL;
	*batch = cursor.batch;
	found = probe_take(&edit->search.probe, *batch, (size_t)room(edit),
			   edit->input->now - edit->search.asked, documents);
	if (found == PROBE_TOO_MANY)
		return EDIT_HITS_ALL;
	if (found == PROBE_COMPLETE)
		return EDIT_HITS_FOUND;
	if (room(edit) == 1 && edit->search.probe.named_count > HITS_FEW)
		return EDIT_HITS_ALL;
	return edit->search.count < PROBE_ROUNDS ? EDIT_HITS_AGAIN : EDIT_HITS_ALL;
}
