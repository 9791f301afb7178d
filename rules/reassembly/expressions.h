/* Aggregation expressions that several stages use, as texts of templates (protocol/template.h).
 *
 * The arguments of these macros are texts, too. A path is written as mongod reads it in an
 * expression: "$_id", "$$this.k". Places are filled by REASSEMBLE_FILLS (reassemble.h), if a text
 * does not say by what else. */
#pragma once

#include "protocol/template.h"

/* The texts are laid out by hand. */
/* clang-format off */

/* $type tells "missing", too. */
#define EXPRESSION_TYPE_IS(path, type) "{$eq: [{$type: '" path "'}, '" type "']}"

/* Names are compared by their bytes. A collation may take another name for this one. */
#define EXPRESSION_BEGINS(text, with) "{$eq: [{$indexOfBytes: ['" text "', '" with "']}, 0]}"
#define EXPRESSION_IS_NAME(text, name, length) \
	"{$and: [{$eq: [{$strLenBytes: '" text "'}, " length "]}, " \
		EXPRESSION_BEGINS(text, name) "]}"

/* A document without its fields of some names. `tests`: of a name, "$$e.k". */
#define EXPRESSION_FIELDS_BUT(document, tests) \
	"{$arrayToObject: [{$filter: {" \
		"input: {$objectToArray: ['" document "']}, " \
		"as: 'e', " \
		"cond: {$not: [{$or: [" tests "]}]}}}]}"

/* Some field of the document has a name of Spillway's own. */
#define EXPRESSION_HAS_OUR_NAME \
	"{$anyElementTrue: [{$map: {" \
		"input: {$objectToArray: '$$ROOT'}, " \
		"in: {$or: [" \
			EXPRESSION_IS_NAME("$$this.k", "_spill", "6") ", " \
			EXPRESSION_BEGINS("$$this.k", "_spill/") ", " \
			EXPRESSION_BEGINS("$$this.k", "_spill.") "]}}}]}"

/* A collation is in force. Under every one but the simple one a text is equal to its form without
 * composed letters. */
#define EXPRESSION_IS_COLLATED "{$eq: ['\u00e9', 'e\u0301']}"

/* If `id` is a text, the link has the same bytes. A join also finds what is equal under the
 * command's collation, and a damaged document may name another one's generation.
 *
 * What is no text is replaced by "": mongod evaluates what is constant in a joined pipeline before
 * it looks at the conditions around it. It may judge the link before the join's condition. */
#define EXPRESSION_SAME_TEXT(link, id) \
	"{$or: [{$ne: [{$type: '" id "'}, 'string']}, {$and: [" \
		EXPRESSION_TYPE_IS(link, "string") ", " \
		"{$eq: [{$strLenBytes: [" EXPRESSION_TEXT_OF(link) "]}, " \
			"{$strLenBytes: [" EXPRESSION_TEXT_OF(id) "]}]}, " \
		"{$eq: [{$indexOfBytes: [" \
			EXPRESSION_TEXT_OF(link) ", " EXPRESSION_TEXT_OF(id) "]}, 0]}]}]}"
#define EXPRESSION_TEXT_OF(path) \
	"{$cond: [" EXPRESSION_TYPE_IS(path, "string") ", '" path "', '']}"

/* clang-format on */
