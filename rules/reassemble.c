/* Writes the stages that put whole documents together.
 *
 * Joined are generations, which are binary: exact under any collation. The overflow comes as runs
 * of RUN batches each, since appending batch by batch to one array takes time by the square of
 * their number. */
#include "rules/reassemble.h"

#include "rules/call_writer.h"
#include "rules/filter_split.h"
#include "rules/names.h"

#include <stdio.h>
#include <stdlib.h>

#define RUN 32
#define DEAD "spillway: the generation ended"
#define UNCLEAR "spillway: a positional projection"
/* No rule's key begins with a slash. */
#define JOINED "_spill./joined"

static bool raised(struct bytes body, const struct reply_summary *summary, const char *what)
{
	struct element message;
	struct bytes text;

	/* The text alone may be a quotation of the pipeline. */
	return !summary->ok && summary->code == ERROR_CONVERSION_FAILURE &&
	       document_find(body, "errmsg", &message) && element_string(&message, &text) &&
	       memmem(text.data, text.length, what, strlen(what));
}

bool reassemble_died(struct bytes body, const struct reply_summary *summary)
{
	return raised(body, summary, DEAD);
}

bool reassemble_unclear(struct bytes body, const struct reply_summary *summary)
{
	return raised(body, summary, UNCLEAR);
}

/* The runs of `input`, documents {p, a}, as one array; null where one doesn't begin where those
 * before it end. `first`: where the first one begins, "" for 0. */
void reassemble_write_runs(struct buffer *out, const char *name, const char *input,
			   const char *first)
{
	size_t document = writer_open_document(out, name), reduce, nothing;
	struct call choice, inner, condition, sum;

	reduce = writer_open_document(out, "$reduce");
	writer_string(out, "input", input);
	nothing = writer_open_array(out, "initialValue");
	writer_close(out, nothing);
	choice = call_open(out, "in", "$cond");
	call_unary(&choice, "$isArray", "$$value");
	inner = call_call(&choice, "$cond");
	condition = call_call(&inner, "$eq");
	call_text(&condition, "$$this.p");
	sum = call_call(&condition, "$add");
	if (*first)
		call_text(&sum, first);
	call_unary(&sum, "$size", "$$value");
	call_close(&sum);
	call_close(&condition);
	condition = call_call(&inner, "$concatArrays");
	call_text(&condition, "$$value");
	call_text(&condition, "$$this.a");
	call_close(&condition);
	call_null(&inner);
	call_close(&inner);
	call_null(&choice);
	call_close(&choice);
	writer_close(out, reduce);
	writer_close(out, document);
}

/* {$match: {$expr: {$eq: ["$_spill.g", "$$g"]}}} */
static void write_generation_match(struct buffer *out)
{
	size_t stage = writer_open_document(out, "0");
	size_t match = writer_open_document(out, "$match");
	struct call call = call_open(out, "$expr", "$eq");

	call_text(&call, "$_spill.g");
	call_text(&call, "$$g");
	call_close(&call);
	writer_close(out, match);
	writer_close(out, stage);
}

static void write_sort(struct buffer *out, const char *name, const char *field)
{
	size_t stage = writer_open_document(out, name);
	size_t sort = writer_open_document(out, "$sort");

	writer_int32(out, field, 1);
	writer_close(out, sort);
	writer_close(out, stage);
}

/* RUN batches each: {_id: which, p: where it begins, b: [{p, a}, ...]}. */
static void write_group(struct buffer *out, const struct rule *rule, const char *batch)
{
	auto_text number = text_join("$", batch, ""),
		  array = text_join("$", rule->overflow.array, "");
	size_t stage = writer_open_document(out, "2"), group, field, push, id;
	struct call divide;

	group = writer_open_document(out, "$group");
	id = writer_open_document(out, "_id");
	divide = call_open(out, "$floor", "$divide");
	call_text(&divide, number.bytes);
	call_number(&divide, RUN);
	call_close(&divide);
	writer_close(out, id);
	field = writer_open_document(out, "p");
	writer_string(out, "$first", "$_spill.p");
	writer_close(out, field);
	field = writer_open_document(out, "b");
	push = writer_open_document(out, "$push");
	writer_string(out, "p", "$_spill.p");
	writer_string(out, "a", array.bytes);
	writer_close(out, push);
	writer_close(out, field);
	writer_close(out, group);
	writer_close(out, stage);
}

static void write_joined_pipeline(struct buffer *out, const struct rule *rule)
{
	const char *batch = rule->overflow.batch_field ? rule->overflow.batch_field : "_spill.i";
	size_t pipeline = writer_open_array(out, "pipeline"), stage, project;

	write_generation_match(out);
	write_sort(out, "1", batch);
	write_group(out, rule, batch);
	write_sort(out, "3", "_id");
	stage = writer_open_document(out, "4");
	project = writer_open_document(out, "$project");
	writer_int32(out, "p", 1);
	reassemble_write_runs(out, "a", "$b", "$p");
	writer_close(out, project);
	writer_close(out, stage);
	writer_close(out, pipeline);
}

static void write_lookup(struct buffer *out, const char *name, const struct target *target,
			 const char *joined)
{
	auto_text generation = text_join("$_spill.", target->rule->key, ".g");
	size_t stage = writer_open_document(out, name);
	size_t lookup = writer_open_document(out, "$lookup"), let;

	writer_string(out, "from", target->overflow_collection);
	writer_string(out, "localField", "_id");
	writer_string(out, "foreignField", target->rule->overflow.link);
	let = writer_open_document(out, "let");
	writer_string(out, "g", generation.bytes);
	writer_close(out, let);
	write_joined_pipeline(out, target->rule);
	writer_string(out, "as", joined);
	writer_close(out, lookup);
	writer_close(out, stage);
}

/* Not a constant, which mongod would evaluate before it has seen any document. */
static void add_error(struct call *call, const char *says, const char *verb, const char *path)
{
	char name[12];
	size_t document = writer_open_document(call->out, writer_index(name, call->place++));
	struct call text = call_open(call->out, "$toObjectId", "$concat");

	call_text(&text, says);
	call_unary(&text, verb, path);
	call_close(&text);
	writer_close(call->out, document);
}

void reassemble_add_death(struct call *call, const char *count)
{
	add_error(call, DEAD " ", "$toString", count);
}

void reassemble_add_unclear(struct call *call)
{
	add_error(call, UNCLEAR " ", "$type", "$_id");
}

/* f[0:h] ++ overflow[0:n] ++ f[h:] */
static void add_whole(struct call *call, const char *array, const char *head, const char *count)
{
	struct call parts = call_call(call, "$concatArrays"), slice, choice, test;

	choice = call_call(&parts, "$cond");
	test = call_call(&choice, "$gt");
	call_text(&test, head);
	call_number(&test, 0);
	call_close(&test);
	slice = call_call(&choice, "$slice");
	call_text(&slice, array);
	call_text(&slice, head);
	call_close(&slice);
	call_nothing(&choice);
	call_close(&choice);
	slice = call_call(&parts, "$slice");
	call_text(&slice, "$$overflow");
	call_text(&slice, count);
	call_close(&slice);
	slice = call_call(&parts, "$slice");
	call_text(&slice, array);
	call_text(&slice, head);
	call_number(&slice, INT32_MAX);
	call_close(&slice);
	call_close(&parts);
}

/* {$let: {vars: {overflow: ...}, in: {$cond: [enough of it, whole, error]}}} */
static void write_array(struct buffer *out, const char *name, const struct rule *rule,
			const char *joined)
{
	auto_text array = text_join("$", rule->array, ""), input = text_join("$", joined, ""),
		  head = text_join("$_spill.", rule->key, ".h"),
		  count = text_join("$_spill.", rule->key, ".n");
	size_t document = writer_open_document(out, name), let, vars;
	struct call choice, test, size, or_nothing;

	let = writer_open_document(out, "$let");
	vars = writer_open_document(out, "vars");
	reassemble_write_runs(out, "overflow", input.bytes, "");
	writer_close(out, vars);
	choice = call_open(out, "in", "$cond");
	test = call_call(&choice, "$gte");
	size = call_call(&test, "$size");
	or_nothing = call_call(&size, "$ifNull");
	call_text(&or_nothing, "$$overflow");
	call_nothing(&or_nothing);
	call_close(&or_nothing);
	call_close(&size);
	call_text(&test, count.bytes);
	call_close(&test);
	add_whole(&choice, array.bytes, head.bytes, count.bytes);
	reassemble_add_death(&choice, count.bytes);
	call_close(&choice);
	writer_close(out, let);
	writer_close(out, document);
}

/* {a: {$mergeObjects: ["$a", {b: <array>}]}}: each part of the path stays at its place. */
static void write_at_path(struct buffer *out, const struct rule *rule, const char *joined)
{
	size_t opened[2 * CURSOR_MAX_DEPTH], depth = 0;
	const char *part = rule->array, *dot;

	while ((dot = strchr(part, '.')) && depth + 3 < ARRAY_LENGTH(opened)) {
		auto_free char *name = must_strndup(part, (size_t)(dot - part));
		auto_free char *path = must_strndup(rule->array, (size_t)(dot - rule->array));
		auto_text field = text_join("$", path, "");

		opened[depth++] = writer_open_document(out, name);
		opened[depth++] = writer_open_array(out, "$mergeObjects");
		writer_string(out, "0", field.bytes);
		opened[depth++] = writer_open_document(out, "1");
		part = dot + 1;
	}
	write_array(out, part, rule, joined);
	while (depth > 0)
		writer_close(out, opened[--depth]);
}

/* {$replaceWith: {$cond: [n > 0, {$mergeObjects: ["$$ROOT", {f: <array>}]}, "$$ROOT"]}} */
static void write_replace(struct buffer *out, const char *name, const struct rule *rule,
			  const char *joined)
{
	auto_text count = text_join("$_spill.", rule->key, ".n");
	size_t stage = writer_open_document(out, name), document;
	struct call choice = call_open(out, "$replaceWith", "$cond"), test, merge;
	char index[12];

	test = call_call(&choice, "$gt");
	call_text(&test, count.bytes);
	call_number(&test, 0);
	call_close(&test);
	merge = call_call(&choice, "$mergeObjects");
	call_text(&merge, "$$ROOT");
	document = writer_open_document(out, writer_index(index, merge.place++));
	write_at_path(out, rule, joined);
	writer_close(out, document);
	call_close(&merge);
	call_text(&choice, "$$ROOT");
	call_close(&choice);
	writer_close(out, stage);
}

/* Two rules may share a hidden field; a path must not stand twice. */
static bool is_listed(const struct ruled_namespace *namespace, size_t rules, size_t fields,
		      const char *field)
{
	for (size_t i = 0; i <= rules; i++) {
		struct name_hidden hidden = name_hidden(namespace->targets[i].rule);

		for (size_t j = 0; j < (i < rules ? NAME_FIELDS : fields); j++)
			if (hidden.fields[j] && strcmp(hidden.fields[j], field) == 0)
				return true;
	}
	return false;
}

void reassemble_write_unset(struct buffer *out, size_t *stage_place,
			    const struct ruled_namespace *namespace, bool keep_state)
{
	char name[12];
	size_t stage = writer_open_document(out, writer_index(name, (*stage_place)++)), place = 0;
	size_t list = writer_open_array(out, "$unset");
	char index[12];

	writer_string(out, writer_index(index, place++), keep_state ? JOINED : NAME_STATE);
	for (size_t i = 0; i < namespace->target_count; i++) {
		struct name_hidden hidden = name_hidden(namespace->targets[i].rule);

		for (size_t j = 0; j < NAME_FIELDS; j++)
			if (hidden.fields[j] && !is_listed(namespace, i, j, hidden.fields[j]))
				writer_string(out, writer_index(index, place++), hidden.fields[j]);
	}
	writer_close(out, list);
	writer_close(out, stage);
}

bool reassemble_possible(const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct target *target = &namespace->targets[i];

		if (target->rule->overflow.layout != RULE_BATCHES ||
		    strcmp(target->overflow_database, namespace->database) != 0)
			return false;
	}
	return true;
}

/* {$or: [F, {_spill: {$exists: true}}]}; nothing where mongod might judge documents that a reader
 * who stops at the first never meets, and fail. */
static void write_filter_or_state(struct buffer *out, struct bytes filter)
{
	size_t either, branch, exists;

	if (filter_has_expression(filter))
		return;
	either = writer_open_array(out, "$or");
	writer_document(out, "0", filter);
	branch = writer_open_document(out, "1");
	exists = writer_open_document(out, NAME_STATE);
	writer_bool(out, "$exists", true);
	writer_close(out, exists);
	writer_close(out, branch);
	writer_close(out, either);
}

void reassemble_write_candidates(struct buffer *out, size_t *place, struct bytes filter,
				 const struct ruled_namespace *namespace)
{
	char name[12];
	size_t stage = writer_open_document(out, writer_index(name, (*place)++));
	size_t match = writer_open_document(out, "$match");
	size_t list = writer_open_array(out, "$and"), conjunct = 0, last;

	filter_split_write(out, &conjunct, filter, namespace,
			   filter_has_expression(filter) ? FILTER_REST_QUIET : FILTER_REST_ALL);
	last = writer_open_document(out, writer_index(name, conjunct));
	write_filter_or_state(out, filter);
	writer_close(out, last);
	writer_close(out, list);
	writer_close(out, match);
	writer_close(out, stage);
}

void reassemble_write_stages(struct buffer *out, size_t *place,
			     const struct ruled_namespace *namespace, bool keep_state)
{
	char name[12], number[12];

	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct target *target = &namespace->targets[i];
		auto_text joined = text_join(JOINED, ".", writer_index(number, i));

		write_lookup(out, writer_index(name, (*place)++), target, joined.bytes);
		write_replace(out, writer_index(name, (*place)++), target->rule, joined.bytes);
	}
	reassemble_write_unset(out, place, namespace, keep_state);
}
