/* The bodies of replies that Spillway makes itself: native errors, never a made-up success. */
#pragma once

#include "protocol/cursor.h"

/* MongoDB's own codes (error_codes.err) that Spillway uses: X(constant, code, codeName). */
#define ERROR_CODES(X) \
	X(ERROR_BAD_VALUE, 2, "BadValue") \
	X(ERROR_FAILED_TO_PARSE, 9, "FailedToParse") \
	X(ERROR_UNAUTHORIZED, 13, "Unauthorized") \
	X(ERROR_TYPE_MISMATCH, 14, "TypeMismatch") \
	X(ERROR_OVERFLOW, 15, "Overflow") \
	X(ERROR_INVALID_LENGTH, 16, "InvalidLength") \
	X(ERROR_AUTHENTICATION_FAILED, 18, "AuthenticationFailed") \
	X(ERROR_ILLEGAL_OPERATION, 20, "IllegalOperation") \
	X(ERROR_LOCK_TIMEOUT, 24, "LockTimeout") \
	X(ERROR_NAMESPACE_NOT_FOUND, 26, "NamespaceNotFound") \
	X(ERROR_PATH_NOT_VIABLE, 28, "PathNotViable") \
	X(ERROR_CURSOR_NOT_FOUND, 43, "CursorNotFound") \
	X(ERROR_MAX_TIME_EXPIRED, 50, "MaxTimeMSExpired") \
	X(ERROR_INVALID_OPTIONS, 72, "InvalidOptions") \
	X(ERROR_INVALID_NAMESPACE, 73, "InvalidNamespace") \
	X(ERROR_WRITE_CONFLICT, 112, "WriteConflict") \
	X(ERROR_COMMAND_NOT_SUPPORTED, 115, "CommandNotSupported") \
	X(ERROR_DOCUMENT_VALIDATION_FAILURE, 121, "DocumentValidationFailure") \
	X(ERROR_READ_CONCERN_NOT_AVAILABLE_YET, 134, "ReadConcernMajorityNotAvailableYet") \
	X(ERROR_EXCEEDED_MEMORY_LIMIT, 146, "ExceededMemoryLimit") \
	X(ERROR_CANNOT_INDEX_PARALLEL_ARRAYS, 171, "CannotIndexParallelArrays") \
	X(ERROR_QUERY_PLAN_KILLED, 175, "QueryPlanKilled") \
	X(ERROR_CANNOT_BUILD_INDEX_KEYS, 201, "CannotBuildIndexKeys") \
	X(ERROR_INCOMPLETE_TRANSACTION_HISTORY, 217, "IncompleteTransactionHistory") \
	X(ERROR_MAX_SUB_PIPELINE_DEPTH, 232, "MaxSubPipelineDepthExceeded") \
	X(ERROR_CONVERSION_FAILURE, 241, "ConversionFailure") \
	X(ERROR_SNAPSHOT_UNAVAILABLE, 246, "SnapshotUnavailable") \
	X(ERROR_NO_SUCH_TRANSACTION, 251, "NoSuchTransaction") \
	X(ERROR_CHANGE_STREAM_FATAL, 280, "ChangeStreamFatalError") \
	X(ERROR_CHANGE_STREAM_HISTORY_LOST, 286, "ChangeStreamHistoryLost") \
	X(ERROR_DATA_CORRUPTION, 301, "DataCorruptionDetected") \
	X(ERROR_API_STRICT, 323, "APIStrictError") \
	X(ERROR_COLLECTION_UUID_MISMATCH, 361, "CollectionUUIDMismatch") \
	X(ERROR_TEMPORARILY_UNAVAILABLE, 365, "TemporarilyUnavailable") \
	X(ERROR_OBJECT_TOO_LARGE, 10334, "BSONObjectTooLarge") \
	X(ERROR_DUPLICATE_KEY, 11000, "DuplicateKey") \
	X(ERROR_BUFFER_TOO_LARGE, 13548, "Location13548") \
	X(ERROR_DISTINCT_TOO_LARGE, 17217, "Location17217") \
	X(ERROR_BSON_OBJECT_TOO_LARGE_TO_UPDATE, 17419, "Location17419") \
	X(ERROR_RETRY_OF_ANOTHER_KIND, 40608, "Location40608") \
	X(ERROR_NO_MATCHING_ELEMENT, 51246, "Location51246") \
	X(ERROR_NO_OBJECT_TO_MERGE, 5911200, "Location5911200")

enum error_code {
#define ERROR_VALUE(constant, code, name) constant = (code),
	ERROR_CODES(ERROR_VALUE)
#undef ERROR_VALUE
};

/* codeName as mongod spells it. */
const char *error_name(enum error_code code);
/* The same of any code; NULL: it is none of these. */
const char *error_find_name(int64_t code);

/* Appends the body `{ok: 0.0, errmsg, code, codeName}` (and errorLabels: [label] where label is not
 * NULL). */
void reply_error_body(struct buffer *out, enum error_code code, const char *message,
		      const char *label);
/* Its fields, into a body that is open. */
void reply_error_fields(struct buffer *out, enum error_code code, const char *message,
			const char *label);
/* The body of a failed OP_QUERY find or OP_GET_MORE: `{$err, code, ok: 0.0}`. */
void reply_old_error_body(struct buffer *out, enum error_code code, const char *message);
/* Appends a whole OP_MSG frame with that body. */
void reply_error(struct buffer *out, int32_t response_to, enum error_code code,
		 const char *message);

/* What a server's reply says at its top level: views into the reply. All zeros except `n`, which is
 * -1, if the reply can't be read. */
struct reply_summary {
	bool readable;
	bool ok;
	int64_t code;                /* 0 where there is none */
	struct bytes message;        /* errmsg; without data where there is none */
	struct bytes operation_time; /* the 8 bytes of the Timestamp; empty where there is none */
	struct bytes cluster_time;   /* the $clusterTime document; empty where there is none */
	struct bytes cursor;         /* the cursor document; empty where there is none */
	struct bytes write_errors;   /* the array; empty where there is none */
	int64_t n;                   /* -1 where there is none */
};

struct reply_summary reply_summarise(struct bytes body);

/* What a reply's cursor document says: views into it. */
struct reply_cursor {
	struct bytes
		batch;     /* the first or the next; without data where there is none, or several */
	struct element id; /* type 0: none */
	struct element time; /* atClusterTime, of a snapshot; the same */
};

/* All empty where the document can't be read. */
struct reply_cursor reply_read_cursor(struct bytes document);
