/* OP_MSG (specification: message/OP_MSG.md): its sections read from a whole frame, its prefix, and
 * written. */
#pragma once

#include "protocol/frame.h"

enum message_flag {
	MESSAGE_CHECKSUM_PRESENT = 1 << 0,
	MESSAGE_MORE_TO_COME = 1 << 1,
	MESSAGE_EXHAUST_ALLOWED = 1 << 16,
};

#define MESSAGE_MAX_SEQUENCES 2 /* as mongod */

/* A section of kind 1: `documents` are BSON documents one behind the other, all of whose lengths
 * are checked. */
struct document_sequence {
	struct bytes identifier;
	struct bytes documents;
	size_t count;
};

/* Views into the frame. */
struct message {
	struct frame_header header;
	uint32_t flags;
	struct bytes body; /* its top level is not checked yet: read it with a cursor */
	struct document_sequence sequences[MESSAGE_MAX_SEQUENCES];
	size_t sequence_count;
};

/* Whether there are required flags that are not known: mongod closes the connection. */
must_check bool message_flags_unknown(uint32_t flags);

/* Reads a whole OP_MSG frame (header included). False where mongod would refuse its form: no or two
 * bodies, more than two sequences, two of one name or of a name that the body has too, a kind that
 * is not known, unknown required flags, lengths that don't add up. The checksum is not verified. */
must_check bool message_parse(struct bytes frame, struct message *message);

/* The body of a whole OP_MSG frame that has nothing else: no flags, no sequence, no checksum. False
 * of all others. Its length is for who opens it to check. */
must_check bool message_lone_body(struct bytes frame, struct bytes *body);

/* The documents of a sequence in turn: advances `documents`; false at its end. */
must_check bool message_next_document(struct bytes *documents, struct bytes *document);

/* What the first bytes of a frame tell. */
enum prefix_state {
	PREFIX_KNOWN,   /* name (and collection) are there */
	PREFIX_PARTIAL, /* more bytes are needed, of a frame that goes on: some 600 are always
			   enough */
	PREFIX_LATE,    /* the body comes behind a document sequence, or a flag or section is there
			   that nobody knows: the frame must be whole to be understood */
	PREFIX_INVALID,
};

#define MESSAGE_LONGEST_NAME 255 /* of a command, and of a collection as mongod limits it */

struct message_prefix {
	uint32_t flags;
	struct bytes name; /* of the body's first element: the command; empty where it is too long
			      to be one */
	uint8_t type;      /* of its value */
	struct bytes collection; /* its value where that is a string and not too long, else empty */
};

/* `bytes` begins with the header of an OP_MSG frame and may end anywhere, behind the frame too. */
must_check enum prefix_state message_prefix(struct bytes bytes, struct message_prefix *prefix);

/* Writing: begin, then the body by writer.h and maybe sequences, then end, which stores the length.
 * No checksum is ever written. `start` is the frame's place in the buffer, as begin returns it. */
size_t message_begin(struct buffer *buffer, int32_t request_id, int32_t response_to,
		     uint32_t flags);
void message_begin_body(struct buffer *buffer); /* the kind byte; the body document follows */
size_t message_begin_sequence(struct buffer *buffer, struct bytes identifier);
void message_end_sequence(struct buffer *buffer, size_t start);
void message_end(struct buffer *buffer, size_t start);
