/* Rules that are gone. */
#include "proxy/ownership/gone_rules.h"

#include "proxy/ownership/neighbours.h"
#include "proxy/ownership/rule_record.h"
#include "rules/rule/text.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

/* Records whose array no rule of the file names; the others are passed over. */
struct gone {
	struct namespace_cache *namespaces;
	struct buffer records; /* one behind the other */
};

static bool is_ruled(struct gone *gone, const struct recorded_name *name)
{
	const struct ruled_namespace *ruled;
	bool full;

	namespace_cache_trim(gone->namespaces);
	ruled = namespace_cache_find(gone->namespaces, name->database, name->collection, &full);
	for (size_t i = 0; ruled && i < ruled->target_count; i++)
		if (bytes_are(name->array, ruled->targets[i].rule->array))
			return true;
	return full;
}

static void take_record(void *context, struct bytes record)
{
	struct gone *gone = context;
	struct recorded_name name;

	if (recorded_rule_main(record, &name) && !is_ruled(gone, &name))
		buffer_append(&gone->records, record.data, record.length);
}

/* The file's rule of this name, if it has one: it was edited. */
static void tell_edited(struct rule_set *rules, struct bytes name, char *text, size_t size)
{
	text[0] = '\0';
	for (size_t i = 0; i < rule_set_count(rules); i++) {
		const struct rule *rule = rule_set_at(rules, i);

		if (bytes_are(name, rule->name))
			snprintf(text, size,
				 " (the file's rule '%s' is on the array '%s' of '%.64s.%.200s')",
				 rule->name, text_quote(bytes_of(rule->array)).text, rule->database,
				 rule->collection);
	}
}

static void give_newer(struct bytes record, const struct recorded_name *name, char *reason,
		       size_t size)
{
	auto_buffer struct buffer text = {0};

	recorded_rule_tell_newer(&text, recorded_rule_newer_format(record));
	snprintf(reason, size, "no rule of the file is on the array '%s' of '%.*s', which %.*s",
		 text_quote(name->array).text, (int)name->namespace.length,
		 (const char *)name->namespace.data, (int)text.length, (const char *)text.data);
}

static void give_reason(struct rule_set *rules, struct bytes record, char *reason, size_t size)
{
	struct recorded_name name = {0};
	struct bytes rule = {0};
	char edited[512];

	(void)!recorded_rule_main(record, &name);
	(void)!document_find_string(record, "rule", &rule);
	if (recorded_rule_newer_format(record)) {
		give_newer(record, &name, reason, size);
		return;
	}
	tell_edited(rules, rule, edited, sizeof(edited));
	snprintf(reason, size,
		 "the array '%s' of '%.*s' was spilled under rule '%s', which is gone%s: clients "
		 "would see short arrays; bring the rule back (with 'access: read-only' where "
		 "nothing is to be written or moved any more), or fold all back with 'spillway "
		 "undo' and the file that has it",
		 text_quote(name.array).text, (int)name.namespace.length,
		 (const char *)name.namespace.data, text_quote(rule).text, edited);
}

/* The rule's array was edited: the file has another for the same overflow. */
static bool is_edited(struct gone *gone, struct bytes record)
{
	const struct ruled_namespace *ruled;
	struct recorded_name name, overflow;
	bool full;

	if (!recorded_rule_main(record, &name) || !recorded_rule_overflow(record, &overflow))
		return false;
	ruled = namespace_cache_find(gone->namespaces, name.database, name.collection, &full);
	for (size_t i = 0; ruled && i < ruled->target_count; i++)
		if (bytes_are(overflow.database, ruled->targets[i].overflow_database) &&
		    bytes_are(overflow.collection, ruled->targets[i].overflow_collection))
			return true;
	return false;
}

must_check enum link_result gone_rules_remove_edited(struct link *link, struct bytes edited)
{
	bool others = false;
	enum link_result result = edited.length > 0 ? neighbours_find(link, &others) : LINK_DONE;

	for (size_t at = 0; result == LINK_DONE && !others && at < edited.length;) {
		struct bytes record = {edited.data + at, (size_t)load_int32(edited.data + at)};

		at += record.length;
		result = rule_record_remove_named(link, record);
		if (result == LINK_REFUSED)
			return LINK_DONE;
	}
	return result;
}

/* `edited` gets those that nothing lies under. */
static enum link_result judge_gone(struct link *link, struct gone *gone, struct buffer *edited,
				   char *reason, size_t size)
{
	enum link_result result = LINK_DONE;

	for (size_t at = 0; result == LINK_DONE && !reason[0] && at < gone->records.length;) {
		struct bytes record = {gone->records.data + at,
				       (size_t)load_int32(gone->records.data + at)};
		bool found = false;

		require(record.length > 0);
		at += record.length;
		found = recorded_rule_newer_format(record);
		if (!found)
			result = rule_record_find_overflow(link, record, &found);
		if (result == LINK_DONE && found)
			give_reason(namespace_cache_rules(gone->namespaces), record, reason, size);
		else if (result == LINK_DONE && is_edited(gone, record))
			buffer_append(edited, record.data, record.length);
	}
	return result;
}

must_check enum link_result gone_rules_find(struct link *link, struct rule_set *rules,
					    struct buffer *edited, char *reason, size_t size)
{
	struct gone gone = {.namespaces = namespace_cache_new(rules)};
	enum link_result result = rule_record_each(link, take_record, &gone);

	reason[0] = '\0';
	if (result == LINK_DONE)
		result = judge_gone(link, &gone, edited, reason, size);
	buffer_fini(&gone.records);
	namespace_cache_free(gone.namespaces);
	return result;
}
