/* A command's body read once. */
#include "protocol/command.h"

struct field_name {
	const char *name;
	uint8_t length;
	uint8_t field;
};

#define NAME(text, field) \
	{ \
		text, sizeof(text) - 1, field \
	}

/* Sorted by length, so that a name is compared with few others; this is checked at the start. */
static const struct field_name names[] = {
	NAME("to", FIELD_TO),
	NAME("$db", FIELD_DB),
	NAME("let", FIELD_LET),
	NAME("min", FIELD_MIN),
	NAME("max", FIELD_MAX),
	NAME("key", FIELD_KEY),
	NAME("out", FIELD_OUT),
	NAME("ops", FIELD_OPS),
	NAME("lsid", FIELD_LSID),
	NAME("sort", FIELD_SORT),
	NAME("hint", FIELD_HINT),
	NAME("query", FIELD_QUERY),
	NAME("filter", FIELD_FILTER),
	NAME("fields", FIELD_FIELDS),
	NAME("update", FIELD_UPDATE),
	NAME("remove", FIELD_REMOVE),
	NAME("upsert", FIELD_UPSERT),
	NAME("viewOn", FIELD_VIEW_ON),
	NAME("capped", FIELD_CAPPED),
	NAME("nsInfo", FIELD_NS_INFO),
	NAME("stmtId", FIELD_STMT_ID),
	NAME("updates", FIELD_UPDATES),
	NAME("deletes", FIELD_DELETES),
	NAME("ordered", FIELD_ORDERED),
	NAME("stmtIds", FIELD_STMT_IDS),
	NAME("indexes", FIELD_INDEXES),
	NAME("comment", FIELD_COMMENT),
	NAME("tailable", FIELD_TAILABLE),
	NAME("pipeline", FIELD_PIPELINE),
	NAME("txnNumber", FIELD_TXN_NUMBER),
	NAME("maxTimeMS", FIELD_MAX_TIME),
	NAME("collation", FIELD_COLLATION),
	NAME("batchSize", FIELD_BATCH_SIZE),
	NAME("returnKey", FIELD_RETURN_KEY),
	NAME("documents", FIELD_DOCUMENTS),
	NAME("validator", FIELD_VALIDATOR),
	NAME("apiStrict", FIELD_API_STRICT),
	NAME("autocommit", FIELD_AUTOCOMMIT),
	NAME("apiVersion", FIELD_API_VERSION),
	NAME("projection", FIELD_PROJECTION),
	NAME("collection", FIELD_COLLECTION),
	NAME("errorsOnly", FIELD_ERRORS_ONLY),
	NAME("timeseries", FIELD_TIME_SERIES),
	NAME("readConcern", FIELD_READ_CONCERN),
	NAME("writeConcern", FIELD_WRITE_CONCERN),
	NAME("$clusterTime", FIELD_CLUSTER_TIME),
	NAME("$readPreference", FIELD_READ_PREFERENCE),
	NAME("startTransaction", FIELD_START_TRANSACTION),
	NAME("apiDeprecationErrors", FIELD_API_DEPRECATION),
};

#define LONGEST_NAME 20

/* How many names are shorter than that: those of a length stand from here to the next one's. */
static uint8_t shorter[LONGEST_NAME + 2];

__attribute__((constructor)) static void count_shorter(void)
{
	for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
		require(names[i].length <= LONGEST_NAME);
		require(i == 0 || names[i].length >= names[i - 1].length);
		for (size_t length = names[i].length + 1u; length < ARRAY_LENGTH(shorter); length++)
			shorter[length]++;
	}
}

enum command_field command_field_of(struct bytes name)
{
	if (name.length == 0 || name.length > LONGEST_NAME)
		return FIELD_COUNT;
	for (size_t i = shorter[name.length]; i < shorter[name.length + 1]; i++) {
		if (names[i].name[0] != (char)name.data[0])
			continue;
		if (memcmp(names[i].name, name.data, name.length) == 0)
			return names[i].field;
	}
	return FIELD_COUNT;
}

static void take_field(struct command *command, const struct element *element)
{
	enum command_field field;

	if (bytes_equal(element->name, command->first.name))
		command->duplicate = true;
	field = command_field_of(element->name);
	if (field == FIELD_COUNT)
		return;
	if (command->fields[field].type != 0)
		command->duplicate = true;
	command->fields[field] = *element;
}

must_check bool command_parse(struct bytes body, struct command *command)
{
	struct cursor cursor;
	struct element element;
	enum cursor_step step;

	memset(command, 0, sizeof(*command));
	if (!cursor_open(&cursor, body) || cursor_next(&cursor, &element) != CURSOR_ELEMENT)
		return false;
	command->body = body;
	command->first = element;
	if (!element_string(&element, &command->collection))
		command->collection = (struct bytes){0};
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT)
		take_field(command, &element);
	if (step != CURSOR_END)
		return false;
	if (!command_has(command, FIELD_DB) ||
	    !element_string(&command->fields[FIELD_DB], &command->database))
		command->database = (struct bytes){0};
	return true;
}
