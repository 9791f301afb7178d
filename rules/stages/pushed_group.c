/* Writes groups whose answer depends on the engine that mongod runs them in. */
#include "rules/stages/pushed_group.h"

#include "rules/rule/names.h"
#include "rules/reassembly/raised.h"
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

/* The names of one $min or $max beside the client's accumulators: of the equal values the ones with
 * the largest and the least kind, and two of the values. */
struct tie {
	char large[NAME_SIZE], small[NAME_SIZE], two[NAME_SIZE];
};

static struct tie tie_of(size_t number)
{
	struct tie tie;

	snprintf(tie.large, NAME_SIZE, TIE "%zua", number);
	snprintf(tie.small, NAME_SIZE, TIE "%zub", number);
	snprintf(tie.two, NAME_SIZE, TIE "%zuc", number);
	return tie;
}

#define TIE_FILLS(tie) \
	fill("large", (tie)->large), fill("small", (tie)->small), fill("two", (tie)->two)

/* Of values that the accumulator doesn't pass over: of the equal ones, the one with the largest
 * kind, or, with the sign, with the least. */
static const char marked[] = "{@accumulator: {$let: {vars: {v: @expression}, in: {$cond: ["
			     "{$in: [{$type: '$$v'}, ['missing', 'null', 'undefined']]}, "
			     "null, "
			     "{v: '$$v', t: @kind}]}}}}";
/* A number for the type and, of numbers, for how they are written: equal numbers that have the same
 * one are the same value. */
#define KIND(sign) \
	"{$multiply: [" sign ", {$add: [" \
	"{$multiply: [1000, {$indexOfArray: [" \
	"['double', 'int', 'long', 'decimal', 'string', 'symbol'], {$type: '$$v'}]}]}, " \
	"{$cond: [{$isNumber: '$$v'}, {$strLenBytes: [{$toString: '$$v'}]}, 0]}]}]}"

static void write_ties_of(struct buffer *out, const struct extreme *extreme, size_t number)
{
	const struct tie tie = tie_of(number);
	const struct fill expression = fill("expression", &extreme->expression);

	template_write(out, tie.large, marked, expression, fill_template("kind", KIND("1")),
		       fill("accumulator", extreme->least ? "$min" : "$max"));
	template_write(out, tie.small, marked, expression, fill_template("kind", KIND("-1")),
		       fill("accumulator", extreme->least ? "$min" : "$max"));
	template_write(out, tie.two, "{@accumulator: {n: 2, input: @expression}}", expression,
		       fill("accumulator", extreme->least ? "$minN" : "$maxN"));
}

/* Appends two tests. The largest kind is not the least: the sum of both is not 0. Or there are two
 * equal values (without values it is no array), of a type that may differ in what its kind doesn't
 * tell: arrays and documents, texts under a collation (without one, bytes are compared), decimals
 * with an exponent or of zero. */
static void write_tied(struct buffer *tests, const struct tie *tie)
{
	template_write_document(tests, "{$gt: [{$abs: [{$add: ['$@large.t', '$@small.t']}]}, 0]}",
				TIE_FILLS(tie));
	template_write_document(
		tests,
		"{$and: ["
		"{$eq: [{$size: '$@two'}, 2]}, "
		"{$eq: [{$arrayElemAt: ['$@two', 0]}, {$arrayElemAt: ['$@two', 1]}]}, "
		"{$or: ["
		"{$in: [{$type: '$@large.v'}, ['object', 'array', 'javascriptWithScope']]}, "
		"{$and: ["
		"{$in: [{$type: '$@large.v'}, ['string', 'symbol']]}, "
		"{$lt: ['a', 'B']}]}, "
		"{$and: ["
		"{$in: [{$type: '$@large.v'}, ['decimal']]}, "
		"{$or: ["
		"{$eq: ['$@large.v', 0]}, "
		"{$gte: [{$indexOfBytes: [{$toString: '$@large.v'}, 'E']}, 0]}]}]}]}]}",
		TIE_FILLS(tie));
}

static void write_tie_stages(struct buffer *out, size_t *place, size_t count)
{
	auto_buffer struct buffer tests = {0}, names = {0};
	size_t start = writer_open(&names), listed = 0;

	for (size_t i = 0; i < count; i++) {
		const struct tie tie = tie_of(i);

		write_tied(&tests, &tie);
		template_append(&names, &listed, "@large", TIE_FILLS(&tie));
		template_append(&names, &listed, "@small", TIE_FILLS(&tie));
		template_append(&names, &listed, "@two", TIE_FILLS(&tie));
	}
	writer_close(&names, start);
	template_append(out, place,
			"{$replaceWith: {$cond: [{$or: [..@tests]}, @error, '$$ROOT']}}",
			fill_documents("tests", buffer_view(&tests)),
			fill_template("error", RAISE(RAISED_TIED)));
	template_append(out, place, "{$unset: @names}", fill_array("names", buffer_view(&names)));
}

/* ---- values that the other engine changes ---- */

/* Writes the test: among the elements of an array, or the values of a document's fields, is one of
 * such a type, or has one in it, level by level. */
static void write_any_changed(struct buffer *out, size_t levels)
{
	for (size_t i = levels; i-- > 0;) {
		auto_buffer struct buffer deeper = buffer_steal(out);

		template_write_document(
			out,
			"{$anyElementTrue: [{$map: {"
			"input: {$cond: [{$isArray: '@value'}, '@value', "
			"{$cond: [{$in: [{$type: '@value'}, ['object']]}, "
			"{$map: {input: {$objectToArray: '@value'}, in: '$$this.v'}}, []]}]}, "
			"in: {$or: ["
			"{$in: [{$type: '$$this'}, ['javascript', 'symbol', 'minKey', 'maxKey']]}, "
			"..@deeper]}}}]}",
			fill("value", i == 0 ? "$$ROOT" : "$$this"),
			fill_documents("deeper", buffer_view(&deeper)));
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

static void write_change_stage(struct buffer *out, size_t *place, size_t levels)
{
	auto_buffer struct buffer changed = {0};

	write_any_changed(&changed, levels);
	template_append(out, place, "{$replaceWith: {$cond: [@changed, @error, '$$ROOT']}}",
			fill_document("changed", buffer_view(&changed)),
			fill_template("error", RAISE(RAISED_CHANGED)));
}

/* ---- the stage ---- */

/* An error, if what is merged is neither a document nor nothing. */
static void write_merged(struct buffer *out, const struct element *field,
			 const struct element *accumulator)
{
	template_write_fields(
		out,
		"{@name: {$mergeObjects: {$let: {vars: {v: @merged}, in: {$cond: ["
		"{$in: [{$type: '$$v'}, ['object', 'missing', 'null', 'undefined']]}, "
		"'$$v', @error]}}}}}",
		fill("name", field->name), fill("merged", accumulator),
		fill_template("error", RAISE(RAISED_UNMERGED)));
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

/* The client's group, to be filled in. How many $min and $max there are. */
static size_t write_group(struct buffer *group, const struct element *verb)
{
	size_t start = writer_open(group), count;

	count = element_is(verb, "$group") ? write_accumulators(group, verb->value)
					   : write_bucket(group, verb->value);
	writer_close(group, start);
	return count;
}

bool pushed_write_group(struct buffer *out, size_t *place, const struct element *stage,
			bool follows)
{
	auto_buffer struct buffer group = {0};
	size_t count = 0, levels;
	struct element verb;
	bool groups;

	if (!element_only_field(stage, &verb))
		return false;
	levels = levels_of(&verb);
	groups = element_is(&verb, "$group") && verb.type == BSON_BYTE_DOCUMENT;
	if (groups || (element_is(&verb, "$bucket") && verb.type == BSON_BYTE_DOCUMENT)) {
		count = write_group(&group, &verb);
		verb.value = buffer_view(&group);
	} else if (!element_is(&verb, "$sortByCount")) {
		return false;
	}
	template_append(out, place, "{@verb: @value}", fill("verb", verb.name),
			fill_element("value", &verb));
	if (count > 0)
		write_tie_stages(out, place, count);
	/* Behind $bucket and $sortByCount mongod has a $sort of its own. */
	if (follows || !groups)
		write_change_stage(out, place, levels);
	return true;
}
