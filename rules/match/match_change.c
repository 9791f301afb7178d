/* Commands that change collections, their indexes and views. */
#include "rules/match/match_inner.h"

#include "protocol/packet.h"
#include "protocol/writer.h"
#include "rules/match/fitness_judge.h"
#include "rules/match/partial_filter.h"
#include "rules/rule/known_indexes.h"
#include "rules/rule/names.h"

#include <stdio.h>

void match_watch(const struct matching *matching)
{
	matching->match->verdict = VERDICT_WATCH;
	matching->match->changes_fitness = true;
}

/* What is of no kind that mongod has it refuses itself. */
static bool is_special(struct bytes kind)
{
	static const char *const kinds[] = {"text",           "2d",
					    "2dsphere",       "geoHaystack",
					    "columnstore",    "queryable_encrypted_range",
					    "2dsphere_bucket"};

	for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++)
		if (bytes_are(kind, kinds[i]))
			return true;
	return false;
}

static bool key_special(struct bytes key)
{
	struct cursor cursor;
	struct element field;
	struct bytes kind;

	if (!cursor_open(&cursor, key))
		return false;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (element_string(&field, &kind) && is_special(kind))
			return true;
	return false;
}

/* What says which documents the index has, if it is anything. */
static bool find_choice(struct bytes index, struct bytes *filter)
{
	struct element found;

	if (!document_find(index, "partialFilterExpression", &found) ||
	    found.type != BSON_BYTE_DOCUMENT)
		return false;
	*filter = found.value;
	return true;
}

bool match_index_chooses(const void *context, struct bytes index)
{
	const struct ruled_namespace *namespace = context;
	struct bytes filter;

	if (!find_choice(index, &filter) || reads_of_stored(filter, namespace).kind != READS_ARRAY)
		return false;
	for (size_t i = 0; i < namespace->target_count; i++)
		if (!partial_filter_holds(filter, namespace->targets[i].rule->array))
			return true;
	return false;
}

static struct reads reads_of_choice(const struct match *match, struct bytes index)
{
	struct reads reads = {.kind = READS_NOTHING};
	struct bytes filter;

	if (find_choice(index, &filter))
		reads = reads_of_stored(filter, match->namespace);
	if (reads.kind == READS_ARRAY && !match_index_chooses(match->namespace, index))
		reads.kind = READS_NOTHING;
	return reads;
}

/* One field, ascending or descending: no document is refused for what stands there. */
static bool has_plain_key(struct bytes keys)
{
	struct cursor cursor;
	struct element key, more;
	int64_t way;

	return cursor_open(&cursor, keys) && cursor_next(&cursor, &key) == CURSOR_ELEMENT &&
	       element_integer(&key, &way) && !bytes_contain(key.name, "$**") &&
	       cursor_next(&cursor, &more) == CURSOR_END;
}

/* How many fields of the key are the array's, or inside its elements. */
static size_t count_inside(const struct ruled_namespace *namespace, struct bytes keys)
{
	struct cursor cursor;
	struct element key;
	size_t count = 0;

	if (cursor_open(&cursor, keys))
		while (cursor_next(&cursor, &key) == CURSOR_ELEMENT)
			count += name_rule(key.name, namespace) != NULL;
	return count;
}

/* mongod refuses a document whose arrays are parallel if the filter chooses it. */
static void refuse_partial(struct match *match, const struct rule *rule, struct bytes keys,
			   bool chooses)
{
	if (chooses && !has_plain_key(keys))
		match_refuse(match, rule, "a partial index by the ruled array",
			     "it would have the documents that match by the part of the array that "
			     "is left in them; make it of one field, choose by {$exists: true}, "
			     "or choose by other fields");
	else if (count_inside(match->namespace, keys) > 1)
		match_refuse(match, rule, "a partial index over two paths in the ruled array",
			     "parallel arrays in the overflow could not be refused as the filter "
			     "chooses; make one index for each path");
}

static void refuse_index(struct match *match, const struct rule *rule, struct bytes index,
			 bool special)
{
	struct element option;

	if (judge_is_unique(index))
		match_refuse(match, rule, "a unique index on the ruled array",
			     "it can't be enforced across main and overflow documents; push with a "
			     "guard ({f: {$ne: value}} in the filter), or by $addToSet, to keep "
			     "values unique inside a document");
	else if (document_find(index, "expireAfterSeconds", &option))
		match_refuse(
			match, rule, "a TTL index on the ruled array",
			"it would judge the part of the array that is left in the main document; "
			"put the time into a field outside the array");
	else if (special)
		match_refuse(match, rule, "a text or geo index over the ruled array",
			     "it would see only the part of the array that is left in the main "
			     "document; index a field outside the array");
}

static bool index_unfit(const struct matching *matching, struct bytes index)
{
	struct match *match = matching->match;
	struct element key;
	struct reads reads, choice;
	struct bytes filter;
	bool special;

	if (!document_find(index, "key", &key) || key.type != BSON_BYTE_DOCUMENT)
		return false;
	special = key_special(key.value);
	reads = reads_of_keys(key.value, match->namespace);
	choice = reads_of_choice(match, index);
	if (special && memmem(key.value.data, key.value.length, "$**", 3))
		reads.kind = READS_ARRAY;
	if (reads.kind == READS_NOTHING)
		reads = choice;
	if (reads.kind == READS_NOTHING)
		return false;
	if (reads.kind != READS_ARRAY)
		return match_refuse_reads(match, &reads, "index");
	match->tending = MOVER_TEND_INDEXES;
	refuse_index(match, reads.rule, index, special);
	if (match->verdict != VERDICT_REFUSE && find_choice(index, &filter))
		refuse_partial(match, reads.rule, key.value, choice.kind == READS_ARRAY);
	return match->verdict == VERDICT_REFUSE;
}

void match_create_indexes(const struct matching *matching)
{
	const struct element *indexes = &matching->command->fields[FIELD_INDEXES];
	struct cursor cursor;
	struct element index;

	match_watch(matching);
	if (indexes->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, indexes->value))
		return;
	while (cursor_next(&cursor, &index) == CURSOR_ELEMENT)
		if (index.type == BSON_BYTE_DOCUMENT && index_unfit(matching, index.value))
			return;
}

/* ---- what would lose documents of an overflow, or refuse them ---- */

#define WOULD_LOSE "it holds the tails of arrays, which would be lost"
#define WOULD_REFUSE "it holds the tails of arrays, which could be refused there"

struct loss {
	const char *option; /* NULL: there is none */
	const char *why;
};

/* The unique index that every overflow has to have may be made by anybody. */
static bool is_needed(const struct rule *rule, struct bytes index)
{
	return (judge_is_batch_index(rule, index) && judge_orders_overflow(rule, index)) ||
	       judge_is_place_index(rule, index);
}

static struct loss loss_by_index(const struct rule *rule, struct bytes index)
{
	struct element option;

	if (document_find(index, "expireAfterSeconds", &option))
		return (struct loss){"expireAfterSeconds", WOULD_LOSE};
	if (judge_is_unique(index) && !is_needed(rule, index))
		return (struct loss){"unique", WOULD_REFUSE};
	return (struct loss){0};
}

static struct loss loss_by_indexes(const struct rule *rule, const struct element *indexes)
{
	struct cursor cursor;
	struct element index;
	struct loss found = {0};

	if (indexes->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, indexes->value))
		return found;
	while (!found.option && cursor_next(&cursor, &index) == CURSOR_ELEMENT)
		if (index.type == BSON_BYTE_DOCUMENT)
			found = loss_by_index(rule, index.value);
	return found;
}

/* An option by which mongod would remove tails, or keep none. */
static struct loss loss_by_options(struct bytes body)
{
	static const char *const options[] = {"capped", "expireAfterSeconds", "timeseries",
					      "viewOn"};
	struct element option;

	for (size_t i = 0; i < ARRAY_LENGTH(options); i++)
		if (document_find(body, options[i], &option) &&
		    (option.type != BSON_BYTE_BOOL || element_truth(&option)))
			return (struct loss){options[i], WOULD_LOSE};
	return (struct loss){0};
}

bool match_refuse_loss(const struct matching *matching)
{
	const struct command *command = matching->command;
	struct bytes name = command->first.name, collection = command->collection;
	bool indexes = command->kind == COMMAND_CREATE_INDEXES;
	struct match *match = matching->match;
	const struct rule *rule;
	struct loss loss;
	char what[320];

	if (!indexes && command->kind != COMMAND_CREATE)
		return false;
	rule = rule_set_overflow(matching->rules, matching->database, collection);
	if (!rule)
		return false;
	loss = indexes ? loss_by_indexes(rule, &command->fields[FIELD_INDEXES])
		       : loss_by_options(command->body);
	if (!loss.option)
		return false;
	snprintf(what, sizeof(what), "%.*s with %s on the overflow collection '%.*s.%.*s'",
		 (int)name.length, (const char *)name.data, loss.option,
		 (int)matching->database.length, (const char *)matching->database.data,
		 (int)collection.length, (const char *)collection.data);
	match_refuse(match, rule, what, loss.why);
	snprintf(match->refusal.what, sizeof(match->refusal.what), "%.*s with %s", (int)name.length,
		 (const char *)name.data, loss.option);
	return true;
}

void match_refuse_validator(struct match *match, const struct rule *rule, const char *what,
			    const struct unfit *why)
{
	char words[480];

	snprintf(words, sizeof(words), "%s%s", why->reason,
		 why->code == UNFIT_VALIDATOR_ARRAY
			 ? "; ask no more than that it is there and is an array, and check "
			   "elements in the application, or by validationAction: 'warn'"
			 : "");
	match_refuse(match, rule, what, words);
}

/* Until the namespace is judged anew, writes would pass it as if it saw whole arrays. */
static void refuse_validator(const struct matching *matching)
{
	const struct ruled_namespace *namespace = matching->match->namespace;
	struct bytes name = matching->command->first.name;
	char what[16];
	struct unfit why;

	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;

		if (judge_validator(rule, matching->command->body, &why))
			continue;
		snprintf(what, sizeof(what), "%.*s", (int)name.length, (const char *)name.data);
		match_refuse_validator(matching->match, rule, what, &why);
		return;
	}
}

/* What collMod makes of an index that is there; it is named by its name or its keys. */
static void refuse_new_options(const struct matching *matching)
{
	struct match *match = matching->match;
	struct element index, named;

	if (!document_find(matching->command->body, "index", &index) ||
	    index.type != BSON_BYTE_DOCUMENT ||
	    (!document_find(index.value, "name", &named) &&
	     !document_find(index.value, "keyPattern", &named)))
		return;
	if (match_judge_index(match, &named, match_index_reads_array) == INDEX_MEANT_SO)
		refuse_index(match, match->namespace->targets[0].rule, index.value, false);
}

void match_coll_mod(const struct matching *matching)
{
	match_watch(matching);
	refuse_new_options(matching);
	if (matching->match->verdict != VERDICT_REFUSE)
		refuse_validator(matching);
}

void match_create(const struct matching *matching)
{
	const struct command *command = matching->command;
	const struct rule *rule = matching->match->namespace->targets[0].rule;

	match_watch(matching);
	if (command_has(command, FIELD_VIEW_ON))
		match_refuse(matching->match, rule, "create as a view",
			     "a rule needs a collection");
	else if (command_has(command, FIELD_TIME_SERIES))
		match_refuse(matching->match, rule, "create as time series",
			     "a rule needs an ordinary collection");
	else if (command_has(command, FIELD_CAPPED) &&
		 element_truth(&command->fields[FIELD_CAPPED]))
		match_refuse(matching->match, rule, "create as capped",
			     "a rule needs an ordinary collection");
	else
		refuse_validator(matching);
}

/* Which indexes a name or `*` means only the server knows. */
void match_drop_indexes(const struct matching *matching)
{
	match_watch(matching);
	matching->match->tending = MOVER_TEND_INDEXES;
}

void match_drop(const struct matching *matching)
{
	match_watch(matching);
	matching->match->tending = MOVER_TEND_GONE;
}

/* ---- renameCollection ---- */

static bool same_rules(const struct ruled_namespace *one, const struct ruled_namespace *other)
{
	if (!one || !other || one->target_count != other->target_count)
		return false;
	for (size_t i = 0; i < one->target_count; i++)
		if (one->targets[i].rule != other->targets[i].rule)
			return false;
	return true;
}

static const struct ruled_namespace *rename_end(const struct matching *matching,
						struct bytes full_name)
{
	struct bytes database, collection;

	if (matching->match->verdict == VERDICT_REFUSE ||
	    !name_split(full_name, &database, &collection) ||
	    match_refuse_overflow(matching, database, collection))
		return NULL;
	return match_find_namespace(matching, database, collection);
}

/* A collection may take a ruled name, or go from one name to another under the same rules. Whether
 * parts of its documents are elsewhere the sequence asks, which is why a rule may not be left: a
 * tail could still move in between, and nobody would know of it any more. */
void match_rename(const struct matching *matching)
{
	const struct command *command = matching->command;
	struct match *match = matching->match;
	const struct ruled_namespace *from, *onto;
	struct bytes to, database, collection;

	if (!command_has(command, FIELD_TO) || !element_string(&command->fields[FIELD_TO], &to))
		return;
	from = rename_end(matching, command->collection);
	onto = rename_end(matching, to);
	if (match_refuse_read_only(matching, from, "renameCollection") ||
	    match_refuse_read_only(matching, onto, "renameCollection"))
		return;
	if (match->verdict == VERDICT_REFUSE || (!from && !onto))
		return;
	if (!name_split(command->collection, &database, &collection) || database.length == 0 ||
	    collection.length == 0)
		return; /* mongod renames nothing by half a name */
	match->namespace = from ? from : onto;
	if (command->duplicate) {
		match_refuse_broken(match, "renameCollection");
		return;
	}
	if (bytes_equal(command->collection, to))
		return; /* mongod renames nothing to itself */
	if (from && !same_rules(from, onto)) {
		match_refuse(match, from->targets[0].rule, "renameCollection",
			     "the new name is not under the same rules, so that parts of arrays "
			     "could be left behind");
		return;
	}
	match_watch(matching);
	match->onto = onto;
	match->tending = MOVER_TEND_GONE;
}

bool match_refuse_ends(const struct matching *matching, struct bytes document, const char *from,
		       const char *to, const char *what)
{
	const char *const ends[] = {from, to};
	struct element end;
	struct bytes full_name;

	for (size_t i = 0; i < ARRAY_LENGTH(ends); i++)
		if (document_find(document, ends[i], &end) && element_string(&end, &full_name) &&
		    match_refuse_full_name(matching, full_name, what))
			return true;
	return false;
}

/* ---- views ---- */

/* A view is read as an aggregate of its pipeline: it may be where that one may run as it is. */
static const struct rule *short_rule(const struct matching *matching, struct bytes source)
{
	struct match *match = matching->match;

	if (match_refuse_short_view(matching, matching->database, source))
		return rule_set_short_view(matching->rules, matching->database, source);
	match_aggregate(matching, match_find_namespace(matching, matching->database, source));
	if (match->verdict == VERDICT_FORWARD)
		return NULL;
	return match->namespace ? match->namespace->targets[0].rule
				: rule_set_at(matching->rules, 0);
}

/* mongod keeps the view's source then, or its pipeline, which a client's command doesn't tell. */
static bool refuse_half(const struct matching *matching)
{
	const struct command *command = matching->command;
	bool source = command->fields[FIELD_VIEW_ON].type == BSON_BYTE_STRING;
	bool pipeline = command->fields[FIELD_PIPELINE].type == BSON_BYTE_ARRAY;

	if (source == pipeline || command->kind != COMMAND_COLL_MOD ||
	    !rule_set_in_database(matching->rules, matching->database))
		return false;
	match_refuse(matching->match, rule_set_at(matching->rules, 0),
		     "collMod of a view with half of what it is",
		     "whether it shows ruled arrays can't be told; give viewOn and pipeline");
	return true;
}

const struct rule *match_view(struct namespace_cache *cache, struct bytes database,
			      struct bytes source, struct bytes pipeline)
{
	auto_buffer struct buffer body = {0};
	size_t start = writer_open(&body);
	struct match match = {.verdict = VERDICT_FORWARD, .refusal.rule = ""};
	struct matching matching = {.cache = cache,
				    .rules = namespace_cache_rules(cache),
				    .command = &match.command,
				    .database = database,
				    .match = &match};

	writer_text(&body, "aggregate", source);
	writer_array(&body, "pipeline", pipeline);
	writer_close(&body, start);
	if (!command_parse(buffer_view(&body), &match.command))
		return rule_set_at(matching.rules, 0);
	return short_rule(&matching, source);
}

bool match_refuse_view(const struct matching *matching)
{
	static const uint8_t none[] = {5, 0, 0, 0, 0};
	const struct command *command = matching->command;
	const struct element *pipeline = &command->fields[FIELD_PIPELINE];
	struct bytes stages = {none, sizeof(none)}, source;
	const struct rule *rule;

	if (refuse_half(matching))
		return true;
	if (!command_has(command, FIELD_VIEW_ON) ||
	    !element_string(&command->fields[FIELD_VIEW_ON], &source))
		return false;
	if (pipeline->type == BSON_BYTE_ARRAY)
		stages = pipeline->value;
	rule = match_view(matching->cache, matching->database, source, stages);
	if (!rule)
		return false;
	match_refuse(matching->match, rule, "a view",
		     "it would read or return the ruled array, of which it sees a part only; let "
		     "it begin with a $project of other fields");
	return true;
}
