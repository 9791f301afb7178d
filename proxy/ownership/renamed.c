/* Finds a collection by its UUID. */
#include "proxy/ownership/renamed.h"

#include "proxy/base/log.h"
#include "proxy/upstream/clauses.h"
#include "proxy/ownership/referrers.h"
#include "proxy/ownership/rule_record.h"

#include <stdio.h>

#define UUID_BYTES (4 + 1 + 16)

/* A binary value, as it stands in BSON; empty: there is none. */
struct uuid {
	uint8_t bytes[UUID_BYTES];
	size_t length;
};

static void take_uuid(struct uuid *uuid, const struct element *element)
{
	if (element->type != BSON_BYTE_BINARY || element->value.length != UUID_BYTES)
		return;
	memcpy(uuid->bytes, element->value.data, UUID_BYTES);
	uuid->length = UUID_BYTES;
}

static struct element element_of(const struct uuid *uuid)
{
	return (struct element){.type = BSON_BYTE_BINARY, .value = {uuid->bytes, uuid->length}};
}

static void take_own(void *context, struct bytes entry)
{
	struct element uuid;

	if (document_find_path(entry, "info.uuid", &uuid))
		take_uuid(context, &uuid);
}

static void take_name(void *context, struct bytes entry)
{
	struct bytes text;

	if (document_find_string(entry, "name", &text))
		snprintf(context, RENAMED_SIZE, "%.*s", (int)text.length, (const char *)text.data);
}

/* By its name mongod finds one at once, by its UUID it goes through all. */
static enum link_result list(struct link *link, const struct mover_target *target,
			     const struct uuid *uuid, link_document take, void *context)
{
	struct element value = element_of(uuid);

	return link_lost_or_unauthorized(
		link,
		command_find(link, target->database, take, context,
			     uuid->length > 0 ? "{listCollections: 1, filter: {'info.uuid': @uuid}}"
					      : "{listCollections: 1, filter: {name: @collection}}",
			     fill("uuid", &value), fill("collection", target->collection)));
}

/* Some document of it has a state that was born for the target. */
static enum link_result has_states(struct link *link, const struct mover_target *target,
				   const char *collection, bool *has)
{
	uint8_t least[GENERATION_BYTES], most[GENERATION_BYTES];
	struct bytes document;
	enum link_result result;

	target_generations(target, least, most);
	result = command_find_one(link, target->database, &document,
				  "{find: @collection, filter: {$or: [{'_spill.@key.g': {$gte: "
				  "@least, $lte: @most}}, {'_spill.@key.e.g': {$gte: @least, $lte: "
				  "@most}}]}, limit: 1, singleBatch: true}",
				  fill("collection", collection), fill("key", target->rule->key),
				  fill_binary("least", (struct bytes){least, sizeof(least)}),
				  fill_binary("most", (struct bytes){most, sizeof(most)}));
	*has = result == LINK_DONE && document.data;
	return link_lost_or_unauthorized(link, result);
}

/* The collection that has the UUID, where its documents need the overflow. */
static enum link_result ask_by_uuid(struct link *link, const struct mover_target *target,
				    const struct uuid *uuid, char *other)
{
	char name[RENAMED_SIZE] = "";
	bool has = false;
	enum link_result result = LINK_DONE;

	if (uuid->length > 0)
		result = list(link, target, uuid, take_name, name);
	if (result == LINK_DONE && name[0])
		result = has_states(link, target, name, &has);
	if (result == LINK_DONE && has)
		snprintf(other, RENAMED_SIZE, "%.60s.%.250s", target->database, name);
	return result;
}

/* Whose documents a sample of the overflow is. */
static enum link_result ask_referrers(struct link *link, const struct mover_target *target,
				      char *other)
{
	enum referrers found = REFERRERS_EMPTY;
	char name[RENAMED_SIZE];
	enum link_result result = referrers_find(link, target, &found, name, sizeof(name));

	if (result == LINK_DONE && found == REFERRERS_OTHER)
		snprintf(other, RENAMED_SIZE, "%s", name);
	return result;
}

static bool is_same(const struct uuid *one, const struct uuid *other)
{
	return one->length > 0 && one->length == other->length &&
	       memcmp(one->bytes, other->bytes, one->length) == 0;
}

/* Another collection has the rule's name than the record knows, or none has, or the record knows
 * none. */
static enum link_result ask_others(struct link *link, const struct mover_target *target,
				   const struct uuid *recorded, const struct uuid *own, bool notes,
				   char *other)
{
	struct element uuid = element_of(own);
	enum link_result result = ask_by_uuid(link, target, recorded, other);

	if (result == LINK_DONE && !other[0])
		result = ask_referrers(link, target, other);
	if (result == LINK_DONE && !other[0] && notes && own->length > 0)
		result = rule_record_note_uuid(link, target, &uuid);
	return result;
}

must_check enum link_result renamed_find(struct link *link, const struct mover_target *target,
					 bool notes, char other[RENAMED_SIZE])
{
	struct uuid recorded = {0}, own = {0};
	const struct uuid none = {0};
	struct element uuid;
	bool found;
	enum link_result result = rule_record_uuid(link, target, &uuid, &found);

	other[0] = '\0';
	if (result != LINK_DONE || !found)
		return link_unless_unauthorized(link, result);
	take_uuid(&recorded, &uuid);
	result = list(link, target, &none, take_own, &own);
	if (result == LINK_DONE && !is_same(&own, &recorded))
		result = ask_others(link, target, &recorded, &own, notes, other);
	return result == LINK_REFUSED ? LINK_DONE : result; /* no rights, or it can't be noted */
}

static void write_reason(const struct mover_target *target, const char *other, char *reason,
			 size_t size)
{
	snprintf(reason, size,
		 "documents of '%.255s' refer to its overflow '%.60s.%.200s': the collection was "
		 "renamed; give it its name back, or drop it where nobody needs it",
		 other, target->overflow_database, target->overflow_collection);
}

must_check enum link_result renamed_tell(struct link *link, const struct mover_target *target,
					 bool notes, char *reason, size_t size)
{
	char other[RENAMED_SIZE];
	enum link_result result = renamed_find(link, target, notes, other);

	reason[0] = '\0';
	if (result == LINK_DONE && other[0])
		write_reason(target, other, reason, size);
	return result;
}

void renamed_warn(struct mover_target *target, const char *other)
{
	char reason[RENAMED_REASON];

	if (!other[0] || atomic_exchange(&target->told.renamed, true))
		return;
	write_reason(target, other, reason, sizeof(reason));
	log_warning("4022 mover: rule '%s': %s; nothing of the overflow is removed until then",
		    target->rule->name, reason);
}
