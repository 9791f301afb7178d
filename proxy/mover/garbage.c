/* Garbage: overflow documents of generations that are dead.
 *
 * G0 which generations are there, then G1 which is main's; a time later G2 removes the others, on
 * the same link: a server that crashed in between may have forgotten that a generation died. */
#include "proxy/mover/garbage.h"
#include "proxy/base/clock.h"

#include "proxy/ownership/referrers.h"
#include "proxy/ownership/renamed.h"
#include "proxy/ownership/rule_owner.h"
#include "rules/rule/generation.h"

#include <stdlib.h>

#define WAITING_MAX 100000
#define PAGE_MAX 1000

/* The dead generations of one document. */
struct dead {
	struct dead *next;
	struct mover_target *target;
	int64_t due;
	uint64_t serial; /* of the link that G0 and G1 ran on */
	uint8_t type;
	struct bytes link; /* owned */
	uint8_t (*generations)[16];
	size_t count;
	bool present; /* the document is there */
};

struct gc {
	struct mover *mover;
	struct dead *waiting; /* by due */
	size_t count;
};

struct gc *gc_new(struct mover *mover)
{
	struct gc *gc = must_calloc(1, sizeof(*gc));

	gc->mover = mover;
	return gc;
}

static void dead_free(struct dead *dead)
{
	free((void *)dead->link.data);
	free(dead->generations);
	free(dead);
}

void gc_free(struct gc *gc)
{
	if (!gc)
		return;
	while (gc->waiting) {
		struct dead *dead = gc->waiting;

		gc->waiting = dead->next;
		dead_free(dead);
	}
	free(gc);
}

/* What G0 and G1 find. */
struct looking {
	struct mover_target *target;
	struct dead *found; /* one a link value, newest first */
	uint8_t (*alive)[16];
	size_t alive_count;
	bool unreadable;            /* a state on this page: nobody knows what is alive */
	bool latest;                /* main as it is now, be it majority committed or not */
	char renamed[RENAMED_SIZE]; /* the collection that may need all of it; empty: none */
	bool sure;                  /* none needs it, as was asked before */
};

static bool generation_at(struct bytes document, const char *path, const uint8_t **generation)
{
	struct bytes name;

	if (!generation_find(document, path, &name))
		return false;
	*generation = name.data;
	return true;
}

static bool holds(uint8_t (*generations)[16], size_t count, const uint8_t *generation)
{
	for (size_t i = 0; i < count; i++) {
		if (memcmp(generations[i], generation, 16) == 0)
			return true;
	}
	return false;
}

/* Or NULL. Replies come by link, mostly. */
static struct dead *find_entry(const struct looking *looking, const struct element *link)
{
	struct dead *dead = looking->found;

	while (dead && !(dead->type == link->type && bytes_equal(dead->link, link->value)))
		dead = dead->next;
	return dead;
}

static struct dead *entry_for(struct looking *looking, const struct element *link)
{
	struct dead *dead = find_entry(looking, link);
	uint8_t *copy;

	if (dead)
		return dead;
	dead = must_calloc(1, sizeof(*dead));
	copy = must_malloc(link->value.length + 1);
	memcpy(copy, link->value.data, link->value.length);
	dead->type = link->type;
	dead->link = (struct bytes){copy, link->value.length};
	dead->target = looking->target;
	dead->next = looking->found;
	looking->found = dead;
	return dead;
}

static void take_overflow(void *context, struct bytes document)
{
	struct looking *looking = context;
	struct element link;
	const uint8_t *generation;
	struct dead *dead;

	/* What Spillway did not write is never removed. */
	if (!document_find(document, looking->target->rule->overflow.link, &link) ||
	    !generation_at(document, "_spill.g", &generation))
		return;
	dead = entry_for(looking, &link);
	if (holds(dead->generations, dead->count, generation))
		return;
	dead->generations = must_realloc(dead->generations, (dead->count + 1) * 16);
	memcpy(dead->generations[dead->count++], generation, 16);
}

/* The document's entry, or NULL: its `_id` may equal the link and be written otherwise. */
static struct dead *entry_of(struct looking *looking, struct bytes document)
{
	struct element id;

	return document_find(document, "_id", &id) ? find_entry(looking, &id) : NULL;
}

/* What can't be read may refer to any generation. */
static void keep_all(struct looking *looking, struct dead *dead)
{
	if (dead)
		dead->count = 0;
	else
		looking->unreadable = true;
}

static void keep_alive(struct looking *looking, const uint8_t *generation)
{
	looking->alive = must_realloc(looking->alive, (looking->alive_count + 1) * 16);
	memcpy(looking->alive[looking->alive_count++], generation, 16);
}

static void take_main(void *context, struct bytes document)
{
	struct looking *looking = context;
	struct dead *dead = entry_of(looking, document);
	const uint8_t *generation;
	struct element state;

	if (dead)
		dead->present = true;
	if (!document_find(document, "_spill", &state))
		return;
	if (state.type != BSON_BYTE_DOCUMENT) { /* an array is none: nothing of it can be read */
		keep_all(looking, dead);
		return;
	}
	if (!document_find(state.value, looking->target->rule->key, &state))
		return;
	if (state.type != BSON_BYTE_DOCUMENT || !generation_at(state.value, "g", &generation)) {
		keep_all(looking, dead);
		return;
	}
	keep_alive(looking, generation);
}

static size_t open_in(struct buffer *out, const char *name, size_t *condition)
{
	*condition = writer_open_document(out, name);
	return writer_open_array(out, "$in");
}

static void write_projection(struct buffer *out, const char *first, const char *second)
{
	size_t projection = writer_open_document(out, "projection");

	writer_int32(out, first, 1);
	if (second)
		writer_int32(out, second, 1);
	writer_close(out, projection);
}

/* G0: the generations of these documents' batches. */
static enum link_result find_generations(struct looking *looking, struct link *link,
					 const struct element *links, size_t count)
{
	const char *field = looking->target->rule->overflow.link;
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), filter, condition, in;
	char name[12];

	writer_string(&out, "find", looking->target->overflow_collection);
	filter = writer_open_document(&out, "filter");
	in = open_in(&out, field, &condition);
	for (size_t i = 0; i < count; i++)
		writer_renamed(&out, writer_index(name, i), &links[i]);
	writer_close(&out, in);
	writer_close(&out, condition);
	writer_close(&out, filter);
	write_projection(&out, field, "_spill.g");
	writer_close(&out, start);
	return link_find(link, looking->target->overflow_database, buffer_view(&out), take_overflow,
			 looking);
}

static void write_links(const struct looking *looking, struct buffer *out)
{
	char name[12];
	size_t i = 0;

	for (const struct dead *dead = looking->found; dead; dead = dead->next)
		writer_renamed(out, writer_index(name, i++),
			       &(struct element){.type = dead->type, .value = dead->link});
}

/* G1, no earlier than G0: these fields of the main documents. */
static enum link_result find_mains(struct looking *looking, struct link *link, const char *field,
				   link_document take)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), filter, condition, in;

	writer_string(&out, "find", looking->target->collection);
	filter = writer_open_document(&out, "filter");
	in = open_in(&out, "_id", &condition);
	write_links(looking, &out);
	writer_close(&out, in);
	writer_close(&out, condition);
	writer_close(&out, filter);
	write_projection(&out, field, NULL);
	if (!looking->latest)
		command_read_concern(&out, link, time_after(link, 0));
	writer_close(&out, start);
	return link_find(link, looking->target->database, buffer_view(&out), take, looking);
}

static enum link_result ask_owner(struct link *link, struct mover_target *target)
{
	char reason[320];

	return target->owner == OWNER_UNKNOWN ? rule_owner_ask(link, target, reason, sizeof(reason))
					      : LINK_DONE;
}

/* Where it is only likely whose the overflow is, what a present document has left goes. */
static bool may_go(const struct dead *dead)
{
	enum overflow_owner owner = dead->target->owner;

	return owner_is_known(owner) || (owner == OWNER_LIKELY && dead->present);
}

/* Nothing but a sample says whose the overflow is. What was born for this very array, and left by a
 * document that is there, needs no other proof. */
static bool needs_proof(const struct dead *dead, const uint8_t *generation)
{
	return dead->target->owner != OWNER_THIS && may_go(dead) &&
	       !(dead->present && target_named(dead->target, generation));
}

static bool some_need_proof(const struct looking *looking)
{
	bool none = true;

	for (const struct dead *dead = looking->found; dead; dead = dead->next)
		for (size_t i = 0; none && i < dead->count; i++)
			none = !needs_proof(dead, dead->generations[i]) ||
			       holds(looking->alive, looking->alive_count, dead->generations[i]);
	return !none;
}

/* Not all could be asked: what has no document here may be that of one that couldn't. */
static void keep_absent(const struct looking *looking)
{
	for (struct dead *dead = looking->found; dead; dead = dead->next)
		if (!dead->present)
			dead->count = 0;
}

/* Whatever any state of a document names. */
static void take_referrer(void *context, struct bytes document)
{
	struct looking *looking = context;
	const uint8_t *generation;
	struct element all, state;
	struct cursor cursor;
	struct bytes states, own;

	if (!document_find(document, "_spill", &all) || !element_document(&all, &states) ||
	    !cursor_open(&cursor, states))
		return;
	while (cursor_next(&cursor, &state) == CURSOR_ELEMENT)
		if (element_document(&state, &own) && generation_at(own, "g", &generation))
			keep_alive(looking, generation);
}

/* Who refers to the very generations that would go? */
static enum link_result find_referrers(struct looking *looking, struct link *link)
{
	auto_buffer struct buffer links = {0};
	size_t start = writer_open(&links);
	enum link_result result;
	bool all;

	write_links(looking, &links);
	writer_close(&links, start);
	result = referrers_each(link, looking->target, buffer_view(&links), take_referrer, looking,
				&all);
	if (!all)
		keep_absent(looking);
	return result;
}

/* Behind the documents: who renames the collection before they are read is seen. */
static enum link_result find_renamed(struct looking *looking, struct link *link)
{
	enum link_result result = renamed_find(link, looking->target, true, looking->renamed);

	if (result == LINK_DONE)
		renamed_warn(looking->target, looking->renamed);
	return result;
}

/* The generations that are alive. */
static enum link_result find_alive(struct looking *looking, struct link *link, link_document take)
{
	enum link_result result = ask_owner(link, looking->target);

	if (result == LINK_DONE)
		result = find_mains(looking, link, "_spill", take);
	if (result == LINK_DONE && !looking->sure)
		result = find_renamed(looking, link);
	if (result == LINK_DONE && some_need_proof(looking))
		result = find_referrers(looking, link);
	return result;
}

static void keep_dead(struct dead *dead, const struct looking *looking)
{
	size_t kept = 0;

	if (looking->unreadable || looking->renamed[0] || !may_go(dead))
		dead->count = 0;
	for (size_t i = 0; i < dead->count; i++) {
		if (!holds(looking->alive, looking->alive_count, dead->generations[i]))
			memmove(dead->generations[kept++], dead->generations[i], 16);
	}
	dead->count = kept;
}

/* Takes the entry over. */
static void wait_for_time(struct gc *gc, struct dead *dead, uint64_t serial)
{
	struct dead **at = &gc->waiting;

	if (dead->count == 0 || gc->count == WAITING_MAX) {
		dead_free(dead); /* what is dropped here the sweep finds */
		return;
	}
	dead->serial = serial;
	dead->due = clock_now() + dead->target->rule->gc_delay_ms;
	while (*at && (*at)->due <= dead->due)
		at = &(*at)->next;
	dead->next = *at;
	*at = dead;
	gc->count++;
}

must_check enum link_result gc_look(struct gc *gc, struct link *link, struct mover_work **works,
				    size_t count)
{
	struct looking looking = {.target = works[0]->target};
	struct element *links = must_calloc(count, sizeof(*links));
	enum link_result result;

	for (size_t i = 0; i < count; i++)
		links[i] = (struct element){.type = works[i]->id_type, .value = works[i]->id};
	result = find_generations(&looking, link, links, count);
	free(links);
	if (result == LINK_DONE && looking.found)
		result = find_alive(&looking, link, take_main);
	while (looking.found) {
		struct dead *dead = looking.found;

		looking.found = dead->next;
		if (result == LINK_DONE) {
			keep_dead(dead, &looking);
			wait_for_time(gc, dead, link_serial(link));
		} else {
			dead_free(dead);
		}
	}
	free(looking.alive);
	for (size_t i = 0; i < count; i++)
		mover_queue_done(gc->mover->garbage, works[i],
				 result == LINK_DONE ? MOVER_SETTLED : MOVER_RETRY, clock_now());
	return result;
}

static void write_removal(struct buffer *out, const char *index, const struct dead *dead)
{
	size_t each = writer_open_document(out, index), q = writer_open_document(out, "q");
	size_t condition, in;
	char name[12];

	command_equal(out, dead->target->rule->overflow.link, dead->type, dead->link);
	in = open_in(out, "_spill.g", &condition);
	for (size_t i = 0; i < dead->count; i++)
		command_generation(out, writer_index(name, i),
				   (struct bytes){dead->generations[i], 16});
	writer_close(out, in);
	writer_close(out, condition);
	writer_close(out, q);
	writer_int32(out, "limit", 0);
	writer_close(out, each);
}

/* G2, of `dead` and, where `all`, of those behind it. */
static enum link_result remove_them(struct link *link, const struct dead *dead, bool all)
{
	const struct mover_target *target = dead->target;
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), deletes, count = 0;
	char name[12];

	writer_string(&out, "delete", target->overflow_collection);
	deletes = writer_open_array(&out, "deletes");
	do {
		write_removal(&out, writer_index(name, count++), dead);
		dead = dead->next;
	} while (all && dead);
	writer_close(&out, deletes);
	command_write_concern(&out, link);
	writer_close(&out, start);
	return link_run(link, target->overflow_database, buffer_view(&out));
}

static enum link_result remove_dead(struct link *link, const struct dead *dead)
{
	return remove_them(link, dead, false);
}

must_check enum link_result gc_clear(struct link *link, struct mover_target *target,
				     const struct element *id, struct metrics *metrics)
{
	struct looking looking = {.target = target};
	enum link_result result = find_generations(&looking, link, id, 1);

	if (result == LINK_DONE && looking.found)
		result = find_alive(&looking, link, take_main);
	while (looking.found) {
		struct dead *dead = looking.found;

		looking.found = dead->next;
		keep_dead(dead, &looking);
		if (result == LINK_DONE && dead->count > 0)
			result = remove_dead(link, dead);
		if (result == LINK_DONE)
			metric_add_shared(&metrics->generations_collected, (int64_t)dead->count);
		dead_free(dead);
	}
	free(looking.alive);
	return result;
}

/* A page of the overflow of a collection that is gone. */
struct page {
	struct looking looking; /* has to be the first: find_mains hands it on */
	struct gc_place *place;
	size_t count;
};

static void take_page(void *context, struct bytes document)
{
	struct page *page = context;
	struct element id;
	uint8_t *copy;

	page->count++;
	take_overflow(&page->looking, document);
	if (!document_find(document, "_id", &id))
		return;
	copy = must_malloc(id.value.length + 1);
	if (id.value.length > 0)
		memcpy(copy, id.value.data, id.value.length);
	free((void *)page->place->value.data);
	*page->place = (struct gc_place){id.type, {copy, id.value.length}};
}

static enum link_result find_page(struct page *page, struct link *link)
{
	const struct mover_target *target = page->looking.target;
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), document;

	writer_string(&out, "find", target->overflow_collection);
	write_projection(&out, target->rule->overflow.link, "_spill.g");
	document = writer_open_document(&out, "hint");
	writer_int32(&out, "_id", 1);
	writer_close(&out, document);
	if (page->place->type) { /* an index bound doesn't stop at a change of type */
		document = writer_open_document(&out, "min");
		writer_renamed(
			&out, "_id",
			&(struct element){.type = page->place->type, .value = page->place->value});
		writer_close(&out, document);
	}
	writer_int32(&out, "limit", PAGE_MAX);
	writer_int32(&out, "batchSize", PAGE_MAX);
	writer_close(&out, start);
	return link_find(link, target->overflow_database, buffer_view(&out), take_page, page);
}

/* A document that is there: its count of dead generations becomes 0. What its state names is alive
 * also where its `_id` is written in another way than the link. */
static void take_present(void *context, struct bytes document)
{
	struct dead *dead = entry_of(context, document);

	take_main(context, document);
	if (dead)
		dead->count = 0;
}

/* Leaves those whose documents are gone. */
static void leave_present(struct mover *mover, struct looking *looking)
{
	struct dead **at = &looking->found;

	while (*at) {
		struct dead *dead = *at;

		if (dead->count > 0) {
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
					   struct mover_target *target, struct gc_place *place,
					   bool *more)
{
	struct page page = {.looking = {.target = target, .sure = place->type != 0},
			    .place = place};
	struct looking *looking = &page.looking;
	enum link_result result = ask_owner(link, target);

	*more = false;
	if (result != LINK_DONE || !owner_is_known(target->owner))
		return result; /* not known to be the rule's: it stays */
	result = find_page(&page, link);
	*more = page.count == PAGE_MAX;
	if (result == LINK_DONE && looking->found)
		result = find_alive(looking, link, take_present);
	*more = *more && !looking->renamed[0];
	for (struct dead *dead = looking->found; dead; dead = dead->next)
		keep_dead(dead, looking);
	if (result == LINK_DONE)
		leave_present(mover, looking);
	if (result == LINK_DONE && looking->found)
		result = remove_them(link, looking->found, true);
	while (looking->found) {
		struct dead *dead = looking->found;

		looking->found = dead->next;
		if (result == LINK_DONE)
			metric_add_shared(&mover->metrics->generations_collected,
					  (int64_t)dead->count);
		dead_free(dead);
	}
	free(looking->alive);
	return result;
}

/* Where G1 saw no document it may have come since, by a restore that is behind its overflow's. */
static enum link_result judge_again(struct link *link, struct dead *dead)
{
	struct looking looking = {
		.target = dead->target, .found = dead, .latest = true, .sure = true};
	enum link_result result = LINK_DONE;

	if (!dead->present) {
		result = find_alive(&looking, link, take_main);
		keep_dead(dead, &looking);
	}
	free(looking.alive);
	return result;
}

static void finish(struct gc *gc, struct link *link, struct dead *dead, int64_t now)
{
	struct mover *mover = gc->mover;
	enum link_result result = LINK_LOST;

	if (link && link_serial(link) == dead->serial && may_go(dead))
		result = judge_again(link, dead);
	if (result == LINK_DONE && dead->count > 0)
		result = remove_dead(link, dead);
	if (result == LINK_DONE) {
		metric_add_shared(&mover->metrics->generations_collected, (int64_t)dead->count);
		/* The numbers are free: a tail may wait for them. */
		mover_queue_look(mover->rounds, dead->target, dead->type, dead->link, now);
	} else {
		mover_queue_look(mover->garbage, dead->target, dead->type, dead->link, now + 1000);
	}
	dead_free(dead);
}

int64_t gc_sweep_out(struct gc *gc, struct link *link, int64_t now)
{
	while (gc->waiting && gc->waiting->due <= now) {
		struct dead *dead = gc->waiting;

		gc->waiting = dead->next;
		gc->count--;
		dead->next = NULL;
		finish(gc, link, dead, now);
	}
	return gc->waiting ? gc->waiting->due : INT64_MAX;
}
