/* Asks whether a read's collection was dropped: what a pipeline has read ahead of it tells no more.
 */
#include "rules/read/dropped.h"

#include "protocol/template.h"

bool dropped_overflow(const struct reply_summary *summary)
{

	return !summary->ok && summary->code == ERROR_NAMESPACE_NOT_FOUND &&
	       bytes_contain(summary->message, "Unable to resolve ");
}

enum sequence_outcome dropped_ask(struct sequence *sequence, const struct sequence_input *input)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	size_t body = sequence_begin_command(sequence);

	template_write_fields(&sequence->buffer,
			      "{listCollections: 1, filter: {name: @collection}, nameOnly: true, "
			      "authorizedCollections: true}",
			      fill("collection", namespace->collection));
	sequence_write_read_fields(sequence, input, namespace->database, (struct bytes){0});
	return sequence_send_command(sequence, body);
}

bool dropped_said(const struct packet *reply)
{
	struct element first;
	struct cursor cursor;
	struct bytes batch;

	if (!reply->summary.ok)
		return false;
	batch = reply_read_cursor(reply->summary.cursor).batch;
	return batch.data && cursor_open(&cursor, batch) &&
	       cursor_next(&cursor, &first) == CURSOR_END;
}
