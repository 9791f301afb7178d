/* Writes a find's projection as stages. */
#include "rules/stages/stage_project.h"

#include "protocol/template.h"
#include "rules/stages/path_collision.h"
#include "rules/query/filter_split.h"
#include "rules/query/projection_leaves.h"
#include "rules/rule/names.h"
#include "rules/stages/positional.h"
#include "rules/query/projection.h"
#include "rules/query/reads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FOUND "_spill./m"    /* what a $lookup has found, by number */
#define POSITION "_spill./p" /* the element that f.$ stands for, as an array */
#define PARTS_MAX 8          /* of a path: expressions nest deeper by each */
#define EMPTY_LENGTH 5       /* of a document without fields */

/* ---- $slice ---- */

struct slice {
	int32_t skip, count;
	bool skips;
	bool decimal; /* its numbers are not known: mongod rounds them */
};

/* As mongod makes an int of it; of a decimal, some number. */
static bool slice_number(const struct element *element, int32_t *number)
{
	int64_t whole = 0;
	double value;

	if (element->type == BSON_BYTE_DOUBLE) {
		memcpy(&value, element->value.data, sizeof(value));
		if (isnan(value))
			value = 0;
		value = value > INT32_MAX ? INT32_MAX : value < -INT32_MAX ? -INT32_MAX : value;
		*number = (int32_t)value;
		return true;
	}
	*number = 1;
	if (element->type == BSON_BYTE_DECIMAL)
		return true;
	if (!element_integer(element, &whole))
		return false;
	*number = (int32_t)(whole > INT32_MAX    ? INT32_MAX
			    : whole < -INT32_MAX ? -INT32_MAX
						 : whole);
	return true;
}

/* Of a LEAF_SLICE; false where mongod refuses its numbers. */
static bool slice_of(const struct element *value, struct slice *slice)
{
	struct element list, number;
	struct cursor cursor;
	int32_t numbers[2] = {0};
	size_t count = 0;

	*slice = (struct slice){0};
	if (!cursor_open(&cursor, value->value) || cursor_next(&cursor, &list) != CURSOR_ELEMENT ||
	    cursor_next(&cursor, &number) != CURSOR_END)
		return false;
	if (list.type != BSON_BYTE_ARRAY) {
		slice->decimal = list.type == BSON_BYTE_DECIMAL;
		return slice_number(&list, &slice->count);
	}
	if (!cursor_open(&cursor, list.value))
		return false;
	while (cursor_next(&cursor, &number) == CURSOR_ELEMENT) {
		if (count == ARRAY_LENGTH(numbers) || !slice_number(&number, &numbers[count++]))
			return false;
		slice->decimal = slice->decimal || number.type == BSON_BYTE_DECIMAL;
	}
	*slice = (struct slice){numbers[0], numbers[1], true, slice->decimal};
	return count == ARRAY_LENGTH(numbers) && slice->count > 0;
}

/* A $slice that is neither find's nor an expression. */
static bool is_no_slice(const struct element *value)
{
	struct element slice;
	struct cursor cursor;

	return value->type == BSON_BYTE_DOCUMENT && cursor_open(&cursor, value->value) &&
	       cursor_next(&cursor, &slice) == CURSOR_ELEMENT && element_is(&slice, "$slice") &&
	       slice.type != BSON_BYTE_ARRAY;
}

/* ---- what can be written ---- */

static bool is_positional(const struct leaf *leaf)
{
	return leaf->path.length > 2 &&
	       memcmp(leaf->path.data + leaf->path.length - 2, ".$", 2) == 0;
}

/* A path that an expression can name, not too long for us. */
static bool is_path(struct bytes path)
{
	size_t parts = 1;

	for (size_t i = 0; i < path.length; i++) {
		bool starts = i == 0 || path.data[i - 1] == '.';

		if (path.data[i] == '\0' ||
		    (starts && (path.data[i] == '.' || path.data[i] == '$')))
			return false;
		parts += path.data[i] == '.';
	}
	return path.length > 0 && path.data[path.length - 1] != '.' && parts <= PARTS_MAX;
}

static bool is_matched(const struct leaf *leaf, struct element *condition)
{
	struct element behind;
	struct cursor cursor;

	return cursor_open(&cursor, leaf->value.value) &&
	       cursor_next(&cursor, condition) == CURSOR_ELEMENT &&
	       condition->type == BSON_BYTE_DOCUMENT && cursor_next(&cursor, &behind) == CURSOR_END;
}

/* What the leaves of a projection are, together. */
struct judging {
	enum project_judgement judgement;
	size_t matches, positions;
	bool sees_document; /* what we keep beside would be seen */
};

static void judge(struct judging *judging, enum project_judgement judgement)
{
	if (judgement > judging->judgement)
		judging->judgement = judgement;
}

static enum project_judgement judge_first_positional(const struct leaf *leaf,
						     const struct element *filter,
						     const struct ruled_namespace *namespace)
{
	struct bytes path = {leaf->path.data, leaf->path.length - 2};
	struct positional positional;

	if (filter->type == BSON_BYTE_DOCUMENT && filter_has_expression(filter->value))
		return PROJECT_WRONG; /* mongod has no $expr beside it */
	return leaf->top && is_path(path) && positional_of(filter, path, namespace, &positional)
		       ? PROJECT_SERVED
		       : PROJECT_UNSERVED;
}

/* The filter is gone through for the first of them: several are not served. */
static void judge_positional(struct judging *judging, const struct leaf *leaf,
			     const struct element *filter, const struct ruled_namespace *namespace)
{
	if (leaf->kind != LEAF_INCLUDED)
		judge(judging, PROJECT_WRONG);
	else if (judging->positions == 0)
		judge(judging, judge_first_positional(leaf, filter, namespace));
	judging->positions++;
}

static void judge_leaf(struct judging *judging, const struct leaf *leaf,
		       const struct ruled_namespace *namespace)
{
	struct element condition;
	struct slice slice;

	switch (leaf->kind) {
	case LEAF_MATCH:
		judging->matches++;
		if (!leaf->top || memchr(leaf->path.data, '.', leaf->path.length) ||
		    !is_matched(leaf, &condition))
			judge(judging, PROJECT_WRONG);
		else if (!is_path(leaf->path))
			judge(judging, PROJECT_UNSERVED);
		return;
	case LEAF_SLICE:
		if (!slice_of(&leaf->value, &slice))
			judge(judging, PROJECT_WRONG);
		else if (!is_path(leaf->path) || slice.decimal)
			judge(judging, PROJECT_UNSERVED);
		return;
	case LEAF_COMPUTED:
		if (is_no_slice(&leaf->value))
			judge(judging, PROJECT_WRONG);
		judging->sees_document =
			judging->sees_document || reads_whole_document(&leaf->value, namespace);
		return;
	case LEAF_INCLUDED:
	case LEAF_EXCLUDED:
	case LEAF_META:
		return;
	}
}

enum project_judgement project_judge(struct bytes projection, const struct element *filter,
				     const struct ruled_namespace *namespace)
{
	struct judging judging = {.judgement = PROJECT_SERVED};
	enum cursor_step step = CURSOR_INVALID;
	struct leaves leaves;
	struct leaf leaf;

	if (leaves_open(&leaves, projection))
		step = leaves_next(&leaves, &leaf);
	for (; step == CURSOR_ELEMENT; step = leaves_next(&leaves, &leaf))
		if (is_positional(&leaf))
			judge_positional(&judging, &leaf, filter, namespace);
		else
			judge_leaf(&judging, &leaf, namespace);
	leaves_close(&leaves);
	if (step != CURSOR_END || judging.positions > 1 ||
	    (judging.sees_document && judging.matches + judging.positions > 0))
		judge(&judging, PROJECT_UNSERVED);
	if ((judging.positions > 0 && judging.matches > 0) || collision_in(projection) ||
	    projection_mixes(projection))
		return PROJECT_WRONG;
	return judging.judgement;
}

bool project_may_miss(struct bytes projection, const struct element *filter,
		      const struct ruled_namespace *namespace)
{
	enum cursor_step step = CURSOR_INVALID;
	struct positional positional;
	struct leaves leaves;
	struct leaf leaf;
	bool misses = false;

	if (leaves_open(&leaves, projection))
		step = leaves_next(&leaves, &leaf);
	for (; !misses && step == CURSOR_ELEMENT; step = leaves_next(&leaves, &leaf))
		misses = is_positional(&leaf) &&
			 positional_of(filter, (struct bytes){leaf.path.data, leaf.path.length - 2},
				       namespace, &positional) &&
			 positional.count == 0;
	leaves_close(&leaves);
	return misses;
}

/* ---- stages ---- */

/* What is written, and where. */
struct projecting {
	struct buffer *out;
	size_t *place;
	struct bytes projection;
	const struct element *filter;
	const struct ruled_namespace *namespace;
	bool inclusive;
	enum project_arrays arrays;
	size_t matches;        /* so far */
	struct buffer *fields; /* of the $project */
	bool has_position;
};

/* Goes through the leaves; `take` is given each. */
static void each_leaf(struct projecting *projecting,
		      void (*take)(struct projecting *projecting, const struct leaf *leaf))
{
	struct leaves leaves;
	struct leaf leaf;

	require(leaves_open(&leaves, projecting->projection)); /* it was judged */
	while (leaves_next(&leaves, &leaf) == CURSOR_ELEMENT)
		take(projecting, &leaf);
	leaves_close(&leaves);
}

static char *text_of(struct bytes bytes)
{
	return must_strndup((const char *)bytes.data, bytes.length);
}

/* Writes the document {f: [element]}; of a path {a: {b: [element]}}. */
static void write_wrapped(struct buffer *out, const char *array, bool numbered)
{
	auto_free char *path = must_strndup(array, strlen(array));
	char *dot = strrchr(path, '.');

	template_write_document(
		out, "{@name: [@element]}", fill("name", dot ? dot + 1 : path),
		fill_template("element",
			      numbered ? "{$arrayElemAt: ['$$f', '$$this']}" : "'$$this'"));
	while (dot) {
		auto_buffer struct buffer inner = buffer_steal(out);

		*dot = '\0';
		dot = strrchr(path, '.');
		template_write_document(out, "{@name: @inner}", fill("name", dot ? dot + 1 : path),
					fill_document("inner", buffer_view(&inner)));
	}
}

/* The first element of the array at `path` that satisfies the condition, as {path: [element]};
 * `numbered`: and its number. */
static void write_lookup(const struct projecting *projecting, const char *path,
			 const struct positional_condition *condition, const char *as,
			 bool numbered)
{
	auto_buffer struct buffer wrapped = {0};

	write_wrapped(&wrapped, path, numbered);
	template_append(
		projecting->out, projecting->place,
		"{$lookup: {"
		"let: {f: {$cond: [{$isArray: '$@path'}, '$@path', []]}}, "
		"pipeline: ["
		"{$documents: {$map: {input: @input, in: {..@number, ..@wrapped}}}}, "
		"{$match: {..@condition}}, "
		"{$limit: 1L}], "
		"as: @as}}",
		fill("path", path), fill("as", as),
		fill_template("input", numbered ? "{$range: [0, {$size: '$$f'}]}" : "'$$f'"),
		fill_template("number", numbered ? "{" POSITIONAL_NUMBER ": '$$this'}" : "{}"),
		fill_document("wrapped", buffer_view(&wrapped)),
		fill_spliced("condition", positional_splice_condition, condition));
}

/* The name of a found element, or of several, by number. */
struct found {
	char name[24];
};

static struct found found_name(const char *prefix, size_t number)
{
	struct found found;

	snprintf(found.name, sizeof(found.name), "%s%u", prefix, (unsigned)number);
	return found;
}

static void add_match_lookup(struct projecting *projecting, const struct leaf *leaf)
{
	struct positional_condition condition = {.field = leaf->value};
	const struct found as = found_name(FOUND, projecting->matches++);
	auto_free char *path = text_of(leaf->path);

	write_lookup(projecting, path, &condition, as.name, false);
}

static void add_positional_lookups(struct projecting *projecting, const struct leaf *leaf)
{
	struct bytes array = {leaf->path.data, leaf->path.length - 2};
	auto_free char *path = text_of(array);
	struct positional positional;

	require(positional_of(projecting->filter, array, projecting->namespace, &positional));
	for (size_t i = 0; i < positional.count; i++) {
		const struct found as = found_name(POSITION, i);

		write_lookup(projecting, path, &positional.conditions[i], as.name,
			     positional.count > 1);
	}
	positional_write(projecting->out, projecting->place, projecting->filter, path, POSITION,
			 positional.count);
	projecting->has_position = true;
}

static void add_lookup(struct projecting *projecting, const struct leaf *leaf)
{
	if (leaf->kind == LEAF_MATCH)
		add_match_lookup(projecting, leaf);
	else if (is_positional(leaf))
		add_positional_lookups(projecting, leaf);
}

/* The element that was found, as a field of the open document. */
static void write_match(struct buffer *out, struct bytes path, size_t number)
{
	const struct found found = found_name(FOUND, number);

	template_write_fields(
		out, "{@path: {$ifNull: [{$arrayElemAt: ['$@found.@path', 0]}, '$$REMOVE']}}",
		fill("path", path), fill("found", found.name));
}

/* ---- the $project ---- */

/* To a $project a $meta is an inclusion, to find it is none. */
static bool is_set_behind(const struct projecting *projecting, const struct leaf *leaf)
{
	return leaf->kind == LEAF_META && !projecting->inclusive;
}

/* Writes the fields of the $project. */
static void write_leaf(struct projecting *projecting, const struct leaf *leaf)
{
	auto_free char *path = text_of(leaf->path);
	struct buffer *out = projecting->fields;

	if (is_positional(leaf)) {
		path[leaf->path.length - 2] = '\0';
		writer_int32(out, path, 1);
	} else if (is_set_behind(projecting, leaf)) {
		return;
	} else if (leaf->kind == LEAF_SLICE) {
		if (projecting->inclusive)
			writer_int32(out, path, 1);
	} else if (leaf->kind == LEAF_MATCH) {
		if (projecting->inclusive)
			write_match(out, leaf->path, projecting->matches);
		projecting->matches++;
	} else {
		writer_renamed(out, path, &leaf->value);
	}
}

static void count_own(struct projecting *projecting, const struct leaf *leaf)
{
	if (leaf->kind == LEAF_SLICE || leaf->kind == LEAF_MATCH || is_positional(leaf) ||
	    is_set_behind(projecting, leaf))
		projecting->matches++;
}

/* Nested documents are spelt out as paths, but only where something in them is find's own. */
static bool has_finds_own(struct projecting *projecting)
{
	projecting->matches = 0;
	each_leaf(projecting, count_own);
	return projecting->matches > 0;
}

static void add_project(struct projecting *projecting)
{
	auto_buffer struct buffer fields = {0};
	size_t start;

	if (!has_finds_own(projecting)) {
		template_append(projecting->out, projecting->place, "{$project: @projection}",
				fill_document("projection", projecting->projection));
		return;
	}
	projecting->matches = 0;
	projecting->fields = &fields;
	start = writer_open(&fields);
	each_leaf(projecting, write_leaf);
	if (projecting->has_position)
		writer_int32(&fields, POSITION, 1);
	if (projecting->inclusive && projecting->arrays == PROJECT_MARKED)
		writer_int32(&fields, NAME_STATE, 1);
	writer_close(&fields, start);
	if (fields.length > EMPTY_LENGTH)
		template_append(projecting->out, projecting->place, "{$project: @fields}",
				fill_document("fields", buffer_view(&fields)));
	projecting->fields = NULL;
}

/* ---- what comes behind it ---- */

/* The array itself is cut; `slice` is NULL: the element that was found takes its place. What is no
 * array stays. */
static const char leaf_value[] = "{$cond: [{$isArray: '@before@part'}, @cut, '@before@part']}";

/* m is what becomes of the documents in an array, or of the only one. What an inclusion in a stage
 * before has left out of the array is a hole in it, of which $map would make null. */
static const char part_value[] =
	"{$let: {"
	"vars: {m: {$map: {"
	"input: {$cond: [{$isArray: '@before@part'}, "
	"{$filter: {input: '@before@part', cond: {$ne: [{$type: '$$this'}, 'missing']}}}, "
	"['@before@part']]}, "
	"as: 'e', "
	"in: {$cond: [{$eq: [{$type: '$$e'}, 'object']}, "
	"{$setField: {field: @next, input: '$$e', value: @inner}}, "
	"'$$e']}}}}, "
	"in: {$cond: [{$isArray: '@before@part'}, "
	"'$$m', "
	"{$cond: [{$eq: [{$type: '@before@part'}, 'object']}, "
	"{$arrayElemAt: ['$$m', 0]}, "
	"'@before@part']}]}}}";

/* Writes what becomes of the path's first part. A path goes through documents and the documents in
 * arrays, not through arrays in arrays. `path` is taken apart; what is left is the first part. */
static void write_path(struct buffer *out, char *path, const struct slice *slice)
{
	char *dot = strrchr(path, '.');
	const char *part = dot ? dot + 1 : path;

	template_write_document(
		out, leaf_value, fill("before", dot ? "$$e." : "$"), fill("part", part),
		fill_template("cut", !slice         ? "'$" POSITION "'"
				     : slice->skips ? "{$slice: ['@before@part', @skip, @count]}"
						    : "{$slice: ['@before@part', @count]}"),
		fill("skip", slice ? slice->skip : 0), fill("count", slice ? slice->count : 0));
	while (dot) {
		auto_buffer struct buffer inner = buffer_steal(out);
		const char *next = part;

		*dot = '\0';
		dot = strrchr(path, '.');
		part = dot ? dot + 1 : path;
		template_write_document(out, part_value, fill("before", dot ? "$$e." : "$"),
					fill("part", part), fill("next", next),
					fill_document("inner", buffer_view(&inner)));
	}
}

static void add_cut(const struct projecting *projecting, struct bytes path,
		    const struct slice *slice)
{
	auto_free char *part = text_of(path);
	auto_buffer struct buffer value = {0};

	write_path(&value, part, slice);
	template_append(projecting->out, projecting->place, "{$set: {@part: @value}}",
			fill("part", part), fill_document("value", buffer_view(&value)));
}

static void add_behind(struct projecting *projecting, const struct leaf *leaf)
{
	struct slice slice;

	if (is_set_behind(projecting, leaf)) {
		template_append(projecting->out, projecting->place, "{$set: {@path: @value}}",
				fill("path", leaf->path), fill("value", &leaf->value));
	} else if (is_positional(leaf)) {
		add_cut(projecting, (struct bytes){leaf->path.data, leaf->path.length - 2}, NULL);
	} else if (leaf->kind == LEAF_SLICE && projecting->arrays == PROJECT_WHOLE) {
		require(slice_of(&leaf->value, &slice));
		add_cut(projecting, leaf->path, &slice);
	} else if (leaf->kind == LEAF_MATCH && !projecting->inclusive) {
		auto_buffer struct buffer fields = {0};
		size_t start = writer_open(&fields);

		write_match(&fields, leaf->path, projecting->matches++);
		writer_close(&fields, start);
		template_append(projecting->out, projecting->place, "{$set: @fields}",
				fill_document("fields", buffer_view(&fields)));
	}
}

void project_write(struct buffer *out, size_t *place, struct bytes projection,
		   const struct element *filter, const struct ruled_namespace *namespace,
		   enum project_arrays arrays)
{
	struct projecting projecting = {.out = out,
					.place = place,
					.projection = projection,
					.filter = filter,
					.namespace = namespace,
					.inclusive = projection_inclusive(projection),
					.arrays = arrays};
	bool finds;

	if (projection.length <= EMPTY_LENGTH)
		return;
	each_leaf(&projecting, add_lookup);
	finds = projecting.matches > 0;
	add_project(&projecting);
	projecting.matches = 0;
	each_leaf(&projecting, add_behind);
	if (projecting.has_position || (finds && !projecting.inclusive))
		template_append(out, place, "{$unset: '_spill'}");
}
