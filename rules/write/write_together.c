/* Edits of several documents in one command, as if all arrays were whole.
 *
 * The reply has one `n`. If `n` counts all, all are done. Else half of them are asked again, and so
 * on, and history answers for those that are done. So only a retryable write's edits go together,
 * and only out of order: an edit that comes late must not find what follows it done. */
#include "rules/write/write_inner.h"

#include "rules/query/statements.h"

static bool goes_together(const struct sequence *sequence, size_t index, struct element *id)
{
	const struct sequence_write *write = const_write_of(sequence);
	struct whole_write edit;

	return !write_is_rejected(write, index) &&
	       write_is_edit(sequence, write->documents[index], &edit) && !edit.many &&
	       !edit.upsert && edit.collation.type == 0 &&
	       statement_pinned_id(edit.filter.value, false, id);
}

/* Equal values have equal bytes: not so of texts under the collection's collation, nor of 0.0 and
 * -0.0. */
static bool is_told_by_bytes(const struct element *id)
{
	static const uint8_t types[] = {BSON_BYTE_OBJECT_ID, BSON_BYTE_INT32, BSON_BYTE_INT64,
					BSON_BYTE_BINARY,    BSON_BYTE_DATE,  BSON_BYTE_TIMESTAMP};

	return memchr(types, id->type, sizeof(types));
}

/* Of one type: of numbers, others may be equal. */
static bool is_another(const struct element *ids, size_t count)
{
	if (!is_told_by_bytes(&ids[count]))
		return false;
	for (size_t i = 0; i < count; i++)
		if (ids[i].type != ids[count].type || bytes_equal(ids[i].value, ids[count].value))
			return false;
	return true;
}

void write_more_together(struct sequence_write *write)
{
	write->most = write->most > TOGETHER_MAX / 2 ? TOGETHER_MAX : 2 * write->most;
}

/* Those that were sent before are not sent with others that were not: their answers differ. */
static size_t most_together(const struct sequence_write *write)
{
	size_t left = (write->next < write->asked ? write->asked : write->count) - write->next;

	return left < write->most ? left : write->most;
}

size_t write_count_together(const struct sequence *sequence)
{
	const struct sequence_write *write = const_write_of(sequence);
	struct element ids[TOGETHER_MAX];
	size_t count = 0, most = most_together(write);

	if (!sequence->match.edits || write_is_ordered(sequence) ||
	    !command_has(&sequence->match.command, FIELD_TXN_NUMBER))
		return 0;
	while (count < most && goes_together(sequence, write->next + count, &ids[count]) &&
	       is_another(ids, count))
		count++;
	return count;
}

static void init_edit(struct sequence *sequence, size_t index, struct edit *edit)
{
	struct whole_write parsed;

	require(write_is_edit(sequence, const_write_of(sequence)->documents[index], &parsed));
	edit_init(edit, sequence, &parsed);
	require(edit->named == EDIT_PINNED);
}

enum sequence_outcome write_send_together(struct sequence *sequence, size_t count)
{
	struct sequence_write *write = write_of(sequence);
	auto_buffer struct buffer filters = {0};
	struct write_command command = {.documents = write->documents,
					.count = write->count,
					.selection = {write->next, count},
					.part = true,
					.answered = true};

	for (size_t i = 0; i < count; i++) {
		struct edit edit;

		init_edit(sequence, write->next + i, &edit);
		edit_write_filter(&edit);
		buffer_append(&filters, edit.sent.filter.data, edit.sent.filter.length);
		edit_fini(&edit);
	}
	command.filters = buffer_view(&filters);
	write->sending = count;
	write->sent = write->next;
	sequence->step = WRITE_TOGETHER;
	write_command_make(sequence, &command);
	return SEQUENCE_SEND;
}

static void note_together(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);

	for (size_t i = 0; i < write->sending; i++) {
		struct edit edit;

		init_edit(sequence, write->next + i, &edit);
		write_note_document(write, &edit.id, write_reason_of(&edit, false));
		edit_fini(&edit);
	}
}

/* What the client had sent before, history has told the first time. */
static void take_apart(struct sequence_write *write, struct packet *reply)
{
	struct write_result result = {0};

	write->some = write->some || reply->summary.n > 0;
	if (write->next >= write->asked && write_result_add(&result, reply, 0)) {
		buffer_append(&write->result.retried, result.retried.data, result.retried.length);
		write->asked = write->next + write->sending;
	}
	write_result_fini(&result);
	write->most = write->sending / 2;
}

enum sequence_outcome write_take_together(struct sequence *sequence,
					  const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	struct packet *reply = input->reply;
	enum sequence_outcome outcome;

	if (reply->summary.ok && (reply->summary.n != (int64_t)write->sending ||
				  reply->summary.write_errors.length > 0)) {
		take_apart(write, reply);
		return write_go_on(sequence, input);
	}
	if (!write_take_part(sequence, input, reply, &outcome))
		return outcome;
	note_together(sequence);
	write->next += write->sending;
	write_more_together(write);
	return write_go_on(sequence, input);
}
