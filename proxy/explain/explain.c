/* What becomes of a command, by the code that serves clients: match_prefix, plain_find,
 * match_packet and the sequences. */
#include "proxy/explain/explain.h"

#include "protocol/message.h"
#include "proxy/explain/imagine.h"
#include "rules/read/plain_find.h"
#include "rules/rule/text.h"
#include "rules/sequence/sequence.h"

#include <stdlib.h>

#define REQUEST_ID 1
#define STEPS_MOST 12 /* that are imagined */

/* ---- Reading. */

must_check bson_t *explain_read(const char *json, const char *database, char **mistake)
{
	bson_error_t error = {0};
	bson_t *command = bson_new_from_json((const uint8_t *)json, -1, &error);

	if (!command) {
		*mistake = bson_strdup_printf("the command is no JSON: %s", error.message);
		return NULL;
	}
	if (!bson_has_field(command, "$db") && database)
		BSON_APPEND_UTF8(command, "$db", database);
	if (bson_has_field(command, "$db") && !bson_empty(command))
		return command;
	*mistake = bson_strdup("the command needs a database: --db NAME, or a field $db in it");
	bson_destroy(command);
	return NULL;
}

static void write_frame(const bson_t *command, struct buffer *frame)
{
	size_t start = message_begin(frame, REQUEST_ID, 0, 0);

	message_begin_body(frame);
	buffer_append(frame, bson_get_data(command), command->len);
	message_end(frame, start);
}

/* ---- Lists of steps. */

struct steps {
	bson_t list;
	unsigned count;
};

static void steps_add(struct steps *steps, const char *key, const bson_t *document,
		      const char *text)
{
	char place[16];
	bson_t step;

	snprintf(place, sizeof(place), "%u", steps->count++);
	bson_append_document_begin(&steps->list, place, -1, &step);
	if (document)
		bson_append_document(&step, key, -1, document);
	else
		bson_append_utf8(&step, key, -1, text, -1);
	bson_append_document_end(&steps->list, &step);
}

/* A document sequence stands in the command as the array that it stands for. */
static void append_sequence(bson_t *command, const struct document_sequence *sequence)
{
	struct bytes left = sequence->documents, document;
	char place[24];
	bson_t array, each;
	size_t count = 0;

	bson_append_array_begin(command, (const char *)sequence->identifier.data,
				(int)sequence->identifier.length, &array);
	while (message_next_document(&left, &document)) {
		snprintf(place, sizeof(place), "%zu", count++);
		if (bson_init_static(&each, document.data, document.length))
			bson_append_document(&array, place, -1, &each);
	}
	bson_append_array_end(command, &array);
}

/* The command of a frame that Spillway has written. */
static void steps_add_frame(struct steps *steps, struct bytes frame)
{
	struct message message;
	bson_t body, *command;

	if (!message_parse(frame, &message) ||
	    !bson_init_static(&body, message.body.data, message.body.length))
		return;
	command = bson_copy(&body);
	for (size_t i = 0; i < message.sequence_count; i++)
		append_sequence(command, &message.sequences[i]);
	steps_add(steps, "sends", command, NULL);
	bson_destroy(command);
}

/* ---- What the sequence does. */

struct play {
	struct sequence *sequence;
	struct imagined imagined;
	uint64_t now;
};

static enum sequence_outcome play_on(struct play *play, struct packet *reply, bool moved)
{
	const struct sequence_input input = {.reply = reply, .moved = moved, .now = play->now++};

	return sequence_resume(play->sequence, &input);
}

/* Gives the sequence an imagined reply to what it has sent. */
static enum sequence_outcome play_reply(struct play *play)
{
	struct buffer frame = {0};
	struct packet reply;
	enum sequence_outcome outcome;

	imagine_reply(&play->imagined, play->sequence->output, &frame);
	packet_read_reply(&reply, &frame);
	outcome = play_on(play, &reply, false);
	packet_fini(&reply);
	return outcome;
}

/* Goes through what needs no server, to what is sent or to the end. */
static enum sequence_outcome play_to_send(struct play *play, enum sequence_outcome outcome,
					  struct steps *steps)
{
	for (int i = 0; i < STEPS_MOST; i++) {
		switch (outcome) {
		case SEQUENCE_SEND:
		case SEQUENCE_SEND_LAST:
		case SEQUENCE_DONE:
		case SEQUENCE_AGAIN:
			return outcome;
		case SEQUENCE_MOVE:
			steps_add(steps, "does", NULL, "the mover moves the document's tail");
			break;
		case SEQUENCE_TEND:
			steps_add(steps, "does", NULL,
				  "the mover looks after the overflow and its indexes");
			break;
		case SEQUENCE_PAUSE:
			steps_add(steps, "does", NULL, "waits for some milliseconds");
			break;
		}
		outcome = play_on(play, NULL, true);
	}
	return outcome;
}

static const char *what_done(const struct play *play)
{
	if (play->sequence->end.code)
		return "answers with an error, because this outlier is only imagined";
	return play->sequence->counts.merged > 0
		       ? "answers with the array put together from document and overflow"
		       : "answers";
}

/* What follows if the document is an outlier. */
static void imagine_outlier(struct play *play, bson_t *out)
{
	struct steps steps = {.count = 0};
	enum sequence_outcome outcome = SEQUENCE_SEND;

	bson_append_array_begin(out, "outlier", -1, &steps.list);
	for (int i = 0; i < STEPS_MOST && outcome == SEQUENCE_SEND; i++) {
		outcome = play_to_send(play, play_reply(play), &steps);
		if (outcome == SEQUENCE_SEND || outcome == SEQUENCE_SEND_LAST)
			steps_add_frame(&steps, play->sequence->output);
	}
	steps_add(&steps, "does", NULL, what_done(play));
	bson_append_array_end(out, &steps.list);
}

/* ---- Verdicts. */

static void say(bson_t *out, const char *verdict, const char *why)
{
	BSON_APPEND_UTF8(out, "verdict", verdict);
	BSON_APPEND_UTF8(out, "why", why);
}

static void append_namespace(const struct match *match, bson_t *out)
{
	const struct ruled_namespace *namespace = match->namespace;
	char name[512];

	if (!namespace)
		return;
	snprintf(name, sizeof(name), "%s.%s", namespace->database, namespace->collection);
	BSON_APPEND_UTF8(out, "rule", namespace->targets[0].rule->name);
	BSON_APPEND_UTF8(out, "namespace", name);
}

static void say_refused(const struct match *match, bson_t *out)
{
	say(out, "refused", match->refusal.message);
	BSON_APPEND_INT32(out, "code", match->refusal.code);
	BSON_APPEND_UTF8(out, "codeName", error_name(match->refusal.code));
}

static const char *why_rewritten(const struct match *match, bool same)
{
	switch (match->verdict) {
	case VERDICT_AGGREGATE:
		return "the command reads the array as a whole: mongod puts it together";
	case VERDICT_WATCH:
		return "the command passes; Spillway looks at its reply, and after the collection "
		       "then";
	case VERDICT_HIDE:
		return match->command.kind == COMMAND_DROP
			       ? "an overflow collection is not dropped: it goes with the "
				 "documents whose tails it holds"
			       : "overflow collections are left out of the answer";
	case VERDICT_STREAM:
		return "the command goes out as it came; events that are Spillway's own are left "
		       "out, and the others get the positions of whole arrays";
	case VERDICT_EXPLAIN:
		return "Spillway explains what it would send first";
	case VERDICT_READ:
		return same ? "the command goes out as it came; outliers in its reply are put "
			      "together"
			    : "the state of the array is asked for, too; outliers in the reply are "
			      "put together";
	case VERDICT_WRITE:
	case VERDICT_FIND_AND_MODIFY:
	case VERDICT_BULK_WRITE:
		if (match->edits)
			return "the command needs the array whole: the outlier's array is folded "
			       "back first";
		return "the command writes the array without reading it; the mover moves what is "
		       "too much later";
	case VERDICT_FORWARD:
	case VERDICT_HELLO:
	case VERDICT_REFUSE:
	case VERDICT_CLOSE:
		break;
	}
	return "";
}

/* Whether an imagined outlier tells something: one document, which the sequence asks for. */
static bool is_worth_imagining(const struct match *match)
{
	return match->namespace && (match->verdict == VERDICT_READ ||
				    (match->edits && (match->verdict == VERDICT_WRITE ||
						      match->verdict == VERDICT_FIND_AND_MODIFY)));
}

static void say_rewritten(struct play *play, const bson_t *command, bool imagines, bson_t *out)
{
	const struct match *match = &play->sequence->match;
	struct steps steps = {.count = 0};
	auto_buffer struct buffer asked = {0};
	enum sequence_outcome outcome;
	bool sends, same;

	write_frame(command, &asked);
	bson_append_array_begin(out, "sends", -1, &steps.list);
	outcome = play_to_send(play, play_on(play, NULL, false), &steps);
	sends = outcome == SEQUENCE_SEND || outcome == SEQUENCE_SEND_LAST;
	same = sends && bytes_equal(play->sequence->output, buffer_view(&asked));
	if (sends)
		steps_add_frame(&steps, play->sequence->output);
	bson_append_array_end(out, &steps.list);
	say(out, sends ? "rewritten" : "answered",
	    sends ? why_rewritten(match, same) : "Spillway answers itself");
	append_namespace(match, out);
	if (imagines && outcome == SEQUENCE_SEND && is_worth_imagining(match))
		imagine_outlier(play, out);
}

static void explain_sequence(struct sequence *sequence, const bson_t *command, bool imagines,
			     bson_t *out)
{
	struct play play = {
		.sequence = sequence,
		.imagined = {.namespace = sequence->match.namespace, .request = command},
		.now = 1};

	sequence->next_request_id = REQUEST_ID + 1;
	say_rewritten(&play, command, imagines, out);
	sequence_free(sequence);
}

static void explain_match(struct packet *packet, const struct match *match, const bson_t *command,
			  bool imagines, bson_t *out)
{
	switch (match->verdict) {
	case VERDICT_FORWARD:
		say(out, "forwarded",
		    match->namespace ? "a rule is on the collection, but the command does not "
				       "concern its array"
				     : "no rule is concerned");
		append_namespace(match, out);
		break;
	case VERDICT_HELLO:
		say(out, "forwarded", "addresses and compressors are changed on the way");
		break;
	case VERDICT_REFUSE:
		say_refused(match, out);
		append_namespace(match, out);
		break;
	case VERDICT_CLOSE:
		say(out, "closed", "no client sends this: the connection is closed");
		break;
	default:
		explain_sequence(sequence_new(packet, match), command, imagines, out);
		break;
	}
}

void explain_command(const struct explain *explain, const bson_t *command, bson_t *out)
{
	struct buffer frame = {0};
	struct match_facts facts;
	struct packet packet;
	struct match match;

	write_frame(command, &frame);
	if (match_prefix(namespace_cache_rules(explain->namespaces), buffer_view(&frame), &facts) ==
	    MATCH_FORWARD) {
		say(out, "forwarded", "no rule is concerned, as the first bytes show");
		buffer_fini(&frame);
		return;
	}
	packet_read(&packet, &frame);
	match_packet_judged(explain->namespaces, &packet, explain->judge, &match);
	explain_match(&packet, &match, command, explain->imagines, out);
	packet_fini(&packet);
}

/* ---- For people. */

static void print_steps(struct buffer *text, const bson_t *explained, const char *list,
			const char *heading)
{
	bson_iter_t steps, step;
	unsigned count = 0;

	if (!bson_iter_init_find(&steps, explained, list) || !bson_iter_recurse(&steps, &step))
		return;
	while (bson_iter_next(&step)) {
		bson_iter_t field;
		const uint8_t *data;
		uint32_t length;
		bson_t document;
		char *json;

		if (count++ == 0)
			text_append(text, "\n%s\n", heading);
		if (!bson_iter_recurse(&step, &field) || !bson_iter_next(&field))
			continue;
		if (BSON_ITER_HOLDS_UTF8(&field)) {
			text_append(text, "  %u. %s\n", count, bson_iter_utf8(&field, NULL));
			continue;
		}
		bson_iter_document(&field, &length, &data);
		if (!bson_init_static(&document, data, length))
			continue;
		json = bson_as_relaxed_extended_json(&document, NULL);
		text_append(text, "  %u. sends %s\n", count, json ? json : "what is no UTF-8");
		bson_free(json);
	}
}

/* "" where there is none. */
static const char *text_of(const bson_t *explained, const char *name)
{
	bson_iter_t field;

	return bson_iter_init_find(&field, explained, name) && BSON_ITER_HOLDS_UTF8(&field)
		       ? bson_iter_utf8(&field, NULL)
		       : "";
}

void explain_print(struct buffer *text, const bson_t *explained)
{
	const char *rule = text_of(explained, "rule"), *code = text_of(explained, "codeName");
	bson_iter_t number;

	text_append(text, "%s", text_of(explained, "verdict"));
	if (*code && bson_iter_init_find(&number, explained, "code"))
		text_append(text, " with %d %s", bson_iter_int32(&number), code);
	text_append(text, ": %s\n", text_of(explained, "why"));
	if (*rule)
		text_append(text, "rule '%s' on '%s'\n", rule, text_of(explained, "namespace"));
	print_steps(text, explained, "sends", "To mongod:");
	print_steps(text, explained, "outlier",
		    "Then, if the command meets an outlier (one is imagined here):");
}
