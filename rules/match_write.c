/* Writes on a ruled namespace: each statement is looked at; one that can't be done exactly refuses
 * the command, nothing applied. */
#include "rules/match_inner.h"

#include "rules/statements.h"

#include <stdio.h>

static const struct rule *first_rule(const struct match *match)
{
	return match->namespace->targets[0].rule;
}

void match_insert(const struct matching *matching)
{
	struct match *match = matching->match;
	struct statements statements;
	struct bytes document;
	bool broken;

	match->verdict = VERDICT_WRITE;
	if (!statements_open(&statements, &matching->packet->message, matching->command,
			     FIELD_DOCUMENTS)) {
		match->verdict = VERDICT_FORWARD; /* nothing to insert: mongod says what is wrong */
		return;
	}
	while (statements_next(&statements, &document, &broken)) {
		if (document_names_state(document)) {
			match_refuse(match, first_rule(match), "insert of a document with '_spill'",
				     "that name is Spillway's own");
			return;
		}
		match->touches_array =
			match->touches_array || document_is_outlier(document, match->namespace);
	}
	if (broken)
		match_refuse_broken(match, "insert");
	else if (!match->touches_array)
		match->verdict = VERDICT_FORWARD; /* ordinary documents */
}

/* Refuses where a filter, sort or hint of the statement reads f; true when it did. */
static bool refuse_statement_reads(const struct matching *matching,
				   const struct statement *statement)
{
	struct match *match = matching->match;
	struct reads reads;

	if (statement->q.type == BSON_BYTE_DOCUMENT) {
		reads = reads_of_filter(statement->q.value, match->namespace);
		if (match_refuse_reads(match, &reads, "filter"))
			return true;
	}
	return match_refuse_keys(matching, &statement->hint, "hint") ||
	       match_refuse_keys(matching, &statement->sort, "sort");
}

/* Refuses an update that can't go as it is or with the state reset; true when it did. */
static bool refuse_update(const struct matching *matching, const struct element *u)
{
	struct match *match = matching->match;
	struct update update = update_classify(u, match->namespace);
	const struct rule *rule = update.rule ? update.rule : first_rule(match);
	char what[128];

	snprintf(what, sizeof(what), "an update with %s on '%s'", update.what, rule->array);
	switch (update.kind) {
	case UPDATE_PLAIN:
		match->touches_array = match->touches_array || update.appends || update.long_array;
		return false;
	case UPDATE_REPLACE:
	case UPDATE_WHOLE:
		match->touches_array = true;
		return false;
	case UPDATE_EDIT:
		match_refuse(match, rule, what, "not supported by this version of Spillway");
		break;
	case UPDATE_RESERVED:
		snprintf(what, sizeof(what), "an update that names %s", update.what);
		match_refuse(match, rule, what,
			     "that name is Spillway's own (or expose it in the rule)");
		break;
	case UPDATE_BROKEN:
		match_refuse_broken(match, "update");
		break;
	}
	snprintf(match->what, sizeof(match->what), "%s", update.what);
	return true;
}

static void match_statements(const struct matching *matching, enum command_field field)
{
	struct match *match = matching->match;
	struct statements statements;
	struct statement statement;
	struct bytes document;
	bool broken;

	match->verdict = VERDICT_WRITE;
	if (!statements_open(&statements, &matching->packet->message, matching->command, field)) {
		match->verdict = VERDICT_FORWARD;
		return;
	}
	if (match_refuse_let(matching))
		return;
	while (statements_next(&statements, &document, &broken)) {
		if (!statement_parse(document, &statement)) {
			match_refuse_broken(match, "statement");
			return;
		}
		if (refuse_statement_reads(matching, &statement))
			return;
		if (statement.u.type != 0 && field == FIELD_UPDATES &&
		    refuse_update(matching, &statement.u))
			return;
	}
	if (broken)
		match_refuse_broken(match, "statement");
	else if (!match->touches_array && field == FIELD_UPDATES)
		match->verdict = VERDICT_FORWARD; /* other fields of the documents */
}

void match_update(const struct matching *matching)
{
	match_statements(matching, FIELD_UPDATES);
}

void match_delete(const struct matching *matching)
{
	match_statements(matching, FIELD_DELETES);
}

void match_find_and_modify(const struct matching *matching)
{
	const struct command *command = matching->command;
	struct match *match = matching->match;
	struct statement statement = {.q = command->fields[FIELD_QUERY],
				      .hint = command->fields[FIELD_HINT],
				      .sort = command->fields[FIELD_SORT]};
	const struct element *update = &command->fields[FIELD_UPDATE];

	match->verdict = VERDICT_FIND_AND_MODIFY;
	if (match_refuse_let(matching) || refuse_statement_reads(matching, &statement) ||
	    match_refuse_projection(matching, FIELD_FIELDS))
		return;
	if (update->type != 0)
		refuse_update(matching, update);
}
