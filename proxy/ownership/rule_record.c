/* The records of `spillway.rules`: read, compared, written, removed. */
#include "proxy/ownership/rule_record.h"

#include "proxy/base/log.h"
#include "proxy/upstream/clauses.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

void rule_record_warn_of_rights(struct link *link)
{
	static atomic_bool warned;

	if (!atomic_exchange(&warned, true))
		log_warning("what rules move is not recorded, so that a rule that is taken away is "
			    "not missed, overflow of documents that are gone is not collected, and "
			    "after a start nothing is moved where the overflow holds but what an "
			    "older version left there: give the upstream account the role "
			    "readWrite on the database '%s' (%s)",
			    RULE_RECORD_DATABASE, link_error(link)->message);
}

/* Hands the record over, which is a view until the link's next command. */
static enum link_result find_record(struct link *link, const struct mover_target *target,
				    struct bytes *record, bool *found)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), filter;

	writer_string(&out, "find", RULE_RECORD_COLLECTION);
	filter = writer_open_document(&out, "filter");
	recorded_rule_write_key(&out, target);
	writer_close(&out, filter);
	writer_int32(&out, "limit", 1);
	writer_bool(&out, "singleBatch", true);
	command_read_concern(&out, link, link_time(link));
	writer_close(&out, start);
	*found = false;
	return link_lost_or_unauthorized(
		link, link_find_one(link, RULE_RECORD_DATABASE, buffer_view(&out), record, found));
}

must_check enum link_result rule_record_read(struct link *link, const struct mover_target *target,
					     enum rule_record *record, struct place *place)
{
	struct bytes document;
	struct element from, limits;
	bool found, stopped;
	enum link_result result = find_record(link, target, &document, &found);

	*record = RULE_RECORD_NONE;
	if (result != LINK_DONE || !found)
		return result;
	stopped = place && document_find_path(document, "checkpoint.limits", &limits);
	*record = recorded_rule_compare(document, target, stopped ? "checkpoint.limits" : "limits");
	if (place && document_find_path(document, "checkpoint.from", &from))
		place_set(place, from.type, from.value);
	return LINK_DONE;
}

/* One update of the target's record; the caller has written `update`: {u: ...}. */
static enum link_result send_update(struct link *link, const struct mover_target *target,
				    const struct buffer *update, bool upsert)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), updates, statement, q;
	struct element u;

	require(document_find(buffer_view(update), "u", &u));
	writer_string(&out, "update", RULE_RECORD_COLLECTION);
	updates = writer_open_array(&out, "updates");
	statement = writer_open_document(&out, "0");
	q = writer_open_document(&out, "q");
	recorded_rule_write_key(&out, target);
	writer_close(&out, q);
	writer_element(&out, &u);
	writer_bool(&out, "upsert", upsert);
	writer_close(&out, statement);
	writer_close(&out, updates);
	command_write_concern(&out, link);
	writer_close(&out, start);
	return link_run(link, RULE_RECORD_DATABASE, buffer_view(&out));
}

must_check enum link_result rule_record_write(struct link *link, const struct mover_target *target,
					      bool sampled)
{
	auto_buffer struct buffer update = {0};
	size_t start = writer_open(&update), u = writer_open_document(&update, "u");
	size_t set = writer_open_document(&update, "$set");
	enum link_result result;

	recorded_rule_write(&update, target);
	if (sampled)
		writer_string(&update, "claimed", "sample");
	writer_close(&update, set);
	writer_close(&update, u);
	writer_close(&update, start);
	result = send_update(link, target, &update, true);
	if (result == LINK_REFUSED && link_error(link)->code == ERROR_DUPLICATE_KEY)
		result = send_update(link, target, &update, true); /* another was first */
	return link_lost_in_passing(link, result);
}

must_check enum link_result rule_record_place(struct link *link, const struct mover_target *target,
					      const struct place *place)
{
	auto_buffer struct buffer update = {0};
	size_t start = writer_open(&update), u = writer_open_document(&update, "u");
	size_t part = writer_open_document(&update, place ? "$set" : "$unset");

	if (place) {
		size_t checkpoint = writer_open_document(&update, "checkpoint");

		writer_renamed(&update, "from",
			       &(struct element){.type = place->type, .value = place->value});
		recorded_rule_write_limits(&update, target->rule);
		writer_close(&update, checkpoint);
	} else {
		writer_string(&update, "checkpoint", "");
	}
	writer_close(&update, part);
	writer_close(&update, u);
	writer_close(&update, start);
	return send_update(link, target, &update, false);
}

must_check enum link_result rule_record_uuid(struct link *link, const struct mover_target *target,
					     struct element *uuid, bool *found)
{
	struct bytes record;
	enum link_result result = find_record(link, target, &record, found);

	*uuid = (struct element){0};
	if (result == LINK_DONE && *found && !document_find(record, "uuid", uuid))
		*uuid = (struct element){0};
	return result;
}

must_check enum link_result rule_record_note_uuid(struct link *link,
						  const struct mover_target *target,
						  const struct element *uuid)
{
	auto_buffer struct buffer update = {0};
	size_t start = writer_open(&update), u = writer_open_document(&update, "u");
	size_t set = writer_open_document(&update, "$set");

	writer_renamed(&update, "uuid", uuid);
	writer_close(&update, set);
	writer_close(&update, u);
	writer_close(&update, start);
	return link_lost_in_passing(link, send_update(link, target, &update, false));
}

/* The record with this key, {_id}. */
static enum link_result remove_record(struct link *link, struct bytes key)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), deletes, statement;

	writer_string(&out, "delete", RULE_RECORD_COLLECTION);
	deletes = writer_open_array(&out, "deletes");
	statement = writer_open_document(&out, "0");
	writer_document(&out, "q", key);
	writer_int32(&out, "limit", 1);
	writer_close(&out, statement);
	writer_close(&out, deletes);
	command_write_concern(&out, link);
	writer_close(&out, start);
	return link_lost_in_passing(link, link_run(link, RULE_RECORD_DATABASE, buffer_view(&out)));
}

must_check enum link_result rule_record_remove(struct link *link, const struct mover_target *target)
{
	auto_buffer struct buffer key = {0};
	size_t start = writer_open(&key);

	recorded_rule_write_key(&key, target);
	writer_close(&key, start);
	return remove_record(link, buffer_view(&key));
}

must_check enum link_result rule_record_remove_named(struct link *link, struct bytes record)
{
	auto_buffer struct buffer key = {0};
	size_t start = writer_open(&key);
	struct element id;

	if (!document_find(record, "_id", &id))
		return LINK_DONE;
	writer_element(&key, &id);
	writer_close(&key, start);
	return remove_record(link, buffer_view(&key));
}

must_check enum link_result rule_record_each(struct link *link, link_document each, void *context)
{
	bson_t *command = BCON_NEW("find", BCON_UTF8(RULE_RECORD_COLLECTION));
	enum link_result result =
		link_find(link, RULE_RECORD_DATABASE,
			  (struct bytes){bson_get_data(command), command->len}, each, context);

	bson_destroy(command);
	return link_lost_or_unauthorized(link, result);
}

struct finding {
	struct namespace_cache *namespaces;
	struct target_set *targets;
	const struct rule *rule;
};

static void take_target(void *context, struct bytes record)
{
	struct finding *finding = context;
	const struct ruled_namespace *ruled;
	struct recorded_name name;
	bool full;

	if (!recorded_rule_main(record, &name) || !bytes_are(name.array, finding->rule->array))
		return;
	ruled = namespace_cache_find(finding->namespaces, name.database, name.collection, &full);
	for (size_t i = 0; ruled && i < ruled->target_count; i++)
		if (ruled->targets[i].rule == finding->rule)
			(void)!target_get(finding->targets, finding->rule, name.database,
					  name.collection);
}

must_check enum link_result rule_record_find_targets(struct link *link, struct target_set *targets,
						     struct rule_set *rules,
						     const struct rule *rule)
{
	struct finding finding = {namespace_cache_new(rules), targets, rule};
	enum link_result result = rule_record_each(link, take_target, &finding);

	namespace_cache_free(finding.namespaces);
	return result == LINK_REFUSED ? LINK_DONE : result; /* then nothing is recorded */
}

must_check enum link_result rule_record_find_overflow(struct link *link, struct bytes record,
						      bool *found)
{
	auto_free char *database = NULL, *collection = NULL;
	struct recorded_name name;
	enum link_result result;
	bson_t *command;

	if (!recorded_rule_overflow(record, &name))
		return LINK_DONE;
	database = must_strndup((const char *)name.database.data, name.database.length);
	collection = must_strndup((const char *)name.collection.data, name.collection.length);
	command = BCON_NEW("find", BCON_UTF8(collection), "filter", "{", "_spill", "{", "$exists",
			   BCON_BOOL(true), "}", "}", "limit", BCON_INT32(1), "singleBatch",
			   BCON_BOOL(true));
	result = link_lost_in_passing(link, link_find_any(link, database, command, found));
	bson_destroy(command);
	if (result != LINK_REFUSED)
		return result;
	*found = true;
	return LINK_DONE;
}

/* Another layout: is anything left of it? */
static enum link_result judge_other(struct link *link, const struct mover_target *target,
				    struct bytes record, char *reason, size_t size)
{
	auto_buffer struct buffer difference = {0};
	bool found = false;
	enum link_result result = rule_record_find_overflow(link, record, &found);

	recorded_rule_tell_difference(&difference, record, target);
	if (result == LINK_DONE && found)
		snprintf(reason, size,
			 "its documents were spilled under another layout%.*s; bring that back, or "
			 "fold them back with 'spillway undo' and the file that has it",
			 difference.length < 400 ? (int)difference.length : 400,
			 (const char *)difference.data);
	return result;
}

must_check enum link_result rule_record_compare(struct link *link,
						const struct mover_target *target,
						enum rule_record *compared, char *reason,
						size_t size)
{
	struct bytes document;
	uint8_t *body = NULL;
	bool found;
	enum link_result result = find_record(link, target, &document, &found);

	*compared = RULE_RECORD_NONE;
	reason[0] = '\0';
	if (result == LINK_REFUSED) {
		rule_record_warn_of_rights(link);
		return LINK_DONE;
	}
	if (result != LINK_DONE || !found)
		return result;
	body = link_steal_body(link);
	*compared = recorded_rule_compare(document, target, "limits");
	if (*compared == RULE_RECORD_OTHER)
		result = judge_other(link, target, document, reason, size);
	bson_free(body);
	return result;
}
