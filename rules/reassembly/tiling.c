/* Writes how overflow documents that overlap are put in a row. */
#include "rules/reassembly/tiling.h"

#define POSITION "$$this._spill.p"

/* The path of a batch's array. */
static struct text array_of(const struct tiling *tiling)
{
	return text_join("$$this.", tiling->array, "");
}

static void write_first(struct buffer *out, const char *name, const char *first)
{
	if (first)
		writer_string(out, name, first);
	else
		writer_int32(out, name, 0);
}

/* {$add: [<where the batch begins>, <how many it holds>]} */
static void write_sum(struct buffer *out, const char *name, const char *first, const char *array)
{
	struct call sum = call_open(out, name, "$add");

	call_text(&sum, first);
	call_unary(&sum, "$size", array);
	call_close(&sum);
}

void tiling_add_end(struct call *call, const struct tiling *tiling)
{
	auto_text array = array_of(tiling);
	struct buffer *out = call->out;
	char name[12];
	size_t document = writer_open_document(out, writer_index(name, call->place++));
	size_t reduce = writer_open_document(out, "$reduce");
	struct call choice, test;

	writer_string(out, "input", tiling->input);
	write_first(out, "initialValue", tiling->first);
	choice = call_open(out, "in", "$cond");
	test = call_call(&choice, "$eq");
	call_text(&test, POSITION);
	call_text(&test, "$$value");
	call_close(&test);
	write_sum(out, writer_index(name, choice.place++), "$$value", array.bytes);
	call_null(&choice);
	call_close(&choice);
	writer_close(out, reduce);
	writer_close(out, document);
}

/* {<array>: <what goes on>, _spill: {p: <where>}} */
static void add_rest(struct call *call, const struct tiling *tiling, const char *array)
{
	struct buffer *out = call->out;
	char name[12];
	size_t document = writer_open_document(out, writer_index(name, call->place++)), state;
	struct call slice = call_open(out, tiling->array, "$slice");

	call_text(&slice, array);
	call_text(&slice, "$$over");
	call_number(&slice, INT32_MAX);
	call_close(&slice);
	state = writer_open_document(out, "_spill");
	writer_string(out, "p", "$$value.end");
	writer_close(out, state);
	writer_close(out, document);
}

/* {end: <the batch's>, all: {$concatArrays: ["$$value.all", [<the batch, or its rest>]]}} */
static void add_longer(struct call *call, const struct tiling *tiling, const char *array)
{
	struct buffer *out = call->out;
	char name[12];
	size_t document = writer_open_document(out, writer_index(name, call->place++)), list;
	struct call all, choice, test;

	write_sum(out, "end", POSITION, array);
	all = call_open(out, "all", "$concatArrays");
	call_text(&all, "$$value.all");
	list = writer_open_array(out, writer_index(name, all.place++));
	choice = call_open(out, "0", "$cond");
	test = call_call(&choice, "$gt");
	call_text(&test, "$$over");
	call_number(&test, 0);
	call_close(&test);
	add_rest(&choice, tiling, array);
	call_text(&choice, "$$this");
	call_close(&choice);
	writer_close(out, list);
	call_close(&all);
	writer_close(out, document);
}

/* {$let: {vars: {over: <how many of its elements are there already>}, in: ...}} */
static void write_step(struct buffer *out, const struct tiling *tiling)
{
	auto_text array = array_of(tiling);
	size_t in = writer_open_document(out, "in"), let = writer_open_document(out, "$let"), vars;
	struct call call, test;

	vars = writer_open_document(out, "vars");
	call = call_open(out, "over", "$subtract");
	call_text(&call, "$$value.end");
	call_text(&call, POSITION);
	call_close(&call);
	writer_close(out, vars);
	call = call_open(out, "in", "$cond");
	test = call_call(&call, "$gte");
	call_text(&test, "$$over");
	call_unary(&test, "$size", array.bytes);
	call_close(&test);
	call_text(&call, "$$value");
	add_longer(&call, tiling, array.bytes);
	call_close(&call);
	writer_close(out, let);
	writer_close(out, in);
}

void tiling_write_trimmed(struct buffer *out, const char *name, const struct tiling *tiling)
{
	size_t document = writer_open_document(out, name), let = writer_open_document(out, "$let");
	size_t vars = writer_open_document(out, "vars"), trimmed, reduce, begin;

	trimmed = writer_open_document(out, "trimmed");
	reduce = writer_open_document(out, "$reduce");
	writer_string(out, "input", tiling->input);
	begin = writer_open_document(out, "initialValue");
	write_first(out, "end", tiling->first);
	writer_close(out, writer_open_array(out, "all"));
	writer_close(out, begin);
	write_step(out, tiling);
	writer_close(out, reduce);
	writer_close(out, trimmed);
	writer_close(out, vars);
	writer_string(out, "in", "$$trimmed.all");
	writer_close(out, let);
	writer_close(out, document);
}

void tiling_write(struct buffer *out, const char *name, const struct tiling *tiling)
{
	struct call choice = call_open(out, name, "$cond"), test = call_call(&choice, "$eq");
	char index[12];

	tiling_add_end(&test, tiling);
	call_null(&test);
	call_close(&test);
	tiling_write_trimmed(out, writer_index(index, choice.place++), tiling);
	call_text(&choice, tiling->input);
	call_close(&choice);
}

/* {<name>: {$arrayElemAt: [array, place]}} */
static void write_element(struct buffer *out, const char *name, const char *array, int32_t place)
{
	struct call element = call_open(out, name, "$arrayElemAt");

	call_text(&element, array);
	call_number(&element, place);
	call_close(&element);
}

/* {$zip: {inputs: [input, {$concatArrays: [[null], input]}]}}: each beside the one before it */
static void write_pairs(struct buffer *out, const char *name, const char *input)
{
	size_t document = writer_open_document(out, name), zip = writer_open_document(out, "$zip");
	size_t inputs = writer_open_array(out, "inputs"), nothing;
	struct call shifted;

	writer_string(out, "0", input);
	shifted = call_open(out, "1", "$concatArrays");
	nothing = writer_open_array(out, "0");
	writer_renamed(out, "0", &(struct element){.type = BSON_BYTE_NULL});
	writer_close(out, nothing);
	shifted.place++;
	call_text(&shifted, input);
	call_close(&shifted);
	writer_close(out, inputs);
	writer_close(out, zip);
	writer_close(out, document);
}

/* {$let: {vars: {one, other}, in: {$ne: <their positions>}}} */
static void write_differs(struct buffer *out, const char *name)
{
	size_t document = writer_open_document(out, name), let = writer_open_document(out, "$let");
	size_t vars = writer_open_document(out, "vars");
	struct call test;

	write_element(out, "one", "$$this", 0);
	write_element(out, "other", "$$this", 1);
	writer_close(out, vars);
	test = call_open(out, "in", "$ne");
	call_text(&test, "$$one._spill.p");
	call_text(&test, "$$other._spill.p");
	call_close(&test);
	writer_close(out, let);
	writer_close(out, document);
}

/* {$map: {input: {$filter: {input: <pairs>, cond: <another position>}}, in: <the first>}} */
static void add_single(struct call *call, const char *input)
{
	struct buffer *out = call->out;
	char name[12];
	size_t document = writer_open_document(out, writer_index(name, call->place++));
	size_t map = writer_open_document(out, "$map"), inner, filter;

	inner = writer_open_document(out, "input");
	filter = writer_open_document(out, "$filter");
	write_pairs(out, "input", input);
	write_differs(out, "cond");
	writer_close(out, filter);
	writer_close(out, inner);
	write_element(out, "in", "$$this", 0);
	writer_close(out, map);
	writer_close(out, document);
}

/* {$eq: [<how many>, {$subtract: [{$add: [<last position>, 1]}, first]}]} */
static void add_as_many(struct call *call, const char *input, const char *first)
{
	struct call test = call_call(call, "$eq"), difference, sum;

	call_unary(&test, "$size", input);
	difference = call_call(&test, "$subtract");
	sum = call_call(&difference, "$add");
	call_text(&sum, "$$last._spill.p");
	call_number(&sum, 1);
	call_close(&sum);
	if (first)
		call_text(&difference, first);
	else
		call_number(&difference, 0);
	call_close(&difference);
	call_close(&test);
}

void tiling_write_elements(struct buffer *out, const char *name, const char *input,
			   const char *first)
{
	size_t document = writer_open_document(out, name), let = writer_open_document(out, "$let");
	size_t vars = writer_open_document(out, "vars");
	struct call choice;

	write_element(out, "last", input, -1);
	writer_close(out, vars);
	choice = call_open(out, "in", "$cond");
	add_as_many(&choice, input, first);
	call_text(&choice, input);
	add_single(&choice, input);
	call_close(&choice);
	writer_close(out, let);
	writer_close(out, document);
}
