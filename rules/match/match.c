/* Decides what becomes of a whole request. */
#include "rules/match/match.h"

#include "protocol/checksum.h"
#include "protocol/legacy.h"
#include "protocol/stranger.h"
#include "rules/match/match_inner.h"
#include "rules/rule/names.h"

#include <stdio.h>

#define BODY_MOST (16 * 1024 * 1024 + 16 * 1024) /* bytes; mongod's BSONObjMaxInternalSize */

enum overflow_access {
	OVERFLOW_WRITE, /* refused on overflow collections */
	OVERFLOW_READ,  /* overflow collections are readable as they are stored */
	OVERFLOW_QUERY, /* the same; views that give arrays short are not */
};

/* What becomes of a command. One without functions is refused on a ruled namespace. */
struct command_rule {
	void (*judge)(const struct matching *matching); /* whatever its first value is */
	void (*match)(const struct matching *matching); /* on the ruled collection that it names */
	enum overflow_access access;
	bool writes;
};

static const struct command_rule *rule_of_command(const struct matching *matching);

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

static bool refuse_write(const struct matching *matching)
{
	return rule_of_command(matching)->writes &&
	       match_refuse_read_only(matching, matching->match->namespace,
				      command_named(matching->command->first.name)->text);
}

/* mongod 6.0 drops the collection itself by the name that its time series would be stored under. */
static bool refuse_buckets(const struct matching *matching)
{
	struct bytes name = matching->command->collection;
	size_t prefix = strlen(NAME_BUCKETS);

	if (!bytes_begin_with(name, NAME_BUCKETS))
		return false;
	return match_refuse_name(matching, matching->database,
				 (struct bytes){name.data + prefix, name.length - prefix},
				 "a command on " NAME_BUCKETS "*");
}

static void match_on_collection(const struct matching *matching)
{
	const struct command_rule *rule = rule_of_command(matching);
	struct match *match = matching->match;

	if (refuse_buckets(matching))
		return;
	if (rule->access == OVERFLOW_WRITE && match_drop_overflow(matching))
		return;
	if (rule->access == OVERFLOW_WRITE &&
	    match_refuse_overflow(matching, matching->database, matching->command->collection))
		return;
	if (match_refuse_loss(matching))
		return;
	if (rule->access == OVERFLOW_QUERY &&
	    match_refuse_short_view(matching, matching->database, matching->command->collection))
		return;
	match->namespace =
		match_find_namespace(matching, matching->database, matching->command->collection);
	if (!match->namespace && match->verdict != VERDICT_REFUSE && rule->match &&
	    rule->access == OVERFLOW_WRITE &&
	    rule_set_short_view(matching->rules, matching->database, matching->command->collection))
		match_watch(
			matching); /* drop, collMod: the name may soon stand for another thing */
	if (!match->namespace || match->verdict == VERDICT_REFUSE)
		return;
	if (matching->command->duplicate)
		match_refuse_broken(match, "command");
	else if (refuse_write(matching))
		return;
	else if (!rule->match)
		match_refuse_command(matching);
	else if (!match_refuse_large(matching)) {
		rule->match(matching);
		match_judge_work(matching);
	}
}

/* mongod takes a UUID for a collection's name in reads. */
static void match_by_uuid(const struct matching *matching)
{
	const struct command_rule *rule = rule_of_command(matching);

	if ((rule->writes || rule->access == OVERFLOW_QUERY) &&
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
	if (match_is_wide_stream(matching->rules, name)) {
		matching->match->cache = matching->cache;
		matching->match->verdict = VERDICT_STREAM;
		return;
	}
	matching->match->namespace = match_find_namespace(matching, matching->database, name);
	if (matching->match->namespace && matching->match->verdict != VERDICT_REFUSE)
		matching->match->verdict = VERDICT_READ;
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

static void match_command(const struct matching *matching);

/* mongod 6.0 may crash (GroupFromFirstDocument) where it runs the pipeline of a $unionWith to
 * explain it, and documents are put together in that. */
static bool runs_union(const struct matching *matching)
{
	struct element verbosity;
	struct bytes text;

	return matching->match->unites &&
	       !(document_find(matching->command->body, "verbosity", &verbosity) &&
		 element_string(&verbosity, &text) && bytes_are(text, "queryPlanner"));
}

/* explain answers for what would be run: what is refused stays so, edits get their guard, the rest
 * goes to mongod as it is. */
static void match_explain(const struct matching *matching)
{
	struct command inner;
	struct matching inside = *matching;

	if (matching->command->first.type != BSON_BYTE_DOCUMENT ||
	    !command_parse(matching->command->first.value, &inner) || inner.kind == COMMAND_EXPLAIN)
		return;
	if (inner.database.length == 0)
		inner.database = matching->command->database;
	inside.command = &inner;
	match_command(&inside);
	if (matching->match->verdict == VERDICT_BULK_WRITE)
		match_refuse(matching->match, matching->match->namespace->targets[0].rule,
			     "explain of bulkWrite", "not supported by this version of Spillway");
	matching->match->changes_fitness = false;
	if (matching->match->verdict == VERDICT_STREAM)
		matching->match->verdict = VERDICT_FORWARD;
	if (matching->match->verdict == VERDICT_REFUSE)
		return;
	if (matching->match->verdict == VERDICT_AGGREGATE) {
		if (runs_union(matching))
			match_refuse(matching->match, rule_set_at(matching->rules, 0),
				     "explain of a $unionWith that runs it",
				     "mongod could crash; ask with verbosity 'queryPlanner'");
		return;
	}
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
	match_judge_work(matching);
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

/* The copy takes documents past the guards of writes. True when it was refused. */
static bool refuse_copy(const struct matching *matching)
{
	struct element onto;
	struct bytes name;

	return matching->command->kind == COMMAND_CLONE_AS_CAPPED &&
	       document_find(matching->command->body, "toCollection", &onto) &&
	       element_string(&onto, &name) &&
	       match_refuse_name(matching, matching->database, name, "cloneCollectionAsCapped");
}

/* Between members, and clients' too. */
static void match_rename_inside(const struct matching *matching)
{
	match_refuse_ends(matching, matching->command->body, "from", "to", MATCH_RENAME_INSIDE);
}

static void match_pass(const struct matching *matching)
{
	(void)matching;
}

static const struct command_rule command_rules[COMMAND_KINDS] = {
	[COMMAND_AGGREGATE] = {.judge = match_aggregate_command},
	[COMMAND_APPLY_OPS] = {.judge = match_apply_ops},
	[COMMAND_BULK_WRITE] = {.judge = match_bulk_write},
	[COMMAND_DB_STATS] = {.judge = match_db_stats},
	[COMMAND_DROP_DATABASE] = {.judge = match_drop_database},
	[COMMAND_EXPLAIN] = {.judge = match_explain},
	[COMMAND_GET_MORE] = {.judge = match_get_more},
	[COMMAND_LIST_COLLECTIONS] = {.judge = match_list_collections},
	[COMMAND_MAP_REDUCE] = {.judge = match_map_reduce},
	[COMMAND_ON_OTHERS] = {.judge = match_pass},
	[COMMAND_RENAME] = {.judge = match_rename},
	[COMMAND_RENAME_INSIDE] = {.judge = match_rename_inside},

	[COMMAND_COLL_MOD] = {NULL, match_coll_mod, OVERFLOW_WRITE, true},
	[COMMAND_COUNT] = {NULL, match_count, OVERFLOW_QUERY, false},
	[COMMAND_CREATE] = {NULL, match_create, OVERFLOW_READ, true},
	[COMMAND_CREATE_INDEXES] = {NULL, match_create_indexes, OVERFLOW_READ, true},
	[COMMAND_DELETE] = {NULL, match_delete, OVERFLOW_WRITE, true},
	[COMMAND_DISTINCT] = {NULL, match_distinct, OVERFLOW_QUERY, false},
	[COMMAND_DROP] = {NULL, match_drop, OVERFLOW_WRITE, true},
	[COMMAND_DROP_INDEXES] = {NULL, match_drop_indexes, OVERFLOW_WRITE, true},
	[COMMAND_FIND] = {NULL, match_find, OVERFLOW_QUERY, false},
	[COMMAND_FIND_AND_MODIFY] = {NULL, match_find_and_modify, OVERFLOW_WRITE, true},
	[COMMAND_INSERT] = {NULL, match_insert, OVERFLOW_WRITE, true},
	[COMMAND_ON_COLLECTION] = {NULL, match_pass, OVERFLOW_READ, false},
	[COMMAND_UPDATE] = {NULL, match_update, OVERFLOW_WRITE, true},
};

static const struct command_rule *rule_of_command(const struct matching *matching)
{
	return &command_rules[matching->command->kind];
}

static void match_command(const struct matching *matching)
{
	const struct command *command = matching->command;
	const struct command_rule *rule = rule_of_command(matching);

	if (refuse_symbol(matching) || refuse_copy(matching))
		return;
	if (rule->judge)
		rule->judge(matching);
	else if ((command->kind == COMMAND_CREATE || command->kind == COMMAND_COLL_MOD) &&
		 match_refuse_view(matching))
		return;
	else if (command->collection.length > 0)
		match_on_collection(matching);
	else if (command->first.type == BSON_BYTE_BINARY)
		match_by_uuid(matching);
}

static enum match_transaction transaction_of(const struct command *command)
{
	if (command->kind == COMMAND_END_TRANSACTION)
		return MATCH_ENDS_TRANSACTION;
	return command_has(command, FIELD_AUTOCOMMIT) ? MATCH_IN_TRANSACTION : MATCH_NO_TRANSACTION;
}

static bool signs_in(const struct command *command)
{
	struct element speculation;

	return command->kind == COMMAND_SIGN_IN ||
	       (command->kind == COMMAND_HELLO &&
		document_find(command->body, "speculativeAuthenticate", &speculation));
}

/* mongod refuses a body that passes this, whatever the command: so nothing of it is read here. */
static bool refuse_large(struct match *match, struct bytes body)
{
	char message[120];

	if (body.length <= BODY_MOST)
		return false;
	snprintf(message, sizeof(message),
		 "BSONObj size: %zu (0x%zX) is invalid. Size must be between 0 and %d(16MB)",
		 body.length, body.length, BODY_MOST);
	match_refuse_limit(match, ERROR_OBJECT_TOO_LARGE, "a body that is too large", message);
	return true;
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
	match->facts.signs_in = signs_in(&match->command);
	match->facts.reads_on =
		rule_set_count(matching.rules) > 0 && match->command.kind == COMMAND_GET_MORE;
	if (match->command.kind == COMMAND_HELLO)
		match->verdict = VERDICT_HELLO;
	else if (rule_set_count(matching.rules) > 0 && !refuse_large(match, packet->message.body))
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
	matching->match->facts.signs_in = signs_in(command);
	if (command->kind == COMMAND_HELLO)
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
	if (!legacy_query_parse(packet_frame(packet), &query)) {
		match->verdict = VERDICT_CLOSE; /* as mongod does */
		return;
	}
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
	if (packet->header.opcode == OPCODE_KILL_CURSORS)
		return;
	if (!legacy_write_namespace(packet_frame(packet), &namespace)) {
		match->verdict = VERDICT_CLOSE; /* as mongod does */
		return;
	}
	if (match_refuse_full_name(&matching, namespace, "a legacy opcode") &&
	    !match->facts.answered)
		match->verdict = VERDICT_CLOSE;
}

/* Of an OP_MSG, which may be broken behind them. */
static uint32_t flags_of(const struct packet *packet)
{
	struct bytes frame = packet_frame(packet);

	if (packet->header.opcode != OPCODE_MESSAGE || frame.length < FRAME_HEADER_LENGTH + 4)
		return 0;
	return (uint32_t)load_int32(frame.data + FRAME_HEADER_LENGTH);
}

static void match_kind(struct namespace_cache *cache, const struct packet *packet,
		       const struct match_judge *judge, struct match *match)
{
	/* What stands behind it is large, and set where it is needed. */
	memset(match, 0, offsetof(struct match, refusal.message));
	match->refusal.message[0] = '\0';
	if (packet->kind != PACKET_MESSAGE)
		match->command = (struct command){0};
	match->verdict = VERDICT_FORWARD;
	match->refusal.rule = "";
	switch (packet->kind) {
	case PACKET_MESSAGE:
		match_message(cache, packet, judge, match);
		/* What is edited or answered here, mongod can't check any more. */
		if (match->verdict != VERDICT_FORWARD && !packet_compressed(packet) &&
		    !checksum_matches(packet_frame(packet)))
			match->verdict = VERDICT_CLOSE; /* as mongod does */
		return;
	case PACKET_BROKEN:
		match->facts.answered = !(flags_of(packet) & MESSAGE_MORE_TO_COME);
		if (packet->header.opcode == OPCODE_MESSAGE &&
		    !message_flags_unknown(flags_of(packet)))
			match_refuse_broken(match, "OP_MSG");
		else
			match->verdict = VERDICT_CLOSE; /* as mongod does */
		return;
	case PACKET_OTHER:
		break;
	}
	if (packet->header.opcode == OPCODE_QUERY)
		match_query(cache, packet, match);
	else if (!stranger_knows_opcode(packet->header.opcode))
		match->verdict = VERDICT_CLOSE; /* as mongod does */
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
