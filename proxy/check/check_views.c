/* Views that would see arrays short, judged as serve judges them. */
#include "proxy/check/check_inner.h"

#include "rules/match/match.h"

#include <bson/bson.h>
#include <stdlib.h>

struct judging {
	struct check *check;
	struct namespace_cache *namespaces;
	const char *database;
	const struct copies *collections;
	struct short_view *found; /* as many as there are collections, at most */
	size_t count;
};

/* The name ends with a NUL, as BSON has it. False where it is no view. */
static bool read_view(struct bytes entry, struct bytes *name, struct bytes *source,
		      struct bytes *pipeline)
{
	struct element element;

	return document_find(entry, "name", &element) && element_string(&element, name) &&
	       document_find_path(entry, "options.viewOn", &element) &&
	       element_string(&element, source) &&
	       document_find_path(entry, "options.pipeline", &element) &&
	       element_document(&element, pipeline);
}

static void judge_view(struct judging *judging, struct bytes entry)
{
	struct bytes name, source, pipeline;
	const struct rule *rule;

	if (!read_view(entry, &name, &source, &pipeline))
		return;
	rule = match_view(judging->namespaces, bytes_of(judging->database), source, pipeline);
	if (rule)
		judging->found[judging->count++] =
			(struct short_view){judging->database, (const char *)name.data, rule};
}

/* One pass over all; a view over a view that is short is found by the next. True where it found
 * more than the pass before. */
static bool judge_all(struct judging *judging)
{
	size_t before = judging->count;

	judging->count = 0;
	for (size_t i = 0; i < judging->collections->count; i++)
		judge_view(judging, judging->collections->list[i]);
	rule_set_take_views(judging->check->config->rules, judging->found, judging->count);
	return judging->count > before;
}

static void add_view(struct check *check, const struct short_view *view)
{
	findings_add(&check->findings, FINDING_SHORT_VIEW, view->rule->name,
		     "the view '%s.%s' reads or returns the array '%s', of "
		     "which it sees a part only: it is refused through Spillway",
		     view->database, view->collection, view->rule->array);
}

void check_views(struct check *check, struct namespace_cache *namespaces, const char *database,
		 const struct copies *collections)
{
	struct judging judging = {.check = check,
				  .namespaces = namespaces,
				  .database = database,
				  .collections = collections};

	judging.found = must_calloc(collections->count + 1, sizeof(*judging.found));
	while (judge_all(&judging))
		continue;
	for (size_t i = 0; i < judging.count; i++)
		add_view(check, &judging.found[i]);
	rule_set_take_views(check->config->rules, NULL, 0);
	free(judging.found);
}
