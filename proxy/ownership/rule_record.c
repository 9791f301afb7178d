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
		log_warning("4020 what rules move is not recorded, so that a rule that is taken "
			    "away is "
			    "not missed, overflow of documents that are gone is not collected, and "
			    "after a start nothing is moved where the overflow holds but what an "
			    "older version left there: give the upstream account the role "
			    "readWrite on the database '%s' (%s)",
			    RULE_RECORD_DATABASE, link_error(link)->message);
}

static void splice_key(struct buffer *out, size_t *place, const void *target)
{
	(void)place;
	recorded_rule_write_key(out, target);
}

/* {_id} of the target's record. */
static struct fill fill_key(const struct mover_target *target)
{
	return fill_spliced("key", splice_key, target);
}

/* Hands the record over, which is a view until the link's next command; without data: none. */
static enum link_result find_record(struct link *link, const struct mover_target *target,
				    struct bytes *record)
{
	*record = (struct bytes){0};
	return link_lost_or_unauthorized(
		link, command_find_one(link, RULE_RECORD_DATABASE, record,
				       "{find: '" RULE_RECORD_COLLECTION "', filter: {..@key}, "
				       "limit: 1, singleBatch: true, readConcern: @read_concern}",
				       fill_key(target)));
}

static void find_stop(struct bytes record, const char *from, const char *stayed, struct stop *stop)
{
	struct element place;

	if (document_find_path(record, from, &place))
		place_set(&stop->from, place.type, place.value);
	if (!document_find_integer(record, stayed, &stop->stayed))
		stop->stayed = 0;
}

must_check enum link_result rule_record_read(struct link *link, const struct mover_target *target,
					     enum rule_record *record, struct stop *stop)
{
	struct bytes document;
	struct element limits;
	bool stopped;
	enum link_result result = find_record(link, target, &document);

	*record = RULE_RECORD_NONE;
	if (result != LINK_DONE || !document.data)
		return result;
	stopped = stop && document_find_path(document, "checkpoint.limits", &limits);
	*record = recorded_rule_compare(document, target, stopped ? "checkpoint.limits" : "limits");
	if (stop)
		find_stop(document, "checkpoint.from", "checkpoint.stayed", stop);
	return LINK_DONE;
}

/* A record in a format that a newer Spillway has written stays as it is. */
#define KNOWN "format: {$in: [1, null]}"
#define UPDATE(update, upsert) \
	"{update: '" RULE_RECORD_COLLECTION "', updates: [{q: {..@key, " KNOWN "}, u: " update \
	", upsert: " upsert "}], writeConcern: @write_concern}"

static void splice_rule(struct buffer *out, size_t *place, const void *target)
{
	(void)place;
	recorded_rule_write(out, target);
}

static enum link_result write_record(struct link *link, const struct mover_target *target,
				     bool sampled)
{
	return command_run(link, RULE_RECORD_DATABASE,
			   sampled ? UPDATE("{$set: {..@rule, claimed: 'sample'}}", "true")
				   : UPDATE("{$set: {..@rule}}", "true"),
			   fill_key(target), fill_spliced("rule", splice_rule, target));
}

must_check enum link_result rule_record_write(struct link *link, const struct mover_target *target,
					      bool sampled)
{
	enum link_result result = write_record(link, target, sampled);

	if (result == LINK_REFUSED && link_error(link)->code == ERROR_DUPLICATE_KEY)
		result = write_record(link, target, sampled); /* another was first */
	return link_lost_in_passing(link, result);
}

static void splice_limits(struct buffer *out, size_t *place, const void *rule)
{
	(void)place;
	recorded_rule_write_limits(out, rule);
}

must_check enum link_result rule_record_place(struct link *link, const struct mover_target *target,
					      const struct place *place, int64_t stayed)
{
	struct element from = {0};

	if (place)
		from = (struct element){.type = place->type, .value = place->value};
	return command_run(link, RULE_RECORD_DATABASE,
			   place ? UPDATE("{$set: {checkpoint: {from: @from, stayed: @stayed, "
					  "..@limits}}, $unset: {undo: ''}}",
					  "false")
				 : UPDATE("{$unset: {checkpoint: '', undo: ''}}", "false"),
			   fill_key(target), fill("from", &from), fill("stayed", stayed),
			   fill_spliced("limits", splice_limits, target->rule));
}

must_check enum link_result rule_record_undo_place(struct link *link,
						   const struct mover_target *target,
						   const struct place *place, int64_t stayed)
{
	struct element from = {0};

	if (place)
		from = (struct element){.type = place->type, .value = place->value};
	return command_run(link, RULE_RECORD_DATABASE,
			   place ? UPDATE("{$set: {undo: {from: @from, stayed: @stayed}}, $unset: "
					  "{checkpoint: ''}}",
					  "false")
				 : UPDATE("{$unset: {checkpoint: '', undo: ''}}", "false"),
			   fill_key(target), fill("from", &from), fill("stayed", stayed));
}

must_check enum link_result rule_record_undone(struct link *link, const struct mover_target *target,
					       struct stop *stop)
{
	struct bytes document;
	enum link_result result = find_record(link, target, &document);

	if (result == LINK_DONE && document.data)
		find_stop(document, "undo.from", "undo.stayed", stop);
	return result;
}

static enum link_result find_uuid(struct link *link, const struct mover_target *target,
				  const char *name, struct element *uuid, bool *found)
{
	struct bytes record;
	enum link_result result = find_record(link, target, &record);

	*found = result == LINK_DONE && record.data;
	*uuid = (struct element){0};
	if (*found && !document_find(record, name, uuid))
		*uuid = (struct element){0};
	return result;
}

must_check enum link_result rule_record_uuid(struct link *link, const struct mover_target *target,
					     struct element *uuid, bool *found)
{
	return find_uuid(link, target, "uuid", uuid, found);
}

must_check enum link_result rule_record_overflow(struct link *link,
						 const struct mover_target *target,
						 struct element *uuid, bool *found)
{
	return find_uuid(link, target, "overflow_uuid", uuid, found);
}

must_check enum link_result rule_record_note_overflow(struct link *link,
						      const struct mover_target *target,
						      const struct element *uuid)
{
	return link_lost_in_passing(link,
				    command_run(link, RULE_RECORD_DATABASE,
						UPDATE("{$set: {overflow_uuid: @uuid}}", "false"),
						fill_key(target), fill("uuid", uuid)));
}

must_check enum link_result rule_record_note_uuid(struct link *link,
						  const struct mover_target *target,
						  const struct element *uuid)
{
	return link_lost_in_passing(link, command_run(link, RULE_RECORD_DATABASE,
						      UPDATE("{$set: {uuid: @uuid}}", "false"),
						      fill_key(target), fill("uuid", uuid)));
}

static enum link_result remove_record(struct link *link, struct fill key)
{
	return link_lost_in_passing(link, command_run(link, RULE_RECORD_DATABASE,
						      "{delete: '" RULE_RECORD_COLLECTION
						      "', deletes: [{q: {..@key}, limit: 1}], "
						      "writeConcern: @write_concern}",
						      key));
}

must_check enum link_result rule_record_remove(struct link *link, const struct mover_target *target)
{
	return remove_record(link, fill_key(target));
}

must_check enum link_result rule_record_remove_named(struct link *link, struct bytes record)
{
	auto_buffer struct buffer key = {0};
	struct element id;

	if (!document_find(record, "_id", &id))
		return LINK_DONE;
	template_write_document(&key, "{_id: @id}", fill("id", &id));
	return remove_record(link, fill_document("key", buffer_view(&key)));
}

must_check enum link_result rule_record_each(struct link *link, link_document each, void *context)
{
	return link_lost_or_unauthorized(link,
					 command_find(link, RULE_RECORD_DATABASE, each, context,
						      "{find: '" RULE_RECORD_COLLECTION "'}"));
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
	namespace_cache_trim(finding->namespaces);
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

static enum link_result find_split(struct link *link, const char *database, const char *collection,
				   bool *found)
{
	struct bytes document;
	enum link_result result = link_lost_in_passing(
		link, command_find_one(link, database, &document,
				       "{find: @collection, filter: {_spill: {$exists: true}}, "
				       "limit: 1, singleBatch: true}",
				       fill("collection", collection)));

	if (result == LINK_LOST)
		return result;
	*found = result == LINK_REFUSED || document.data;
	return LINK_DONE;
}

must_check enum link_result rule_record_find_overflow(struct link *link, struct bytes record,
						      bool *found)
{
	auto_free char *database = NULL, *collection = NULL;
	struct recorded_name name;

	if (!recorded_rule_overflow(record, &name))
		return LINK_DONE;
	database = must_strndup((const char *)name.database.data, name.database.length);
	collection = must_strndup((const char *)name.collection.data, name.collection.length);
	return find_split(link, database, collection, found);
}

must_check enum link_result rule_record_is_split(struct link *link,
						 const struct mover_target *target, bool *found)
{
	return find_split(link, target->overflow_database, target->overflow_collection, found);
}

/* Whatever lies there: this program does not know where. True: `reason` says so. */
static bool judge_format(struct bytes record, char *reason, size_t size)
{
	int64_t format = recorded_rule_newer_format(record);
	auto_buffer struct buffer text = {0};

	if (!format)
		return false;
	recorded_rule_tell_newer(&text, format);
	snprintf(reason, size, "what it has moved %.*s", (int)text.length, (const char *)text.data);
	return true;
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
	enum link_result result = find_record(link, target, &document);

	*compared = RULE_RECORD_NONE;
	reason[0] = '\0';
	if (result == LINK_REFUSED) {
		rule_record_warn_of_rights(link);
		return LINK_DONE;
	}
	if (result != LINK_DONE || !document.data)
		return result;
	body = link_steal_body(link);
	*compared = recorded_rule_compare(document, target, "limits");
	if (*compared == RULE_RECORD_OTHER && !judge_format(document, reason, size))
		result = judge_other(link, target, document, reason, size);
	bson_free(body);
	return result;
}
