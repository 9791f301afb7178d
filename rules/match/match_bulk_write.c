/* bulkWrite: where it names a ruled namespace, each of its runs is looked at as the older command
 * that does the same; one that can't be done refuses the whole, nothing applied. */
#include "rules/query/bulk_ops.h"
#include "rules/match/whole_write.h"
#include "rules/match/match_inner.h"
#include "rules/rule/names.h"
#include "rules/query/statements.h"

/* Sets the match's namespace to the first of nsInfo under a rule. */
static void note_namespace(const struct matching *matching, struct bytes name)
{
	struct match *match = matching->match;
	const struct ruled_namespace *found;
	struct bytes database, collection;

	if (!name_split(name, &database, &collection))
		return;
	if (match_refuse_overflow(matching, database, collection)) {
		/* What the user's rights are asked about. */
		match->command.database = database;
		match->command.collection = collection;
		return;
	}
	found = match_find_namespace(matching, database, collection);
	if (!match->namespace)
		match->namespace = found;
}

static void note_namespaces(const struct matching *matching)
{
	struct statements statements;
	struct bytes document, name;
	struct element element;
	bool broken;

	if (!statements_open(&statements, &matching->packet->message, matching->command,
			     FIELD_NS_INFO))
		return; /* mongod says what is wrong with it */
	while (statements_next(&statements, &document, &broken) &&
	       matching->match->verdict != VERDICT_REFUSE)
		if (document_find(document, "ns", &element) && element_string(&element, &name))
			note_namespace(matching, name);
	if (broken)
		match_refuse_broken(matching->match, "bulkWrite");
}

/* What the command's own sequence would find out when earlier runs have been applied. */
void match_refuse_unserved(const struct packet *packet, struct match *match)
{
	bool deletes = match->command.kind == COMMAND_DELETE, broken;
	struct statements statements;
	struct bytes document;
	struct whole_write edit;
	const char *why;

	if (!match->edits || !statements_open(&statements, &packet->message, &match->command,
					      deletes ? FIELD_DELETES : FIELD_UPDATES))
		return;
	while (statements_next(&statements, &document, &broken)) {
		if (!statement_is_sound(document, deletes)) {
			match_refuse_broken(match, "an op");
			return;
		}
		if (!whole_write_of_statement(document, deletes, &edit) ||
		    !whole_write_wanted(&edit, match->namespace))
			continue;
		why = whole_write_unserved(&edit, match->namespace);
		if (why) {
			match_refuse(match, match->namespace->targets[0].rule, "bulkWrite", why);
			return;
		}
	}
}

/* Whether mongod may refuse the op by itself, in which case its error is the op's. In a transaction
 * the first error would end what comes before it. */
static bool is_mongods_perhaps(const struct matching *matching, const struct match *found)
{
	return found->refusal.code == ERROR_COMMAND_NOT_SUPPORTED &&
	       matching->match->facts.answered && found->command.kind != COMMAND_INSERT &&
	       !command_has(matching->command, FIELD_AUTOCOMMIT);
}

/* `perhaps`: mongod is asked about its ops, one by one, before any is done. */
static void refuse_run(struct match *match, const struct match *found, bool perhaps)
{
	if (perhaps)
		match->refuses = true;
	else
		match->verdict = VERDICT_REFUSE;
	match->refusal = found->refusal;
}

/* The judge has the word on what is not refused yet. True when the run is to be refused. */
static bool judge_run(const struct matching *matching, const struct packet *packet,
		      struct match *found)
{
	bool refused = found->verdict == VERDICT_REFUSE;

	if (!refused && matching->judge)
		matching->judge->judge(matching->judge->context, found);
	if (!refused && found->verdict == VERDICT_REFUSE) {
		refuse_run(matching->match, found, false);
		return false;
	}
	if (found->verdict == VERDICT_WRITE && !found->refuses)
		match_refuse_unserved(packet, found);
	return found->refuses || found->verdict == VERDICT_REFUSE;
}

static void match_run(const struct matching *matching, const struct bulk_write *bulk,
		      struct bulk_run run)
{
	const struct bulk_command command = {.run = run, .time_left = -1};
	struct match *match = matching->match, found;
	struct buffer frame = {0};
	struct packet packet;

	bulk_write_command(bulk, matching->command, &command, &frame);
	packet_read(&packet, &frame);
	match_packet(matching->cache, &packet, &found);
	if (judge_run(matching, &packet, &found))
		refuse_run(match, &found, is_mongods_perhaps(matching, &found));
	packet_fini(&packet);
	if (found.asks_indexes)
		match->asks_indexes = found.asks_indexes;
}

static void refuse_repetition(struct match *match)
{
	match_refuse_limit(match, ERROR_OBJECT_TOO_LARGE, "too many runs of a bulkWrite",
			   "Spillway runs a bulkWrite as one command for each run of ops of one "
			   "kind, each with the command's other fields: together they would have "
			   "more than 256 MB; sort the ops, or split the bulkWrite");
}

static void match_runs(const struct matching *matching)
{
	struct match *match = matching->match;
	struct bulk_problem problem;
	struct bulk_write bulk;
	struct bulk_run run = {0};

	if (!bulk_write_parse(&bulk, matching->packet, matching->command, &problem)) {
		match_refuse(match, match->namespace->targets[0].rule, "bulkWrite",
			     problem.message);
		match->refusal.code = problem.code;
		return;
	}
	match->verdict = VERDICT_BULK_WRITE;
	match->cache = matching->cache;
	if (bulk_write_repeats_much(&bulk, matching->command))
		refuse_repetition(match);
	while (run.first + run.count < bulk.count && match->verdict != VERDICT_REFUSE) {
		run = bulk_write_longest(&bulk, run.first + run.count);
		match_run(matching, &bulk, run);
	}
	bulk_write_fini(&bulk);
}

void match_bulk_write(const struct matching *matching)
{
	struct match *match = matching->match;

	note_namespaces(matching);
	if (match->verdict == VERDICT_REFUSE || !match->namespace)
		return;
	if (matching->command->duplicate)
		match_refuse_broken(match, "command");
	else if (!match_refuse_large(matching))
		match_runs(matching);
}
