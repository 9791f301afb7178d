/* Judges what servers told of a namespace. */
#include "proxy/fitness/index_judge.h"

#include "rules/match/fitness_judge.h"
#include "rules/rule/known_indexes.h"
#include "rules/rule/overflow_document.h"

#include <ctype.h>
#include <stdio.h>

static bool text_in(struct bytes document, const char *name, struct bytes *text)
{
	struct element element;

	return document_find(document, name, &element) && element_string(&element, text);
}

/* Whether a privilege's resource takes this one in. Wildcards don't reach system collections. */
static bool covers(struct bytes resource, const char *database, const char *collection)
{
	struct bytes on_database, on_collection;

	if (document_truth(resource, "anyResource"))
		return true;
	if (!*database)
		return document_truth(resource, "cluster");
	if (!text_in(resource, "db", &on_database) ||
	    !text_in(resource, "collection", &on_collection))
		return false;
	return (on_database.length == 0 || bytes_are(on_database, database)) &&
	       (on_collection.length == 0 || bytes_are(on_collection, collection));
}

static bool has_action(struct bytes actions, const char *action)
{
	struct cursor cursor;
	struct element element;
	struct bytes text;

	if (!cursor_open(&cursor, actions))
		return false;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (element_string(&element, &text) &&
		    (bytes_are(text, action) || bytes_are(text, "anyAction")))
			return true;
	}
	return false;
}

bool judge_may(struct bytes privileges, const char *database, const char *collection,
	       const char *action)
{
	struct cursor cursor;
	struct element element, part;
	struct bytes privilege, resource, actions;

	if (!cursor_open(&cursor, privileges))
		return false;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (element_document(&element, &privilege) &&
		    document_find(privilege, "resource", &part) &&
		    element_document(&part, &resource) && covers(resource, database, collection) &&
		    document_find(privilege, "actions", &part) &&
		    element_document(&part, &actions) && has_action(actions, action))
			return true;
	}
	return false;
}

/* What stands behind the array in the path (".isbn", or nothing); NULL where the path is another,
 * or goes on with a position. */
static const char *behind_array(const struct rule *rule, struct bytes name)
{
	size_t length = strlen(rule->array);
	const char *rest;

	if (!bytes_begin_with(name, rule->array))
		return NULL;
	rest = (const char *)name.data + length; /* a NUL stands behind the name */
	if (*rest != '\0' && (*rest != '.' || isdigit((unsigned char)rest[1])))
		return NULL;
	return rest;
}

must_check bool judge_wanted_index(const struct rule *rule, struct bytes keys, char *path,
				   size_t size)
{
	struct cursor cursor;
	struct element element;
	const char *rest = NULL;
	auto_buffer struct buffer out = {0};
	int64_t way;

	if (!cursor_open(&cursor, keys))
		return false;
	while (!rest && cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (element_integer(&element, &way))
			rest = behind_array(rule, element.name);
	}
	if (!rest)
		return false;
	if (!overflow_path(rule, rest, &out))
		return false;
	snprintf(path, size, "%s", (const char *)out.data);
	return true;
}

bool judge_index_serves(const struct rule *rule, struct bytes keys, const char *path)
{
	struct cursor cursor;
	struct element element;

	if (!cursor_open(&cursor, keys) || cursor_next(&cursor, &element) != CURSOR_ELEMENT)
		return false;
	if (element_is(&element, path))
		return true;
	return element_is(&element, rule->overflow.link) &&
	       cursor_next(&cursor, &element) == CURSOR_ELEMENT && element_is(&element, path);
}

bool judge_rule_has_index(const struct rule *rule, const char *path)
{
	struct cursor cursor;
	struct element element, keys;
	struct bytes index, key;

	if (rule->overflow.indexes.length == 0 || !cursor_open(&cursor, rule->overflow.indexes))
		return false;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (element_document(&element, &index) && document_find(index, "keys", &keys) &&
		    element_document(&keys, &key) && judge_index_serves(rule, key, path))
			return true;
	}
	return false;
}

/* What serve calls it, where none has its keys. */
static bool has_unique_name(const struct rule *rule, struct bytes index)
{
	char name[700];
	struct bytes found;

	snprintf(name, sizeof(name), "%s_1_%s_1", rule->overflow.link, overflow_order_path(rule));
	return text_in(index, "name", &found) && bytes_are(found, name);
}

const char *judge_index_blocks(const struct rule *rule, struct bytes index)
{
	struct element element;

	if (judge_is_batch_index(rule, index)) {
		if (!document_find(index, "key", &element) ||
		    !overflow_is_unique_key(rule, element.value))
			return "not both of its keys are ascending";
		if (document_truth(index, "sparse"))
			return "it is sparse";
		return document_find(index, "collation", &element) ? "it has a collation" : NULL;
	}
	/* Other unique ones may not be there at all: judge_overflow_index. Documents of one element
	 * that were made by hand have no places that could be unique. */
	return rule->overflow.layout == RULE_BATCHES && !document_truth(index, "unique") &&
			       has_unique_name(rule, index)
		       ? "it has the name of that index, and is not unique"
		       : NULL;
}

void judge_index_name(struct bytes keys, char *name, size_t size)
{
	struct cursor cursor;
	struct element element;
	struct bytes text;
	size_t at = 0;
	int64_t way;

	name[0] = '\0';
	require(cursor_open(&cursor, keys));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT && at + 1 < size) {
		if (element_integer(&element, &way))
			at += (size_t)snprintf(name + at, size - at, "%s%.*s_%lld", at ? "_" : "",
					       (int)element.name.length,
					       (const char *)element.name.data, (long long)way);
		else if (element_string(&element, &text))
			at += (size_t)snprintf(name + at, size - at, "%s%.*s_%.*s", at ? "_" : "",
					       (int)element.name.length,
					       (const char *)element.name.data, (int)text.length,
					       (const char *)text.data);
	}
}

enum of_rule {
	OF_NONE,  /* it has nothing to do with it */
	OF_RULE,  /* it is the rule's */
	OF_PLACE, /* it stands where the rule's would */
};

/* The unique one may be among them: others judge that. */
static enum of_rule compare_index(const struct rule *rule, struct bytes wanted, struct bytes index)
{
	static const char *const options[] = {"partialFilterExpression", "collation"};
	struct element keys, option;
	char name[1024];
	struct bytes found;
	bool same = document_find(index, "key", &keys) && keys.type == BSON_BYTE_DOCUMENT &&
		    index_keys_same(keys.value, wanted) && !document_truth(index, "sparse");

	for (size_t i = 0; i < ARRAY_LENGTH(options); i++)
		same = same && !document_find(index, options[i], &option);
	if (same)
		return document_truth(index, "hidden") && !overflow_is_unique_key(rule, wanted)
			       ? OF_PLACE
			       : OF_RULE;
	judge_index_name(wanted, name, sizeof(name));
	return text_in(index, "name", &found) && bytes_are(found, name) ? OF_PLACE : OF_NONE;
}

static uint64_t find_rule_indexes(const struct rule *rule, struct bytes index, enum of_rule which)
{
	struct cursor cursor;
	struct element each, keys;
	uint64_t found = 0, bit = 1;

	if (rule->overflow.indexes.length == 0 || !cursor_open(&cursor, rule->overflow.indexes))
		return 0;
	for (; cursor_next(&cursor, &each) == CURSOR_ELEMENT; bit <<= 1)
		if (document_find(each.value, "keys", &keys) &&
		    compare_index(rule, keys.value, index) == which)
			found |= bit;
	return found;
}

uint64_t judge_rule_indexes(const struct rule *rule, struct bytes index)
{
	return find_rule_indexes(rule, index, OF_RULE);
}

uint64_t judge_rule_indexes_kept(const struct rule *rule, struct bytes index)
{
	return find_rule_indexes(rule, index, OF_PLACE);
}

bool judge_is_internal(const char *application, const char *driver)
{
	return strncmp(application, "spillway", 8) == 0 ||
	       strncmp(driver, "MongoDB Internal Client", 23) == 0 ||
	       strncmp(driver, "NetworkInterfaceTL", 18) == 0;
}

void judge_main_facts(const struct rule *rule, const struct collection_facts *facts,
		      judge_found found, void *context)
{
	struct unfit why;

	for (size_t i = 0; i < facts->entry.count; i++)
		if (!judge_main_collection(rule, facts->entry.list[i], &why))
			found(context, &why);
	for (size_t i = 0; i < facts->indexes.count; i++)
		if (!judge_main_index(rule, facts->indexes.list[i], &why))
			found(context, &why);
}

static bool judge_blocked(const struct rule *rule, struct bytes index, struct unfit *why)
{
	const char *wrong = judge_index_blocks(rule, index);
	struct bytes name;

	if (!wrong || !text_in(index, "name", &name))
		return true;
	why->code = UNFIT_OVERFLOW_INDEX_BLOCKED;
	snprintf(why->reason, sizeof(why->reason),
		 "its index '%.*s' stands where the unique index of link and batch has to be: %s",
		 (int)name.length, (const char *)name.data, wrong);
	return false;
}

void judge_overflow_facts(const struct rule *rule, const struct collection_facts *facts,
			  judge_found found, void *context)
{
	struct unfit why;

	for (size_t i = 0; i < facts->entry.count; i++)
		if (!judge_overflow_collection(facts->entry.list[i], &why))
			found(context, &why);
	for (size_t i = 0; i < facts->indexes.count; i++)
		if (!judge_overflow_index(rule, facts->indexes.list[i], &why) ||
		    !judge_blocked(rule, facts->indexes.list[i], &why))
			found(context, &why);
}

void judge_overflow_indexes(const struct rule *rule, const struct copies *indexes,
			    struct overflow_indexes *found)
{
	for (size_t i = 0; i < indexes->count; i++) {
		struct bytes index = indexes->list[i];

		if (judge_is_batch_index(rule, index) && !text_in(index, "name", &found->unique))
			found->unique = (struct bytes){0};
		found->placed |= judge_is_place_index(rule, index);
		overflow_index_take(&found->order, rule, index);
		found->of_rule |= judge_rule_indexes(rule, index);
	}
}
