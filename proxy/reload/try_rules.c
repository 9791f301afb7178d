/* Could other rules be in force: what a start judges, asked before a reload. */
#include "proxy/reload/try_rules.h"

#include "proxy/fitness/fitness.h"
#include "proxy/mover/mover_inner.h"
#include "proxy/mover/views_watch.h"
#include "proxy/ownership/gone_rules.h"
#include "proxy/upstream/open_reads.h"
#include "proxy/upstream/open_streams.h"
#include "rules/config/config_change.h"

#include <stdio.h>

struct trying {
	struct mover *mover;
	const atomic_bool *stopping; /* the reload's: what is asked of servers for it is given up */
	struct link *link;
	struct rule_set *rules;
	struct target_set *targets;
	char *reason;
	size_t size;
	bool fresh; /* some rule finds nothing of what is split */
};

static enum mover_check no_server(const struct trying *trying)
{
	snprintf(trying->reason, trying->size, "%s", link_error(trying->link)->message);
	return MOVER_CHECK_NO_SERVER;
}

/* The first that finds what was split under this one; NULL: none does. */
static const struct rule *find_counterpart(const struct rule_set *rules, const struct rule *rule)
{
	for (size_t i = 0; i < rule_set_count(rules); i++)
		if (config_rule_finds(rule_set_at(rules, i), rule))
			return rule_set_at(rules, i);
	return NULL;
}

/* A rule in force that is this one, but for its name and for what may be changed at any time. */
static bool is_in_force(struct trying *trying, const struct rule *rule)
{
	const struct rule *other = find_counterpart(trying->mover->reload.rules, rule);

	if (other)
		return config_rule_equals(other, rule);
	trying->fresh = true;
	return false;
}

static enum mover_check try_namespace(struct trying *trying, const struct rule *rule,
				      const char *database, const char *collection)
{
	struct mover_target *target =
		target_get(trying->targets, rule, bytes_of(database), bytes_of(collection));

	if (!target)
		return MOVER_CHECK_GOOD;
	if (fitness_check(trying->link, trying->targets, target, FITNESS_OF_PLAN) != LINK_DONE)
		return no_server(trying);
	return target_unfit(trying->targets, bytes_of(database), bytes_of(collection),
			    trying->reason, trying->size)
		       ? MOVER_CHECK_BAD
		       : MOVER_CHECK_GOOD;
}

/* A pattern is tried on the namespaces that have been met. */
static enum mover_check try_pattern(struct trying *trying, const struct rule *rule)
{
	enum mover_check check = MOVER_CHECK_GOOD;
	const struct mover_target *met;

	for (size_t i = 0;
	     check == MOVER_CHECK_GOOD && (met = target_at(trying->mover->targets, i)); i++)
		if (rule_matches(rule, bytes_of(met->database), bytes_of(met->collection)))
			check = try_namespace(trying, rule, met->database, met->collection);
	return check;
}

static enum mover_check try_rules(struct trying *trying)
{
	enum mover_check check = MOVER_CHECK_GOOD;

	for (size_t i = 0; check == MOVER_CHECK_GOOD && i < rule_set_count(trying->rules); i++) {
		const struct rule *rule = rule_set_at(trying->rules, i);

		if (is_in_force(trying, rule))
			continue;
		check = rule_is_pattern(rule)
				? try_pattern(trying, rule)
				: try_namespace(trying, rule, rule->database, rule->collection);
	}
	return check;
}

static enum mover_check try_gone(struct trying *trying)
{
	auto_buffer struct buffer edited = {0};

	if (gone_rules_find(trying->link, trying->rules, &edited, trying->reason, trying->size) !=
	    LINK_DONE)
		return no_server(trying);
	return trying->reason[0] ? MOVER_CHECK_BAD : MOVER_CHECK_GOOD;
}

/* The process before an upgrade goes on under a rule that is gone, and moves arrays. */
static enum mover_check try_shared(struct trying *trying)
{
	const struct rule_set *before = trying->mover->reload.rules;

	if (!atomic_load(&trying->mover->reload.shared))
		return MOVER_CHECK_GOOD;
	for (size_t i = 0; i < rule_set_count(before); i++) {
		const struct rule *rule = rule_set_at(before, i);

		if (find_counterpart(trying->rules, rule))
			continue;
		snprintf(trying->reason, trying->size,
			 "rule '%s' is gone or has another layout, and the process before the "
			 "upgrade still serves connections under this rule: try again when that "
			 "process has ended (limits.handover)",
			 rule->name);
		return MOVER_CHECK_BAD;
	}
	return MOVER_CHECK_GOOD;
}

/* Without this nobody knows when a new rule may move. */
static enum mover_check try_sight(struct trying *trying)
{
	if (!trying->fresh)
		return MOVER_CHECK_GOOD;
	switch (open_reads_try(trying->link)) {
	case LINK_DONE:
		return MOVER_CHECK_GOOD;
	case LINK_LOST:
		return no_server(trying);
	case LINK_REFUSED:
		break;
	}
	snprintf(trying->reason, trying->size,
		 "a new rule may move nothing before cursors of earlier reads are closed, and the "
		 "upstream account may not see them: give the account the action 'inprog' on the "
		 "cluster, or restart: %.300s",
		 link_error(trying->link)->message);
	return MOVER_CHECK_BAD;
}

/* ---- change streams that no rule would tell any more ---- */

struct orphans {
	const struct rule_set *before, *after;
	char name[300]; /* of a collection; empty: there is none */
};

/* Whether a getMore of a stream there is looked at. */
static bool is_told(const struct rule_set *rules, struct bytes database, struct bytes collection)
{
	if (collection.length > 0 && collection.data[0] == '$')
		return rule_set_count(rules) > 0;
	for (size_t i = 0; i < rule_set_count(rules); i++)
		if (rule_matches(rule_set_at(rules, i), database, collection))
			return true;
	return false;
}

static void take_stream(void *context, struct bytes database, struct bytes collection)
{
	struct orphans *orphans = context;

	if (is_told(orphans->before, database, collection) &&
	    !is_told(orphans->after, database, collection))
		snprintf(orphans->name, sizeof(orphans->name), "%.*s.%.*s", (int)database.length,
			 (const char *)database.data, (int)collection.length,
			 (const char *)collection.data);
}

/* Their events would come with Spillway's marks, and not through the client's stages. A server that
 * does not say so is not waited for. */
static enum mover_check try_streams(struct trying *trying)
{
	const struct config *config = trying->mover->config;
	struct places *places = paths_reach(trying->mover->paths)->places;
	struct orphans orphans = {trying->mover->reload.rules, trying->rules, ""};

	for (size_t i = 0; i < config->listen_count && !orphans.name[0]; i++) {
		const char *server = places_read(places, i);
		bson_error_t error;
		struct link *link = server ? link_open_server(config->upstream_uri, server,
							      trying->stopping, &error)
					   : NULL;

		if (link)
			(void)!open_streams_each(link, take_stream, &orphans);
		link_free(link);
	}
	if (!orphans.name[0])
		return MOVER_CHECK_GOOD;
	snprintf(trying->reason, trying->size,
		 "a change stream with stages goes on on '%s', and without the rule its events "
		 "would come as they are stored, past these stages: write 'change_streams: "
		 "as_stored' into the rule and reload, so that drivers open their streams anew; "
		 "then take the rule out",
		 orphans.name);
	return MOVER_CHECK_BAD;
}

/* Which views give arrays short is known before any client may read them. */
static enum mover_check take_views(struct trying *trying)
{
	struct mover looker = {.config = trying->mover->config,
			       .reload = {.rules = trying->rules},
			       .targets = trying->targets};
	struct views_look *look = views_look_new();
	enum link_result result = views_look_now(look, &looker, trying->link);

	views_look_free(look);
	return result == LINK_DONE ? MOVER_CHECK_GOOD : no_server(trying);
}

must_check enum mover_check try_rules_now(struct mover *mover, struct rule_set *rules,
					  const atomic_bool *stopping, char *reason, size_t size)
{
	struct trying trying = {.mover = mover,
				.stopping = stopping,
				.rules = rules,
				.reason = reason,
				.size = size};
	enum mover_check check;
	bson_error_t error = {0};

	reason[0] = '\0';
	trying.link = link_open(mover->config->upstream_uri, stopping, &error);
	if (!trying.link) {
		snprintf(reason, size, "%s", error.message);
		return MOVER_CHECK_NO_SERVER;
	}
	trying.targets = target_set_new(rules);
	check = try_shared(&trying);
	if (check == MOVER_CHECK_GOOD)
		check = try_gone(&trying);
	if (check == MOVER_CHECK_GOOD)
		check = try_rules(&trying);
	if (check == MOVER_CHECK_GOOD)
		check = try_sight(&trying);
	if (check == MOVER_CHECK_GOOD)
		check = try_streams(&trying);
	if (check == MOVER_CHECK_GOOD)
		check = take_views(&trying);
	target_set_free(trying.targets);
	link_free(trying.link);
	return check;
}
