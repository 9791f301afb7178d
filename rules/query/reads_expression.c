/* What an aggregation expression reads: field paths, and operators that see the whole document. */
#include "rules/rule/names.h"
#include "rules/query/reads.h"
#include "rules/rule/walk.h"

#include <stdlib.h>

/* The operators that read what their arguments spell out as field paths, and nothing else; up to
 * MongoDB 8.0. Sorted. Any other one may read the whole document, as $getField, $function and $top
 * (by its sortBy) do. */
/* clang-format off */
static const char *const plain_operators[] = {
	"$abs", "$acos", "$acosh", "$add", "$addToSet", "$allElementsTrue", "$and",
	"$anyElementTrue", "$arrayElemAt", "$arrayToObject", "$asin", "$asinh", "$atan", "$atan2",
	"$atanh", "$avg", "$binarySize", "$bitAnd", "$bitNot", "$bitOr", "$bitXor", "$bsonSize",
	"$ceil", "$cmp", "$concat", "$concatArrays", "$cond", "$convert", "$cos", "$cosh",
	"$count", "$covariancePop", "$covarianceSamp", "$dateAdd", "$dateDiff", "$dateFromParts",
	"$dateFromString", "$dateSubtract", "$dateToParts", "$dateToString", "$dateTrunc",
	"$dayOfMonth", "$dayOfWeek", "$dayOfYear", "$degreesToRadians", "$divide", "$eq", "$exp",
	"$filter", "$first", "$firstN", "$floor", "$gt", "$gte", "$hour", "$ifNull", "$in",
	"$indexOfArray", "$indexOfBytes", "$indexOfCP", "$isArray", "$isNumber", "$isoDayOfWeek",
	"$isoWeek", "$isoWeekYear", "$last", "$lastN", "$let", "$ln", "$log", "$log10", "$lt",
	"$lte", "$ltrim", "$map", "$max", "$maxN", "$median", "$mergeObjects", "$meta",
	"$millisecond", "$min", "$minN", "$minute", "$mod", "$month", "$multiply", "$ne", "$not",
	"$objectToArray", "$or", "$percentile", "$pow", "$push", "$radiansToDegrees", "$rand",
	"$range", "$reduce", "$regexFind", "$regexFindAll", "$regexMatch", "$replaceAll",
	"$replaceOne", "$reverseArray", "$round", "$rtrim", "$second", "$setDifference",
	"$setEquals", "$setField", "$setIntersection", "$setIsSubset", "$setUnion", "$sigmoid",
	"$sin", "$sinh", "$size", "$slice", "$sortArray", "$split", "$sqrt", "$stdDevPop",
	"$stdDevSamp", "$strLenBytes", "$strLenCP", "$strcasecmp", "$substr", "$substrBytes",
	"$substrCP", "$subtract", "$sum", "$switch", "$tan", "$tanh", "$toBool", "$toDate",
	"$toDecimal", "$toDouble", "$toHashedIndexKey", "$toInt", "$toLong", "$toLower",
	"$toObjectId", "$toString", "$toUUID", "$toUpper", "$trim", "$trunc", "$tsIncrement",
	"$tsSecond", "$type", "$unsetField", "$week", "$year", "$zip",
};
/* clang-format on */

static int compare_operator(const void *name, const void *entry)
{
	return strcmp(name, *(const char *const *)entry);
}

static bool is_plain(struct bytes name)
{
	/* A NUL follows an element's name. */
	return bsearch(name.data, plain_operators, ARRAY_LENGTH(plain_operators),
		       sizeof(plain_operators[0]), compare_operator) != NULL;
}

/* "$$ROOT" and "$$CURRENT" are the document, "$$ROOT.a" and "$a" are paths. Any other variable is
 * what its definition says. CURRENT may be defined anew ($let), and "$a" then means another place:
 * one that the definition has read as a whole. */
static void read_text(struct bytes text, const struct ruled_namespace *namespace,
		      struct reads *reads)
{
	static const char *const documents[] = {"$$ROOT", "$$CURRENT"};

	if (text.length < 2 || text.data[0] != '$')
		return;
	if (text.data[1] != '$') {
		text = (struct bytes){text.data + 1, text.length - 1};
		reads_note_name(reads, namespace, text, bytes_of(""), "a field path");
		return;
	}
	for (size_t i = 0; i < ARRAY_LENGTH(documents); i++) {
		size_t length = strlen(documents[i]);

		if (bytes_are(text, documents[i])) {
			reads_note(reads, READS_ARRAY, namespace->targets[0].rule, bytes_of(""),
				   documents[i]);
		} else if (bytes_begin_with(text, documents[i]) && text.data[length] == '.') {
			text = (struct bytes){text.data + length + 1, text.length - length - 1};
			reads_note_name(reads, namespace, text, bytes_of(""), "a field path");
			return;
		}
	}
}

/* False where the BSON is broken. */
static bool read_value(struct walk *walk, const struct element *value,
		       const struct ruled_namespace *namespace, struct reads *reads)
{
	struct bytes content;

	if (element_string(value, &content))
		read_text(content, namespace, reads);
	if (element_document(value, &content))
		return walk_into(walk, value->type, content);
	return true;
}

/* An element of an expression's document: an operator with its arguments, or a field of an object
 * that is built. */
static bool read_field(struct walk *walk, const struct element *field,
		       const struct ruled_namespace *namespace, struct reads *reads)
{
	bool is_operator = field->name.length > 0 && field->name.data[0] == '$';

	if (is_operator && (element_is(field, "$literal") || element_is(field, "$const")))
		return true; /* nothing in it is an expression */
	if (is_operator && !is_plain(field->name))
		reads_note_document(reads, namespace, field->name);
	return read_value(walk, field, namespace, reads);
}

struct reads reads_of_expression(const struct element *expression,
				 const struct ruled_namespace *namespace)
{
	struct reads reads = {0};
	struct walk walk;
	struct element element;
	enum cursor_step step = CURSOR_INVALID;

	walk_start(&walk);
	if (read_value(&walk, expression, namespace, &reads))
		step = walk_next(&walk, &element);
	while (step == CURSOR_ELEMENT) {
		bool sound = walk_in_array(&walk) ? read_value(&walk, &element, namespace, &reads)
						  : read_field(&walk, &element, namespace, &reads);

		step = sound ? walk_next(&walk, &element) : CURSOR_INVALID;
	}
	if (step != CURSOR_END)
		reads_note_broken(&reads);
	return reads;
}

bool reads_current(const struct element *let)
{
	struct element current;

	return let->type == BSON_BYTE_DOCUMENT && document_find(let->value, "CURRENT", &current);
}

bool reads_whole_document(const struct element *expression, const struct ruled_namespace *namespace)
{
	/* An array that no path can name. */
	static char nowhere[] = "\1";
	struct rule rule = *namespace->targets[0].rule;
	struct target target = {.rule = &rule};
	struct ruled_namespace other = *namespace;

	rule.array = rule.key = nowhere;
	rule_show_all(&rule);
	other.targets = &target;
	other.target_count = 1;
	return reads_of_expression(expression, &other).kind != READS_NOTHING;
}
