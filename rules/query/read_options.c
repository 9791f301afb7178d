/* Reads the numbers and switches of finds and counts. */
#include "rules/query/read_options.h"

#include <math.h>
#include <string.h>

/* ---- which fields a command has ---- */

static const char *const shared_fields[] = {"$db",
					    "lsid",
					    "$clusterTime",
					    "$readPreference",
					    "readConcern",
					    "comment",
					    "collation",
					    "maxTimeMS",
					    "txnNumber",
					    "autocommit",
					    "startTransaction",
					    "apiVersion",
					    "apiStrict",
					    "apiDeprecationErrors",
					    NULL};

static const char *const find_fields[] = {
	"filter",      "sort",         "projection",      "limit",
	"skip",        "batchSize",    "singleBatch",     "let",
	"hint",        "allowDiskUse", "noCursorTimeout", "allowPartialResults",
	"returnKey",   "showRecordId", "tailable",        "awaitData",
	"oplogReplay", NULL,
};

static const char *const count_fields[] = {"query", "limit", "skip", "hint", "fields", NULL};
static const char *const distinct_fields[] = {"key", "query", NULL};

static const char *const *own_fields(const struct command *command)
{
	return command->kind == COMMAND_FIND    ? find_fields
	       : command->kind == COMMAND_COUNT ? count_fields
						: distinct_fields;
}

/* The place of a name among both lists, SIZE_MAX of any other. */
static size_t place_of(const struct command *command, struct bytes name)
{
	const char *const *const lists[] = {own_fields(command), shared_fields};
	size_t place = 0;

	for (size_t i = 0; i < ARRAY_LENGTH(lists); i++)
		for (const char *const *each = lists[i]; *each; each++, place++)
			if (bytes_are(name, *each))
				return place;
	return SIZE_MAX;
}

/* A field stands twice: mongod refuses it. */
static bool repeats_field(const struct command *command)
{
	struct cursor cursor;
	struct element field;
	uint64_t seen = 0;

	require(cursor_open(&cursor, command->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		size_t place = place_of(command, field.name);

		if (place == SIZE_MAX)
			continue;
		if (seen >> place & 1)
			return true;
		seen |= UINT64_C(1) << place;
	}
	return false;
}

bool options_are_usual(const struct command *command)
{
	struct cursor cursor;
	struct element field;
	bool usual = true;

	require(cursor_open(&cursor, command->body));
	require(cursor_next(&cursor, &field) == CURSOR_ELEMENT); /* the command's name */
	while (usual && cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		usual = place_of(command, field.name) != SIZE_MAX;
	return usual;
}

/* ---- what they are ---- */

static bool find_option(const struct command *command, const char *name, struct element *element)
{
	return document_find(command->body, name, element);
}

static bool double_of(const struct element *element, double *number)
{
	if (element->type != BSON_BYTE_DOUBLE)
		return false;
	memcpy(number, element->value.data, sizeof(*number));
	return true;
}

int64_t options_number(const struct command *command, const char *name)
{
	struct element element;
	int64_t value;

	return find_option(command, name, &element) && element_cut_integer(&element, &value) ? value
											     : 0;
}

bool options_has_number(const struct command *command, const char *name)
{
	struct element element;

	return find_option(command, name, &element) && !element_is_nothing(&element);
}

bool options_single_batch(const struct command *command)
{
	struct element single;

	return find_option(command, "singleBatch", &single) && element_truth(&single);
}

static enum options_verdict judge_number(const struct command *command, const char *name)
{
	struct element element;
	int64_t value;

	if (!find_option(command, name, &element) || element_is_nothing(&element))
		return OPTIONS_SOUND;
	if (element_cut_integer(&element, &value))
		return value < 0 ? OPTIONS_WRONG : OPTIONS_SOUND;
	return element.type == BSON_BYTE_DECIMAL ? OPTIONS_UNSERVED : OPTIONS_WRONG;
}

/* Switches that an aggregate doesn't have: what is wrong with them mongod would not see. */
static bool switch_wrong(const struct command *command)
{
	static const char *const switches[] = {
		"singleBatch", "noCursorTimeout", "allowPartialResults", "tailable",
		"awaitData",   "returnKey",       "showRecordId"};
	struct element element;

	for (size_t i = 0; i < ARRAY_LENGTH(switches); i++)
		if (find_option(command, switches[i], &element) && element.type != BSON_BYTE_BOOL)
			return true;
	return false;
}

/* What an aggregate words otherwise, or takes. */
static bool document_wrong(const struct command *command)
{
	static const char *const documents[] = {"filter", "projection", "sort",       "collation",
						"min",    "max",        "readConcern"};
	struct element element;

	for (size_t i = 0; i < ARRAY_LENGTH(documents); i++)
		if (find_option(command, documents[i], &element) &&
		    element.type != BSON_BYTE_DOCUMENT)
			return true;
	return find_option(command, "let", &element) && element.type != BSON_BYTE_DOCUMENT &&
	       !element_is_nothing(&element);
}

enum options_verdict options_of_find(const struct command *command)
{
	static const char *const numbers[] = {"limit", "skip", "batchSize"};
	enum options_verdict verdict = OPTIONS_SOUND;

	if (repeats_field(command) || switch_wrong(command) || document_wrong(command))
		return OPTIONS_WRONG;
	if (options_has_number(command, "ntoreturn") ||
	    find_option(command, "oplogReplay", &(struct element){0}))
		verdict = OPTIONS_UNSERVED;
	for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
		enum options_verdict number = judge_number(command, numbers[i]);

		if (number == OPTIONS_WRONG)
			return number;
		if (number == OPTIONS_UNSERVED)
			verdict = number;
	}
	return verdict;
}

/* A count's limit has no fraction, and may be negative. */
static enum options_verdict judge_limit(const struct command *command)
{
	struct element limit;
	double number;
	int64_t value;

	if (!find_option(command, "limit", &limit) || element_integer(&limit, &value))
		return OPTIONS_SOUND;
	if (limit.type == BSON_BYTE_DECIMAL)
		return OPTIONS_UNSERVED;
	return double_of(&limit, &number) && number == floor(number) && isfinite(number)
		       ? OPTIONS_UNSERVED
		       : OPTIONS_WRONG;
}

enum options_verdict options_of_count(const struct command *command)
{
	enum options_verdict limit = judge_limit(command), skip = judge_number(command, "skip");

	if (repeats_field(command) || limit == OPTIONS_WRONG || skip == OPTIONS_WRONG)
		return OPTIONS_WRONG;
	return limit == OPTIONS_UNSERVED ? limit : skip;
}
