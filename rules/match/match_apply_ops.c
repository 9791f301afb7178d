/* applyOps: operations that must be apart from the rules. */
#include "rules/match/match_inner.h"
#include "rules/rule/names.h"

static bool is_of_ruled_database(const struct matching *matching, struct bytes database)
{
	return bytes_are(database, "admin") || rule_set_in_database(matching->rules, database) ||
	       rule_set_overflow_alone(matching->rules, database);
}

static bool is_command(struct bytes operation)
{
	struct element field;
	struct bytes text;

	return document_find(operation, "op", &field) && element_string(&field, &text) &&
	       bytes_are(text, "c");
}

/* Itself a command, in a database that has a rule, or another applyOps. */
static bool is_ruled_command(const struct matching *matching, struct bytes operation)
{
	struct element field;
	struct bytes text, database, collection;

	if (!is_command(operation))
		return false;
	if (document_find_path(operation, "o.applyOps", &field))
		return true;
	return document_find(operation, "ns", &field) && element_string(&field, &text) &&
	       name_split(text, &database, &collection) && is_of_ruled_database(matching, database);
}

/* A renameCollection names its collections with their databases. */
static bool renames_ruled(const struct matching *matching, struct bytes operation, const char *what)
{
	struct element command;

	return is_command(operation) && document_find(operation, "o", &command) &&
	       command.type == BSON_BYTE_DOCUMENT &&
	       match_refuse_ends(matching, command.value, "renameCollection", "to", what);
}

/* What an operation of applyOps means that its `ns` doesn't tell. */
static bool refuse_operation(const struct matching *matching, struct bytes operation,
			     const char *what)
{
	struct element field;

	if (!document_find(operation, "ui", &field) && !is_ruled_command(matching, operation))
		return renames_ruled(matching, operation, what);
	match_refuse(matching->match, rule_set_at(matching->rules, 0), what,
		     "an operation with 'ui', or that is a command, may mean a ruled collection");
	return true;
}

/* What makes or changes a view without a look at it. */
static bool refuse_views(const struct matching *matching, struct bytes full_name, const char *what)
{
	struct bytes database, collection;

	if (!name_split(full_name, &database, &collection) ||
	    !bytes_are(collection, "system.views") ||
	    !rule_set_in_database(matching->rules, database))
		return false;
	match_refuse(matching->match, rule_set_at(matching->rules, 0), what,
		     "it writes views straight, which could show ruled arrays; use create");
	return true;
}

/* Every string field `ns` of the documents must be apart from the rules. */
static void refuse_listed_namespaces(const struct matching *matching, struct bytes documents,
				     const char *what)
{
	struct bytes document, name;
	struct element element;

	while (message_next_document(&documents, &document))
		if (refuse_operation(matching, document, what) ||
		    (document_find(document, "ns", &element) && element_string(&element, &name) &&
		     (match_refuse_full_name(matching, name, what) ||
		      refuse_views(matching, name, what))))
			return;
}

static void refuse_listed_in_array(const struct matching *matching, const struct element *array,
				   const char *what)
{
	struct cursor cursor;
	struct element element;

	if (array->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, array->value))
		return;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT &&
	       matching->match->verdict != VERDICT_REFUSE)
		if (element.type == BSON_BYTE_DOCUMENT)
			refuse_listed_namespaces(matching, element.value, what);
}

void match_apply_ops(const struct matching *matching)
{
	refuse_listed_in_array(matching, &matching->command->first, "applyOps");
}
