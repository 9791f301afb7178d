/* What waits for the mover: one entry a document, merged from notes. */
#include "proxy/mover/queue.h"

#include "protocol/cursor.h"
#include "proxy/base/clock.h"
#include "proxy/mover/work_heap.h"
#include "rules/rule/hash.h"

#include <pthread.h>
#include <stdlib.h>

/* A document that is edited again and again is looked at all the same. */
#define EDITED_AT_MOST_MS 60000
#define LARGE_PART 16 /* of max_bytes: an append that is no ordinary one */
/* Appended since the last move: far from 16 MB even twice. */
#define HEAVY_BYTES (4LL * 1000 * 1000)
#define ABSENT_MS 100
#define ROOMS 32768 /* a power of two */
#define ROOM_MS 60000

/* A small memory of documents by their hash alone: a wrong hit (one in 2^64) delays a move until
 * the sweep. */
struct room {
	uint64_t hash;
	int64_t left;
	int64_t until;
};

struct mover_queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct mover_work **slots; /* by hash, chained */
	size_t mask;
	size_t count;
	size_t bytes; /* of what the entries own */
	struct work_heap heap;
	struct room *rooms;
	uint64_t key;
	bool closed;
	bool woken;
};

struct mover_queue *mover_queue_new(void)
{
	struct mover_queue *queue = must_calloc(1, sizeof(*queue));

	pthread_mutex_init(&queue->lock, NULL);
	clock_condition_init(&queue->changed);
	queue->mask = 1023;
	queue->slots = must_calloc(queue->mask + 1, sizeof(struct mover_work *));
	work_heap_init(&queue->heap);
	queue->rooms = must_calloc(ROOMS, sizeof(*queue->rooms));
	queue->key = (uint64_t)arc4random() << 32 | arc4random();
	return queue;
}

void mover_queue_free(struct mover_queue *queue)
{
	if (!queue)
		return;
	for (size_t i = 0; i <= queue->mask; i++) {
		while (queue->slots[i]) {
			struct mover_work *work = queue->slots[i];

			queue->slots[i] = work->next;
			work_free(work);
		}
	}
	free(queue->slots);
	work_heap_fini(&queue->heap);
	free(queue->rooms);
	pthread_cond_destroy(&queue->changed);
	pthread_mutex_destroy(&queue->lock);
	free(queue);
}

/* Puts the entry where its `due` belongs, and wakes a sleeper where that is earlier than all others
 * were: who sleeps until an earlier time looks again then, and a hot document's every append puts
 * its entry off. */
static void schedule(struct mover_queue *queue, struct mover_work *work, int64_t due)
{
	int64_t first = work_heap_due(&queue->heap);

	work->due = due;
	work_heap_put(&queue->heap, work);
	if (due < first)
		pthread_cond_signal(&queue->changed);
}

/* The table. */

/* Equal whole numbers have one hash, but for decimals: they are one _id. */
static uint64_t work_hash(const struct mover_queue *queue, const struct mover_target *target,
			  uint8_t type, struct bytes id)
{
	struct bytes address = {(const uint8_t *)&target, sizeof(target)};
	struct element number = {.type = type, .value = id};
	int64_t value;

	if (element_integer(&number, &value)) {
		id = (struct bytes){(const uint8_t *)&value, sizeof(value)};
		type = BSON_BYTE_INT64;
	}
	return hash_bytes(id, hash_bytes(address, queue->key) + type);
}

static void table_put(struct mover_queue *queue, struct mover_work *work)
{
	struct mover_work **slot = &queue->slots[work->hash & queue->mask];

	work->next = *slot;
	*slot = work;
}

static void table_grow(struct mover_queue *queue)
{
	struct mover_work **old = queue->slots;
	size_t count = queue->mask + 1;

	queue->mask = 2 * count - 1;
	queue->slots = must_calloc(2 * count, sizeof(struct mover_work *));
	for (size_t i = 0; i < count; i++) {
		for (struct mover_work *work = old[i], *next; work; work = next) {
			next = work->next;
			table_put(queue, work);
		}
	}
	free(old);
}

static void table_remove(struct mover_queue *queue, struct mover_work *work)
{
	struct mover_work **at = &queue->slots[work->hash & queue->mask];

	while (*at != work)
		at = &(*at)->next;
	*at = work->next;
	queue->count--;
	queue->bytes -= work_bytes(work);
}

/* What a note or a look is about. */
struct subject {
	struct mover_target *target;
	uint8_t type;
	struct bytes id, filter, collation;
	uint64_t hash;
};

static struct mover_work *table_find(struct mover_queue *queue, const struct subject *subject)
{
	struct mover_work *work = queue->slots[subject->hash & queue->mask];

	while (work && !(work->hash == subject->hash && work->target == subject->target &&
			 work->id_type == subject->type && bytes_equal(work->id, subject->id) &&
			 bytes_equal(work->filter, subject->filter) &&
			 bytes_equal(work->collation, subject->collation)))
		work = work->next;
	return work;
}

/* The subject's entry, made if it is new; NULL where the queue is full. */
static struct mover_work *entry_of(struct mover_queue *queue, const struct subject *subject,
				   int64_t now)
{
	struct mover_work *work = table_find(queue, subject);

	if (work || queue->count == MOVER_QUEUE_MAX ||
	    queue->bytes + subject->id.length + subject->filter.length + subject->collation.length >
		    MOVER_QUEUE_BYTES)
		return work;
	work = must_calloc(1, sizeof(*work));
	work->target = subject->target;
	work->id_type = subject->type;
	work->id = bytes_copy(subject->id);
	work->filter = bytes_copy(subject->filter);
	work->collation = bytes_copy(subject->collation);
	work->hash = subject->hash;
	work->place = WORK_NOWHERE;
	work->news.first = now;
	work->overlap_from = MOVER_NO_OVERLAP;
	if (queue->count > queue->mask)
		table_grow(queue);
	table_put(queue, work);
	queue->count++;
	queue->bytes += work_bytes(work);
	return work;
}

static struct subject subject_of(const struct mover_queue *queue, struct mover_target *target,
				 const struct mover_note *note)
{
	struct subject subject = {.target = target, .type = note->id_type};

	if (note->id_type) {
		subject.id = note->id;
	} else {
		subject.filter = note->filter;
		subject.collation = note->collation;
	}
	subject.hash =
		work_hash(queue, target, note->id_type, note->id_type ? note->id : note->filter);
	return subject;
}

/* What is remembered of documents. */

static struct room *room_at(struct mover_queue *queue, uint64_t hash, int64_t now)
{
	struct room *room = &queue->rooms[hash & (ROOMS - 1)];

	return room->hash == hash && room->until > now ? room : NULL;
}

/* True where the note needs no look: the document has room for what was appended. While it is being
 * looked at, nobody knows whether the look sees what was appended, and the room that it will tell
 * of is not yet known: it has to be looked at once more. */
static bool room_takes(struct mover_queue *queue, const struct subject *subject,
		       const struct mover_note *note, int64_t now)
{
	struct room *room = room_at(queue, subject->hash, now);
	const struct mover_work *work = room ? table_find(queue, subject) : NULL;

	if (!room || (work && work->state != WORK_WAITING))
		return false;
	if (note->reason != MOVER_APPENDED) {
		room->until = 0;
		return false;
	}
	/* Room is counted in elements: large ones have to be looked at. */
	if (room->left < note->elements || note->bytes > note->rule->max_bytes / LARGE_PART)
		return false;
	room->left -= note->elements;
	return true;
}

void mover_queue_room(struct mover_queue *queue, const struct mover_work *work, int64_t elements,
		      int64_t now)
{
	pthread_mutex_lock(&queue->lock);
	queue->rooms[work->hash & (ROOMS - 1)] = (struct room){work->hash, elements, now + ROOM_MS};
	pthread_mutex_unlock(&queue->lock);
}

void mover_queue_forget(struct mover_queue *queue, struct mover_target *target,
			const struct mover_note *note, int64_t now)
{
	struct subject subject = subject_of(queue, target, note);
	struct room *room;

	pthread_mutex_lock(&queue->lock);
	room = room_at(queue, subject.hash, now);
	if (room)
		room->until = 0;
	pthread_mutex_unlock(&queue->lock);
}

/* When an entry is due. */

static int64_t due_by_rule(const struct mover_work *work, const struct mover_note *note,
			   int64_t now)
{
	const struct rule *rule = work->target->rule;
	int64_t quiet = rule->quiet_ms, latest;

	if (work->waiters)
		return now;
	latest = work->news.first + (quiet > EDITED_AT_MOST_MS ? quiet : EDITED_AT_MOST_MS);
	if (work->news.edited)
		return now + quiet < latest ? now + quiet : latest;
	if (note->reason == MOVER_APPENDED &&
	    (work->news.elements >= rule->gather || work->news.bytes >= rule->max_bytes))
		return now;
	return now + rule->settle_ms;
}

static int64_t due_of(const struct mover_work *work, const struct mover_note *note, int64_t now)
{
	int64_t due = due_by_rule(work, note, now);

	return !work->waiters && work->held.until > due ? work->held.until : due;
}

static uint64_t time_of(struct bytes operation_time)
{
	return operation_time.length == 8 ? (uint64_t)load_int64(operation_time.data) : 0;
}

static void take_unsettled(struct mover_work *work, const struct mover_note *note, int64_t now)
{
	if (note->unsettled) {
		work->unsettled.expected = true;
		work->unsettled.from = now;
	}
}

static void merge_note(struct mover_queue *queue, struct mover_work *work,
		       const struct mover_note *note, int64_t now)
{
	uint64_t when = time_of(note->operation_time);
	struct room *room = room_at(queue, work->hash, now);

	work->news.elements += note->elements;
	work->news.bytes += note->bytes;
	work->news.edited |= note->reason == MOVER_EDITED;
	if (when > work->noted_time)
		work->noted_time = when;
	take_unsettled(work, note, now);
	if (work->state != WORK_WAITING) {
		work->state = WORK_TOUCHED;
		work->due = due_of(work, note, now);
	} else {
		work->reason = note->reason;
		work->outlier |= work->id_type && room && room->left == MOVER_ROOM_OUTLIER;
		schedule(queue, work, due_of(work, note, now));
	}
}

enum mover_noted mover_queue_note(struct mover_queue *queue, struct mover_target *target,
				  const struct mover_note *note, int64_t now)
{
	struct subject subject = subject_of(queue, target, note);
	enum mover_noted noted = MOVER_NOTE_KEPT;
	struct mover_work *work = NULL;

	pthread_mutex_lock(&queue->lock);
	if (!note->id_type || !room_takes(queue, &subject, note, now)) {
		work = entry_of(queue, &subject, now);
		noted = work ? MOVER_NOTE_KEPT : MOVER_NOTE_DROPPED;
	}
	if (work) {
		merge_note(queue, work, note, now);
		if (work->id_type && work->news.bytes >= HEAVY_BYTES)
			noted = MOVER_NOTE_HEAVY;
		if (noted == MOVER_NOTE_HEAVY && work->state == WORK_WAITING)
			schedule(queue, work, now);
	}
	pthread_mutex_unlock(&queue->lock);
	return noted;
}

bool mover_queue_demand(struct mover_queue *queue, struct mover_target *target,
			const struct mover_note *note, struct mover_waiter *waiter, int64_t now)
{
	struct subject subject = subject_of(queue, target, note);
	struct mover_work *work;

	pthread_mutex_lock(&queue->lock);
	work = queue->closed ? NULL : entry_of(queue, &subject, now);
	if (work) {
		waiter->next = work->waiters;
		work->waiters = waiter;
		work->due = now;
		if (work->state == WORK_WAITING) {
			work->outlier = true;
			schedule(queue, work, now);
		} else {
			work->state = WORK_TOUCHED;
		}
	}
	pthread_mutex_unlock(&queue->lock);
	if (!work)
		work_tell(waiter, false);
	return work != NULL;
}

/* The entry, due by then, unless it is left alone after an edit; NULL where the queue is full. */
static struct mover_work *look_by(struct mover_queue *queue, const struct subject *subject,
				  int64_t due)
{
	struct mover_work *work = entry_of(queue, subject, due);

	if (work && work->news.edited)
		return work;
	if (work && work->state != WORK_WAITING) {
		if (work->state != WORK_TOUCHED || work->due >= due)
			work->due = due;
		work->state = WORK_TOUCHED;
	} else if (work && (work->place == WORK_NOWHERE || due < work->due)) {
		schedule(queue, work, due);
	}
	return work;
}

void mover_queue_look_behind(struct mover_queue *queue, struct mover_target *target,
			     const struct mover_note *note, int64_t now, int64_t due)
{
	struct subject subject = subject_of(queue, target, note);
	struct mover_work *work;

	pthread_mutex_lock(&queue->lock);
	work = look_by(queue, &subject, due);
	if (work)
		take_unsettled(work, note, now);
	pthread_mutex_unlock(&queue->lock);
}

void mover_queue_look(struct mover_queue *queue, struct mover_target *target, uint8_t id_type,
		      struct bytes id, int64_t due)
{
	struct mover_note note = {.id_type = id_type, .id = id};

	mover_queue_look_behind(queue, target, &note, due, due);
}

/* Taking and giving back. */

static bool goes_alone(const struct mover_work *work)
{
	return work->outlier || !work->id_type;
}

static struct mover_work *take_first(struct mover_queue *queue)
{
	struct mover_work *work = queue->heap.all[0];

	work_heap_pop(&queue->heap);
	work->state = WORK_TAKEN;
	work->news.edited = false;
	work->hot = work->news.elements >= work->target->rule->gather;
	work->held.place.urgent = work->news.bytes >= HEAVY_BYTES;
	work->held.elements = work->news.elements;
	work->held.bytes = work->news.bytes;
	work->news.elements = work->news.bytes = 0;
	work->due_since = work->due;
	work->operation_time = work->noted_time;
	return work;
}

size_t mover_queue_take(struct mover_queue *queue, int64_t now, struct mover_work **works,
			int64_t *next)
{
	size_t count = 0;

	pthread_mutex_lock(&queue->lock);
	while (count < MOVER_TAKE_MAX && queue->heap.length > 0 &&
	       work_heap_due(&queue->heap) <= now) {
		struct mover_work *first = queue->heap.all[0];

		if (count > 0 && (goes_alone(first) || first->target != works[0]->target))
			break;
		works[count++] = take_first(queue);
		if (goes_alone(first))
			break;
	}
	*next = work_heap_due(&queue->heap);
	if (count > 0 && queue->heap.length > 0)
		pthread_cond_signal(&queue->changed); /* another may sleep beyond what is left */
	pthread_mutex_unlock(&queue->lock);
	return count;
}

static bool comes_back(struct mover_work *work, enum mover_outcome outcome, int64_t now,
		       int64_t *due)
{
	int64_t later = now + ABSENT_MS;

	switch (outcome) {
	case MOVER_OUTLIER:
		work->outlier = true;
		/* An edit may have come behind the look. */
		*due = work->news.edited && !work->waiters ? work->due : now;
		return true;
	case MOVER_HELD:
		work->news.elements += work->held.elements;
		work->news.bytes += work->held.bytes;
		work->held.until = now;
		*due = work->state == WORK_TOUCHED && work->due > now ? work->due : now;
		if (work->waiters)
			*due = clock_now();
		return true;
	case MOVER_RETRY:
		later = now + work_pause(work->tries++);
		/* fallthrough */
	case MOVER_ABSENT:
		*due = work->state == WORK_TOUCHED && work->due > later ? work->due : later;
		return true;
	case MOVER_SETTLED:
		work->outlier = work->waiters != NULL;
		work->tries = 0;
		if (work->state != WORK_TOUCHED)
			return work_looks_again(work, now, due);
		*due = work->due;
		return true;
	}
	require(!"an outcome without a name");
}

void mover_queue_done(struct mover_queue *queue, struct mover_work *work,
		      enum mover_outcome outcome, int64_t now)
{
	int64_t due;
	bool again;

	pthread_mutex_lock(&queue->lock);
	again = comes_back(work, outcome, now, &due);
	work->state = WORK_WAITING;
	work->news.first = now;
	if (again)
		schedule(queue, work, due);
	else
		table_remove(queue, work);
	pthread_mutex_unlock(&queue->lock);
	if (!again)
		work_free(work);
}

bool mover_queue_demanded(struct mover_queue *queue, const struct mover_work *work)
{
	pthread_mutex_lock(&queue->lock);
	bool demanded = work->waiters;
	pthread_mutex_unlock(&queue->lock);
	return demanded;
}

void mover_queue_tell(struct mover_queue *queue, struct mover_work *work, bool moved)
{
	struct mover_waiter *waiters;

	pthread_mutex_lock(&queue->lock);
	waiters = work->waiters;
	work->waiters = NULL;
	pthread_mutex_unlock(&queue->lock);
	work_tell(waiters, moved);
}

void mover_queue_give_back(struct mover_queue *queue, struct mover_work **works, size_t count,
			   enum mover_outcome outcome)
{
	for (size_t i = 0; i < count; i++) {
		mover_queue_tell(queue, works[i], false);
		mover_queue_done(queue, works[i], outcome, clock_now());
	}
}

size_t mover_queue_count(struct mover_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	size_t count = queue->count;
	pthread_mutex_unlock(&queue->lock);
	return count;
}

void mover_queue_wait(struct mover_queue *queue, int64_t until)
{
	int64_t longest = clock_now() + 60000;

	if (until > longest)
		until = longest;
	pthread_mutex_lock(&queue->lock);
	if (!queue->closed && !queue->woken && work_heap_due(&queue->heap) >= until)
		clock_condition_wait(&queue->changed, &queue->lock, until);
	queue->woken = false;
	pthread_mutex_unlock(&queue->lock);
}

static void wake_all(struct mover_queue *queue, bool *why)
{
	pthread_mutex_lock(&queue->lock);
	*why = true;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

void mover_queue_wake(struct mover_queue *queue)
{
	wake_all(queue, &queue->woken);
}

/* All waiters, taken out of their entries. */
static struct mover_waiter *take_waiters(struct mover_queue *queue)
{
	struct mover_waiter *all = NULL, **last;

	for (size_t i = 0; i <= queue->mask; i++)
		for (struct mover_work *work = queue->slots[i]; work; work = work->next) {
			for (last = &work->waiters; *last; last = &(*last)->next)
				continue;
			*last = all;
			all = work->waiters;
			work->waiters = NULL;
		}
	return all;
}

void mover_queue_close(struct mover_queue *queue)
{
	struct mover_waiter *waiters;

	wake_all(queue, &queue->closed);
	pthread_mutex_lock(&queue->lock);
	waiters = take_waiters(queue);
	pthread_mutex_unlock(&queue->lock);
	work_tell(waiters, false);
}
