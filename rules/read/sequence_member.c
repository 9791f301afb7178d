/* A find that asks whether one document's array has some element (member.h).
 *
 *   MAIN    the document, and whether main's part of the array has the element
 *   ONE     the document that is all of the overflow, if a batch has room for all; else nothing
 *   HIT     an overflow document with the element
 *   ALL     all overflow documents: those of MAIN's state are complete
 *   LATER   of an array that was edited in place: whether an edit has changed what HIT found
 *
 * An element that HIT finds at a position that MAIN's state links was in the array when MAIN was
 * read. If HIT finds none and ALL then finds the overflow complete, HIT has looked at all of it:
 * what a generation holds never changes, and is not removed and stored again. So both answers are
 * those of the moment of MAIN, whatever has been written, moved or removed since.
 *
 * If the client wants more of the document than MAIN brings, the sequence of plain finds reads it:
 * by the client's own filter if MAIN has the element, else by its generation, which holds the
 * element as long as it lives. If nothing comes, the array was rewritten: MAIN again.
 *
 * In all other cases mongod puts the array together, as for any other find that reads it: the
 * sequence of such finds takes over. */
#include "rules/read/member.h"
#include "rules/sequence/sequence_inner.h"

#include <stdlib.h>

#define ATTEMPTS 3

enum step {
	STEP_BEGIN,
	STEP_MAIN,
	STEP_ONE,
	STEP_HIT,
	STEP_ALL,
	STEP_LATER,
};

struct sequence_member {
	struct sequence sequence;   /* first: the two are one pointer */
	struct sequence *successor; /* has taken over, or NULL */
	bool reading;               /* it is a plain find's, which may bring nothing */
	struct member member;
	struct packet request; /* the client's, while another find stands in its place */
	struct command command;
	uint64_t asked; /* the overflow, when */
	int attempts;
};

static struct sequence_member *member_of(struct sequence *sequence)
{
	return (struct sequence_member *)(void *)sequence;
}

/* ---- the answer ---- */

static enum sequence_outcome answer(struct sequence *sequence, bool found)
{
	const struct member *member = &member_of(sequence)->member;
	size_t body = sequence_begin_reply(sequence, &member->main.message);

	member_write_answer(&sequence->buffer, member, found);
	return sequence_end_reply(sequence, body);
}

/* ---- the successor ---- */

/* All that two sequences have in common, but for what makes each of them what it is. */
static void lend(struct sequence *to, const struct sequence *from)
{
	struct sequence own = *to;

	*to = *from;
	to->resume = own.resume;
	to->notes = own.notes;
	to->fini = own.fini;
	to->outgrown = own.outgrown;
	to->memory = own.memory;
}

static enum sequence_outcome resume_successor(struct sequence *sequence,
					      const struct sequence_input *input)
{
	struct sequence *successor = member_of(sequence)->successor;
	enum sequence_outcome outcome;

	lend(successor, sequence);
	outcome = successor->resume(successor, input);
	lend(sequence, successor);
	return outcome;
}

static enum sequence_outcome hand_over(struct sequence *sequence,
				       const struct sequence_input *input, bool reading)
{
	struct sequence_member *own = member_of(sequence);
	const struct sequence_input first = {.memory_short = input->memory_short,
					     .now = input->now};

	sequence->step = 0;
	own->reading = reading;
	own->successor = reading ? sequence_read_new() : sequence_aggregate_new();
	return resume_successor(sequence, &first);
}

static void free_successor(struct sequence_member *own)
{
	if (own->successor) {
		own->successor->fini(own->successor);
		free(own->successor);
	}
	own->successor = NULL;
}

/* The client's request is there again. */
static void take_back(struct sequence *sequence)
{
	struct sequence_member *own = member_of(sequence);

	free_successor(own);
	if (own->request.raw.length == 0)
		return;
	packet_fini(&sequence->request);
	sequence->request = packet_steal(&own->request);
	sequence->match.command = own->command;
}

static bool edit_filter(void *context, struct buffer *out, const struct element *field)
{
	struct sequence *sequence = context;

	if (!element_is(field, "filter"))
		return false;
	member_write_generation(out, &sequence->match.command, &member_of(sequence)->member);
	return true;
}

/* False where the find with the generation is too large. */
static bool name_generation(struct sequence *sequence)
{
	struct sequence_member *own = member_of(sequence);
	struct packet request;
	struct buffer frame;

	sequence_write_edited(sequence, 0, edit_filter, sequence);
	frame = buffer_steal(&sequence->buffer);
	packet_read(&request, &frame);
	if (request.kind != PACKET_MESSAGE) {
		packet_fini(&request);
		return false;
	}
	own->request = packet_steal(&sequence->request);
	own->command = sequence->match.command;
	sequence->request = request;
	return command_parse(sequence->request.message.body, &sequence->match.command);
}

/* The element is there. */
static enum sequence_outcome bring(struct sequence *sequence, const struct sequence_input *input)
{
	const struct member *member = &member_of(sequence)->member;

	if (member->answers)
		return answer(sequence, true);
	if (!member->plain || (sequence->step != STEP_MAIN && !name_generation(sequence)))
		return hand_over(sequence, input, false);
	return hand_over(sequence, input, true);
}

/* A plain find has ended, and its reply has no document. */
static bool brought_nothing(const struct sequence *sequence)
{
	struct message message;
	struct reply_summary summary;
	struct cursor documents;
	struct element document;
	struct bytes batch;

	if (!message_parse(sequence->output, &message))
		return false;
	summary = reply_summarise(message.body);
	batch = reply_read_cursor(summary.cursor).batch;
	return summary.ok && batch.data && cursor_open(&documents, batch) &&
	       cursor_next(&documents, &document) == CURSOR_END;
}

/* ---- steps ---- */

static enum sequence_outcome ask_main(struct sequence *sequence)
{
	size_t body = sequence_begin_command(sequence);
	int64_t time = sequence_time_anew(sequence);

	sequence->step = STEP_MAIN;
	member_write_main(&sequence->buffer, &sequence->match.command, &member_of(sequence)->member,
			  time > 0);
	if (time > 0)
		sequence_write_time(&sequence->buffer, time);
	return sequence_send_command(sequence, body);
}

static enum sequence_outcome ask_overflow(struct sequence *sequence,
					  const struct sequence_input *input, enum step step)
{
	struct sequence_member *own = member_of(sequence);
	size_t body = sequence_begin_command(sequence);

	sequence->step = (int)step;
	own->asked = input->now;
	sequence->counts.fetches++;
	if (step == STEP_ONE)
		member_write_one(&sequence->buffer, &own->member);
	else if (step == STEP_LATER)
		member_write_later(&sequence->buffer, &own->member);
	else if (step == STEP_HIT)
		member_write_hit(&sequence->buffer, &own->member);
	else
		member_write_all(&sequence->buffer, &own->member);
	sequence_write_read_fields(sequence, input, own->member.target->overflow_database,
				   (struct bytes){0});
	return sequence_send_command(sequence, body);
}

/* Behind an answer that decides nothing. */
static enum step next_step(struct sequence *sequence)
{
	if (sequence->step == STEP_HIT)
		return STEP_ALL;
	return sequence->step == STEP_MAIN && member_may_have_one(&member_of(sequence)->member)
		       ? STEP_ONE
		       : STEP_HIT;
}

static enum sequence_outcome go_on(struct sequence *sequence, const struct sequence_input *input,
				   enum member_found found)
{
	struct sequence_member *own = member_of(sequence);

	switch (found) {
	case MEMBER_THERE:
		return bring(sequence, input);
	case MEMBER_MISSING:
		return answer(sequence, false);
	case MEMBER_CHANGED:
	case MEMBER_UNKNOWN:
	case MEMBER_OLDER:
		break;
	case MEMBER_UNSURE:
		return hand_over(sequence, input, false);
	}
	if (sequence_time_left(sequence, input) == 0)
		return sequence_fail(sequence, ERROR_MAX_TIME_EXPIRED,
				     "operation exceeded time limit", NULL);
	if (found == MEMBER_UNKNOWN)
		return ask_overflow(sequence, input, next_step(sequence));
	if (found == MEMBER_OLDER)
		return ask_overflow(sequence, input, STEP_LATER);
	sequence->counts.repeats++;
	return ++own->attempts < ATTEMPTS ? ask_main(sequence) : hand_over(sequence, input, false);
}

static enum sequence_outcome take_overflow(struct sequence *sequence,
					   const struct sequence_input *input)
{
	struct sequence_member *own = member_of(sequence);

	sequence->counts.fetch_microseconds += (int64_t)(input->now - own->asked);
	if (sequence->step == STEP_ONE)
		return go_on(sequence, input, member_take_one(&own->member, input->reply));
	if (sequence->step == STEP_HIT)
		return go_on(sequence, input, member_take_hit(&own->member, input->reply));
	if (sequence->step == STEP_LATER)
		return go_on(sequence, input, member_take_later(&own->member, input->reply));
	return go_on(sequence, input, member_take_all(&own->member, input->reply));
}

static enum sequence_outcome go_on_with_successor(struct sequence *sequence,
						  const struct sequence_input *input)
{
	enum sequence_outcome outcome = resume_successor(sequence, input);

	if (outcome != SEQUENCE_DONE || !member_of(sequence)->reading || !brought_nothing(sequence))
		return outcome;
	take_back(sequence);
	return go_on(sequence, input, MEMBER_CHANGED);
}

static enum sequence_outcome member_resume(struct sequence *sequence,
					   const struct sequence_input *input)
{
	struct sequence_member *own = member_of(sequence);

	if (own->successor)
		return go_on_with_successor(sequence, input);
	switch ((enum step)sequence->step) {
	case STEP_BEGIN:
		return ask_main(sequence);
	case STEP_MAIN:
		return go_on(sequence, input, member_take_main(&own->member, input->reply));
	case STEP_ONE:
	case STEP_HIT:
	case STEP_ALL:
	case STEP_LATER:
		return take_overflow(sequence, input);
	}
	require(!"a step of another sequence");
}

static void member_sequence_fini(struct sequence *sequence)
{
	struct sequence_member *own = member_of(sequence);

	free_successor(own);
	packet_fini(&own->request);
	member_fini(&own->member);
}

static size_t member_memory(const struct sequence *sequence)
{
	const struct sequence_member *own = (const struct sequence_member *)(const void *)sequence;

	return own->request.raw.capacity + (own->successor && own->successor->memory
						    ? own->successor->memory(own->successor)
						    : 0);
}

struct sequence *sequence_member_new(const struct match *match)
{
	struct member member;
	struct sequence_member *own;

	if (!member_of_find(&match->command, match->namespace, &member))
		return NULL;
	own = must_calloc(1, sizeof(*own));
	own->member = member;
	own->sequence.resume = member_resume;
	own->sequence.fini = member_sequence_fini;
	own->sequence.memory = member_memory;
	return &own->sequence;
}
