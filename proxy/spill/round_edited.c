/* A round on an array that was edited in place: M3 and M4 are one transaction.
 *
 * Between two commands an edit might come, which raises the edition: what was stored for the one
 * before it would differ from the tail for ever. */
#include "proxy/spill/pass.h"

/* M3b and M3c; one command's batches. */
static enum pass store(struct pass_state *pass)
{
	bool found = false, filled = false;
	enum pass filling = PASS_AGAIN;
	int64_t last;
	size_t sent;
	enum link_result result = overflow_find_open_edited(pass, &found, &last);

	if (result != LINK_DONE)
		return pass_failed(pass, "M2", result);
	if (found && pass->open.held < pass->rule->overflow.batch_size)
		filling = overflow_fill(pass, &filled);
	if (filling == PASS_ENDED)
		return filling;
	pass->open.number = last;
	result = overflow_insert(&pass, 1, &sent);
	return result == LINK_DONE ? PASS_AGAIN : pass_failed(pass, "M3c", result);
}

static enum pass transact(struct pass_state *pass)
{
	enum pass done = main_hold(pass);

	if (done != PASS_ENDED)
		done = store(pass);
	return done == PASS_ENDED ? done : main_cut_edited(pass);
}

enum pass edited_move(struct pass_state *pass)
{
	enum link_result result;
	enum pass done;

	if (link_standalone(pass->link))
		return pass_leaves(pass,
				   "it was edited in place, and a standalone has no transactions");
	result = link_begin(pass->link);
	if (result != LINK_DONE)
		return pass_failed(pass, "M4", result);
	pass->plan.generation = pass->plan.editions.later;
	done = transact(pass);
	if (done == PASS_ENDED) {
		link_abort(pass->link);
		return done;
	}
	result = link_commit(pass->link);
	if (result != LINK_DONE)
		return pass_failed(pass, "M4", result);
	main_count_cut(pass);
	return pass->plan.head + pass->stored < pass->plan.length ? PASS_AGAIN : PASS_MOVED;
}
