/* Writes the conditions by which elements with parallel arrays are found in the overflow. */
#include "rules/match/parallel_keys.h"

#include "protocol/template.h"
#include "rules/rule/names.h"
#include "rules/rule/overflow_document.h"

#include <stdlib.h>

#define KEYS_MOST 32 /* of an index, as mongod */
#define PARTS_MOST 16
#define CONDITIONS_MOST 512

/* What is being written. */
struct parallel {
	const struct rule *rule;
	struct buffer *out; /* the open $or */
	size_t count;       /* conditions in it */
	bool exact, many;
};

/* The part of a path that stands behind the array's own; empty if the path is not below it. */
static struct bytes path_inside(const struct rule *rule, struct bytes path)
{
	size_t length = strlen(rule->array) + 1;

	if (path_relate(path, rule->array) != PATH_BELOW)
		return (struct bytes){0};
	return (struct bytes){path.data + length, path.length - length};
}

/* The length of the first parts of a path, `count` of them; 0 if the path has fewer. */
static size_t parts_length(struct bytes path, size_t count)
{
	for (size_t i = 0; i <= path.length; i++)
		if ((i == path.length || path.data[i] == '.') && --count == 0)
			return i;
	return 0;
}

/* The number of parts with which both paths begin. */
static size_t common_parts(struct bytes one, struct bytes other)
{
	size_t count = 0, length;

	while ((length = parts_length(one, count + 1)) > 0 &&
	       length == parts_length(other, count + 1) &&
	       memcmp(one.data, other.data, length) == 0)
		count++;
	return count;
}

/* The document's own fields, or those of an element that is kept whole. */
static void write_in_elements(struct parallel *parallel, struct bytes one, struct bytes other)
{
	template_append(parallel->out, &parallel->count,
			"{@one: {$type: 'array'}, @other: {$type: 'array'}}", fill("one", one),
			fill("other", other));
	template_append(parallel->out, &parallel->count,
			"{_spill.v.@one: {$type: 'array'}, _spill.v.@other: {$type: 'array'}}",
			fill("one", one), fill("other", other));
}

static void write_in_batches(struct parallel *parallel, struct bytes one, struct bytes other)
{
	auto_buffer struct buffer array = {0};

	require(overflow_path(parallel->rule, "", &array));
	template_append(
		parallel->out, &parallel->count,
		"{@array: {$elemMatch: {@one: {$type: 'array'}, @other: {$type: 'array'}}}}",
		fill("array", (const char *)array.data), fill("one", one), fill("other", other));
}

/* Each way in which both paths can lead through arrays of their own. */
static void write_pair(struct parallel *parallel, struct bytes one, struct bytes other)
{
	size_t common = common_parts(one, other);
	struct bytes first = {one.data, 0}, second = {other.data, 0};

	for (size_t i = common + 1; (first.length = parts_length(one, i)) > 0; i++)
		for (size_t k = common + 1; (second.length = parts_length(other, k)) > 0; k++) {
			if (parallel->count >= CONDITIONS_MOST) {
				parallel->many = true;
				return;
			}
			parallel->exact = parallel->exact && common == 0;
			if (parallel->rule->overflow.layout == RULE_ELEMENTS)
				write_in_elements(parallel, first, second);
			else
				write_in_batches(parallel, first, second);
		}
}

static void write_index(struct parallel *parallel, struct bytes keys)
{
	struct bytes inside[KEYS_MOST];
	size_t count = 0;
	struct cursor cursor;
	struct element key;

	if (!cursor_open(&cursor, keys))
		return;
	while (cursor_next(&cursor, &key) == CURSOR_ELEMENT && count < KEYS_MOST) {
		struct bytes path = path_inside(parallel->rule, key.name);

		if (parts_length(path, PARTS_MOST + 1) > 0) {
			parallel->many = true;
			return;
		}
		for (size_t i = 0; path.length > 0 && i < count; i++)
			write_pair(parallel, inside[i], path);
		if (path.length > 0)
			inside[count++] = path;
	}
}

must_check enum parallel_keys parallel_keys_write(const struct rule *rule,
						  const struct element *indexes, const char *name,
						  struct buffer *out, bool *exact)
{
	struct parallel parallel = {.rule = rule, .out = out, .exact = true};
	size_t before = out->length, filter, either;
	struct cursor cursor;
	struct element index, keys;

	if (indexes->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, indexes->value))
		return PARALLEL_NONE;
	filter = writer_open_document(out, name);
	either = writer_open_array(out, "$or");
	while (cursor_next(&cursor, &index) == CURSOR_ELEMENT && !parallel.many)
		if (index.type == BSON_BYTE_DOCUMENT && document_find(index.value, "key", &keys) &&
		    keys.type == BSON_BYTE_DOCUMENT)
			write_index(&parallel, keys.value);
	writer_close(out, either);
	writer_close(out, filter);
	*exact = parallel.exact;
	if (parallel.count > 0 && !parallel.many)
		return PARALLEL_POSSIBLE;
	out->length = before;
	return parallel.many ? PARALLEL_MANY : PARALLEL_NONE;
}
