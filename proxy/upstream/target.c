/* The rules on concrete namespaces that the mover has met. */
#include "proxy/upstream/target.h"

#include "rules/rule/hash.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS (2 * NAMESPACE_CACHE_MAX)

struct target_set {
	pthread_mutex_t lock;
	struct rule_set *rules;
	struct mover_target **targets; /* in the order they were met */
	size_t count;
	size_t capacity;
	uint32_t *slots; /* open addressing: place in `targets` + 1, 0 is empty */
	size_t mask;
	uint64_t key;
	atomic_size_t unfit;
};

struct target_set *target_set_new(struct rule_set *rules)
{
	struct target_set *set = must_calloc(1, sizeof(*set));

	pthread_mutex_init(&set->lock, NULL);
	set->rules = rule_set_ref(rules);
	set->key = (uint64_t)arc4random() << 32 | arc4random();
	set->mask = 63;
	set->slots = must_calloc(set->mask + 1, sizeof(*set->slots));
	return set;
}

void target_set_free(struct target_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->count; i++) {
		rule_set_leave_indexes(set->rules, set->targets[i]->indexes);
		rule_set_leave_indexes(set->rules, set->targets[i]->overflow_indexes);
		free(set->targets[i]->reason);
		free(set->targets[i]->database);
		free(set->targets[i]->collection);
		free(set->targets[i]->overflow_database);
		free(set->targets[i]->overflow_collection);
		free(set->targets[i]->sweep.absent.links);
		free(set->targets[i]->sweep.seen.hashes);
		bytes_free(set->targets[i]->sweep.refit_from.value);
		for (size_t l = 0; l < TARGET_LONG_COUNT; l++)
			free(set->targets[i]->longest[l].id);
		free(set->targets[i]);
	}
	free(set->targets);
	free(set->slots);
	rule_set_unref(set->rules);
	pthread_mutex_destroy(&set->lock);
	free(set);
}

static uint64_t target_hash(const struct target_set *set, struct bytes database,
			    struct bytes collection)
{
	return hash_bytes(collection, hash_bytes(database, set->key));
}

static bool on_namespace(const struct mover_target *target, struct bytes database,
			 struct bytes collection)
{
	return bytes_are(collection, target->collection) && bytes_are(database, target->database);
}

static void slot_put(struct target_set *set, size_t index)
{
	const struct mover_target *target = set->targets[index];
	size_t at = target_hash(set, bytes_of(target->database), bytes_of(target->collection));

	while (set->slots[at & set->mask])
		at++;
	set->slots[at & set->mask] = (uint32_t)index + 1;
}

/* At most half of the slots are taken. */
static void make_room(struct target_set *set)
{
	if (set->count == set->capacity) {
		set->capacity = set->capacity ? 2 * set->capacity : 16;
		set->targets = must_realloc(set->targets, set->capacity * sizeof(*set->targets));
	}
	if (2 * set->count <= set->mask)
		return;
	free(set->slots);
	set->mask = 2 * set->mask + 1;
	set->slots = must_calloc(set->mask + 1, sizeof(*set->slots));
	for (size_t i = 0; i < set->count; i++)
		slot_put(set, i);
}

static struct mover_target *target_new(struct rule_set *rules, const struct rule *rule,
				       struct bytes database, struct bytes collection)
{
	struct mover_target *target = must_calloc(1, sizeof(*target));
	const char *overflow = rule->overflow.database;

	target->rule = rule;
	target->database = must_strndup((const char *)database.data, database.length);
	target->collection = must_strndup((const char *)collection.data, collection.length);
	target->overflow_database = overflow ? must_strndup(overflow, strlen(overflow))
					     : must_strndup(target->database, database.length);
	target->overflow_collection = rule_overflow_collection(rule, collection);
	target->read_only = rule_set_may_only_read(rules, database, collection);
	target->indexes = rule_set_indexes(rules, database, collection);
	target->overflow_indexes = rule_set_indexes(rules, bytes_of(target->overflow_database),
						    bytes_of(target->overflow_collection));
	return target;
}

/* What was stored has it: it stays as it is. */
static uint64_t target_name(const struct mover_target *target)
{
	uint64_t hash = hash_bytes(bytes_of(target->database), 1);

	hash = hash_bytes(bytes_of(target->collection), hash);
	return hash_bytes(bytes_of(target->rule->array), hash);
}

void target_new_generation(const struct mover_target *target, uint8_t *generation)
{
	uint64_t name = target_name(target);

	memcpy(generation, &name, sizeof(name));
	arc4random_buf(generation + sizeof(name), GENERATION_BYTES - sizeof(name));
}

void target_generations(const struct mover_target *target, uint8_t *least, uint8_t *most)
{
	uint64_t name = target_name(target);

	memset(least, 0, GENERATION_BYTES);
	memset(most, 0xff, GENERATION_BYTES);
	memcpy(least, &name, sizeof(name));
	memcpy(most, &name, sizeof(name));
}

bool target_named(const struct mover_target *target, const uint8_t *generation)
{
	uint64_t name = target_name(target);

	return memcmp(generation, &name, sizeof(name)) == 0;
}

struct mover_target *target_get(struct target_set *set, const struct rule *rule,
				struct bytes database, struct bytes collection)
{
	struct mover_target *found = NULL;
	size_t at = target_hash(set, database, collection);

	pthread_mutex_lock(&set->lock);
	for (; !found && set->slots[at & set->mask]; at++) {
		struct mover_target *each = set->targets[set->slots[at & set->mask] - 1];

		if (each->rule == rule && on_namespace(each, database, collection))
			found = each;
	}
	if (!found && set->count < SLOTS) {
		found = target_new(set->rules, rule, database, collection);
		make_room(set);
		set->targets[set->count] = found;
		slot_put(set, set->count++);
	}
	pthread_mutex_unlock(&set->lock);
	return found;
}

struct mover_target *target_at(struct target_set *set, size_t index)
{
	struct mover_target *target;

	pthread_mutex_lock(&set->lock);
	target = index < set->count ? set->targets[index] : NULL;
	pthread_mutex_unlock(&set->lock);
	return target;
}

size_t target_count(struct target_set *set)
{
	size_t count;

	pthread_mutex_lock(&set->lock);
	count = set->count;
	pthread_mutex_unlock(&set->lock);
	return count;
}

void target_judge(struct target_set *set, struct mover_target *target, enum fitness fitness,
		  const char *reason)
{
	enum fitness before;

	pthread_mutex_lock(&set->lock);
	before = atomic_exchange(&target->fitness, fitness);
	free(target->reason);
	target->reason =
		reason[0] ? must_strndup(reason, strnlen(reason, TARGET_REASON - 1)) : NULL;
	if (fitness == FITNESS_UNFIT && before != FITNESS_UNFIT)
		atomic_fetch_add(&set->unfit, 1);
	else if (fitness != FITNESS_UNFIT && before == FITNESS_UNFIT)
		atomic_fetch_sub(&set->unfit, 1);
	pthread_mutex_unlock(&set->lock);
}

static bool is_document(const struct target_long *entry, uint8_t id_type, struct bytes id)
{
	return entry->id && entry->id_type == id_type &&
	       bytes_equal((struct bytes){entry->id, entry->id_length}, id);
}

static uint8_t *copy_id(struct bytes id)
{
	uint8_t *copy = must_malloc(id.length + 1);

	if (id.length > 0)
		memcpy(copy, id.data, id.length);
	return copy;
}

void target_met(struct target_set *set, struct mover_target *target, uint8_t id_type,
		struct bytes id, int64_t elements)
{
	struct target_long *longest = target->longest, moved;
	size_t at = 0;

	pthread_mutex_lock(&set->lock);
	while (at + 1 < TARGET_LONG_COUNT && !is_document(&longest[at], id_type, id))
		at++;
	/* It stands there, or takes the place of the last, if it is longer. */
	if (is_document(&longest[at], id_type, id)) {
		longest[at].elements = elements;
	} else if (elements > longest[at].elements) {
		free(longest[at].id);
		longest[at] = (struct target_long){copy_id(id), id.length, elements, id_type};
	}
	for (; at > 0 && longest[at].elements > longest[at - 1].elements; at--) {
		moved = longest[at];
		longest[at] = longest[at - 1];
		longest[at - 1] = moved;
	}
	for (; at + 1 < TARGET_LONG_COUNT && longest[at].elements < longest[at + 1].elements;
	     at++) {
		moved = longest[at];
		longest[at] = longest[at + 1];
		longest[at + 1] = moved;
	}
	pthread_mutex_unlock(&set->lock);
}

must_check bool target_view(struct target_set *set, size_t index, struct target_view *view)
{
	const struct mover_target *target = target_at(set, index);

	if (!target)
		return false;
	*view = (struct target_view){
		.rule = target->rule,
		.database = target->database,
		.collection = target->collection,
		.overflow_database = target->overflow_database,
		.overflow_collection = target->overflow_collection,
		.fitness = atomic_load(&target->fitness),
		.outliers = atomic_load(&target->outliers),
		.elements = atomic_load(&target->elements),
	};
	pthread_mutex_lock(&set->lock);
	if (target->reason)
		snprintf(view->reason, sizeof(view->reason), "%s", target->reason);
	for (size_t i = 0; i < TARGET_LONG_COUNT; i++) {
		const struct target_long *entry = &target->longest[i];

		view->longest[i] = *entry;
		if (entry->id)
			view->longest[i].id = copy_id((struct bytes){entry->id, entry->id_length});
	}
	pthread_mutex_unlock(&set->lock);
	return true;
}

void target_view_fini(struct target_view *view)
{
	for (size_t i = 0; i < TARGET_LONG_COUNT; i++)
		free(view->longest[i].id);
}

size_t target_unfit_count(const struct target_set *set)
{
	return atomic_load(&set->unfit);
}

bool target_unfit(struct target_set *set, struct bytes database, struct bytes collection,
		  char *reason, size_t size)
{
	size_t at = target_hash(set, database, collection);
	bool unfit = false;

	if (atomic_load_explicit(&set->unfit, memory_order_relaxed) == 0)
		return false;
	pthread_mutex_lock(&set->lock);
	for (; !unfit && set->slots[at & set->mask]; at++) {
		struct mover_target *each = set->targets[set->slots[at & set->mask] - 1];

		unfit = on_namespace(each, database, collection) && each->fitness == FITNESS_UNFIT;
		if (unfit)
			snprintf(reason, size, "%s", each->reason ? each->reason : "");
	}
	pthread_mutex_unlock(&set->lock);
	return unfit;
}
