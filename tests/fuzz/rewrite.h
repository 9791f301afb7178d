/*
 * What the fuzz targets of rewriting share: a request on ruled namespaces is matched and driven
 * through its sequence, with replies from the input. Nothing that is sent or answered may pass a
 * message, and no step may take long.
 */
#ifndef TESTS_FUZZ_REWRITE_H
#define TESTS_FUZZ_REWRITE_H

#include "tests/fuzz/fuzz.h"

#include "protocol/writer.h"
#include "rules/config/config.h"
#include "rules/sequence/sequence.h"

#include <time.h>

#define MOST_STEPS 60
/* For a step, under the sanitizers, of an input of 64 KB. That has 32,000 fields at most, a sixth
 * of what rules/query/work.h lets through: a step whose time grows by the square fails here. */
#define MOST_SECONDS 1

#define RULE(name, namespace, array, more, overflow) \
	"  - name: " name \
	"\n    namespace: " namespace "\n    array: " array "\n    threshold: 2\n" more \
				      "    overflow: { " overflow ", array: more }\n"

/* books has a flag that is hidden, pairs two arrays, shown one flag that clients see. */
static const char rewrite_rules[] =
	"listen: [{ address: '127.0.0.1:1', server: '127.0.0.1:2' }]\nrules:\n" RULE(
		"books", "shop.books", "f", "    flag: { field: has_extras, value: true }\n",
		"link: book") RULE("first", "shop.pairs", "f", "", "collection: one, link: of")
		RULE("second", "shop.pairs", "a.g", "", "collection: two, link: of")
			RULE("shown", "shop.shown", "f",
			     "    flag: { field: long, value: true }\n    expose: [flag]\n",
			     "collection: three, link: of");

/* Of a file with these rules: a target has one. */
static inline struct namespace_cache *rewrite_cache_of(const char *rules)
{
	static struct namespace_cache *cache;
	static struct config *config; /* both stay to the end */
	char *problems = NULL;

	if (cache)
		return cache;
	config = config_parse("f", bytes_of(rules), NULL, &problems);
	require(config);
	cache = namespace_cache_new(config->rules);
	return cache;
}

static inline struct namespace_cache *rewrite_cache(void)
{
	return rewrite_cache_of(rewrite_rules);
}

/* What is left of the input. */
struct input {
	struct bytes rest;
};

static inline uint8_t input_byte(struct input *input)
{
	uint8_t byte = 0;

	if (input->rest.length > 0) {
		byte = input->rest.data[0];
		input->rest = (struct bytes){input->rest.data + 1, input->rest.length - 1};
	}
	return byte;
}

/* The bytes before the next zero, which is passed over. */
static inline struct bytes input_text(struct input *input)
{
	const uint8_t *nul =
		input->rest.length > 0 ? memchr(input->rest.data, 0, input->rest.length) : NULL;
	size_t length = nul ? (size_t)(nul - input->rest.data) : input->rest.length;
	struct bytes text = {input->rest.data, length}, rest = input->rest;

	input->rest = nul ? (struct bytes){nul + 1, rest.length - length - 1} : (struct bytes){0};
	return text;
}

/* The next document; an empty one where there is none. */
static inline struct bytes input_document(struct input *input)
{
	static const uint8_t empty[] = {5, 0, 0, 0, 0};
	struct bytes document;

	if (!message_next_document(&input->rest, &document))
		return (struct bytes){empty, sizeof(empty)};
	return document;
}

static inline const char *input_collection(struct input *input)
{
	static const char *const names[] = {"books", "pairs", "shown", "others"};

	return names[input_byte(input) % ARRAY_LENGTH(names)];
}

static inline double rewrite_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The reply to what was sent: the input's next document. */
static inline struct packet rewrite_reply(struct input *input)
{
	struct bytes document = input_document(input);
	struct buffer frame = {0};
	struct packet packet;
	size_t start = message_begin(&frame, 9, 0, 0);

	message_begin_body(&frame);
	buffer_append(&frame, document.data, document.length);
	message_end(&frame, start);
	packet_read_reply(&packet, &frame);
	return packet;
}

static inline void rewrite_check_output(const struct sequence *sequence)
{
	struct frame_header header;

	require(sequence->output.length <= FRAME_MAX_LENGTH);
	require(sequence->output.length == 0 ||
		(frame_next(sequence->output, &header) == FRAME_READY &&
		 (size_t)header.length == sequence->output.length));
}

static inline enum sequence_outcome rewrite_step(struct sequence *sequence, struct packet *reply,
						 bool moved, int step)
{
	struct sequence_input given = {reply, moved, false, (uint64_t)step + 1};
	double start = rewrite_seconds();
	enum sequence_outcome outcome = sequence_resume(sequence, &given);

	require(rewrite_seconds() - start < MOST_SECONDS);
	return outcome;
}

static inline void rewrite_ignore(void *context, const struct mover_note *note)
{
	(void)context;
	(void)note;
}

static inline void rewrite_run(struct sequence *sequence, struct input *input, bool moved)
{
	enum sequence_outcome outcome = rewrite_step(sequence, NULL, false, 0);

	for (int step = 1; step < MOST_STEPS; step++) {
		struct packet reply = {0};

		if (outcome == SEQUENCE_AGAIN)
			return;
		if (outcome == SEQUENCE_SEND || outcome == SEQUENCE_SEND_LAST ||
		    outcome == SEQUENCE_DONE)
			rewrite_check_output(sequence);
		if (outcome == SEQUENCE_SEND_LAST || outcome == SEQUENCE_DONE) {
			sequence_notes(sequence, rewrite_ignore, NULL);
			return;
		}
		if (outcome == SEQUENCE_SEND) {
			if (input->rest.length == 0)
				break;
			reply = rewrite_reply(input);
			if (reply.kind == PACKET_MESSAGE) /* else the session closes */
				outcome = rewrite_step(sequence, &reply, false, step);
			else
				step = MOST_STEPS;
			packet_fini(&reply);
		} else {
			outcome = rewrite_step(sequence, NULL, moved, step);
		}
	}
	sequence_cut(sequence, rewrite_ignore, NULL);
}

/* The request whose body has been written, closed but for its frame. */
static inline void rewrite_request(struct buffer *frame, size_t body, struct input *input)
{
	struct match match;
	struct packet packet;
	struct sequence *sequence;
	bool moved = input_byte(input) & 1;
	double start;

	writer_string(frame, "$db", "shop");
	writer_close(frame, body);
	message_end(frame, 0);
	packet_read(&packet, frame);
	start = rewrite_seconds();
	match_packet(rewrite_cache(), &packet, &match);
	require(rewrite_seconds() - start < MOST_SECONDS);
	if (match.verdict != VERDICT_FORWARD && match.verdict != VERDICT_HELLO &&
	    match.verdict != VERDICT_CLOSE) {
		sequence = match.asks_indexes ? sequence_new_ask(&packet, &match)
					      : sequence_new(&packet, &match);
		rewrite_run(sequence, input, moved);
		sequence_free(sequence);
	}
	packet_fini(&packet);
}

/* Opens the body of a request by its first field. */
static inline size_t rewrite_begin(struct buffer *frame, const char *command,
				   const char *collection)
{
	size_t body;

	message_begin(frame, 7, 0, 0);
	message_begin_body(frame);
	body = writer_open(frame);
	writer_string(frame, command, collection);
	return body;
}

#endif
