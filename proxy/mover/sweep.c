/* The sweep: looks through collections for outliers and orphans that nobody noted.
 *
 * A page's size is measured in the time it took; between pages it rests several times as long as
 * it worked. */
#include "proxy/mover/sweep.h"
#include "proxy/base/clock.h"

#include "proxy/base/log.h"
#include "proxy/mover/look.h"
#include "proxy/upstream/pages.h"
#include "proxy/mover/refit.h"
#include "proxy/ownership/rule_owner.h"
#include "proxy/pace/pacer.h"
#include "proxy/pace/seen.h"
#include "proxy/spill/twins.h"
#include "rules/rule/hash.h"

#include <inttypes.h>
#include <stdlib.h>

#define PAGE_FIRST 500
#define PAGE_LEAST 10
#define PAGE_MOST 5000
#define PAGE_FAST_MS 25
#define PAGE_SLOW_MS 100
#define RESTS 3
#define RESTS_MOVING 9   /* while outliers are looked for that are to be moved */
#define RESTS_LOOKING 49 /* while all documents are looked at: more shows in clients' p99 */
#define REST_MOST_MS 2000
#define HELD_MS 500
#define QUEUE_MOST_MS 10000
#define TWINS_AT_ONCE 1000
#define TWINS_SOON_MS 1000
#define TWINS_LATER_MS 10000
#define TWINS_RESTS 20
#define REFIT_AT_ONCE 100 /* arrays that are whole until their old overflow may go */

#define ABSENT_MOST (1 << 20)    /* links without a document that are remembered */
#define ORPHANS_BYTES (16 << 20) /* of those that go in one sweep */
#define ABSENT_MS 3600000        /* where there is no period */

struct sweeping {
	struct mover *mover;
	struct link *link;
	struct mover_target *target;
	int32_t page;
	int32_t rests; /* as long as a page took, so many times */
	int64_t began;
	int64_t found;   /* ordinary outliers that it moves */
	int64_t waiting; /* ordinary outliers that it leaves */
	bool learns;     /* it only learns which there are */
	bool open;       /* nobody knows whose the overflow is: nothing of the target is moved */
	size_t refitted, busy, refused;
	unsigned turn; /* the target's, when it began */
};

/* So many may wait for the mover before a sweep finds more: with a rate, what clients touch would
 * stand behind all of them. */
static size_t queue_most(const struct sweeping *sweeping)
{
	int64_t rate = pacer_rate(sweeping->mover->pacer);

	return rate && rate < MOVER_QUEUE_MAX / 2 ? (size_t)rate : MOVER_QUEUE_MAX / 2;
}

/* Of the queue some may belong to rules that are paused: it is not waited for without end. */
static bool queue_is_long(const struct sweeping *sweeping, int64_t until)
{
	size_t count = mover_queue_count(sweeping->mover->rounds);

	return count > MOVER_QUEUE_MAX / 2 || (count > queue_most(sweeping) && clock_now() < until);
}

/* The rule was changed, or is gone, since the sweep began. */
static bool is_stale(const struct sweeping *sweeping)
{
	return atomic_load(&sweeping->target->reload.turn) != sweeping->turn;
}

static bool may_not_go_on(const struct sweeping *sweeping, int64_t until)
{
	struct pacer *pacer = sweeping->mover->pacer;
	const struct rule *rule = sweeping->target->rule;

	return !pacer_pauses(pacer, rule) &&
	       (queue_is_long(sweeping, until) || pacer_holds(pacer, rule));
}

static enum link_result unless_paused(const struct sweeping *sweeping, enum link_result result)
{
	bool paused =
		!sweeping->learns && pacer_pauses(sweeping->mover->pacer, sweeping->target->rule);

	return paused || is_stale(sweeping) ? LINK_LOST : result;
}

/* Sleeps while nothing may be moved, or enough waits for that. Meanwhile the rule may be changed,
 * or go: only who is at work touches the target's rule. */
static void wait_for_mover(struct sweeping *sweeping)
{
	struct mover *mover = sweeping->mover;
	int64_t until = clock_now() + QUEUE_MOST_MS;

	while (!atomic_load(&mover->stopping) && !is_stale(sweeping) &&
	       may_not_go_on(sweeping, until)) {
		mover_leave(mover);
		mover_pause(mover, HELD_MS);
		mover_enter(mover);
	}
}

/* Rests after a page, longer while the queue is full, and chooses the next page's size. A sweep of
 * a rule that is paused or changed meanwhile ends as if the link were lost: others may be due. */
static enum link_result rest(struct sweeping *sweeping, enum link_result result)
{
	int64_t took = clock_now() - sweeping->began, pause = took * sweeping->rests + 1;

	if (took > PAGE_SLOW_MS && sweeping->page > PAGE_LEAST)
		sweeping->page /= 2;
	else if (took < PAGE_FAST_MS && sweeping->page < PAGE_MOST)
		sweeping->page *= 2;
	if ((size_t)sweeping->page > queue_most(sweeping) && sweeping->page > PAGE_LEAST)
		sweeping->page = (int32_t)queue_most(sweeping);
	mover_leave(sweeping->mover);
	mover_pause(sweeping->mover, pause < REST_MOST_MS ? pause : REST_MOST_MS);
	mover_enter(sweeping->mover);
	if (!sweeping->learns)
		wait_for_mover(sweeping);
	sweeping->began = clock_now();
	return unless_paused(sweeping, result);
}

static void tell_begin(const struct sweeping *sweeping)
{
	const struct mover_target *target = sweeping->target;

	if (sweeping->found == 0)
		log_info("4030 mover: '%s.%s': rule '%s': the sweep has found outliers, and moves "
			 "them",
			 target->database, target->collection, target->rule->name);
}

/* An outlier that was never spilled. Without `existing: move` the first sweep learns which there
 * are, and later ones move those that have come or changed since. */
static bool moves_ordinary(struct sweeping *sweeping, const struct element *id, int64_t size)
{
	struct target_seen *seen = &sweeping->target->sweep.seen;
	uint64_t hash = seen_hash(id, size);
	bool moves = sweeping->target->rule->moves_existing;

	if (!moves && seen->whole)
		moves = !seen_waits(seen, hash);
	else if (!moves)
		(void)!seen_add(seen, hash);
	if (sweeping->open)
		return false;
	if (moves)
		tell_begin(sweeping);
	sweeping->found += moves;
	sweeping->waiting += !moves;
	return moves;
}

/* What has been spilled has no `size`: its tail moves, and what a crash left behind is finished. */
static void take_outlier(void *context, struct bytes document)
{
	struct sweeping *sweeping = context;
	struct element id, size;
	int64_t bytes;

	if (!document_find(document, "_id", &id))
		return;
	if (document_find(document, "size", &size) && element_integer(&size, &bytes) &&
	    !moves_ordinary(sweeping, &id, bytes))
		return;
	if (sweeping->learns || sweeping->open)
		return;
	mover_queue_look(sweeping->mover->rounds, sweeping->target, id.type, id.value, clock_now());
}

static void keep_id(void *context, struct bytes document)
{
	buffer_append(context, document.data, document.length);
}

/* What the server refuses is that document's matter. */
static enum link_result note_refit(struct sweeping *sweeping, const struct element *id,
				   enum link_result result, enum refit end)
{
	struct mover *mover = sweeping->mover;
	struct mover_target *target = sweeping->target;

	if (result == LINK_REFUSED && sweeping->refused++ == 0)
		log_warning(
			"4010 mover: '%s.%s': a document that was spilled under another threshold "
			"or batch size stays as it is: %s",
			target->database, target->collection, link_error(sweeping->link)->message);
	if (result != LINK_DONE)
		return result == LINK_REFUSED ? LINK_DONE : result;
	sweeping->busy += end == REFIT_BUSY;
	if (end != REFIT_FOLDED)
		return LINK_DONE;
	mover_queue_look(mover->rounds, target, id->type, id->value, clock_now());
	mover_queue_look(mover->garbage, target, id->type, id->value, clock_now());
	sweeping->refitted++;
	return rest(sweeping, LINK_DONE);
}

static enum link_result refit_one(struct sweeping *sweeping, const struct element *id)
{
	enum refit end = REFIT_RESTS;
	enum link_result result = refit_document(sweeping->link, sweeping->target, id, &end);

	return note_refit(sweeping, id, result, end);
}

static bool has_portion(const struct sweeping *sweeping)
{
	return sweeping->refitted == REFIT_AT_ONCE;
}

/* One after the other, with the same rests: each is read and written whole. Where a portion ends on
 * the page the next one begins there. */
static enum link_result refit_page(struct sweeping *sweeping, struct id_pages *pages,
				   const struct buffer *ids)
{
	enum link_result result = LINK_DONE;

	for (size_t at = 0; result == LINK_DONE && at < ids->length;) {
		struct bytes document = {ids->data + at, (size_t)load_int32(ids->data + at)};
		struct element id;

		at += document.length;
		require(document_find(document, "_id", &id));
		if (has_portion(sweeping)) {
			place_set(&pages->from, id.type, id.value);
			pages->ended = false;
			break;
		}
		result = unless_paused(sweeping, refit_one(sweeping, &id));
	}
	return result;
}

/* Once, behind the start or a change of the rule. A portion at a time, so that
 * other collections are swept meanwhile; a walk from the first document to the last that leaves
 * none ends it. */
static enum link_result refit_all(struct sweeping *sweeping)
{
	struct mover_target *target = sweeping->target;
	struct id_pages pages = {
		.link = sweeping->link, .target = target, .from = target->sweep.refit_from};
	bool wanted, whole = pages.from.type == 0;
	enum link_result result = refit_wanted(sweeping->link, target, &wanted);

	target->sweep.refit_from = (struct place){0};
	while (wanted && result == LINK_DONE && !pages.ended && !has_portion(sweeping)) {
		auto_buffer struct buffer ids = {0};

		pages.size = sweeping->page;
		result = id_pages_next(&pages, refit_write_candidates, keep_id, &ids);
		if (result == LINK_DONE)
			result = refit_page(sweeping, &pages, &ids);
		result = rest(sweeping, result);
	}
	if (result == LINK_DONE && !pages.ended)
		target->sweep.refit_from = pages.from;
	else
		id_pages_fini(&pages);
	if (sweeping->refitted > 0)
		log_info("4011 mover: '%s.%s': %zu documents were spilled under another threshold; "
			 "they are brought to the rule's",
			 target->database, target->collection, sweeping->refitted);
	atomic_store(&target->sweep.refitted,
		     result == LINK_DONE && wanted && whole && pages.ended && sweeping->busy == 0);
	return result;
}

/* What a whole sweep found of documents that were never spilled. */
static void tell_end(struct sweeping *sweeping)
{
	struct mover_target *target = sweeping->target;
	const char *rule = target->rule->name;

	if (sweeping->found > 0)
		log_info(
			"4031 mover: '%s.%s': rule '%s': the sweep has seen all documents: it gave "
			"%" PRId64 " outliers to the mover, %" PRId64 " wait",
			target->database, target->collection, rule, sweeping->found,
			sweeping->waiting);
	else if (sweeping->waiting > 0 && sweeping->waiting != target->sweep.waiting)
		log_info(
			"4032 mover: '%s.%s': rule '%s': %" PRId64
			" outliers wait until a client changes their arrays; 'spillway migrate' or "
			"'existing: move' moves all of them",
			target->database, target->collection, rule, sweeping->waiting);
	metric_add_shared(&sweeping->mover->metrics->existing_waiting,
			  sweeping->waiting - target->sweep.waiting);
	target->sweep.waiting = sweeping->waiting;
}

static enum link_result sweep_main(struct sweeping *sweeping)
{
	struct target_seen *seen = &sweeping->target->sweep.seen;
	struct id_pages pages = {.link = sweeping->link, .target = sweeping->target, .sizes = true};
	bool first = !seen->whole;
	enum link_result result;

	do {
		pages.size = sweeping->page;
		result = id_pages_next(&pages, look_write_candidates, take_outlier, sweeping);
		result = rest(sweeping, result);
	} while (result == LINK_DONE && !pages.ended);
	id_pages_fini(&pages);
	if (first)
		seen_end(seen, result == LINK_DONE);
	if (first)
		atomic_store(&sweeping->target->sweep.learned, seen->whole);
	if (result == LINK_DONE)
		tell_end(sweeping);
	return result;
}

/* Overflow whose main document is missing. A restore may be about to bring that, in hours: it goes
 * where the sweep a period before missed it, too, and no document that was missed has come since.
 */
struct missing {
	struct sweeping *sweeping;
	struct target_absent now;
	struct buffer orphans; /* {_id: link} of those that were missed before */
	int64_t last;          /* when that sweep was: milliseconds since 1970 */
	bool due;              /* it is a period ago */
	bool returned;         /* a document that was missed is there, as it was before that */
};

static int64_t absent_period(const struct mover_target *target)
{
	int64_t period = target->rule->sweep_ms > 0 ? target->rule->sweep_ms : ABSENT_MS;

	return period - period / 8; /* sweeps don't begin to the millisecond */
}

static int compare_hashes(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return a < b ? -1 : a > b;
}

static bool was_absent(const struct missing *missing, uint64_t hash)
{
	const struct target_absent *absent = &missing->sweeping->target->sweep.absent;

	return absent->count > 0 &&
	       bsearch(&hash, absent->links, absent->count, sizeof(*absent->links), compare_hashes);
}

static void take_absent(struct missing *missing, const struct linked *linked, uint64_t hash)
{
	struct target_absent *now = &missing->now;
	const struct element link = {.type = linked->link.type, .value = linked->link.value};
	size_t start;

	if (now->count == ABSENT_MOST)
		return;
	if ((now->count & (now->count - 1)) == 0)
		now->links = must_realloc(now->links, (2 * now->count + 1) * sizeof(*now->links));
	now->links[now->count++] = hash;
	if (!missing->due || !was_absent(missing, hash) || missing->orphans.length > ORPHANS_BYTES)
		return;
	start = writer_open(&missing->orphans);
	writer_renamed(&missing->orphans, "_id", &link);
	writer_close(&missing->orphans, start);
}

/* More batches than its n needs: some may overlap. Once, as for those of another threshold: what
 * overlaps since is noticed by the mover that loses a cut by it. */
static enum link_result look_for_overlap(struct sweeping *sweeping, const struct linked *linked)
{
	const struct element id = {.type = linked->link.type, .value = linked->link.value};
	enum refit end = REFIT_RESTS;
	enum link_result result;

	if (linked->moved <= 0 || has_portion(sweeping) ||
	    atomic_load(&sweeping->target->sweep.refitted))
		return LINK_DONE;
	result = refit_overlapping(sweeping->link, sweeping->target, &id, 0, &end);
	return note_refit(sweeping, &id, result, end);
}

/* An array that was edited in place because it was too large to be folded back. */
static enum link_result look_for_edited(struct sweeping *sweeping, const struct linked *linked)
{
	const struct element id = {.type = linked->link.type, .value = linked->link.value};
	enum refit end = REFIT_RESTS;
	enum link_result result;

	if (!linked->edited || has_portion(sweeping))
		return LINK_DONE;
	result = refit_edited(sweeping->link, sweeping->target, &id, &end);
	return note_refit(sweeping, &id, result, end);
}

/* A main document accounts for as many batches as its n needs, each full. Who looks for garbage
 * decides; these are only worth a look. */
static enum link_result nominate(struct missing *missing, const struct linked *linked)
{
	enum link_result result;
	struct sweeping *sweeping = missing->sweeping;
	int64_t size = sweeping->target->rule->overflow.batch_size;
	uint64_t hash = hash_bytes(linked->link.value, linked->link.type);

	if (linked->moved == LINKED_NO_DOCUMENT) {
		take_absent(missing, linked, hash);
		return LINK_DONE;
	}
	/* One that was made anew since under the same `_id` was not restored. */
	missing->returned |=
		linked->moved > 0 && linked->time <= missing->last && was_absent(missing, hash);
	result = look_for_edited(sweeping, linked);
	if (result != LINK_DONE)
		return result;
	if (linked->moved >= 0 &&
	    linked->batches <= linked->moved / size + (linked->moved % size > 0))
		return LINK_DONE;
	mover_queue_look(sweeping->mover->garbage, sweeping->target, linked->link.type,
			 linked->link.value, clock_now());
	return look_for_overlap(sweeping, linked);
}

static void nominate_orphans(const struct missing *missing)
{
	const struct buffer *orphans = &missing->orphans;
	struct element id;

	for (size_t at = 0; at < orphans->length;) {
		struct bytes each = {orphans->data + at, (size_t)load_int32(orphans->data + at)};

		at += each.length;
		require(document_find(each, "_id", &id));
		mover_queue_look(missing->sweeping->mover->garbage, missing->sweeping->target,
				 id.type, id.value, clock_now());
	}
}

/* Where sweeps are off one that was asked for needs a second. */
static void look_again(struct mover_target *target, int64_t since)
{
	int64_t due = since + absent_period(target);

	if (due < target->sweep.due)
		target->sweep.due = due;
}

/* All of the overflow has been looked through. */
static void judge_missing(struct missing *missing, int64_t began)
{
	struct target_absent *absent = &missing->sweeping->target->sweep.absent;
	struct target_absent before = *absent;

	if (missing->due && !missing->returned)
		nominate_orphans(missing);
	if (missing->due || absent->since == 0) {
		*absent = missing->now;
		missing->now = before;
		if (absent->count > 0)
			qsort(absent->links, absent->count, sizeof(*absent->links), compare_hashes);
	}
	if (missing->due || missing->returned || absent->since == 0)
		absent->since = began;
	if (missing->sweeping->target->rule->sweep_ms == 0 && absent->count > 0)
		look_again(missing->sweeping->target, absent->since);
}

static enum link_result sweep_orphans(struct sweeping *sweeping)
{
	struct link_pages pages = {.link = sweeping->link, .target = sweeping->target};
	struct missing missing = {.sweeping = sweeping};
	int64_t began = clock_now(), since = sweeping->target->sweep.absent.since;
	bool collects;
	enum link_result result = rule_owner_collects(sweeping->link, sweeping->target, &collects);

	if (result != LINK_DONE || !collects)
		return result;
	missing.due = since > 0 && began >= since + absent_period(sweeping->target);
	missing.last = clock_wall() - (began - since);
	do {
		result = link_pages_next(&pages);
		for (size_t i = 0; result == LINK_DONE && i < pages.count; i++)
			result = nominate(&missing, &pages.all[i]);
		result = rest(sweeping, result);
	} while (result == LINK_DONE && !pages.ended);
	if (result == LINK_DONE)
		judge_missing(&missing, began);
	free(missing.now.links);
	buffer_fini(&missing.orphans);
	link_pages_fini(&pages);
	return result;
}

/* Their arrays are folded back, and what they held is garbage then. */
static enum link_result mend_twins(struct sweeping *sweeping, const struct buffer *links)
{
	struct mover_target *target = sweeping->target;
	enum link_result result = LINK_DONE;

	for (size_t at = 0; result == LINK_DONE && at < links->length && !has_portion(sweeping);) {
		struct bytes each = {links->data + at, (size_t)load_int32(links->data + at)};
		enum refit end = REFIT_RESTS;
		struct element id;

		at += each.length;
		require(document_find(each, "_id", &id));
		mover_queue_look(sweeping->mover->garbage, target, id.type, id.value, clock_now());
		result = refit_overlapping(sweeping->link, target, &id, 0, &end);
		result = unless_paused(sweeping, note_refit(sweeping, &id, result, end));
	}
	return result;
}

/* Another sweep follows when their garbage has gone. Where none is left, that one's judgement makes
 * the unique index. */
static enum link_result sweep_twins(struct sweeping *sweeping)
{
	struct mover_target *target = sweeping->target;
	auto_buffer struct buffer links = {0};
	size_t before = sweeping->refitted;
	int64_t began = clock_now(), pause = TWINS_SOON_MS;
	enum link_result result = twins_find(sweeping->link, target, false, TWINS_AT_ONCE, &links);

	if (result == LINK_DONE && links.length == 0) {
		atomic_store(&target->twins, false);
		atomic_store(&target->judged_at, MOVER_NEVER);
	} else if (result == LINK_DONE) {
		result = mend_twins(sweeping, &links);
		pause = sweeping->refitted > before ? target->rule->gc_delay_ms + TWINS_SOON_MS
						    : TWINS_LATER_MS;
	}
	if (pause < TWINS_RESTS * (clock_now() - began))
		pause = TWINS_RESTS * (clock_now() - began);
	target->sweep.due = clock_now() + pause;
	return result;
}

/* Garbage, and what was stored otherwise than the rule says now. */
static enum link_result sweep_overflow(struct sweeping *sweeping)
{
	struct mover_target *target = sweeping->target;
	enum link_result result = sweep_orphans(sweeping);

	if (result == LINK_DONE && !atomic_load(&target->sweep.refitted))
		result = refit_all(sweeping);
	if (result == LINK_DONE && atomic_load(&target->twins))
		result = sweep_twins(sweeping);
	return result;
}

static struct sweeping sweeping_of(struct mover *mover, struct link *link,
				   struct mover_target *target)
{
	return (struct sweeping){.mover = mover,
				 .link = link,
				 .target = target,
				 .page = PAGE_FIRST,
				 .rests = target->rule->moves_existing ? RESTS_MOVING
								       : RESTS_LOOKING,
				 .began = clock_now(),
				 .open = target->owner == OWNER_OPEN,
				 .turn = atomic_load(&target->reload.turn)};
}

must_check enum link_result sweep_learn(struct mover *mover, struct link *link,
					struct mover_target *target)
{
	struct sweeping sweeping = sweeping_of(mover, link, target);

	sweeping.learns = true;
	return sweep_main(&sweeping);
}

must_check enum link_result sweep_target(struct mover *mover, struct link *link,
					 struct mover_target *target)
{
	int64_t began = clock_now(), delay = target->rule->gc_delay_ms, took;
	struct sweeping sweeping = sweeping_of(mover, link, target);
	enum link_result result = sweep_main(&sweeping);

	sweeping.rests = RESTS;
	if (result == LINK_DONE && !sweeping.open)
		result = sweep_overflow(&sweeping);
	took = clock_now() - began;
	if (has_portion(&sweeping))
		target->sweep.due = clock_now() + (delay > 20 * took ? delay : 20 * took);
	if (result == LINK_REFUSED)
		log_warning("4012 mover: '%s.%s': the sweep was refused: %s", target->database,
			    target->collection, link_error(link)->message);
	if (result == LINK_DONE)
		metric_add_shared(&mover->metrics->sweeps, 1);
	return result;
}
