/* Which views read or return a ruled array: asked of the servers again and again, since anybody may
 * make a view straight at mongod. */
#include "proxy/mover/views_watch.h"
#include "proxy/base/clock.h"

#include "proxy/base/log.h"
#include "rules/rule/glob.h"
#include "rules/match/match.h"

#include <bson/bson.h>
#include <stdlib.h>

#define PERIOD_MS 1000
#define RESTS 20 /* times as long as it took */

/* One view. Everything is owned. */
struct seen_view {
	char *database;
	char *name;
	char *source;
	uint8_t *pipeline;
	size_t pipeline_length;
};

struct views_look {
	struct namespace_cache *cache;
	const char **databases; /* those to be looked at: views of the targets' and rules' names */
	size_t database_count;
	const char *database; /* being looked at */
	struct seen_view *views;
	size_t count;
	struct short_view *short_views;
	size_t short_count;
	atomic_bool soon;
	bool refused; /* was logged */
	int64_t due;
};

struct views_look *views_look_new(void)
{
	return must_calloc(1, sizeof(struct views_look));
}

static void forget_views(struct views_look *look)
{
	for (size_t i = 0; i < look->count; i++) {
		free(look->views[i].database);
		free(look->views[i].name);
		free(look->views[i].source);
		free(look->views[i].pipeline);
	}
	look->count = 0;
}

void views_look_free(struct views_look *look)
{
	forget_views(look);
	free(look->views);
	free(look->short_views);
	free(look->databases);
	namespace_cache_free(look->cache);
	free(look);
}

/* ---- which databases ---- */

static void add_database(struct views_look *look, const char *database)
{
	look->databases = must_realloc((void *)look->databases,
				       (look->database_count + 1) * sizeof(*look->databases));
	look->databases[look->database_count++] = database;
}

static int compare_names(const void *one, const void *other)
{
	return strcmp(*(const char *const *)one, *(const char *const *)other);
}

static void find_databases(struct views_look *look, struct mover *mover)
{
	struct rule_set *rules = mover->reload.rules;
	const struct mover_target *target;
	size_t kept = 0;

	look->database_count = 0;
	for (size_t i = 0; i < rule_set_count(rules); i++)
		if (!glob_is(bytes_of(rule_set_at(rules, i)->database)))
			add_database(look, rule_set_at(rules, i)->database);
	for (size_t i = 0; (target = target_at(mover->targets, i)); i++)
		add_database(look, target->database);
	if (look->database_count > 0)
		qsort((void *)look->databases, look->database_count, sizeof(*look->databases),
		      compare_names);
	for (size_t i = 0; i < look->database_count; i++)
		if (kept == 0 || strcmp(look->databases[kept - 1], look->databases[i]) != 0)
			look->databases[kept++] = look->databases[i];
	look->database_count = kept;
}

/* ---- which views ---- */

static char *text_at(struct bytes entry, const char *path)
{
	struct element element;
	struct bytes text;

	if (!document_find_path(entry, path, &element) || !element_string(&element, &text))
		return must_strndup("", 0);
	return must_strndup((const char *)text.data, text.length);
}

static void take_view(void *context, struct bytes entry)
{
	struct views_look *look = context;
	struct seen_view *view;
	struct element pipeline;

	if (!document_find_path(entry, "options.pipeline", &pipeline) ||
	    pipeline.type != BSON_BYTE_ARRAY)
		return; /* a time series */
	look->views = must_realloc(look->views, (look->count + 1) * sizeof(*look->views));
	view = &look->views[look->count++];
	view->database = must_strndup(look->database, strlen(look->database));
	view->name = text_at(entry, "name");
	view->source = text_at(entry, "options.viewOn");
	view->pipeline = must_malloc(pipeline.value.length);
	view->pipeline_length = pipeline.value.length;
	memcpy(view->pipeline, pipeline.value.data, pipeline.value.length);
}

static enum link_result list_views(struct views_look *look, struct link *link)
{
	enum link_result result = LINK_DONE;

	forget_views(look);
	for (size_t i = 0; result == LINK_DONE && i < look->database_count; i++) {
		look->database = look->databases[i];
		result = command_find(link, look->database, take_view, look,
				      "{listCollections: 1, filter: {type: 'view'}}");
	}
	return result;
}

/* ---- which of them are short ---- */

static const struct rule *rule_of(struct views_look *look, const struct seen_view *view)
{
	namespace_cache_trim(look->cache);
	return match_view(look->cache, bytes_of(view->database), bytes_of(view->source),
			  (struct bytes){view->pipeline, view->pipeline_length});
}

static void tell_of(const struct rule_set *rules, const struct short_view *view)
{
	static struct log_limit told; /* clients make views */

	if (!rule_set_short_view(rules, bytes_of(view->database), bytes_of(view->collection)))
		log_limited(
			&told, CONFIG_LOG_WARNING,
			"5010 mover: the view '%s.%s' reads or returns the array of rule '%s', of "
			"which it sees a part only: reading it is refused",
			view->database, view->collection, view->rule->name);
}

/* One pass over all; a view over a view that is short is found by the next. True where anything
 * changed. */
static bool judge_views(struct views_look *look, struct rule_set *rules)
{
	size_t before = look->short_count;
	bool changed = false;

	look->short_count = 0;
	look->short_views =
		must_realloc(look->short_views, (look->count + 1) * sizeof(*look->short_views));
	for (size_t i = 0; i < look->count; i++) {
		const struct seen_view *view = &look->views[i];
		struct short_view found = {view->database, view->name, rule_of(look, view)};

		if (!found.rule)
			continue;
		changed = changed || !rule_set_short_view(rules, bytes_of(view->database),
							  bytes_of(view->name));
		tell_of(rules, &found);
		look->short_views[look->short_count++] = found;
	}
	changed = changed || before != look->short_count;
	rule_set_take_views(rules, look->short_views, look->short_count);
	return changed;
}

must_check enum link_result views_look_now(struct views_look *look, struct mover *mover,
					   struct link *link)
{
	int64_t began = clock_now(), took;
	enum link_result result;

	if (look->cache && namespace_cache_rules(look->cache) != mover->reload.rules) {
		namespace_cache_free(look->cache);
		look->cache = NULL;
	}
	if (!look->cache)
		look->cache = namespace_cache_new(mover->reload.rules);
	find_databases(look, mover);
	result = link_lost_in_passing(link, list_views(look, link));
	if (result == LINK_REFUSED && !look->refused)
		log_warning(
			"5011 mover: views can't be listed, so that those over ruled collections "
			"are not known: %s",
			link_error(link)->message);
	look->refused = result == LINK_REFUSED;
	if (result == LINK_DONE)
		for (size_t i = 0; i <= look->count && judge_views(look, mover->reload.rules); i++)
			continue;
	took = clock_now() - began;
	look->due = clock_now() + (RESTS * took > PERIOD_MS ? RESTS * took : PERIOD_MS);
	return result == LINK_LOST ? LINK_LOST : LINK_DONE;
}

bool views_look_due(struct views_look *look)
{
	return atomic_exchange(&look->soon, false) || clock_now() >= look->due;
}

void views_look_soon(struct views_look *look)
{
	atomic_store(&look->soon, true);
}
