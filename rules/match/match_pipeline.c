/* aggregate: pipelines that never read a ruled array run as they are; stages that reach ruled
 * namespaces from elsewhere are refused. */
#include "rules/match/match_stage.h"

#include "rules/stages/aggregate.h"
#include "rules/query/filter_words.h"
#include "rules/query/computed.h"
#include "rules/query/filter_split.h"
#include "rules/stages/stage_foreign.h"
#include "rules/stages/stage_guard.h"
#include "rules/stages/match_stands.h"

#include <stdio.h>

enum stage_access {
	STAGE_READS,
	STAGE_WRITES,
};

#define STAGES_MAX 1000
#define JOINED_MAX 1000 /* each of some kilobytes */

/* Stages that read ruled namespaces from elsewhere. */
struct joined {
	size_t count;
	const struct ruled_namespace *namespace; /* the last of them */
	const struct ruled_namespace *written;
};

struct stage_rule {
	const char *name;
	const char *key; /* where the collection's name stands */
	enum stage_access access;
	const char *instead; /* why a client is refused that writes there, and what it may do */
};

static const struct stage_rule stage_rules[] = {
	{"$lookup", "from", STAGE_READS, NULL},
	{"$graphLookup", "from", STAGE_READS, NULL},
	{"$unionWith", "coll", STAGE_READS, NULL},
	{"$merge", "into", STAGE_WRITES,
	 "a pipeline as whenMatched is not supported on a ruled namespace; use replace, "
	 "keepExisting or fail"},
	{"$out", "coll", STAGE_WRITES,
	 "not supported on a ruled namespace; use $merge with whenMatched: replace"},
};

/* Documents can be put together in the stage's own pipeline, or be written as they are. */
static bool is_joined(const struct element *stage)
{
	return element_is(stage, "$lookup") || element_is(stage, "$unionWith") ||
	       element_is(stage, "$graphLookup") ||
	       (element_is(stage, "$merge") && stage_guard_mode(stage) != STAGE_GUARD_OTHER);
}

static bool refuse_many(const struct matching *matching, const struct ruled_namespace *namespace)
{
	return match_refuse_namespace(matching, namespace,
				      "more than 1,000 stages that reach ruled collections",
				      "what mongod would be sent grows too large; use fewer");
}

/* `joined`: counts those that may be served; NULL: they are refused. */
static bool refuse_stage(const struct matching *matching, const struct element *stage,
			 struct joined *joined)
{
	struct bytes database = matching->database, collection;
	const struct ruled_namespace *namespace;

	for (size_t i = 0; i < ARRAY_LENGTH(stage_rules); i++) {
		const struct stage_rule *rule = &stage_rules[i];

		if (!element_is(stage, rule->name) ||
		    !stage_guard_target(stage, rule->key, &database, &collection))
			continue;
		/* Overflow collections may be read as they are stored. */
		if (rule->access == STAGE_READS &&
		    rule_set_overflow(matching->rules, database, collection))
			continue;
		namespace = match_find_namespace(matching, database, collection);
		if (rule->access == STAGE_WRITES &&
		    match_refuse_read_only(matching, namespace, rule->name))
			return true;
		if (joined && namespace && is_joined(stage)) {
			if (rule->access == STAGE_WRITES)
				joined->written = namespace;
			joined->namespace = namespace;
			if (++joined->count > JOINED_MAX)
				return refuse_many(matching, namespace);
			if (element_is(stage, "$unionWith"))
				matching->match->unites = true;
		} else if (joined && namespace && rule->instead) {
			return match_refuse_namespace(matching, namespace, rule->name,
						      rule->instead);
		} else if (match_refuse_name(matching, database, collection, rule->name)) {
			return true;
		}
	}
	return false;
}

static bool refuse_stages(const struct matching *matching, struct bytes pipeline,
			  struct joined *joined)
{
	struct cursor stack[CURSOR_MAX_DEPTH];
	size_t depth = 1;

	if (!cursor_open(&stack[0], pipeline)) {
		match_refuse_broken(matching->match, "pipeline");
		return true;
	}
	while (depth > 0) {
		struct element element;
		enum cursor_step step = cursor_next(&stack[depth - 1], &element);

		if (step == CURSOR_END) {
			depth--;
			continue;
		}
		if (step != CURSOR_ELEMENT) {
			match_refuse_broken(matching->match, "pipeline");
			return true;
		}
		if (element.name.length > 0 && element.name.data[0] == '$' &&
		    refuse_stage(matching, &element, joined))
			return true;
		if (element.type != BSON_BYTE_DOCUMENT && element.type != BSON_BYTE_ARRAY)
			continue;
		if (depth == CURSOR_MAX_DEPTH || !cursor_open(&stack[depth], element.value)) {
			match_refuse_broken(matching->match, "pipeline");
			return true;
		}
		depth++;
	}
	return false;
}

bool match_refuse_stages(const struct matching *matching, struct bytes pipeline)
{
	return refuse_stages(matching, pipeline, NULL);
}

static void refuse_other_stage(const struct matching *matching, const struct element *stage)
{
	char what[64];

	snprintf(what, sizeof(what), "aggregate with %.*s",
		 (int)(stage->name.length < 40 ? stage->name.length : 40),
		 (const char *)stage->name.data);
	match_refuse(matching->match, matching->match->namespace->targets[0].rule, what,
		     "not supported by this version of Spillway where it may read or return the "
		     "ruled array");
}

/* The one stage of a document {$stage: ...}. */
static bool only_stage(const struct element *document, struct element *stage)
{
	struct cursor cursor;

	return document->type == BSON_BYTE_DOCUMENT && cursor_open(&cursor, document->value) &&
	       cursor_next(&cursor, stage) == CURSOR_ELEMENT;
}

/* Behind the place where arrays are put together a field without a name is not found, and some bit
 * tests are read otherwise. */
static const char *unserved_behind(const struct matching *matching, struct cursor stages)
{
	struct bytes pipeline = matching->command->fields[FIELD_PIPELINE].value;
	struct element document, stage;

	while (cursor_next(&stages, &document) == CURSOR_ELEMENT)
		if (only_stage(&document, &stage) && element_is(&stage, "$match") &&
		    stage.type == BSON_BYTE_DOCUMENT && filter_fits_first(stage.value) &&
		    !filter_fits_pipeline(stage.value))
			return "$text and a field without a name can't be asked of arrays that are "
			       "put together";
	return match_unclear_from(pipeline, matching->match->stage);
}

/* The documents carry the array on: it has to be put together, unless a later stage takes it away
 * before somebody needs it. `stages`: those behind. */
static void match_carrier(const struct matching *matching, struct cursor *stages, bool joins,
			  bool mixed)
{
	struct match *match = matching->match;
	size_t at;

	switch (match_follow_stages(matching, *stages, joins, mixed, &at)) {
	case STAGE_DROPS:
		return;
	case STAGE_BARES:
		match->stage += 1 + at;
		match->verdict = VERDICT_AGGREGATE;
		match->bare = true;
		return;
	default:
		match_reassemble(match, "an aggregate that reads the ruled array",
				 unserved_behind(matching, *stages));
	}
}

/* Follows the documents through the stages until they no longer carry the array, or some stage
 * needs it whole. */
static void match_stages(const struct matching *matching, struct cursor *stages, bool joins)
{
	struct match *match = matching->match;
	struct element document, stage;
	enum stage_kind kind;

	match->stage = 0;
	for (; cursor_next(stages, &document) == CURSOR_ELEMENT; match->stage++) {
		if (!only_stage(&document, &stage))
			return; /* mongod says what is wrong */
		if (match->stage == 0 && element_is(&stage, "$changeStream") &&
		    match_stream_plain(&stage))
			return;
		kind = match_classify_stage(matching, &stage, joins);
		switch (kind) {
		case STAGE_KEEPS:
			continue;
		case STAGE_CARRIES:
		case STAGE_MIXES:
			match_carrier(matching, stages, joins, kind == STAGE_MIXES);
			return;
		case STAGE_DROPS:
		case STAGE_REFUSED:
			return;
		case STAGE_BARES:
			match->verdict = VERDICT_AGGREGATE;
			match->bare = true;
			return;
		case STAGE_OTHER:
			match_reassemble(match, "an aggregate that reads the ruled array",
					 unserved_behind(matching, *stages));
			return;
		case STAGE_SOURCE:
			refuse_other_stage(matching, &stage);
			return;
		}
	}
	match->verdict = VERDICT_READ; /* whole documents come out */
}

static bool take_stream(const struct matching *matching, const struct ruled_namespace *namespace,
			struct bytes pipeline)
{
	struct cursor stages;
	struct element document, stage;

	return cursor_open(&stages, pipeline) &&
	       cursor_next(&stages, &document) == CURSOR_ELEMENT && only_stage(&document, &stage) &&
	       match_take_stream(matching, namespace, &stage);
}

/* Nothing may be reached in a way that isn't written anew. */
static bool refuse_joined(const struct matching *matching, const struct joined *joined,
			  struct bytes pipeline)
{
	struct foreign foreign = {.cache = matching->cache,
				  .database = matching->database,
				  .collation = &matching->command->fields[FIELD_COLLATION]};
	auto_buffer struct buffer scratch = {0};
	struct cursor stages;
	struct element stage;
	size_t place = 0;

	if (!cursor_open(&stages, pipeline))
		return false;
	while (!foreign.why && cursor_next(&stages, &stage) == CURSOR_ELEMENT) {
		if (foreign.united)
			foreign.why = match_unclear(foreign.stands, &stage);
		if (!foreign.why)
			foreign_write_top_stage(&foreign, &scratch, &place, &stage);
	}
	if (!foreign.why)
		foreign.why = match_lost_meta(matching->command);
	if (!foreign.why && foreign.served != joined->count)
		foreign.why = "its name stands where Spillway can't tell whether mongod reads it";
	if (!foreign.why)
		return false;
	matching->match->namespace = joined->namespace;
	if (foreign.too_deep)
		match_refuse_limit(matching->match, ERROR_MAX_SUB_PIPELINE_DEPTH,
				   "pipelines that are nested too deeply",
				   "Maximum number of nested sub-pipelines exceeded. Limit is 20");
	else
		match_refuse(matching->match, joined->namespace->targets[0].rule,
			     "a $lookup, $graphLookup, $unionWith or $merge", foreign.why);
	return true;
}

static void match_own_stages(const struct matching *matching, struct bytes pipeline, bool joins)
{
	struct cursor stages;

	if (cursor_open(&stages, pipeline) && !match_refuse_let(matching) &&
	    !match_judge_hint(matching))
		match_stages(matching, &stages, joins);
}

/* mongod's internalPipelineLengthLimit. What is written for a stage may depend on all behind it. */
static bool has_many_stages(struct bytes pipeline)
{
	struct cursor stages;
	struct element stage;
	size_t count = 0;

	if (!cursor_open(&stages, pipeline))
		return false;
	while (count <= STAGES_MAX && cursor_next(&stages, &stage) == CURSOR_ELEMENT)
		count++;
	return count > STAGES_MAX;
}

void match_aggregate(const struct matching *matching, const struct ruled_namespace *namespace)
{
	const struct element *pipeline = &matching->command->fields[FIELD_PIPELINE];
	struct match *match = matching->match;
	struct joined joined = {0};

	if (match->verdict == VERDICT_REFUSE || pipeline->type != BSON_BYTE_ARRAY)
		return;
	if (take_stream(matching, namespace, pipeline->value) ||
	    refuse_stages(matching, pipeline->value, &joined))
		return;
	match->namespace = namespace ? namespace : joined.namespace;
	if (!match->namespace)
		return;
	if (matching->command->duplicate) {
		match_refuse_broken(match, "aggregate");
		return;
	}
	if (match_refuse_large(matching))
		return;
	if (has_many_stages(pipeline->value)) {
		match_refuse_limit(match, ERROR_FAILED_TO_PARSE, "a pipeline that is too long",
				   "Pipeline length must be no longer than 1000 stages");
		return;
	}
	if (filter_words_exceed(pipeline->value)) {
		match_refuse(
			match, match->namespace->targets[0].rule, "an aggregate",
			"the binary masks of its bit tests are too long; write lists of positions");
		return;
	}
	if (joined.count > 0 &&
	    (match_refuse_rewriting(matching) || refuse_joined(matching, &joined, pipeline->value)))
		return;
	match->stage = MATCH_NO_STAGE;
	match->cache = matching->cache;
	match->onto = joined.written;
	match->touches_array = joined.written && match->namespace == joined.namespace;
	if (namespace)
		match_own_stages(matching, pipeline->value, joined.count > 0);
	if (joined.count > 0 && match->verdict == VERDICT_FORWARD) {
		match->stage = MATCH_NO_STAGE;
		match->verdict = VERDICT_AGGREGATE;
	}
}

void match_computed(const struct matching *matching, const struct ruled_namespace *namespace)
{
	const struct element *pipeline = &matching->command->fields[FIELD_PIPELINE];
	struct match *match = matching->match;

	if ((match->verdict != VERDICT_FORWARD && match->verdict != VERDICT_AGGREGATE) ||
	    pipeline->type != BSON_BYTE_ARRAY)
		return;
	if (computed_marks(pipeline->value)) {
		match_refuse(match, namespace->targets[0].rule,
			     "a pipeline with a field _spill/computed",
			     "that name is Spillway's own");
		return;
	}
	switch (computed_of(pipeline->value, namespace)) {
	case COMPUTED_APART:
		return;
	case COMPUTED_HIDDEN:
		break;
	case COMPUTED_UNMARKED:
		match_refuse(match, namespace->targets[0].rule, "$changeStreamSplitLargeEvent",
			     "some field may have a name that the rule hides; call it otherwise");
		return;
	}
	match->computes = true;
	if (match->verdict == VERDICT_FORWARD) {
		match->stage = MATCH_NO_STAGE;
		match->verdict = VERDICT_AGGREGATE;
	}
}

struct aggregate_task match_task(const struct match *match)
{
	return (struct aggregate_task){
		.namespace = match->namespace,
		.cache = match->cache,
		.database = match->command.database,
		.strict = element_truth(&match->command.fields[FIELD_API_STRICT]),
		.stage = match->stage,
		.computes = match->computes,
		.bare = match->bare,
		.scans_keys = match->scans_keys,
		.scans_documents = match->scans_documents,
	};
}

bool match_skips_damaged(const struct match *match)
{
	const struct rule_set *set = match->cache ? namespace_cache_rules(match->cache) : NULL;
	bool skips = false;

	for (size_t i = 0; !set && match->namespace && i < match->namespace->target_count; i++)
		skips = skips || match->namespace->targets[i].rule->skips_damaged;
	for (size_t i = 0; set && i < rule_set_count(set); i++)
		skips = skips || rule_set_at(set, i)->skips_damaged;
	return skips;
}
