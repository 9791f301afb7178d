/* OP_QUERY and OP_REPLY, as far as they still live: the first hello of older clients, commands to
 * servers before 5.1. */
#pragma once

#include "protocol/frame.h"

/* Views into the frame. */
struct legacy_query {
	struct frame_header header;
	int32_t flags;
	struct bytes namespace;
	int32_t skip;
	int32_t limit;
	struct bytes query;   /* as it stands there */
	struct bytes command; /* the query itself, or what `$query` or `query` wraps where that is
				 its first field */
	bool is_command;      /* the namespace ends in ".$cmd" */
};

must_check bool legacy_query_parse(struct bytes frame, struct legacy_query *query);

struct legacy_reply {
	struct frame_header header;
	int32_t flags;
	int64_t cursor_id;
	int32_t starting_from;
	int32_t returned;
	struct bytes document; /* the first one; empty where there is none */
};

must_check bool legacy_reply_parse(struct bytes frame, struct legacy_reply *reply);

#define LEGACY_REPLY_QUERY_FAILURE 2

/* Appends the query's frame with another command document (same wrapping). */
void legacy_query_replace(struct bytes frame, const struct legacy_query *query,
			  struct bytes command, struct buffer *out);
/* Appends an OP_REPLY frame with one document. */
void legacy_reply_append(struct buffer *out, int32_t response_to, int32_t flags,
			 struct bytes document);
/* The namespace that OP_INSERT, OP_UPDATE, OP_DELETE, OP_GET_MORE name; false where the frame is
 * broken or another opcode. */
must_check bool legacy_write_namespace(struct bytes frame, struct bytes *namespace);
