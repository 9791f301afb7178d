/* Tells the errors that Spillway's own stages raise, and what clients are told of them. */
#include "rules/reassembly/raised.h"

#include <stdio.h>

static bool is_raised(const struct reply_summary *summary, const char *what)
{
	/* The text alone may be a quotation of the pipeline. */
	return !summary->ok && summary->code == ERROR_CONVERSION_FAILURE &&
	       bytes_contain(summary->message, what);
}

bool raised_died(const struct reply_summary *summary)
{
	return is_raised(summary, RAISED_DEAD);
}

bool raised_short(const struct reply_summary *summary)
{
	return is_raised(summary, RAISED_SHORT);
}

bool raised_damage(const struct reply_summary *summary)
{
	return is_raised(summary, RAISED_DAMAGED) || is_raised(summary, RAISED_LOST);
}

bool raised_forged(int64_t code, struct bytes message)
{
	return code == ERROR_CONVERSION_FAILURE && bytes_contain(message, RAISED_FORGED);
}

bool raised_raced(int64_t code, struct bytes message)
{
	return code == ERROR_CONVERSION_FAILURE && bytes_contain(message, RAISED_RACED);
}

/* The last place where `what` stands in the text. */
static const uint8_t *find_last(struct bytes text, const char *what)
{
	const uint8_t *found = NULL, *at = text.data, *end = text.data + text.length;

	while ((at = memmem(at, (size_t)(end - at), what, strlen(what))))
		found = at++;
	return found;
}

/* "of 'shop.books' (rule 'books') with _id 'x' (string)", out of mongod's text. */
static bool find_document(struct bytes text, struct bytes *document)
{
	const uint8_t *start =
		memmem(text.data, text.length, RAISED_DOCUMENT, strlen(RAISED_DOCUMENT));
	const uint8_t *end = find_last(text, RAISED_DOCUMENT_ENDS);

	if (!start || !end || end <= start)
		return false;
	start += strlen(RAISED_DOCUMENT);
	*document = (struct bytes){start, (size_t)(end - start)};
	return true;
}

bool raised_tell(const struct reply_summary *summary, char message[RAISED_MESSAGE],
		 enum error_code *code)
{
	static const struct {
		const char *mark, *words;
		enum error_code code;
	} told[] = {
		{RAISED_DEAD, RAISED_DIED_WORDS, ERROR_READ_CONCERN_NOT_AVAILABLE_YET},
		{RAISED_EDITED, RAISED_EDITED_WORDS, ERROR_OBJECT_TOO_LARGE},
		{RAISED_LOST, RAISED_LOST_WORDS, ERROR_DATA_CORRUPTION},
		{RAISED_DAMAGED, RAISED_DAMAGED_WORDS, ERROR_DATA_CORRUPTION},
	};
	const char *why = NULL;
	struct bytes document;

	for (size_t i = 0; !why && i < ARRAY_LENGTH(told); i++)
		if (is_raised(summary, told[i].mark)) {
			why = told[i].words;
			*code = told[i].code;
		}
	if (!why)
		return false;
	if (find_document(summary->message, &document))
		snprintf(message, RAISED_MESSAGE, "the document %.*s: %s", (int)document.length,
			 (const char *)document.data, why);
	else
		snprintf(message, RAISED_MESSAGE, "a document: %s", why);
	return true;
}

#define IN_GET_MORE "Executor error during getMore :: caused by :: "
#define IN_FIND "Executor error during find command :: caused by :: "
#define IN_AGGREGATE "PlanExecutor error during aggregation :: caused by :: "
#define NO_MATCHING_ELEMENT "positional operator '.$' couldn't find a matching element in the array"
#define NO_OBJECT_TO_MERGE "$mergeObjects only supports objects"

const char *raised_native(const struct reply_summary *summary, bool more, enum error_code *code)
{
	if (is_raised(summary, RAISED_MISSED)) {
		*code = ERROR_NO_MATCHING_ELEMENT;
		return more ? IN_GET_MORE NO_MATCHING_ELEMENT : IN_FIND NO_MATCHING_ELEMENT;
	}
	if (is_raised(summary, RAISED_UNMERGED)) {
		*code = ERROR_NO_OBJECT_TO_MERGE;
		return more ? IN_GET_MORE NO_OBJECT_TO_MERGE : IN_AGGREGATE NO_OBJECT_TO_MERGE;
	}
	return NULL;
}

const char *raised_outgrown(const struct reply_summary *summary)
{
	if (summary->ok || summary->code != ERROR_OBJECT_TOO_LARGE ||
	    !bytes_begin_with(summary->message, "BSONObj size: ") ||
	    !bytes_contain(summary->message, "First element: aggregate: "))
		return NULL;
	return "a condition on the ruled array stands twice in what mongod is asked, which passes "
	       "16 MB; ask with a shorter list of values";
}

static const char *const refusals[][2] = {
	{RAISED_UNCLEAR, "a document doesn't tell which element the positional projection means: "
			 "another condition of the filter has met an array, or not every "
			 "condition means the same element"},
	{RAISED_MISSED, "an explain that runs a find whose positional projection finds no element"},
	{RAISED_UNSAFE,
	 "$merge has met a document with a field '_spill' or a dot in a name, or one with "
	 "the ruled array "
	 "(or what goes with it) that would be merged field by field; use whenMatched: "
	 "replace"},
	{RAISED_SEVERAL,
	 "min or max beside what reads the ruled array, and a document has an array in the "
	 "hinted index: which of its keys lie within them can't be told there"},
	{RAISED_MIXED,
	 "a projection ($project, or mongod's own where later stages want some fields "
	 "only) includes a path below the ruled array, which has elements that are no "
	 "documents, beside a sort or other stages: what they see depends on mongod's "
	 "plan"},
	{RAISED_NUMBERED,
	 "a sort, window or $lookup goes by a position in the ruled array (f.0), and "
	 "other stages want some fields only: mongod takes the position for a field's "
	 "name there; compute the element first ($arrayElemAt)"},
	{RAISED_UNDEFINED,
	 "a $lookup has met 'undefined' in the field that it joins by, which is equal to "
	 "null or not as mongod's plan is; give it a pipeline ([] will do), or store "
	 "null instead"},
	{RAISED_DOTTED,
	 "a distinct has met a field whose own name has a dot and is like its key, or the "
	 "rest of it; mongod takes such a field first"},
	{RAISED_SHARED,
	 "a distinct without a query has met null or undefined under a collation that an "
	 "index on the path has; mongod returns them or not, as the first document with "
	 "that index key has them; add a query"},
	{RAISED_TIED,
	 "a $min or $max in a group has met values that are equal and not the same (of "
	 "several types, or as arrays, documents, or texts under a collation): which of "
	 "them mongod returns depends on the engine that it runs the group in; convert "
	 "the values first ($toDouble, $toLower), or put a $set before the group"},
	{RAISED_CHANGED,
	 "a group has met a Code, a Symbol, MinKey or MaxKey, which mongod changes or not "
	 "as the engine is that it runs the group in; put a $set before the group"},
	{RAISED_REPEATED,
	 "a spilled document has a field name twice, and mongod would lose one of them "
	 "when it puts the array together; read it by a filter that doesn't look into "
	 "the array, or remove one of the fields"},
};

const char *raised_refusal(const struct reply_summary *summary, enum error_code *code)
{
	const char *outgrown = raised_outgrown(summary);

	*code = ERROR_COMMAND_NOT_SUPPORTED;
	for (size_t i = 0; i < ARRAY_LENGTH(refusals); i++)
		if (is_raised(summary, refusals[i][0]))
			return refusals[i][1];
	*code = ERROR_OBJECT_TOO_LARGE;
	if (outgrown)
		return outgrown;
	return !summary->ok && summary->code == ERROR_OBJECT_TOO_LARGE
		       ? "a document passes 16 MB on the way: one that a stage makes ($group, "
			 "$push), or one that this read looks into, once its array is put "
			 "together, which mongod can't hold; keep such a document out by "
			 "conditions on other fields, and read it by its _id, which gives it "
			 "whole, or in parts ($slice)"
		       : NULL;
}

const char *raised_failure(const struct reply_summary *summary, char message[RAISED_MESSAGE],
			   enum error_code *code)
{
	const char *native;

	if (summary->code != ERROR_CONVERSION_FAILURE)
		return NULL;
	if (raised_tell(summary, message, code))
		return message;
	native = raised_native(summary, true, code);
	return native ? native : raised_refusal(summary, code);
}
