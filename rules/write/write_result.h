/* Puts the replies of several write commands together into the one that the client's single command
 * would have had.
 *
 * Statement j of a command stands for the client's statement `first` + j. */
#pragma once

#include "protocol/cursor.h"
#include "protocol/packet.h"

/* Of errors in one result: further ones come without their words. A client chooses how long they
 * are, and each of 100,000 statements may have one. */
#define WRITE_RESULT_ERRORS_MOST (16 << 20)

/* One entry of `upserted` or `writeErrors`: a view into a kept reply, or what was made for it. */
struct write_entry {
	size_t index; /* the client's */
	struct bytes document;
};

struct write_entries {
	struct write_entry *entries;
	size_t count;
};

struct write_result {
	int64_t n;
	int64_t modified;
	bool says_modified; /* update replies do */
	struct write_entries upserted;
	struct write_entries errors;
	struct buffer retried; /* int32 each: the statements that history answered */
	struct buffer *made;   /* errors of our own: each a document that `errors` looks into */
	size_t made_count;
	size_t bytes; /* of all entries */
	size_t views; /* entries that look into replies */
	bool bare;    /* nothing looks into the last reply: the next one takes its place */
	struct packet *replies; /* kept for the views; the last one lends its other fields */
	size_t reply_count;
};

/* Takes a reply (ok: 1) over. False where it can't be read; the reply then stays with the caller.
 */
must_check bool write_result_add(struct write_result *result, struct packet *reply, size_t first);
/* An error of ours for the client's statement `index`. */
void write_result_add_error(struct write_result *result, size_t index, int32_t code,
			    struct bytes message);
/* Takes an error away, since its statement is sent again. */
void write_result_forget_error(struct write_result *result, size_t index);
/* Appends the whole reply frame, fields in mongod's order. */
void write_result_append(const struct write_result *result, struct buffer *out,
			 int32_t response_to);
/* What mongod answers where the write concern is {w: 0} and a reply is wanted all the same. */
void write_result_append_nothing(const struct write_result *result, struct buffer *out,
				 int32_t response_to);
size_t write_result_memory(const struct write_result *result);
void write_result_fini(struct write_result *result);

/* The parts of any write's reply. Those that stand before the results; those that are put together
 * (n, nModified, upserted, writeErrors, retriedStmtIds). */
bool write_reply_is_head(const struct element *field);
bool write_reply_is_ours(const struct element *field);
/* `statements`: int32 each. Nothing where there are none. */
void write_reply_append_retried(struct buffer *out, struct bytes statements);
