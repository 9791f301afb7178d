/* A command's body read once: its kind, and the fields that the program looks at. */
#pragma once

#include "protocol/cursor.h"

/* The commands that Spillway tells apart. */
enum command_kind {
	COMMAND_OTHER,
	COMMAND_AGGREGATE,
	COMMAND_APPLY_OPS,
	COMMAND_BULK_WRITE,
	COMMAND_CLONE_AS_CAPPED,
	COMMAND_COLL_MOD,
	COMMAND_COUNT,
	COMMAND_CREATE,
	COMMAND_CREATE_INDEXES,
	COMMAND_DB_STATS,
	COMMAND_DELETE,
	COMMAND_DISTINCT,
	COMMAND_DROP,
	COMMAND_DROP_DATABASE,
	COMMAND_DROP_INDEXES,
	COMMAND_END_TRANSACTION, /* commitTransaction, abortTransaction */
	COMMAND_EXPLAIN,
	COMMAND_FIND,
	COMMAND_FIND_AND_MODIFY,
	COMMAND_GET_MORE,
	COMMAND_HELLO,
	COMMAND_INSERT,
	COMMAND_LIST_COLLECTIONS,
	COMMAND_MAP_REDUCE,
	COMMAND_ON_COLLECTION, /* concerns a collection, and no document or index in it */
	COMMAND_ON_OTHERS,     /* its first value names a user, a role, or a whole namespace */
	COMMAND_RENAME,
	COMMAND_RENAME_INSIDE, /* internalRenameIfOptionsAndIndexesMatch: a rename in two fields */
	COMMAND_SIGN_IN,       /* after it the connection may be another user's */
	COMMAND_UPDATE,
	COMMAND_KINDS, /* their number */
};

enum command_trait {
	COMMAND_ASKS_RIGHTS = 1 << 0,     /* mongod surely asks whether the user may run it */
	COMMAND_REACHES_FURTHER = 1 << 1, /* to namespaces that its first value does not name */
	COMMAND_EXPLAINABLE = 1 << 2, /* explain tells the error that the command itself meets */
};

struct command_name {
	const char *text; /* of a name that is not in the table: "an unknown command" */
	uint8_t length;
	uint8_t kind;
	uint8_t traits;
};

/* A row of the table of commands; never NULL. */
const struct command_name *command_named(struct bytes name);

enum command_field {
	FIELD_DB,
	FIELD_LSID,
	FIELD_TXN_NUMBER,
	FIELD_AUTOCOMMIT,
	FIELD_START_TRANSACTION,
	FIELD_READ_CONCERN,
	FIELD_WRITE_CONCERN,
	FIELD_MAX_TIME,
	FIELD_READ_PREFERENCE,
	FIELD_CLUSTER_TIME,
	FIELD_API_VERSION,
	FIELD_API_STRICT,
	FIELD_API_DEPRECATION,
	FIELD_COMMENT,
	FIELD_COLLATION,
	FIELD_LET,
	FIELD_FILTER,
	FIELD_QUERY,
	FIELD_PROJECTION,
	FIELD_FIELDS,
	FIELD_SORT,
	FIELD_HINT,
	FIELD_MIN,
	FIELD_MAX,
	FIELD_BATCH_SIZE,
	FIELD_TAILABLE,
	FIELD_RETURN_KEY,
	FIELD_COLLECTION,
	FIELD_UPDATES,
	FIELD_DOCUMENTS,
	FIELD_DELETES,
	FIELD_ORDERED,
	FIELD_STMT_ID,
	FIELD_STMT_IDS,
	FIELD_UPDATE,
	FIELD_REMOVE,
	FIELD_UPSERT,
	FIELD_PIPELINE,
	FIELD_KEY,
	FIELD_INDEXES,
	FIELD_VIEW_ON,
	FIELD_CAPPED,
	FIELD_TIME_SERIES,
	FIELD_VALIDATOR,
	FIELD_TO,
	FIELD_OUT,
	FIELD_NS_INFO,
	FIELD_OPS,
	FIELD_ERRORS_ONLY,
	FIELD_COUNT,
};

/* Views into the body. A field that is not there has type 0, and a session's number, autocommit or
 * startTransaction also where it is null. */
struct command {
	struct bytes body;
	enum command_kind kind;
	struct element first;    /* name and value of the command */
	struct bytes collection; /* the first value where it is a string */
	struct bytes database;   /* $db where it is a string */
	struct element fields[FIELD_COUNT];
	bool duplicate; /* a field that the program looks at, the command's own name too, stands
			   twice: nobody may guess which one counts */
};

/* The field of this name; FIELD_COUNT where the program looks at none. */
enum command_field command_field_of(struct bytes name);

/* False where the body's top level is broken: it holds no more than what came before. */
must_check bool command_parse(struct bytes body, struct command *command);

static inline bool command_has(const struct command *command, enum command_field field)
{
	return command->fields[field].type != 0;
}
