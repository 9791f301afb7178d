/* Fuzzes what becomes of mongod's errors on the way to the client: the answers to the questions
 * that Spillway asks about a client's own command, by an explain (own_error.h) and by a maxTimeMS
 * that is out of range (permission.h). */
#include "tests/fuzz/rewrite.h"

#include "rules/sequence/own_error.h"
#include "rules/sequence/permission.h"

static const char *const commands[] = {"find",          "count",   "distinct", "aggregate",
				       "findAndModify", "update",  "delete",   "insert",
				       "bulkWrite",     "explain", "create",   "getMore"};

/* The client's request: a command's name, a collection or a document for its value, and what the
 * next document has for fields. */
static struct packet request_of(struct input *input)
{
	const char *name = commands[input_byte(input) % ARRAY_LENGTH(commands)];
	struct bytes fields;
	struct buffer frame = {0};
	struct packet packet;
	size_t start = message_begin(&frame, 7, 0, 0), body;

	message_begin_body(&frame);
	body = writer_open(&frame);
	if (input_byte(input) & 1)
		writer_document(&frame, name, input_document(input));
	else
		writer_string(&frame, name, input_collection(input));
	fields = input_document(input);
	buffer_append(&frame, fields.data + 4, fields.length - 5);
	writer_string(&frame, "$db", "shop");
	writer_close(&frame, body);
	message_end(&frame, start);
	packet_read(&packet, &frame);
	return packet;
}

static void require_message(struct bytes frame)
{
	struct message message;

	require(frame.length <= FRAME_MAX_LENGTH && message_parse(frame, &message));
}

/* A sequence that has ended has an answer that can be read. */
static void check_answer(const struct sequence *sequence, enum sequence_outcome outcome)
{
	require(outcome == SEQUENCE_DONE);
	if (sequence->output.length > 0)
		require_message(sequence->output);
}

static void ask_mongod(struct sequence *sequence, struct packet *reply)
{
	if (!own_error_can_ask(sequence))
		return;
	require(own_error_ask(sequence) == SEQUENCE_SEND);
	require_message(sequence->output);
	if (own_error_said(reply))
		check_answer(sequence, own_error_pass(sequence, reply));
}

static void ask_rights(struct sequence *sequence, struct packet *reply)
{
	struct permission_question question = {.request_id = 9, .number = PERMISSION_LEAST + 7};
	auto_buffer struct buffer out = {0};

	if (permission_ask(&question, &sequence->request, &sequence->match, &out))
		require_message(buffer_view(&out));
	switch (permission_told(reply)) {
	case PERMISSION_DENIED:
	case PERMISSION_OPEN:
		check_answer(sequence, permission_pass(&question, sequence, reply));
		break;
	case PERMISSION_GIVEN:
	case PERMISSION_BROKEN:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {{data, size}};
	bool rights = input_byte(&input) & 1;
	struct packet request = request_of(&input), reply;
	struct sequence *sequence;
	struct match match;
	double start;

	match_packet(rewrite_cache(), &request, &match);
	if (match.verdict == VERDICT_FORWARD || match.verdict == VERDICT_HELLO ||
	    match.verdict == VERDICT_CLOSE) {
		packet_fini(&request);
		return 0;
	}
	sequence = sequence_new(&request, &match);
	reply = rewrite_reply(&input);
	start = rewrite_seconds();
	if (rights)
		ask_rights(sequence, &reply);
	else
		ask_mongod(sequence, &reply);
	require(rewrite_seconds() - start < MOST_SECONDS);
	packet_fini(&reply);
	sequence_free(sequence);
	packet_fini(&request);
	return 0;
}
