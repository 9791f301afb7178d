/* A part of sequences: fetches the overflow that a merge wants, one query a target, and the rest of
 * its cursor. */
#pragma once

#include "rules/merge/merge.h"
#include "rules/sequence/sequence_inner.h"

/* The most that is kept for one document: small elements in overflow documents of their own take
 * several times the bytes that they have in the array. */
#define FETCH_MOST_OF_ONE (4 * (size_t)FRAME_MAX_LENGTH)

struct fetch {
	struct merge *merge;
	const struct ruled_namespace *namespace;
	size_t target;
	int64_t cursor_id;         /* 0: none is open */
	uint64_t asked;            /* when, for the count */
	struct bytes read_concern; /* instead of the client's; empty: the client's */
	struct buffer *kept;       /* frames of replies that the merge looks into */
	size_t kept_count;
	size_t kept_bytes;
	size_t guess;         /* of the bytes that the next reply brings */
	size_t most;          /* that may be kept while more is to come; fetch_init sets no limit */
	struct packet failed; /* the reply that says why, after FETCH_FAILED */
};

enum fetch_outcome {
	FETCH_SEND,     /* sequence->output goes to the server */
	FETCH_COMPLETE, /* nothing is wanted any more */
	FETCH_FAILED,   /* the server said no: `failed` */
	FETCH_TIMEOUT,  /* the client's maxTimeMS is used up */
	FETCH_BROKEN,   /* what came can't be read */
	FETCH_TOO_MUCH, /* `most` is passed; the overflow's cursor may be open */
};

void fetch_init(struct fetch *fetch, const struct ruled_namespace *namespace);
void fetch_fini(struct fetch *fetch);
/* Takes the reply to the last query (NULL: none was sent yet, or documents were replaced meanwhile)
 * and goes on. */
enum fetch_outcome fetch_next(struct fetch *fetch, struct sequence *sequence,
			      const struct sequence_input *input, struct packet *reply);
/* Ends the sequence after anything but SEND and COMPLETE. */
enum sequence_outcome fetch_fail(struct fetch *fetch, struct sequence *sequence,
				 enum fetch_outcome outcome);
