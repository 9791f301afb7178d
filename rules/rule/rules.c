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
	return bytes_begin_with(collection, "system.") || bytes_contain(collection, "$");
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

const char *rule_overflow_database(const struct rule *rule)
{
	return rule->overflow.database ? rule->overflow.database : rule->database;
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

	rule->index = index;
	main->database = part_of(rule->database);
	main->collection = part_of(rule->collection);
	overflow->database = part_of(rule_overflow_database(rule));
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

void rule_set_leave_indexes(struct rule_set *set, struct known_indexes *indexes)
{
	index_book_leave(&set->indexes, indexes);
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
		if (set->rules[i].streams == RULE_STREAMS_REFUSED &&
		    (database_matches(&set->mains[i].database, database) ||
		     database_matches(&set->overflows[i].database, database)))
			return &set->rules[i];
	return NULL;
}

bool rule_set_has_streams(const struct rule_set *set, struct bytes database,
			  enum rule_streams streams)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->rules[i].streams == streams &&
		    (database.length == 0 || database_matches(&set->mains[i].database, database) ||
		     database_matches(&set->overflows[i].database, database)))
			return true;
	return false;
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
