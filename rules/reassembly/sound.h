/* Expressions by which mongod tells a sound state from a damaged one (docs/internals/
 * spill-protocol.md, "Main document"). Texts of templates: see expressions.h. */
#pragma once

#include "rules/reassembly/expressions.h"

/* The texts are laid out by hand. */
/* clang-format off */

#define SOUND_NO_STATE EXPRESSION_TYPE_IS("$_spill", "missing")
/* An edit in place has written it, sound or not. The other expressions take it for damaged. */
#define SOUND_EDITED EXPRESSION_TYPE_IS("$_spill.@key.e", "object")
#define SOUND_NO_STATE_OF_RULE EXPRESSION_TYPE_IS("$_spill.@key", "missing")

/* Of a document that has `_spill`: the rule's array has a state there that can't be read, or
 * `_spill` is no document. */
#define SOUND_DAMAGED \
	"{$not: [{$or: [" \
		"{$and: [" \
			EXPRESSION_TYPE_IS("$_spill", "object") ", " \
			SOUND_NO_STATE_OF_RULE "]}, " \
		SOUND_STATE "]}]}"

/* What Spillway writes: {g: <16 bytes>, h, n}. The document has the array and its head.
 *
 * mongod 6.0 has no operator that tells the subtype of a binary. It compares binaries by length,
 * then by subtype, then by their bytes: between these two lie just the names of generations. */
#define SOUND_STATE \
	"{$and: [" \
		EXPRESSION_TYPE_IS("$_spill.@key", "object") ", " \
		"{$gte: ['$_spill.@key.g', HexData(0, '00000000000000000000000000000000')]}, " \
		"{$lte: ['$_spill.@key.g', HexData(0, 'ffffffffffffffffffffffffffffffff')]}, " \
		SOUND_COUNT("$_spill.@key.h") ", " \
		SOUND_COUNT("$_spill.@key.n") ", " \
		"{$or: [" \
			"{$eq: ['$_spill.@key.n', 0]}, " \
			"{$and: [" \
				"{$isArray: '$@array'}, " \
				"{$gte: [{$size: '$@array'}, '$_spill.@key.h']}]}]}]}"
/* A whole number, not below 0: three conditions. */
#define SOUND_COUNT(path) \
	"{$isNumber: '" path "'}, " \
	"{$gte: ['" path "', 0]}, " \
	"{$eq: ['" path "', {$trunc: '" path "'}]}"

/* clang-format on */
