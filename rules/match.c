/* Decides what becomes of a whole request. */
#include "rules/match.h"

#include "protocol/checksum.h"
#include "protocol/hello.h"
#include "protocol/legacy.h"
#include "rules/aggregate_write.h"
#include "rules/known_indexes.h"
#include "rules/match_inner.h"
#include "rules/names.h"
#include "rules/options.h"
#include "rules/project_write.h"
#include "rules/projection.h"
#include "rules/reassemble.h"
#include "rules/text.h"
#include "rules/window.h"

#include <stdio.h>

static void set_what(struct match *match, const char *what)
{
	snprintf(match->what, sizeof(match->what), "%s", what);
}

void match_refuse(struct match *match, const struct rule *rule, const char *what, const char *why)
{
	const struct ruled_namespace *namespace = match->namespace;

	match->verdict = VERDICT_REFUSE;
	match->code = ERROR_COMMAND_NOT_SUPPORTED;
	match->rule = rule ? rule->name : "";
	set_what(match, what);
	if (rule && namespace)
		snprintf(match->message, sizeof(match->message),
			 "Spillway rule '%s' on '%s.%s': %s: %s", rule->name, namespace->database,
			 namespace->collection, what, why);
	else if (rule)
		snprintf(match->message, sizeof(match->message), "Spillway rule '%s': %s: %s",
			 rule->name, what, why);
	else
		snprintf(match->message, sizeof(match->message), "Spillway: %s: %s", what, why);
}

void match_refuse_broken(struct match *match, const char *what)
{
	match_refuse(match, match->namespace ? match->namespace->targets[0].rule : NULL, what,
		     "can't be read without guessing (malformed, or a field stands twice)");
	match->code = ERROR_FAILED_TO_PARSE;
}

bool match_refuse_reads(struct match *match, const struct reads *reads, const char *role)
{
	char what[256];

	switch (reads->kind) {
	case READS_NOTHING:
		return false;
	case READS_ARRAY:
		snprintf(what, sizeof(what), "a %s that reads '%.100s' (%s)", role,
			 reads->rule ? reads->rule->array : "the ruled array", reads->what);
		match_refuse(match, reads->rule ? reads->rule : match->namespace->targets[0].rule,
			     what, "not supported by this version of Spillway");
		set_what(match, role); /* an operator's name may be any text of the client's */
		return true;
	case READS_RESERVED:
		snprintf(what, sizeof(what), "a %s that names %s", role, reads->what);
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

#define UNKNOWN_COMMAND "an unknown command"

/* What a refusal of this command is counted as: never a text that a client is free to choose. */
static const char *command_known(struct bytes name)
{
	static const char *const commands[] = {
		"aggregate",
		"applyOps",
		"bulkWrite",
		"cloneCollectionAsCapped",
		"collMod",
		"compact",
		"convertToCapped",
		"create",
		"createIndexes",
		"createSearchIndexes",
		"delete",
		"deleteIndexes",
		"drop",
		"dropIndexes",
		"dropSearchIndex",
		"explain",
		"findAndModify",
		"findandmodify",
		"group",
		"insert",
		"listSearchIndexes",
		"mapReduce",
		"mapreduce",
		"moveChunk",
		"reIndex",
		"renameCollection",
		"reshardCollection",
		"shardCollection",
		"update",
		"updateSearchIndex",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(commands); i++)
		if (bytes_are(name, commands[i]))
			return commands[i];
	return UNKNOWN_COMMAND;
}

/* By its name where that can be read in a line. */
static struct text_quote command_shown(struct bytes name)
{
	for (size_t i = 0; i < name.length; i++)
		if (i == 40 || name.data[i] <= ' ' || name.data[i] >= 0x7f)
			return text_quote(bytes_of(UNKNOWN_COMMAND));
	return text_quote(name.length ? name : bytes_of(UNKNOWN_COMMAND));
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
	set_what(matching->match, command_known(name));
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
	snprintf(matching->match->what, sizeof(matching->match->what), "view");
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
	matching->match->namespace = namespace;
	match_refuse(matching->match, namespace->targets[0].rule, what,
		     "not supported by this version of Spillway on a ruled namespace");
	return true;
}

bool match_refuse_full_name(const struct matching *matching, struct bytes full_name,
			    const char *what)
{
	struct bytes database, collection;

	return name_split(full_name, &database, &collection) &&
	       match_refuse_name(matching, database, collection, what);
}

/* ---- reads ---- */

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

static bool judge_filter(const struct matching *matching, enum command_field field, bool *array)
{
	return judge_part(matching, field, "filter", reads_of_filter, array);
}

bool match_refuse_let(const struct matching *matching)
{
	const struct element *let = &matching->command->fields[FIELD_LET];
	struct reads reads;

	if (let->type == 0)
		return false;
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
static bool names_array(struct bytes index, const struct ruled_namespace *namespace)
{
	struct element keys, key;

	return namespace->target_count == 1 && document_find(index, "key", &keys) &&
	       document_find(keys.value, namespace->targets[0].rule->array, &key);
}

static bool is_sparse_over_array(const void *context, struct bytes index)
{
	return document_truth(index, "sparse") && match_index_reads_array(context, index) &&
	       !names_array(index, context);
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

	if (!may_mean_array(meant, namespace))
		return INDEX_MEANT;
	known = known_indexes_judge(namespace->indexes, meant, judge, namespace);
	if (known == INDEX_NOT_KNOWN)
		match->asks_indexes = namespace;
	return known;
}

bool match_refuse_hint(struct match *match, const struct element *hint)
{
	if (match_judge_index(match, hint, is_sparse_over_array) != INDEX_MEANT_SO)
		return false;
	match_refuse(match, match->namespace->targets[0].rule,
		     "a hint of a sparse index over the ruled array",
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

bool match_judge_hint(const struct matching *matching, bool *array)
{
	return match_refuse_hint(matching->match, &matching->command->fields[FIELD_HINT]) ||
	       judge_part(matching, FIELD_HINT, "hint", reads_of_keys, array);
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
	return options_single_batch(command) && options_has_number(command, "batchSize") &&
	       options_number(command, "batchSize") == 0;
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
	       windows_of(projection->value, namespace, windows) &&
	       projection_keeps_id(projection->value) && window_in_one_reply(matching->command);
}

/* What an index has of the array is what main has of it, and which index is taken only a hint
 * tells. */
static bool refuse_returned_keys(const struct matching *matching)
{
	const struct element *hint = &matching->command->fields[FIELD_HINT];
	struct element option;

	if (hint->type == BSON_BYTE_DOCUMENT ||
	    !document_find(matching->command->body, "returnKey", &option) ||
	    option.type != BSON_BYTE_BOOL || !element_truth(&option))
		return false;
	match_refuse(matching->match, matching->match->namespace->targets[0].rule,
		     "a find with returnKey",
		     "it needs a hint that spells out an index which has no ruled array in it");
	return true;
}

static void match_find(const struct matching *matching)
{
	struct match *match = matching->match;
	bool array = false, cut = false;

	if (match_refuse_let(matching) || judge_filter(matching, FIELD_FILTER, &array) ||
	    judge_projection(matching, &cut) ||
	    judge_part(matching, FIELD_SORT, "sort", reads_of_sort, &array) ||
	    match_judge_hint(matching, &array) || refuse_keys(matching, FIELD_MIN, "min") ||
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

static void match_count(const struct matching *matching)
{
	const char *why;
	bool array = false;

	if (judge_filter(matching, FIELD_QUERY, &array) || match_judge_hint(matching, &array) ||
	    !array || count_is_wrong(matching->command))
		return;
	why = options_of_count(matching->command) == OPTIONS_UNSERVED
		      ? "a decimal or huge number can't be had where arrays are put together"
		      : aggregate_unserved_filter(&matching->command->fields[FIELD_QUERY],
						  matching->match->namespace);
	match_reassemble(matching->match, "a count that reads the ruled array", why);
}

/* It would run as an aggregate, which that version of the Stable API has. */
static void refuse_beyond_version(struct match *match)
{
	match_refuse(match, match->namespace->targets[0].rule, "a distinct under apiStrict", "");
	match->code = ERROR_API_STRICT;
	snprintf(match->message, sizeof(match->message),
		 "Provided apiStrict:true, but the command distinct is not in API Version 1. "
		 "Information on supported commands and migrations in API Version 1 can be found "
		 "at https://dochub.mongodb.org/core/manual-versioned-api");
}

/* mongod says so. */
static bool query_is_wrong(const struct element *query)
{
	return query->type != 0 && query->type != BSON_BYTE_DOCUMENT && !element_is_nothing(query);
}

static void match_distinct(const struct matching *matching)
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
	why = aggregate_unserved_key(key);
	if (array && element_truth(&matching->command->fields[FIELD_API_STRICT]))
		refuse_beyond_version(match);
	else if (array)
		match_reassemble(match, "a distinct that reads the ruled array",
				 why ? why : aggregate_unserved_filter(query, match->namespace));
}

static void match_read(const struct matching *matching)
{
	matching->match->verdict = VERDICT_READ;
}

static void match_pass(const struct matching *matching)
{
	(void)matching;
}

static void match_unsupported(const struct matching *matching)
{
	struct bytes name = matching->command->first.name;

	match_refuse(matching->match, matching->match->namespace->targets[0].rule,
		     command_shown(name).text,
		     "not supported by this version of Spillway on a ruled namespace");
	set_what(matching->match, command_known(name));
}

/* ---- commands by name ---- */

enum overflow_access {
	OVERFLOW_READ,  /* overflow collections are readable as they are stored */
	OVERFLOW_QUERY, /* the same; views that give arrays short are not */
	OVERFLOW_WRITE, /* refused on them */
};

struct command_rule {
	const char *name;
	void (*match)(const struct matching *matching);
	enum overflow_access access;
	bool writes;
};

/* Commands whose first value is a collection of $db. What is not here is refused on a ruled
 * namespace. */
static const struct command_rule command_rules[] = {
	{"find", match_find, OVERFLOW_QUERY, false},
	{"insert", match_insert, OVERFLOW_WRITE, true},
	{"update", match_update, OVERFLOW_WRITE, true},
	{"delete", match_delete, OVERFLOW_WRITE, true},
	{"findAndModify", match_find_and_modify, OVERFLOW_WRITE, true},
	{"findandmodify", match_find_and_modify, OVERFLOW_WRITE, true},
	{"count", match_count, OVERFLOW_QUERY, false},
	{"distinct", match_distinct, OVERFLOW_QUERY, false},
	{"killCursors", match_pass, OVERFLOW_READ, false},
	{"listIndexes", match_pass, OVERFLOW_READ, false},
	{"createIndexes", match_create_indexes, OVERFLOW_READ, true},
	{"dropIndexes", match_drop_indexes, OVERFLOW_WRITE, true},
	{"deleteIndexes", match_drop_indexes, OVERFLOW_WRITE, true},
	{"collMod", match_coll_mod, OVERFLOW_WRITE, true},
	{"create", match_create, OVERFLOW_READ, true},
	{"drop", match_drop, OVERFLOW_WRITE, true},
	{"collStats", match_pass, OVERFLOW_READ, false},
	{"collstats", match_pass, OVERFLOW_READ, false},
	{"validate", match_pass, OVERFLOW_READ, false},
	{"compact", match_pass, OVERFLOW_READ, false},
	{"reIndex", match_pass, OVERFLOW_READ, false},
	{"planCacheClear", match_pass, OVERFLOW_READ, false},
	{"planCacheClearFilters", match_pass, OVERFLOW_READ, false},
	{"planCacheListFilters", match_pass, OVERFLOW_READ, false},
	{"planCacheSetFilter", match_pass, OVERFLOW_READ, false},
};

static const struct command_rule *rule_of_command(struct bytes name)
{
	for (size_t i = 0; i < ARRAY_LENGTH(command_rules); i++)
		if (bytes_are(name, command_rules[i].name))
			return &command_rules[i];
	return NULL;
}

/* Commands whose first value is the name of something else, of a user for instance. */
static bool names_no_collection(struct bytes name)
{
	static const char *const commands[] = {
		"createUser",
		"updateUser",
		"dropUser",
		"usersInfo",
		"grantRolesToUser",
		"revokeRolesFromUser",
		"createRole",
		"updateRole",
		"dropRole",
		"rolesInfo",
		"grantRolesToRole",
		"revokeRolesFromRole",
		"grantPrivilegesToRole",
		"revokePrivilegesFromRole",
		"dataSize", /* the name of a whole namespace */
		"datasize",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(commands); i++)
		if (bytes_are(name, commands[i]))
			return true;
	return false;
}

#define READ_ONLY "the rule is read-only ('access')"

bool match_refuse_read_only(const struct matching *matching,
			    const struct ruled_namespace *namespace, const char *what)
{
	for (size_t i = 0; namespace && i < namespace->target_count; i++)
		if (namespace->targets[i].rule->read_only) {
			matching->match->namespace = namespace;
			match_refuse(matching->match, namespace->targets[i].rule, what, READ_ONLY);
			return true;
		}
	return false;
}

/* The overflow goes with it: all of it, of collections that are there no more. */
static void match_drop_database(const struct matching *matching)
{
	const struct rule *rule = rule_set_read_only(matching->rules, matching->database);

	match_watch(matching);
	if (rule) {
		match_refuse(matching->match, rule, "dropDatabase", READ_ONLY);
		return;
	}
	rule = rule_set_overflow_alone(matching->rules, matching->database);
	if (rule)
		match_refuse(matching->match, rule, "dropDatabase",
			     "the rule's overflow is there, of collections in another database");
}

static bool refuse_write(const struct matching *matching, const struct command_rule *rule)
{
	return rule && rule->writes &&
	       match_refuse_read_only(matching, matching->match->namespace, rule->name);
}

static void match_on_collection(const struct matching *matching)
{
	const struct command_rule *rule = rule_of_command(matching->command->first.name);
	struct match *match = matching->match;

	if ((!rule || rule->access == OVERFLOW_WRITE) &&
	    match_refuse_overflow(matching, matching->database, matching->command->collection))
		return;
	if (match_refuse_loss(matching))
		return;
	if (rule && rule->access == OVERFLOW_QUERY &&
	    match_refuse_short_view(matching, matching->database, matching->command->collection))
		return;
	match->namespace =
		match_find_namespace(matching, matching->database, matching->command->collection);
	if (!match->namespace && match->verdict != VERDICT_REFUSE && rule &&
	    rule->access == OVERFLOW_WRITE &&
	    rule_set_short_view(matching->rules, matching->database, matching->command->collection))
		match_watch(
			matching); /* drop, collMod: the name may soon stand for another thing */
	if (!match->namespace || match->verdict == VERDICT_REFUSE)
		return;
	if (matching->command->duplicate)
		match_refuse_broken(match, "command");
	else if (refuse_write(matching, rule))
		return;
	else if (rule)
		rule->match(matching);
	else
		match_unsupported(matching);
}

/* mongod takes a UUID for a collection's name in reads. */
static void match_by_uuid(const struct matching *matching)
{
	const struct command_rule *rule = rule_of_command(matching->command->first.name);

	if (rule && (rule->writes || rule->access == OVERFLOW_QUERY) &&
	    rule_set_in_database(matching->rules, matching->database))
		match_refuse(matching->match, rule_set_at(matching->rules, 0),
			     "a collection that is named by its UUID",
			     "whether it is a ruled one can't be told; give its name");
}

static void match_get_more(const struct matching *matching)
{
	const struct element *collection = &matching->command->fields[FIELD_COLLECTION];
	struct bytes name;

	if (collection->type == 0 || !element_string(collection, &name))
		return;
	matching->match->namespace = match_find_namespace(matching, matching->database, name);
	if (matching->match->namespace && matching->match->verdict != VERDICT_REFUSE)
		match_read(matching);
}

static void match_map_reduce(const struct matching *matching)
{
	const struct element *out = &matching->command->fields[FIELD_OUT];
	struct bytes name, database = matching->database;
	struct cursor cursor;
	struct element option;

	if (match_refuse_name(matching, matching->database, matching->command->collection,
			      "mapReduce"))
		return;
	if (element_string(out, &name)) {
		match_refuse_name(matching, database, name, "mapReduce");
		return;
	}
	if (out->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, out->value))
		return;
	if (document_find(out->value, "db", &option) && !element_string(&option, &database))
		database = matching->database;
	while (cursor_next(&cursor, &option) == CURSOR_ELEMENT)
		if (!element_is(&option, "db") && element_string(&option, &name) &&
		    match_refuse_name(matching, database, name, "mapReduce"))
			return;
}

static bool is_of_ruled_database(const struct matching *matching, struct bytes database)
{
	return bytes_are(database, "admin") || rule_set_in_database(matching->rules, database) ||
	       rule_set_overflow_alone(matching->rules, database);
}

/* Itself a command, in a database that has a rule, or another applyOps. */
static bool is_ruled_command(const struct matching *matching, struct bytes operation)
{
	struct element field;
	struct bytes text, database, collection;

	return document_find(operation, "op", &field) && element_string(&field, &text) &&
	       bytes_are(text, "c") && document_find(operation, "ns", &field) &&
	       element_string(&field, &text) && name_split(text, &database, &collection) &&
	       is_of_ruled_database(matching, database);
}

/* What an operation of applyOps means that its `ns` doesn't tell. */
static bool refuse_operation(const struct matching *matching, struct bytes operation,
			     const char *what)
{
	struct element field;

	if (!document_find(operation, "ui", &field) && !is_ruled_command(matching, operation))
		return false;
	match_refuse(matching->match, rule_set_at(matching->rules, 0), what,
		     "an operation with 'ui', or that is a command, may mean a ruled collection");
	return true;
}

/* Every string field `ns` of the documents must be apart from the rules. */
static void refuse_listed_namespaces(const struct matching *matching, struct bytes documents,
				     const char *what)
{
	struct bytes document, name;
	struct element element;

	while (message_next_document(&documents, &document))
		if (refuse_operation(matching, document, what) ||
		    (document_find(document, "ns", &element) && element_string(&element, &name) &&
		     match_refuse_full_name(matching, name, what)))
			return;
}

static void refuse_listed_in_array(const struct matching *matching, const struct element *array,
				   const char *what)
{
	struct cursor cursor;
	struct element element;

	if (array->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, array->value))
		return;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT &&
	       matching->match->verdict != VERDICT_REFUSE)
		if (element.type == BSON_BYTE_DOCUMENT)
			refuse_listed_namespaces(matching, element.value, what);
}

static void match_command(const struct matching *matching);

/* explain answers for what would be run: what is refused stays so, edits get their guard, the rest
 * goes to mongod as it is. */
static void match_explain(const struct matching *matching)
{
	struct command inner;
	struct matching inside = *matching;

	if (matching->command->first.type != BSON_BYTE_DOCUMENT ||
	    !command_parse(matching->command->first.value, &inner) ||
	    bytes_are(inner.first.name, "explain"))
		return;
	inside.command = &inner;
	match_command(&inside);
	if (matching->match->verdict == VERDICT_BULK_WRITE)
		match_refuse(matching->match, matching->match->namespace->targets[0].rule,
			     "explain of bulkWrite", "not supported by this version of Spillway");
	matching->match->changes_fitness = false;
	if (matching->match->verdict == VERDICT_REFUSE)
		return;
	if (matching->match->verdict == VERDICT_AGGREGATE)
		return;
	matching->match->verdict = matching->match->edits ? VERDICT_EXPLAIN : VERDICT_FORWARD;
	matching->match->edits = false;
}

static void match_aggregate_command(const struct matching *matching)
{
	struct bytes collection = matching->command->collection;
	const struct ruled_namespace *namespace;

	if (match_refuse_short_view(matching, matching->database, collection))
		return;
	namespace = match_find_namespace(matching, matching->database, collection);
	match_aggregate(matching, namespace);
	if (namespace)
		match_computed(matching, namespace);
}

/* mongod takes one, a type that drivers no longer write, for the name of a collection. */
static bool refuse_symbol(const struct matching *matching)
{
	static const char what[] = "a collection that is named by a symbol";
	struct element name = matching->command->first;
	struct bytes text;

	if (name.type != BSON_BYTE_SYMBOL)
		return false;
	name.type = BSON_BYTE_STRING; /* of the same form */
	return element_string(&name, &text) &&
	       (match_refuse_name(matching, matching->database, text, what) ||
		match_refuse_full_name(matching, text, what));
}

static void match_command(const struct matching *matching)
{
	const struct command *command = matching->command;
	struct bytes name = command->first.name;

	if (refuse_symbol(matching))
		return;
	if (bytes_are(name, "getMore"))
		match_get_more(matching);
	else if (bytes_are(name, "explain"))
		match_explain(matching);
	else if (bytes_are(name, "dropDatabase"))
		match_drop_database(matching);
	else if (bytes_are(name, "renameCollection"))
		match_rename(matching);
	else if (bytes_are(name, "bulkWrite"))
		match_bulk_write(matching);
	else if (bytes_are(name, "applyOps"))
		refuse_listed_in_array(matching, &command->first, "applyOps");
	else if (bytes_are(name, "mapReduce") || bytes_are(name, "mapreduce"))
		match_map_reduce(matching);
	else if (bytes_are(name, "aggregate"))
		match_aggregate_command(matching);
	else if ((bytes_are(name, "create") || bytes_are(name, "collMod")) &&
		 match_refuse_view(matching))
		return;
	else if (command->collection.length > 0 && !names_no_collection(name))
		match_on_collection(matching);
	else if (command->first.type == BSON_BYTE_BINARY)
		match_by_uuid(matching);
}

static enum match_transaction transaction_of(const struct command *command)
{
	if (bytes_are(command->first.name, "commitTransaction") ||
	    bytes_are(command->first.name, "abortTransaction"))
		return MATCH_ENDS_TRANSACTION;
	return command_has(command, FIELD_AUTOCOMMIT) ? MATCH_IN_TRANSACTION : MATCH_NO_TRANSACTION;
}

static void match_message(struct namespace_cache *cache, const struct packet *packet,
			  const struct match_judge *judge, struct match *match)
{
	struct matching matching = {
		cache, namespace_cache_rules(cache), packet, &match->command, {0}, match, judge};

	match->facts.answered = !(packet->message.flags & MESSAGE_MORE_TO_COME);
	match->facts.exhaust = packet->message.flags & MESSAGE_EXHAUST_ALLOWED;
	if (!command_parse(packet->message.body, &match->command)) {
		if (rule_set_count(matching.rules) > 0)
			match_refuse_broken(match, "command");
		return;
	}
	matching.database = match->command.database;
	match->facts.transaction = transaction_of(&match->command);
	match->facts.reads_on = rule_set_count(matching.rules) > 0 &&
				bytes_are(match->command.first.name, "getMore");
	if (hello_is_command(match->command.first.name))
		match->verdict = VERDICT_HELLO;
	else if (rule_set_count(matching.rules) > 0)
		match_command(&matching);
	/* `$db` or what names a namespace may be the field that stands twice. */
	if (match->command.duplicate && match->verdict == VERDICT_FORWARD &&
	    rule_set_count(matching.rules) > 0)
		match_refuse_broken(match, "command");
}

/* ---- legacy opcodes ---- */

static void match_legacy_command(const struct matching *matching, const struct legacy_query *query)
{
	struct command *command = &matching->match->command;

	if (!command_parse(query->command, command)) {
		if (rule_set_count(matching->rules) > 0)
			match_refuse_broken(matching->match, "command");
		return;
	}
	if (hello_is_command(command->first.name))
		matching->match->verdict = VERDICT_HELLO;
	else if (rule_set_count(matching->rules) > 0)
		match_command(matching);
	/* Sequences speak OP_MSG: servers that still take these commands in OP_QUERY also take
	 * OP_MSG. */
	if (matching->match->verdict != VERDICT_HELLO &&
	    matching->match->verdict != VERDICT_FORWARD &&
	    matching->match->verdict != VERDICT_REFUSE)
		match_refuse(matching->match,
			     matching->match->namespace
				     ? matching->match->namespace->targets[0].rule
				     : rule_set_at(matching->rules, 0),
			     "OP_QUERY", "use OP_MSG on a ruled namespace");
}

static void match_query(struct namespace_cache *cache, const struct packet *packet,
			struct match *match)
{
	struct matching matching = {
		cache, namespace_cache_rules(cache), packet, &match->command, {0}, match, NULL};
	struct legacy_query query;

	match->facts.answered = true;
	if (!legacy_query_parse(packet_frame(packet), &query))
		return;
	if (query.is_command) {
		matching.database = (struct bytes){query.namespace.data,
						   query.namespace.length - strlen(".$cmd")};
		match_legacy_command(&matching, &query);
	} else if (rule_set_count(matching.rules) > 0) {
		match_refuse_full_name(&matching, query.namespace, "OP_QUERY");
	}
}

/* Of these only a getMore has a reply that could say no. */
static void match_legacy_write(struct namespace_cache *cache, const struct packet *packet,
			       struct match *match)
{
	struct matching matching = {
		cache, namespace_cache_rules(cache), packet, &match->command, {0}, match, NULL};
	struct bytes namespace;

	match->facts.answered = packet->header.opcode == OPCODE_GET_MORE;
	if (!legacy_write_namespace(packet_frame(packet), &namespace))
		return;
	if (match_refuse_full_name(&matching, namespace, "a legacy opcode") &&
	    !match->facts.answered)
		match->verdict = VERDICT_CLOSE;
}

static void match_kind(struct namespace_cache *cache, const struct packet *packet,
		       const struct match_judge *judge, struct match *match)
{
	/* What stands behind it is large, and set where it is needed. */
	memset(match, 0, offsetof(struct match, message));
	match->message[0] = '\0';
	if (packet->kind != PACKET_MESSAGE)
		match->command = (struct command){0};
	match->verdict = VERDICT_FORWARD;
	match->rule = "";
	switch (packet->kind) {
	case PACKET_MESSAGE:
		match_message(cache, packet, judge, match);
		/* What is edited or answered here, mongod can't check any more. */
		if (match->verdict != VERDICT_FORWARD && !packet_compressed(packet) &&
		    !checksum_matches(packet_frame(packet)))
			match->verdict = VERDICT_CLOSE; /* as mongod does */
		return;
	case PACKET_BROKEN:
		match->facts.answered = true;
		if (packet->header.opcode == OPCODE_MESSAGE)
			match_refuse_broken(match, "OP_MSG");
		else
			match->verdict = VERDICT_CLOSE; /* as mongod does */
		return;
	case PACKET_OTHER:
		break;
	}
	if (packet->header.opcode == OPCODE_QUERY)
		match_query(cache, packet, match);
	else if (rule_set_count(namespace_cache_rules(cache)) > 0)
		match_legacy_write(cache, packet, match);
}

void match_packet_judged(struct namespace_cache *cache, const struct packet *packet,
			 const struct match_judge *judge, struct match *match)
{
	match_kind(cache, packet, judge, match);
	if (judge)
		judge->judge(judge->context, match);
}

void match_packet(struct namespace_cache *cache, const struct packet *packet, struct match *match)
{
	match_packet_judged(cache, packet, NULL, match);
}
