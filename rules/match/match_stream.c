/* Change streams. What mongod tells is what is stored: moves of Spillway's own are among it, and a
 * document that is looked up has a part of its arrays. So they are refused wherever they would
 * include a ruled or an overflow collection, unless all rules concerned let them through. Where
 * a rule says `exact`, the events are rewritten (rules/read/sequence_stream.c). */
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
#define LETS "set 'change_streams: exact' in "
#define GIVES \
	" for what applications write, or 'change_streams: as_stored' for moves of arrays, too"

static bool refuse_collection(const struct matching *matching,
			      const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;

		if (rule->streams != RULE_STREAMS_REFUSED)
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

		if (rule->streams != RULE_STREAMS_REFUSED)
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

/* ---- exact ones ---- */

static bool refuse_exact(const struct matching *matching, const struct rule *rule, const char *what,
			 const char *why)
{
	match_refuse(matching->match, rule, what, why);
	return true;
}

/* Stages that make one event of one, or none. */
static bool is_served_stage(const struct element *stage)
{
	static const char *const served[] = {"$match", "$project",     "$addFields",   "$set",
					     "$unset", "$replaceRoot", "$replaceWith", "$redact"};
	struct element only;

	if (!element_only_field(stage, &only))
		return true; /* mongod says what is wrong with it */
	for (size_t i = 0; i < ARRAY_LENGTH(served); i++)
		if (element_is(&only, served[i]))
			return true;
	return false;
}

#define STAGES_MOST 1000000 /* bytes: each event carries them */

/* Why mongod can't run them on events by themselves; NULL: it can. */
static const char *unserved_behind(struct bytes pipeline)
{
	struct cursor stages;
	struct element stage;
	size_t count = 0;

	if (!cursor_open(&stages, pipeline))
		return NULL;
	for (; cursor_next(&stages, &stage) == CURSOR_ELEMENT; count++)
		if (count > 0 && !is_served_stage(&stage))
			return "they can't be run on events by themselves; leave them out";
	if (count < 2)
		return NULL;
	if (bytes_contain(pipeline, "$$NOW") || bytes_contain(pipeline, "$$CLUSTER_TIME"))
		return "$$NOW and $$CLUSTER_TIME would have other values for each batch";
	return pipeline.length > STAGES_MOST ? "they are longer than 1,000,000 bytes" : NULL;
}

static bool refuse_behind(const struct matching *matching, const struct rule *rule)
{
	const char *why = unserved_behind(matching->command->fields[FIELD_PIPELINE].value);

	return why && refuse_exact(matching, rule, "stages behind an exact $changeStream", why);
}

static const struct rule *exact_rule(const struct matching *matching,
				     const struct ruled_namespace *namespace, bool cluster)
{
	for (size_t i = 0; namespace && i < namespace->target_count; i++)
		if (namespace->targets[i].rule->streams == RULE_STREAMS_EXACT)
			return namespace->targets[i].rule;
	if (namespace || matching->command->collection.length > 0 ||
	    !rule_set_has_streams(matching->rules, cluster ? (struct bytes){0} : matching->database,
				  RULE_STREAMS_EXACT))
		return NULL;
	for (size_t i = 0;; i++)
		if (rule_set_at(matching->rules, i)->streams == RULE_STREAMS_EXACT)
			return rule_set_at(matching->rules, i);
}

/* False: no exact rule is concerned. */
static bool take_exact(const struct matching *matching, const struct ruled_namespace *namespace,
		       bool cluster)
{
	const struct rule *rule = exact_rule(matching, namespace, cluster);
	struct match *match = matching->match;

	if (!rule)
		return false;
	match->namespace = namespace;
	if (refuse_behind(matching, rule))
		return true;
	if (matching->command->duplicate) {
		match_refuse_broken(match, "aggregate");
		return true;
	}
	match->cache = matching->cache;
	match->verdict = VERDICT_STREAM;
	return true;
}

/* Of some rule it shows what is stored. */
static bool shows_stored(const struct matching *matching, bool cluster)
{
	return rule_set_has_streams(matching->rules,
				    cluster ? (struct bytes){0} : matching->database,
				    RULE_STREAMS_AS_STORED);
}

/* A stream that is none of those is mongod's affair: it takes one as an aggregate's first stage
 * alone, neither of a view nor in one, nor in the pipeline of another stage. */
bool match_take_stream(const struct matching *matching, const struct ruled_namespace *namespace,
		       const struct element *stage)
{
	bool cluster = is_of_cluster(matching, stage);

	if (!element_is(stage, "$changeStream"))
		return false;
	if (matching->command->collection.length > 0)
		return namespace && (refuse_collection(matching, namespace) ||
				     take_exact(matching, namespace, false));
	return (cluster ? refuse_cluster(matching) : refuse_database(matching)) ||
	       (shows_stored(matching, cluster) && refuse_wide_lookup(matching, stage, cluster)) ||
	       take_exact(matching, NULL, cluster) || refuse_wide_lookup(matching, stage, cluster);
}

bool match_is_wide_stream(const struct rule_set *rules, struct bytes collection)
{
	return rule_set_count(rules) > 0 && bytes_are(collection, "$cmd.aggregate");
}
