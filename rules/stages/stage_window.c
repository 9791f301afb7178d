/* Writes the stages that cut a window out of an array, spilled or not.
 *
 *   $set           _spill./s, ./e    the window in the whole array's positions, of spilled
 *                                    documents
 *   $lookup        _spill./joined    the batches that overlap it, in order
 *   $graphLookup   _spill./all       where these begin too late or do not run on: all there are
 *   $set           _spill./joined    they, each position once, then
 *   $set           f                 head, overflow and tail, each as far as it lies in the window
 *
 * A batch holds at most batch_size elements, so that position x lies in batch x / batch_size + 1 or
 * a later one: from there on batches are looked at, by the index on the link and the number. Those
 * that were stored under a larger batch_size are found by the second join, and so are those that
 * another one overlaps. Where each element has a document of its own, its position is what they are
 * looked at by. */
#include "rules/stages/stage_window.h"

#include "rules/reassembly/call_writer.h"
#include "rules/rule/overflow_document.h"
#include "rules/reassembly/reassemble.h"
#include "rules/reassembly/tiling.h"

#define START "$_spill./s"
#define END "$_spill./e"
#define JOINED "_spill./joined"
#define ALL "_spill./all"

/* The paths of a rule's array and state, and of the array in a batch that came. */
struct paths {
	const struct rule *rule;
	bool strict; /* see struct reassembly */
	struct text array, head, count, generation, part;
	struct naming naming;
};

static struct paths paths_of(const struct ruled_namespace *namespace, const struct rule *rule,
			     bool strict)
{
	const char *part = rule->overflow.array; /* only batches have one */

	struct paths paths = {.rule = rule,
			      .strict = strict,
			      .array = text_join("$", rule->array, ""),
			      .head = text_join("$_spill.", rule->key, ".h"),
			      .count = text_join("$_spill.", rule->key, ".n"),
			      .generation = text_join("$_spill.", rule->key, ".g"),
			      .part = text_join("$$this.", part ? part : "", "")};

	reassemble_name(&paths.naming, namespace->database, namespace->collection, rule);
	return paths;
}

static void paths_free(struct paths *paths)
{
	text_free(&paths->array);
	text_free(&paths->head);
	text_free(&paths->count);
	text_free(&paths->generation);
	text_free(&paths->part);
}

/* {$add: [n, {$size: f}]} */
static void add_total(struct call *call, const struct paths *paths)
{
	struct call sum = call_call(call, "$add");

	call_text(&sum, paths->count.bytes);
	call_unary(&sum, "$size", paths->array.bytes);
	call_close(&sum);
}

/* Where the window begins: max(0, total + skip), or min(skip, total). */
static void add_start(struct call *call, const struct paths *paths, const struct window *window)
{
	int32_t from = window->skips ? window->skip : window->count < 0 ? window->count : 0;
	struct call bound = call_call(call, from < 0 ? "$max" : "$min"), sum;

	if (from < 0) {
		call_number(&bound, 0);
		sum = call_call(&bound, "$add");
		add_total(&sum, paths);
		call_number(&sum, from);
		call_close(&sum);
	} else {
		call_number(&bound, from);
		add_total(&bound, paths);
	}
	call_close(&bound);
}

/* Where it ends: min(start + count, total). */
static void add_end(struct call *call, const struct paths *paths, const struct window *window)
{
	struct call bound, sum;

	if (!window->skips && window->count < 0) {
		add_total(call, paths);
		return;
	}
	bound = call_call(call, "$min");
	sum = call_call(&bound, "$add");
	add_start(&sum, paths, window);
	call_number(&sum, window->count);
	call_close(&sum);
	add_total(&bound, paths);
	call_close(&bound);
}

/* {<name>: {$cond: [spilled, <start or end>, "$$REMOVE"]}} */
static void write_bound(struct buffer *out, const char *name, const struct paths *paths,
			const struct window *window,
			void (*add)(struct call *call, const struct paths *paths,
				    const struct window *window))
{
	struct call choice = call_open(out, name, "$cond"), test = call_call(&choice, "$gt");

	call_text(&test, paths->count.bytes);
	call_number(&test, 0);
	call_close(&test);
	add(&choice, paths, window);
	call_text(&choice, "$$REMOVE");
	call_close(&choice);
}

static void write_bounds(struct buffer *out, const char *name, const struct paths *paths,
			 const struct window *window)
{
	size_t stage = writer_open_document(out, name), set = writer_open_document(out, "$set");

	write_bound(out, "_spill./s", paths, window, add_start);
	write_bound(out, "_spill./e", paths, window, add_end);
	writer_close(out, set);
	writer_close(out, stage);
}

/* Continues {$max: [0, {$subtract: [s, h]}]}: the window's first element in the overflow. */
static void finish_position(struct call *most, const struct paths *paths)
{
	struct call difference;

	call_number(most, 0);
	difference = call_call(most, "$subtract");
	call_text(&difference, START);
	call_text(&difference, paths->head.bytes);
	call_close(&difference);
	call_close(most);
}

/* The least number of a batch that may hold that one:
 * {$add: [1, {$floor: {$divide: [<position>, size]}}]} */
static void write_least_batch(struct buffer *out, const struct paths *paths,
			      const struct rule *rule)
{
	struct call sum = call_open(out, "least", "$add"), floor, divide, most;

	call_number(&sum, 1);
	floor = call_call(&sum, "$floor");
	divide = call_call(&floor, "$divide");
	most = call_call(&divide, "$max");
	finish_position(&most, paths);
	call_number(&divide, (int32_t)rule->overflow.batch_size);
	call_close(&divide);
	call_close(&floor);
	call_close(&sum);
}

static void write_least(struct buffer *out, const struct paths *paths, const struct rule *rule)
{
	struct call most;

	if (rule->overflow.layout != RULE_ELEMENTS) {
		write_least_batch(out, paths, rule);
		return;
	}
	most = call_open(out, "least", "$max");
	finish_position(&most, paths);
}

static void write_compared(struct call *call, const char *verb, const char *field,
			   const char *variable)
{
	struct call test = call_call(call, verb);

	call_text(&test, field);
	call_text(&test, variable);
	call_close(&test);
}

/* The batches from the least number on that begin before the window ends. */
static void write_joined_pipeline(struct buffer *out, const struct rule *rule)
{
	const char *batch = overflow_order_path(rule);
	auto_text number = text_join("$", batch, ""),
		  link = text_join("$", rule->overflow.link, "");
	size_t pipeline = writer_open_array(out, "pipeline"), stage, inner;
	struct call all;

	stage = writer_open_document(out, "0");
	inner = writer_open_document(out, "$match");
	all = call_open(out, "$expr", "$and");
	write_compared(&all, "$gte", number.bytes, "$$least");
	write_compared(&all, "$eq", "$_spill.g", "$$g");
	write_compared(&all, "$lt", "$_spill.p", "$$end");
	reassemble_add_same_text(&all, link.bytes, "$$id");
	call_close(&all);
	writer_close(out, inner);
	writer_close(out, stage);
	stage = writer_open_document(out, "1");
	inner = writer_open_document(out, "$sort");
	writer_int32(out, batch, 1);
	writer_close(out, inner);
	writer_close(out, stage);
	writer_close(out, pipeline);
}

static void write_lookup(struct buffer *out, const char *name, const struct paths *paths,
			 const struct target *target)
{
	size_t stage = writer_open_document(out, name);
	size_t lookup = writer_open_document(out, "$lookup"), let;
	struct call end;

	writer_string(out, "from", target->overflow_collection);
	writer_string(out, "localField", "_id");
	writer_string(out, "foreignField", target->rule->overflow.link);
	let = writer_open_document(out, "let");
	writer_string(out, "g", paths->generation.bytes);
	writer_string(out, "id", "$_id");
	write_least(out, paths, target->rule);
	end = call_open(out, "end", "$subtract");
	call_text(&end, END);
	call_text(&end, paths->head.bytes);
	call_close(&end);
	writer_close(out, let);
	write_joined_pipeline(out, target->rule);
	writer_string(out, "as", JOINED);
	writer_close(out, lookup);
	writer_close(out, stage);
}

static void add_first(struct call *call)
{
	struct call first = call_call(call, "$arrayElemAt");

	call_text(&first, "$" JOINED "._spill.p");
	call_number(&first, 0);
	call_close(&first);
}

/* Where the first batch that came begins. */
static void write_first(struct buffer *out)
{
	struct call choice = call_open(out, "p", "$ifNull");

	add_first(&choice);
	call_number(&choice, 0);
	call_close(&choice);
}

/* The window takes some of the overflow: {$and: [{$gt: [e, h]}, {$lt: [s, {$add: [h, n]}]}]}. So it
 * is of no ordinary document. */
static void add_overlaps(struct call *call, const struct paths *paths)
{
	struct call test = call_call(call, "$gt"), sum;

	call_text(&test, END);
	call_text(&test, paths->head.bytes);
	call_close(&test);
	test = call_call(call, "$lt");
	call_text(&test, START);
	sum = call_call(&test, "$add");
	call_text(&sum, paths->head.bytes);
	call_text(&sum, paths->count.bytes);
	call_close(&sum);
	call_close(&test);
}

/* The first batch that came, if any did, begins behind where the window does. */
static void add_late(struct call *call, const struct paths *paths)
{
	struct call test = call_call(call, "$gt"), first = call_call(&test, "$ifNull"), most;

	add_first(&first);
	call_number(&first, INT32_MAX);
	call_close(&first);
	most = call_call(&test, "$max");
	finish_position(&most, paths);
	call_close(&test);
}

/* Where what is wanted of the overflow ends: {$min: [n, {$subtract: [e, h]}]} */
static void add_wanted_end(struct call *call, const struct paths *paths)
{
	struct call least = call_call(call, "$min"), difference;

	call_text(&least, paths->count.bytes);
	difference = call_call(&least, "$subtract");
	call_text(&difference, END);
	call_text(&difference, paths->head.bytes);
	call_close(&difference);
	call_close(&least);
}

/* {$let: {vars: {p: <the first one's position>}, in: {$lt: [<where they end, or -1 where they do
 * not run on>, <where the window ends>]}}} */
static void add_short(struct call *call, const struct paths *paths)
{
	const struct tiling tiling = {"$" JOINED, paths->rule->overflow.array, "$$p"};
	struct buffer *out = call->out;
	char name[12];
	size_t document = writer_open_document(out, writer_index(name, call->place++));
	size_t let = writer_open_document(out, "$let"), vars = writer_open_document(out, "vars");
	struct call test, end;

	write_first(out);
	writer_close(out, vars);
	test = call_open(out, "in", "$lt");
	end = call_call(&test, "$ifNull");
	tiling_add_end(&end, &tiling);
	call_number(&end, -1);
	call_close(&end);
	add_wanted_end(&test, paths);
	call_close(&test);
	writer_close(out, let);
	writer_close(out, document);
}

/* {$graphLookup: {startWith: {$cond: [<they begin too late, or do not run on>, ["$_id"], []]},
 * ...}} */
static void write_all(struct buffer *out, const char *name, const struct paths *paths,
		      const struct target *target)
{
	auto_buffer struct buffer start = {0};
	struct call choice = call_open(&start, "startWith", "$cond"), all, either;
	char index[12];
	size_t ids;

	all = call_call(&choice, "$and");
	add_overlaps(&all, paths);
	either = call_call(&all, "$or");
	add_late(&either, paths);
	if (paths->rule->overflow.layout == RULE_BATCHES)
		add_short(&either, paths);
	call_close(&either);
	call_close(&all);
	ids = writer_open_array(&start, writer_index(index, choice.place++));
	writer_string(&start, "0", "$_id");
	writer_close(&start, ids);
	call_nothing(&choice);
	call_close(&choice);
	reassemble_write_join(out, name, target, ALL, buffer_view(&start));
}

/* All there are, in order; of batches what lies behind the window's first element, once. */
static void add_ordered(struct call *call, const struct paths *paths)
{
	const struct tiling tiling = {"$$stored", paths->rule->overflow.array, "$$from"};
	struct buffer *out = call->out;
	char name[12];
	size_t document, let, vars;
	struct call from;

	writer_index(name, call->place++);
	if (paths->rule->overflow.layout == RULE_ELEMENTS) {
		reassemble_write_batches(out, name, paths->rule, ALL);
		return;
	}
	document = writer_open_document(out, name);
	let = writer_open_document(out, "$let");
	vars = writer_open_document(out, "vars");
	reassemble_write_batches(out, "stored", paths->rule, ALL);
	from = call_open(out, "from", "$max");
	finish_position(&from, paths);
	writer_close(out, vars);
	tiling_write_trimmed(out, "in", &tiling);
	writer_close(out, let);
	writer_close(out, document);
}

/* {$set: {"_spill./joined": {$cond: [{$eq: [<all>, []]}, <joined>, <all, in order>]}}} */
static void write_chosen(struct buffer *out, const char *name, const struct paths *paths)
{
	size_t stage = writer_open_document(out, name), set = writer_open_document(out, "$set");
	struct call choice = call_open(out, JOINED, "$cond"), test = call_call(&choice, "$eq");

	call_text(&test, "$" ALL);
	call_nothing(&test);
	call_close(&test);
	call_text(&choice, "$" JOINED);
	add_ordered(&choice, paths);
	call_close(&choice);
	writer_close(out, set);
	writer_close(out, stage);
}

/* {$slice: [array, from, count]}, which takes no count of 0. */
static void add_cut(struct call *call, const char *array, const char *from, const char *count)
{
	struct call choice = call_call(call, "$cond"), part = call_call(&choice, "$gt");

	call_text(&part, count);
	call_number(&part, 0);
	call_close(&part);
	part = call_call(&choice, "$slice");
	call_text(&part, array);
	call_text(&part, from);
	call_text(&part, count);
	call_close(&part);
	call_nothing(&choice);
	call_close(&choice);
}

static void write_difference(struct buffer *out, const char *name, const char *first,
			     const char *second)
{
	struct call call = call_open(out, name, "$subtract");

	call_text(&call, first);
	call_text(&call, second);
	call_close(&call);
}

/* {<name>: {<verb>: [<operand, or 0>, {$subtract: [bound, less]}]}} */
static void write_clamped(struct buffer *out, const char *name, const char *verb,
			  const char *operand, const char *bound, const char *less)
{
	struct call call = call_open(out, name, verb), difference;

	if (operand)
		call_text(&call, operand);
	else
		call_number(&call, 0);
	difference = call_call(&call, "$subtract");
	call_text(&difference, bound);
	call_text(&difference, less);
	call_close(&difference);
	call_close(&call);
}

/* The parts' bounds: of the overflow a to b, of the head s to head, of the tail from tail on. */
static void write_variables(struct buffer *out, const struct paths *paths)
{
	struct call call, sum;

	write_clamped(out, "a", "$max", NULL, START, paths->head.bytes);
	write_clamped(out, "b", "$min", paths->count.bytes, END, paths->head.bytes);
	call = call_open(out, "head", "$min");
	call_text(&call, paths->head.bytes);
	call_text(&call, END);
	call_close(&call);
	call = call_open(out, "tail", "$max");
	call_text(&call, START);
	sum = call_call(&call, "$add");
	call_text(&sum, paths->head.bytes);
	call_text(&sum, paths->count.bytes);
	call_close(&sum);
	call_close(&call);
}

/* {$concatArrays: [head, overflow, tail]}, each as far as it lies in the window */
static void add_parts(struct call *call, const struct paths *paths)
{
	char name[12];
	size_t let = writer_open_document(call->out, writer_index(name, call->place++)), inner,
	       vars;
	struct call parts;

	inner = writer_open_document(call->out, "$let");
	vars = writer_open_document(call->out, "vars");
	write_difference(call->out, "heads", "$$head", START);
	write_difference(call->out, "from", "$$a", "$$p");
	write_difference(call->out, "count", "$$b", "$$a");
	write_difference(call->out, "tailed", "$$tail", paths->count.bytes);
	write_difference(call->out, "tails", END, "$$tail");
	writer_close(call->out, vars);
	parts = call_open(call->out, "in", "$concatArrays");
	add_cut(&parts, paths->array.bytes, START, "$$heads");
	add_cut(&parts, "$$o", "$$from", "$$count");
	add_cut(&parts, paths->array.bytes, "$$tailed", "$$tails");
	call_close(&parts);
	writer_close(call->out, inner);
	writer_close(call->out, let);
}

/* Nothing of the overflow is in the window, or all that is has come. */
static void add_enough(struct call *call)
{
	struct call either = call_call(call, "$or"), all, test, sum, size;

	write_compared(&either, "$lte", "$$b", "$$a");
	all = call_call(&either, "$and");
	write_compared(&all, "$lte", "$$p", "$$a");
	test = call_call(&all, "$gte");
	sum = call_call(&test, "$add");
	call_text(&sum, "$$p");
	size = call_call(&sum, "$size");
	call_text(&size, "$$o");
	call_close(&size);
	call_close(&sum);
	call_text(&test, "$$b");
	call_close(&test);
	call_close(&all);
	call_close(&either);
}

/* {$let: {vars: ..., in: ...}}, open twice: for the variables, then for the expression. */
struct let {
	struct buffer *out;
	size_t document, let, vars;
};

static struct let open_let(struct buffer *out, const char *name)
{
	struct let let = {.out = out};

	let.document = writer_open_document(out, name);
	let.let = writer_open_document(out, "$let");
	let.vars = writer_open_document(out, "vars");
	return let;
}

static void close_vars(struct let *let)
{
	writer_close(let->out, let->vars);
}

static void close_let(struct let *let)
{
	writer_close(let->out, let->let);
	writer_close(let->out, let->document);
}

static void write_joined_array(struct buffer *out, const struct paths *paths)
{
	if (paths->rule->overflow.layout == RULE_ELEMENTS)
		reassemble_write_elements(out, "runs", paths->rule, "$" JOINED, "$$p",
					  paths->strict);
	else
		reassemble_write_runs(
			out, "runs",
			&(struct runs){"$" JOINED, "$$this._spill.p", paths->part.bytes, "$$p"});
}

/* What came as one array, then the window or an error. */
static void add_window(struct call *call, const struct paths *paths)
{
	struct buffer *out = call->out;
	char name[12];
	struct let outer = open_let(out, writer_index(name, call->place++)), middle, inner;
	struct call choice;

	write_first(out);
	close_vars(&outer);
	middle = open_let(out, "in");
	write_joined_array(out, paths);
	write_variables(out, paths);
	close_vars(&middle);
	inner = open_let(out, "in");
	choice = call_open(out, "o", "$ifNull");
	call_text(&choice, "$$runs");
	call_nothing(&choice);
	call_close(&choice);
	close_vars(&inner);
	choice = call_open(out, "in", "$cond");
	add_enough(&choice);
	add_parts(&choice, paths);
	reassemble_add_death(&choice, &paths->naming);
	call_close(&choice);
	close_let(&inner);
	close_let(&middle);
	close_let(&outer);
}

/* An ordinary document's array, or whatever stands there. */
static void add_ordinary(struct call *call, const struct paths *paths, const struct window *window)
{
	struct call choice = call_call(call, "$cond"), slice;

	call_unary(&choice, "$isArray", paths->array.bytes);
	slice = call_call(&choice, "$slice");
	call_text(&slice, paths->array.bytes);
	if (window->skips)
		call_number(&slice, window->skip);
	call_number(&slice, window->count);
	call_close(&slice);
	call_text(&choice, paths->array.bytes);
	call_close(&choice);
}

static void write_array(struct buffer *out, const char *name, const struct paths *paths,
			const struct window *window)
{
	size_t stage = writer_open_document(out, name), set = writer_open_document(out, "$set");
	struct call choice = call_open(out, window->target->rule->array, "$cond"), test;

	test = call_call(&choice, "$gt");
	call_text(&test, paths->count.bytes);
	call_number(&test, 0);
	call_close(&test);
	add_window(&choice, paths);
	add_ordinary(&choice, paths, window);
	call_close(&choice);
	writer_close(out, set);
	writer_close(out, stage);
}

void window_write_stages(struct buffer *out, size_t *place, const struct ruled_namespace *namespace,
			 const struct window *window, bool strict)
{
	struct paths paths = paths_of(namespace, window->target->rule, strict);
	char name[12];

	reassemble_write_sound(out, writer_index(name, (*place)++), paths.rule, &paths.naming);
	write_bounds(out, writer_index(name, (*place)++), &paths, window);
	write_lookup(out, writer_index(name, (*place)++), &paths, window->target);
	write_all(out, writer_index(name, (*place)++), &paths, window->target);
	write_chosen(out, writer_index(name, (*place)++), &paths);
	write_array(out, writer_index(name, (*place)++), &paths, window);
	paths_free(&paths);
}
