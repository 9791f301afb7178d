/* Rules that documents are split under. */
#include "proxy/ownership/split_rules.h"

#include "proxy/ownership/rule_record.h"

static void keep_record(void *context, struct bytes record)
{
	buffer_append(context, record.data, record.length);
}

/* The record's overflow holds something: then the rule has moved, under this layout. */
static enum link_result trust_if_split(struct link *link, struct target_set *targets,
				       struct mover_target *target, struct bytes record)
{
	bool found = false;
	enum link_result result = LINK_DONE;

	if (recorded_rule_compare(record, target, "limits") != RULE_RECORD_OTHER)
		result = rule_record_find_overflow(link, record, &found);
	if (result == LINK_DONE && found)
		target_set_trust(targets, target);
	return result;
}

static enum link_result judge_record(struct link *link, struct target_set *targets,
				     struct namespace_cache *namespaces, struct bytes record)
{
	const struct ruled_namespace *ruled;
	enum link_result result = LINK_DONE;
	struct recorded_name name;
	bool full;

	if (!recorded_rule_main(record, &name))
		return LINK_DONE;
	namespace_cache_trim(namespaces);
	ruled = namespace_cache_find(namespaces, name.database, name.collection, &full);
	for (size_t i = 0; ruled && result == LINK_DONE && i < ruled->target_count; i++) {
		const struct rule *rule = ruled->targets[i].rule;
		struct mover_target *target = NULL;

		if (bytes_are(name.array, rule->array))
			target = target_get(targets, rule, name.database, name.collection);
		if (target)
			result = trust_if_split(link, targets, target, record);
	}
	return result;
}

must_check enum link_result split_rules_trust(struct link *link, struct target_set *targets,
					      struct rule_set *rules)
{
	auto_buffer struct buffer records = {0};
	struct namespace_cache *namespaces = namespace_cache_new(rules);
	enum link_result result = rule_record_each(link, keep_record, &records);

	for (size_t at = 0; result == LINK_DONE && at < records.length;) {
		struct bytes record = {records.data + at, (size_t)load_int32(records.data + at)};

		require(record.length > 0);
		at += record.length;
		result = judge_record(link, targets, namespaces, record);
	}
	namespace_cache_free(namespaces);
	return result == LINK_REFUSED ? LINK_DONE : result;
}
