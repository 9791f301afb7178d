/* Writes the stages that cut a window out of an array, spilled or not.
 *
 *   $set           _spill./s, ./e    the window in the whole array's positions, of spilled
 *                                    documents
 *   $lookup        _spill./joined    the batches that overlap it, in order
 *   $graphLookup   _spill./all       if these begin too late or do not run on: all there are
 *   $set           _spill./joined    they, each position once, then
 *   $set           f                 head, overflow and tail, each as far as it lies in the window
 *
 * A batch holds at most batch_size elements, so that position x lies in batch x / batch_size + 1 or
 * a later one: from there on batches are looked at, by the index on the link and the number. Those
 * that were stored under a larger batch_size are found by the second join, and so are those that
 * another one overlaps. If each element has a document of its own, its position is what they are
 * looked at by. */
#include "rules/stages/stage_window.h"

#include "rules/reassembly/joined.h"
#include "rules/reassembly/reassemble.h"
#include "rules/rule/names.h"
#include "rules/rule/overflow_document.h"

/* ---- where the window lies ---- */

/* Its start is max(0, total + skip), or min(skip, total). Its end is min(start + count, total). */
static void write_bounds(struct buffer *out, size_t *place, const struct rule *rule,
			 const struct window *window)
{
	bool last = !window->skips && window->count < 0;
	int32_t from = window->skips ? window->skip : last ? window->count : 0;

	template_append(out, place,
			"{$set: {"
			"'_spill./s': {$cond: [{$gt: ['$_spill.@key.n', 0]}, @start, '$$REMOVE']}, "
			"'_spill./e': {$cond: [{$gt: ['$_spill.@key.n', 0]}, @end, '$$REMOVE']}}}",
			fill("key", rule->key), fill("array", rule->array), fill("from", from),
			fill("count", window->count),
			fill_template("total", "{$add: ['$_spill.@key.n', {$size: '$@array'}]}"),
			fill_template("start", from < 0 ? "{$max: [0, {$add: [@total, @from]}]}"
							: "{$min: [@from, @total]}"),
			fill_template("end", last ? "@total"
						  : "{$min: [{$add: [@start, @count]}, @total]}"));
}

/* ---- what of the overflow lies in it ---- */

/* The window's first element in the overflow. */
static const char position[] = "{$max: [0, {$subtract: ['$_spill./s', '$_spill.@key.h']}]}";
/* The least number of a batch that may hold it. */
static const char batch_number[] = "{$add: [1, {$floor: [{$divide: [@position, @batch_size]}]}]}";

static void write_lookup(struct buffer *out, size_t *place, const struct target *target)
{
	const struct rule *rule = target->rule;
	bool elements = rule->overflow.layout == RULE_ELEMENTS;

	template_append(out, place,
			"{$lookup: {"
			"from: '@overflow', localField: '_id', foreignField: '@link', "
			"let: {g: '$_spill.@key.g', id: '$_id', least: @least, "
			"end: {$subtract: ['$_spill./e', '$_spill.@key.h']}}, "
			"pipeline: [{$match: {$expr: {$and: ["
			"{$gte: ['$@number', '$$least']}, "
			"{$eq: ['$_spill.g', '$$g']}, "
			"{$lt: ['$_spill.p', '$$end']}, "
			"@same_text, @has_array]}}}, "
			"{$sort: {@number: 1}}], "
			"as: '_spill./joined'}}",
			fill("overflow", target->overflow_collection), fill("key", rule->key),
			fill("link", rule->overflow.link),
			fill("number", overflow_order_path(rule)),
			fill("batch_size", (int32_t)rule->overflow.batch_size),
			fill_template("least", elements ? "@position" : batch_number),
			fill_template("position", position),
			fill_template("same_text", EXPRESSION_SAME_TEXT("$@link", "$$id")),
			fill_template("has_array", elements ? "true" : "{$isArray: '$@batch'}"),
			fill("batch", rule->overflow.array));
}

/* The window takes some of the overflow, so this is no ordinary document. And the first batch that
 * came, if any did, begins behind where the window does, or they do not reach its end. */
static const char all_if_short[] =
	"{$cond: [{$and: ["
	"{$gt: ['$_spill./e', '$_spill.@key.h']}, "
	"{$lt: ['$_spill./s', {$add: ['$_spill.@key.h', '$_spill.@key.n']}]}, "
	"{$or: ["
	"{$gt: ["
	"{$ifNull: [{$arrayElemAt: ['$_spill./joined._spill.p', 0]}, 2147483647]}, "
	"@position]}, "
	"..@short]}]}, "
	"['$_id'], []]}";
/* Where they do not run on, they end before any window does. */
static const char short_batches[] =
	"[{$let: {vars: {p: @first}, in: {$lt: ["
	"{$ifNull: [@tiling_end, -1]}, "
	"{$min: ['$_spill.@key.n', {$subtract: ['$_spill./e', '$_spill.@key.h']}]}]}}}]";
/* Where the first batch that came begins. */
static const char first[] = "{$ifNull: [{$arrayElemAt: ['$_spill./joined._spill.p', 0]}, 0]}";

static void write_all(struct buffer *out, size_t *place, const struct ruled_namespace *namespace,
		      const struct target *target)
{
	bool batches = target->rule->overflow.layout == RULE_BATCHES;

	template_append(out, place, JOINED_STAGE("@start", "_spill./all"),
			REASSEMBLE_FILLS(namespace, target), fill_template("start", all_if_short),
			fill_template("position", position), fill_template("first", first),
			fill_template("short", batches ? short_batches : "[]"),
			fill_template("tiling_end", TILING_END("$_spill./joined", "'$$p'")));
}

/* All there are, in order; of batches what lies behind the window's first element, once. */
static void write_chosen(struct buffer *out, size_t *place, const struct ruled_namespace *namespace,
			 const struct target *target)
{
	bool elements = target->rule->overflow.layout == RULE_ELEMENTS;

	template_append(out, place,
			"{$set: {'_spill./joined': {$cond: ["
			"{$eq: ['$_spill./all', []]}, '$_spill./joined', @ordered]}}}",
			REASSEMBLE_FILLS(namespace, target),
			fill_template("ordered", elements ? "@all"
							  : "{$let: {vars: {"
							    "stored: @all, from: @position}, "
							    "in: @trimmed}}"),
			fill_template("all", JOINED_BATCHES("$_spill./all")),
			fill_template("has_array", JOINED_HAS_ARRAY(target->rule, "$$this")),
			fill_template("position", position),
			fill_template("trimmed", TILING_TRIMMED("$$stored", "'$$from'")));
}

/* ---- the window ---- */

/* What came as one array, o, from position p on. Of the overflow the window takes a to b, of the
 * head s to head, of the tail what stands behind tail. */
static const char cut_window[] =
	"{$let: {vars: {p: @first}, in: {$let: {"
	"vars: {"
	"runs: @runs, "
	"a: {$max: [0, {$subtract: ['$_spill./s', '$_spill.@key.h']}]}, "
	"b: {$min: ['$_spill.@key.n', {$subtract: ['$_spill./e', '$_spill.@key.h']}]}, "
	"head: {$min: ['$_spill.@key.h', '$_spill./e']}, "
	"tail: {$max: ['$_spill./s', {$add: ['$_spill.@key.h', '$_spill.@key.n']}]}}, "
	"in: {$let: {vars: {o: {$ifNull: ['$$runs', []]}}, in: {$cond: ["
	"@enough, @parts, @dead_error]}}}}}}}";
/* Nothing of the overflow is in the window, or all that is has come. */
static const char enough[] = "{$or: [{$lte: ['$$b', '$$a']}, {$and: ["
			     "{$lte: ['$$p', '$$a']}, "
			     "{$gte: [{$add: ['$$p', {$size: ['$$o']}]}, '$$b']}]}]}";
/* $slice takes no count of 0. */
static const char parts[] =
	"{$let: {"
	"vars: {"
	"heads: {$subtract: ['$$head', '$_spill./s']}, "
	"from: {$subtract: ['$$a', '$$p']}, "
	"count: {$subtract: ['$$b', '$$a']}, "
	"tailed: {$subtract: ['$$tail', '$_spill.@key.n']}, "
	"tails: {$subtract: ['$_spill./e', '$$tail']}}, "
	"in: {$concatArrays: ["
	"{$cond: [{$gt: ['$$heads', 0]}, {$slice: ['$@array', '$_spill./s', '$$heads']}, []]}, "
	"{$cond: [{$gt: ['$$count', 0]}, {$slice: ['$$o', '$$from', '$$count']}, []]}, "
	"{$cond: [{$gt: ['$$tails', 0]}, {$slice: ['$@array', '$$tailed', '$$tails']}, []]}]}}}";

static void write_array(struct buffer *out, size_t *place, const struct ruled_namespace *namespace,
			const struct window *window, bool strict)
{
	const struct rule *rule = window->target->rule;
	bool elements = rule->overflow.layout == RULE_ELEMENTS;

	template_append(
		out, place,
		"{$set: {@array: {$cond: ["
		"{$gt: ['$_spill.@key.n', 0]}, "
		"@window, "
		"{$cond: [{$isArray: '$@array'}, {$slice: @ordinary}, '$@array']}]}}}",
		REASSEMBLE_FILLS(namespace, window->target), fill_template("window", cut_window),
		fill_template("first", first), fill_template("enough", enough),
		fill_template("parts", parts),
		fill_template("runs",
			      elements ? JOINED_ELEMENTS("$_spill./joined", "'$$p'", "'$$p', ")
				       : JOINED_RUN("$_spill./joined", "$$this._spill.p",
						    "$$this.@batch", "'$$p', ")),
		JOINED_ELEMENT_FILLS(rule, strict),
		fill_template("ordinary",
			      window->skips ? "['$@array', @skip, @count]" : "['$@array', @count]"),
		fill("skip", window->skip), fill("count", window->count));
}

/* ---- marks ---- */

/* Some of the array may be in the overflow. A state that is damaged may be called so or not:
 * whoever cuts the window looks at it. */
static const char elsewhere[] = "{$and: ["
				"{$gt: [{$ifNull: ['$_spill.@key.n', '$_spill.@key.e']}, 0]}, "
				"{$eq: [{$type: '$_spill'}, 'object']}]}";

/* The windows of a find, one for each target. */
struct marking {
	const struct ruled_namespace *namespace;
	struct window *windows;
};

/* A find that wants the whole array names no window of it. */
static bool is_cut(const struct marking *marking, size_t target)
{
	return marking->windows[target].count != INT32_MAX || marking->windows[target].skips;
}

static void splice_elsewhere(struct buffer *out, size_t *place, const void *context)
{
	const struct marking *marking = context;

	for (size_t i = 0; i < marking->namespace->target_count; i++)
		if (is_cut(marking, i))
			template_append(out, place, elsewhere,
					fill("key", marking->namespace->targets[i].rule->key));
}

static void splice_cuts(struct buffer *out, size_t *place, const void *context)
{
	const struct marking *marking = context;

	(void)place;
	for (size_t i = 0; i < marking->namespace->target_count; i++) {
		const struct rule *rule = marking->namespace->targets[i].rule;
		const struct window *window = &marking->windows[i];

		if (is_cut(marking, i))
			template_write_fields(
				out,
				"{@array: {$cond: ["
				"{$or: [@elsewhere, {$not: [{$isArray: '$@array'}]}]}, "
				"'$@array', {$slice: @slice}]}}",
				fill("array", rule->array), fill("key", rule->key),
				fill_template("elsewhere", elsewhere),
				fill_template("slice", window->skips ? "['$@array', @skip, @count]"
								     : "['$@array', @count]"),
				fill("skip", window->skip), fill("count", window->count));
	}
}

static void splice_marks(struct buffer *out, size_t *place, const void *context)
{
	const struct marking *marking = context;

	(void)place;
	for (size_t i = 0; i < marking->namespace->target_count; i++) {
		const struct window *window = &marking->windows[i];

		if (is_cut(marking, i))
			template_write_fields(
				out,
				"{@key: {$cond: [@elsewhere, [@skip, @count, @skips], "
				"'$$REMOVE']}}",
				fill("key", marking->namespace->targets[i].rule->key),
				fill_template("elsewhere", elsewhere), fill("skip", window->skip),
				fill("count", window->count), fill("skips", window->skips));
	}
}

/* The mark is the first field, as the states behind it are read by it. */
void window_write_marks(struct buffer *out, size_t *place, const struct ruled_namespace *namespace,
			struct bytes projection)
{
	auto_free struct window *windows = must_calloc(namespace->target_count, sizeof(*windows));
	const struct marking marking = {namespace, windows};

	require(windows_of(projection, namespace, windows) > 0);
	template_append(out, place,
			"{$set: {..@cuts, _spill: {$cond: [{$or: [..@elsewhere]}, "
			"{$mergeObjects: [{@mark: 0}, '$_spill', {@mark: {..@marks}}]}, "
			"'$_spill']}}}",
			fill("mark", NAME_WINDOW_MARK), fill_spliced("cuts", splice_cuts, &marking),
			fill_spliced("elsewhere", splice_elsewhere, &marking),
			fill_spliced("marks", splice_marks, &marking));
}

void window_write_stages(struct buffer *out, size_t *place, const struct ruled_namespace *namespace,
			 const struct window *window, bool strict)
{
	const struct target *target = window->target;

	reassemble_write_sound(out, place, namespace, target);
	write_bounds(out, place, target->rule, window);
	write_lookup(out, place, target);
	write_all(out, place, namespace, target);
	write_chosen(out, place, namespace, target);
	write_array(out, place, namespace, window, strict);
}
