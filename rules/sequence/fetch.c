/* Fetches the overflow that a merge wants. */
#include "rules/sequence/fetch.h"

#include "protocol/writer.h"

#include <stdio.h>
#include <stdlib.h>

#define MANY_ELEMENTS 20000
#define MANY_BYTES 20000
/* The largest reply of a cursor: 16 MB of documents, and what is around them. */
#define REPLY_MOST (17 << 20)

void fetch_init(struct fetch *fetch, const struct ruled_namespace *namespace)
{
	*fetch = (struct fetch){
		.namespace = namespace, .merge = merge_new(namespace), .most = SIZE_MAX};
}

void fetch_fini(struct fetch *fetch)
{
	merge_free(fetch->merge);
	for (size_t i = 0; i < fetch->kept_count; i++)
		buffer_fini(&fetch->kept[i]);
	free(fetch->kept);
	packet_fini(&fetch->failed);
	*fetch = (struct fetch){0};
}

static void keep(struct fetch *fetch, struct packet *reply)
{
	struct buffer *frame = packet_compressed(reply) ? &reply->unpacked : &reply->raw;

	if ((fetch->kept_count & (fetch->kept_count - 1)) == 0)
		fetch->kept =
			must_realloc(fetch->kept, (fetch->kept_count ? 2 * fetch->kept_count : 1) *
							  sizeof(*fetch->kept));
	fetch->kept_bytes += frame->length;
	fetch->kept[fetch->kept_count++] = buffer_steal(frame);
}

static bool take_documents(struct fetch *fetch, struct bytes batch)
{
	struct element document;
	struct cursor cursor;
	enum cursor_step step;

	if (!batch.data || !cursor_open(&cursor, batch))
		return false;
	while ((step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT)
		/* One that can't be read is as one that is missing: whose it is can't be said. */
		if (document.type != BSON_BYTE_DOCUMENT)
			return false;
		else
			(void)!merge_add_overflow(fetch->merge, fetch->target, document.value);
	return step == CURSOR_END;
}

static enum fetch_outcome take_reply(struct fetch *fetch, struct packet *reply)
{
	struct reply_cursor cursor;

	if (!reply->summary.readable)
		return FETCH_BROKEN;
	if (!reply->summary.ok) {
		fetch->failed = packet_steal(reply);
		fetch->cursor_id = 0; /* a getMore that fails ends its cursor */
		return FETCH_FAILED;
	}
	cursor = reply_read_cursor(reply->summary.cursor);
	keep(fetch, reply);
	if (!element_integer(&cursor.id, &fetch->cursor_id) || !take_documents(fetch, cursor.batch))
		return FETCH_BROKEN;
	return FETCH_COMPLETE;
}

/* Room for so many bytes of elements, some more because they are not all of one size. */
static size_t guess_reply(double bytes)
{
	return 2 * bytes < REPLY_MOST ? (size_t)(bytes * 1.25) + MANY_BYTES : REPLY_MOST;
}

static void write_query(struct fetch *fetch, struct sequence *sequence,
			const struct sequence_input *input)
{
	const struct target *target = &fetch->namespace->targets[fetch->target];
	struct buffer *out = &sequence->buffer;
	bool many = merge_wanted_elements(fetch->merge, fetch->target) > MANY_ELEMENTS;
	double much = merge_wanted_bytes(fetch->merge, fetch->target);
	size_t body = sequence_begin_command(sequence);

	writer_string(out, "find", target->overflow_collection);
	merge_write_filter(fetch->merge, fetch->target, out, "filter");
	merge_write_sort(fetch->merge, fetch->target, out, "sort");
	/* As many as a reply of 16 MB holds. Of much, one by the find and the rest by a getMore:
	 * that one reserves its reply's memory at once, where a find's grows by doubling. */
	writer_int32(out, "batchSize", many ? 1 : INT32_MAX);
	sequence_write_read_fields(sequence, input, target->overflow_database, fetch->read_concern);
	sequence_send_command(sequence, body);
	fetch->guess = guess_reply(much);
	sequence->reply.expected = many || much <= MANY_BYTES ? 0 : fetch->guess;
	sequence->counts.fetches++;
}

static void write_get_more(struct fetch *fetch, struct sequence *sequence)
{
	const struct target *target = &fetch->namespace->targets[fetch->target];
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_command(sequence);

	writer_int64(out, "getMore", fetch->cursor_id);
	writer_string(out, "collection", target->overflow_collection);
	writer_string(out, "$db", target->overflow_database);
	sequence_write_cursor_fields(sequence);
	sequence_send_command(sequence, body);
	sequence->reply.expected = fetch->guess;
}

static enum fetch_outcome ask(struct fetch *fetch, struct sequence *sequence,
			      const struct sequence_input *input)
{
	fetch->target = 0;
	while (fetch->target < fetch->namespace->target_count &&
	       !merge_wants(fetch->merge, fetch->target))
		fetch->target++;
	if (fetch->target == fetch->namespace->target_count)
		return FETCH_COMPLETE;
	if (fetch->kept_bytes > fetch->most)
		return FETCH_TOO_MUCH;
	if (sequence_time_left(sequence, input) == 0)
		return FETCH_TIMEOUT;
	write_query(fetch, sequence, input);
	fetch->asked = input->now;
	return FETCH_SEND;
}

enum fetch_outcome fetch_next(struct fetch *fetch, struct sequence *sequence,
			      const struct sequence_input *input, struct packet *reply)
{
	enum fetch_outcome outcome;

	if (reply) {
		sequence->counts.fetch_microseconds += (int64_t)(input->now - fetch->asked);
		fetch->asked = input->now;
		outcome = take_reply(fetch, reply);
		if (outcome != FETCH_COMPLETE)
			return outcome;
		if (fetch->cursor_id != 0 && fetch->kept_bytes > fetch->most)
			return FETCH_TOO_MUCH;
		if (fetch->cursor_id != 0) {
			write_get_more(fetch, sequence);
			return FETCH_SEND;
		}
	}
	return ask(fetch, sequence, input);
}

static const char *first_rule_name(const struct fetch *fetch)
{
	return fetch->namespace->targets[0].rule->name;
}

enum sequence_outcome fetch_fail(struct fetch *fetch, struct sequence *sequence,
				 enum fetch_outcome outcome)
{
	char message[256];

	switch (outcome) {
	case FETCH_FAILED:
		if (reply_is_unauthorized(&fetch->failed))
			return sequence_refuse_unauthorized(
				sequence, &fetch->namespace->targets[fetch->target]);
		return sequence_pass_helper_error(sequence, &fetch->failed, NULL);
	case FETCH_TIMEOUT:
		return sequence_fail(sequence, ERROR_MAX_TIME_EXPIRED,
				     "operation exceeded time limit", NULL);
	case FETCH_BROKEN:
		snprintf(message, sizeof(message),
			 "Spillway rule '%s': the server's reply on '%s.%s' can't be read; try "
			 "again",
			 first_rule_name(fetch),
			 fetch->namespace->targets[fetch->target].overflow_database,
			 fetch->namespace->targets[fetch->target].overflow_collection);
		return sequence_fail(sequence, ERROR_READ_CONCERN_NOT_AVAILABLE_YET, message, NULL);
	case FETCH_TOO_MUCH:
		snprintf(message, sizeof(message),
			 "Spillway rule '%s': a document, put together, passes the limit of a "
			 "message (48,000,000 bytes); read its array in parts ($slice)",
			 first_rule_name(fetch));
		return sequence_fail(sequence, ERROR_OBJECT_TOO_LARGE, message, NULL);
	case FETCH_SEND:
	case FETCH_COMPLETE:
		break;
	}
	require(!"this outcome is no failure");
}
