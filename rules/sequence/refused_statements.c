/* Keeps what mongod says of statements that it refuses. */
#include "rules/sequence/refused_statements.h"

#include "protocol/writer.h"
#include "rules/sequence/own_error.h"

void refused_statements_add(struct refused_statements *refused, struct bytes error)
{
	struct buffer *out = &refused->errors;
	size_t document = writer_open(out);
	struct element field;

	writer_int64(out, "index", (int64_t)refused->judged);
	if (document_find(error, "code", &field))
		writer_element(out, &field);
	if (document_find(error, "errmsg", &field))
		writer_element(out, &field);
	writer_close(out, document);
}

void refused_statements_keep(struct refused_statements *refused, struct sequence *sequence,
			     const struct packet *reply)
{
	refused_statements_add(refused, reply->message.body);
	own_error_lend(sequence, reply, &refused->lender);
}

must_check bool refused_statements_find(const struct refused_statements *refused, size_t index,
					int32_t *code, struct bytes *text)
{
	struct bytes left = buffer_view(&refused->errors), document;
	struct element field;
	int64_t number;

	while (message_next_document(&left, &document)) {
		if (!document_find(document, "index", &field) ||
		    !element_integer(&field, &number) || number != (int64_t)index)
			continue;
		number = 0;
		if (document_find(document, "code", &field) && element_integer(&field, &number))
			*code = (int32_t)number;
		if (!document_find(document, "errmsg", &field) || !element_string(&field, text))
			*text = bytes_of("");
		return number != 0;
	}
	return false;
}

must_check bool refused_statements_serves(struct match *match, struct buffer *frame)
{
	struct packet packet;
	struct match found;

	packet_read(&packet, frame);
	match_packet(match->cache, &packet, &found);
	packet_fini(&packet);
	if (found.verdict == VERDICT_REFUSE)
		match->refusal = found.refusal;
	return !found.asks_indexes &&
	       (found.verdict == VERDICT_FORWARD || found.verdict == VERDICT_WRITE);
}

void refused_statements_fini(struct refused_statements *refused)
{
	buffer_fini(&refused->errors);
	packet_fini(&refused->lender);
}
