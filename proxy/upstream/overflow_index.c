/* The index that the overflow of a rule is walked by, of those that its collection has. */
#include "proxy/upstream/overflow_index.h"

#include "proxy/upstream/facts.h"
#include "rules/match/fitness_judge.h"
#include "rules/rule/overflow_document.h"

#include <stdio.h>
#include <stdlib.h>

void overflow_index_fini(struct overflow_index *found)
{
	free(found->name);
	free(found->hidden);
	*found = (struct overflow_index){0};
}

void overflow_index_take(struct overflow_index *found, const struct rule *rule, struct bytes index)
{
	bool hidden = document_truth(index, "hidden");
	char **place = hidden ? &found->hidden : &found->name;
	struct bytes name;

	if (*place || !judge_orders_overflow(rule, index) ||
	    !document_find_string(index, "name", &name))
		return;
	/* Another's, that is not unique, is nobody's affair as long as it is hidden: the unique one
	 * is made beside it. */
	if (hidden && !judge_is_batch_index(rule, index) && rule->overflow.layout != RULE_ELEMENTS)
		return;
	*place = must_strndup((const char *)name.data, name.length);
}

bool overflow_index_is_hidden(const struct overflow_index *found)
{
	return !found->name && found->hidden;
}

must_check enum link_result overflow_index_find(struct link *link,
						const struct mover_target *target,
						struct overflow_index *found)
{
	struct collection_facts facts = {0};
	enum link_result result = facts_read_indexes(link, target->overflow_database,
						     target->overflow_collection, &facts);

	for (size_t i = 0; i < facts.indexes.count; i++)
		overflow_index_take(found, target->rule, facts.indexes.list[i]);
	found->absent = facts.absent;
	facts_fini(&facts);
	return result;
}

void overflow_index_explain(const struct overflow_index *found, const struct rule *rule,
			    char *reason, size_t size)
{
	if (found->hidden)
		snprintf(reason, size,
			 "its index '%.200s' is hidden: documents are not found by their links; "
			 "show it again (collMod, index: { name: \"%.200s\", hidden: false })",
			 found->hidden, found->hidden);
	else
		snprintf(reason, size,
			 "it has no index { \"%.100s\": 1, \"%.100s\": 1 }: serve makes it",
			 rule->overflow.link, overflow_order_path(rule));
}
