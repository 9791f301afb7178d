/* How an edit whose filter reads an array, and names no document, finds those that it means where
 * the overflow tells which outliers they can be (probe.h). */
#include "rules/edit/edit.h"

#include "protocol/writer.h"
#include "rules/query/filter_split.h"
#include "rules/rule/names.h"
#include "rules/reassembly/reassemble.h"

/* What can fail on a document has to be judged in mongod's order; a hint says where to look, and a
 * sort which of several is meant. */
void edit_decide_search(struct edit *edit)
{
	edit->by_overflow =
		edit->facts.reads && !edit->facts.raises && !edit->membership.known &&
		!edit->write.denied && edit->write.hint.type == 0 && edit->write.sort.type == 0 &&
		probe_of_filter(edit->write.filter.value, edit->namespace, &edit->probe);
	edit->probe.light = edit->by_overflow && edit->probe.exact;
}

#define HITS_FEW 16 /* more of them: several documents match, most likely */

/* Which of several is written, or first, is told by the order in which mongod would meet them. It
 * is all one where they all go. */
static int32_t room(const struct edit *edit)
{
	return edit->write.many && edit->write.update.type == 0 ? PROBE_ROOM : 1;
}

/* ---- what is sent ---- */

static size_t open_stage(struct buffer *out, size_t *place)
{
	char name[12];

	return writer_open_document(out, writer_index(name, (*place)++));
}

static void write_limit(struct buffer *out, size_t *place, int32_t number)
{
	size_t stage = open_stage(out, place);

	writer_int32(out, "$limit", number);
	writer_close(out, stage);
}

static void write_names(struct buffer *out, size_t *place)
{
	size_t stage = open_stage(out, place), project = writer_open_document(out, "$project");

	writer_int32(out, "_id", 1);
	writer_close(out, project);
	writer_close(out, stage);
}

/* Those that match; one more than there is room for tells that it is no answer. */
static void write_matching(const struct edit *edit, struct sequence *sequence, size_t *place)
{
	struct bytes filter = edit->write.filter.value;
	bool strict = element_truth(&sequence->match.command.fields[FIELD_API_STRICT]);
	struct buffer *out = &sequence->buffer;

	probe_write_candidates(out, place, filter, edit->namespace, &edit->probe);
	if (!edit->probe.light) {
		reassemble_write_stages(
			out, place, edit->namespace,
			(struct reassembly){REASSEMBLE_VALUES, false, .strict = strict});
		filter_write_match(out, place, filter, FILTER_AT_START);
	}
	write_limit(out, place, room(edit) + 1);
	write_names(out, place);
}

enum edit_outcome edit_search_by_overflow(struct edit *edit, struct sequence *sequence,
					  const struct sequence_input *input)
{
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_command(sequence), place = 0, pipeline, cursor;

	edit->asked = input->now;
	edit->searches++;
	writer_string(out, "aggregate", edit->namespace->collection);
	pipeline = writer_open_array(out, "pipeline");
	write_matching(edit, sequence, &place);
	probe_write_hits(out, &place, &edit->probe);
	writer_close(out, pipeline);
	cursor = writer_open_document(out, "cursor");
	writer_int32(out, "batchSize", room(edit) + PROBE_HITS_MAX + 3);
	writer_close(out, cursor);
	edit_write_options(edit, sequence);
	return edit_send(edit, sequence, input, body);
}

enum edit_outcome edit_send_kill(struct edit *edit, struct sequence *sequence)
{
	sequence_send_kill(sequence, edit->namespace->database, edit->namespace->collection,
			   edit->cursor_id);
	return EDIT_SEND;
}

/* ---- what comes back ---- */

enum edit_hits edit_take_hits(struct edit *edit, const struct sequence_input *input,
			      const struct packet *reply, struct bytes *batch, size_t *documents)
{
	struct reply_summary summary;
	struct reply_cursor cursor;
	char message[REASSEMBLE_MESSAGE];
	enum probe_found found;
	enum error_code code;

	if (reply->kind != PACKET_MESSAGE || !reply_summarise(reply->message.body, &summary))
		return EDIT_HITS_ALL;
	if (!summary.ok)
		return reassemble_tell(reply->message.body, &summary, message, &code)
			       ? EDIT_HITS_DAMAGED
			       : EDIT_HITS_ALL;
	cursor = reply_read_cursor(summary.cursor);
	if (!element_integer(&cursor.id, &edit->cursor_id) || !cursor.batch.data)
		return EDIT_HITS_ALL;
	if (edit->cursor_id != 0)
		return EDIT_HITS_KILL;
	*batch = cursor.batch;
	found = probe_take(&edit->probe, *batch, (size_t)room(edit), input->now - edit->asked,
			   documents);
	if (found == PROBE_TOO_MANY)
		return EDIT_HITS_ALL;
	if (found == PROBE_COMPLETE)
		return EDIT_HITS_FOUND;
	if (room(edit) == 1 && edit->probe.named_count > HITS_FEW)
		return EDIT_HITS_ALL;
	return edit->searches < PROBE_ROUNDS ? EDIT_HITS_AGAIN : EDIT_HITS_ALL;
}
