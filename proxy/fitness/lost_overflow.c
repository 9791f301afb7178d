/* Notices that an overflow collection was dropped, or replaced by another one. */
#include "proxy/fitness/lost_overflow.h"

#include "protocol/template.h"
#include "proxy/base/log.h"
#include "proxy/ownership/rule_record.h"
#include "proxy/upstream/clauses.h"
#include "rules/rule/state.h"

#include <stdlib.h>

#define WITNESSES 20
#define WITNESS_TIME_MS 2000 /* a collection without any is looked through */
#define UUID_HEAD 5          /* length and subtype */
#define UUID_BYTES 16

struct uuid {
	uint64_t parts[2];
};

static bool is_none(const struct uuid *uuid)
{
	return !uuid->parts[0] && !uuid->parts[1];
}

static struct uuid uuid_of(const struct element *element)
{
	struct uuid uuid = {0};

	if (element->type == BSON_BYTE_BINARY && element->value.length == UUID_HEAD + UUID_BYTES)
		memcpy(uuid.parts, element->value.data + UUID_HEAD, UUID_BYTES);
	return uuid;
}

static struct uuid load(_Atomic uint64_t *parts)
{
	return (struct uuid){{atomic_load(&parts[0]), atomic_load(&parts[1])}};
}

static void store(_Atomic uint64_t *parts, const struct uuid *uuid)
{
	atomic_store(&parts[0], uuid->parts[0]);
	atomic_store(&parts[1], uuid->parts[1]);
}

static bool is_same(const struct uuid *one, const struct uuid *other)
{
	return one->parts[0] == other->parts[0] && one->parts[1] == other->parts[1];
}

/* ---- Witnesses: split documents, each {_id, _spill: {<key>: {g}}}. */

struct witnesses {
	const struct rule *rule;
	struct buffer all;
	bool seen[WITNESSES];
	size_t count;
};

static struct bytes witness_at(const struct witnesses *witnesses, size_t at)
{
	return (struct bytes){witnesses->all.data + at,
			      (size_t)load_int32(witnesses->all.data + at)};
}

static void take_witness(void *context, struct bytes document)
{
	struct witnesses *witnesses = context;

	if (witnesses->count == WITNESSES)
		return;
	buffer_append(&witnesses->all, document.data, document.length);
	witnesses->count++;
}

static size_t names_of(const struct witnesses *witnesses, struct bytes document,
		       struct bytes names[STATE_NAMES])
{
	struct element state;

	return state_find(witnesses->rule, document, &state) ? state_names(&state, names) : 0;
}

static void see_generation(void *context, struct bytes document)
{
	struct witnesses *witnesses = context;
	struct bytes stored, names[STATE_NAMES];
	size_t at = 0;

	if (!generation_find(document, "_id", &stored))
		return;
	for (size_t i = 0; i < witnesses->count; i++) {
		struct bytes witness = witness_at(witnesses, at);

		at += witness.length;
		for (size_t j = names_of(witnesses, witness, names); j-- > 0;)
			witnesses->seen[i] |= bytes_equal(names[j], stored);
	}
}

static void write_links(struct buffer *out, const char *name, const void *context)
{
	const struct witnesses *witnesses = context;
	size_t array = writer_open_array(out, name), at = 0;
	char index[12];

	for (size_t i = 0; i < witnesses->count; i++) {
		struct bytes witness = witness_at(witnesses, at);
		struct element id;

		at += witness.length;
		if (document_find(witness, "_id", &id))
			writer_renamed(out, writer_index(index, i), &id);
	}
	writer_close(out, array);
}

static enum link_result find_witnesses(struct link *link, const struct mover_target *target,
				       struct witnesses *witnesses)
{
	return command_find(link, target->database, take_witness, witnesses,
			    "{find: @collection, filter: {$or: [{'_spill.@key.n': {$gt: "
			    "0}}, {'_spill.@key.e.n': {$gt: 0}}]}, projection: "
			    "{_id: 1, '_spill.@key.g': 1, '_spill.@key.e': 1}, limit: @most, "
			    "singleBatch: true, "
			    "maxTimeMS: @time, readConcern: @read_concern}",
			    fill("collection", target->collection), fill("key", target->rule->key),
			    fill_int32("most", WITNESSES), fill_int32("time", WITNESS_TIME_MS));
}

static enum link_result ask_overflow(struct link *link, const struct mover_target *target,
				     struct witnesses *witnesses)
{
	return command_find(link, target->overflow_database, see_generation, witnesses,
			    "{aggregate: @overflow, pipeline: [{$match: {'@link': {$in: @links}}}, "
			    "{$group: {_id: '$_spill.g'}}], cursor: {}, readConcern: "
			    "@read_concern}",
			    fill("overflow", target->overflow_collection),
			    fill("link", target->rule->overflow.link),
			    fill_with("links", write_links, witnesses));
}

/* Its state still names the generation: nothing of it was there all the while. */
static enum link_result stands(struct link *link, const struct mover_target *target,
			       const struct witnesses *witnesses, struct bytes witness, bool *lost)
{
	struct bytes names[STATE_NAMES], document;
	struct element id;
	enum link_result result;

	if (!document_find(witness, "_id", &id) || names_of(witnesses, witness, names) == 0)
		return LINK_DONE; /* another kind of damage */
	result = command_find_one(
		link, target->database, &document,
		"{find: @collection, filter: {_id: {$eq: @id}, $or: [{'_spill.@key.g': "
		"@generation}, {'_spill.@key.e.g': @generation}]}, limit: 1, singleBatch: true, "
		"readConcern: @read_concern}",
		fill("collection", target->collection), fill("id", &id),
		fill("key", target->rule->key), fill_binary("generation", names[0]));
	*lost = result == LINK_DONE && document.data;
	return result;
}

static enum link_result hear_witnesses(struct link *link, const struct mover_target *target,
				       bool *lost)
{
	struct witnesses witnesses = {.rule = target->rule};
	enum link_result result = find_witnesses(link, target, &witnesses);
	size_t at = 0;

	if (result == LINK_DONE && witnesses.count > 0)
		result = ask_overflow(link, target, &witnesses);
	for (size_t i = 0; result == LINK_DONE && !*lost && i < witnesses.count; i++) {
		struct bytes witness = witness_at(&witnesses, at);

		at += witness.length;
		if (!witnesses.seen[i])
			result = stands(link, target, &witnesses, witness, lost);
	}
	buffer_fini(&witnesses.all);
	return result;
}

/* ---- The collection. */

/* The one that was there: as this process knows it, or as is recorded. `recorded`: under a rule
 * that has held before. */
static enum link_result find_known(struct link *link, struct mover_target *target,
				   struct uuid *known, bool *recorded)
{
	struct element element;
	enum link_result result;

	*known = load(target->stored.known);
	*recorded = false;
	if (!is_none(known))
		return LINK_DONE;
	result = rule_record_overflow(link, target, &element, recorded);
	if (result == LINK_DONE)
		*known = uuid_of(&element);
	if (result == LINK_DONE)
		store(target->stored.known, known);
	return result == LINK_REFUSED ? LINK_DONE : result;
}

must_check enum link_result lost_overflow_look(struct link *link, struct mover_target *target,
					       const struct collection_facts *overflow, bool *lost)
{
	struct uuid known, now;
	bool recorded, there = overflow->entry.count > 0;
	enum link_result result = find_known(link, target, &known, &recorded);

	*lost = false;
	if (result != LINK_DONE)
		return result;
	facts_uuid(overflow, now.parts);
	if (is_none(&known) ? there || !recorded : is_same(&known, &now))
		return LINK_DONE;
	return hear_witnesses(link, target, lost);
}

must_check enum link_result lost_overflow_settle(struct link *link, struct mover_target *target)
{
	struct uuid now = load(target->stored.uuid), known = load(target->stored.known);
	uint8_t value[UUID_HEAD + UUID_BYTES] = {UUID_BYTES, 0, 0, 0, 4};
	const struct element uuid = {.type = BSON_BYTE_BINARY, .value = {value, sizeof(value)}};

	if (is_none(&now) || is_same(&now, &known))
		return LINK_DONE;
	memcpy(value + UUID_HEAD, now.parts, UUID_BYTES);
	store(target->stored.known, &now);
	return rule_record_note_overflow(link, target, &uuid);
}

void lost_overflow_tell(struct target_set *set, struct mover_target *target, bool lost)
{
	if (!target_set_lost(set, target, lost))
		return;
	if (lost)
		log_error("5012 rule '%s': the overflow '%s.%s' was dropped or replaced while "
			  "documents of '%s.%s' are split there: reads of their arrays fail (301); "
			  "restore the overflow, or see 'spillway verify'",
			  target->rule->name, target->overflow_database,
			  target->overflow_collection, target->database, target->collection);
	else
		log_info("5013 rule '%s': the overflow '%s.%s' holds what split documents name",
			 target->rule->name, target->overflow_database,
			 target->overflow_collection);
}
