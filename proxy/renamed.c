/* Finds a collection by its UUID. */
#include "proxy/renamed.h"

#include "proxy/mover_command.h"
#include "proxy/referrers.h"
#include "proxy/rule_record.h"

#include <stdio.h>

#define UUID_BYTES (4 + 1 + 16)

/* A binary value, as it stands in BSON; empty: there is none. */
struct uuid {
	uint8_t bytes[UUID_BYTES];
	size_t length;
};

struct names {
	const struct mover_target *target;
	struct uuid recorded;
	struct uuid own; /* of the collection that has the rule's name */
	char *other;
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

/* A collection with the rule's name, or with the UUID. */
static void take_collection(void *context, struct bytes entry)
{
	struct names *names = context;
	struct element name, uuid;
	struct bytes text;

	if (!document_find(entry, "name", &name) || !element_string(&name, &text) ||
	    !document_find_path(entry, "info.uuid", &uuid))
		return;
	if (bytes_are(text, names->target->collection))
		take_uuid(&names->own, &uuid);
	else
		snprintf(names->other, RENAMED_SIZE, "%s.%.*s", names->target->database,
			 (int)text.length, (const char *)text.data);
}

static void write_filter(struct buffer *out, const struct names *names)
{
	size_t filter = writer_open_document(out, "filter"), either, each;
	struct element uuid = element_of(&names->recorded);

	either = writer_open_array(out, "$or");
	each = writer_open_document(out, "0");
	writer_string(out, "name", names->target->collection);
	writer_close(out, each);
	if (uuid.value.length > 0) {
		each = writer_open_document(out, "1");
		writer_renamed(out, "info.uuid", &uuid);
		writer_close(out, each);
	}
	writer_close(out, either);
	writer_close(out, filter);
}

static enum link_result find_names(struct link *link, struct names *names)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);

	writer_int32(&out, "listCollections", 1);
	write_filter(&out, names);
	writer_close(&out, start);
	return link_find(link, names->target->database, buffer_view(&out), take_collection, names);
}

static bool is_recorded(const struct names *names)
{
	return names->own.length > 0 && names->recorded.length == names->own.length &&
	       memcmp(names->recorded.bytes, names->own.bytes, names->own.length) == 0;
}

/* Another collection has the rule's name than the record knows, or none has, or the record knows
 * none: whose documents refer to the overflow tells. */
static enum link_result ask_referrers(struct link *link, const struct mover_target *target,
				      const struct uuid *own, bool notes, char *other)
{
	struct element uuid = element_of(own);
	enum referrers found = REFERRERS_EMPTY;
	char name[RENAMED_SIZE];
	enum link_result result = referrers_find(link, target, &found, name, sizeof(name));

	other[0] = '\0';
	if (result == LINK_DONE && found == REFERRERS_OTHER)
		snprintf(other, RENAMED_SIZE, "%s", name);
	else if (result == LINK_DONE && notes && own->length > 0)
		result = rule_record_note_uuid(link, target, &uuid);
	return result;
}

must_check enum link_result renamed_find(struct link *link, const struct mover_target *target,
					 bool notes, char other[RENAMED_SIZE])
{
	struct names names = {.target = target, .other = other};
	struct element uuid;
	bool found;
	enum link_result result = rule_record_uuid(link, target, &uuid, &found);

	other[0] = '\0';
	if (result != LINK_DONE || !found)
		return link_unless_unauthorized(link, result);
	take_uuid(&names.recorded, &uuid);
	result = link_lost_or_unauthorized(link, find_names(link, &names));
	if (result == LINK_DONE && (names.own.length > 0 || !other[0]) && !is_recorded(&names))
		result = ask_referrers(link, target, &names.own, notes, other);
	return result == LINK_REFUSED ? LINK_DONE : result; /* no rights, or it can't be noted */
}

must_check enum link_result renamed_tell(struct link *link, const struct mover_target *target,
					 bool notes, char *reason, size_t size)
{
	char other[RENAMED_SIZE];
	enum link_result result = renamed_find(link, target, notes, other);

	reason[0] = '\0';
	if (result == LINK_DONE && other[0])
		snprintf(reason, size,
			 "documents of '%.255s' refer to its overflow '%.60s.%.200s': the "
			 "collection was renamed; give it its name back, or drop it where nobody "
			 "needs it",
			 other, target->overflow_database, target->overflow_collection);
	return result;
}
