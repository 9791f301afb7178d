/* Inside a round: how a pass ends, and how its commands are written and run. */
#include "proxy/spill/pass.h"

#include "proxy/base/log.h"
#include "proxy/base/metrics.h"
#include "rules/rule/overflow_document.h"

enum pass pass_ended(struct pass_state *pass, enum round_end end)
{
	pass->end = end;
	return PASS_ENDED;
}

enum pass pass_failed(struct pass_state *pass, const char *step, enum link_result result)
{
	if (result == LINK_LOST)
		return pass_ended(pass, ROUND_LOST);
	if (link_error(pass->link)->code == ERROR_COLLECTION_UUID_MISMATCH)
		atomic_store(&pass->target->judged_at, MOVER_NEVER);
	pass->round->refused = true;
	metric_add_shared(&pass->round->metrics->move_errors, 1);
	log_debug("4003 mover: '%s.%s': %s refused: %s", pass->target->database,
		  pass->target->collection, step, link_error(pass->link)->message);
	return pass_ended(pass, ROUND_RETRY);
}

void pass_overlaps(struct pass_state *pass, int64_t from)
{
	struct round *round = pass->round;

	if (!round->overlapped || from < round->overlap_from)
		round->overlap_from = from;
	round->overlapped = true;
}

enum pass pass_leaves(struct pass_state *pass, const char *why)
{
	metric_add_shared(&pass->round->metrics->documents_left_alone, 1);
	if (!atomic_exchange(&pass->target->told.left, true))
		log_warning("4004 mover: '%s.%s': a document under rule '%s' is left as it is: %s",
			    pass->target->database, pass->target->collection, pass->rule->name,
			    why);
	return pass_ended(pass, ROUND_LEFT);
}

enum pass pass_guarded(struct pass_state *pass, const char *step, enum link_result result,
		       enum pass held)
{
	if (result != LINK_DONE)
		return pass_failed(pass, step, result);
	return link_reply(pass->link)->n == 1 ? held : pass_ended(pass, ROUND_RETRY);
}

static void write_read_concern(struct buffer *out, const char *name, const void *context)
{
	const struct pass_state *pass = context;

	(void)name;
	command_read_concern(out, pass->link, pass->round->operation_time);
}

void pass_write_filled(struct pass_state *pass, struct buffer *out, const char *text,
		       const struct fill *fills)
{
	const struct mover_target *target = pass->target;
	const char *batch = pass->rule->overflow.array;
	const struct fill places[] = {
		fill("collection", target->collection),
		fill("overflow", target->overflow_collection),
		fill("id", &pass->plan.id),
		fill_binary("generation", pass->plan.generation),
		fill("head", pass->plan.head),
		fill("moved", pass->plan.moved),
		fill("length", pass->plan.length),
		fill("key", pass->rule->key),
		fill("array", pass->rule->array),
		fill("link", pass->rule->overflow.link),
		fill("order", overflow_order_path(pass->rule)),
		fill("batch", batch ? batch : ""),
		command_fill_uuid("uuid", target),
		fill_with("read_concern", write_read_concern, pass),
		{0},
	};
	struct fill all[COMMAND_FILLS];

	command_join_fills(all, fills, places);
	command_write_filled(out, pass->link, text, all);
}

must_check enum link_result pass_send(struct pass_state *pass, const char *database,
				      struct bytes command)
{
	enum link_result result = link_run(pass->link, database, command);

	if (result == LINK_DONE)
		pass->round->operation_time = time_after(pass->link, pass->round->operation_time);
	return result;
}

must_check enum link_result pass_run_filled(struct pass_state *pass, const char *database,
					    const char *text, const struct fill *fills)
{
	auto_buffer struct buffer out = {0};

	pass_write_filled(pass, &out, text, fills);
	return pass_send(pass, database, buffer_view(&out));
}

must_check enum link_result pass_find_filled(struct pass_state *pass, const char *text,
					     const struct fill *fills, link_document each,
					     void *context)
{
	auto_buffer struct buffer out = {0};

	pass_write_filled(pass, &out, text, fills);
	return link_find(pass->link, pass->target->overflow_database, buffer_view(&out), each,
			 context);
}
