/* What an update pushes. */
#include "rules/observe/growth.h"

#include "rules/query/statements.h"

#define STATEMENTS_MOST 100 /* of a command: the event loop waits meanwhile */
#define FIELDS_MOST 100     /* of an operator; also elements of a list */

/* An array's own path: no position in an array stands in it. */
static bool is_whole_path(struct bytes path)
{
	bool digits = true; /* of the part so far */

	for (size_t i = 0; i <= path.length; i++) {
		if (i < path.length && path.data[i] != '.') {
			if (path.data[i] == '$')
				return false;
			digits = digits && path.data[i] >= '0' && path.data[i] <= '9';
			continue;
		}
		if (digits)
			return false; /* a number, or nothing */
		digits = true;
	}
	return true;
}

/* The elements of {$each: [...]}: as many as are looked at stand for all. */
static int64_t count_list(struct bytes list)
{
	struct element element;
	struct cursor cursor;
	int64_t count = 0;

	if (!cursor_open(&cursor, list))
		return 0;
	while (count < FIELDS_MOST && cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		count++;
	if (count == FIELDS_MOST)
		count = (int64_t)(list.length * FIELDS_MOST /
				  (list.length - (size_t)(cursor.end - cursor.at)));
	return count;
}

static void count_field(struct sketch *sketch, struct sketch_push *push,
			const struct element *field, uint64_t key)
{
	struct element each;
	struct bytes modifiers;

	push->array = field->name;
	push->elements = 1;
	push->bytes = (int64_t)field->value.length;
	if (field->type == BSON_BYTE_DOCUMENT && element_document(field, &modifiers) &&
	    document_find(modifiers, "$each", &each)) {
		push->elements = each.type == BSON_BYTE_ARRAY ? count_list(each.value) : 0;
		push->bytes = (int64_t)each.value.length;
	}
	if (is_whole_path(field->name))
		sketch_count(sketch, push, key);
}

static void count_operator(struct sketch *sketch, struct sketch_push *push, struct bytes fields,
			   uint64_t key)
{
	struct element field;
	struct cursor cursor;

	if (!cursor_open(&cursor, fields))
		return;
	for (int i = 0; i < FIELDS_MOST && cursor_next(&cursor, &field) == CURSOR_ELEMENT; i++)
		count_field(sketch, push, &field, key);
}

/* An update document; operators first, or it is a replacement. */
static void count_update(struct sketch *sketch, struct sketch_push *push,
			 const struct element *update, uint64_t key)
{
	struct element operator;
	struct cursor cursor;
	struct bytes fields;

	if (update->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, update->value))
		return;
	for (int i = 0; i < FIELDS_MOST && cursor_next(&cursor, &operator) == CURSOR_ELEMENT; i++)
		if ((element_is(&operator, "$push") || element_is(&operator, "$addToSet")) &&
		    operator.type == BSON_BYTE_DOCUMENT && element_document(&operator, & fields))
			count_operator(sketch, push, fields, key);
}

/* The document that the filter names by its `_id`. */
static struct bytes document_of(const struct element *filter)
{
	struct element id;

	if (filter->type == BSON_BYTE_DOCUMENT && statement_pinned_id(filter->value, false, &id))
		return id.value;
	return (struct bytes){0};
}

static void count_statements(struct sketch *sketch, struct sketch_push *push,
			     const struct message *message, const struct command *command,
			     uint64_t key)
{
	struct statements statements;
	struct statement statement;
	struct bytes document;
	bool broken;

	if (!statements_open(&statements, message, command, FIELD_UPDATES))
		return;
	for (int i = 0; i < STATEMENTS_MOST && statements_next(&statements, &document, &broken);
	     i++) {
		if (!statement_parse(document, &statement))
			return;
		push->document = document_of(&statement.q);
		count_update(sketch, push, &statement.u, key);
	}
}

void growth_count(struct sketch *sketch, struct bytes frame, uint64_t key)
{
	struct sketch_push push;
	struct message message;
	struct command command;

	if (!message_parse(frame, &message) || !command_parse(message.body, &command) ||
	    command.database.length == 0 || command.collection.length == 0)
		return;
	push = (struct sketch_push){.database = command.database, .collection = command.collection};
	if (command.kind == COMMAND_UPDATE) {
		count_statements(sketch, &push, &message, &command, key);
	} else if (command.kind == COMMAND_FIND_AND_MODIFY) {
		push.document = document_of(&command.fields[FIELD_QUERY]);
		count_update(sketch, &push, &command.fields[FIELD_UPDATE], key);
	}
}
