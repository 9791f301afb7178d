/* A command's body read once. */
#include "protocol/command.h"

#define COMMAND(text, kind, traits) \
	{ \
		text, sizeof(text) - 1, kind, traits \
	}

#define RIGHTS COMMAND_ASKS_RIGHTS
#define FURTHER COMMAND_REACHES_FURTHER
#define EXPLAINS COMMAND_EXPLAINABLE

static const struct command_name commands[] = {
	COMMAND("abortTransaction", COMMAND_END_TRANSACTION, 0),
	COMMAND("aggregate", COMMAND_AGGREGATE, RIGHTS | FURTHER | EXPLAINS),
	COMMAND("applyOps", COMMAND_APPLY_OPS, RIGHTS | FURTHER),
	COMMAND("authenticate", COMMAND_SIGN_IN, 0),
	COMMAND("bulkWrite", COMMAND_BULK_WRITE, FURTHER),
	COMMAND("cloneCollectionAsCapped", COMMAND_CLONE_AS_CAPPED, RIGHTS | FURTHER),
	COMMAND("collMod", COMMAND_COLL_MOD, RIGHTS | FURTHER),
	COMMAND("collStats", COMMAND_ON_COLLECTION, 0),
	COMMAND("collstats", COMMAND_ON_COLLECTION, 0),
	COMMAND("commitTransaction", COMMAND_END_TRANSACTION, 0),
	COMMAND("compact", COMMAND_ON_COLLECTION, RIGHTS),
	COMMAND("convertToCapped", COMMAND_OTHER, RIGHTS),
	COMMAND("count", COMMAND_COUNT, RIGHTS | EXPLAINS),
	COMMAND("create", COMMAND_CREATE, RIGHTS | FURTHER),
	COMMAND("createIndexes", COMMAND_CREATE_INDEXES, RIGHTS),
	COMMAND("createRole", COMMAND_ON_OTHERS, 0),
	COMMAND("createSearchIndexes", COMMAND_OTHER, 0),
	COMMAND("createUser", COMMAND_ON_OTHERS, 0),
	COMMAND("dataSize", COMMAND_ON_OTHERS, 0),
	COMMAND("datasize", COMMAND_ON_OTHERS, 0),
	COMMAND("dbStats", COMMAND_DB_STATS, RIGHTS | FURTHER),
	COMMAND("dbstats", COMMAND_DB_STATS, RIGHTS | FURTHER),
	COMMAND("delete", COMMAND_DELETE, RIGHTS | EXPLAINS),
	COMMAND("deleteIndexes", COMMAND_DROP_INDEXES, RIGHTS),
	COMMAND("distinct", COMMAND_DISTINCT, RIGHTS | EXPLAINS),
	COMMAND("drop", COMMAND_DROP, RIGHTS),
	COMMAND("dropDatabase", COMMAND_DROP_DATABASE, RIGHTS | FURTHER),
	COMMAND("dropIndexes", COMMAND_DROP_INDEXES, RIGHTS),
	COMMAND("dropRole", COMMAND_ON_OTHERS, 0),
	COMMAND("dropSearchIndex", COMMAND_OTHER, 0),
	COMMAND("dropUser", COMMAND_ON_OTHERS, 0),
	COMMAND("explain", COMMAND_EXPLAIN, RIGHTS | FURTHER),
	COMMAND("find", COMMAND_FIND, RIGHTS | EXPLAINS),
	COMMAND("findAndModify", COMMAND_FIND_AND_MODIFY, RIGHTS | EXPLAINS),
	COMMAND("findandmodify", COMMAND_FIND_AND_MODIFY, RIGHTS | EXPLAINS),
	COMMAND("getMore", COMMAND_GET_MORE, 0),
	COMMAND("grantPrivilegesToRole", COMMAND_ON_OTHERS, 0),
	COMMAND("grantRolesToRole", COMMAND_ON_OTHERS, 0),
	COMMAND("grantRolesToUser", COMMAND_ON_OTHERS, 0),
	COMMAND("group", COMMAND_OTHER, 0),
	COMMAND("hello", COMMAND_HELLO, 0),
	COMMAND("insert", COMMAND_INSERT, RIGHTS),
	COMMAND("internalRenameIfOptionsAndIndexesMatch", COMMAND_RENAME_INSIDE, RIGHTS | FURTHER),
	COMMAND("isMaster", COMMAND_HELLO, 0),
	COMMAND("ismaster", COMMAND_HELLO, 0),
	COMMAND("killCursors", COMMAND_ON_COLLECTION, 0),
	COMMAND("listCollections", COMMAND_LIST_COLLECTIONS, FURTHER),
	COMMAND("listIndexes", COMMAND_ON_COLLECTION, 0),
	COMMAND("listSearchIndexes", COMMAND_OTHER, 0),
	COMMAND("logout", COMMAND_SIGN_IN, 0),
	COMMAND("mapReduce", COMMAND_MAP_REDUCE, RIGHTS | FURTHER),
	COMMAND("mapreduce", COMMAND_MAP_REDUCE, RIGHTS | FURTHER),
	COMMAND("moveChunk", COMMAND_OTHER, 0),
	COMMAND("planCacheClear", COMMAND_ON_COLLECTION, 0),
	COMMAND("planCacheClearFilters", COMMAND_ON_COLLECTION, 0),
	COMMAND("planCacheListFilters", COMMAND_ON_COLLECTION, 0),
	COMMAND("planCacheSetFilter", COMMAND_ON_COLLECTION, 0),
	COMMAND("reIndex", COMMAND_ON_COLLECTION, RIGHTS),
	COMMAND("renameCollection", COMMAND_RENAME, RIGHTS | FURTHER),
	COMMAND("reshardCollection", COMMAND_OTHER, 0),
	COMMAND("revokePrivilegesFromRole", COMMAND_ON_OTHERS, 0),
	COMMAND("revokeRolesFromRole", COMMAND_ON_OTHERS, 0),
	COMMAND("revokeRolesFromUser", COMMAND_ON_OTHERS, 0),
	COMMAND("rolesInfo", COMMAND_ON_OTHERS, 0),
	COMMAND("saslContinue", COMMAND_SIGN_IN, 0),
	COMMAND("saslStart", COMMAND_SIGN_IN, 0),
	COMMAND("shardCollection", COMMAND_OTHER, 0),
	COMMAND("update", COMMAND_UPDATE, RIGHTS | EXPLAINS),
	COMMAND("updateRole", COMMAND_ON_OTHERS, 0),
	COMMAND("updateSearchIndex", COMMAND_OTHER, 0),
	COMMAND("updateUser", COMMAND_ON_OTHERS, 0),
	COMMAND("usersInfo", COMMAND_ON_OTHERS, 0),
	COMMAND("validate", COMMAND_ON_COLLECTION, RIGHTS),
};

static const struct command_name unknown = COMMAND("an unknown command", COMMAND_OTHER, 0);

struct field_name {
	const char *name;
	uint8_t length;
	uint8_t field;
};

#define NAME(text, field) \
	{ \
		text, sizeof(text) - 1, field \
	}
#define LONGEST_FIELD 20

/* Sorted by length, so that a name is compared with few others; this is checked at the start. */
static const struct field_name fields[] = {
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

/* How many names are shorter than that: those of a length stand from here to the next one's. */
static uint8_t shorter[LONGEST_FIELD + 2];

/* Commands by the hash of their names, which have four letters at least. The hash decides for every
 * request, so it is cheap; the factor was chosen because few of the names share a slot. */
#define SLOTS 128
static const struct command_name *slots[SLOTS], *next_in_slot[ARRAY_LENGTH(commands)];

static inline size_t slot_of(struct bytes name)
{
	return ((uint32_t)load_int32(name.data) + name.data[name.length - 1]) * 0xb1f7792fu /
	       (UINT32_MAX / SLOTS + 1);
}

__attribute__((constructor)) static void fill_slots(void)
{
	for (size_t i = ARRAY_LENGTH(commands); i-- > 0;) { /* short names come first in a slot */
		const struct command_name **slot = &slots[slot_of(bytes_of(commands[i].text))];

		require(commands[i].length >= 4);
		next_in_slot[i] = *slot;
		*slot = &commands[i];
	}
}

__attribute__((constructor)) static void count_shorter(void)
{
	for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
		require(fields[i].length <= LONGEST_FIELD);
		require(i == 0 || fields[i].length >= fields[i - 1].length);
		for (size_t length = fields[i].length + 1u; length < ARRAY_LENGTH(shorter);
		     length++)
			shorter[length]++;
	}
}

const struct command_name *command_named(struct bytes name)
{
	if (name.length < 4)
		return &unknown;
	for (const struct command_name *at = slots[slot_of(name)]; at;
	     at = next_in_slot[at - commands])
		if (at->length == name.length && bytes_same(at->text, name.data, name.length))
			return at;
	return &unknown;
}

enum command_field command_field_of(struct bytes name)
{
	if (name.length == 0 || name.length > LONGEST_FIELD)
		return FIELD_COUNT;
	for (size_t i = shorter[name.length]; i < shorter[name.length + 1]; i++)
		if (bytes_same(fields[i].name, name.data, name.length))
			return fields[i].field;
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

/* Of a session's fields null is none, and mongod runs the command without them. */
static void drop_nothing(struct command *command)
{
	static const enum command_field optional[] = {FIELD_TXN_NUMBER, FIELD_AUTOCOMMIT,
						      FIELD_START_TRANSACTION};

	for (size_t i = 0; i < ARRAY_LENGTH(optional); i++)
		if (element_is_nothing(&command->fields[optional[i]]))
			command->fields[optional[i]] = (struct element){0};
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
	command->kind = command_named(element.name)->kind;
	command->first = element;
	if (!element_string(&element, &command->collection))
		command->collection = (struct bytes){0};
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT)
		take_field(command, &element);
	if (step != CURSOR_END)
		return false;
	drop_nothing(command);
	if (!command_has(command, FIELD_DB) ||
	    !element_string(&command->fields[FIELD_DB], &command->database))
		command->database = (struct bytes){0};
	return true;
}
