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

/* Those of a DBRef are taken everywhere. */
static bool is_odd_part(struct bytes part)
{
	return part.length == 0 || (part.data[0] == '$' && !bytes_are(part, "$id") &&
				    !bytes_are(part, "$ref") && !bytes_are(part, "$db"));
}

/* A path of several parts has an empty one, or one that begins with `$`. */
static bool has_odd_part(struct bytes path)
{
	const uint8_t *dot = memchr(path.data, '.', path.length);

	if (!dot)
		return false;
	for (; dot; dot = memchr(path.data, '.', path.length)) {
		size_t length = (size_t)(dot - path.data);

		if (is_odd_part((struct bytes){path.data, length}))
			return true;
		path = (struct bytes){dot + 1, path.length - length - 1};
	}
	return is_odd_part(path);
}

static bool names_odd_part(struct bytes document)
{
	struct walk walk;
	struct element element;
	enum cursor_step step = walk_first(&walk, BSON_BYTE_DOCUMENT, document, &element);

	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element))
		if ((!walk_in_array(&walk) && has_odd_part(element.name)) ||
		    !walk_within(&walk, &element))
			return true;
	return false;
}

/* In a $facet, and behind some stages, mongod refuses such a path: 40353, 15998, 16410. A query may
 * have it. */
static bool may_be_refused(enum match_stands stands, const struct element *stage)
{
	struct element verb;

	return element_only_field(stage, &verb) && verb.type == BSON_BYTE_DOCUMENT &&
	       (element_is(&verb, "$facet") ||
		(element_is(&verb, "$match") && stands != MATCH_STANDS_QUERY)) &&
	       names_odd_part(verb.value);
}

const char *match_unclear(enum match_stands stands, const struct element *stage)
{
	struct element filter;
	enum filter_words words;

	if (may_be_refused(stands, stage))
		return "a path with an empty part, or with one that begins with '$', can't be "
		       "followed behind other stages";
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
