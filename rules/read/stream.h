/* What the files of exact change streams share (sequence_stream.c). */
#pragma once

#include "rules/read/read_inner.h"
#include "rules/stream/event.h"
#include "rules/stream/known.h"

/* A document in an event. */
enum stream_image {
	STREAM_FULL,   /* fullDocument */
	STREAM_BEFORE, /* fullDocumentBeforeChange */
	STREAM_ARRAY,  /* none of the event's: the array that its update has to tell whole */
	STREAM_IMAGES,
};

struct stream_document {
	struct bytes stored; /* it has what is not for clients; else without data */
	size_t part;         /* whose merge has it */
	size_t index;        /* in the merge, or SIZE_MAX */
	bool gone;           /* it was looked up again, and is not there any more */
};

/* An event of the reply. */
struct stream_item {
	struct event event;
	const struct ruled_namespace *namespace; /* the exact rule's; NULL: it comes as it is */
	bool drops;                              /* clients don't see it */
	bool earlier;  /* of a transaction, before the reply's events: it tells of states */
	bool changed;  /* its update names what clients see otherwise, or may see so */
	bool plain;    /* it names nothing but arrays: otherwise only if one has a state */
	size_t known;  /* the place of what is known of its document, and 1; 0: to be found */
	bool needs;    /* and so the array's state */
	bool advanced; /* its task is filled */
	struct change_task task;
	size_t change, change_length; /* in `changes`: the update as clients see it */
	struct stream_document documents[STREAM_IMAGES];
	struct element whole; /* what its update has to tell whole; type 0: nothing */
	struct buffer stored; /* a document of it */
};

/* What is asked of one collection. */
struct stream_part {
	const struct ruled_namespace *namespace;
	struct fetch fetch;
	bool fetching;
	struct buffer concern; /* of a snapshot; empty: none */
};

/* A document that was rewritten meanwhile. */
struct stream_stop {
	size_t item;
	enum stream_image image;
	size_t tried; /* the item that `attempts` counts for */
	int attempts; /* to look it up */
	bool unclear; /* its update can't be told */
};

/* What the client has put behind $changeStream. */
struct stream_stages {
	struct bytes list;      /* an array; empty: there are none */
	struct bytes let;       /* the values of variables, {v: {v: <value>}}; empty: none */
	struct bytes collation; /* the same */
};

struct stream {
	struct stream_item *items;
	size_t count;
	struct stream_part *parts;
	size_t part_count;
	struct knowledge knowledge;
	struct buffer changes;
	struct buffer events; /* as the client sees them, one behind the other */
	struct stream_stages stages;
	struct buffer passed; /* events that have gone through the stages */
	size_t sent, sending; /* of `events`: bytes that went through, and go through now */
	size_t told;          /* the first item that is not in `events` yet, nor was */
	size_t from;          /* the first item behind which states are known */
	size_t asking;        /* the part that is asked */
	size_t first;         /* the first item of the reply: those before are `earlier` */
	bool behind;          /* it is asked for states behind a transaction */
	size_t asked;         /* of the knowledge */
	size_t whole_bytes;   /* of the arrays that are told whole, roughly */
	size_t settled;       /* so many of the items are */
	struct stream_stop stop;
	bool images;         /* documents of updates are those of the time of the event */
	bool touched;        /* the reply does not pass as it is, whatever is known */
	struct packet *kept; /* replies that items look into */
	size_t kept_count;
};

enum stream_step {
	STREAM_BEGIN,
	STREAM_PIPELINE_ASKED,
	STREAM_PIPELINE_KILLED,
	STREAM_ASKED,
	STREAM_STATES_ASKED,
	STREAM_EARLIER_ASKED,
	STREAM_EARLIER_KILLED,
	STREAM_ARRAY_ASKED,
	STREAM_OVERFLOW_ASKED,
	STREAM_AGAIN_ASKED,
	STREAM_STAGES_ASKED,
	STREAM_KILL_ASKED,
};

/* stream_items.c */

/* Puts events in front that came before those of the reply, as far as they are older. False where
 * one can't be read. */
must_check bool stream_take_earlier_batch(struct sequence *sequence, struct bytes batch,
					  const struct ruled_namespace *namespace);
/* The resume token of an event, or of a cursor: tokens stand in the order of the events. */
int stream_compare_tokens(struct bytes one, struct bytes other);
/* An event that carries what only its stream's getMore knows. */
bool stream_is_marked(const struct element *event);
/* Reads the events of a batch. False where one can't be read. */
must_check bool stream_take_batch(struct sequence *sequence, struct bytes batch);
/* NULL: nothing is known of the item's document. */
struct known *stream_find_known(struct stream *stream, struct stream_item *item);

enum stream_settled {
	STREAM_SETTLED,
	STREAM_WANTS_ARRAY, /* of the item `settled`, as it is stored: change_unknown */
	STREAM_EDITED,      /* the item `settled` is an edit in place */
	STREAM_UNCLEAR,     /* what the item `settled` means can't be told */
};

/* stream_settle.c: what clients see of each item. */
enum stream_settled stream_settle(struct stream *stream);
/* Puts what fullDocuments need into merges. False: the item of `stop` is damaged. */
must_check bool stream_open_merges(struct stream *stream);

/* An array of the item `settled` as a write has set it: what it was before the item's transaction,
 * and what the transaction has pushed since. False where that can't be told. */
must_check bool stream_set_array(struct stream *stream, struct change_array *array,
				 const struct element *before);

/* stream_states.c */

enum sequence_outcome stream_ask_states(struct sequence *sequence,
					const struct sequence_input *input);
enum sequence_outcome stream_take_states(struct sequence *sequence,
					 const struct sequence_input *input);
enum sequence_outcome stream_ask_earlier(struct sequence *sequence,
					 const struct sequence_input *input);
enum sequence_outcome stream_take_earlier(struct sequence *sequence,
					  const struct sequence_input *input);
/* Of the snapshot behind this Timestamp, or just before it. */
void stream_write_snapshot(struct buffer *concern, const struct element *time, bool before);
enum sequence_outcome stream_fail_snapshot(struct sequence *sequence,
					   const struct stream_item *item, struct packet *reply);

/* sequence_stream.c */

#define STREAM_UNCLEAR_WORDS \
	"the event is no client's and no mover's (the document was adopted, or written straight " \
	"at mongod); read the collection anew and open a new change stream"
#define STREAM_EDITED_WORDS \
	"its array does not fit into a document and was edited in place, which exact change " \
	"streams can't tell; read the collection anew and open a new change stream"
#define STREAM_NOT_WHOLE_WORDS \
	"it writes a field with several arrays in it, and their overflow is larger than 8 MB or " \
	"gone by now; read the collection anew and open a new change stream"
#define STREAM_TOO_OLD_WORDS \
	"the state of its array at that time is not known any more; read the collection anew and " \
	"open a new change stream (mongod's minSnapshotHistoryWindowInSeconds says how far a " \
	"stream may lag behind)"

/* States are known. */
enum sequence_outcome stream_go_on(struct sequence *sequence, const struct sequence_input *input);
/* Ends with an error, once the stream's cursor is closed. */
enum sequence_outcome stream_fail(struct sequence *sequence, enum error_code code, const char *why);
enum sequence_outcome stream_fail_item(struct sequence *sequence, const struct stream_item *item,
				       enum error_code code, const char *why);
enum sequence_outcome stream_end_failed(struct sequence *sequence);
/* The same with the server's error to a command of ours. */
enum sequence_outcome stream_pass_error(struct sequence *sequence, struct packet *reply);
/* Closes the stream's cursor. */
enum sequence_outcome stream_send_kill(struct sequence *sequence, enum stream_step step);
/* Keeps the reply until the end. */
struct packet *stream_keep(struct stream *stream, struct packet *reply);

/* stream_reply.c */

/* Bytes of events that go through the stages at once. */
#define STREAM_PART_MOST (4 << 20)
/* Writes `events`, of the items that were not told yet: all, or a part of them for the stages.
 * False: the document of the item of `stop` has another generation by now. */
must_check bool stream_write_events(struct stream *stream);
/* Writes the whole reply with these. */
enum sequence_outcome stream_write_reply(struct sequence *sequence);

/* stream_stages.c: the client's stages. mongod runs them on the events as clients see them. */

/* The command's pipeline has stages behind the first one. */
bool stream_has_stages(const struct sequence *sequence);
/* Its events have documents of their time. */
bool stream_has_images(const struct sequence *sequence);
/* It is one of a database or the cluster whose documents have to be there: mongod leaves out events
 * of overflow. */
bool stream_leaves_out(const struct sequence *sequence);
/* Asks mongod whether it takes the client's pipeline; then the stream is opened without its stages,
 * which each event carries as these fields. */
#define STREAM_STAGES NAME_STATE "/stages"
#define STREAM_LET NAME_STATE "/let"
#define STREAM_COLLATION NAME_STATE "/collation"
/* A field of events whose fullDocument is no looked up one. */
#define STREAM_IMAGE_MARK NAME_STATE "/images"
enum sequence_outcome stream_ask_pipeline(struct sequence *sequence);
enum sequence_outcome stream_take_pipeline(struct sequence *sequence, struct packet *reply);
enum sequence_outcome stream_open_marked(struct sequence *sequence);
/* Runs the stages on `events`; then come those that were not told yet, or the reply is written. */
enum sequence_outcome stream_ask_stages(struct sequence *sequence,
					const struct sequence_input *input);
enum sequence_outcome stream_take_stages(struct sequence *sequence,
					 const struct sequence_input *input);
/* Writes the events, and goes on with them. */
enum sequence_outcome stream_answer(struct sequence *sequence, const struct sequence_input *input);
/* All are there: the reply. */
enum sequence_outcome stream_end(struct sequence *sequence);

size_t stream_part_of(struct stream *stream, const struct ruled_namespace *namespace);
/* Another one of this collection. */
size_t stream_add_part(struct stream *stream, const struct ruled_namespace *namespace);
struct stream *stream_new(void);
void stream_free(struct stream *stream);
/* What it holds, in bytes, roughly. */
size_t stream_memory(const struct stream *stream);
/* A rule of the collection says so. */
bool stream_is_exact(const struct ruled_namespace *namespace);
/* The cursor of a reply is a change stream's. */
bool stream_is(struct bytes cursor);
/* Its events are not those of the server: it is exact, or has outlived the rules that it was opened
 * under, and ends. `batch`: of a getMore. */
bool stream_is_told(const struct sequence *sequence, struct bytes batch);
/* Takes the reply to the client's command. */
enum sequence_outcome stream_take(struct sequence *sequence, const struct sequence_input *input);
enum sequence_outcome stream_resume(struct sequence *sequence, const struct sequence_input *input);
