/* The parts that the mover's commands have in common. */
#include "proxy/upstream/clauses.h"

#include <stdio.h>

#define MAJORITY_TIMEOUT_MS 10000
#define UUID_SUBTYPE 4

const char *state_path(char *path, const struct rule *rule, const char *field)
{
	_Static_assert(RULE_ARRAY_MAX + sizeof("_spill.") + 16 < STATE_PATH_MAX, "a field's name");
	int length = snprintf(path, STATE_PATH_MAX, "_spill.%s%s%s", rule->key, field ? "." : "",
			      field ? field : "");

	require(length < STATE_PATH_MAX);
	return path;
}

void command_read_concern(struct buffer *command, const struct link *link, uint64_t after)
{
	size_t concern;

	if (link_in_transaction(link))
		return;
	concern = writer_open_document(command, "readConcern");
	writer_string(command, "level", "majority");
	if (after && !link_standalone(link))
		writer_renamed(
			command, "afterClusterTime",
			&(struct element){.type = BSON_BYTE_TIMESTAMP,
					  .value = {(const uint8_t *)&after, sizeof(after)}});
	writer_close(command, concern);
}

void command_write_concern(struct buffer *command, const struct link *link)
{
	size_t concern;

	if (link_in_transaction(link))
		return;
	concern = writer_open_document(command, "writeConcern");
	if (link_standalone(link)) {
		writer_int32(command, "w", 1);
		writer_bool(command, "j", true);
	} else {
		writer_string(command, "w", "majority");
		writer_int32(command, "wtimeout", MAJORITY_TIMEOUT_MS);
	}
	writer_close(command, concern);
}

void command_equal(struct buffer *command, const char *name, uint8_t type, struct bytes value)
{
	size_t equal = writer_open_document(command, name);

	writer_renamed(command, "$eq", &(struct element){.type = type, .value = value});
	writer_close(command, equal);
}

void command_generation(struct buffer *command, const char *name, struct bytes generation)
{
	writer_binary(command, name, generation);
}

void command_overflow_uuid(struct buffer *command, const struct mover_target *target)
{
	uint8_t uuid[5 + 16] = {16, 0, 0, 0, UUID_SUBTYPE};

	for (size_t i = 0; i < 2; i++) {
		uint64_t half = atomic_load(&target->overflow_uuid[i]);

		if (half == 0)
			return;
		memcpy(uuid + 5 + 8 * i, &half, 8);
	}
	writer_renamed(command, "collectionUUID",
		       &(struct element){.type = BSON_BYTE_BINARY, .value = {uuid, sizeof(uuid)}});
}

void command_exists(struct buffer *command, const char *name, bool exists)
{
	size_t condition = writer_open_document(command, name);

	writer_bool(command, "$exists", exists);
	writer_close(command, condition);
}

void command_foreign(struct buffer *command)
{
	size_t condition = writer_open_document(command, "_spill.g");
	size_t other = writer_open_document(command, "$not");

	writer_string(command, "$type", "binData");
	writer_close(command, other);
	writer_close(command, condition);
}

uint64_t time_after(const struct link *link, uint64_t time)
{
	struct bytes replied = link_reply(link)->operation_time;
	uint64_t later = replied.length == 8 ? (uint64_t)load_int64(replied.data) : 0;

	return later > time ? later : time;
}
