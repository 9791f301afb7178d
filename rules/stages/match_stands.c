/* Says where a $match stands. */
#include "rules/stages/match_stands.h"

#include "rules/query/filter_words.h"
#include "rules/query/filter_split.h"
#include "rules/rule/walk.h"

enum match_stands match_stands_behind(enum match_stands before, const struct element *stage)
{
	static const char *const barriers[] = {"$limit", "$skip", "$sample"};
	struct element verb;

	if (!element_only_field(stage, &verb))
		return before == MATCH_STANDS_APART ? before : MATCH_STANDS_UNCLEAR;
	for (size_t i = 0; i < ARRAY_LENGTH(barriers); i++)
		if (element_is(&verb, barriers[i]))
			return before == MATCH_STANDS_APART ? before : MATCH_STANDS_BEHIND;
	if (element_is(&verb, "$match") || element_is(&verb, "$sort"))
		return before;
	/* mongod puts a $match behind a $unionWith into both pipelines. */
	return before == MATCH_STANDS_APART && !element_is(&verb, "$unionWith")
		       ? before
		       : MATCH_STANDS_UNCLEAR;
}

/* A path begins or ends with a dot, or has two of them in a row. */
static bool has_empty_part(struct bytes path)
{
	bool empty = true;
	bool dotted = memchr(path.data, '.', path.length) != NULL;

	for (size_t i = 0; dotted && i < path.length; i++) {
		if (path.data[i] == '.' && empty)
			return true;
		empty = path.data[i] == '.';
	}
	return dotted && empty;
}

static bool names_empty_part(struct bytes document)
{
	struct walk walk;
	struct element element;
	enum cursor_step step = walk_first(&walk, BSON_BYTE_DOCUMENT, document, &element);

	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element))
		if ((!walk_in_array(&walk) && has_empty_part(element.name)) ||
		    !walk_within(&walk, &element))
			return true;
	return false;
}

/* In a $facet, and behind some stages, mongod refuses such a path: 40353, 15998. A query may have
 * it. */
static bool may_be_refused(enum match_stands stands, const struct element *stage)
{
	struct element verb;

	return element_only_field(stage, &verb) && verb.type == BSON_BYTE_DOCUMENT &&
	       (element_is(&verb, "$facet") ||
		(element_is(&verb, "$match") && stands != MATCH_STANDS_QUERY)) &&
	       names_empty_part(verb.value);
}

const char *match_unclear(enum match_stands stands, const struct element *stage)
{
	struct element filter;
	enum filter_words words;

	if (may_be_refused(stands, stage))
		return "a path with an empty part can't be followed behind other stages";
	if (stands == MATCH_STANDS_APART || !filter_of_match(stage, &filter))
		return NULL;
	words = filter_words_of(filter.value);
	if (words == FILTER_WORDS_PLAIN || words == FILTER_WORDS_SPREAD ||
	    (words == FILTER_WORDS_WIDENED && stands == MATCH_STANDS_QUERY))
		return NULL;
	return "a bit test with a binary mask that has a byte of 0x80 or more can't be told from "
	       "mongod's two readings of that mask here; write the mask as a list of bit positions";
}

bool match_differs(enum match_stands stands, struct bytes filter)
{
	enum filter_words words = filter_words_of(filter);

	return words == FILTER_WORDS_SPREAD ||
	       (words == FILTER_WORDS_WIDENED && stands == MATCH_STANDS_QUERY);
}

const char *match_unclear_from(struct bytes pipeline, size_t first)
{
	enum match_stands stands = MATCH_STANDS_QUERY;
	const char *why = NULL;
	struct element stage;
	struct cursor cursor;

	if (!cursor_open(&cursor, pipeline))
		return NULL;
	for (size_t i = 0; !why && cursor_next(&cursor, &stage) == CURSOR_ELEMENT; i++) {
		if (i >= first)
			why = match_unclear(stands, &stage);
		stands = match_stands_behind(stands, &stage);
	}
	return why;
}
