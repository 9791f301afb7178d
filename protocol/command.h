/* A command's body read once: its name, and the fields that the program looks at. */
#pragma once

#include "protocol/cursor.h"

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

/* Views into the body. A field that is not there has type 0. */
struct command {
	struct bytes body;
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
