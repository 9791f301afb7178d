/* Helper commands carry what the client's command carried; edited requests keep the rest of their
 * bytes. */
#include "protocol/writer.h"
#include "rules/sequence/sequence_inner.h"

static const struct element *field_of(const struct sequence *sequence, enum command_field field)
{
	return &sequence->match.command.fields[field];
}

static int64_t time_left(const struct sequence *sequence, uint64_t now)
{
	const struct element *field = field_of(sequence, FIELD_MAX_TIME);
	int64_t limit, spent = (int64_t)((now - sequence->trace.started) / 1000);

	if (field->type == 0 || !element_integer(field, &limit) || limit <= 0)
		return -1;
	return spent >= limit ? 0 : limit - spent;
}

int64_t sequence_time_left(const struct sequence *sequence, const struct sequence_input *input)
{
	return time_left(sequence, input->now);
}

int64_t sequence_time_now(const struct sequence *sequence)
{
	return time_left(sequence, sequence->trace.resumed);
}

void sequence_write_time(struct buffer *out, int64_t left)
{
	if (left >= 0)
		writer_int64(out, "maxTimeMS", left > 0 ? left : 1);
}

int64_t sequence_time_anew(const struct sequence *sequence)
{
	int64_t left = sequence->begun ? sequence_time_now(sequence) : -1;

	return left == 0 ? 1 : left > 0 ? left : 0;
}

bool sequence_has_said(const struct sequence *sequence, const struct element *field)
{
	return sequence->begun && field_of(sequence, FIELD_AUTOCOMMIT)->type != 0 &&
	       (element_is(field, "startTransaction") || element_is(field, "readConcern"));
}

static bool is_write(const struct sequence *sequence)
{
	enum command_kind kind = sequence->match.command.kind;

	return kind == COMMAND_UPDATE || kind == COMMAND_DELETE || kind == COMMAND_FIND_AND_MODIFY;
}

static void copy(struct sequence *sequence, enum command_field field)
{
	if (field_of(sequence, field)->type != 0)
		writer_element(&sequence->buffer, field_of(sequence, field));
}

/* In a transaction the first command sets the read concern. Elsewhere a write has none that a
 * helper could need: on a primary it reads the newest, and mongod judges the field on the write. */
static void write_read_concern(struct sequence *sequence, struct bytes replacement)
{
	bool transaction = field_of(sequence, FIELD_AUTOCOMMIT)->type != 0;

	if (transaction ? sequence->begun : is_write(sequence))
		return;
	if (replacement.length > 0)
		writer_document(&sequence->buffer, "readConcern", replacement);
	else
		copy(sequence, FIELD_READ_CONCERN);
}

/* A getMore carries none, and a secondary would refuse the helper without one. Transactions run on
 * primaries, and mongos takes no other mode in them. */
static void write_read_preference(struct sequence *sequence)
{
	size_t preference;

	if (field_of(sequence, FIELD_READ_PREFERENCE)->type != 0) {
		copy(sequence, FIELD_READ_PREFERENCE);
	} else if (field_of(sequence, FIELD_AUTOCOMMIT)->type == 0) {
		preference = writer_open_document(&sequence->buffer, "$readPreference");
		writer_string(&sequence->buffer, "mode", "primaryPreferred");
		writer_close(&sequence->buffer, preference);
	}
}

void sequence_write_api_fields(struct sequence *sequence)
{
	copy(sequence, FIELD_API_VERSION);
	copy(sequence, FIELD_API_STRICT);
	copy(sequence, FIELD_API_DEPRECATION);
}

void sequence_write_cursor_fields(struct sequence *sequence)
{
	copy(sequence, FIELD_LSID);
	if (field_of(sequence, FIELD_AUTOCOMMIT)->type != 0) {
		copy(sequence, FIELD_TXN_NUMBER);
		copy(sequence, FIELD_AUTOCOMMIT);
		if (!sequence->begun)
			copy(sequence, FIELD_START_TRANSACTION);
	}
	sequence_write_api_fields(sequence);
	copy(sequence, FIELD_COMMENT);
}

void sequence_write_read_fields(struct sequence *sequence, const struct sequence_input *input,
				const char *database, struct bytes read_concern)
{
	struct buffer *out = &sequence->buffer;
	int64_t left = sequence_time_left(sequence, input);

	writer_string(out, "$db", database);
	sequence_write_cursor_fields(sequence);
	write_read_concern(sequence, read_concern);
	write_read_preference(sequence);
	copy(sequence, FIELD_CLUSTER_TIME);
	sequence_write_time(out, left);
}

static void write_body(struct sequence *sequence,
		       bool (*edit)(void *context, struct buffer *out, const struct element *field),
		       void *context)
{
	struct buffer *out = &sequence->buffer;
	struct cursor cursor;
	struct element field;
	size_t body = writer_open(out);

	require(cursor_open(&cursor, sequence->request.message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!edit || !edit(context, out, &field))
			writer_element(out, &field);
	writer_close(out, body);
}

void sequence_write_edited(struct sequence *sequence, uint32_t clear,
			   bool (*edit)(void *context, struct buffer *out,
					const struct element *field),
			   void *context)
{
	const struct message *message = &sequence->request.message;
	struct buffer *out = &sequence->buffer;

	out->length = 0;
	message_begin(out, message->header.request_id, 0,
		      message->flags & ~(clear | (uint32_t)MESSAGE_CHECKSUM_PRESENT));
	message_begin_body(out);
	write_body(sequence, edit, context);
	for (size_t i = 0; i < message->sequence_count; i++) {
		size_t start = message_begin_sequence(out, message->sequences[i].identifier);

		buffer_append(out, message->sequences[i].documents.data,
			      message->sequences[i].documents.length);
		message_end_sequence(out, start);
	}
	message_end(out, 0);
	sequence->output = buffer_view(out);
}
