/* What waits for the mover: one entry a document, merged from notes, each with the time when it is
 * due. Any thread.
 *
 * Times are monotonic milliseconds, given by the caller. */
#pragma once

#include "proxy/pace/pacer.h"
#include "proxy/upstream/target.h"
#include "rules/rule/note.h"

#define MOVER_QUEUE_MAX 100000
#define MOVER_QUEUE_BYTES (64 << 20) /* of `_id`s, filters and collations, which clients choose */
#define MOVER_TAKE_MAX 500
#define MOVER_NO_OVERLAP INT64_MAX

/* Tells whoever asked for a move at once. */
struct mover_waiter {
	void (*done)(void *context, bool moved);
	void *context;
	struct mover_waiter *next;
};

/*   WAITING ──► TAKEN ──► TOUCHED
 *      ▲          │          │
 *      └──────────┴──────────┴───► gone, if nothing more is to be done */
enum mover_work_state {
	WORK_WAITING, /* in the heap */
	WORK_TAKEN,
	WORK_TOUCHED, /* taken, and noted since */
};

/* What notes have said since the entry was taken last. */
struct mover_news {
	bool edited;
	int64_t elements; /* appended */
	int64_t bytes;    /* appended */
	int64_t first;    /* when the first of them came, at the earliest when it was given back */
};

/* A write that cannot be seen yet. */
struct mover_unsettled {
	bool expected;
	int64_t from; /* looked at 1, 2, 4, ... s after this, for a minute */
};

/* One document, or (id_type 0) the documents that a filter may find. The first part does not change
 * while the entry is taken, and who took it may read it; the second belongs to the queue alone. */
struct mover_work {
	struct mover_target *target;
	struct bytes id;          /* owned */
	struct bytes filter;      /* owned; empty where the id is known */
	struct bytes collation;   /* owned */
	uint64_t operation_time;  /* the latest of the notes, as the wire has it; 0: none */
	int64_t due_since;        /* when it became due, for the lag */
	int64_t tries;            /* rounds in a row that did not get through */
	enum mover_reason reason; /* of a filter's write */
	uint8_t id_type;
	bool outlier; /* known to be one, so that a round starts without asking */
	bool hot;     /* taken because so many waited, while appends go on */
	/* Whoever takes the entry writes this: a round found that batches may overlap, from there
	 * on. */
	int64_t overlap_from; /* MOVER_NO_OVERLAP: none was found */
	struct {
		struct pace_place place; /* whoever takes the entry writes this, too */
		int64_t until;           /* it may not be moved before this */
		int64_t elements, bytes; /* news that were taken */
	} held;

	enum mover_work_state state;
	struct mover_waiter *waiters;
	struct mover_news news;
	struct mover_unsettled unsettled;
	uint64_t noted_time;
	int64_t due;
	size_t place; /* in the heap */
	uint64_t hash;
	struct mover_work *next; /* in its hash slot */
};

/* What became of a taken entry. */
enum mover_outcome {
	MOVER_SETTLED, /* nothing more to do */
	MOVER_OUTLIER, /* a round has to be run, at once */
	MOVER_ABSENT,  /* again soon: no server was there to ask */
	MOVER_RETRY,   /* again, after a pause that doubles */
	MOVER_HELD,    /* nothing was done; again at the time that is given as `now` */
};

struct mover_queue;

struct mover_queue *mover_queue_new(void);
/* Waiters are told that nothing was moved. */
void mover_queue_free(struct mover_queue *queue);

/* What became of a note. */
enum mover_noted {
	MOVER_NOTE_DROPPED, /* the queue is full */
	MOVER_NOTE_KEPT,
	MOVER_NOTE_HEAVY, /* kept; so many bytes wait in its document that whoever pushes should
			     pause; it is due at once */
};

enum mover_noted mover_queue_note(struct mover_queue *queue, struct mover_target *target,
				  const struct mover_note *note, int64_t now);
/* Due at once, an outlier. `waiter` is the queue's from now on, also where false comes back (it has
 * been told). */
bool mover_queue_demand(struct mover_queue *queue, struct mover_target *target,
			const struct mover_note *note, struct mover_waiter *waiter, int64_t now);
/* As a note that says CHANGED, but due at `due`: not before what is edited has been left alone. */
void mover_queue_look(struct mover_queue *queue, struct mover_target *target, uint8_t id_type,
		      struct bytes id, int64_t due);
/* The same for the document that a note names; what is unsettled is looked at several times. */
void mover_queue_look_behind(struct mover_queue *queue, struct mover_target *target,
			     const struct mover_note *note, int64_t now, int64_t due);

/* Takes what is due: either one outlier, or one filter, or up to MOVER_TAKE_MAX documents of one
 * target of which nothing is known. 0 where nothing is due; `*next` is then when something will be
 * (INT64_MAX: nothing waits). */
size_t mover_queue_take(struct mover_queue *queue, int64_t now, struct mover_work **works,
			int64_t *next);
void mover_queue_done(struct mover_queue *queue, struct mover_work *work,
		      enum mover_outcome outcome, int64_t now);

/* Somebody has asked for this taken entry's move at once. */
bool mover_queue_demanded(struct mover_queue *queue, const struct mover_work *work);
/* Tells those who asked for this taken entry's move at once. */
void mover_queue_tell(struct mover_queue *queue, struct mover_work *work, bool moved);

/* Gives taken entries back; who waits for one is told that nothing was moved. */
void mover_queue_give_back(struct mover_queue *queue, struct mover_work **works, size_t count,
			   enum mover_outcome outcome);

/* What was learned of a document: so many elements may be appended before it can be an outlier
 * (notes of such appends are forgotten at once), or MOVER_ROOM_OUTLIER (a round starts without
 * asking). Believed for a minute. */
#define MOVER_ROOM_OUTLIER (-1)
void mover_queue_room(struct mover_queue *queue, const struct mover_work *work, int64_t elements,
		      int64_t now);
/* The note's document is gone, and another of its `_id` may have any room. */
void mover_queue_forget(struct mover_queue *queue, struct mover_target *target,
			const struct mover_note *note, int64_t now);
size_t mover_queue_count(struct mover_queue *queue);
/* Sleeps until `until`, or until something may be due earlier, or until it is woken. */
void mover_queue_wait(struct mover_queue *queue, int64_t until);
void mover_queue_wake(struct mover_queue *queue);
/* No wait sleeps from now on. Whoever waits for a move, and whoever asks for one, is told that
 * nothing was moved. */
void mover_queue_close(struct mover_queue *queue);
