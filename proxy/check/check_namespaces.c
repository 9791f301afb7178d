/* The namespaces under rules: what stands in a rule's way there, and what would make it slow. */
#include "proxy/check/check_inner.h"

#include "proxy/base/clock.h"
#include "proxy/fitness/index_judge.h"
#include "proxy/terminal/progress.h"
#include "proxy/upstream/clauses.h"
#include "proxy/upstream/overflow_index.h"
#include "rules/rule/glob.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

/* A target with what its servers hold of it. */
struct looking {
	struct check *check;
	const struct check_target *target;
	struct namespace_facts facts;
};

static bool text_at(struct bytes document, const char *path, struct bytes *text)
{
	struct element element;

	return document_find_path(document, path, &element) && element_string(&element, text);
}

static bool has_name(struct bytes entry, const char *name)
{
	struct bytes found;

	return text_at(entry, "name", &found) && bytes_are(found, name);
}

static void note_unseen(struct check *check, enum link_result result, enum finding_code code,
			const char *of_what)
{
	if (result == LINK_REFUSED)
		findings_add(&check->findings, code, NULL, "%s could not be looked at: %s", of_what,
			     link_error(check->link)->message);
}

static void list_collections(struct check *check, const char *database, struct copies *copies)
{
	auto_free char *what = bson_strdup_printf("the collections of '%s'", database);

	note_unseen(
		check,
		command_find(check->link, database, copies_take, copies, "{listCollections: 1}"),
		FINDING_COLLECTIONS_UNSEEN, what);
}

static void read_facts(struct check *check, const char *database, const char *collection,
		       struct collection_facts *facts)
{
	auto_free char *entry = bson_strdup_printf("the collections of '%s'", database);
	auto_free char *indexes =
		bson_strdup_printf("the indexes of '%s.%s'", database, collection);

	note_unseen(check, facts_read_entry(check->link, database, collection, facts),
		    FINDING_COLLECTIONS_UNSEEN, entry);
	if (!facts_tell_view(facts))
		note_unseen(check, facts_read_indexes(check->link, database, collection, facts),
			    FINDING_INDEXES_UNSEEN, indexes);
}

/* Why the rule can't hold: serve does not start with it. */
static void add_unfit(const struct looking *looking, bool overflow, const struct unfit *why)
{
	const struct check_target *target = looking->target;
	struct findings *findings = &looking->check->findings;

	findings_add(findings, (enum finding_code)why->code, target->rule->name,
		     "it can't hold on '%s.%s': %s",
		     overflow ? target->overflow_database : target->namespace->database,
		     overflow ? target->overflow_collection : target->namespace->collection,
		     why->reason);
	findings_remedy(findings, "%s; or take the rule out of the file", unfit_remedy(why->code));
}

static void add_unfit_main(void *context, const struct unfit *why)
{
	add_unfit(context, false, why);
}

static void add_unfit_overflow(void *context, const struct unfit *why)
{
	add_unfit(context, true, why);
}

static void judge_hidden_index(struct looking *looking)
{
	const struct check_target *target = looking->target;
	struct overflow_indexes there = {0};

	judge_overflow_indexes(target->rule, &looking->facts.overflow.indexes, &there);
	if (overflow_index_is_hidden(&there.order)) {
		findings_add(&looking->check->findings, FINDING_OVERFLOW_INDEX_HIDDEN,
			     target->rule->name,
			     "the index '%s' of '%s.%s' is hidden: whatever finds overflow "
			     "documents by their links is slow, and sweep, verify and undo are "
			     "refused",
			     there.order.hidden, target->overflow_database,
			     target->overflow_collection);
		findings_remedy(&looking->check->findings,
				"show it again (collMod, index: { name: \"%s\", hidden: false })",
				there.order.hidden);
	}
	overflow_index_fini(&there.order);
}

/* What serve can't make. */
static void judge_rules_own_indexes(struct looking *looking)
{
	const struct check_target *target = looking->target;
	const struct copies *indexes = &looking->facts.overflow.indexes;
	uint64_t there = 0;
	struct bytes name;

	for (size_t i = 0; i < indexes->count; i++)
		there |= judge_rule_indexes(target->rule, indexes->list[i]);
	for (size_t i = 0; i < indexes->count; i++) {
		bool hidden = document_truth(indexes->list[i], "hidden");

		if ((judge_rule_indexes_kept(target->rule, indexes->list[i]) & ~there) == 0 ||
		    !text_at(indexes->list[i], "name", &name))
			continue;
		findings_add(&looking->check->findings,
			     hidden ? FINDING_RULE_INDEX_HIDDEN : FINDING_RULE_INDEX_BLOCKED,
			     target->rule->name,
			     "the index '%.*s' of '%s.%s' %s: the rule's index is not made, and "
			     "what it is for is slow",
			     (int)name.length, (const char *)name.data, target->overflow_database,
			     target->overflow_collection,
			     hidden ? "stands for one of the rule's own ('indexes'), and is hidden"
				    : "has the name of one of the rule's own ('indexes'), and "
				      "other keys or options");
	}
}

static bool overflow_has_index(const struct looking *looking, const char *path)
{
	struct element element;
	struct bytes keys;

	for (size_t i = 0; i < looking->facts.overflow.indexes.count; i++) {
		if (document_find(looking->facts.overflow.indexes.list[i], "key", &element) &&
		    element_document(&element, &keys) &&
		    judge_index_serves(looking->target->rule, keys, path))
			return true;
	}
	return false;
}

/* Indexes on the array that only the main collection has. */
static void compare_indexes(struct looking *looking)
{
	const struct check_target *target = looking->target;
	struct findings *findings = &looking->check->findings;
	struct element keys;
	struct bytes name;
	struct unfit why;
	char path[600];

	for (size_t i = 0; i < looking->facts.main.indexes.count; i++) {
		struct bytes index = looking->facts.main.indexes.list[i];

		if (!judge_main_index(target->rule, index, &why) ||
		    !text_at(index, "name", &name) || !document_find(index, "key", &keys) ||
		    keys.type != BSON_BYTE_DOCUMENT ||
		    !judge_wanted_index(target->rule, keys.value, path, sizeof(path)) ||
		    judge_rule_has_index(target->rule, path) || overflow_has_index(looking, path))
			continue;
		findings_add(findings, FINDING_OVERFLOW_INDEX_MISSING, target->rule->name,
			     "'%s.%s' has the index '%.*s' on the array, but '%s.%s' has none on "
			     "'%s': filters on elements that have moved are slow",
			     target->namespace->database, target->namespace->collection,
			     (int)name.length, (const char *)name.data, target->overflow_database,
			     target->overflow_collection, path);
		findings_remedy(findings,
				"let serve run, which makes it; if it runs, its log says why it "
				"could not. Or add to the rule's overflow: indexes: [ { keys: { "
				"\"%s\": 1 } } ]",
				path);
	}
}

static bool is_wildcard(struct bytes index, struct bytes *name)
{
	struct element keys, key;
	struct cursor cursor;

	return text_at(index, "name", name) && document_find(index, "key", &keys) &&
	       keys.type == BSON_BYTE_DOCUMENT && cursor_open(&cursor, keys.value) &&
	       cursor_next(&cursor, &key) == CURSOR_ELEMENT && element_is(&key, "$**");
}

/* They have no like on the overflow. */
static void note_wildcards(struct looking *looking)
{
	const struct check_target *target = looking->target;
	const struct namespace_facts *facts = &looking->facts;
	struct bytes name;

	for (size_t i = 0; i < facts->overflow.indexes.count; i++)
		if (is_wildcard(facts->overflow.indexes.list[i], &name))
			return;
	for (size_t i = 0; i < facts->main.indexes.count; i++)
		if (is_wildcard(facts->main.indexes.list[i], &name))
			findings_add(&looking->check->findings, FINDING_WILDCARD_INDEX,
				     target->rule->name,
				     "'%s.%s' has the wildcard index '%.*s', and '%s.%s' none: "
				     "filters on elements that have moved are slow, unless the "
				     "rule's indexes name their fields",
				     target->namespace->database, target->namespace->collection,
				     (int)name.length, (const char *)name.data,
				     target->overflow_database, target->overflow_collection);
}

/* What applications see of the rule's fields, and who keeps the counters. */
static void note_fields(struct check *check, const struct rule *rule)
{
	struct findings *findings = &check->findings;
	const char *total = rule->counters.total;

	if (rule->expose.flag)
		findings_add(findings, FINDING_FLAG_EXPOSED, rule->name,
			     "the flag '%s' is shown to applications: one that adds the overflow "
			     "itself when it sees it would have these elements twice",
			     rule->flag.field);
	if (total && rule->counters.owned_by_app)
		findings_add(findings, FINDING_COUNTER_LEFT, rule->name,
			     "the application keeps '%s' itself: Spillway neither sets nor checks "
			     "it",
			     total);
	else if (total)
		findings_add(findings, FINDING_COUNTER_KEPT, rule->name,
			     "Spillway keeps '%s' on outliers, and refuses updates that name it; "
			     "if the application counts itself, write owner: app",
			     total);
	if (rule->reference.field && rule->expose.reference)
		findings_add(findings, FINDING_REFERENCE_EXPOSED, rule->name,
			     "the reference '%s' is shown to applications, but names no "
			     "collection: one that follows it itself would find nothing",
			     rule->reference.field);
}

static void note_database(struct check *check, const struct check_target *target)
{
	if (strcmp(target->overflow_database, target->namespace->database) != 0)
		findings_add(&check->findings, FINDING_OVERFLOW_DATABASE, target->rule->name,
			     "the overflow of '%s.%s' lies in another database ('%s'): reads and "
			     "filters that look into the array are refused (115)",
			     target->namespace->database, target->namespace->collection,
			     target->overflow_database);
}

/* `held`: by what is recorded, the rule's documents were spilled as it says. Indexes of another
 * layout, whose tails are there, stay. */
static void judge_facts(struct looking *looking, bool held)
{
	const struct check_target *target = looking->target;
	const struct namespace_facts *facts = &looking->facts;
	const struct copies *entry = &facts->overflow.entry;
	struct unfit why;

	judge_main_facts(target->rule, &facts->main, add_unfit_main, looking);
	if (held)
		judge_overflow_facts(target->rule, &facts->overflow, add_unfit_overflow, looking);
	if (entry->count > 0 && judge_overflow_collection(entry->list[0], &why))
		check_overflow_validator(looking->check, target, entry->list[0]);
	else if (entry->count > 0 && !held)
		add_unfit_overflow(looking, &why);
	judge_hidden_index(looking);
	judge_rules_own_indexes(looking);
	compare_indexes(looking);
	note_wildcards(looking);
}

static void look_at_target(struct check *check, const struct check_target *target)
{
	struct looking looking = {.check = check, .target = target};
	bool held;

	note_database(check, target);
	held = check_record(check, target);
	read_facts(check, target->namespace->database, target->namespace->collection,
		   &looking.facts.main);
	read_facts(check, target->overflow_database, target->overflow_collection,
		   &looking.facts.overflow);
	judge_facts(&looking, held);
	check_documents(check, target);
	facts_fini(&looking.facts.main);
	facts_fini(&looking.facts.overflow);
}

/* All rules on this one namespace, once. */
static void look_at_namespace(struct check *check, struct namespace_cache *namespaces,
			      const char *database, struct bytes collection)
{
	const struct ruled_namespace *namespace;
	bool full;

	namespace_cache_trim(namespaces);
	namespace = namespace_cache_find(namespaces, bytes_of(database), collection, &full);
	for (size_t i = 0; namespace && i < namespace->target_count; i++) {
		const struct target *target = &namespace->targets[i];

		look_at_target(check, &(struct check_target){target->rule, namespace,
							     target->overflow_database,
							     target->overflow_collection});
	}
}

/* On a terminal. */
static void show_progress(const char *database, const struct progress *progress)
{
	auto_buffer struct buffer left = {0};

	if (!progress_seen())
		return;
	progress_append_left(&left, progress);
	progress_say("'%s': %lld of %lld collections (%lld %%) looked at%.*s", database,
		     (long long)progress->done, (long long)progress->total,
		     (long long)progress_percent(progress), (int)left.length,
		     (const char *)left.data);
}

/* What exists in the database, and what rules name exactly although it does not exist yet. */
static void look_at_database(struct check *check, struct namespace_cache *namespaces,
			     const char *database)
{
	struct rule_set *rules = check->config->rules;
	struct copies collections = {0};
	struct bytes name;
	int64_t began = clock_now();

	list_collections(check, database, &collections);
	for (size_t i = 0; i < collections.count; i++) {
		if (text_at(collections.list[i], "name", &name))
			look_at_namespace(check, namespaces, database, name);
		show_progress(database,
			      &(struct progress){(int64_t)i + 1, (int64_t)collections.count,
						 clock_now() - began + 1});
	}
	progress_clear();
	for (size_t i = 0; i < rule_set_count(rules); i++) {
		const struct rule *rule = rule_set_at(rules, i);
		bool known = strcmp(rule->database, database) != 0 ||
			     glob_is(bytes_of(rule->collection));

		for (size_t c = 0; !known && c < collections.count; c++)
			known = has_name(collections.list[c], rule->collection);
		for (size_t before = 0; !known && before < i; before++)
			known = strcmp(rule_set_at(rules, before)->collection, rule->collection) ==
					0 &&
				strcmp(rule_set_at(rules, before)->database, database) == 0;
		if (!known)
			look_at_namespace(check, namespaces, database, bytes_of(rule->collection));
	}
	check_views(check, namespaces, database, &collections);
	copies_fini(&collections);
}

static void add_matching(struct check *check, struct databases *databases, const char *pattern)
{
	if (databases_match(check->link, databases, pattern) == LINK_REFUSED)
		findings_add(&check->findings, FINDING_DATABASES_UNSEEN, NULL,
			     "which databases '%s' matches could not be seen: %s", pattern,
			     link_error(check->link)->message);
}

void check_namespaces(struct check *check)
{
	struct rule_set *rules = check->config->rules;
	struct namespace_cache *namespaces = namespace_cache_new(rules);
	struct databases databases = {0};

	check_gone_rules(check);
	check_pauses(check);
	for (size_t i = 0; i < rule_set_count(rules); i++) {
		const struct rule *rule = rule_set_at(rules, i);

		note_fields(check, rule);
		if (glob_is(bytes_of(rule->database)))
			add_matching(check, &databases, rule->database);
		else
			databases_add(&databases, bytes_of(rule->database));
	}
	for (size_t i = 0; i < databases.count; i++)
		look_at_database(check, namespaces, databases.names[i]);
	databases_fini(&databases);
	namespace_cache_free(namespaces);
}
