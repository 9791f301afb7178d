/* A round: takes one document's tail to its overflow, M0 to M4 of
 * docs/internals/spill-protocol.md#moving. */
#include "proxy/spill/round.h"

#include "proxy/spill/pass.h"

#include <bson/bson.h>

#define PASSES_MAX 64
#define MISSING_TRIES 8

/* Elements that count are not there: the generation has just died, or somebody destroyed it. */
static enum pass miss_overflow(struct pass_state *pass)
{
	if (pass->round->tries < MISSING_TRIES)
		return pass_ended(pass, ROUND_RETRY);
	return pass_leaves(pass, "elements of it are missing in the overflow");
}

/* How many elements are stored beyond n; negative: so many of those that count are missing. */
static int64_t stored_beyond(const struct pass_state *pass)
{
	return pass->open.position + pass->open.held - pass->plan.moved;
}

/* M2. A mover with another batch size may have filled a batch while this one's next was stored, so
 * that an earlier batch reaches further than the last one. */
static enum link_result find_open(struct pass_state *pass, bool *found)
{
	enum link_result result = overflow_find_open(pass, found);

	if (result != LINK_DONE || !*found || stored_beyond(pass) >= 0)
		return result;
	result = overflow_find_furthest(pass);
	pass->overlapped = result == LINK_DONE && stored_beyond(pass) >= 0;
	if (pass->overlapped)
		pass_overlaps(pass, 0);
	return result;
}

/* M2 to M4. */
static enum pass move_tail(struct pass_state *pass)
{
	bool found = false;
	enum link_result result;

	if (plan_is_edited(&pass->plan))
		return edited_move(pass);
	result = find_open(pass, &found);
	if (result != LINK_DONE)
		return pass_failed(pass, "M2", result);
	if (stored_beyond(pass) > 0)
		return overflow_link_stored(pass);
	if (stored_beyond(pass) < 0)
		return miss_overflow(pass);
	return overflow_store(pass, found);
}

static enum pass act(struct pass_state *pass)
{
	switch (pass->plan.kind) {
	case PLAN_REST:
		return PASS_MOVED;
	case PLAN_LEAVE:
	case PLAN_BROKEN:
		return pass_leaves(pass, pass->plan.why);
	case PLAN_BIRTH:
		return main_give_birth(pass);
	case PLAN_MOVE:
		return move_tail(pass);
	case PLAN_UNDO:
		return main_undo(pass);
	case PLAN_TIDY:
		return main_tidy(pass);
	}
	require(!"a plan without a name");
}

/* M0 and what follows from it. */
static enum pass run_pass(struct round *round, enum round_end *end)
{
	struct pass_state pass = {.round = round,
				  .link = round->link,
				  .rule = round->target->rule,
				  .target = round->target};
	struct bytes document;
	uint8_t *image;
	enum link_result result = LINK_DONE;
	enum pass done;

	if (round->hot && !link_standalone(round->link))
		result = main_hurry(&pass);
	round->hot = false;
	if (result != LINK_LOST)
		result = main_read(&pass, round->operation_time, &document);
	if (result == LINK_REFUSED) /* a time from before a restart may lie in the future */
		result = main_read(&pass, 0, &document);
	if (result != LINK_DONE) {
		done = pass_failed(&pass, "M0", result);
		*end = pass.end;
		return done;
	}
	round->spilled = false;
	if (!document.data)
		return PASS_MOVED;
	image = link_steal_body(round->link);
	pass.plan = plan_make(pass.rule, document);
	round->length = pass.plan.elements + pass.plan.length;
	round->spilled = pass.plan.generation.length > 0 || pass.plan.kind == PLAN_BIRTH;
	done = act(&pass);
	*end = pass.end;
	bson_free(image);
	return done;
}

must_check enum round_end round_run(struct round *round)
{
	enum round_end end;
	enum pass pass = PASS_AGAIN;

	for (int i = 0; i < PASSES_MAX && pass == PASS_AGAIN; i++)
		pass = run_pass(round, &end);
	if (pass == PASS_ENDED)
		return end;
	return pass == PASS_MOVED ? ROUND_REST : ROUND_RETRY;
}
