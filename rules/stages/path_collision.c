/* Says whether paths of a find's projection stand in each other's way.
 *
 * The paths are sorted so that what lies in a path stands right behind it: then each has to be
 * compared with the next one only. */
#include "rules/stages/path_collision.h"

#include "rules/query/projection_leaves.h"

#include <stdlib.h>

/* All paths one behind the other, each with its length before it. */
struct paths {
	struct buffer text;
	struct bytes *list;
	size_t count;
};

/* f.$ is the projection of f. */
static struct bytes without_position(struct bytes path)
{
	bool positional = path.length > 2 && memcmp(path.data + path.length - 2, ".$", 2) == 0;

	return (struct bytes){path.data, path.length - (positional ? 2 : 0)};
}

/* A dot comes before all else in a name, so that nothing gets between f and f.x. */
static int by_path(const void *a, const void *b)
{
	const struct bytes *first = a, *second = b;
	size_t common = first->length < second->length ? first->length : second->length;

	for (size_t i = 0; i < common; i++) {
		int left = first->data[i] == '.' ? -1 : first->data[i];
		int right = second->data[i] == '.' ? -1 : second->data[i];

		if (left != right)
			return left - right;
	}
	return first->length < second->length ? -1 : first->length > second->length;
}

static bool leads_to(struct bytes path, struct bytes next)
{
	return path.length <= next.length && memcmp(path.data, next.data, path.length) == 0 &&
	       (path.length == next.length || next.data[path.length] == '.');
}

static void list_paths(struct paths *paths)
{
	struct bytes rest = buffer_view(&paths->text);

	paths->list = must_calloc(paths->count, sizeof(*paths->list));
	for (size_t i = 0; i < paths->count; i++) {
		size_t length;

		memcpy(&length, rest.data, sizeof(length));
		rest = (struct bytes){rest.data + sizeof(length), rest.length - sizeof(length)};
		paths->list[i] = (struct bytes){rest.data, length};
		rest = (struct bytes){rest.data + length, rest.length - length};
	}
	qsort(paths->list, paths->count, sizeof(*paths->list), by_path);
}

static bool collide(struct paths *paths)
{
	bool found = false;

	if (paths->count < 2)
		return false;
	list_paths(paths);
	for (size_t i = 1; !found && i < paths->count; i++)
		found = leads_to(paths->list[i - 1], paths->list[i]);
	free(paths->list);
	return found;
}

bool collision_in(struct bytes projection)
{
	enum cursor_step step = CURSOR_INVALID;
	struct paths paths = {0};
	struct leaves leaves;
	struct leaf leaf;
	bool found;

	if (leaves_open(&leaves, projection))
		step = leaves_next(&leaves, &leaf);
	for (; step == CURSOR_ELEMENT; step = leaves_next(&leaves, &leaf)) {
		struct bytes path = without_position(leaf.path);

		buffer_append(&paths.text, &path.length, sizeof(path.length));
		buffer_append(&paths.text, path.data, path.length);
		paths.count++;
	}
	leaves_close(&leaves);
	found = step == CURSOR_END && collide(&paths);
	buffer_fini(&paths.text);
	return found;
}
