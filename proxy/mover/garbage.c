/* Garbage: overflow documents of generations that are dead.
 *
 * G0 which generations are there, then G1 which is main's; a time later G2 removes the others, on
 * the same link: a server that crashed in between may have forgotten that a generation died. */
#include "proxy/mover/garbage.h"

#include "proxy/base/clock.h"
#include "proxy/mover/dead.h"

#include <stdlib.h>

#define PAGE_MAX 1000

struct gc {
	struct mover *mover;
	struct dead_heap waiting;
};

struct gc *gc_new(struct mover *mover)
{
	struct gc *gc = must_calloc(1, sizeof(*gc));

	gc->mover = mover;
	return gc;
}

void gc_free(struct gc *gc)
{
	if (!gc)
		return;
	dead_heap_fini(&gc->waiting);
	free(gc);
}

/* Takes the entry over. */
static void wait_for_time(struct gc *gc, struct dead *dead, uint64_t serial)
{
	dead->serial = serial;
	dead->due = clock_now() + dead->target->rule->gc_delay_ms;
	if ((dead->dead.count == 0 && !dead->expired.any) || !dead_heap_put(&gc->waiting, dead))
		dead_free(dead); /* what is dropped here the sweep finds */
}

must_check enum link_result gc_look(struct gc *gc, struct link *link, struct mover_work **works,
				    size_t count)
{
	struct dead_look looking = {.target = works[0]->target};
	auto_buffer struct buffer links = {0};
	size_t start = writer_open(&links);
	enum link_result result;
	struct dead *dead;
	char name[12];

	for (size_t i = 0; i < count; i++)
		writer_renamed(&links, writer_index(name, i),
			       &(struct element){.type = works[i]->id_type, .value = works[i]->id});
	writer_close(&links, start);
	result = dead_find(&looking, link, buffer_view(&links));
	if (result == LINK_DONE && looking.found)
		result = dead_find_alive(&looking, link, dead_take_main);
	while (result == LINK_DONE && (dead = dead_pop(&looking))) {
		dead_keep(dead, &looking);
		wait_for_time(gc, dead, link_serial(link));
	}
	dead_look_fini(&looking);
	for (size_t i = 0; i < count; i++)
		mover_queue_done(gc->mover->garbage, works[i],
				 result == LINK_DONE ? MOVER_SETTLED : MOVER_RETRY, clock_now());
	return result;
}

static void add_removal(struct buffer *out, size_t *place, const struct dead *dead)
{
	const struct element link = {.type = dead->type, .value = dead->link};
	auto_buffer struct buffer generations = {0};
	size_t start = writer_open(&generations);
	char name[12];

	for (size_t i = 0; i < dead->dead.count; i++)
		command_generation(&generations, writer_index(name, i),
				   (struct bytes){dead->dead.all[i], 16});
	writer_close(&generations, start);
	template_append(
		out, place, "{q: {'@link': @equal, '_spill.g': {$in: @generations}}, limit: 0}",
		fill("link", dead->target->rule->overflow.link), command_fill_equal("equal", &link),
		fill_array("generations", buffer_view(&generations)));
}

/* G2, of `dead` and, if `all`, of those behind it. */
static enum link_result remove_dead(struct link *link, const struct dead *dead, bool all)
{
	const struct mover_target *target = dead->target;
	auto_buffer struct buffer deletes = {0};
	size_t start = writer_open(&deletes), count = 0;

	do {
		add_removal(&deletes, &count, dead);
		dead = dead->next;
	} while (all && dead);
	writer_close(&deletes, start);
	return command_run(link, target->overflow_database,
			   "{delete: @overflow, deletes: @deletes, writeConcern: @write_concern}",
			   fill("overflow", target->overflow_collection),
			   fill_array("deletes", buffer_view(&deletes)));
}

/* Takes those out of which nothing is dead. */
static size_t drop_alive(struct dead_look *looking)
{
	struct dead **at = &looking->found;
	size_t count = 0;

	while (*at) {
		struct dead *dead = *at;

		dead_keep(dead, looking);
		count += dead->dead.count;
		if (dead->dead.count > 0) {
			at = &dead->next;
			continue;
		}
		*at = dead->next;
		dead_free(dead);
	}
	return count;
}

must_check enum link_result gc_clear_links(struct link *link, struct mover_target *target,
					   struct bytes links, struct metrics *metrics)
{
	struct dead_look looking = {.target = target};
	enum link_result result = dead_find(&looking, link, links);
	size_t count = 0;

	if (result == LINK_DONE && looking.found)
		result = dead_find_alive(&looking, link, dead_take_main);
	if (result == LINK_DONE)
		count = drop_alive(&looking);
	if (result == LINK_DONE && count > 0)
		result = remove_dead(link, looking.found, true);
	if (result == LINK_DONE)
		metric_add_shared(&metrics->generations_collected, (int64_t)count);
	dead_look_fini(&looking);
	return result;
}

must_check enum link_result gc_clear(struct link *link, struct mover_target *target,
				     const struct element *id, struct metrics *metrics)
{
	auto_buffer struct buffer links = {0};

	template_write_document(&links, "{'0': @id}", fill("id", id));
	return gc_clear_links(link, target, buffer_view(&links), metrics);
}

/* A page of the overflow of a collection that is gone. */
struct page {
	struct dead_look looking; /* has to be the first: dead_find_alive hands it on */
	struct place *place;
	size_t count;
};

static void take_page(void *context, struct bytes document)
{
	struct page *page = context;
	struct element id;

	page->count++;
	dead_take_overflow(&page->looking, document);
	if (!document_find(document, "_id", &id))
		return;
	bytes_free(page->place->value);
	*page->place = (struct place){id.type, bytes_copy(id.value)};
}

#define PAGE(from) \
	"{find: @overflow, projection: {'@link': 1, '_spill.g': 1}, hint: {_id: 1}, " from \
	"limit: @most, batchSize: @most}"

static enum link_result find_page(struct page *page, struct link *link)
{
	const struct mover_target *target = page->looking.target;
	const struct element from = {.type = page->place->type, .value = page->place->value};

	/* An index bound doesn't stop at a change of type. */
	return command_find(link, target->overflow_database, take_page, page,
			    from.type ? PAGE("min: {_id: @from}, ") : PAGE(""),
			    fill("overflow", target->overflow_collection),
			    fill("link", target->rule->overflow.link), fill("from", &from),
			    fill_int32("most", PAGE_MAX));
}

/* A document that is there: its count of dead generations becomes 0. What its state names is alive
 * also where its `_id` is written in another way than the link. */
static void take_present(void *context, struct bytes document)
{
	struct dead *dead = dead_entry_of(context, document);

	dead_take_main(context, document);
	if (dead)
		dead->dead.count = 0;
}

/* Leaves those whose documents are gone. */
static void leave_present(struct mover *mover, struct dead_look *looking)
{
	struct dead **at = &looking->found;

	while (*at) {
		struct dead *dead = *at;

		if (dead->dead.count > 0) {
			at = &dead->next;
			continue;
		}
		mover_queue_look(mover->garbage, looking->target, dead->type, dead->link,
				 clock_now());
		*at = dead->next;
		dead_free(dead);
	}
}

must_check enum link_result gc_remove_page(struct mover *mover, struct link *link,
					   struct mover_target *target, struct place *place,
					   bool *more)
{
	struct page page = {.looking = {.target = target, .sure = place->type != 0},
			    .place = place};
	struct dead_look *looking = &page.looking;
	enum link_result result = dead_ask_owner(link, target);

	*more = false;
	if (result != LINK_DONE || !owner_is_known(target->owner))
		return result; /* not known to be the rule's: it stays */
	result = find_page(&page, link);
	*more = page.count == PAGE_MAX;
	if (result == LINK_DONE && looking->found)
		result = dead_find_alive(looking, link, take_present);
	*more = *more && !looking->renamed[0];
	for (struct dead *dead = looking->found; dead; dead = dead->next)
		dead_keep(dead, looking);
	if (result == LINK_DONE)
		leave_present(mover, looking);
	if (result == LINK_DONE && looking->found)
		result = remove_dead(link, looking->found, true);
	for (struct dead *dead = looking->found; dead && result == LINK_DONE; dead = dead->next)
		metric_add_shared(&mover->metrics->generations_collected,
				  (int64_t)dead->dead.count);
	dead_look_fini(looking);
	return result;
}

/* Where G1 saw no document it may have come since, by a restore that is behind its overflow's. */
static enum link_result judge_again(struct link *link, struct dead *dead)
{
	struct dead_look looking = {
		.target = dead->target, .found = dead, .latest = true, .sure = true};
	enum link_result result = LINK_DONE;

	if (!dead->present) {
		result = dead_find_alive(&looking, link, dead_take_main);
		dead_keep(dead, &looking);
	}
	free(looking.alive.all);
	return result;
}

static void finish(struct gc *gc, struct link *link, struct dead *dead, int64_t now)
{
	const struct element of = {.type = dead->type, .value = dead->link};
	struct mover *mover = gc->mover;
	enum link_result result = LINK_LOST;

	if (target_is_gone(dead->target)) {
		dead_free(dead);
		return;
	}
	if (link && link_serial(link) == dead->serial && dead_may_go(dead))
		result = judge_again(link, dead);
	if (result == LINK_DONE && dead->dead.count > 0)
		result = remove_dead(link, dead, false);
	if (result == LINK_DONE && dead->expired.any)
		result = expired_remove(link, dead->target, &of, &dead->expired);
	if (result == LINK_DONE) {
		metric_add_shared(&mover->metrics->generations_collected,
				  (int64_t)dead->dead.count);
		/* The numbers are free: a tail may wait for them. */
		mover_queue_look(mover->rounds, dead->target, dead->type, dead->link, now);
	} else {
		mover_queue_look(mover->garbage, dead->target, dead->type, dead->link, now + 1000);
	}
	dead_free(dead);
}

int64_t gc_sweep_out(struct gc *gc, struct link *link, int64_t now)
{
	struct dead *dead;

	while ((dead = dead_heap_take(&gc->waiting, now)))
		finish(gc, link, dead, now);
	return dead_heap_due(&gc->waiting);
}
