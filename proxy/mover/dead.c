/* Dead generations: which there are (G0), and which of them main documents name (G1). */
#include "proxy/mover/dead.h"

#include "proxy/ownership/referrers.h"
#include "proxy/ownership/rule_owner.h"
#include "proxy/upstream/clauses.h"
#include "proxy/upstream/target_read.h"
#include "rules/rule/state.h"

#include <stdlib.h>

void dead_free(struct dead *dead)
{
	bytes_free(dead->link);
	free(dead->dead.all);
	free(dead);
}

struct dead *dead_pop(struct dead_look *looking)
{
	struct dead *dead = looking->found;

	if (dead) {
		looking->found = dead->next;
		dead->next = NULL;
	}
	return dead;
}

void dead_look_fini(struct dead_look *looking)
{
	struct dead *dead;

	while ((dead = dead_pop(looking)))
		dead_free(dead);
	free(looking->alive.all);
}

static bool holds(const struct generations *generations, const uint8_t *generation)
{
	for (size_t i = 0; i < generations->count; i++)
		if (memcmp(generations->all[i], generation, 16) == 0)
			return true;
	return false;
}

static void add(struct generations *generations, const uint8_t *generation)
{
	generations->all = must_realloc(generations->all, (generations->count + 1) * 16);
	memcpy(generations->all[generations->count++], generation, 16);
}

/* Or NULL. Replies come by link, mostly. */
static struct dead *find_entry(const struct dead_look *looking, const struct element *link)
{
	struct dead *dead = looking->found;

	while (dead && !(dead->type == link->type && bytes_equal(dead->link, link->value)))
		dead = dead->next;
	return dead;
}

static struct dead *entry_for(struct dead_look *looking, const struct element *link)
{
	struct dead *dead = find_entry(looking, link);

	if (dead)
		return dead;
	dead = must_calloc(1, sizeof(*dead));
	dead->type = link->type;
	dead->link = bytes_copy(link->value);
	dead->target = looking->target;
	dead->next = looking->found;
	looking->found = dead;
	return dead;
}

void dead_take_overflow(void *context, struct bytes document)
{
	struct dead_look *looking = context;
	struct element link;
	struct bytes generation;
	struct dead *dead;

	/* What Spillway did not write is never removed. */
	if (!document_find(document, looking->target->rule->overflow.link, &link) ||
	    !generation_find(document, "_spill.g", &generation))
		return;
	dead = entry_for(looking, &link);
	dead->marked |= document_find_path(document, "_spill.u", &link);
	if (!holds(&dead->dead, generation.data))
		add(&dead->dead, generation.data);
}

/* The document's entry, or NULL: its `_id` may equal the link and be written otherwise. */
struct dead *dead_entry_of(struct dead_look *looking, struct bytes document)
{
	struct element id;

	return document_find(document, "_id", &id) ? find_entry(looking, &id) : NULL;
}

/* What can't be read may refer to any generation. */
static void keep_all(struct dead_look *looking, struct dead *dead)
{
	if (dead)
		dead->dead.count = 0;
	else
		looking->unreadable = true;
}

void dead_take_main(void *context, struct bytes document)
{
	struct dead_look *looking = context;
	struct dead *dead = dead_entry_of(looking, document);
	struct bytes names[STATE_NAMES];
	struct element state;
	struct state read;
	size_t count;

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
	count = state_names(&state, names);
	if (count == 0)
		keep_all(looking, dead);
	for (size_t i = 0; i < count; i++)
		add(&looking->alive, names[i].data);
	if (dead && dead->marked && count == STATE_NAMES && !state_read_any(&state, false, &read))
		expired_note(&dead->expired, &read);
}

/* What no document can have as its `_id` Spillway has not written: it stays. */
static void splice_links(struct buffer *out, size_t *place, const void *context)
{
	const struct bytes *links = context;
	struct cursor cursor;
	struct element each;
	char name[12];

	require(cursor_open(&cursor, *links));
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
		if (target_may_be_id(&each))
			writer_renamed(out, writer_index(name, (*place)++), &each);
}

/* G0. */
must_check enum link_result dead_find(struct dead_look *looking, struct link *link,
				      struct bytes links)
{
	const struct mover_target *target = looking->target;

	return command_find(link, target->overflow_database, dead_take_overflow, looking,
			    "{find: @overflow, filter: {'@link': {$in: [..@links]}}, "
			    "projection: {'@link': 1, '_spill.g': 1, '_spill.u': 1}}",
			    fill("overflow", target->overflow_collection),
			    fill("link", target->rule->overflow.link),
			    fill_spliced("links", splice_links, &links));
}

/* The links of what was found, an array. */
static void write_links(const struct dead_look *looking, struct buffer *out)
{
	size_t start = writer_open(out), count = 0;
	char name[12];

	for (const struct dead *dead = looking->found; dead; dead = dead->next)
		writer_renamed(out, writer_index(name, count++),
			       &(struct element){.type = dead->type, .value = dead->link});
	writer_close(out, start);
}

#define MAINS "{find: @collection, filter: {_id: {$in: @links}}, projection: {_spill: 1}"

/* G1, no earlier than G0. */
static enum link_result find_mains(struct dead_look *looking, struct link *link, link_document take)
{
	auto_buffer struct buffer links = {0};

	write_links(looking, &links);
	return command_find(link, looking->target->database, take, looking,
			    looking->latest ? MAINS "}" : MAINS ", readConcern: @read_concern}",
			    fill("collection", looking->target->collection),
			    fill_array("links", buffer_view(&links)));
}

must_check enum link_result dead_ask_owner(struct link *link, struct mover_target *target)
{
	char reason[320];

	return target->owner == OWNER_UNKNOWN ? rule_owner_ask(link, target, reason, sizeof(reason))
					      : LINK_DONE;
}

/* Where it is only likely whose the overflow is, what a present document has left goes. */
bool dead_may_go(const struct dead *dead)
{
	enum overflow_owner owner = dead->target->owner;

	return owner_is_known(owner) || (owner == OWNER_LIKELY && dead->present);
}

/* Nothing but a sample says whose the overflow is. What was born for this very array, and left by a
 * document that is there, needs no other proof. */
static bool needs_proof(const struct dead *dead, const uint8_t *generation)
{
	return dead->target->owner != OWNER_THIS && dead_may_go(dead) &&
	       !(dead->present && target_named(dead->target, generation));
}

static bool some_need_proof(const struct dead_look *looking)
{
	bool none = true;

	for (const struct dead *dead = looking->found; dead; dead = dead->next)
		for (size_t i = 0; none && i < dead->dead.count; i++)
			none = !needs_proof(dead, dead->dead.all[i]) ||
			       holds(&looking->alive, dead->dead.all[i]);
	return !none;
}

/* Not all could be asked: what has no document here may be that of one that couldn't. */
static void keep_absent(const struct dead_look *looking)
{
	for (struct dead *dead = looking->found; dead; dead = dead->next)
		if (!dead->present)
			dead->dead.count = 0;
}

/* Whatever any state of a document names. */
static void take_referrer(void *context, struct bytes document)
{
	struct dead_look *looking = context;
	struct bytes states, names[STATE_NAMES];
	struct element all, state;
	struct cursor cursor;

	if (!document_find(document, "_spill", &all) || !element_document(&all, &states) ||
	    !cursor_open(&cursor, states))
		return;
	while (cursor_next(&cursor, &state) == CURSOR_ELEMENT)
		for (size_t i = state_names(&state, names); i-- > 0;)
			add(&looking->alive, names[i].data);
}

/* Who refers to the very generations that would go? */
static enum link_result find_referrers(struct dead_look *looking, struct link *link)
{
	auto_buffer struct buffer links = {0};
	enum link_result result;
	bool all;

	write_links(looking, &links);
	result = referrers_each(link, looking->target, buffer_view(&links), take_referrer, looking,
				&all);
	if (!all)
		keep_absent(looking);
	return result;
}

/* Behind the documents: who renames the collection before they are read is seen. */
static enum link_result find_renamed(struct dead_look *looking, struct link *link)
{
	enum link_result result = renamed_find(link, looking->target, true, looking->renamed);

	if (result == LINK_DONE)
		renamed_warn(looking->target, looking->renamed);
	return result;
}

/* The generations that are alive. */
must_check enum link_result dead_find_alive(struct dead_look *looking, struct link *link,
					    link_document take)
{
	enum link_result result = dead_ask_owner(link, looking->target);

	if (result == LINK_DONE)
		result = find_mains(looking, link, take);
	if (result == LINK_DONE && !looking->sure)
		result = find_renamed(looking, link);
	if (result == LINK_DONE && some_need_proof(looking))
		result = find_referrers(looking, link);
	return result;
}

void dead_keep(struct dead *dead, const struct dead_look *looking)
{
	size_t kept = 0;

	if (looking->unreadable || looking->renamed[0] || !dead_may_go(dead)) {
		dead->dead.count = 0;
		dead->expired.any = false;
	}
	for (size_t i = 0; i < dead->dead.count; i++) {
		if (!holds(&looking->alive, dead->dead.all[i]))
			memmove(dead->dead.all[kept++], dead->dead.all[i], 16);
	}
	dead->dead.count = kept;
}

/* ---- those that wait: as many as documents are edited in gc_delay ---- */

void dead_heap_fini(struct dead_heap *heap)
{
	for (size_t i = 0; i < heap->count; i++)
		dead_free(heap->all[i]);
	free(heap->all);
	*heap = (struct dead_heap){0};
}

static size_t bytes_of_dead(const struct dead *dead)
{
	return dead->link.length + dead->dead.count * sizeof(*dead->dead.all);
}

static bool is_full(const struct dead_heap *heap, const struct dead *dead)
{
	return heap->count == DEAD_HEAP_MAX || heap->bytes + bytes_of_dead(dead) > DEAD_HEAP_BYTES;
}

must_check bool dead_heap_put(struct dead_heap *heap, struct dead *dead)
{
	size_t place = heap->count;

	if (is_full(heap, dead))
		return false;
	if (heap->count == heap->room) {
		heap->room = heap->room ? 2 * heap->room : 16;
		heap->all = must_realloc(heap->all, heap->room * sizeof(struct dead *));
	}
	heap->count++;
	heap->bytes += bytes_of_dead(dead);
	for (; place > 0 && heap->all[(place - 1) / 2]->due > dead->due; place = (place - 1) / 2)
		heap->all[place] = heap->all[(place - 1) / 2];
	heap->all[place] = dead;
	return true;
}

/* The last one, down from the first place. */
static void sink(struct dead_heap *heap)
{
	struct dead *dead = heap->all[heap->count];
	size_t place = 0, child;

	while ((child = 2 * place + 1) < heap->count) {
		if (child + 1 < heap->count && heap->all[child + 1]->due < heap->all[child]->due)
			child++;
		if (heap->all[child]->due >= dead->due)
			break;
		heap->all[place] = heap->all[child];
		place = child;
	}
	heap->all[place] = dead;
}

struct dead *dead_heap_take(struct dead_heap *heap, int64_t now)
{
	struct dead *first;

	if (dead_heap_due(heap) > now || heap->count == 0)
		return NULL;
	first = heap->all[0];
	heap->count--;
	heap->bytes -= bytes_of_dead(first);
	if (heap->count > 0)
		sink(heap);
	return first;
}

int64_t dead_heap_due(const struct dead_heap *heap)
{
	return heap->count > 0 ? heap->all[0]->due : INT64_MAX;
}
