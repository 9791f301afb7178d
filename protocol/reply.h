/* The bodies of replies that Spillway makes itself: native errors, never a made-up success. */
#pragma once

#include "protocol/cursor.h"

/* MongoDB's own codes (error_codes.err) that Spillway uses. */
enum error_code {
	ERROR_UNAUTHORIZED = 13,
	ERROR_BAD_VALUE = 2,
	ERROR_FAILED_TO_PARSE = 9,
	ERROR_TYPE_MISMATCH = 14,
	ERROR_OVERFLOW = 15,
	ERROR_INVALID_LENGTH = 16,
	ERROR_NAMESPACE_NOT_FOUND = 26,
	ERROR_MAX_TIME_EXPIRED = 50,
	ERROR_INVALID_OPTIONS = 72,
	ERROR_INVALID_NAMESPACE = 73,
	ERROR_WRITE_CONFLICT = 112,
	ERROR_COMMAND_NOT_SUPPORTED = 115,
	ERROR_DOCUMENT_VALIDATION_FAILURE = 121,
	ERROR_READ_CONCERN_NOT_AVAILABLE_YET = 134,
	ERROR_EXCEEDED_MEMORY_LIMIT = 146,
	ERROR_CANNOT_INDEX_PARALLEL_ARRAYS = 171,
	ERROR_QUERY_PLAN_KILLED = 175,
	ERROR_CANNOT_BUILD_INDEX_KEYS = 201,
	ERROR_INCOMPLETE_TRANSACTION_HISTORY = 217,
	ERROR_MAX_SUB_PIPELINE_DEPTH = 232,
	ERROR_CONVERSION_FAILURE = 241,
	ERROR_API_STRICT = 323,
	ERROR_COLLECTION_UUID_MISMATCH = 361,
	ERROR_TEMPORARILY_UNAVAILABLE = 365,
	ERROR_OBJECT_TOO_LARGE = 10334,
	ERROR_DUPLICATE_KEY = 11000,
	ERROR_BUFFER_TOO_LARGE = 13548,
	ERROR_DISTINCT_TOO_LARGE = 17217,
	ERROR_BSON_OBJECT_TOO_LARGE_TO_UPDATE = 17419,
	ERROR_RETRY_OF_ANOTHER_KIND = 40608,
};

/* codeName as mongod spells it. */
const char *error_name(enum error_code code);

/* Appends the body `{ok: 0.0, errmsg, code, codeName}` (and errorLabels: [label] where label is not
 * NULL). */
void reply_error_body(struct buffer *out, enum error_code code, const char *message,
		      const char *label);
/* The body of a failed OP_QUERY find or OP_GET_MORE: `{$err, code, ok: 0.0}`. */
void reply_old_error_body(struct buffer *out, enum error_code code, const char *message);
/* Appends a whole OP_MSG frame with that body. */
void reply_error(struct buffer *out, int32_t response_to, enum error_code code,
		 const char *message);

/* What a server's reply says at its top level. */
struct reply_summary {
	bool ok;
	int64_t code;                /* 0 where there is none */
	struct bytes operation_time; /* the 8 bytes of the Timestamp; empty where there is none */
	struct bytes cluster_time;   /* the $clusterTime document; empty where there is none */
	struct bytes cursor;         /* the cursor document; empty where there is none */
	struct bytes write_errors;   /* the array; empty where there is none */
	int64_t n;                   /* -1 where there is none */
};

must_check bool reply_summarise(struct bytes body, struct reply_summary *summary);

/* What a reply's cursor document says: views into it. */
struct reply_cursor {
	struct bytes batch;  /* the first or the next; without data where there is none */
	struct element id;   /* type 0: none */
	struct element time; /* atClusterTime, of a snapshot; the same */
};

/* All empty where the document can't be read. */
struct reply_cursor reply_read_cursor(struct bytes document);
