/* Refuses requests. What a client may have chosen stands in the message alone, never in what
 * refusals are counted by. */
#include "rules/match/match_inner.h"
#include "rules/rule/names.h"
#include "rules/rule/text.h"
#include "rules/query/work.h"

#include <stdio.h>

static void set_what(struct match *match, const char *what)
{
	snprintf(match->refusal.what, sizeof(match->refusal.what), "%s", what);
}

void match_refuse(struct match *match, const struct rule *rule, const char *what, const char *why)
{
	const struct ruled_namespace *namespace = match->namespace;

	match->verdict = VERDICT_REFUSE;
	match->refusal.code = ERROR_COMMAND_NOT_SUPPORTED;
	match->refusal.rule = rule ? rule->name : "";
	set_what(match, what);
	if (rule && namespace)
		snprintf(match->refusal.message, sizeof(match->refusal.message),
			 "Spillway rule '%s' on '%s.%s': %s: %s", rule->name, namespace->database,
			 namespace->collection, what, why);
	else if (rule)
		snprintf(match->refusal.message, sizeof(match->refusal.message),
			 "Spillway rule '%s': %s: %s", rule->name, what, why);
	else
		snprintf(match->refusal.message, sizeof(match->refusal.message), "Spillway: %s: %s",
			 what, why);
}

void match_refuse_limit(struct match *match, enum error_code code, const char *what,
			const char *message)
{
	match->verdict = VERDICT_REFUSE;
	match->refusal.code = code;
	match->refusal.rule = match->namespace ? match->namespace->targets[0].rule->name : "";
	set_what(match, what);
	snprintf(match->refusal.message, sizeof(match->refusal.message), "%s", message);
}

static struct work work_of_request(const struct matching *matching)
{
	return work_of(matching->command,
		       matching->packet && matching->packet->kind == PACKET_MESSAGE
			       ? &matching->packet->message
			       : NULL);
}

/* mongod's own limit, in its words: what is rewritten need not come to mongod as one command. */
static bool refuse_many_statements(const struct matching *matching, size_t count)
{
	char message[96];

	if (count <= WORK_STATEMENT_COUNT_MOST)
		return false;
	snprintf(message, sizeof(message),
		 "Write batch sizes must be between 1 and %d. Got %zu operations.",
		 WORK_STATEMENT_COUNT_MOST, count);
	match_refuse_limit(matching->match, ERROR_INVALID_LENGTH, "too many statements", message);
	return true;
}

#define REWRITTEN_MOST_TEXT "200,000" /* work.h */
#define READ_MOST_TEXT "500,000"
#define STATEMENTS_MOST_TEXT "4,000,000"

static void refuse_work(const struct matching *matching, const char *has, const char *most)
{
	char message[300];

	snprintf(message, sizeof(message),
		 "Spillway rule '%.100s': %s has more than %s fields, more than Spillway reads or "
		 "rewrites at once; split it into several, or write values as one list ($in)",
		 matching->match->namespace->targets[0].rule->name, has, most);
	match_refuse_limit(matching->match, ERROR_OBJECT_TOO_LARGE, "too many fields", message);
}

/* It is always written anew, and to judge it takes as long. */
static bool has_projection(const struct command *command)
{
	return command_has(command, FIELD_PROJECTION) || command_has(command, FIELD_FIELDS);
}

bool match_refuse_large(const struct matching *matching)
{
	struct work work = work_of_request(matching);

	if (refuse_many_statements(matching, work.statements))
		return true;
	if (work.largest > WORK_REWRITTEN_MOST && has_projection(matching->command))
		refuse_work(matching, "the command", REWRITTEN_MOST_TEXT);
	else if (work.largest > WORK_READ_MOST)
		refuse_work(matching, "the command, or a statement of it,", READ_MOST_TEXT);
	else if (work.all > WORK_STATEMENTS_MOST)
		refuse_work(matching, "the command", STATEMENTS_MOST_TEXT);
	else
		return false;
	return true;
}

bool match_refuse_rewriting(const struct matching *matching)
{
	if (work_of_request(matching).largest <= WORK_REWRITTEN_MOST)
		return false;
	refuse_work(matching, "the command, or a statement of it,", REWRITTEN_MOST_TEXT);
	return true;
}

/* Whether Spillway writes the command, or a statement of it, anew. */
static bool is_rewritten(const struct match *match)
{
	switch (match->verdict) {
	case VERDICT_AGGREGATE:
		return true;
	case VERDICT_WRITE:
	case VERDICT_FIND_AND_MODIFY:
	case VERDICT_FORWARD: /* explain decides later */
		return match->edits;
	default:
		return false;
	}
}

void match_judge_work(const struct matching *matching)
{
	if (is_rewritten(matching->match))
		match_refuse_rewriting(matching);
}

void match_refuse_broken(struct match *match, const char *what)
{
	match_refuse(match, match->namespace ? match->namespace->targets[0].rule : NULL, what,
		     "can't be read without guessing (malformed, or a field stands twice)");
	match->refusal.code = ERROR_FAILED_TO_PARSE;
}

static const char *article(const char *noun)
{
	return strchr("aeiou", noun[0]) ? "an" : "a";
}

bool match_refuse_reads(struct match *match, const struct reads *reads, const char *role)
{
	char what[256];

	switch (reads->kind) {
	case READS_NOTHING:
		return false;
	case READS_ARRAY:
		snprintf(what, sizeof(what), "%s %s that reads '%.100s' (%s)", article(role), role,
			 reads->rule ? reads->rule->array : "the ruled array", reads->what);
		match_refuse(match, reads->rule ? reads->rule : match->namespace->targets[0].rule,
			     what, "not supported by this version of Spillway");
		set_what(match, role); /* an operator's name may be any text of the client's */
		return true;
	case READS_RESERVED:
		snprintf(what, sizeof(what), "%s %s that names %s", article(role), role,
			 reads->what);
		match_refuse(match, match->namespace->targets[0].rule, what,
			     "that name is Spillway's own");
		set_what(match, reads->what);
		return true;
	case READS_BROKEN:
		match_refuse_broken(match, role);
		return true;
	}
	return true;
}

const struct ruled_namespace *match_find_namespace(const struct matching *matching,
						   struct bytes database, struct bytes collection)
{
	bool full = false;
	const struct ruled_namespace *found =
		namespace_cache_find(matching->cache, database, collection, &full);

	if (!found && full)
		match_refuse(matching->match, rule_set_at(matching->rules, 0), "namespace",
			     "too many namespaces match the rules' patterns");
	return found;
}

/* By its name where that can be read in a line. */
static struct text_quote command_shown(struct bytes name)
{
	bool clear = name.length > 0;

	for (size_t i = 0; i < name.length && clear; i++)
		clear = i < 40 && name.data[i] > ' ' && name.data[i] < 0x7f;
	return text_quote(clear ? name : bytes_of(command_named(name)->text));
}

bool match_refuse_overflow(const struct matching *matching, struct bytes database,
			   struct bytes collection)
{
	const struct rule *rule = rule_set_overflow(matching->rules, database, collection);
	struct bytes name = matching->command->first.name;
	char what[320];

	if (!rule)
		return false;
	snprintf(what, sizeof(what), "%s on the overflow collection '%.*s.%.*s'",
		 command_shown(name).text, (int)database.length, (const char *)database.data,
		 (int)collection.length, (const char *)collection.data);
	match_refuse(matching->match, rule, what,
		     "it holds the tails of arrays and is written by Spillway alone");
	set_what(matching->match, command_named(name)->text);
	return true;
}

bool match_refuse_short_view(const struct matching *matching, struct bytes database,
			     struct bytes collection)
{
	const struct rule *rule = rule_set_short_view(matching->rules, database, collection);
	char what[320];

	if (!rule)
		return false;
	snprintf(what, sizeof(what), "a read of the view '%.*s.%.*s'", (int)database.length,
		 (const char *)database.data, (int)collection.length,
		 (const char *)collection.data);
	match_refuse(matching->match, rule, what,
		     "it reads or returns the ruled array, of which it would see a part only");
	snprintf(matching->match->refusal.what, sizeof(matching->match->refusal.what), "view");
	return true;
}

bool match_refuse_namespace(const struct matching *matching,
			    const struct ruled_namespace *namespace, const char *what,
			    const char *why)
{
	matching->match->namespace = namespace;
	match_refuse(matching->match, namespace->targets[0].rule, what, why);
	return true;
}

bool match_refuse_name(const struct matching *matching, struct bytes database,
		       struct bytes collection, const char *what)
{
	const struct ruled_namespace *namespace;

	if (match_refuse_overflow(matching, database, collection) ||
	    match_refuse_short_view(matching, database, collection))
		return true;
	namespace = match_find_namespace(matching, database, collection);
	if (matching->match->verdict == VERDICT_REFUSE)
		return true;
	if (!namespace)
		return false;
	return match_refuse_namespace(
		matching, namespace, what,
		"not supported by this version of Spillway on a ruled namespace");
}

bool match_refuse_full_name(const struct matching *matching, struct bytes full_name,
			    const char *what)
{
	struct bytes database, collection;

	return name_split(full_name, &database, &collection) &&
	       match_refuse_name(matching, database, collection, what);
}

void match_refuse_command(const struct matching *matching)
{
	struct bytes name = matching->command->first.name;

	match_refuse(matching->match, matching->match->namespace->targets[0].rule,
		     command_shown(name).text,
		     "not supported by this version of Spillway on a ruled namespace");
	set_what(matching->match, command_named(name)->text);
}
