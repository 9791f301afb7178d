/* How an edit whose filter reads an array, and names no document, finds those that it means where
 * the overflow tells which outliers they can be (probe.h). */
#include "rules/edit.h"

#include "protocol/writer.h"
#include "rules/filter_split.h"
#include "rules/names.h"
#include "rules/reads.h"
#include "rules/reassemble.h"

static bool sorts_by(const struct edit *edit, const char *name)
{
	struct element order;

	return edit->write.sort.type == BSON_BYTE_DOCUMENT &&
	       document_find(edit->write.sort.value, name, &order);
}

static bool is_sorted(const struct edit *edit)
{
	return edit->write.sort.type == BSON_BYTE_DOCUMENT && edit->write.sort.value.length > 5;
}

static bool sorts_by_arrays(const struct edit *edit)
{
	return is_sorted(edit) &&
	       reads_of_sort(edit->write.sort.value, edit->namespace).kind != READS_NOTHING;
}

/* What can fail on a document has to be judged in mongod's order; a hint says where to look. */
void edit_decide_search(struct edit *edit)
{
	edit->by_overflow =
		edit->reads && !edit->raises && !edit->membership.known && !edit->write.denied &&
		edit->write.hint.type == 0 && !sorts_by(edit, "$natural") &&
		probe_of_filter(edit->write.filter.value, edit->namespace, &edit->probe);
	edit->probe.light = edit->by_overflow && edit->probe.exact && !sorts_by_arrays(edit);
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

static void write_sort(struct buffer *out, size_t *place, const struct element *sort)
{
	size_t stage = open_stage(out, place);

	writer_renamed(out, "$sort", sort);
	writer_close(out, stage);
}

static void write_names(struct buffer *out, size_t *place)
{
	size_t stage = open_stage(out, place), project = writer_open_document(out, "$project");

	writer_int32(out, "_id", 1);
	writer_close(out, project);
	writer_close(out, stage);
}

/* One document, which is told by a sort. */
static bool takes_first(const struct edit *edit)
{
	return is_sorted(edit) && !edit->write.many;
}

/* Those that match: the first, or all. */
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
	if (takes_first(edit)) {
		write_sort(out, place, &edit->write.sort);
		write_limit(out, place, 1);
	} else {
		write_limit(out, place, PROBE_ROOM + 1);
	}
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
	writer_int32(out, "batchSize", PROBE_ROOM + PROBE_HITS_MAX + 3);
	writer_close(out, cursor);
	edit_write_options(edit, sequence);
	return edit_send(edit, sequence, input, body);
}

/* Where they were stored: with an index or without, of documents that have one value mongod takes
 * the first. */
enum edit_outcome edit_send_order(struct edit *edit, struct sequence *sequence,
				  const struct sequence_input *input)
{
	struct bytes ids = buffer_view(&edit->ids), document;
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_command(sequence), filter, id, list, place = 0, projection;
	struct element value;
	char name[12];

	writer_string(out, "find", edit->namespace->collection);
	filter = writer_open_document(out, "filter");
	id = writer_open_document(out, "_id");
	list = writer_open_array(out, "$in");
	while (message_next_document(&ids, &document) && document_find(document, "_id", &value))
		writer_renamed(out, writer_index(name, place++), &value);
	writer_close(out, list);
	writer_close(out, id);
	writer_close(out, filter);
	projection = writer_open_document(out, "projection");
	writer_int32(out, "_id", 1);
	id = writer_open_document(out, "r");
	writer_string(out, "$meta", "recordId");
	writer_close(out, id);
	writer_close(out, projection);
	writer_int32(out, "batchSize", PROBE_ROOM);
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
	enum probe_found found;

	if (reply->kind != PACKET_MESSAGE || !reply_summarise(reply->message.body, &summary) ||
	    !summary.ok)
		return EDIT_HITS_ALL;
	cursor = reply_read_cursor(summary.cursor);
	if (!element_integer(&cursor.id, &edit->cursor_id) || !cursor.batch.data)
		return EDIT_HITS_ALL;
	if (edit->cursor_id != 0)
		return EDIT_HITS_KILL;
	*batch = cursor.batch;
	found = probe_take(&edit->probe, *batch, documents);
	if (found == PROBE_TOO_MANY || *documents > PROBE_ROOM ||
	    probe_is_late(&edit->probe, input->now - edit->asked))
		return EDIT_HITS_ALL;
	if (found == PROBE_COMPLETE)
		return EDIT_HITS_FOUND;
	return edit->searches < PROBE_ROUNDS ? EDIT_HITS_AGAIN : EDIT_HITS_ALL;
}

bool edit_take_order(struct edit *edit, struct cursor *cursor)
{
	struct element document, record, id;
	int64_t first = INT64_MAX, place;
	size_t start;

	edit->ids.length = 0;
	while (cursor_next(cursor, &document) == CURSOR_ELEMENT) {
		if (document.type != BSON_BYTE_DOCUMENT ||
		    !document_find(document.value, "r", &record) ||
		    !document_find(document.value, "_id", &id) || !element_integer(&record, &place))
			return false;
		if (place >= first)
			continue;
		first = place;
		edit->ids.length = 0;
		start = writer_open(&edit->ids);
		writer_element(&edit->ids, &id);
		writer_close(&edit->ids, start);
	}
	return edit->ids.length > 0;
}
