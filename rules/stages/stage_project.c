/* Writes a find's projection as stages. */
#include "rules/stages/stage_project.h"

#include "rules/reassembly/call_writer.h"
#include "rules/stages/path_collision.h"
#include "rules/query/filter_split.h"
#include "rules/query/projection_leaves.h"
#include "rules/rule/names.h"
#include "rules/stages/positional.h"
#include "rules/query/projection.h"
#include "rules/query/reads.h"

#include <math.h>
#include <stdlib.h>

#define FOUND "_spill./m"    /* what a $lookup has found, by number */
#define POSITION "_spill./p" /* the element that f.$ stands for, as an array */
#define PARTS_MAX 8          /* of a path: expressions nest deeper by each */

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

static void judge_positional(struct judging *judging, const struct leaf *leaf,
			     const struct element *filter, const struct ruled_namespace *namespace)
{
	struct bytes path = {leaf->path.data, leaf->path.length - 2};
	struct positional positional;

	judging->positions++;
	if (leaf->kind != LEAF_INCLUDED ||
	    (filter->type == BSON_BYTE_DOCUMENT && filter_has_expression(filter->value)))
		judge(judging, PROJECT_WRONG); /* mongod has no $expr beside it */
	else if (!leaf->top || !is_path(path) ||
		 !positional_of(filter, path, namespace, &positional))
		judge(judging, PROJECT_UNSERVED);
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
	bool inclusive, cut;
	size_t matches; /* so far */
	bool has_position;
};

static size_t open_stage(const struct projecting *projecting)
{
	char name[12];

	return writer_open_document(projecting->out, writer_index(name, (*projecting->place)++));
}

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

/* "$$this"; of numbers, {$arrayElemAt: ["$$f", "$$this"]} */
static void write_this(struct buffer *out, bool numbered)
{
	struct call element;

	if (!numbered) {
		writer_string(out, "0", "$$this");
		return;
	}
	element = call_open(out, "0", "$arrayElemAt");
	call_text(&element, "$$f");
	call_text(&element, "$$this");
	call_close(&element);
}

/* {a: {b: [element]}} for the path a.b, and beside it the element's number */
static void write_wrapped(struct buffer *out, const char *path, bool numbered)
{
	size_t opened[PARTS_MAX + 1], depth = 0, list;
	const char *part = path, *dot;

	opened[depth++] = writer_open_document(out, "in");
	if (numbered)
		writer_string(out, POSITIONAL_NUMBER, "$$this");
	while ((dot = strchr(part, '.'))) {
		auto_free char *field = must_strndup(part, (size_t)(dot - part));

		opened[depth++] = writer_open_document(out, field);
		part = dot + 1;
	}
	list = writer_open_array(out, part);
	write_this(out, numbered);
	writer_close(out, list);
	while (depth > 0)
		writer_close(out, opened[--depth]);
}

/* {$range: [0, {$size: "$$f"}]} */
static void write_numbers(struct buffer *out)
{
	struct call range = call_open(out, "input", "$range");

	call_number(&range, 0);
	call_unary(&range, "$size", "$$f");
	call_close(&range);
}

static void write_elements(struct buffer *out, const char *path, bool numbered)
{
	size_t stage = writer_open_document(out, "0");
	size_t documents = writer_open_document(out, "$documents");
	size_t map = writer_open_document(out, "$map");

	if (numbered)
		write_numbers(out);
	else
		writer_string(out, "input", "$$f");
	write_wrapped(out, path, numbered);
	writer_close(out, map);
	writer_close(out, documents);
	writer_close(out, stage);
}

/* {f: {$cond: [{$isArray: path}, path, []]}} */
static void write_input(struct buffer *out, const char *path)
{
	auto_text field = text_join("$", path, "");
	size_t let = writer_open_document(out, "let");
	struct call choice = call_open(out, "f", "$cond");

	call_unary(&choice, "$isArray", field.bytes);
	call_text(&choice, field.bytes);
	call_nothing(&choice);
	call_close(&choice);
	writer_close(out, let);
}

/* The first element of the array at `path` that satisfies the condition, as {path: [element]}. */
static void write_lookup(const struct projecting *projecting, const char *path,
			 const struct positional_condition *condition, const char *as,
			 bool numbered)
{
	struct buffer *out = projecting->out;
	size_t stage = open_stage(projecting), lookup, pipeline, inner, match;

	lookup = writer_open_document(out, "$lookup");
	write_input(out, path);
	pipeline = writer_open_array(out, "pipeline");
	write_elements(out, path, numbered);
	inner = writer_open_document(out, "1");
	match = writer_open_document(out, "$match");
	positional_write_condition(out, condition);
	writer_close(out, match);
	writer_close(out, inner);
	inner = writer_open_document(out, "2");
	writer_int64(out, "$limit", 1);
	writer_close(out, inner);
	writer_close(out, pipeline);
	writer_string(out, "as", as);
	writer_close(out, lookup);
	writer_close(out, stage);
}

static struct text numbered_name(const char *prefix, const char *name, size_t number)
{
	char text[12];

	return text_join(prefix, name, writer_index(text, number));
}

static void add_match_lookup(struct projecting *projecting, const struct leaf *leaf)
{
	struct positional_condition condition = {.field = leaf->value};
	auto_text as = numbered_name("", FOUND, projecting->matches++);
	auto_free char *path = text_of(leaf->path);

	write_lookup(projecting, path, &condition, as.bytes, false);
}

static void add_positional_lookups(struct projecting *projecting, const struct leaf *leaf)
{
	struct bytes array = {leaf->path.data, leaf->path.length - 2};
	auto_free char *path = text_of(array);
	struct positional positional;

	require(positional_of(projecting->filter, array, projecting->namespace, &positional));
	for (size_t i = 0; i < positional.count; i++) {
		auto_text as = numbered_name("", POSITION, i);

		write_lookup(projecting, path, &positional.conditions[i], as.bytes,
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

/* {$ifNull: [{$arrayElemAt: ["$<found>.f", 0]}, "$$REMOVE"]} */
static void write_match(const struct projecting *projecting, const char *path, size_t number)
{
	auto_text found = numbered_name("$", FOUND, number),
		  array = text_join(found.bytes, ".", path);
	struct call choice = call_open(projecting->out, path, "$ifNull");
	struct call first = call_call(&choice, "$arrayElemAt");

	call_text(&first, array.bytes);
	call_number(&first, 0);
	call_close(&first);
	call_text(&choice, "$$REMOVE");
	call_close(&choice);
}

/* ---- the $project ---- */

/* To a $project a $meta is an inclusion, to find it is none. */
static bool is_set_behind(const struct projecting *projecting, const struct leaf *leaf)
{
	return leaf->kind == LEAF_META && !projecting->inclusive;
}

static void write_leaf(struct projecting *projecting, const struct leaf *leaf)
{
	auto_free char *path = text_of(leaf->path);

	if (is_positional(leaf)) {
		path[leaf->path.length - 2] = '\0';
		writer_int32(projecting->out, path, 1);
	} else if (is_set_behind(projecting, leaf)) {
		return;
	} else if (leaf->kind == LEAF_SLICE) {
		if (projecting->inclusive)
			writer_int32(projecting->out, path, 1);
	} else if (leaf->kind == LEAF_MATCH) {
		if (projecting->inclusive)
			write_match(projecting, path, projecting->matches);
		projecting->matches++;
	} else {
		writer_renamed(projecting->out, path, &leaf->value);
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
	struct buffer *out = projecting->out;
	size_t mark = out->length, number = *projecting->place, stage, project, empty;

	stage = open_stage(projecting);
	if (!has_finds_own(projecting)) {
		writer_document(out, "$project", projecting->projection);
		writer_close(out, stage);
		return;
	}
	project = writer_open_document(out, "$project");
	empty = out->length;
	projecting->matches = 0;
	each_leaf(projecting, write_leaf);
	if (projecting->has_position)
		writer_int32(out, POSITION, 1);
	if (out->length == empty) {
		out->length = mark;
		*projecting->place = number;
		return;
	}
	writer_close(out, project);
	writer_close(out, stage);
}

/* ---- what comes behind it ---- */

/* What becomes of an array: `slice`, or where it is NULL the element that was found. */
static void write_array(struct call *call, const char *value, const struct slice *slice)
{
	struct call part;

	if (!slice) {
		call_text(call, "$" POSITION);
		return;
	}
	part = call_call(call, "$slice");
	call_text(&part, value);
	if (slice->skips)
		call_number(&part, slice->skip);
	call_number(&part, slice->count);
	call_close(&part);
}

/* One part of a path: what its value is called, and what is open around it. */
struct level {
	struct text value;
	size_t document, let, vars, variable, map, set, field;
	struct call choice;
};

/* {$filter: {input: <array>, cond: {$ne: [{$type: "$$this"}, "missing"]}}}: what an inclusion in a
 * stage before has left out of the array is a hole in it, of which $map would make null. */
static void add_present(struct call *call, const char *array)
{
	struct buffer *out = call->out;
	char index[12];
	size_t part = writer_open_document(out, writer_index(index, call->place++));
	size_t filter = writer_open_document(out, "$filter");
	struct call test;

	writer_string(out, "input", array);
	test = call_open(out, "cond", "$ne");
	call_unary(&test, "$type", "$$this");
	call_text(&test, "missing");
	call_close(&test);
	writer_close(out, filter);
	writer_close(out, part);
}

/* {$let: {vars: {m: {$map: {input: <present of the array, or [value]>, as: "e", in: {$cond: [
 * <e is a document>, {$setField: {field: <next>, input: e, value: ... */
static void open_level(struct buffer *out, struct level *level, const char *name, const char *next)
{
	const char *value = level->value.bytes;
	struct call choice, test;
	char index[12];
	size_t list;

	level->document = writer_open_document(out, name);
	level->let = writer_open_document(out, "$let");
	level->vars = writer_open_document(out, "vars");
	level->variable = writer_open_document(out, "m");
	level->map = writer_open_document(out, "$map");
	choice = call_open(out, "input", "$cond");
	call_unary(&choice, "$isArray", value);
	add_present(&choice, value);
	list = writer_open_array(out, writer_index(index, choice.place++));
	writer_string(out, "0", value);
	writer_close(out, list);
	call_close(&choice);
	writer_string(out, "as", "e");
	level->choice = call_open(out, "in", "$cond");
	test = call_call(&level->choice, "$eq");
	call_unary(&test, "$type", "$$e");
	call_text(&test, "object");
	call_close(&test);
	level->set = writer_open_document(out, writer_index(index, level->choice.place++));
	level->field = writer_open_document(out, "$setField");
	writer_string(out, "field", next);
	writer_string(out, "input", "$$e");
}

/* in: all of them for an array, the only one for a document, else the value itself */
static void close_level(struct buffer *out, struct level *level)
{
	const char *value = level->value.bytes;
	struct call choice, inner, test;

	writer_close(out, level->field);
	writer_close(out, level->set);
	call_text(&level->choice, "$$e");
	call_close(&level->choice);
	writer_close(out, level->map);
	writer_close(out, level->variable);
	writer_close(out, level->vars);
	choice = call_open(out, "in", "$cond");
	call_unary(&choice, "$isArray", value);
	call_text(&choice, "$$m");
	inner = call_call(&choice, "$cond");
	test = call_call(&inner, "$eq");
	call_unary(&test, "$type", value);
	call_text(&test, "object");
	call_close(&test);
	test = call_call(&inner, "$arrayElemAt");
	call_text(&test, "$$m");
	call_number(&test, 0);
	call_close(&test);
	call_text(&inner, value);
	call_close(&inner);
	call_close(&choice);
	writer_close(out, level->let);
	writer_close(out, level->document);
	text_free(&level->value);
}

/* The array itself, or whatever stands there. */
static void write_leaf_value(struct buffer *out, const char *name, const char *value,
			     const struct slice *slice)
{
	struct call choice = call_open(out, name, "$cond");

	call_unary(&choice, "$isArray", value);
	write_array(&choice, value, slice);
	call_text(&choice, value);
	call_close(&choice);
}

/* A path goes through documents and the documents in arrays, not through arrays in arrays. Writes
 * what becomes of its first part. `path` is taken apart. */
static void write_path(struct buffer *out, char *path, const struct slice *slice)
{
	struct level levels[PARTS_MAX];
	const char *before = "$", *name = path;
	char *part = path, *dot;
	size_t depth = 0;
	struct text value;

	while ((dot = strchr(part, '.')) && depth < PARTS_MAX) {
		auto_free char *next = must_strndup(dot + 1, strcspn(dot + 1, "."));

		*dot = '\0';
		levels[depth].value = text_join(before, part, "");
		open_level(out, &levels[depth++], name, next);
		before = "$$e.";
		name = "value";
		part = dot + 1;
	}
	value = text_join(before, part, "");
	write_leaf_value(out, name, value.bytes, slice);
	text_free(&value);
	while (depth > 0)
		close_level(out, &levels[--depth]);
}

/* {$set: {<first part>: <what becomes of it>}} */
static void add_cut(const struct projecting *projecting, struct bytes path,
		    const struct slice *slice)
{
	auto_free char *text = text_of(path);
	size_t stage = open_stage(projecting);
	size_t set = writer_open_document(projecting->out, "$set");

	write_path(projecting->out, text, slice);
	writer_close(projecting->out, set);
	writer_close(projecting->out, stage);
}

static void add_behind(struct projecting *projecting, const struct leaf *leaf)
{
	struct slice slice;
	size_t stage, set;

	if (is_set_behind(projecting, leaf)) {
		auto_free char *path = text_of(leaf->path);

		stage = open_stage(projecting);
		set = writer_open_document(projecting->out, "$set");
		writer_renamed(projecting->out, path, &leaf->value);
		writer_close(projecting->out, set);
		writer_close(projecting->out, stage);
	} else if (is_positional(leaf)) {
		add_cut(projecting, (struct bytes){leaf->path.data, leaf->path.length - 2}, NULL);
	} else if (leaf->kind == LEAF_SLICE && !projecting->cut) {
		require(slice_of(&leaf->value, &slice));
		add_cut(projecting, leaf->path, &slice);
	} else if (leaf->kind == LEAF_MATCH && !projecting->inclusive) {
		auto_free char *path = text_of(leaf->path);

		stage = open_stage(projecting);
		set = writer_open_document(projecting->out, "$set");
		write_match(projecting, path, projecting->matches++);
		writer_close(projecting->out, set);
		writer_close(projecting->out, stage);
	}
}

static void add_unset(const struct projecting *projecting)
{
	size_t stage = open_stage(projecting);

	writer_string(projecting->out, "$unset", NAME_STATE);
	writer_close(projecting->out, stage);
}

void project_write(struct buffer *out, size_t *place, struct bytes projection,
		   const struct element *filter, const struct ruled_namespace *namespace, bool cut)
{
	struct projecting projecting = {.out = out,
					.place = place,
					.projection = projection,
					.filter = filter,
					.namespace = namespace,
					.inclusive = projection_inclusive(projection),
					.cut = cut};
	bool finds;

	if (projection.length <= 5)
		return;
	each_leaf(&projecting, add_lookup);
	finds = projecting.matches > 0;
	add_project(&projecting);
	projecting.matches = 0;
	each_leaf(&projecting, add_behind);
	if (projecting.has_position || (finds && !projecting.inclusive))
		add_unset(&projecting);
}
