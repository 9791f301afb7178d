/* Writes on a ruled namespace: each statement is looked at; one that can't be done exactly refuses
 * the command, nothing applied. */
#include "rules/match/match_inner.h"

#include "rules/query/index_bounds.h"
#include "rules/query/statements.h"

#include <stdio.h>

static const struct rule *first_rule(const struct match *match)
{
	return match->namespace->targets[0].rule;
}

/* Behind the last statement that could be read. */
static void match_end_broken(struct match *match, const struct statements *statements,
			     const char *what)
{
	if (statements->mistyped)
		match->verdict = VERDICT_FORWARD; /* mongod says so */
	else
		match_refuse_broken(match, what);
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
		match_end_broken(match, &statements, "insert");
	else if (!match->touches_array)
		match->verdict = VERDICT_FORWARD; /* ordinary documents */
}

/* Refuses what no write may name; notes what needs a whole array. True when it refused. */
static bool judge_reads(struct match *match, const struct reads *reads, const char *role)
{
	match_note_search(match, reads);
	if (reads->kind != READS_ARRAY)
		return match_refuse_reads(match, reads, role);
	match->edits = match->touches_array = true;
	return false;
}

static bool judge_part(struct match *match, const struct element *part, const char *role,
		       reads_reader *read)
{
	struct reads reads;

	if (part->type != BSON_BYTE_DOCUMENT)
		return false;
	reads = read(part->value, match->namespace);
	return judge_reads(match, &reads, role);
}

static bool judge_statement_reads(struct match *match, const struct statement *statement)
{
	if (judge_part(match, &statement->q, "filter", reads_of_filter))
		return true;
	if (statement->q.type == BSON_BYTE_DOCUMENT &&
	    index_bounds_differ(statement->q.value, &statement->collation, match->namespace) &&
	    reads_of_filter(statement->q.value, match->namespace).kind == READS_ARRAY)
		return match_refuse_by_index(match, &statement->q, &statement->collation);
	return match_refuse_hint(match, &statement->hint) ||
	       judge_part(match, &statement->hint, "hint", reads_of_keys) ||
	       judge_part(match, &statement->sort, "sort", reads_of_sort);
}

/* Refuses an update that nobody may send; notes what needs a whole array. True when it refused. */
static bool judge_update(const struct matching *matching, const struct element *u)
{
	struct match *match = matching->match;
	struct update update = update_classify(u, match->namespace);
	const struct rule *rule = update.rule ? update.rule : first_rule(match);
	char what[128];

	switch (update.kind) {
	case UPDATE_PLAIN:
		match->touches_array = match->touches_array || update.appends || update.long_array;
		return false;
	case UPDATE_EDIT:
		match->edits = true;
		match->touches_array = true;
		return false;
	case UPDATE_REPLACE:
	case UPDATE_WHOLE:
		match->touches_array = true;
		return false;
	case UPDATE_RESERVED:
		snprintf(what, sizeof(what), "an update that names %s", update.what);
		match_refuse(match, rule, what,
			     "that name is Spillway's own (the rule can expose a flag, and give "
			     "a total the owner app)");
		break;
	case UPDATE_BROKEN:
		match_refuse_broken(match, "update");
		break;
	}
	snprintf(match->refusal.what, sizeof(match->refusal.what), "%s", update.what);
	return true;
}

/* Of several statements, mongod may refuse just this one by itself. What stands behind it was not
 * judged: it may concern the array. */
static void refuse_statement(const struct matching *matching, struct statements *rest, size_t count)
{
	struct match *match = matching->match;
	struct statement statement;
	struct bytes document;
	bool broken = false;

	while (!broken && statements_next(rest, &document, &broken)) {
		broken = !statement_parse(document, &statement);
		count++;
	}
	if (broken || count == 1 || match->refusal.code != ERROR_COMMAND_NOT_SUPPORTED ||
	    !match->facts.answered)
		return;
	match->verdict = VERDICT_WRITE;
	match->refuses = match->edits = match->touches_array = true;
	match->cache = matching->cache;
}

/* True when it is refused. */
static bool judge_statement(const struct matching *matching, const struct statement *statement,
			    bool updates)
{
	struct match *match = matching->match;

	if (judge_statement_reads(match, statement))
		return true;
	if (statement->u.type == 0 || !updates)
		return false;
	if (judge_update(matching, &statement->u))
		return true;
	/* perhaps to what it is: the reply says whether anything changed */
	match->edits = match->edits || update_sets_array(&statement->u, match->namespace) ||
		       update_needs_state(&statement->u, match->namespace);
	return false;
}

static void match_statements(const struct matching *matching, enum command_field field)
{
	size_t count = 0;
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
	if (match_refuse_let(matching)) {
		refuse_statement(matching, &statements, 0);
		return;
	}
	while (statements_next(&statements, &document, &broken)) {
		if (!statement_parse(document, &statement)) {
			match_refuse_broken(match, "statement");
			return;
		}
		count++;
		if (judge_statement(matching, &statement, field == FIELD_UPDATES)) {
			refuse_statement(matching, &statements, count);
			return;
		}
	}
	if (broken)
		match_end_broken(match, &statements, "statement");
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

/* mongod cuts the image of a whole array rightly. An edit is asked by another plan than the
 * client's command, with other metadata. */
static bool judge_image(const struct matching *matching)
{
	const struct element *fields = &matching->command->fields[FIELD_FIELDS];

	if (reads_meta(fields, false)) {
		match_refuse(matching->match, first_rule(matching->match),
			     "a findAndModify with {$meta: ...} in its fields",
			     "\"indexKey\" and \"recordId\" depend on how the write is "
			     "asked; read them by a find");
		return true;
	}
	if (fields->type != BSON_BYTE_DOCUMENT ||
	    projection_classify(fields->value, matching->match->namespace).kind !=
		    PROJECTION_REFUSE)
		return match_refuse_projection(matching, FIELD_FIELDS);
	matching->match->edits = matching->match->touches_array = true;
	return false;
}

void match_find_and_modify(const struct matching *matching)
{
	const struct command *command = matching->command;
	struct match *match = matching->match;
	struct statement statement = {.q = command->fields[FIELD_QUERY],
				      .collation = command->fields[FIELD_COLLATION],
				      .hint = command->fields[FIELD_HINT],
				      .sort = command->fields[FIELD_SORT]};
	const struct element *update = &command->fields[FIELD_UPDATE];

	match->verdict = VERDICT_FIND_AND_MODIFY;
	if (match_refuse_let(matching) || judge_statement_reads(match, &statement) ||
	    judge_image(matching))
		return;
	if (update->type != 0 && !judge_update(matching, update))
		match->edits = match->edits || update_needs_state(update, match->namespace);
}
