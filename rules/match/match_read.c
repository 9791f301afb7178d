/* find, count and distinct: whether a read looks into an array, and so has to have it put together.
 * Filters, hints, sorts and projections of other commands are judged here, too. */
#include "rules/stages/aggregate.h"
#include "rules/stages/stage_distinct.h"
#include "rules/query/index_bounds.h"
#include "rules/rule/known_indexes.h"
#include "rules/match/match_inner.h"
#include "rules/rule/names.h"
#include "rules/query/read_options.h"
#include "rules/stages/stage_project.h"
#include "rules/query/projection.h"
#include "rules/reassembly/reassemble.h"
#include "rules/query/window.h"

#include <stdio.h>

void match_note_search(struct match *match, const struct reads *reads)
{
	match->searches = match->searches || reads->searches;
	if (reads->asks)
		match->asks_indexes = match->namespace;
}

bool match_judge_reads(struct match *match, const struct reads *reads, const char *role,
		       bool *array)
{
	match_note_search(match, reads);
	if (reads->kind != READS_ARRAY)
		return match_refuse_reads(match, reads, role);
	*array = true;
	return false;
}

const char *match_lost_meta(const struct command *command)
{
	if (reads_meta(&command->fields[FIELD_PROJECTION], true))
		return "a find's {$meta: ...}, but for \"textScore\", is not known of arrays that "
		       "are put together";
	if (reads_meta(&command->fields[FIELD_PIPELINE], false))
		return "a {$meta: \"recordId\"}, \"indexKey\" or \"sortKey\" is not known of "
		       "arrays "
		       "that are put together";
	return NULL;
}

void match_reassemble(struct match *match, const char *what, const char *why)
{
	if (!why)
		why = match_lost_meta(&match->command);
	if (!why && !reassemble_possible(match->namespace))
		why = "it reads an array whose overflow lies in another database, which mongod "
		      "can't put together";
	match->verdict = VERDICT_AGGREGATE;
	if (why)
		match_refuse(match, match->namespace->targets[0].rule, what, why);
}

static bool judge_part(const struct matching *matching, enum command_field field, const char *role,
		       reads_reader *read, bool *array)
{
	const struct element *part = &matching->command->fields[field];
	struct reads reads;

	if (part->type != BSON_BYTE_DOCUMENT)
		return false; /* mongod says what is wrong with it */
	reads = read(part->value, matching->match->namespace);
	return match_judge_reads(matching->match, &reads, role, array);
}

bool match_refuse_by_index(struct match *match, const struct element *filter,
			   const struct element *collation)
{
	if (filter->type != BSON_BYTE_DOCUMENT ||
	    !index_bounds_differ(filter->value, collation, match->namespace))
		return false;
	match_refuse(
		match, match->namespace->targets[0].rule,
		"a filter that an index on the array answers otherwise",
		"mongod's answer depends on whether it takes the index, for $gte MinKey, $lte "
		"MaxKey, $gt or $gte of an array in an array, null beside a position in the "
		"index's path, a symbol under a collation, and $not or $nor of a geo condition or "
		"a range by a symbol; ask with $exists, or by elements");
	return true;
}

static bool judge_filter(const struct matching *matching, enum command_field field, bool *array)
{
	bool reads = false;

	if (judge_part(matching, field, "filter", reads_of_filter, &reads))
		return true;
	*array = *array || reads;
	return reads && match_refuse_by_index(matching->match, &matching->command->fields[field],
					      &matching->command->fields[FIELD_COLLATION]);
}

bool match_refuse_let(const struct matching *matching)
{
	const struct element *let = &matching->command->fields[FIELD_LET];
	struct reads reads;

	if (let->type == 0)
		return false;
	if (reads_current(let)) {
		match_refuse(matching->match, matching->match->namespace->targets[0].rule, "let",
			     READS_CURRENT);
		return true;
	}
	reads = reads_of_expression(let, matching->match->namespace);
	return match_refuse_reads(matching->match, &reads, "let");
}

bool match_refuse_keys(const struct matching *matching, const struct element *keys,
		       const char *role)
{
	struct reads reads;

	if (keys->type != BSON_BYTE_DOCUMENT)
		return false;
	reads = reads_of_keys(keys->value, matching->match->namespace);
	return match_refuse_reads(matching->match, &reads, role);
}

bool match_index_reads_array(const void *context, struct bytes index)
{
	struct element key;

	return document_find(index, "key", &key) && key.type == BSON_BYTE_DOCUMENT &&
	       reads_of_keys(key.value, context).kind == READS_ARRAY;
}

/* Of an index whose keys name the array itself no document is missing that has it. */
static bool names_array(struct bytes index, const struct rule *rule)
{
	struct cursor cursor;
	struct element keys, key;

	if (!document_find(index, "key", &keys) || !cursor_open(&cursor, keys.value))
		return false;
	while (cursor_next(&cursor, &key) == CURSOR_ELEMENT)
		if (path_covers(key.name, rule->array))
			return true;
	return false;
}

/* Each array that its keys look into has to be named. */
static bool lacks_sparse(struct bytes index, const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		struct ruled_namespace alone = ruled_alone(namespace, i);

		if (match_index_reads_array(&alone, index) &&
		    !names_array(index, alone.targets[0].rule))
			return true;
	}
	return false;
}

/* f.$**: nothing that is asked beside the client's filter, such as whether there is a state, can go
 * by that index. */
static bool is_wildcard(struct bytes index)
{
	struct element keys, key;
	struct cursor cursor;

	return document_find(index, "key", &keys) && cursor_open(&cursor, keys.value) &&
	       cursor_next(&cursor, &key) == CURSOR_ELEMENT && bytes_contain(key.name, ".$**");
}

static bool lacks_documents(const void *context, struct bytes index)
{
	return ((document_truth(index, "sparse") || is_wildcard(index)) &&
		lacks_sparse(index, context)) ||
	       match_index_chooses(context, index);
}

/* Keys tell themselves that they don't look into the array, and so does the name of _id's. */
static bool may_mean_array(const struct element *hint, const struct ruled_namespace *namespace)
{
	struct bytes name;

	if (hint->type == BSON_BYTE_DOCUMENT)
		return reads_of_keys(hint->value, namespace).kind == READS_ARRAY;
	return element_string(hint, &name) && !bytes_are(name, "_id_");
}

enum index_meant match_judge_index(struct match *match, const struct element *meant,
				   bool (*judge)(const void *context, struct bytes index))
{
	const struct ruled_namespace *namespace = match->namespace;
	enum index_meant known;

	if (meant->type == 0)
		return INDEX_MEANT;
	known = known_indexes_judge(namespace->indexes, meant, judge, namespace);
	if (known != INDEX_NOT_KNOWN)
		return known;
	if (!may_mean_array(meant, namespace))
		return INDEX_MEANT;
	match->asks_indexes = namespace;
	return known;
}

bool match_refuse_hint(struct match *match, const struct element *hint)
{
	if (match_judge_index(match, hint, lacks_documents) != INDEX_MEANT_SO)
		return false;
	match_refuse(match, match->namespace->targets[0].rule,
		     "a hint of a wildcard, sparse or partial index over the ruled array",
		     "it lacks documents whose elements with these fields are in the overflow");
	return true;
}

bool match_refuse_projection(const struct matching *matching, enum command_field field)
{
	const struct element *element = &matching->command->fields[field];
	struct match *match = matching->match;
	struct projection projection;
	char what[96];

	if (element->type != BSON_BYTE_DOCUMENT)
		return false;
	projection = projection_classify(element->value, match->namespace);
	snprintf(what, sizeof(what), "a projection with %s", projection.what);
	switch (projection.kind) {
	case PROJECTION_NONE:
	case PROJECTION_FORWARD:
	case PROJECTION_INCLUDE:
	case PROJECTION_EXCLUDE:
		return false;
	case PROJECTION_REFUSE:
		match_refuse(match,
			     projection.rule ? projection.rule : match->namespace->targets[0].rule,
			     what,
			     "it cuts or computes on the ruled array, which this version of "
			     "Spillway doesn't support");
		return true;
	case PROJECTION_RESERVED:
		match_refuse(match, match->namespace->targets[0].rule, what,
			     "that name is Spillway's own");
		return true;
	case PROJECTION_BROKEN:
		match_refuse_broken(match, "projection");
		return true;
	}
	return true;
}

/* An index over the array has all documents, or is refused: it chooses the way, not the answer. */
bool match_judge_hint(const struct matching *matching)
{
	bool array;

	return match_refuse_hint(matching->match, &matching->command->fields[FIELD_HINT]) ||
	       judge_part(matching, FIELD_HINT, "hint", reads_of_keys, &array);
}

static bool refuse_keys(const struct matching *matching, enum command_field field, const char *role)
{
	return match_refuse_keys(matching, &matching->command->fields[field], role);
}

/* What cuts an array or computes on it needs it whole. */
static bool judge_projection(const struct matching *matching, bool *array)
{
	const struct element *element = &matching->command->fields[FIELD_PROJECTION];

	if (element->type == BSON_BYTE_DOCUMENT &&
	    projection_classify(element->value, matching->match->namespace).kind ==
		    PROJECTION_REFUSE) {
		*array = true;
		return false;
	}
	return match_refuse_projection(matching, FIELD_PROJECTION);
}

/* An empty batch and no cursor: there is nothing to be put together. */
static bool finds_nothing(const struct command *command)
{
	struct element size;
	int64_t number;

	return options_single_batch(command) && document_find(command->body, "batchSize", &size) &&
	       element_cut_integer(&size, &number) && number == 0;
}

/* mongod says so itself, whatever else the find asks for. */
static bool projection_is_wrong(const struct matching *matching)
{
	const struct element *projection = &matching->command->fields[FIELD_PROJECTION];

	return projection->type == BSON_BYTE_DOCUMENT &&
	       project_judge(projection->value, &matching->command->fields[FIELD_FILTER],
			     matching->match->namespace) == PROJECT_WRONG;
}

/* A find that looks at its arrays only to cut windows out of them. */
static bool takes_windows(const struct matching *matching)
{
	const struct ruled_namespace *namespace = matching->match->namespace;
	const struct element *projection = &matching->command->fields[FIELD_PROJECTION];
	auto_free struct window *windows = must_calloc(namespace->target_count, sizeof(*windows));

	return projection->type == BSON_BYTE_DOCUMENT &&
	       windows_of(projection->value, namespace, windows) > 0 &&
	       projection_keeps_id(projection->value) &&
	       (window_in_one_reply(matching->command) ||
		(!options_single_batch(matching->command) &&
		 !aggregate_unserved_find(matching->command, namespace)));
}

/* What an index has of the array is what main has of it, and which index is taken only a hint
 * tells. */
static bool refuse_returned_keys(const struct matching *matching)
{
	const struct element *hint = &matching->command->fields[FIELD_HINT];
	struct element option;

	if ((hint->type == BSON_BYTE_DOCUMENT &&
	     reads_of_keys(hint->value, matching->match->namespace).kind == READS_NOTHING) ||
	    !document_find(matching->command->body, "returnKey", &option) ||
	    option.type != BSON_BYTE_BOOL || !element_truth(&option))
		return false;
	match_refuse(matching->match, matching->match->namespace->targets[0].rule,
		     "a find with returnKey",
		     "it needs a hint that spells out an index which has no ruled array in it");
	return true;
}

void match_find(const struct matching *matching)
{
	struct match *match = matching->match;
	bool array = false, cut = false;

	if (match_refuse_let(matching) || judge_filter(matching, FIELD_FILTER, &array) ||
	    judge_projection(matching, &cut) ||
	    judge_part(matching, FIELD_SORT, "sort", reads_of_sort, &array) ||
	    match_judge_hint(matching) || refuse_keys(matching, FIELD_MIN, "min") ||
	    refuse_keys(matching, FIELD_MAX, "max") || refuse_returned_keys(matching))
		return;
	if ((array || cut) && options_of_find(matching->command) == OPTIONS_WRONG)
		return; /* mongod says what is wrong */
	match->verdict = VERDICT_READ;
	match->wrong = (array || cut) && projection_is_wrong(matching);
	if ((!array && !cut) || match->wrong || finds_nothing(matching->command))
		return;
	match->windows = !array && takes_windows(matching) && reassemble_possible(match->namespace);
	if (!match->windows)
		match_reassemble(match, "a find that reads the ruled array",
				 aggregate_unserved_find(matching->command, match->namespace));
}

/* No transaction takes a count, and no snapshot: mongod says so. */
static bool count_is_wrong(const struct command *command)
{
	struct element level;
	struct bytes word;

	return options_of_count(command) == OPTIONS_WRONG ||
	       command_has(command, FIELD_AUTOCOMMIT) ||
	       (command->fields[FIELD_READ_CONCERN].type == BSON_BYTE_DOCUMENT &&
		document_find(command->fields[FIELD_READ_CONCERN].value, "level", &level) &&
		element_string(&level, &word) && bytes_are(word, "snapshot"));
}

void match_count(const struct matching *matching)
{
	const char *why;
	bool array = false;

	if (judge_filter(matching, FIELD_QUERY, &array) || match_judge_hint(matching) || !array ||
	    count_is_wrong(matching->command))
		return;
	why = options_of_count(matching->command) == OPTIONS_UNSERVED
		      ? "a decimal or huge number can't be had where arrays are put together"
		      : aggregate_unserved_filter(&matching->command->fields[FIELD_QUERY],
						  matching->match->namespace);
	match_reassemble(matching->match, "a count that reads the ruled array", why);
}

/* What else stands there mongod refuses itself. */
static bool is_strict(const struct command *command)
{
	const struct element *strict = &command->fields[FIELD_API_STRICT];
	struct bytes version;

	return strict->type == BSON_BYTE_BOOL && element_truth(strict) &&
	       element_string(&command->fields[FIELD_API_VERSION], &version) &&
	       bytes_are(version, "1");
}

/* It would run as an aggregate, which that version of the Stable API has. */
static void refuse_beyond_version(struct match *match)
{
	match_refuse(match, match->namespace->targets[0].rule, "a distinct under apiStrict", "");
	match->refusal.code = ERROR_API_STRICT;
	snprintf(match->refusal.message, sizeof(match->refusal.message),
		 "Provided apiStrict:true, but the command distinct is not in API Version 1. "
		 "Information on supported commands and migrations in API Version 1 can be found "
		 "at https://dochub.mongodb.org/core/manual-versioned-api");
}

/* mongod says so. */
static bool query_is_wrong(const struct element *query)
{
	return query->type != 0 && query->type != BSON_BYTE_DOCUMENT && !element_is_nothing(query);
}

/* NULL: it can be served, once the indexes are known. */
static const char *judge_source(const struct matching *matching)
{
	struct match *match = matching->match;

	switch (distinct_source(matching->command, match->namespace)) {
	case DISTINCT_UNKNOWN:
		match->asks_indexes = match->namespace;
		return NULL;
	case DISTINCT_AMBIGUOUS:
		return "mongod answers it from a sparse index, and which documents that index "
		       "lacks can't be told; add a query, or make the index not sparse";
	default:
		return NULL;
	}
}

void match_distinct(const struct matching *matching)
{
	const struct element *query = &matching->command->fields[FIELD_QUERY];
	struct match *match = matching->match;
	const char *why;
	bool array = false;
	struct bytes key;

	if (judge_filter(matching, FIELD_QUERY, &array) || query_is_wrong(query) ||
	    !command_has(matching->command, FIELD_KEY) ||
	    !element_string(&matching->command->fields[FIELD_KEY], &key))
		return;
	array = array || name_rule(key, match->namespace) ||
		name_find_hidden(key, match->namespace);
	if (name_is_state(key)) {
		match_refuse(match, match->namespace->targets[0].rule, "distinct on _spill",
			     "that name is Spillway's own");
		return;
	}
	if (array && distinct_is_long(key)) {
		match_refuse_limit(match, ERROR_OVERFLOW, "a path that is too long",
				   "FieldPath is too long");
		return;
	}
	why = aggregate_unserved_key(key);
	if (array && !why)
		why = judge_source(matching);
	if (array && is_strict(matching->command))
		refuse_beyond_version(match);
	else if (array)
		match_reassemble(match, "a distinct that reads the ruled array",
				 why ? why : aggregate_unserved_filter(query, match->namespace));
}
