/* The list of views that would give arrays short. */
#include "rules/rule/views.h"

#include <stdlib.h>

struct view_names {
	struct view_names *older;
	size_t count;
	struct short_view *views; /* by collection, then by database */
	char **names;             /* what the views point to: database and collection of each */
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

static int compare_views(const void *one, const void *other)
{
	const struct short_view *a = one, *b = other;
	int order = strcmp(a->collection, b->collection);

	return order != 0 ? order : strcmp(a->database, b->database);
}

static bool same_views(const struct view_names *names, const struct short_view *views, size_t count)
{
	if ((names ? names->count : 0) != count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (compare_views(&names->views[i], &views[i]) != 0)
			return false;
	return true;
}

static void own_names(struct view_names *names)
{
	names->names = must_calloc(2 * names->count + 1, sizeof(*names->names));
	for (size_t i = 0; i < names->count; i++) {
		struct short_view *view = &names->views[i];
		char **copies = &names->names[2 * i];

		copies[0] = must_strndup(view->database, strlen(view->database));
		copies[1] = must_strndup(view->collection, strlen(view->collection));
		*view = (struct short_view){copies[0], copies[1], view->rule};
	}
}

void views_set(struct views *views, const struct short_view *short_views, size_t count)
{
	struct view_names *names, *older = atomic_load(&views->current);
	struct short_view *sorted = must_calloc(count + 1, sizeof(*sorted));

	for (size_t i = 0; i < count; i++)
		sorted[i] = short_views[i];
	qsort(sorted, count, sizeof(*sorted), compare_views);
	free_older(views);
	if (same_views(older, sorted, count)) {
		free(sorted);
		return;
	}
	names = must_calloc(1, sizeof(*names));
	*names = (struct view_names){.older = older, .count = count, .views = sorted};
	own_names(names);
	atomic_store(&views->current, names);
	free_older(views);
}

static inline bool has_views(struct views *views)
{
	return atomic_load_explicit(&views->current, memory_order_relaxed);
}

/* As strcmp has them: a name may have a NUL in a command, and none in a view's. */
static int compare_text(struct bytes text, const char *name)
{
	size_t length = strlen(name), common = text.length < length ? text.length : length;
	int order = common > 0 ? memcmp(text.data, name, common) : 0;

	return order != 0 ? order : (text.length > length) - (text.length < length);
}

/* The first view of this name, or of one behind it. */
static const struct short_view *first_of(const struct view_names *names, struct bytes collection)
{
	size_t from = 0, to = names->count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (compare_text(collection, names->views[middle].collection) > 0)
			from = middle + 1;
		else
			to = middle;
	}
	return &names->views[from];
}

static const struct rule *find_in(const struct view_names *names, struct bytes database,
				  struct bytes collection)
{
	const struct short_view *end = names->views + names->count;

	for (const struct short_view *view = first_of(names, collection);
	     view < end && bytes_are(collection, view->collection); view++)
		if (bytes_are(database, view->database))
			return view->rule;
	return NULL;
}

/* Not inlined, as list_holds: mostly there is no view. */
static __attribute__((noinline)) const struct rule *list_find(struct views *views,
							      struct bytes database,
							      struct bytes collection)
{
	const struct rule *rule;

	atomic_fetch_add(&views->looking, 1);
	rule = find_in(atomic_load(&views->current), database, collection);
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
	const struct short_view *found;
	bool holds;

	atomic_fetch_add(&views->looking, 1);
	names = atomic_load(&views->current);
	found = first_of(names, collection);
	holds = found < names->views + names->count && bytes_are(collection, found->collection);
	atomic_fetch_sub(&views->looking, 1);
	return holds;
}

bool views_may_hold(struct views *views, struct bytes collection)
{
	return has_views(views) && list_holds(views, collection);
}
