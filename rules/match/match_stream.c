/* Change streams. Their events are what is stored: moves of Spillway's own are among them, and a
 * document that is looked up has a part of its arrays. So they are refused wherever they would
 * include a ruled or an overflow collection, unless all rules concerned let them through. */
#include "rules/match/match_inner.h"

#include <stdio.h>

static bool is_usual(struct bytes options, const char *name, const char *usual)
{
	struct element option;
	struct bytes value;

	return !document_find(options, name, &option) || option.type == BSON_BYTE_NULL ||
	       (element_string(&option, &value) && bytes_are(value, usual));
}

bool match_stream_plain(const struct element *stage)
{
	return stage->type == BSON_BYTE_DOCUMENT &&
	       is_usual(stage->value, "fullDocumentBeforeChange", "off") &&
	       is_usual(stage->value, "fullDocument", "default");
}

/* mongod takes the option on `admin` alone, and a stage that has it twice not at all. */
static bool is_of_cluster(const struct matching *matching, const struct element *stage)
{
	struct cursor options;
	struct element option;

	if (!bytes_are(matching->database, "admin") || stage->type != BSON_BYTE_DOCUMENT ||
	    !cursor_open(&options, stage->value))
		return false;
	while (cursor_next(&options, &option) == CURSOR_ELEMENT)
		if (element_is(&option, "allChangesForCluster") && element_truth(&option))
			return true;
	return false;
}

#define SHOWS "it would show Spillway's own writes, too; "
#define LETS "set 'change_streams: as_stored' in "
#define GIVES " to get all events as they are stored, moves of arrays included"

static bool refuse_collection(const struct matching *matching,
			      const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;

		if (rule->streams_as_stored)
			continue;
		matching->match->namespace = namespace;
		match_refuse(matching->match, rule, "a $changeStream",
			     SHOWS LETS "each rule of the collection" GIVES);
		return true;
	}
	return false;
}

static bool refuse_database(const struct matching *matching)
{
	const struct rule *rule = rule_set_stream_refused(matching->rules, matching->database);
	char why[400];

	if (!rule)
		return false;
	snprintf(why, sizeof(why),
		 SHOWS "watch the collections without a rule one by one, or " LETS
		       "each rule that concerns the database '%.*s'" GIVES,
		 (int)(matching->database.length < 64 ? matching->database.length : 64),
		 (const char *)matching->database.data);
	match_refuse(matching->match, rule, "a $changeStream of a database", why);
	return true;
}

static bool refuse_cluster(const struct matching *matching)
{
	for (size_t i = 0; i < rule_set_count(matching->rules); i++) {
		const struct rule *rule = rule_set_at(matching->rules, i);

		if (rule->streams_as_stored)
			continue;
		match_refuse(matching->match, rule, "a $changeStream of the whole cluster",
			     SHOWS "watch databases and collections without a rule one by one, "
				   "or " LETS "each rule" GIVES);
		return true;
	}
	return false;
}

/* A stream of a whole database, or of all, that looks documents up would show short arrays, too. */
static bool refuse_wide_lookup(const struct matching *matching, const struct element *stage,
			       bool cluster)
{
	if (match_stream_plain(stage) ||
	    (!cluster && !rule_set_in_database(matching->rules, matching->database)))
		return false;
	match_refuse(matching->match, rule_set_at(matching->rules, 0),
		     "a $changeStream that looks up documents",
		     "those of ruled collections would come with a part of their arrays");
	return true;
}

/* A stream that is none of those is mongod's affair: it takes one as an aggregate's first stage
 * alone, neither of a view nor in one, nor in the pipeline of another stage. */
bool match_refuse_stream(const struct matching *matching, const struct ruled_namespace *namespace,
			 const struct element *stage)
{
	bool cluster = is_of_cluster(matching, stage);

	if (!element_is(stage, "$changeStream"))
		return false;
	if (matching->command->collection.length > 0)
		return namespace && refuse_collection(matching, namespace);
	return (cluster ? refuse_cluster(matching) : refuse_database(matching)) ||
	       refuse_wide_lookup(matching, stage, cluster);
}
