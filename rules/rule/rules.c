/* The rule set, compiled for the question that every message asks: does a rule concern this
 * namespace? */
#include "rules/rule/rules.h"

#include "rules/rule/glob.h"
#include "rules/rule/hash.h"
#include "rules/rule/known_indexes.h"
#include "rules/rule/views.h"

#include <stdatomic.h>
#include <stdlib.h>

/* One part of a namespace as a rule names it. */
struct part {
	struct bytes text;
	bool pattern;
};

/* Where a rule's documents live. */
struct place {
	struct part database;
	struct part collection;
};

/* A table of exact names: open addressing, at most a quarter full (most searches are
 * for a name that is not there), an empty slot ends a search. */
struct name_slot {
	uint64_t hash;
	struct bytes name; /* data is NULL in an empty slot */
};

struct rule_set {
	atomic_size_t references;
	struct rule *rules;
	size_t count;
	struct place *mains;     /* one a rule */
	struct place *overflows; /* one a rule; the collection's text is owned */
	uint64_t key;
	struct name_slot *names; /* collection names without a `*` */
	size_t mask;
	struct part *patterns; /* collection names with one */
	size_t pattern_count;
	struct views *views; /* counts who looks */
	struct index_book indexes;
};

static struct part part_of(const char *text)
{
	struct bytes view = bytes_of(text);

	return (struct part){view, glob_is(view)};
}

static inline bool part_matches(const struct part *part, struct bytes name)
{
	if (!part->pattern)
		return bytes_equal(part->text, name);
	return glob_match(part->text, name);
}

bool rule_spares_database(struct bytes database)
{
	static const char *const databases[] = {"admin", "local", "config", "spillway"};

	for (size_t i = 0; i < ARRAY_LENGTH(databases); i++) {
		if (bytes_are(database, databases[i]))
			return true;
	}
	return false;
}

bool rule_spares_collection(struct bytes collection)
{
	return bytes_begin_with(collection, "system.");
}

static inline bool database_matches(const struct part *part, struct bytes name)
{
	return part_matches(part, name) && !rule_spares_database(name);
}

static inline bool place_matches(const struct place *place, struct bytes database,
				 struct bytes collection)
{
	return part_matches(&place->collection, collection) &&
	       database_matches(&place->database, database) && !rule_spares_collection(collection);
}

bool rule_pattern_matches_database(const char *pattern, struct bytes database)
{
	struct part part = part_of(pattern);

	return database_matches(&part, database);
}

bool rule_matches(const struct rule *rule, struct bytes database, struct bytes collection)
{
	struct place place = {part_of(rule->database), part_of(rule->collection)};

	return place_matches(&place, database, collection);
}

bool rule_is_pattern(const struct rule *rule)
{
	return glob_is(bytes_of(rule->database)) || glob_is(bytes_of(rule->collection));
}

char *rule_overflow_collection(const struct rule *rule, struct bytes collection)
{
	const char *form = rule->overflow.collection;
	const char *mark = strstr(form, RULE_COLLECTION_MARK);
	auto_buffer struct buffer name = {0};

	if (!mark)
		return must_strndup(form, strlen(form));
	buffer_append(&name, form, (size_t)(mark - form));
	buffer_append(&name, collection.data, collection.length);
	mark += strlen(RULE_COLLECTION_MARK);
	buffer_append(&name, mark, strlen(mark) + 1);
	return (char *)buffer_steal(&name).data;
}

static void names_add(struct rule_set *set, const struct part *part)
{
	uint64_t hash = hash_bytes(part->text, set->key);
	size_t at = hash & set->mask;

	if (part->pattern) {
		set->patterns[set->pattern_count++] = *part;
		return;
	}
	while (set->names[at].name.data) {
		if (bytes_equal(set->names[at].name, part->text))
			return;
		at = (at + 1) & set->mask;
	}
	set->names[at] = (struct name_slot){hash, part->text};
}

static void rule_compile(struct rule_set *set, size_t index)
{
	struct rule *rule = &set->rules[index];
	struct place *main = &set->mains[index], *overflow = &set->overflows[index];
	const char *database = rule->overflow.database ? rule->overflow.database : rule->database;

	rule->index = index;
	main->database = part_of(rule->database);
	main->collection = part_of(rule->collection);
	overflow->database = part_of(database);
	overflow->collection = part_of(rule_overflow_collection(rule, main->collection.text));
	names_add(set, &main->collection);
	names_add(set, &overflow->collection);
}

struct rule_set *rule_set_new(struct rule *rules, size_t count)
{
	struct rule_set *set = must_calloc(1, sizeof(*set));
	size_t slots = 8;

	set->views = must_calloc(1, sizeof(*set->views));
	while (slots < 8 * count)
		slots *= 2;
	atomic_init(&set->references, 1);
	set->rules = rules;
	set->count = count;
	set->key = (uint64_t)arc4random() << 32 | arc4random();
	set->mains = must_calloc(count, sizeof(*set->mains));
	set->overflows = must_calloc(count, sizeof(*set->overflows));
	set->names = must_calloc(slots, sizeof(*set->names));
	set->mask = slots - 1;
	set->patterns = must_calloc(2 * count, sizeof(*set->patterns));
	index_book_init(&set->indexes, set->key);
	for (size_t i = 0; i < count; i++)
		rule_compile(set, i);
	return set;
}

struct rule_set *rule_set_ref(struct rule_set *set)
{
	atomic_fetch_add_explicit(&set->references, 1, memory_order_relaxed);
	return set;
}

void rule_set_unref(struct rule_set *set)
{
	if (!set || atomic_fetch_sub_explicit(&set->references, 1, memory_order_acq_rel) > 1)
		return;
	for (size_t i = 0; i < set->count; i++) {
		bytes_free(set->overflows[i].collection.text);
		rule_fini(&set->rules[i]);
	}
	views_fini(set->views);
	free(set->views);
	index_book_fini(&set->indexes);
	free(set->rules);
	free(set->mains);
	free(set->overflows);
	free(set->names);
	free(set->patterns);
	free(set);
}

size_t rule_set_count(const struct rule_set *set)
{
	return set->count;
}

const struct rule *rule_set_at(const struct rule_set *set, size_t index)
{
	require(index < set->count);
	return &set->rules[index];
}

void rule_fini(struct rule *rule)
{
	free(rule->name);
	free(rule->database);
	free(rule->collection);
	free(rule->array);
	free(rule->key);
	free(rule->flag.field);
	bytes_free(rule->flag.value.value);
	bytes_free(rule->flag.otherwise.value);
	free(rule->counters.total);
	free(rule->counters.documents);
	free(rule->reference.field);
	free(rule->reference.format);
	free(rule->overflow.database);
	free(rule->overflow.collection);
	free(rule->overflow.link);
	free(rule->overflow.array);
	free(rule->overflow.batch_field);
	free(rule->overflow.created);
	bytes_free(rule->overflow.indexes);
	*rule = (struct rule){0};
}

bool rule_set_may_concern(const struct rule_set *set, struct bytes collection)
{
	uint64_t hash = hash_bytes(collection, set->key);

	for (size_t at = hash & set->mask; set->names[at].name.data; at = (at + 1) & set->mask) {
		if (set->names[at].hash == hash && bytes_equal(set->names[at].name, collection))
			return true;
	}
	for (size_t i = 0; i < set->pattern_count; i++) {
		if (glob_match(set->patterns[i].text, collection))
			return true;
	}
	return views_may_hold(set->views, collection);
}

void rule_set_take_views(struct rule_set *set, const struct short_view *views, size_t count)
{
	views_set(set->views, views, count);
}

const struct rule *rule_set_short_view(const struct rule_set *set, struct bytes database,
				       struct bytes collection)
{
	return views_find(set->views, database, collection);
}

struct known_indexes *rule_set_indexes(struct rule_set *set, struct bytes database,
				       struct bytes collection)
{
	return index_book_find(&set->indexes, database, collection);
}

bool rule_set_in_database(const struct rule_set *set, struct bytes database)
{
	for (size_t i = 0; i < set->count; i++)
		if (database_matches(&set->mains[i].database, database))
			return true;
	return false;
}

const struct rule *rule_set_read_only(const struct rule_set *set, struct bytes database)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->rules[i].read_only && database_matches(&set->mains[i].database, database))
			return &set->rules[i];
	return NULL;
}

const struct rule *rule_set_stream_refused(const struct rule_set *set, struct bytes database)
{
	for (size_t i = 0; i < set->count; i++)
		if (!set->rules[i].streams_as_stored &&
		    (database_matches(&set->mains[i].database, database) ||
		     database_matches(&set->overflows[i].database, database)))
			return &set->rules[i];
	return NULL;
}

bool rule_set_may_only_read(const struct rule_set *set, struct bytes database,
			    struct bytes collection)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->rules[i].read_only && place_matches(&set->mains[i], database, collection))
			return true;
	return false;
}

const struct rule *rule_set_overflow_alone(const struct rule_set *set, struct bytes database)
{
	for (size_t i = 0; i < set->count; i++) {
		const struct rule *rule = &set->rules[i];

		if (rule->overflow.database && bytes_are(database, rule->overflow.database) &&
		    strcmp(rule->overflow.database, rule->database) != 0)
			return rule;
	}
	return NULL;
}

const struct rule *rule_set_overflow(const struct rule_set *set, struct bytes database,
				     struct bytes collection)
{
	for (size_t i = 0; i < set->count; i++) {
		if (place_matches(&set->overflows[i], database, collection))
			return &set->rules[i];
	}
	return NULL;
}

/* A namespace that the cache holds. */
struct namespace_slot {
	uint64_t hash;
	uint32_t database_length;
	uint32_t collection_length;
	const uint8_t *database; /* the text of `found` */
	const uint8_t *collection;
	struct ruled_namespace *found; /* NULL in an empty slot */
};

struct namespace_cache {
	struct rule_set *rules;
	struct namespace_slot *slots; /* open addressing, at most half full */
	size_t mask;
	size_t count;
	size_t pattern_count; /* of these, how many no rule names without a pattern */
};

static struct namespace_slot *slots_new(size_t count)
{
	return must_calloc(count, sizeof(struct namespace_slot));
}

struct namespace_cache *namespace_cache_new(struct rule_set *set)
{
	struct namespace_cache *cache = must_calloc(1, sizeof(*cache));

	cache->rules = rule_set_ref(set);
	cache->slots = slots_new(16);
	cache->mask = 15;
	return cache;
}

static void ruled_namespace_free(struct ruled_namespace *ruled)
{
	for (size_t i = 0; i < ruled->target_count; i++) {
		free(ruled->targets[i].overflow_database);
		free(ruled->targets[i].overflow_collection);
	}
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
			ruled_namespace_free(cache->slots[i].found);
	}
	free(cache->slots);
	rule_set_unref(cache->rules);
	free(cache);
}

struct rule_set *namespace_cache_rules(struct namespace_cache *cache)
{
	return cache->rules;
}

static char *text_of(struct bytes view)
{
	return must_strndup((const char *)view.data, view.length);
}

static struct ruled_namespace *ruled_namespace_new(struct rule_set *set, struct bytes database,
						   struct bytes collection)
{
	struct ruled_namespace *ruled = must_calloc(1, sizeof(*ruled));
	size_t count = 0;

	for (size_t i = 0; i < set->count; i++)
		count += place_matches(&set->mains[i], database, collection);
	ruled->database = text_of(database);
	ruled->collection = text_of(collection);
	ruled->indexes = rule_set_indexes(set, database, collection);
	ruled->targets = must_calloc(count, sizeof(*ruled->targets));
	for (size_t i = 0; i < set->count; i++) {
		const struct rule *rule = &set->rules[i];
		const char *named = rule->overflow.database;
		struct target *target = &ruled->targets[ruled->target_count];

		if (!place_matches(&set->mains[i], database, collection))
			continue;
		target->rule = rule;
		target->overflow_database = text_of(named ? bytes_of(named) : database);
		target->overflow_collection = rule_overflow_collection(rule, collection);
		target->overflow_indexes =
			rule_set_indexes(set, bytes_of(target->overflow_database),
					 bytes_of(target->overflow_collection));
		ruled->target_count++;
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

	for (size_t i = 0; i < set->count; i++) {
		const struct place *place = &set->mains[i];

		if (!place_matches(place, database, collection))
			continue;
		if (!place->database.pattern && !place->collection.pattern)
			return NAMING_EXACT;
		naming = NAMING_PATTERN;
	}
	/* `shop.*` matches its own overflow collections, too. */
	if (naming == NAMING_PATTERN && rule_set_overflow(set, database, collection))
		return NAMING_NONE;
	return naming;
}

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
}

static const struct ruled_namespace *cache_add(struct namespace_cache *cache, struct bytes database,
					       struct bytes collection, uint64_t hash, bool *full)
{
	enum naming naming = namespace_naming(cache->rules, database, collection);
	struct namespace_slot *slot;

	if (naming == NAMING_NONE)
		return NULL;
	if (naming == NAMING_PATTERN && cache->pattern_count == NAMESPACE_CACHE_MAX) {
		*full = true;
		return NULL;
	}
	if (2 * (cache->count + 1) > cache->mask)
		cache_grow(cache);
	cache->count++;
	cache->pattern_count += naming == NAMING_PATTERN;
	slot = slot_free_at(cache->slots, cache->mask, hash);
	slot->hash = hash;
	slot->found = ruled_namespace_new(cache->rules, database, collection);
	slot->database = (const uint8_t *)slot->found->database;
	slot->database_length = (uint32_t)database.length;
	slot->collection = (const uint8_t *)slot->found->collection;
	slot->collection_length = (uint32_t)collection.length;
	return slot->found;
}

static inline bool slot_holds(const struct namespace_slot *slot, struct bytes database,
			      struct bytes collection)
{
	return slot->database_length == database.length &&
	       slot->collection_length == collection.length &&
	       hash_same(slot->collection, collection.data, collection.length) &&
	       hash_same(slot->database, database.data, database.length);
}

const struct ruled_namespace *namespace_cache_find(struct namespace_cache *cache,
						   struct bytes database, struct bytes collection,
						   bool *full)
{
	uint64_t hash = hash_bytes(database, hash_bytes(collection, cache->rules->key));

	*full = false;
	if (database.length == 0 || collection.length == 0)
		return NULL;
	for (size_t at = hash & cache->mask;; at = (at + 1) & cache->mask) {
		const struct namespace_slot *slot = &cache->slots[at];

		if (!slot->found)
			break;
		if (slot->hash == hash && slot_holds(slot, database, collection))
			return slot->found;
	}
	return cache_add(cache, database, collection, hash, full);
}

enum path_relation path_relate(struct bytes path, const char *other)
{
	size_t other_length = strlen(other);
	size_t common = path.length < other_length ? path.length : other_length;

	if (common == 0 || memcmp(path.data, other, common) != 0)
		return PATH_APART;
	if (path.length == other_length)
		return PATH_SAME;
	if (path.length < other_length)
		return other[common] == '.' ? PATH_ABOVE : PATH_APART;
	return path.data[common] == '.' ? PATH_BELOW : PATH_APART;
}

bool path_covers(struct bytes path, const char *other)
{
	enum path_relation relation = path_relate(path, other);

	return relation == PATH_SAME || relation == PATH_ABOVE;
}
