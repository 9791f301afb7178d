/* The index that the overflow of a rule is walked by, of those that its collection has. */
#include "proxy/upstream/overflow_index.h"

#include "rules/match/fitness_judge.h"
#include "rules/rule/overflow_document.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

#define NAMESPACE_NOT_FOUND 26

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
	struct element element;
	struct bytes name;

	if (*place || !judge_orders_overflow(rule, index) ||
	    !document_find(index, "name", &element) || !element_string(&element, &name))
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

struct taking {
	struct overflow_index *found;
	const struct rule *rule;
};

static void take(void *context, struct bytes index)
{
	const struct taking *taking = context;

	overflow_index_take(taking->found, taking->rule, index);
}

must_check enum link_result overflow_index_find(struct link *link,
						const struct mover_target *target,
						struct overflow_index *found)
{
	struct taking taking = {found, target->rule};
	bson_t *command = BCON_NEW("listIndexes", BCON_UTF8(target->overflow_collection));
	enum link_result result =
		link_find(link, target->overflow_database,
			  (struct bytes){bson_get_data(command), command->len}, take, &taking);

	bson_destroy(command);
	found->absent = result == LINK_REFUSED && link_error(link)->code == NAMESPACE_NOT_FOUND;
	return found->absent ? LINK_DONE : result;
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
