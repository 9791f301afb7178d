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
		uint64_t half = atomic_load(&target->stored.uuid[i]);

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

static void write_equal(struct buffer *out, const char *name, const void *context)
{
	const struct element *element = context;

	if (element)
		command_equal(out, name, element->type, element->value);
}

struct fill command_fill_equal(const char *name, const struct element *element)
{
	return fill_with(name, write_equal, element);
}

static void write_size(struct buffer *out, const char *name, const void *context)
{
	const int64_t *length = context;

	if (*length >= 0)
		template_write(out, name, "{$size: @length}", fill("length", *length));
}

struct fill command_fill_size(const char *name, const int64_t *length)
{
	return fill_with(name, write_size, length);
}

static void write_uuid(struct buffer *out, const char *name, const void *context)
{
	(void)name;
	command_overflow_uuid(out, context);
}

struct fill command_fill_uuid(const char *name, const struct mover_target *target)
{
	return fill_with(name, write_uuid, target);
}

static void write_read_concern(struct buffer *out, const char *name, const void *context)
{
	(void)name;
	command_read_concern(out, context, link_time(context));
}

static void write_write_concern(struct buffer *out, const char *name, const void *context)
{
	(void)name;
	command_write_concern(out, context);
}

void command_join_fills(struct fill all[COMMAND_FILLS], const struct fill *first,
			const struct fill *second)
{
	size_t count = 0;

	while (first->name || second->name) {
		require(count + 1 < COMMAND_FILLS);
		all[count++] = first->name ? *first++ : *second++;
	}
	all[count] = (struct fill){0};
}

void command_write_filled(struct buffer *out, const struct link *link, const char *text,
			  const struct fill *fills)
{
	const struct fill concerns[] = {fill_with("read_concern", write_read_concern, link),
					fill_with("write_concern", write_write_concern, link),
					{0}};
	struct fill all[COMMAND_FILLS];

	command_join_fills(all, fills, concerns);
	template_fill_document(out, text, all);
}

must_check enum link_result command_run_filled(struct link *link, const char *database,
					       const char *text, const struct fill *fills)
{
	auto_buffer struct buffer out = {0};

	command_write_filled(&out, link, text, fills);
	return link_run(link, database, buffer_view(&out));
}

must_check enum link_result command_find_filled(struct link *link, const char *database,
						const char *text, const struct fill *fills,
						link_document each, void *context)
{
	auto_buffer struct buffer out = {0};

	command_write_filled(&out, link, text, fills);
	return link_find(link, database, buffer_view(&out), each, context);
}

must_check enum link_result command_find_one_filled(struct link *link, const char *database,
						    const char *text, const struct fill *fills,
						    struct bytes *document)
{
	auto_buffer struct buffer out = {0};
	struct bytes first = {0};
	bool found = false;
	enum link_result result;

	command_write_filled(&out, link, text, fills);
	result = link_find_one(link, database, buffer_view(&out), &first, &found);
	if (result == LINK_DONE)
		*document = first;
	return result;
}

uint64_t time_after(const struct link *link, uint64_t time)
{
	struct bytes replied = link_reply(link)->operation_time;
	uint64_t later = replied.length == 8 ? (uint64_t)load_int64(replied.data) : 0;

	return later > time ? later : time;
}
