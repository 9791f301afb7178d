/* Expressions that make one array of what a join has brought of the overflow. Texts of templates:
 * see expressions.h. */
#pragma once

#include "rules/reassembly/tiling.h"

/* The texts are laid out by hand. */
/* clang-format off */

/* The stage that joins a target's overflow, in no order. `start`: a list of the document's _id, or
 * an empty one if nothing is asked for. No document has the field that it would go on by. */
#define JOINED_STAGE(start, as) \
	"{$graphLookup: {" \
		"from: '@overflow', " \
		"startWith: " start ", " \
		"connectFromField: '_spill./none', " \
		"connectToField: '@link', " \
		"maxDepth: 0, " \
		"as: '" as "'}}"

/* Of what was joined at a path, what is of the document's generation, in order. A batch whose array
 * is none (@has_array, JOINED_HAS_ARRAY) is as good as missing. */
#define JOINED_BATCHES(path) \
	"{$sortArray: {" \
		"input: {$filter: {" \
			"input: '" path "', " \
			"cond: {$and: [" \
				"{$eq: ['$$this._spill.g', '$_spill.@key.g']}, " \
				EXPRESSION_SAME_TEXT("$$this.@link", "$_id") ", @has_array]}}}, " \
		"sortBy: {_spill.p: 1}}}"
#define JOINED_HAS_ARRAY(rule, path) \
	((rule)->overflow.layout == RULE_BATCHES ? "{$isArray: '" path ".@batch'}" : "true")

/* Documents, in order, as one array; null if one doesn't begin where those before it end. Each has
 * its `position` and its `elements`, behind "$$this". `first` is where the first one begins, as an
 * operand with its comma: "'$$p', ", or "" for 0. */
#define JOINED_RUN(input, position, elements, first) \
	"{$reduce: {input: '" input "', initialValue: [], in: {$cond: [" \
		"{$isArray: '$$value'}, " \
		"{$cond: [" \
			"{$eq: ['" position "', {$add: [" first "{$size: '$$value'}]}]}, " \
			"{$concatArrays: ['$$value', '" elements "']}, " \
			"null]}, " \
		"null]}}}"

/* All batches as one array, in runs of 32: to append batch by batch to one array takes time by the
 * square of their number. */
#define JOINED_RUNS(input) \
	"{$let: {" \
		"vars: {batches: " TILING_BATCHES(input, "0") "}, " \
		"in: {$let: {" \
			"vars: {runs: {$map: {" \
				"input: {$range: [0, {$size: '$$batches'}, 32]}, " \
				"in: {$let: {" \
					"vars: {" \
						"run: {$slice: ['$$batches', '$$this', 32]}, " \
						"first: {$arrayElemAt: ['$$batches', " \
						"'$$this']}}, " \
					"in: {" \
						"p: '$$first._spill.p', " \
						"a: " JOINED_RUN("$$run", \
							"$$this._spill.p", \
							"$$this.@batch", \
							"'$$first._spill.p', ") \
						"}}}}}}, " \
			"in: " JOINED_RUN("$$runs", "$$this.p", "$$this.a", "") "}}}}"

/* The same of overflow documents of one element each: an element is `_spill.v`, or else the
 * document's own fields, @element. `from`: the first position; `first`: as above. */
#define JOINED_ELEMENTS(input, from, first) \
	"{$let: {" \
		"vars: {each: " TILING_ELEMENTS(input, from) "}, " \
		"in: {$cond: [" \
			"{$eq: [" \
				"'$$each._spill.p', " \
				"{$range: [" from ", {$add: [" first "{$size: '$$each'}]}]}]}, " \
			"{$map: {input: '$$each', in: {$cond: [" \
				EXPRESSION_TYPE_IS("$$this._spill.v", "missing") ", " \
				"@element, " \
				"'$$this._spill.v']}}}, " \
			"null]}}}"

/* Fills @element. $unsetField keeps the order of fields. But what it removes keeps its place: a
 * later stage that sets such a field would put it there. $mergeObjects forgets the place. The
 * Stable API, `strict`, does not have $unsetField: there the same takes longer. No name stands
 * twice in such an element, nor is one that these operators refuse: it would be in `_spill.v`. */
#define JOINED_ELEMENT_FILLS(rule, strict) \
	fill_template("element", (strict) ? JOINED_OTHER_FIELDS : JOINED_UNSET_OURS), \
	fill("link_length", (int32_t)strlen((rule)->overflow.link))
#define JOINED_UNSET_OURS \
	"{$mergeObjects: [{$unsetField: {field: '_id', " \
		"input: {$unsetField: {field: '_spill', " \
			"input: {$unsetField: {field: '@link', input: '$$this'}}}}}}]}"
#define JOINED_OTHER_FIELDS \
	EXPRESSION_FIELDS_BUT("$$this", \
		EXPRESSION_IS_NAME("$$e.k", "_id", "3") ", " \
		EXPRESSION_IS_NAME("$$e.k", "_spill", "6") ", " \
		EXPRESSION_IS_NAME("$$e.k", "@link", "@link_length"))

/* clang-format on */
