/* Asks whether a read's collection was dropped: what a pipeline has read ahead of it tells no more.
 */
#include "rules/read/dropped.h"

#include "protocol/writer.h"

bool dropped_overflow(struct bytes body, const struct reply_summary *summary)
{
	static const char words[] = "Unable to resolve ";
	struct element message;
	struct bytes text;

	return !summary->ok && summary->code == ERROR_NAMESPACE_NOT_FOUND &&
	       document_find(body, "errmsg", &message) && element_string(&message, &text) &&
	       memmem(text.data, text.length, words, strlen(words));
}

enum sequence_outcome dropped_ask(struct sequence *sequence, const struct sequence_input *input)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_command(sequence), filter;

	writer_int32(out, "listCollections", 1);
	filter = writer_open_document(out, "filter");
	writer_string(out, "name", namespace->collection);
	writer_close(out, filter);
	writer_bool(out, "nameOnly", true);
	writer_bool(out, "authorizedCollections", true);
	sequence_write_read_fields(sequence, input, namespace->database, (struct bytes){0});
	return sequence_send_command(sequence, body);
}

bool dropped_said(const struct packet *reply)
{
	struct reply_summary summary;
	struct element first;
	struct cursor cursor;
	struct bytes batch;

	if (reply->kind != PACKET_MESSAGE || !reply_summarise(reply->message.body, &summary) ||
	    !summary.ok)
		return false;
	batch = reply_read_cursor(summary.cursor).batch;
	return batch.data && cursor_open(&cursor, batch) &&
	       cursor_next(&cursor, &first) == CURSOR_END;
}
