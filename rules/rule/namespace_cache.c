/* Which namespaces a loop or thread has met, each resolved once for all rules. */
#include "rules/rule/rules.h"

#include "rules/rule/hash.h"

#include <stdlib.h>

#define TRIM_STEPS 256      /* of the hand in one trim: a trim takes some microseconds at most */
#define NAMESPACE_BYTES 255 /* of `database.collection`: mongod has none with a longer name */

/* What the cache holds of one namespace. */
struct entry {
	struct ruled_namespace ruled;
	atomic_size_t holders;
};

struct namespace_slot {
	uint64_t hash;
	uint16_t database_length;
	uint16_t collection_length;
	bool pattern;            /* only patterns match it: it may be evicted */
	bool used;               /* since the hand came by */
	const uint8_t *database; /* the text of `found` */
	const uint8_t *collection;
	struct ruled_namespace *found; /* NULL in an empty slot */
};

/* Evicted by CLOCK: the hand goes round the slots, takes `used` away, and evicts what has none. */
struct namespace_cache {
	struct rule_set *rules;
	uint64_t key;
	struct namespace_slot *slots; /* open addressing, at most half full */
	size_t mask;
	size_t count;
	size_t pattern_count; /* of these, how many no rule names without a pattern */
	size_t hand;
	uint64_t serial;                     /* the latest that was given */
	const struct namespace_guard *guard; /* NULL: not shared */
};

static struct namespace_slot *slots_new(size_t count)
{
	return must_calloc(count, sizeof(struct namespace_slot));
}

struct namespace_cache *namespace_cache_new(struct rule_set *set)
{
	struct namespace_cache *cache = must_calloc(1, sizeof(*cache));

	cache->rules = rule_set_ref(set);
	cache->key = (uint64_t)arc4random() << 32 | arc4random();
	cache->slots = slots_new(16);
	cache->mask = 15;
	return cache;
}

void namespace_cache_share(struct namespace_cache *cache, const struct namespace_guard *guard)
{
	cache->guard = guard;
}

static void cache_enter(const struct namespace_cache *cache)
{
	if (cache->guard)
		cache->guard->enter(cache->guard->context);
}

static void cache_leave(const struct namespace_cache *cache)
{
	if (cache->guard)
		cache->guard->leave(cache->guard->context);
}

struct namespace_cache *namespace_cache_after(const struct namespace_cache *before,
					      struct rule_set *set)
{
	struct namespace_cache *cache = namespace_cache_new(set);

	/* What still goes on with `before` may make it give some more. */
	cache_enter(before);
	cache->serial = before->serial + ((uint64_t)1 << 32);
	cache_leave(before);
	return cache;
}

/* `ruled` is an entry's first field. */
static void ruled_namespace_free(struct rule_set *set, struct ruled_namespace *ruled)
{
	for (size_t i = 0; i < ruled->target_count; i++) {
		rule_set_leave_indexes(set, ruled->targets[i].overflow_indexes);
		free(ruled->targets[i].overflow_database);
		free(ruled->targets[i].overflow_collection);
	}
	rule_set_leave_indexes(set, ruled->indexes);
	free(ruled->targets);
	free(ruled->database);
	free(ruled->collection);
	free(ruled);
}

void namespace_cache_free(struct namespace_cache *cache)
{
	if (!cache)
		return;
	for (size_t i = 0; i <= cache->mask; i++) {
		if (cache->slots[i].found)
			ruled_namespace_free(cache->rules, cache->slots[i].found);
	}
	free(cache->slots);
	rule_set_unref(cache->rules);
	free(cache);
}

struct rule_set *namespace_cache_rules(struct namespace_cache *cache)
{
	return cache->rules;
}

size_t namespace_cache_count(const struct namespace_cache *cache)
{
	return cache->count;
}

void namespace_hold(const struct ruled_namespace *namespace)
{
	if (namespace && namespace->holders)
		atomic_fetch_add_explicit(namespace->holders, 1, memory_order_relaxed);
}

void namespace_release(const struct ruled_namespace *namespace)
{
	if (!namespace || !namespace->holders)
		return;
	require(atomic_fetch_sub_explicit(namespace->holders, 1, memory_order_release) > 0);
}

/* ---- what is new ---- */

static char *text_of(struct bytes view)
{
	return must_strndup((const char *)view.data, view.length);
}

static void target_init(struct target *target, struct rule_set *set, const struct rule *rule,
			struct bytes database, struct bytes collection)
{
	const char *named = rule->overflow.database;

	target->rule = rule;
	target->overflow_database = text_of(named ? bytes_of(named) : database);
	target->overflow_collection = rule_overflow_collection(rule, collection);
	target->overflow_indexes = rule_set_indexes(set, bytes_of(target->overflow_database),
						    bytes_of(target->overflow_collection));
}

static struct ruled_namespace *ruled_namespace_new(struct namespace_cache *cache,
						   struct bytes database, struct bytes collection)
{
	struct entry *entry = must_calloc(1, sizeof(*entry));
	struct ruled_namespace *ruled = &entry->ruled;
	struct rule_set *set = cache->rules;
	size_t count = 0;

	for (size_t i = 0; i < rule_set_count(set); i++)
		count += rule_matches(rule_set_at(set, i), database, collection);
	ruled->database = text_of(database);
	ruled->collection = text_of(collection);
	ruled->indexes = rule_set_indexes(set, database, collection);
	ruled->serial = ++cache->serial;
	ruled->holders = &entry->holders;
	ruled->targets = must_calloc(count, sizeof(*ruled->targets));
	for (size_t i = 0; i < rule_set_count(set); i++) {
		const struct rule *rule = rule_set_at(set, i);

		if (rule_matches(rule, database, collection))
			target_init(&ruled->targets[ruled->target_count++], set, rule, database,
				    collection);
	}
	return ruled;
}

enum naming {
	NAMING_NONE,
	NAMING_PATTERN, /* only patterns match */
	NAMING_EXACT,   /* at least one rule names it */
};

static enum naming namespace_naming(const struct rule_set *set, struct bytes database,
				    struct bytes collection)
{
	enum naming naming = NAMING_NONE;

	if (database.length + 1 + collection.length > NAMESPACE_BYTES)
		return NAMING_NONE;
	for (size_t i = 0; i < rule_set_count(set); i++) {
		const struct rule *rule = rule_set_at(set, i);

		if (!rule_matches(rule, database, collection))
			continue;
		if (!rule_is_pattern(rule))
			return NAMING_EXACT;
		naming = NAMING_PATTERN;
	}
	/* `shop.*` matches its own overflow collections, too. */
	if (naming == NAMING_PATTERN && rule_set_overflow(set, database, collection))
		return NAMING_NONE;
	return naming;
}

/* ---- slots ---- */

static struct namespace_slot *slot_free_at(struct namespace_slot *slots, size_t mask, uint64_t hash)
{
	size_t at = hash & mask;

	while (slots[at].found)
		at = (at + 1) & mask;
	return &slots[at];
}

static void cache_grow(struct namespace_cache *cache)
{
	size_t mask = 2 * cache->mask + 1;
	struct namespace_slot *slots = slots_new(mask + 1);

	for (size_t i = 0; i <= cache->mask; i++) {
		struct namespace_slot *slot = &cache->slots[i];

		if (slot->found)
			*slot_free_at(slots, mask, slot->hash) = *slot;
	}
	free(cache->slots);
	cache->slots = slots;
	cache->mask = mask;
	cache->hand = 0;
}

/* What stands behind it in the same run moves up, so that searches still find that. */
static void slot_evict(struct namespace_cache *cache, size_t hole)
{
	struct namespace_slot *slots = cache->slots;
	size_t mask = cache->mask;

	ruled_namespace_free(cache->rules, slots[hole].found);
	cache->count--;
	cache->pattern_count--;
	for (size_t at = (hole + 1) & mask; slots[at].found; at = (at + 1) & mask) {
		size_t home = slots[at].hash & mask;

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		slots[hole] = slots[at];
		hole = at;
	}
	slots[hole] = (struct namespace_slot){0};
}

void namespace_cache_trim(struct namespace_cache *cache)
{
	/* A command that names very many is paid for at once. */
	size_t steps = cache->pattern_count > 2 * NAMESPACE_CACHE_KEPT ? 2 * (cache->mask + 1)
								       : TRIM_STEPS;

	require(!cache->guard);
	for (; steps > 0 && cache->pattern_count > NAMESPACE_CACHE_KEPT; steps--) {
		struct namespace_slot *slot = &cache->slots[cache->hand];

		if (slot->found && slot->pattern && !slot->used && *slot->found->holders == 0) {
			slot_evict(cache, cache->hand);
			continue;
		}
		slot->used = false;
		cache->hand = (cache->hand + 1) & cache->mask;
	}
}

static const struct ruled_namespace *cache_add(struct namespace_cache *cache, struct bytes database,
					       struct bytes collection, uint64_t hash, bool *full)
{
	enum naming naming = namespace_naming(cache->rules, database, collection);
	struct namespace_slot *slot;

	if (naming == NAMING_NONE)
		return NULL;
	if (full && naming == NAMING_PATTERN && cache->pattern_count >= NAMESPACE_CACHE_MAX) {
		*full = true;
		return NULL;
	}
	if (2 * (cache->count + 1) > cache->mask)
		cache_grow(cache);
	cache->count++;
	cache->pattern_count += naming == NAMING_PATTERN;
	slot = slot_free_at(cache->slots, cache->mask, hash);
	slot->hash = hash;
	slot->pattern = naming == NAMING_PATTERN;
	slot->found = ruled_namespace_new(cache, database, collection);
	slot->database = (const uint8_t *)slot->found->database;
	slot->database_length = (uint16_t)database.length;
	slot->collection = (const uint8_t *)slot->found->collection;
	slot->collection_length = (uint16_t)collection.length;
	return slot->found;
}

static inline bool slot_holds(const struct namespace_slot *slot, struct bytes database,
			      struct bytes collection)
{
	return slot->database_length == database.length &&
	       slot->collection_length == collection.length &&
	       bytes_same(slot->collection, collection.data, collection.length) &&
	       bytes_same(slot->database, database.data, database.length);
}

static const struct ruled_namespace *cache_find(struct namespace_cache *cache,
						struct bytes database, struct bytes collection,
						bool *full)
{
	uint64_t hash = hash_bytes(database, hash_bytes(collection, cache->key));

	for (size_t at = hash & cache->mask;; at = (at + 1) & cache->mask) {
		struct namespace_slot *slot = &cache->slots[at];

		if (!slot->found)
			break;
		if (slot->hash == hash && slot_holds(slot, database, collection)) {
			slot->used = true;
			return slot->found;
		}
	}
	return cache_add(cache, database, collection, hash, full);
}

const struct ruled_namespace *namespace_cache_find(struct namespace_cache *cache,
						   struct bytes database, struct bytes collection,
						   bool *full)
{
	const struct ruled_namespace *found;

	if (full)
		*full = false;
	if (database.length == 0 || collection.length == 0)
		return NULL;
	cache_enter(cache);
	found = cache_find(cache, database, collection, full);
	cache_leave(cache);
	return found;
}
