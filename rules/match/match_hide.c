/* Commands whose answers would show overflow collections that are not listed: listCollections and
 * dbStats. A drop of an overflow collection drops nothing. */
#include "rules/match/match_inner.h"

#include "rules/rule/overflow_names.h"

static void hide(const struct matching *matching)
{
	matching->match->verdict = VERDICT_HIDE;
	matching->match->cache = matching->cache;
}

static bool may_show(const struct matching *matching)
{
	return matching->match->facts.answered && !matching->command->duplicate &&
	       overflow_names_any(matching->rules, matching->database);
}

/* Drivers ask so for one collection; mongod then looks at no other. */
static bool asks_for_another(const struct matching *matching, const struct element *filter)
{
	struct element name;
	struct bytes text;

	return filter->type == BSON_BYTE_DOCUMENT && document_find(filter->value, "name", &name) &&
	       element_string(&name, &text) &&
	       !overflow_names_hide(matching->rules, matching->database, text);
}

/* A filter of a type that mongod refuses passes. */
void match_list_collections(const struct matching *matching)
{
	const struct element *filter = &matching->command->fields[FIELD_FILTER];

	if (may_show(matching) && !asks_for_another(matching, filter) &&
	    (filter->type == 0 || filter->type == BSON_BYTE_DOCUMENT || element_is_nothing(filter)))
		hide(matching);
}

void match_db_stats(const struct matching *matching)
{
	if (may_show(matching))
		hide(matching);
}

bool match_drop_overflow(const struct matching *matching)
{
	const struct command *command = matching->command;
	const struct rule *rule;

	if (command->kind != COMMAND_DROP || command->duplicate || !matching->match->facts.answered)
		return false;
	rule = rule_set_overflow(matching->rules, matching->database, command->collection);
	if (!rule || rule->read_only)
		return false;
	hide(matching);
	return true;
}
