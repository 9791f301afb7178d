/* Replies of a server that has one document, an outlier of one rule, and its overflow. */
#include "proxy/explain/imagine.h"

#include "protocol/command.h"
#include "protocol/message.h"
#include "protocol/writer.h"
#include "rules/rule/rules.h"

#define IMAGINED_MOVED 2

static const uint8_t generation[16] = {'i', 'm', 'a', 'g', 'i', 'n', 'e', 'd'};

static const struct target *first_target(const struct imagined *imagined)
{
	return &imagined->namespace->targets[0];
}

static bool find_in_statement(struct bytes body, const char *statements, struct element *id)
{
	struct element field;
	struct bytes inner;

	return document_find(body, statements, &field) && element_document(&field, &inner) &&
	       document_find(inner, "0", &field) && element_document(&field, &inner) &&
	       document_find_path(inner, "q._id", id);
}

/* The `_id` that the command asks for; else 1. */
static void write_id(const struct imagined *imagined, const char *name, struct buffer *out)
{
	struct bytes body = {bson_get_data(imagined->request), imagined->request->len};
	struct element id;
	bool found = document_find_path(body, "filter._id", &id) ||
		     document_find_path(body, "query._id", &id) ||
		     find_in_statement(body, "updates", &id) ||
		     find_in_statement(body, "deletes", &id);

	if (found && id.type != BSON_TYPE_DOCUMENT)
		writer_renamed(out, name, &id);
	else
		writer_int32(out, name, 1);
}

/* `path` may have dots: documents lie around the array. */
static void write_array(const char *path, struct buffer *out)
{
	size_t length = strcspn(path, ".");
	char name[RULE_ARRAY_MAX + 1];
	size_t inner;

	snprintf(name, sizeof(name), "%.*s", (int)length, path);
	if (path[length]) {
		inner = writer_open_document(out, name);
		write_array(path + length + 1, out);
	} else {
		inner = writer_open_array(out, name);
	}
	writer_close(out, inner);
}

static void write_state(const struct rule *rule, struct buffer *out)
{
	size_t spill = writer_open_document(out, "_spill");
	size_t state = writer_open_document(out, rule->key);

	writer_binary(out, "g", (struct bytes){generation, sizeof(generation)});
	writer_int64(out, "h", 0);
	writer_int64(out, "n", IMAGINED_MOVED);
	writer_close(out, state);
	writer_close(out, spill);
}

static void write_main(const struct imagined *imagined, bool outlier, struct buffer *out)
{
	const struct rule *rule = first_target(imagined)->rule;
	size_t document = writer_open_document(out, "0");

	write_id(imagined, "_id", out);
	write_array(rule->array, out);
	if (outlier)
		write_state(rule, out);
	writer_close(out, document);
}

/* An edit has mongod search by whole arrays. */
static void write_found(const struct imagined *imagined, struct buffer *out)
{
	size_t document = writer_open_document(out, "0");

	write_id(imagined, "_id", out);
	writer_close(out, document);
}

static void write_overflow(const struct imagined *imagined, struct buffer *out)
{
	const struct rule *rule = first_target(imagined)->rule;
	bool batches = rule->overflow.layout == RULE_BATCHES;
	char name[12];

	for (int i = 0; i < (batches ? 1 : IMAGINED_MOVED); i++) {
		size_t document = writer_open_document(out, writer_index(name, (size_t)i)), inner;

		write_id(imagined, rule->overflow.link, out);
		if (batches) {
			inner = writer_open_array(out, rule->overflow.array);
			for (int each = 0; each < IMAGINED_MOVED; each++)
				writer_int32(out, writer_index(name, (size_t)each), each);
			writer_close(out, inner);
			if (rule->overflow.batch_field)
				writer_int64(out, rule->overflow.batch_field, 1);
		}
		inner = writer_open_document(out, "_spill");
		writer_binary(out, "g", (struct bytes){generation, sizeof(generation)});
		writer_int64(out, "p", i);
		if (batches && !rule->overflow.batch_field)
			writer_int64(out, "i", 1);
		writer_close(out, inner);
		writer_close(out, document);
	}
}

static void write_cursor(const struct imagined *imagined, const struct command *command,
			 struct buffer *out)
{
	const struct target *target = first_target(imagined);
	size_t cursor = writer_open_document(out, "cursor");
	size_t batch = writer_open_array(out, "firstBatch");

	if (command->kind == COMMAND_FIND &&
	    bytes_are(command->collection, imagined->namespace->collection))
		write_main(imagined, true, out);
	else if (command->kind == COMMAND_FIND &&
		 bytes_are(command->collection, target->overflow_collection))
		write_overflow(imagined, out);
	else
		write_found(imagined, out);
	writer_close(out, batch);
	writer_int64(out, "id", 0);
	writer_string(out, "ns", "imagined.imagined");
	writer_close(out, cursor);
}

/* The first write meets the outlier, which its filter leaves out. */
static void write_change(struct imagined *imagined, const struct command *command,
			 struct buffer *out)
{
	bool hit = imagined->writes++ > 0;
	size_t last;

	if (command->kind != COMMAND_FIND_AND_MODIFY) {
		writer_int32(out, "n", hit);
		if (command->kind == COMMAND_UPDATE)
			writer_int32(out, "nModified", hit);
		return;
	}
	last = writer_open_document(out, "lastErrorObject");
	writer_int32(out, "n", hit);
	writer_bool(out, "updatedExisting", hit);
	writer_close(out, last);
	if (hit)
		write_main(imagined, false, out);
	else
		writer_renamed(out, "value", &(struct element){.type = BSON_TYPE_NULL});
}

void imagine_reply(struct imagined *imagined, struct bytes request, struct buffer *frame)
{
	struct command command;
	struct message message;
	size_t start, body;

	require(message_parse(request, &message) && command_parse(message.body, &command));
	start = message_begin(frame, 0, message.header.request_id, 0);
	message_begin_body(frame);
	body = writer_open(frame);
	if (command.kind == COMMAND_FIND || command.kind == COMMAND_AGGREGATE)
		write_cursor(imagined, &command, frame);
	else if (command.kind == COMMAND_UPDATE || command.kind == COMMAND_DELETE ||
		 command.kind == COMMAND_FIND_AND_MODIFY)
		write_change(imagined, &command, frame);
	writer_double(frame, "ok", 1);
	writer_close(frame, body);
	message_end(frame, start);
}
