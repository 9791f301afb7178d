/* The list of views that would give arrays short. */
#include "rules/rule/views.h"

#include <stdlib.h>

struct view_names {
	struct view_names *older;
	size_t count;
	struct short_view *views;
	char **names; /* what the views point to: database and collection of each */
};

static void free_names(struct view_names *names)
{
	struct view_names *older;

	for (; names; names = older) {
		older = names->older;
		for (size_t i = 0; i < 2 * names->count; i++)
			free(names->names[i]);
		free(names->names);
		free(names->views);
		free(names);
	}
}

void views_fini(struct views *views)
{
	free_names(atomic_load(&views->current));
	atomic_store(&views->current, NULL);
}

/* Who looks has said so before it asks what is current: whoever comes later sees that, or newer. */
static void free_older(struct views *views)
{
	struct view_names *names = atomic_load(&views->current);

	if (names && names->older && atomic_load(&views->looking) == 0) {
		free_names(names->older);
		names->older = NULL;
	}
}

static bool is_view(const struct short_view *view, struct bytes database, struct bytes collection)
{
	return bytes_are(collection, view->collection) && bytes_are(database, view->database);
}

static bool same_views(const struct view_names *names, const struct short_view *views, size_t count)
{
	if ((names ? names->count : 0) != count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!is_view(&views[i], bytes_of(names->views[i].database),
			     bytes_of(names->views[i].collection)))
			return false;
	return true;
}

void views_set(struct views *views, const struct short_view *short_views, size_t count)
{
	struct view_names *names, *older = atomic_load(&views->current);

	free_older(views);
	if (same_views(older, short_views, count))
		return;
	names = must_calloc(1, sizeof(*names));
	names->older = older;
	names->count = count;
	names->views = must_calloc(count + 1, sizeof(*names->views));
	names->names = must_calloc(2 * count + 1, sizeof(*names->names));
	for (size_t i = 0; i < count; i++) {
		const struct short_view *view = &short_views[i];
		char **copies = &names->names[2 * i];

		copies[0] = must_strndup(view->database, strlen(view->database));
		copies[1] = must_strndup(view->collection, strlen(view->collection));
		names->views[i] = (struct short_view){copies[0], copies[1], view->rule};
	}
	atomic_store(&views->current, names);
	free_older(views);
}

static inline bool has_views(struct views *views)
{
	return atomic_load_explicit(&views->current, memory_order_relaxed);
}

/* Not inlined, as list_holds: mostly there is no view. */
static __attribute__((noinline)) const struct rule *list_find(struct views *views,
							      struct bytes database,
							      struct bytes collection)
{
	const struct rule *rule = NULL;
	const struct view_names *names;

	atomic_fetch_add(&views->looking, 1);
	names = atomic_load(&views->current);
	for (size_t i = 0; !rule && i < names->count; i++)
		if (is_view(&names->views[i], database, collection))
			rule = names->views[i].rule;
	atomic_fetch_sub(&views->looking, 1);
	return rule;
}

const struct rule *views_find(struct views *views, struct bytes database, struct bytes collection)
{
	return has_views(views) ? list_find(views, database, collection) : NULL;
}

static __attribute__((noinline)) bool list_holds(struct views *views, struct bytes collection)
{
	const struct view_names *names;
	bool found = false;

	atomic_fetch_add(&views->looking, 1);
	names = atomic_load(&views->current);
	for (size_t i = 0; !found && i < names->count; i++)
		found = bytes_are(collection, names->views[i].collection);
	atomic_fetch_sub(&views->looking, 1);
	return found;
}

bool views_may_hold(struct views *views, struct bytes collection)
{
	return has_views(views) && list_holds(views, collection);
}
