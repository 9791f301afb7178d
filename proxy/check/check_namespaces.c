/* The namespaces under rules: what stands in a rule's way there, and what would make it slow. */
#include "proxy/check/check_inner.h"

#include "proxy/fitness/index_judge.h"
#include "proxy/upstream/overflow_index.h"
#include "rules/match/fitness_judge.h"
#include "rules/rule/glob.h"

#include <bson/bson.h>
#include <stdlib.h>

#define NAMESPACE_NOT_FOUND 26

/* A target with what its servers hold of it. */
struct looking {
	struct check *check;
	const struct check_target *target;
	const struct copies *collections; /* listCollections of the main collection's database */
	struct copies indexes;
	struct copies overflow_indexes;
	bool held; /* by what is recorded of its documents */
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

static void list_collections(struct check *check, const char *database, struct copies *copies)
{
	bson_t *command = BCON_NEW("listCollections", BCON_INT32(1));

	if (check_collect(check->link, database, command, copies) == LINK_REFUSED)
		findings_note(
			&check->findings, "unseen", NULL,
			bson_strdup_printf("the collections of '%s' could not be looked at: %s",
					   database, link_error(check->link)->message));
	bson_destroy(command);
}

static void list_indexes(struct check *check, const char *database, const char *collection,
			 struct copies *copies)
{
	bson_t *command = BCON_NEW("listIndexes", BCON_UTF8(collection));

	if (check_collect(check->link, database, command, copies) == LINK_REFUSED &&
	    link_error(check->link)->code != NAMESPACE_NOT_FOUND)
		findings_note(
			&check->findings, "unseen", NULL,
			bson_strdup_printf("the indexes of '%s.%s' could not be looked at: %s",
					   database, collection, link_error(check->link)->message));
	bson_destroy(command);
}

/* Why the rule can't hold: serve does not start with it. */
static void add_unfit(struct looking *looking, const char *kind, bool overflow, const char *reason,
		      const char *remedy)
{
	const struct check_target *target = looking->target;
	const char *database = overflow ? target->overflow_database : target->namespace->database;
	const char *collection =
		overflow ? target->overflow_collection : target->namespace->collection;

	findings_add(
		&looking->check->findings, kind, target->rule->name,
		bson_strdup_printf("it can't hold on '%s.%s': %s", database, collection, reason),
		bson_strdup_printf("%s; or take the rule out of the file", remedy));
}

static bool judge_collection(struct looking *looking, struct bytes entry, bool overflow)
{
	char reason[320] = "";
	struct element element;
	bool validator = document_find_path(entry, "options.validator", &element);
	bool fit = overflow ? judge_overflow_collection(entry, reason, sizeof(reason))
			    : judge_main_collection(looking->target->rule, entry, reason,
						    sizeof(reason));

	if (fit)
		return true;
	if (validator)
		add_unfit(looking, "validator", overflow, reason,
			  "change the validator by collMod: it must let Spillway's fields pass and "
			  "not look at the array");
	else
		add_unfit(looking, "collection", overflow, reason,
			  "copy the documents to an ordinary collection");
	return false;
}

static void judge_collections(struct looking *looking, const struct copies *overflow)
{
	const struct check_target *target = looking->target;

	for (size_t i = 0; i < looking->collections->count; i++) {
		if (has_name(looking->collections->list[i], target->namespace->collection))
			judge_collection(looking, looking->collections->list[i], false);
	}
	for (size_t i = 0; i < overflow->count; i++) {
		if (has_name(overflow->list[i], target->overflow_collection) &&
		    judge_collection(looking, overflow->list[i], true))
			check_overflow_validator(looking->check, target, overflow->list[i]);
	}
}

static void judge_indexes(struct looking *looking)
{
	char reason[320];

	for (size_t i = 0; i < looking->indexes.count; i++) {
		if (!judge_main_index(looking->target->rule, looking->indexes.list[i], reason,
				      sizeof(reason)))
			add_unfit(looking, "index", false, reason,
				  "drop the index, or make one that leaves the array out: what it "
				  "promises can't be kept over two collections");
	}
	/* Indexes of another layout, whose tails are there, stay. */
	for (size_t i = 0; looking->held && i < looking->overflow_indexes.count; i++) {
		if (!judge_overflow_index(looking->target->rule, looking->overflow_indexes.list[i],
					  reason, sizeof(reason)))
			add_unfit(looking, "index", true, reason, "drop the index");
	}
}

static void judge_unique_index(struct looking *looking)
{
	const struct copies *indexes = &looking->overflow_indexes;
	struct bytes name;

	for (size_t i = 0; looking->held && i < indexes->count; i++) {
		auto_free char *reason = NULL;

		if (!judge_index_blocks(looking->target->rule, indexes->list[i]) ||
		    !text_at(indexes->list[i], "name", &name))
			continue;
		reason = bson_strdup_printf("its index '%.*s' stands where a unique one of link "
					    "and batch, neither sparse nor partial and without a "
					    "collation, has to be",
					    (int)name.length, (const char *)name.data);
		add_unfit(looking, "index", true, reason,
			  "drop the index: serve makes the one it needs");
	}
}

static void judge_hidden_index(struct looking *looking)
{
	const struct check_target *target = looking->target;
	struct overflow_index order = {0};

	for (size_t i = 0; i < looking->overflow_indexes.count; i++)
		overflow_index_take(&order, target->rule, looking->overflow_indexes.list[i]);
	if (overflow_index_is_hidden(&order))
		findings_add(&looking->check->findings, "overflow-index", target->rule->name,
			     bson_strdup_printf("the index '%s' of '%s.%s' is hidden: whatever "
						"finds overflow documents by their links is slow, "
						"and sweep, verify and undo are refused",
						order.hidden, target->overflow_database,
						target->overflow_collection),
			     bson_strdup_printf("show it again (collMod, index: { name: \"%s\", "
						"hidden: false })",
						order.hidden));
	overflow_index_fini(&order);
}

/* What serve can't make. */
static void judge_rules_own_indexes(struct looking *looking)
{
	const struct check_target *target = looking->target;
	const struct copies *indexes = &looking->overflow_indexes;
	uint64_t there = 0;
	struct bytes name;

	for (size_t i = 0; i < indexes->count; i++)
		there |= judge_rule_indexes(target->rule, indexes->list[i]);
	for (size_t i = 0; i < indexes->count; i++)
		if ((judge_rule_indexes_kept(target->rule, indexes->list[i]) & ~there) &&
		    text_at(indexes->list[i], "name", &name))
			findings_add(
				&looking->check->findings, "overflow-index", target->rule->name,
				bson_strdup_printf(
					"the index '%.*s' of '%s.%s' is hidden, or has the name of "
					"one of the rule's own ('indexes') without being it: that "
					"one is not made, and what it is for is slow",
					(int)name.length, (const char *)name.data,
					target->overflow_database, target->overflow_collection),
				bson_strdup("show it (collMod), or drop it: serve makes the one "
					    "that the rule asks for"));
}

static bool overflow_has_index(const struct looking *looking, const char *path)
{
	struct element element;
	struct bytes keys;

	for (size_t i = 0; i < looking->overflow_indexes.count; i++) {
		if (document_find(looking->overflow_indexes.list[i], "key", &element) &&
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
	char path[600], reason[320];
	struct element element;
	struct bytes keys, name;

	for (size_t i = 0; i < looking->indexes.count; i++) {
		struct bytes index = looking->indexes.list[i];

		if (!judge_main_index(target->rule, index, reason, sizeof(reason)) ||
		    !text_at(index, "name", &name) || !document_find(index, "key", &element) ||
		    !element_document(&element, &keys) ||
		    !judge_wanted_index(target->rule, keys, path, sizeof(path)) ||
		    judge_rule_has_index(target->rule, path) || overflow_has_index(looking, path))
			continue;
		findings_add(&looking->check->findings, "overflow-index", target->rule->name,
			     bson_strdup_printf("'%s.%s' has the index '%.*s' on the array, but "
						"'%s.%s' has none on '%s': filters on elements "
						"that have moved are slow",
						target->namespace->database,
						target->namespace->collection, (int)name.length,
						(const char *)name.data, target->overflow_database,
						target->overflow_collection, path),
			     bson_strdup_printf(
				     "let serve run, which makes it; where it runs, its log says "
				     "why it could not. Or add to the rule's overflow: indexes: "
				     "[ { keys: { \"%s\": 1 } } ]",
				     path));
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
	struct bytes name;

	for (size_t i = 0; i < looking->overflow_indexes.count; i++)
		if (is_wildcard(looking->overflow_indexes.list[i], &name))
			return;
	for (size_t i = 0; i < looking->indexes.count; i++)
		if (is_wildcard(looking->indexes.list[i], &name))
			findings_note(
				&looking->check->findings, "overflow-index", target->rule->name,
				bson_strdup_printf(
					"'%s.%s' has the wildcard index '%.*s', and '%s.%s' none: "
					"filters on elements that have moved are slow where the "
					"rule's indexes do not name their fields",
					target->namespace->database, target->namespace->collection,
					(int)name.length, (const char *)name.data,
					target->overflow_database, target->overflow_collection));
}

static void note_flag(struct check *check, const struct rule *rule)
{
	if (!rule->expose.flag)
		return;
	findings_note(
		&check->findings, "exposed", rule->name,
		bson_strdup_printf("the flag '%s' is shown to applications: one that adds the "
				   "overflow itself when it sees it would have these elements "
				   "twice",
				   rule->flag.field));
}

/* Who keeps the counters, and when. */
static void note_counters(struct check *check, const struct rule *rule)
{
	const char *total = rule->counters.total;

	if (total && rule->counters.owned_by_app)
		findings_note(&check->findings, "counters", rule->name,
			      bson_strdup_printf("the application keeps '%s' itself: Spillway "
						 "neither sets nor checks it",
						 total));
	else if (total)
		findings_note(
			&check->findings, "counters", rule->name,
			bson_strdup_printf("Spillway keeps '%s' on outliers, and refuses updates "
					   "that name it; where the application counts itself, "
					   "write owner: app",
					   total));
}

static void note_reference(struct check *check, const struct rule *rule)
{
	if (rule->reference.field && rule->expose.reference)
		findings_note(
			&check->findings, "exposed", rule->name,
			bson_strdup_printf("the reference '%s' is shown to applications, but names "
					   "no collection: one that follows it itself would find "
					   "nothing",
					   rule->reference.field));
}

static void note_fields(struct check *check, const struct rule *rule)
{
	note_flag(check, rule);
	note_counters(check, rule);
	note_reference(check, rule);
}

static void note_database(struct check *check, const struct check_target *target)
{
	if (strcmp(target->overflow_database, target->namespace->database) != 0)
		findings_note(
			&check->findings, "overflow-database", target->rule->name,
			bson_strdup_printf(
				"the overflow of '%s.%s' lies in another database ('%s'): reads "
				"and filters that look into the array are refused (115)",
				target->namespace->database, target->namespace->collection,
				target->overflow_database));
}

static void look_at_target(struct check *check, const struct check_target *target,
			   const struct copies *collections)
{
	struct looking looking = {.check = check, .target = target, .collections = collections};
	struct copies overflow = {0};

	note_database(check, target);
	looking.held = check_record(check, target);
	list_collections(check, target->overflow_database, &overflow);
	list_indexes(check, target->namespace->database, target->namespace->collection,
		     &looking.indexes);
	list_indexes(check, target->overflow_database, target->overflow_collection,
		     &looking.overflow_indexes);
	judge_collections(&looking, &overflow);
	judge_indexes(&looking);
	judge_unique_index(&looking);
	judge_hidden_index(&looking);
	judge_rules_own_indexes(&looking);
	compare_indexes(&looking);
	note_wildcards(&looking);
	check_documents(check, target);
	copies_fini(&looking.indexes);
	copies_fini(&looking.overflow_indexes);
	copies_fini(&overflow);
}

/* All rules on this one namespace, once. */
static void look_at_namespace(struct check *check, struct namespace_cache *namespaces,
			      const char *database, struct bytes collection,
			      const struct copies *collections)
{
	const struct ruled_namespace *namespace;
	bool full;

	namespace = namespace_cache_find(namespaces, bytes_of(database), collection, &full);
	for (size_t i = 0; namespace && i < namespace->target_count; i++) {
		const struct target *target = &namespace->targets[i];

		look_at_target(check,
			       &(struct check_target){target->rule, namespace,
						      target->overflow_database,
						      target->overflow_collection},
			       collections);
	}
}

/* What exists in the database, and what rules name exactly although it does not exist yet. */
static void look_at_database(struct check *check, struct namespace_cache *namespaces,
			     const char *database)
{
	struct rule_set *rules = check->config->rules;
	struct copies collections = {0};
	struct bytes name;

	list_collections(check, database, &collections);
	for (size_t i = 0; i < collections.count; i++) {
		if (text_at(collections.list[i], "name", &name))
			look_at_namespace(check, namespaces, database, name, &collections);
	}
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
			look_at_namespace(check, namespaces, database, bytes_of(rule->collection),
					  &collections);
	}
	check_views(check, namespaces, database, &collections);
	copies_fini(&collections);
}

static void add_matching(struct check *check, struct databases *databases, const char *pattern)
{
	if (databases_match(check->link, databases, pattern) == LINK_REFUSED)
		findings_add(
			&check->findings, "unseen", NULL,
			bson_strdup_printf("which databases '%s' matches could not be seen: %s",
					   pattern, link_error(check->link)->message),
			bson_strdup("give the upstream account the action listDatabases on the "
				    "cluster"));
}

void check_namespaces(struct check *check)
{
	struct rule_set *rules = check->config->rules;
	struct namespace_cache *namespaces = namespace_cache_new(rules);
	struct databases databases = {0};

	check_gone_rules(check);
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
