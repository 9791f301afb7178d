/*
 * Plays the client and the server of one sequence: hands it replies made from JSON, compares what
 * it sends and answers with JSON.
 */
#ifndef TESTS_UNIT_PLAY_H
#define TESTS_UNIT_PLAY_H

#include "tests/unit/golden.h"
#include "tests/unit/shop.h"

#include "rules/rule/known_indexes.h"
#include "rules/read/plain_find.h"
#include "rules/sequence/sequence.h"

#define PLAY_ID 77       /* the client's request */
#define PLAY_OURS 0x5000 /* the first command of ours */
#define PLAY_NOTES 8

/* Two generations, as Extended JSON. */
#define G1 "{'$binary': {'base64': 'AQEBAQEBAQEBAQEBAQEBAQ==', 'subType': '00'}}"
#define G2 "{'$binary': {'base64': 'AgICAgICAgICAgICAgICAg==', 'subType': '00'}}"
/* What every helper read of a plain client carries. */
#define NEAREST "'$readPreference': {'mode': 'primaryPreferred'}"
/* A session's fields, and their transaction. */
#define LSID "'lsid': {'id': {'$binary': {'base64': 'AAAAAAAAAAAAAAAAAAAAAA==', 'subType': '04'}}}"
#define NUMBER "'txnNumber': {'$numberLong': '3'}"
#define TRANSACTION LSID ", " NUMBER ", 'autocommit': false"

struct play {
	struct shop shop;
	struct sequence *sequence;
	enum sequence_outcome outcome;
	uint64_t now; /* microseconds */
	bool memory_short;
	bool unproven;
	int32_t sent_id;
	struct bytes request;                /* the client's frame */
	const struct ruled_namespace *plain; /* of a plain find without its reply, else NULL */
	struct bytes reply;                  /* the server's last */
	struct mover_note notes[PLAY_NOTES];
	struct bytes indexes;     /* of the books' overflow, as the movers tell them; or none */
	struct bytes own_indexes; /* the same of the books */
	size_t note_count;
};

/* All but the model's, which has more of them than a file should, and those of an edit in place,
 * which have names that are drawn. */
static inline void play_note(const struct play *play)
{
	if (strcmp(unit_running()->category, "sequence_model") == 0 ||
	    (play->outcome == SEQUENCE_SEND && play->sequence->end.holds))
		return;
	if (play->outcome == SEQUENCE_SEND || play->outcome == SEQUENCE_SEND_LAST)
		golden_note('>', play->sequence->output);
	if (play->outcome == SEQUENCE_DONE)
		golden_note('<', play->sequence->output);
}

static inline void play_resume(struct play *play, struct packet *reply, bool moved)
{
	struct sequence_input input = {.reply = reply,
				       .moved = moved,
				       .memory_short = play->memory_short,
				       .now = play->now};

	play->outcome = sequence_resume(play->sequence, &input);
	play_note(play);
	if (play->outcome == SEQUENCE_SEND)
		play->sent_id = load_int32(play->sequence->output.data + 4);
}

/* As if what the sequence was to send had passed a message. */
static inline void play_outgrow(struct play *play)
{
	const struct sequence_input input = {.now = play->now};

	play->sequence->output = (struct bytes){0};
	play->outcome = play->sequence->outgrown(play->sequence, &input);
}

/* The client's bytes go out as they came. */
#define play_expect_forwarded(play) \
	do { \
		cr_assert_eq((play)->outcome, SEQUENCE_SEND, "%d", (play)->outcome); \
		cr_assert(bytes_equal((play)->sequence->output, (play)->request)); \
	} while (0)

/* The server's last reply goes back as it came, but for the request that it answers. */
#define play_expect_passed(play) \
	do { \
		struct bytes play_output = (play)->sequence->output; \
		cr_assert_eq((play)->outcome, SEQUENCE_DONE, "%d", (play)->outcome); \
		cr_assert_eq(load_int32(play_output.data + 8), PLAY_ID); \
		cr_assert_eq(play_output.length, (play)->reply.length); \
		cr_assert_eq(memcmp(play_output.data + 12, (play)->reply.data + 12, \
				    play_output.length - 12), \
			     0); \
	} while (0)

/* The client sends; the sequence must have the verdict that is expected. */
static inline void play_request_frame(struct play *play, struct buffer frame,
				      enum match_verdict verdict)
{
	struct packet packet;
	struct match match;

	play->shop = shop_open();
	if (play->indexes.length > 0)
		known_indexes_take(rule_set_indexes(play->shop.config->rules, bytes_of("shop"),
						    bytes_of("books_more")),
				   play->indexes);
	if (play->own_indexes.length > 0)
		known_indexes_take(rule_set_indexes(play->shop.config->rules, bytes_of("shop"),
						    bytes_of("books")),
				   play->own_indexes);
	play->now = 1000000;
	play->request = made_copy(buffer_view(&frame));
	if (!plain_find(play->shop.cache, play->request, &play->plain))
		play->plain = NULL;
	packet = made_packet(frame);
	match_packet(play->shop.cache, &packet, &match);
	cr_assert_eq(match.verdict, verdict, "%d: %s", match.verdict, match.refusal.message);
	play->sequence = play->plain ? sequence_new_plain_find(&packet, play->plain)
				     : sequence_new(&packet, &match);
	play->sequence->next_request_id = PLAY_OURS;
	play->sequence->permission.unproven = play->unproven;
	packet_fini(&packet);
	play_resume(play, NULL, false);
	if (play->plain) {
		cr_assert_eq(verdict, VERDICT_READ);
		play_expect_forwarded(play);
	}
}

static inline void play_request(struct play *play, struct made made, enum match_verdict verdict)
{
	made.id = PLAY_ID;
	play_request_frame(play, made_frame(&made), verdict);
}

static inline void play_command(struct play *play, const char *json, enum match_verdict verdict)
{
	play_request(play, (struct made){.body = json}, verdict);
}

static inline void play_close(struct play *play)
{
	sequence_free(play->sequence);
	shop_close(&play->shop);
	*play = (struct play){0};
}

/* ---- the server's part ---- */

static inline void play_reply_made(struct play *play, struct made made)
{
	struct buffer frame;
	struct packet packet;

	cr_assert_eq(play->outcome, SEQUENCE_SEND, "nothing was asked: %d", play->outcome);
	made.answers = play->sent_id;
	made.id = 4000;
	frame = made_frame(&made);
	play->reply = made_copy(buffer_view(&frame));
	packet = made_packet(frame);
	play_resume(play, &packet, false);
	packet_fini(&packet);
	if (play->plain && plain_find_passes(play->plain, play->reply))
		play_expect_passed(play);
	play->plain = NULL;
}

static inline void play_reply(struct play *play, const char *json)
{
	play_reply_made(play, (struct made){.body = json});
}

/* A reply whose body ends in a type that there isn't. */
static inline void play_reply_broken(struct play *play)
{
	struct buffer frame = made_frame(&(struct made){
		.body = "{'ok': 1.0, 'x': null}", .id = 4000, .answers = play->sent_id});
	struct packet packet;

	cr_assert_eq(play->outcome, SEQUENCE_SEND);
	frame.data[frame.length - 4] = 0x55;
	play->reply = made_copy(buffer_view(&frame));
	packet = made_packet(frame);
	cr_assert_eq(packet.kind, PACKET_MESSAGE);
	play_resume(play, &packet, false);
	packet_fini(&packet);
}

/* A reply in another form than OP_MSG. */
static inline void play_reply_old(struct play *play)
{
	struct buffer frame = made_frame(
		&(struct made){.body = "{'ok': 1.0}", .id = 4000, .answers = play->sent_id});
	struct packet packet;

	cr_assert_eq(play->outcome, SEQUENCE_SEND);
	store_int32(frame.data + 12, OPCODE_REPLY);
	play->reply = made_copy(buffer_view(&frame));
	packet = made_packet(frame);
	cr_assert_eq(packet.kind, PACKET_OTHER);
	play_resume(play, &packet, false);
	packet_fini(&packet);
}

/* The mover's part. */
static inline void play_moved(struct play *play, bool moved)
{
	cr_assert_eq(play->outcome, SEQUENCE_MOVE, "no move was asked: %d", play->outcome);
	play_resume(play, NULL, moved);
}

/* The mover tends the overflow of this collection by this rule. */
static inline void play_tended(struct play *play, const char *collection, const char *rule)
{
	cr_assert_eq(play->outcome, SEQUENCE_TEND, "no tending was asked: %d", play->outcome);
	cr_assert(bytes_are(play->sequence->move.note.collection, collection));
	cr_assert_str_eq(play->sequence->move.note.rule->name, rule);
	play_resume(play, NULL, false);
}

/* ---- what comes out ---- */

static inline struct message play_message(const struct play *play)
{
	struct message message;

	cr_assert(message_parse(play->sequence->output, &message));
	cr_assert_not(message.flags & MESSAGE_CHECKSUM_PRESENT);
	return message;
}

/* A command goes to the server; `flags` of the message. */
#define play_expect_sent(play, expected_flags, json) \
	do { \
		struct message play_sent_message; \
		cr_assert_eq((play)->outcome, SEQUENCE_SEND, "%d", (play)->outcome); \
		play_sent_message = play_message(play); \
		cr_assert_eq(play_sent_message.header.response_to, 0); \
		cr_assert_eq(play_sent_message.flags, (uint32_t)(expected_flags)); \
		made_expect(play_sent_message.body, json); \
	} while (0)

/* A command of our own goes out, by an id of our own. */
#define play_expect_helper(play, json) \
	do { \
		play_expect_sent(play, 0, json); \
		cr_assert((play)->sent_id >= PLAY_OURS); \
	} while (0)

/* An error of ours ends the client's TRANSACTION; the server says what it likes. */
#define play_end_transaction(play) \
	do { \
		play_expect_helper(play, "{'abortTransaction': 1, '$db': 'admin', " TRANSACTION \
					 ", 'writeConcern': {'w': 1}}"); \
		play_reply(play, "{'ok': 0.0, 'code': 251, 'codeName': 'NoSuchTransaction'}"); \
	} while (0)

/* The documents of the message's one sequence. */
#define play_expect_documents(play, name, json) \
	do { \
		struct message play_with_sequence = play_message(play); \
		auto_buffer struct buffer play_wanted = {0}; \
		cr_assert_eq(play_with_sequence.sequence_count, 1); \
		cr_assert(bytes_are(play_with_sequence.sequences[0].identifier, name)); \
		message_begin(&play_wanted, 0, 0, 0); \
		made_add_sequence(&play_wanted, \
				  &(struct made){.sequence = (name), .documents = (json)}); \
		buffer_consume(&play_wanted, FRAME_HEADER_LENGTH + 4 + 1 + 4 + strlen(name) + 1); \
		cr_assert(bytes_equal(play_with_sequence.sequences[0].documents, \
				      buffer_view(&play_wanted)), \
			  "other documents than %s", json); \
	} while (0)

#define play_expect_answer(play, json) \
	do { \
		struct message play_answer_message; \
		cr_assert_eq((play)->outcome, SEQUENCE_DONE, "%d", (play)->outcome); \
		play_answer_message = play_message(play); \
		cr_assert_eq(play_answer_message.header.response_to, PLAY_ID); \
		cr_assert_eq(play_answer_message.flags, 0); \
		made_expect(play_answer_message.body, json); \
	} while (0)

/* An error of ours. `label` may be NULL. */
#define play_expect_error(play, expected_code, says) \
	do { \
		struct bytes play_body; \
		struct reply_summary play_summary; \
		struct element play_text; \
		cr_assert_eq((play)->outcome, SEQUENCE_DONE, "%d", (play)->outcome); \
		play_body = play_message(play).body; \
		cr_assert_eq(play_message(play).header.response_to, PLAY_ID); \
		play_summary = reply_summarise(play_body); \
		cr_assert(play_summary.readable); \
		cr_assert_not(play_summary.ok, "%s", made_json(play_body)); \
		cr_assert_eq(play_summary.code, expected_code, "%s", made_json(play_body)); \
		cr_assert(document_find(play_body, "errmsg", &play_text)); \
		cr_assert( \
			memmem(play_text.value.data, play_text.value.length, says, strlen(says)), \
			"%s", made_json(play_body)); \
	} while (0)

static inline void play_take_note(void *context, const struct mover_note *note)
{
	struct play *play = context;

	cr_assert(play->note_count < PLAY_NOTES);
	play->notes[play->note_count++] = *note;
}

/* How many notes for the mover the sequence leaves; they stand in play->notes. */
static inline size_t play_notes(struct play *play)
{
	play->note_count = 0;
	sequence_notes(play->sequence, play_take_note, play);
	return play->note_count;
}

/* The same where a connection is lost now. */
static inline size_t play_cut(struct play *play)
{
	play->note_count = 0;
	sequence_cut(play->sequence, play_take_note, play);
	return play->note_count;
}

/* A pipeline's stages by name; until the next call. */
static inline const char *play_names(struct bytes pipeline)
{
	static struct buffer names;
	struct element stage, verb;
	struct cursor stages, document;

	names.length = 0;
	cr_assert(cursor_open(&stages, pipeline));
	while (cursor_next(&stages, &stage) == CURSOR_ELEMENT) {
		cr_assert(cursor_open(&document, stage.value) &&
			  cursor_next(&document, &verb) == CURSOR_ELEMENT);
		if (names.length > 0)
			buffer_append(&names, " ", 1);
		buffer_append(&names, verb.name.data, verb.name.length);
	}
	buffer_append(&names, "", 1);
	return (const char *)names.data;
}

/* What stands at a path, whose names may be places in arrays. */
static inline struct bytes play_find(struct bytes document, const char *path)
{
	struct element found = {.value = document};
	char name[32];

	for (size_t length; *path != '\0'; path += length + (path[length] == '.')) {
		length = strcspn(path, ".");
		snprintf(name, sizeof(name), "%.*s", (int)length, path);
		cr_assert(document_find(found.value, name, &found), "no '%s'", name);
	}
	return found.value;
}

/* The first stage asks for documents that the overflow has named: by `_id`, and by the generation
 * that their state names. A state that can't be read raises an error. */
static inline void play_expect_named(const struct play *play, const char *ids,
				     const char *generations)
{
	struct bytes body = play_message(play).body;
	struct bytes named = play_find(body, "pipeline.0.$match.$and.0.$or.1");
	struct bytes sound = play_find(named, "$expr.$cond.2.$cond");

	made_expect(play_find(named, "_id"), ids);
	made_expect(play_find(sound, "2"), generations);
	cr_assert(play_find(sound, "1.$toObjectId").length > 0);
}

/* Of the aggregate that went out. */
static inline const char *play_stages(const struct play *play)
{
	struct element pipeline;

	cr_assert(document_find(play_message(play).body, "pipeline", &pipeline));
	return play_names(pipeline.value);
}

#endif
