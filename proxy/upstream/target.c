/* The rules on concrete namespaces that the mover has met. */
#include "proxy/upstream/target.h"

#include "rules/config/config_change.h"
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
	atomic_size_t lost;
	bool *fresh;                /* of each rule: its targets wait; owned; NULL: none */
	struct mover_target **gone; /* as target_set_take says */
	size_t gone_count;
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

static void target_free(struct rule_set *rules, struct mover_target *target)
{
	rule_set_leave_indexes(rules, target->indexes);
	rule_set_leave_indexes(rules, target->overflow_indexes);
	rule_set_unref(target->reload.kept);
	free(target->reason);
	free(target->database);
	free(target->collection);
	free(target->overflow_database);
	free(target->overflow_collection);
	free(target->sweep.absent.links);
	free(target->sweep.seen.hashes);
	bytes_free(target->sweep.refit_from.value);
	for (size_t l = 0; l < TARGET_LONG_COUNT; l++)
		free(target->longest[l].id);
	free(target);
}

void target_set_free(struct target_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->count; i++)
		target_free(set->rules, set->targets[i]);
	for (size_t i = 0; i < set->gone_count; i++)
		target_free(set->gone[i]->reload.kept, set->gone[i]);
	free(set->gone);
	free(set->fresh);
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

/* What the set knows of indexes of the target's collections. */
static void join_indexes(struct rule_set *rules, struct mover_target *target)
{
	target->indexes =
		rule_set_indexes(rules, bytes_of(target->database), bytes_of(target->collection));
	target->overflow_indexes = rule_set_indexes(rules, bytes_of(target->overflow_database),
						    bytes_of(target->overflow_collection));
}

static struct mover_target *target_new(struct target_set *set, const struct rule *rule,
				       struct bytes database, struct bytes collection)
{
	struct mover_target *target = must_calloc(1, sizeof(*target));
	struct rule_set *rules = set->rules;
	const char *overflow = rule->overflow.database;

	target->rule = rule;
	target->database = must_strndup((const char *)database.data, database.length);
	target->collection = must_strndup((const char *)collection.data, collection.length);
	target->overflow_database = overflow ? must_strndup(overflow, strlen(overflow))
					     : must_strndup(target->database, database.length);
	target->overflow_collection = rule_overflow_collection(rule, collection);
	target->read_only = rule_set_may_only_read(rules, database, collection);
	target->reload.waits = set->fresh && set->fresh[rule->index];
	join_indexes(rules, target);
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

	_Static_assert(sizeof(name) == GENERATION_TARGET_BYTES, "");
	memcpy(generation, &name, sizeof(name));
	generation_draw(generation);
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

static bool on_same_array(const struct rule *one, const struct rule *other)
{
	return strcmp(one->array, other->array) == 0 &&
	       strcmp(one->database, other->database) == 0 &&
	       strcmp(one->collection, other->collection) == 0;
}

/* The set's own rule; `rule` may be of a set that was there before. */
static const struct rule *current(const struct target_set *set, const struct rule *rule)
{
	size_t count = rule_set_count(set->rules);

	if (rule->index < count && rule_set_at(set->rules, rule->index) == rule)
		return rule;
	for (size_t i = 0; i < count; i++)
		if (on_same_array(rule, rule_set_at(set->rules, i)))
			return rule_set_at(set->rules, i);
	return NULL;
}

struct mover_target *target_get(struct target_set *set, const struct rule *rule,
				struct bytes database, struct bytes collection)
{
	struct mover_target *found = NULL;
	size_t at = target_hash(set, database, collection);

	pthread_mutex_lock(&set->lock);
	rule = current(set, rule);
	if (!rule) {
		pthread_mutex_unlock(&set->lock);
		return NULL;
	}
	for (; !found && set->slots[at & set->mask]; at++) {
		struct mover_target *each = set->targets[set->slots[at & set->mask] - 1];

		if (each->rule == rule && on_namespace(each, database, collection))
			found = each;
	}
	if (!found && set->count < SLOTS) {
		found = target_new(set, rule, database, collection);
		make_room(set);
		set->targets[set->count] = found;
		slot_put(set, set->count++);
	}
	pthread_mutex_unlock(&set->lock);
	return found;
}

/* The one of the rules that finds what was split under this one, else NULL. */
static const struct rule *counterpart(const struct rule_set *rules, const struct rule *rule)
{
	for (size_t i = 0; i < rule_set_count(rules); i++)
		if (on_same_array(rule, rule_set_at(rules, i)) &&
		    config_rule_finds(rule, rule_set_at(rules, i)))
			return rule_set_at(rules, i);
	return NULL;
}

/* Which of the rules are new, or were and have not been let go since. */
static bool *find_fresh(const struct target_set *set, const struct rule_set *rules)
{
	size_t count = rule_set_count(rules);
	bool *fresh = must_calloc(count + 1, sizeof(*fresh));

	for (size_t i = 0; i < count; i++) {
		const struct rule *before = counterpart(set->rules, rule_set_at(rules, i));

		fresh[i] = !before || (set->fresh && set->fresh[before->index]);
	}
	return fresh;
}

/* As after a start, but for what the mover has learned. */
static void go_on_under(struct target_set *set, struct rule_set *before,
			struct mover_target *target, const struct rule *rule)
{
	bool changed = !config_rule_equals(target->rule, rule);

	target->rule = rule;
	target->read_only = rule_set_may_only_read(set->rules, bytes_of(target->database),
						   bytes_of(target->collection));
	target->reload.waits = set->fresh && set->fresh[rule->index];
	rule_set_leave_indexes(before, target->indexes);
	rule_set_leave_indexes(before, target->overflow_indexes);
	join_indexes(set->rules, target);
	atomic_store(&target->judged_at, MOVER_NEVER); /* with it come the known indexes */
	atomic_store(&target->recheck, true);
	if (!changed)
		return;
	atomic_fetch_add(&target->reload.turn, 1);
	free(target->sweep.seen.hashes);
	target->sweep.seen = (struct target_seen){.hashes = NULL};
	atomic_store(&target->sweep.learned, false);
	atomic_store(&target->sweep.refitted, false);
	atomic_store(&target->sweep.due, 0);
}

static void leave(struct target_set *set, struct rule_set *before, struct mover_target *target)
{
	target->reload.kept = rule_set_ref(before);
	atomic_fetch_add(&target->reload.turn, 1);
	if (target->fitness == FITNESS_UNFIT)
		atomic_fetch_sub(&set->unfit, 1);
	if (atomic_exchange(&target->stored.lost, false))
		atomic_fetch_sub(&set->lost, 1);
	set->gone = must_realloc((void *)set->gone, (set->gone_count + 1) * sizeof(*set->gone));
	set->gone[set->gone_count++] = target;
}

void target_set_take(struct target_set *set, struct rule_set *rules)
{
	struct rule_set *before;
	size_t kept = 0;
	bool *fresh;

	pthread_mutex_lock(&set->lock);
	fresh = find_fresh(set, rules);
	free(set->fresh);
	set->fresh = fresh;
	before = set->rules;
	set->rules = rule_set_ref(rules);
	for (size_t i = 0; i < set->count; i++) {
		struct mover_target *target = set->targets[i];
		const struct rule *rule = counterpart(rules, target->rule);

		if (rule)
			go_on_under(set, before, set->targets[kept++] = target, rule);
		else
			leave(set, before, target);
	}
	set->count = kept;
	memset(set->slots, 0, (set->mask + 1) * sizeof(*set->slots));
	for (size_t i = 0; i < kept; i++)
		slot_put(set, i);
	rule_set_unref(before);
	pthread_mutex_unlock(&set->lock);
}

void target_set_hold(struct target_set *set)
{
	size_t count = rule_set_count(set->rules);

	pthread_mutex_lock(&set->lock);
	require(!set->fresh && set->count == 0);
	set->fresh = must_malloc((count + 1) * sizeof(*set->fresh));
	memset(set->fresh, true, count + 1);
	pthread_mutex_unlock(&set->lock);
}

static void stop_waiting(struct mover_target *target)
{
	if (atomic_exchange(&target->reload.waits, false))
		atomic_store(&target->sweep.due, 0);
}

void target_set_trust(struct target_set *set, struct mover_target *target)
{
	pthread_mutex_lock(&set->lock);
	if (set->fresh && !target_is_gone(target) && !rule_is_pattern(target->rule))
		set->fresh[target->rule->index] = false;
	stop_waiting(target);
	pthread_mutex_unlock(&set->lock);
}

bool target_set_rule_waits(struct target_set *set, size_t index)
{
	bool waits;

	pthread_mutex_lock(&set->lock);
	waits = set->fresh && index < rule_set_count(set->rules) && set->fresh[index];
	pthread_mutex_unlock(&set->lock);
	return waits;
}

bool target_set_waits(struct target_set *set)
{
	size_t count = rule_set_count(set->rules);
	bool waits = false;

	for (size_t i = 0; i < count && !waits; i++)
		waits = target_set_rule_waits(set, i);
	return waits;
}

void target_set_go(struct target_set *set)
{
	pthread_mutex_lock(&set->lock);
	free(set->fresh);
	set->fresh = NULL;
	for (size_t i = 0; i < set->count; i++)
		stop_waiting(set->targets[i]);
	pthread_mutex_unlock(&set->lock);
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

bool target_set_lost(struct target_set *set, struct mover_target *target, bool lost)
{
	bool news;

	pthread_mutex_lock(&set->lock);
	news = atomic_exchange(&target->stored.lost, lost) != lost;
	if (news && lost)
		atomic_fetch_add(&set->lost, 1);
	else if (news)
		atomic_fetch_sub(&set->lost, 1);
	pthread_mutex_unlock(&set->lock);
	return news;
}

const struct mover_target *target_lost(struct target_set *set)
{
	const struct mover_target *target, *found = NULL;

	if (atomic_load_explicit(&set->lost, memory_order_relaxed) == 0)
		return NULL;
	for (size_t i = 0; !found && (target = target_at(set, i)); i++)
		found = target->stored.lost ? target : NULL;
	return found;
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
