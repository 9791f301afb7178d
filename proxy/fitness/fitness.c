/* Checks on the server whether a rule can hold on a namespace, and makes the overflow's indexes. */
#include "proxy/fitness/fitness.h"

#include "proxy/base/log.h"
#include "proxy/fitness/findings.h"
#include "proxy/fitness/index_maker.h"
#include "proxy/fitness/lost_overflow.h"
#include "proxy/ownership/rule_owner.h"
#include "proxy/ownership/rule_record.h"
#include "proxy/spill/twins.h"
#include "proxy/upstream/clauses.h"

#include <stdio.h>

#define WIRE_VERSION_6_0 17 /* from it on commands can name a collection's UUID */

/* One check under way. The first reason stands. */
struct checking {
	struct link *link;
	struct mover_target *target;
	struct namespace_facts facts;
	struct overflow_indexes indexes; /* the overflow's */
	bool overflow; /* what is looked at: the main collection or the overflow */
	bool plans;    /* nothing is made or recorded */
	bool absent;   /* no collection exists, under a pattern: nothing is made before one does */
	bool told;     /* whether the overflow is lost: */
	bool lost;
	bool fit;
	char reason[600];
	char remedy[300]; /* what to do; empty: the reason says it */
};

static const char *database_of(const struct checking *checking)
{
	return checking->overflow ? checking->target->overflow_database
				  : checking->target->database;
}

static const char *collection_of(const struct checking *checking)
{
	return checking->overflow ? checking->target->overflow_collection
				  : checking->target->collection;
}

static struct collection_facts *facts_of(struct checking *checking)
{
	return checking->overflow ? &checking->facts.overflow : &checking->facts.main;
}

static void take_unfit(void *context, const struct unfit *why)
{
	struct checking *checking = context;

	/* Whoever makes the unique index sees whether another stands in its way. */
	if (!checking->fit ||
	    (why->code == UNFIT_OVERFLOW_INDEX_BLOCKED &&
	     (!checking->plans || checking->target->rule->overflow.layout != RULE_BATCHES)))
		return;
	checking->fit = false;
	snprintf(checking->reason, sizeof(checking->reason), "%s", why->reason);
	snprintf(checking->remedy, sizeof(checking->remedy),
		 "; %s; or take the rule out of the file", unfit_remedy(why->code));
}

/* A refusal is the end of the check: with the server's own words. */
static enum link_result refused(struct checking *checking, enum link_result result,
				const char *what)
{
	const struct link_error *error = link_error(checking->link);

	if (result != LINK_REFUSED || !checking->fit)
		return result;
	if (link_error_passes(error))
		return LINK_LOST;
	checking->fit = false;
	if (error->code == ERROR_UNAUTHORIZED) {
		snprintf(checking->reason, sizeof(checking->reason),
			 "the upstream account may not %s it", what);
		snprintf(checking->remedy, sizeof(checking->remedy),
			 "; give it the role that 'spillway check' prints, or name another account "
			 "(upstream.uri)");
	} else {
		snprintf(checking->reason, sizeof(checking->reason), "can't %.50s it: %.240s", what,
			 error->message);
		snprintf(checking->remedy, sizeof(checking->remedy),
			 "; change that, or take the rule out of the file");
	}
	return LINK_DONE;
}

static enum link_result read_facts(struct checking *checking)
{
	struct collection_facts *facts = facts_of(checking);
	const char *collection = collection_of(checking);
	enum link_result result = refused(
		checking,
		facts_read_entry(checking->link, database_of(checking), collection, facts), "list");

	if (result != LINK_DONE || !checking->fit || facts_tell_view(facts))
		return result;
	return refused(checking,
		       facts_read_indexes(checking->link, database_of(checking), collection, facts),
		       "list the indexes of");
}

static void refuse_twins(struct checking *checking)
{
	checking->fit = false;
	snprintf(checking->reason, sizeof(checking->reason),
		 "two of its documents have one link and one batch number, or none: the unique "
		 "index of link and batch can't be made");
	snprintf(checking->remedy, sizeof(checking->remedy),
		 "; give each a number of its own, or take the rule out of the file");
}

static enum link_result make_unique(struct checking *checking)
{
	switch (index_make_unique(checking->link, checking->target, &checking->indexes)) {
	case INDEX_MADE:
		return LINK_DONE;
	case INDEX_TWINS:
		refuse_twins(checking);
		return LINK_DONE;
	case INDEX_REFUSED:
		return refused(checking, LINK_REFUSED,
			       "make the unique index of link and batch on");
	case INDEX_LOST:
		return LINK_LOST;
	}
	require(!"an outcome without a name");
}

/* Runs a command that changes nothing: rights are checked before anything else. */
static enum link_result try(struct checking *checking, const char *text, const char *what)
{
	return refused(checking,
		       command_run(checking->link, database_of(checking), text,
				   fill("collection", collection_of(checking))),
		       what);
}

/* With a document that no server takes. */
static enum link_result try_insert(struct checking *checking)
{
	enum link_result result = command_run(checking->link, database_of(checking),
					      "{insert: @collection, documents: [{_id: []}]}",
					      fill("collection", collection_of(checking)));

	if (result == LINK_REFUSED && link_error(checking->link)->code != ERROR_UNAUTHORIZED)
		return LINK_DONE;
	return refused(checking, result, "insert into");
}

static enum link_result try_rights(struct checking *checking)
{
	enum link_result result =
		try(checking, "{find: @collection, filter: {_id: {$in: []}}}", "read");

	if (checking->target->read_only)
		return result;
	if (result == LINK_DONE)
		result = try(checking,
			     "{update: @collection, updates: [{q: {_id: {$in: []}}, "
			     "u: {$unset: {_spill: ''}}}]}",
			     "update");
	if (result == LINK_DONE && checking->overflow)
		result = try(checking,
			     "{delete: @collection, deletes: [{q: {_id: {$in: []}}, limit: 0}]}",
			     "delete from");
	if (result == LINK_DONE && checking->overflow && checking->fit)
		result = try_insert(checking);
	return result;
}

static enum link_result check_main(struct checking *checking, enum fitness_extent extent)
{
	enum link_result result = read_facts(checking);

	if (result == LINK_DONE)
		judge_main_facts(checking->target->rule, &checking->facts.main, take_unfit,
				 checking);
	if (result == LINK_DONE && checking->fit && extent != FITNESS_OF_MAIN)
		result = try_rights(checking);
	return result;
}

/* Of the collection that has the indexes now. */
static enum link_result note_uuid(struct checking *checking)
{
	struct collection_facts *facts = &checking->facts.overflow;
	uint64_t uuid[2] = {0};
	struct element element;
	int64_t wire = 0;
	enum link_result result = LINK_DONE;

	if (facts->entry.count == 0) /* it was made just now */
		result = refused(checking,
				 facts_read_entry(checking->link, database_of(checking),
						  collection_of(checking), facts),
				 "list");
	if (document_find(link_hello(checking->link), "maxWireVersion", &element) &&
	    element_integer(&element, &wire) && wire >= WIRE_VERSION_6_0)
		facts_uuid(facts, uuid);
	for (size_t i = 0; i < 2; i++)
		atomic_store(&checking->target->stored.uuid[i], uuid[i]);
	return result;
}

static enum link_result make_indexes(struct checking *checking)
{
	enum link_result result = make_unique(checking);

	if (result == LINK_DONE && checking->fit)
		result = note_uuid(checking);
	if (result == LINK_DONE && checking->fit)
		result = refused(
			checking,
			index_make_rules(checking->link, checking->target, &checking->indexes),
			"make an index of the rule on");
	return result;
}

/* What would keep the rule from being served: one number of a link twice, by another's hand. */
static enum link_result look_for_twins(struct checking *checking)
{
	auto_buffer struct buffer found = {0};
	enum link_result result = twins_find(checking->link, checking->target, true, 1, &found);

	if (result == LINK_DONE && found.length > 0)
		refuse_twins(checking);
	return refused(checking, result, "read");
}

static enum link_result make_or_plan_indexes(struct checking *checking)
{
	if (!checking->plans)
		return make_indexes(checking);
	/* Documents of one element have no places that could be one, but by Spillway. */
	if (checking->indexes.unique.length > 0 ||
	    checking->target->rule->overflow.layout == RULE_ELEMENTS)
		return LINK_DONE;
	return look_for_twins(checking);
}

/* All goes on, but slowly, and what is done by walks is not done. */
static void warn_of_hidden(struct checking *checking)
{
	const struct overflow_index *order = &checking->indexes.order;
	struct mover_target *target = checking->target;
	char reason[500];

	if (!overflow_index_is_hidden(order) || atomic_exchange(&target->told.index, true))
		return;
	overflow_index_explain(order, target->rule, reason, sizeof(reason));
	log_warning("5005 mover: '%s.%s': %s", target->overflow_database,
		    target->overflow_collection, reason);
}

/* A pattern matches names that nobody uses: whoever asks for one of them may not have databases
 * made. */
static bool is_absent(const struct checking *checking)
{
	return rule_is_pattern(checking->target->rule) && checking->facts.main.entry.count == 0 &&
	       checking->facts.overflow.entry.count == 0;
}

/* What can't be told is asked again with the next check. */
static enum link_result look_for_loss(struct checking *checking)
{
	enum link_result result = lost_overflow_look(checking->link, checking->target,
						     &checking->facts.overflow, &checking->lost);

	checking->told = result == LINK_DONE;
	return result == LINK_REFUSED ? LINK_DONE : result;
}

static enum link_result settle_loss(struct checking *checking)
{
	enum link_result result = LINK_DONE;

	if (checking->told && !checking->lost && !checking->target->read_only)
		result = lost_overflow_settle(checking->link, checking->target);
	return result == LINK_REFUSED ? LINK_DONE : result;
}

static enum link_result check_overflow(struct checking *checking)
{
	const struct collection_facts *facts = &checking->facts.overflow;
	enum link_result result = read_facts(checking);

	checking->absent = result == LINK_DONE && checking->fit && is_absent(checking);
	if (checking->absent)
		return result;
	if (result == LINK_DONE) {
		judge_overflow_facts(checking->target->rule, facts, take_unfit, checking);
		judge_overflow_indexes(checking->target->rule, &facts->indexes, &checking->indexes);
		warn_of_hidden(checking);
	}
	if (result == LINK_DONE && checking->fit && !checking->plans)
		result = look_for_loss(checking);
	if (result == LINK_DONE && checking->fit && !checking->target->read_only)
		result = make_or_plan_indexes(checking);
	if (result == LINK_DONE && checking->fit)
		result = try_rights(checking);
	return result;
}

static void judge(struct target_set *set, struct mover_target *target,
		  const struct checking *checking)
{
	char reason[TARGET_REASON];

	if (checking->fit) {
		target_judge(set, target, FITNESS_FIT, "");
		return;
	}
	snprintf(reason, sizeof(reason), "rule '%.60s' can't hold on '%.64s.%.200s': %.*s%s",
		 target->rule->name, database_of(checking), collection_of(checking),
		 checking->remedy[0] ? 320 : 550, checking->reason, checking->remedy);
	target_judge(set, target, FITNESS_UNFIT, reason);
}

/* Before anything is made: what is spilled may be so under another layout, and elsewhere. */
static enum link_result ask_record(struct checking *checking)
{
	enum rule_record compared;
	enum link_result result = rule_record_compare(checking->link, checking->target, &compared,
						      checking->reason, sizeof(checking->reason));

	checking->fit = result != LINK_DONE || !checking->reason[0];
	return result;
}

/* Or records that it is this rule's. */
static enum link_result ask_owner(struct checking *checking)
{
	size_t size = sizeof(checking->reason);
	enum link_result result =
		checking->plans
			? rule_owner_ask(checking->link, checking->target, checking->reason, size)
			: rule_owner_hold(checking->link, checking->target, checking->reason, size);

	checking->fit = !checking->reason[0];
	checking->overflow = false;
	return result;
}

static enum link_result check_all(struct checking *checking, enum fitness_extent extent)
{
	enum link_result result = check_main(checking, extent);

	if (extent == FITNESS_OF_MAIN)
		return result;
	if (result == LINK_DONE && checking->fit)
		result = ask_record(checking);
	if (result == LINK_DONE && checking->fit) {
		checking->overflow = true;
		result = check_overflow(checking);
	}
	if (result == LINK_DONE && checking->fit && !checking->absent)
		result = ask_owner(checking);
	if (result == LINK_DONE && checking->fit && !checking->absent)
		result = settle_loss(checking);
	return result;
}

must_check enum link_result fitness_check(struct link *link, struct target_set *set,
					  struct mover_target *target, enum fitness_extent extent)
{
	struct checking checking = {
		.link = link, .target = target, .fit = true, .plans = extent == FITNESS_OF_PLAN};
	enum link_result result = check_all(&checking, extent);

	facts_fini(&checking.facts.main);
	facts_fini(&checking.facts.overflow);
	overflow_index_fini(&checking.indexes.order);
	if (result == LINK_LOST)
		return result;
	if (checking.absent && extent == FITNESS_OF_BOTH) {
		target_judge(set, target, FITNESS_UNKNOWN, "");
		return LINK_DONE;
	}
	if (extent == FITNESS_OF_BOTH)
		atomic_store(&target->judged_on, link_process(link));
	judge(set, target, &checking);
	if (checking.told)
		lost_overflow_tell(set, target, checking.lost);
	return LINK_DONE;
}
