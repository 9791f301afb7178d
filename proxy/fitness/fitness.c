/* Checks on the server whether a rule can hold on a namespace, and makes the overflow's indexes. */
#include "proxy/fitness/fitness.h"

#include "proxy/fitness/index_judge.h"
#include "proxy/base/log.h"
#include "proxy/fitness/mirror.h"
#include "proxy/upstream/clauses.h"
#include "proxy/upstream/overflow_index.h"
#include "proxy/ownership/rule_owner.h"
#include "proxy/ownership/rule_record.h"
#include "proxy/spill/twins.h"
#include "rules/match/fitness_judge.h"
#include "rules/rule/known_indexes.h"
#include "rules/rule/overflow_document.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

#define NAMESPACE_NOT_FOUND 26
#define INDEX_NOT_FOUND 27
#define INDEX_OPTIONS_CONFLICT 85
#define INDEX_KEY_SPECS_CONFLICT 86
#define PLAIN_INDEX "spillway_not_unique" /* beside which the unique one can be made */
#define WIRE_VERSION_6_0 17               /* from it on commands can name a collection's UUID */

/* One check under way. Documents of a reply are judged as they come; the first reason stands. */
struct checking {
	struct link *link;
	struct mover_target *target;
	bool overflow; /* what is looked at: the main collection or the overflow */
	bool fit;
	bool recorded;     /* what is recorded stands in the way: the reason says what to do */
	char *batch_index; /* the name of the unique index that is there; NULL: none */
	uint64_t uuid[2];  /* the overflow's */
	bool rights;       /* what is missing are rights of the account */
	bool apart;        /* its places are unique by an index of their own */
	bool plans;        /* nothing is made or recorded */
	bool main_there;   /* the main collection exists */
	bool there;        /* so does the overflow */
	bool absent;       /* neither does, under a pattern: nothing is made before one does */
	struct overflow_index order; /* what the overflow is walked by */
	uint64_t served;             /* the rule's own indexes that are there, by place */
	char reason[600];
};

static const char *database_of(const struct checking *checking)
{
	return checking->overflow ? checking->target->overflow_database
				  : checking->target->database;
}

static const char *collection_of(const struct checking *checking)
{
	return checking->overflow ? checking->target->overflow_collection
				  : checking->target->collection;
}

static struct bytes view_of(const bson_t *document)
{
	return (struct bytes){bson_get_data(document), document->len};
}

/* A refusal is the end of the check: with the server's own words. */
static enum link_result refused(struct checking *checking, enum link_result result,
				const char *what)
{
	const struct link_error *error = link_error(checking->link);

	if (result != LINK_REFUSED || !checking->fit)
		return result;
	if (link_error_passes(error))
		return LINK_LOST;
	checking->fit = false;
	checking->rights = error->code == ERROR_UNAUTHORIZED;
	if (checking->rights)
		snprintf(checking->reason, sizeof(checking->reason),
			 "the upstream account may not %s it", what);
	else
		snprintf(checking->reason, sizeof(checking->reason), "can't %.50s it: %.240s", what,
			 error->message);
	return LINK_DONE;
}

static void keep_uuid(struct checking *checking, struct bytes entry)
{
	struct element element;

	if (document_find_path(entry, "info.uuid", &element) && element.type == BSON_BYTE_BINARY &&
	    element.value.length == 4 + 1 + 16)
		memcpy(checking->uuid, element.value.data + 5, 16);
}

static void judge_collection(void *context, struct bytes entry)
{
	struct checking *checking = context;

	*(checking->overflow ? &checking->there : &checking->main_there) = true;
	if (!checking->fit)
		return;
	if (checking->overflow)
		keep_uuid(checking, entry);
	checking->fit = checking->overflow
				? judge_overflow_collection(entry, checking->reason,
							    sizeof(checking->reason))
				: judge_main_collection(checking->target->rule, entry,
							checking->reason, sizeof(checking->reason));
}

static enum link_result look_at_collection(struct checking *checking)
{
	bson_t *command = BCON_NEW("listCollections", BCON_INT32(1), "filter", "{", "name", "{",
				   "$eq", BCON_UTF8(collection_of(checking)), "}", "}");
	enum link_result result = link_find(checking->link, database_of(checking), view_of(command),
					    judge_collection, checking);

	bson_destroy(command);
	return refused(checking, result, "list");
}

static void keep_name(struct checking *checking, struct bytes index)
{
	struct element element;
	struct bytes name;

	free(checking->batch_index);
	checking->batch_index = NULL;
	if (document_find(index, "name", &element) && element_string(&element, &name))
		checking->batch_index = must_strndup((const char *)name.data, name.length);
}

/* Where a plan makes no index: would another be in its way? */
static void judge_room(struct checking *checking, struct bytes index)
{
	const struct rule *rule = checking->target->rule;

	if (rule->overflow.layout != RULE_BATCHES || !judge_index_blocks(rule, index))
		return;
	checking->fit = false;
	snprintf(checking->reason, sizeof(checking->reason),
		 "an index stands where the unique one of link and batch has to be");
}

static void judge_index(void *context, struct bytes index)
{
	struct checking *checking = context;
	const struct rule *rule = checking->target->rule;

	if (!checking->fit)
		return;
	if (checking->overflow && judge_is_batch_index(rule, index))
		keep_name(checking, index);
	checking->apart |= checking->overflow && judge_is_place_index(rule, index);
	if (checking->overflow) {
		overflow_index_take(&checking->order, rule, index);
		checking->served |= judge_rule_indexes(rule, index);
	}
	checking->fit = checking->overflow ? judge_overflow_index(rule, index, checking->reason,
								  sizeof(checking->reason))
					   : judge_main_index(rule, index, checking->reason,
							      sizeof(checking->reason));
	if (checking->fit && checking->plans && checking->overflow)
		judge_room(checking, index);
}

static enum link_result look_at_indexes(struct checking *checking)
{
	bson_t *command = BCON_NEW("listIndexes", BCON_UTF8(collection_of(checking)));
	enum link_result result;

	result = link_find(checking->link, database_of(checking), view_of(command), judge_index,
			   checking);
	bson_destroy(command);
	if (result == LINK_REFUSED && link_error(checking->link)->code == NAMESPACE_NOT_FOUND)
		return LINK_DONE;
	return refused(checking, result, "list the indexes of");
}

static enum link_result run_here(struct checking *checking, bson_t *command, const char *what)
{
	enum link_result result = link_run(checking->link, database_of(checking), view_of(command));

	bson_destroy(command);
	return refused(checking, result, what);
}

/* What an index of the overflow's is to be: {<first>: 1, <second>: 1}. */
struct making {
	const char *first, *second;
	const char *name; /* NULL: as mongosh would call it */
	bool unique;
	bool places; /* of documents that have a place */
};

static void write_index(struct buffer *out, const char *at, const struct making *making)
{
	auto_free char *name = bson_strdup_printf("%s_1_%s_1", making->first, making->second);
	size_t index = writer_open_document(out, at), part, condition;

	part = writer_open_document(out, "key");
	writer_int32(out, making->first, 1);
	writer_int32(out, making->second, 1);
	writer_close(out, part);
	writer_string(out, "name", making->name ? making->name : name);
	if (making->unique)
		writer_bool(out, "unique", true);
	if (making->places) {
		part = writer_open_document(out, "partialFilterExpression");
		condition = writer_open_document(out, making->first);
		writer_bool(out, "$exists", true);
		writer_close(out, condition);
		writer_close(out, part);
	}
	writer_close(out, index);
}

static enum link_result run_making(struct checking *checking, const struct making *makings,
				   size_t count)
{
	auto_buffer struct buffer command = {0};
	size_t start = writer_open(&command), indexes;
	char name[12];

	writer_string(&command, "createIndexes", collection_of(checking));
	indexes = writer_open_array(&command, "indexes");
	for (size_t i = 0; i < count; i++)
		write_index(&command, writer_index(name, i), &makings[i]);
	writer_close(&command, indexes);
	command_write_concern(&command, checking->link);
	writer_close(&command, start);
	return link_run(checking->link, database_of(checking), buffer_view(&command));
}

/* Documents of one element each that were made by hand have no place: to a unique index of all
 * documents they are all the same. Then those with a place have one of their own, and what finds
 * them by their links has one that is not unique. */
static enum link_result make_place_indexes(struct checking *checking)
{
	const char *link = checking->target->rule->overflow.link;
	const char *place = overflow_order_path(checking->target->rule);
	const struct making makings[] = {
		{.first = link, .second = place},
		{.first = place, .second = link, .unique = true, .places = true},
	};

	checking->apart = true;
	return run_making(checking, makings, ARRAY_LENGTH(makings));
}

static void refuse_twins(struct checking *checking)
{
	checking->fit = false;
	snprintf(checking->reason, sizeof(checking->reason),
		 "two of its documents have one link and one batch number, or none: the unique "
		 "index of link and batch can't be made");
}

static bool stands_in_the_way(const struct link_error *error)
{
	return error->code == ERROR_DUPLICATE_KEY || error->code == INDEX_OPTIONS_CONFLICT ||
	       error->code == INDEX_KEY_SPECS_CONFLICT;
}

/* Documents of Spillway's own that the unique index does not allow: nothing is lost by them, so
 * they are found by an index that is not unique until the sweep has stored them anew. What others
 * have split must have a number each. */
static enum link_result make_plain_index(struct checking *checking)
{
	struct mover_target *target = checking->target;
	const struct making making = {.first = target->rule->overflow.link,
				      .second = overflow_order_path(target->rule),
				      .name = PLAIN_INDEX};
	auto_buffer struct buffer foreign = {0};
	enum link_result result = LINK_DONE;

	/* Documents of one element that others have made need no place. */
	if (target->rule->overflow.layout == RULE_BATCHES)
		result = twins_find(checking->link, target, true, 1, &foreign);
	if (foreign.length > 0) {
		refuse_twins(checking);
		return LINK_DONE;
	}
	if (result == LINK_DONE && !checking->order.name)
		result = run_making(checking, &making, 1);
	if (result == LINK_DONE && !atomic_exchange(&target->twins, true))
		log_warning("mover: '%s.%s': the unique index of link and batch number is missing, "
			    "and documents have one number twice; they are stored anew, then the "
			    "index is made",
			    target->overflow_database, target->overflow_collection);
	return result;
}

static bool has_twins(const struct checking *checking)
{
	return link_error(checking->link)->code == ERROR_DUPLICATE_KEY;
}

/* Also where the index is there: another's that a crash or a new primary could take back is
 * acknowledged by this, too. */
static enum link_result make_batch_index(struct checking *checking)
{
	const struct rule *rule = checking->target->rule;
	const struct making making = {.first = rule->overflow.link,
				      .second = overflow_order_path(rule),
				      .name = checking->batch_index,
				      .unique = true};
	enum link_result result = LINK_REFUSED;
	bool twins = false;

	if (atomic_load(&checking->target->twins) && !checking->batch_index && checking->order.name)
		return LINK_DONE;
	if (!checking->apart || checking->batch_index)
		result = run_making(checking, &making, 1);
	twins = result == LINK_REFUSED && has_twins(checking);
	if (result == LINK_REFUSED && rule->overflow.layout == RULE_ELEMENTS &&
	    (checking->apart || stands_in_the_way(link_error(checking->link))))
		result = make_place_indexes(checking);
	if (result == LINK_REFUSED && (twins || has_twins(checking)))
		result = make_plain_index(checking);
	return refused(checking, result, "make the unique index of link and batch on");
}

/* What stands there under its name, or with other options, costs time, no more. */
static enum link_result make_index(struct checking *checking, struct bytes keys)
{
	enum link_result result;
	auto_buffer struct buffer command = {0};
	size_t start = writer_open(&command), indexes, index;
	char name[1024];

	judge_index_name(keys, name, sizeof(name));
	writer_string(&command, "createIndexes", collection_of(checking));
	indexes = writer_open_array(&command, "indexes");
	index = writer_open_document(&command, "0");
	writer_document(&command, "key", keys);
	writer_string(&command, "name", name);
	writer_close(&command, index);
	writer_close(&command, indexes);
	command_write_concern(&command, checking->link);
	writer_close(&command, start);
	result = link_run(checking->link, database_of(checking), buffer_view(&command));
	if (result != LINK_REFUSED || !stands_in_the_way(link_error(checking->link)))
		return refused(checking, result, "make an index of the rule on");
	if (!atomic_exchange(&checking->target->index_told, true))
		log_warning("mover: '%s.%s': an index of the rule could not be made: %s",
			    database_of(checking), collection_of(checking),
			    link_error(checking->link)->message);
	return LINK_DONE;
}

static enum link_result make_rule_indexes(struct checking *checking)
{
	struct bytes wanted = checking->target->rule->overflow.indexes, index;
	struct cursor cursor;
	struct element element, keys;
	enum link_result result = LINK_DONE;
	uint64_t bit = 1;

	if (wanted.length == 0)
		return LINK_DONE;
	require(cursor_open(&cursor, wanted));
	for (; result == LINK_DONE && cursor_next(&cursor, &element) == CURSOR_ELEMENT; bit <<= 1)
		if (element_document(&element, &index) && document_find(index, "keys", &keys) &&
		    !(checking->served & bit) &&
		    !overflow_is_unique_key(checking->target->rule, keys.value))
			result = make_index(checking, keys.value);
	return result;
}

/* With a document that no server takes. */
static enum link_result try_insert(struct checking *checking)
{
	bson_t *command = BCON_NEW("insert", BCON_UTF8(collection_of(checking)), "documents", "[",
				   "{", "_id", "[", "]", "}", "]");
	enum link_result result = link_run(checking->link, database_of(checking), view_of(command));

	bson_destroy(command);
	if (result == LINK_REFUSED && link_error(checking->link)->code != ERROR_UNAUTHORIZED)
		return LINK_DONE;
	return refused(checking, result, "insert into");
}

/* Asks for each right by a command that changes nothing: rights are checked before anything else.
 */
static enum link_result try_rights(struct checking *checking)
{
	const char *collection = collection_of(checking);
	enum link_result result = run_here(checking,
					   BCON_NEW("find", BCON_UTF8(collection), "filter", "{",
						    "_id", "{", "$in", "[", "]", "}", "}"),
					   "read");
	if (checking->target->read_only)
		return result;
	if (result == LINK_DONE)
		result = run_here(checking,
				  BCON_NEW("update", BCON_UTF8(collection), "updates", "[", "{",
					   "q", "{", "_id", "{", "$in", "[", "]", "}", "}", "u",
					   "{", "$unset", "{", "_spill", BCON_UTF8(""), "}", "}",
					   "}", "]"),
				  "update");
	if (result != LINK_DONE || !checking->overflow)
		return result;
	result = run_here(checking,
			  BCON_NEW("delete", BCON_UTF8(collection), "deletes", "[", "{", "q", "{",
				   "_id", "{", "$in", "[", "]", "}", "}", "limit", BCON_INT32(0),
				   "}", "]"),
			  "delete from");
	if (result != LINK_DONE || !checking->fit)
		return result;
	return try_insert(checking);
}

static enum link_result check_main(struct checking *checking, enum fitness_extent extent)
{
	enum link_result result = look_at_collection(checking);

	if (result == LINK_DONE && checking->fit)
		result = look_at_indexes(checking);
	if (result == LINK_DONE && checking->fit && extent != FITNESS_OF_MAIN)
		result = try_rights(checking);
	return result;
}

/* Of the collection that has the indexes now. */
static enum link_result note_uuid(struct checking *checking)
{
	struct element version;
	int64_t wire = 0;
	enum link_result result = LINK_DONE;

	if (!checking->uuid[0] && !checking->uuid[1])
		result = look_at_collection(checking); /* it was made just now */
	if (!document_find(link_hello(checking->link), "maxWireVersion", &version) ||
	    !element_integer(&version, &wire) || wire < WIRE_VERSION_6_0)
		memset(checking->uuid, 0, sizeof(checking->uuid));
	for (size_t i = 0; i < 2; i++)
		atomic_store(&checking->target->overflow_uuid[i], checking->uuid[i]);
	return result;
}

static enum link_result make_indexes(struct checking *checking)
{
	enum link_result result = make_batch_index(checking);

	if (result == LINK_DONE && checking->fit)
		result = note_uuid(checking);
	if (result == LINK_DONE && checking->fit)
		result = make_rule_indexes(checking);
	return result;
}

/* What would keep the rule from being served: one number of a link twice, by another's hand. */
static enum link_result look_for_twins(struct checking *checking)
{
	auto_buffer struct buffer found = {0};
	enum link_result result = twins_find(checking->link, checking->target, true, 1, &found);

	if (result == LINK_DONE && found.length > 0)
		refuse_twins(checking);
	return refused(checking, result, "read");
}

static enum link_result make_or_plan_indexes(struct checking *checking)
{
	if (!checking->plans)
		return make_indexes(checking);
	/* Documents of one element have no places that could be one, but by Spillway. */
	if (checking->batch_index || checking->target->rule->overflow.layout == RULE_ELEMENTS)
		return LINK_DONE;
	return look_for_twins(checking);
}

/* All goes on, but slowly, and what is done by walks is not done. */
static void warn_of_hidden(struct checking *checking)
{
	struct mover_target *target = checking->target;
	char reason[500];

	if (!overflow_index_is_hidden(&checking->order) ||
	    atomic_exchange(&target->index_told, true))
		return;
	overflow_index_explain(&checking->order, target->rule, reason, sizeof(reason));
	log_warning("mover: '%s.%s': %s", target->overflow_database, target->overflow_collection,
		    reason);
}

/* A pattern matches names that nobody uses: whoever asks for one of them may not have databases
 * made. */
static bool is_absent(const struct checking *checking)
{
	return rule_is_pattern(checking->target->rule) && !checking->main_there && !checking->there;
}

static enum link_result check_overflow(struct checking *checking)
{
	enum link_result result = look_at_collection(checking);

	checking->absent = result == LINK_DONE && checking->fit && is_absent(checking);
	if (checking->absent)
		return result;
	if (result == LINK_DONE && checking->fit)
		result = look_at_indexes(checking);
	warn_of_hidden(checking);
	if (result == LINK_DONE && checking->fit && !checking->target->read_only)
		result = make_or_plan_indexes(checking);
	if (result == LINK_DONE && checking->fit)
		result = try_rights(checking);
	return result;
}

static void write_remedy(const struct checking *checking, char *remedy, size_t size)
{
	if (checking->recorded)
		remedy[0] = '\0';
	else if (checking->rights)
		snprintf(remedy, size,
			 "; give it the role readWrite on the database '%.64s', or name another "
			 "account (upstream.uri)",
			 database_of(checking));
	else
		snprintf(remedy, size, "; change that, or take the rule out of the file");
}

static void judge(struct target_set *set, struct mover_target *target,
		  const struct checking *checking)
{
	char reason[sizeof(target->reason)], remedy[200];

	if (checking->fit) {
		target_judge(set, target, FITNESS_FIT, "");
		return;
	}
	write_remedy(checking, remedy, sizeof(remedy));
	snprintf(reason, sizeof(reason), "rule '%.60s' can't hold on '%.64s.%.200s': %.*s%s",
		 target->rule->name, database_of(checking), collection_of(checking),
		 checking->recorded ? 550 : 300, checking->reason, remedy);
	target_judge(set, target, FITNESS_UNFIT, reason);
}

/* Before anything is made: what is spilled may be so under another layout, and elsewhere. */
static enum link_result ask_record(struct checking *checking)
{
	enum rule_record compared;
	enum link_result result = rule_record_compare(checking->link, checking->target, &compared,
						      checking->reason, sizeof(checking->reason));

	checking->fit = result != LINK_DONE || !checking->reason[0];
	checking->recorded = !checking->fit;
	return result;
}

/* Or records that it is this rule's. */
static enum link_result ask_owner(struct checking *checking)
{
	size_t size = sizeof(checking->reason);
	enum link_result result =
		checking->plans
			? rule_owner_ask(checking->link, checking->target, checking->reason, size)
			: rule_owner_hold(checking->link, checking->target, checking->reason, size);

	checking->fit = !checking->reason[0];
	checking->recorded = !checking->fit;
	checking->overflow = false;
	return result;
}

must_check enum link_result fitness_check(struct link *link, struct target_set *set,
					  struct mover_target *target, enum fitness_extent extent)
{
	struct checking checking = {
		.link = link, .target = target, .fit = true, .plans = extent == FITNESS_OF_PLAN};
	enum link_result result = check_main(&checking, extent);

	if (result == LINK_DONE && checking.fit && extent != FITNESS_OF_MAIN)
		result = ask_record(&checking);
	if (result == LINK_DONE && checking.fit && extent != FITNESS_OF_MAIN) {
		checking.overflow = true;
		result = check_overflow(&checking);
	}
	if (result == LINK_DONE && checking.fit && !checking.absent && extent != FITNESS_OF_MAIN)
		result = ask_owner(&checking);
	free(checking.batch_index);
	overflow_index_fini(&checking.order);
	if (result == LINK_LOST)
		return result;
	if (checking.absent && extent == FITNESS_OF_BOTH) {
		target_judge(set, target, FITNESS_UNKNOWN, "");
		return LINK_DONE;
	}
	if (extent == FITNESS_OF_BOTH)
		atomic_store(&target->judged_on, link_process(link));
	judge(set, target, &checking);
	return LINK_DONE;
}

/* Mirrors. */

struct mirroring {
	struct link *link;
	struct mover_target *target;
	struct buffer wanted; /* an array of indexes: those of the main collection over the array */
	struct buffer there;  /* an array of indexes: the overflow's */
	struct buffer main;   /* an array of indexes: the main collection's */
	size_t wanted_count, there_count, main_count;
};

static void take_main_index(void *context, struct bytes index)
{
	struct mirroring *mirroring = context;
	char name[12];

	writer_document(&mirroring->main, writer_index(name, mirroring->main_count++), index);
	if (mirror_write(mirroring->target->rule, index,
			 writer_index(name, mirroring->wanted_count), &mirroring->wanted))
		mirroring->wanted_count++;
}

static void take_overflow_index(void *context, struct bytes index)
{
	struct mirroring *mirroring = context;
	char name[12];

	writer_document(&mirroring->there, writer_index(name, mirroring->there_count++), index);
}

static enum link_result list_indexes(struct link *link, const char *database,
				     const char *collection, link_document take,
				     struct mirroring *mirroring)
{
	bson_t *command = BCON_NEW("listIndexes", BCON_UTF8(collection));
	enum link_result result = link_find(link, database, view_of(command), take, mirroring);

	bson_destroy(command);
	if (result == LINK_REFUSED && link_error(link)->code == NAMESPACE_NOT_FOUND)
		return LINK_DONE;
	return result;
}

/* Whether an index like this one is among these. */
static bool holds_like(const struct buffer *indexes, struct bytes index)
{
	struct cursor cursor;
	struct element each;

	require(cursor_open(&cursor, buffer_view(indexes)));
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
		if (mirror_same(each.value, index))
			return true;
	return false;
}

static enum link_result mirror_run(struct mirroring *mirroring, struct buffer *command,
				   size_t start, struct bytes index)
{
	struct mover_target *target = mirroring->target;
	struct bytes name = mirror_name(index);
	enum link_result result;

	command_write_concern(command, mirroring->link);
	writer_close(command, start);
	result = link_run(mirroring->link, target->overflow_database, buffer_view(command));
	if (result == LINK_REFUSED && link_error(mirroring->link)->code != INDEX_NOT_FOUND)
		log_warning("mover: '%s.%s': the index '%.*s' could not be made or dropped: %s",
			    target->overflow_database, target->overflow_collection,
			    (int)name.length, (const char *)name.data,
			    link_error(mirroring->link)->message);
	return result == LINK_LOST ? LINK_LOST : LINK_DONE;
}

static enum link_result drop_mirror(struct mirroring *mirroring, struct bytes index)
{
	auto_buffer struct buffer command = {0};
	size_t start = writer_open(&command);

	writer_string(&command, "dropIndexes", mirroring->target->overflow_collection);
	writer_text(&command, "index", mirror_name(index));
	return mirror_run(mirroring, &command, start, index);
}

static enum link_result make_mirror(struct mirroring *mirroring, struct bytes index)
{
	auto_buffer struct buffer command = {0};
	size_t start = writer_open(&command), indexes;

	writer_string(&command, "createIndexes", mirroring->target->overflow_collection);
	indexes = writer_open_array(&command, "indexes");
	writer_document(&command, "0", index);
	writer_close(&command, indexes);
	return mirror_run(mirroring, &command, start, index);
}

/* Tells what the overflow has now: the likes, and what others made there. One that could not be
 * made costs time where it is believed in, no more. */
static void tell(struct mirroring *mirroring)
{
	auto_buffer struct buffer now = {0};
	size_t list = writer_open(&now), count = 0;
	bool read_only = mirroring->target->read_only; /* then it has those that it had */
	struct cursor cursor;
	struct element index;
	char name[12];

	require(cursor_open(&cursor, buffer_view(&mirroring->wanted)));
	while (!read_only && cursor_next(&cursor, &index) == CURSOR_ELEMENT)
		writer_document(&now, writer_index(name, count++), index.value);
	require(cursor_open(&cursor, buffer_view(&mirroring->there)));
	while (cursor_next(&cursor, &index) == CURSOR_ELEMENT)
		if (read_only || !mirror_is_ours(index.value))
			writer_document(&now, writer_index(name, count++), index.value);
	writer_close(&now, list);
	known_indexes_take(mirroring->target->overflow_indexes, buffer_view(&now));
}

/* First what is too many, whose names may be wanted again. */
static enum link_result drop_others(struct mirroring *mirroring)
{
	enum link_result result = LINK_DONE;
	struct cursor cursor;
	struct element index;

	require(cursor_open(&cursor, buffer_view(&mirroring->there)));
	while (result == LINK_DONE && cursor_next(&cursor, &index) == CURSOR_ELEMENT)
		if (mirror_is_ours(index.value) && !holds_like(&mirroring->wanted, index.value))
			result = drop_mirror(mirroring, index.value);
	return result;
}

static enum link_result make_missing(struct mirroring *mirroring)
{
	enum link_result result = LINK_DONE;
	struct cursor cursor;
	struct element index;

	require(cursor_open(&cursor, buffer_view(&mirroring->wanted)));
	while (result == LINK_DONE && cursor_next(&cursor, &index) == CURSOR_ELEMENT)
		if (!holds_like(&mirroring->there, index.value))
			result = make_mirror(mirroring, index.value);
	return result;
}

must_check enum link_result fitness_mirror(struct link *link, struct mover_target *target)
{
	struct mirroring mirroring = {.link = link, .target = target};
	size_t wanted = writer_open(&mirroring.wanted), there = writer_open(&mirroring.there);
	size_t main = writer_open(&mirroring.main);
	/* The overflow's first: what another Spillway makes there its main collection has already.
	 */
	enum link_result result =
		list_indexes(link, target->overflow_database, target->overflow_collection,
			     take_overflow_index, &mirroring);

	if (result == LINK_DONE)
		result = list_indexes(link, target->database, target->collection, take_main_index,
				      &mirroring);
	writer_close(&mirroring.wanted, wanted);
	writer_close(&mirroring.there, there);
	writer_close(&mirroring.main, main);
	if (result == LINK_DONE)
		known_indexes_take(target->indexes, buffer_view(&mirroring.main));
	if (result == LINK_DONE && !target->read_only)
		result = drop_others(&mirroring);
	if (result == LINK_DONE && !target->read_only)
		result = make_missing(&mirroring);
	if (result == LINK_DONE)
		tell(&mirroring);
	buffer_fini(&mirroring.wanted);
	buffer_fini(&mirroring.there);
	buffer_fini(&mirroring.main);
	return result;
}
