/* Writes groups whose answer depends on the engine that mongod runs them in. */
#include "rules/stages/pushed_group.h"

#include "rules/reassembly/call_writer.h"
#include "rules/rule/names.h"
#include "rules/reassembly/reassemble.h"
#include "rules/rule/walk.h"

#include <stdio.h>

#define TIE NAME_STATE "/tie" /* what a $group has beside the client's accumulators */
#define NAME_SIZE 40
#define LEVELS_MAX 20 /* of built documents in one another; each is six levels of BSON */

/* ---- which stages ---- */

/* A $lookup without a pipeline. */
static bool is_plain(const struct element *lookup)
{
	struct element pipeline;

	return lookup->type == BSON_BYTE_DOCUMENT &&
	       !document_find(lookup->value, "pipeline", &pipeline);
}

bool pushed_behind(bool before, const struct element *stage)
{
	static const char *const verbs[] = {"$match",   "$sort",  "$limit", "$skip",
					    "$project", "$group", "$lookup"};
	struct element verb;

	if (!before || !element_only_field(stage, &verb))
		return false;
	for (size_t i = 0; i < ARRAY_LENGTH(verbs); i++)
		if (element_is(&verb, verbs[i]))
			return !element_is(&verb, "$lookup") || is_plain(&verb);
	return false;
}

bool pushed_joins(struct bytes pipeline)
{
	struct element stage, verb;
	struct cursor stages;
	bool pushed = true;

	if (!cursor_open(&stages, pipeline))
		return false;
	while (pushed && cursor_next(&stages, &stage) == CURSOR_ELEMENT) {
		pushed = pushed_behind(pushed, &stage);
		if (pushed && element_only_field(&stage, &verb) && element_is(&verb, "$lookup"))
			return true;
	}
	return false;
}

/* ---- operands ---- */

static void add_texts(struct call *call, const char *const *texts, size_t count)
{
	char name[12];
	size_t list = writer_open_array(call->out, writer_index(name, call->place++));

	for (size_t i = 0; i < count; i++)
		writer_string(call->out, writer_index(name, i), texts[i]);
	writer_close(call->out, list);
}

/* {$in: [{$type: value}, types]} */
static void add_is_one_of(struct call *call, const char *value, const char *const *types,
			  size_t count)
{
	struct call test = call_call(call, "$in");

	call_unary(&test, "$type", value);
	add_texts(&test, types, count);
	call_close(&test);
}

/* {$verb: [{$inner: value}, ...]}, open */
static struct call call_of(struct call *call, const char *verb, const char *inner,
			   const char *value)
{
	struct call test = call_call(call, verb);

	call_unary(&test, inner, value);
	return test;
}

static size_t open_stage(struct buffer *out, size_t *place)
{
	char name[12];

	return writer_open_document(out, writer_index(name, (*place)++));
}

/* ---- $min and $max: which of the equal values is it? ---- */

/* {r: {$min: <expression>}} */
struct extreme {
	struct element field, expression;
	bool least;
};

static bool extreme_of(const struct element *field, struct extreme *extreme)
{
	struct element accumulator, *expression = &extreme->expression, more;
	struct cursor cursor;

	if (field->type != BSON_BYTE_DOCUMENT || !element_only_field(field, &accumulator) ||
	    !(element_is(&accumulator, "$min") || element_is(&accumulator, "$max")))
		return false;
	extreme->field = *field;
	extreme->least = element_is(&accumulator, "$min");
	*expression = accumulator;
	if (accumulator.type != BSON_BYTE_ARRAY)
		return true;
	/* An array of one expression is that expression; others mongod refuses. */
	return cursor_open(&cursor, accumulator.value) &&
	       cursor_next(&cursor, expression) == CURSOR_ELEMENT &&
	       cursor_next(&cursor, &more) == CURSOR_END;
}

static const char *tie_name(char name[NAME_SIZE], const char *before, size_t number,
			    const char *behind)
{
	snprintf(name, NAME_SIZE, "%s" TIE "%zu%s", before, number, behind);
	return name;
}

/* A number for the type and, of numbers, for how they are written: equal numbers that have the same
 * one are the same value. */
static void write_kind(struct buffer *out, int32_t sign)
{
	static const char *const types[] = {"double", "int", "long", "decimal", "string", "symbol"};
	struct call signed_kind = call_open(out, "t", "$multiply"), sum, kind, type, choice;

	call_number(&signed_kind, sign);
	sum = call_call(&signed_kind, "$add");
	kind = call_call(&sum, "$multiply");
	call_number(&kind, 1000);
	type = call_call(&kind, "$indexOfArray");
	add_texts(&type, types, ARRAY_LENGTH(types));
	call_unary(&type, "$type", "$$v");
	call_close(&type);
	call_close(&kind);
	choice = call_call(&sum, "$cond");
	call_unary(&choice, "$isNumber", "$$v");
	type = call_of(&choice, "$strLenBytes", "$toString", "$$v");
	call_close(&type);
	call_number(&choice, 0);
	call_close(&choice);
	call_close(&sum);
	call_close(&signed_kind);
}

/* {<name>: {$max: {v: <value>, t: <its kind>}}}, of values that the accumulator doesn't pass over:
 * of the equal ones, the one with the largest kind, or, with the sign, with the least. */
static void write_marked(struct buffer *out, const char *name, const struct extreme *extreme,
			 int32_t sign)
{
	static const char *const nothing[] = {"missing", "null", "undefined"};
	size_t field = writer_open_document(out, name);
	size_t accumulator = writer_open_document(out, extreme->least ? "$min" : "$max");
	size_t let = writer_open_document(out, "$let"), part = writer_open_document(out, "vars");
	struct call choice;
	char index[12];

	writer_renamed(out, "v", &extreme->expression);
	writer_close(out, part);
	choice = call_open(out, "in", "$cond");
	add_is_one_of(&choice, "$$v", nothing, ARRAY_LENGTH(nothing));
	call_null(&choice);
	part = writer_open_document(out, writer_index(index, choice.place++));
	writer_string(out, "v", "$$v");
	write_kind(out, sign);
	writer_close(out, part);
	call_close(&choice);
	writer_close(out, let);
	writer_close(out, accumulator);
	writer_close(out, field);
}

/* {<name>: {$maxN: {n: 2, input: <expression>}}}: are there two that are equal? */
static void write_two(struct buffer *out, const char *name, const struct extreme *extreme)
{
	size_t field = writer_open_document(out, name);
	size_t accumulator = writer_open_document(out, extreme->least ? "$minN" : "$maxN");

	writer_int32(out, "n", 2);
	writer_renamed(out, "input", &extreme->expression);
	writer_close(out, accumulator);
	writer_close(out, field);
}

static void write_ties_of(struct buffer *out, const struct extreme *extreme, size_t number)
{
	char name[NAME_SIZE];

	write_marked(out, tie_name(name, "", number, "a"), extreme, 1);
	write_marked(out, tie_name(name, "", number, "b"), extreme, -1);
	write_two(out, tie_name(name, "", number, "c"), extreme);
}

/* {$gt: [{$abs: <the sum of both kinds>}, 0]}: the largest kind is not the least. */
static void add_kinds_differ(struct call *call, size_t number)
{
	struct call test = call_call(call, "$gt"), amount = call_call(&test, "$abs"),
		    sum = call_call(&amount, "$add");
	char path[NAME_SIZE];

	call_text(&sum, tie_name(path, "$", number, "a.t"));
	call_text(&sum, tie_name(path, "$", number, "b.t"));
	call_close(&sum);
	call_close(&amount);
	call_number(&test, 0);
	call_close(&test);
}

/* {$and: [{$eq: [{$size}, 2]}, {$eq: [<first>, <second>]}]}; without values it is no array */
static void add_two_equal(struct call *call, size_t number)
{
	struct call test = call_call(call, "$eq"), element;
	char path[NAME_SIZE];

	call_unary(&test, "$size", tie_name(path, "$", number, "c"));
	call_number(&test, 2);
	call_close(&test);
	test = call_call(call, "$eq");
	for (int32_t i = 0; i < 2; i++) {
		element = call_call(&test, "$arrayElemAt");
		call_text(&element, path);
		call_number(&element, i);
		call_close(&element);
	}
	call_close(&test);
}

/* Equal values of these types may differ in what their kind doesn't tell: arrays and documents,
 * texts under a collation, decimals with an exponent or of zero. */
static void add_kind_is_vague(struct call *call, const char *value)
{
	static const char *const held[] = {"object", "array", "javascriptWithScope"},
				 *const texts[] = {"string", "symbol"},
				 *const decimals[] = {"decimal"};
	struct call any = call_call(call, "$or"), both, test, either;

	add_is_one_of(&any, value, held, ARRAY_LENGTH(held));
	both = call_call(&any, "$and");
	add_is_one_of(&both, value, texts, ARRAY_LENGTH(texts));
	test = call_call(&both, "$lt"); /* not without a collation: bytes are compared */
	call_text(&test, "a");
	call_text(&test, "B");
	call_close(&test);
	call_close(&both);
	both = call_call(&any, "$and");
	add_is_one_of(&both, value, decimals, ARRAY_LENGTH(decimals));
	either = call_call(&both, "$or");
	test = call_call(&either, "$eq");
	call_text(&test, value);
	call_number(&test, 0);
	call_close(&test);
	test = call_call(&either, "$gte");
	{
		struct call place = call_of(&test, "$indexOfBytes", "$toString", value);

		call_text(&place, "E");
		call_close(&place);
	}
	call_number(&test, 0);
	call_close(&test);
	call_close(&either);
	call_close(&both);
	call_close(&any);
}

static void add_tied(struct call *call, size_t number)
{
	struct call both;
	char path[NAME_SIZE];

	add_kinds_differ(call, number);
	both = call_call(call, "$and");
	add_two_equal(&both, number);
	add_kind_is_vague(&both, tie_name(path, "$", number, "a.v"));
	call_close(&both);
}

/* {$replaceWith: {$cond: [{$or: [<a tie>, ...]}, <error>, "$$ROOT"]}}, {$unset: [...]} */
static void write_tie_stages(struct buffer *out, size_t *place, size_t count)
{
	static const char *const parts[] = {"a", "b", "c"};
	size_t stage = open_stage(out, place), list, listed = 0;
	struct call choice = call_open(out, "$replaceWith", "$cond"), any;
	char name[NAME_SIZE], index[12];

	any = call_call(&choice, "$or");
	for (size_t i = 0; i < count; i++)
		add_tied(&any, i);
	call_close(&any);
	reassemble_add_tied(&choice);
	call_text(&choice, "$$ROOT");
	call_close(&choice);
	writer_close(out, stage);
	stage = open_stage(out, place);
	list = writer_open_array(out, "$unset");
	for (size_t i = 0; i < count * ARRAY_LENGTH(parts); i++)
		writer_string(out, writer_index(index, listed++),
			      tie_name(name, "", i / ARRAY_LENGTH(parts),
				       parts[i % ARRAY_LENGTH(parts)]));
	writer_close(out, list);
	writer_close(out, stage);
}

/* ---- values that the other engine changes ---- */

/* The elements of an array, or the values of a document's fields. */
static void write_inside(struct buffer *out, const char *name, const char *value)
{
	static const char *const object[] = {"object"};
	struct call choice = call_open(out, name, "$cond"), other;
	char index[12];
	size_t document, map;

	call_unary(&choice, "$isArray", value);
	call_text(&choice, value);
	other = call_call(&choice, "$cond");
	add_is_one_of(&other, value, object, ARRAY_LENGTH(object));
	document = writer_open_document(out, writer_index(index, other.place++));
	map = writer_open_document(out, "$map");
	{
		size_t input = writer_open_document(out, "input");

		writer_string(out, "$objectToArray", value);
		writer_close(out, input);
	}
	writer_string(out, "in", "$$this.v");
	writer_close(out, map);
	writer_close(out, document);
	call_nothing(&other);
	call_close(&other);
	call_close(&choice);
}

/* {$anyElementTrue: [{$map: {input: <inside>, in: {$or: [<such a type>, <the same one level
 * deeper>]}}}]}: opened level by level. */
static void add_any_changed(struct call *call, size_t levels)
{
	static const char *const changed[] = {"javascript", "symbol", "minKey", "maxKey"};
	struct call any[LEVELS_MAX], either[LEVELS_MAX], *around = call;
	size_t operands[LEVELS_MAX], maps[LEVELS_MAX];
	char index[12];

	for (size_t i = 0; i < levels; i++) {
		any[i] = call_call(around, "$anyElementTrue");
		operands[i] = writer_open_document(call->out, writer_index(index, any[i].place++));
		maps[i] = writer_open_document(call->out, "$map");
		write_inside(call->out, "input", i == 0 ? "$$ROOT" : "$$this");
		either[i] = call_open(call->out, "in", "$or");
		add_is_one_of(&either[i], "$$this", changed, ARRAY_LENGTH(changed));
		around = &either[i];
	}
	for (size_t i = levels; i-- > 0;) {
		call_close(&either[i]);
		writer_close(call->out, maps[i]);
		writer_close(call->out, operands[i]);
		call_close(&any[i]);
	}
}

/* How deep in the documents that come out a value can stand that was computed for them: no deeper
 * than its expression stands in the stage. */
static size_t levels_of(const struct element *stage)
{
	struct element element;
	struct walk walk;
	size_t levels = 1;
	enum cursor_step step;

	if (stage->type != BSON_BYTE_DOCUMENT)
		return levels;
	step = walk_first(&walk, BSON_BYTE_DOCUMENT, stage->value, &element);
	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element)) {
		levels = walk.depth > levels ? walk.depth : levels;
		if (!walk_within(&walk, &element))
			break;
	}
	levels += element_is(stage, "$sortByCount");
	return levels < LEVELS_MAX ? levels : LEVELS_MAX;
}

/* {$replaceWith: {$cond: [<such a value>, <error>, "$$ROOT"]}} */
static void write_change_stage(struct buffer *out, size_t *place, size_t levels)
{
	size_t stage = open_stage(out, place);
	struct call choice = call_open(out, "$replaceWith", "$cond");

	add_any_changed(&choice, levels);
	reassemble_add_changed(&choice);
	call_text(&choice, "$$ROOT");
	call_close(&choice);
	writer_close(out, stage);
}

/* ---- the stage ---- */

/* {$let: {vars: {v: <expression>}, in: {$cond: [<a document, or nothing>, "$$v", <error>]}}} */
static void write_merged(struct buffer *out, const struct element *field,
			 const struct element *accumulator)
{
	static const char *const merged[] = {"object", "missing", "null", "undefined"};
	auto_free char *name = must_strndup((const char *)field->name.data, field->name.length);
	size_t outer = writer_open_document(out, name);
	size_t merge = writer_open_document(out, "$mergeObjects");
	size_t let = writer_open_document(out, "$let"), vars = writer_open_document(out, "vars");
	struct call choice;

	writer_renamed(out, "v", accumulator);
	writer_close(out, vars);
	choice = call_open(out, "in", "$cond");
	add_is_one_of(&choice, "$$v", merged, ARRAY_LENGTH(merged));
	call_text(&choice, "$$v");
	reassemble_add_unmerged(&choice);
	call_close(&choice);
	writer_close(out, let);
	writer_close(out, merge);
	writer_close(out, outer);
}

/* The client's accumulators, and those by which ties are found. How many $min and $max there are.
 */
static size_t write_accumulators(struct buffer *out, struct bytes accumulators)
{
	struct extreme extreme;
	struct element field, accumulator;
	struct cursor cursor;
	size_t count = 0;

	if (!cursor_open(&cursor, accumulators))
		return count;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (field.type == BSON_BYTE_DOCUMENT && !element_is(&field, "_id") &&
		    element_only_field(&field, &accumulator) &&
		    element_is(&accumulator, "$mergeObjects") &&
		    accumulator.type != BSON_BYTE_ARRAY)
			write_merged(out, &field, &accumulator);
		else
			writer_element(out, &field);
		if (!element_is(&field, "_id") && extreme_of(&field, &extreme))
			write_ties_of(out, &extreme, count++);
	}
	return count;
}

/* Of a $bucket, the accumulators are its `output`. */
static size_t write_bucket(struct buffer *out, struct bytes bucket)
{
	struct element field;
	struct cursor cursor;
	size_t count = 0, output;

	if (!cursor_open(&cursor, bucket))
		return count;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (!element_is(&field, "output") || field.type != BSON_BYTE_DOCUMENT) {
			writer_element(out, &field);
			continue;
		}
		output = writer_open_document(out, "output");
		count = write_accumulators(out, field.value);
		writer_close(out, output);
	}
	return count;
}

bool pushed_write_group(struct buffer *out, size_t *place, const struct element *stage,
			bool follows)
{
	size_t opened, document, count = 0;
	struct element verb;
	bool groups, buckets;

	if (!element_only_field(stage, &verb))
		return false;
	groups = element_is(&verb, "$group") && verb.type == BSON_BYTE_DOCUMENT;
	buckets = element_is(&verb, "$bucket") && verb.type == BSON_BYTE_DOCUMENT;
	if (!groups && !buckets && !element_is(&verb, "$sortByCount"))
		return false;
	opened = open_stage(out, place);
	if (groups || buckets) {
		document = writer_open_document(out, groups ? "$group" : "$bucket");
		count = groups ? write_accumulators(out, verb.value)
			       : write_bucket(out, verb.value);
		writer_close(out, document);
	} else {
		writer_element(out, &verb);
	}
	writer_close(out, opened);
	if (count > 0)
		write_tie_stages(out, place, count);
	/* Behind $bucket and $sortByCount mongod has a $sort of its own. */
	if (follows || !groups)
		write_change_stage(out, place, levels_of(&verb));
	return true;
}
