/* Expressions by which mongod puts overflow documents in a row that may overlap: two Spillways with
 * another batch size each have stored the same elements, or the overflow's unique index is missing.
 * A position has one value, so any document that holds it will do (docs/internals/
 * spill-protocol.md, "Reading an array"). Texts of templates: see expressions.h.
 *
 * `input`: a path or a variable: batches of one generation, by their positions. `first`: the
 * position that the row begins with, as an operand: "0", or "'$$p'". */
#pragma once

#include "rules/reassembly/expressions.h"

/* The texts are laid out by hand. */
/* clang-format off */

/* The position behind the last batch; null if one does not begin where the one before it ends. */
#define TILING_END(input, first) \
	"{$reduce: {input: '" input "', initialValue: " first ", in: {$cond: [" \
		"{$eq: ['$$this._spill.p', '$$value']}, " \
		"{$add: ['$$value', {$size: '$$this.@batch'}]}, " \
		"null]}}}"

/* The batches, each as far as it goes on where those before it end. A batch behind a hole stays as
 * it is. `over` is how many of a batch's elements are there already. */
#define TILING_TRIMMED(input, first) \
	"{$let: {" \
		"vars: {trimmed: {$reduce: {" \
			"input: '" input "', " \
			"initialValue: {end: " first ", all: []}, " \
			"in: {$let: {" \
				"vars: {over: {$subtract: ['$$value.end', '$$this._spill.p']}}, " \
				"in: {$cond: [" \
					"{$gte: ['$$over', {$size: '$$this.@batch'}]}, " \
					"'$$value', " \
					TILING_LONGER "]}}}}}}, " \
		"in: '$$trimmed.all'}}"
#define TILING_LONGER \
	"{end: {$add: ['$$this._spill.p', {$size: '$$this.@batch'}]}, " \
	"all: {$concatArrays: ['$$value.all', [{$cond: [" \
		"{$gt: ['$$over', 0]}, " \
		"{@batch: {$slice: ['$$this.@batch', '$$over', 2147483647]}, " \
			"_spill: {p: '$$value.end'}}, " \
		"'$$this']}]]}}"

/* The batches as they are if they run on, else trimmed. All but a few documents have the first
 * kind, and it costs next to nothing. */
#define TILING_BATCHES(input, first) \
	"{$cond: [" \
		"{$eq: [" TILING_END(input, first) ", null]}, " \
		TILING_TRIMMED(input, first) ", " \
		"'" input "']}"

/* Of documents of one element each, one for each position. If there are not as many documents as
 * positions: those whose position is another than that of the document before them. */
#define TILING_ELEMENTS(input, first) \
	"{$let: {" \
		"vars: {last: {$arrayElemAt: ['" input "', -1]}}, " \
		"in: {$cond: [" \
			"{$eq: [" \
				"{$size: '" input "'}, " \
				"{$subtract: [{$add: ['$$last._spill.p', 1]}, " first "]}]}, " \
			"'" input "', " \
			"{$map: {" \
				"input: {$filter: {" \
					"input: {$zip: {inputs: [" \
						"'" input "', " \
						"{$concatArrays: [[null], '" input "']}]}}, " \
					"cond: {$let: {" \
						"vars: {" \
							"one: {$arrayElemAt: ['$$this', 0]}, " \
							"other: {$arrayElemAt: ['$$this', 1]}}, " \
						"in: {$ne: ['$$one._spill.p', " \
						"'$$other._spill.p']}" \
						"}}}}, " \
				"in: {$arrayElemAt: ['$$this', 0]}}}]}}}"

/* clang-format on */
