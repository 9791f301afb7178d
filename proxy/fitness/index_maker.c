/* Makes the indexes that an overflow has to have. */
#include "proxy/fitness/index_maker.h"

#include "proxy/base/log.h"
#include "proxy/spill/twins.h"
#include "proxy/upstream/clauses.h"
#include "rules/rule/overflow_document.h"

#include <bson/bson.h>
#include <stdlib.h>

#define INDEX_OPTIONS_CONFLICT 85
#define INDEX_KEY_SPECS_CONFLICT 86
#define PLAIN_INDEX "spillway_not_unique" /* beside which the unique one can be made */

static bool stands_in_the_way(const struct link_error *error)
{
	return error->code == ERROR_DUPLICATE_KEY || error->code == INDEX_OPTIONS_CONFLICT ||
	       error->code == INDEX_KEY_SPECS_CONFLICT;
}

static bool has_twins(const struct link *link)
{
	return link_error(link)->code == ERROR_DUPLICATE_KEY;
}

/* `indexes`: the text of an array, with the places @link, @order, @name and @other. Without a name
 * the index is called as mongosh would call it. */
static enum link_result run(struct link *link, const struct mover_target *target,
			    const char *indexes, const char *name)
{
	const char *first = target->rule->overflow.link;
	const char *second = overflow_order_path(target->rule);
	auto_free char *text = bson_strdup_printf("{createIndexes: @collection, indexes: %s, "
						  "writeConcern: @write_concern}",
						  indexes);
	auto_free char *usual = bson_strdup_printf("%s_1_%s_1", first, second);
	auto_free char *other = bson_strdup_printf("%s_1_%s_1", second, first);

	return command_run(link, target->overflow_database, text,
			   fill("collection", target->overflow_collection), fill("link", first),
			   fill("order", second), fill_text("name", name ? name : usual),
			   fill("other", other));
}

/* Documents of one element each that were made by hand have no place: to a unique index of all
 * documents they are all the same. Then those with a place have one of their own, and what finds
 * them by their links has one that is not unique. */
static enum link_result make_places(struct link *link, const struct mover_target *target)
{
	return run(link, target,
		   "[{key: {'@link': 1, '@order': 1}, name: @name},"
		   " {key: {'@order': 1, '@link': 1}, name: @other, unique: true,"
		   "  partialFilterExpression: {'@order': {$exists: true}}}]",
		   NULL);
}

static enum index_made made_of(enum link_result result)
{
	return result == LINK_DONE ? INDEX_MADE : result == LINK_LOST ? INDEX_LOST : INDEX_REFUSED;
}

/* What others have split must have a number each. Documents of Spillway's own are found by an index
 * that is not unique until the sweep has stored them anew: nothing is lost by them. */
static enum index_made make_plain(struct link *link, struct mover_target *target,
				  const struct overflow_indexes *there)
{
	auto_buffer struct buffer foreign = {0};
	enum link_result result = LINK_DONE;

	/* Documents of one element that others have made need no place. */
	if (target->rule->overflow.layout == RULE_BATCHES)
		result = twins_find(link, target, true, 1, &foreign);
	if (foreign.length > 0)
		return INDEX_TWINS;
	if (result == LINK_DONE && !there->order.name)
		result = run(link, target, "[{key: {'@link': 1, '@order': 1}, name: @name}]",
			     PLAIN_INDEX);
	if (result == LINK_DONE && !atomic_exchange(&target->twins, true))
		log_warning("5003 mover: '%s.%s': the unique index of link and batch number is "
			    "missing, "
			    "and documents have one number twice; they are stored anew, then the "
			    "index is made",
			    target->overflow_database, target->overflow_collection);
	return made_of(result);
}

must_check enum index_made index_make_unique(struct link *link, struct mover_target *target,
					     const struct overflow_indexes *there)
{
	bool has = there->unique.length > 0, placed = there->placed && !has, twins;
	enum link_result result = LINK_REFUSED;

	if (atomic_load(&target->twins) && !has && there->order.name)
		return INDEX_MADE;
	if (!placed)
		result = run(link, target,
			     "[{key: {'@link': 1, '@order': 1}, name: @name, unique: true}]",
			     has ? (const char *)there->unique.data : NULL);
	twins = !placed && result == LINK_REFUSED && has_twins(link);
	if (result == LINK_REFUSED && target->rule->overflow.layout == RULE_ELEMENTS &&
	    (there->placed || stands_in_the_way(link_error(link))))
		result = make_places(link, target);
	if (result == LINK_REFUSED && (twins || has_twins(link)))
		return make_plain(link, target, there);
	return made_of(result);
}

/* What stands there under its name, or with other options, costs time, no more. */
static enum link_result make_of_rule(struct link *link, struct mover_target *target,
				     struct bytes keys)
{
	enum link_result result;
	char name[1024];

	judge_index_name(keys, name, sizeof(name));
	result = command_run(link, target->overflow_database,
			     "{createIndexes: @collection, indexes: [{key: @keys, name: @name}], "
			     "writeConcern: @write_concern}",
			     fill("collection", target->overflow_collection),
			     fill_document("keys", keys), fill_text("name", name));
	if (result != LINK_REFUSED || !stands_in_the_way(link_error(link)))
		return result;
	if (!atomic_exchange(&target->told.index, true))
		log_warning("5004 mover: '%s.%s': an index of the rule could not be made: %s",
			    target->overflow_database, target->overflow_collection,
			    link_error(link)->message);
	return LINK_DONE;
}

must_check enum link_result index_make_rules(struct link *link, struct mover_target *target,
					     const struct overflow_indexes *there)
{
	struct bytes wanted = target->rule->overflow.indexes;
	struct cursor cursor;
	struct element element, keys;
	enum link_result result = LINK_DONE;
	uint64_t bit = 1;

	if (wanted.length == 0)
		return LINK_DONE;
	require(cursor_open(&cursor, wanted));
	for (; result == LINK_DONE && cursor_next(&cursor, &element) == CURSOR_ELEMENT; bit <<= 1)
		if (document_find(element.value, "keys", &keys) && !(there->of_rule & bit) &&
		    !overflow_is_unique_key(target->rule, keys.value))
			result = make_of_rule(link, target, keys.value);
	return result;
}
