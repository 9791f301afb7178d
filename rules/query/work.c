/* Counts the fields of a request. */
#include "rules/query/work.h"

#include "rules/rule/walk.h"

#define FIELD_WEIGHT 8   /* of a field, or a document in a list */
#define SHORTEST 2       /* bytes of a field: its type, and its name's NUL */
#define OPERATOR_DEPTH 2 /* {$set: {path: value}} */
#define UNLIMITED SIZE_MAX

/* A word that is a path in an expression is looked at, and so is a regular expression. */
static size_t weight_in_list(const struct element *element)
{
	struct bytes text;

	switch (element->type) {
	case BSON_BYTE_DOCUMENT:
	case BSON_BYTE_ARRAY:
	case BSON_BYTE_REGEX:
		return FIELD_WEIGHT;
	case BSON_BYTE_STRING:
		return element_string(element, &text) && bytes_begin_with(text, "$") ? FIELD_WEIGHT
										     : 1;
	default:
		return 1;
	}
}

/* The weight of what a document or list holds, to a depth. What is broken is for others to say. */
static size_t weight_within(uint8_t type, struct bytes document, size_t depth)
{
	size_t weight = 0;
	struct walk walk;
	struct element element;
	enum cursor_step step = walk_first(&walk, type, document, &element);

	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element)) {
		weight += walk_in_array(&walk) ? weight_in_list(&element) : FIELD_WEIGHT;
		if (weight > (size_t)WORK_READ_MOST * FIELD_WEIGHT)
			return weight;
		if (walk.depth < depth && !walk_within(&walk, &element))
			return weight;
	}
	return weight;
}

static bool is_pipeline(const struct element *update)
{
	return update->type == BSON_BYTE_ARRAY;
}

/* Operators of an update, and their paths. Of a replacement its fields. */
static size_t weight_of_update(const struct element *update)
{
	return weight_within(update->type, update->value,
			     is_pipeline(update) ? UNLIMITED : OPERATOR_DEPTH);
}

static bool is_update(const struct element *field)
{
	return (element_is(field, "u") || element_is(field, "updateMods") ||
		element_is(field, "update")) &&
	       (field->type == BSON_BYTE_DOCUMENT || field->type == BSON_BYTE_ARRAY);
}

static bool is_data(const struct element *field)
{
	return element_is(field, "document") || element_is(field, "documents") ||
	       element_is(field, "comment");
}

static bool is_statements(const struct element *field)
{
	return field->type == BSON_BYTE_ARRAY &&
	       (element_is(field, "updates") || element_is(field, "deletes") ||
		element_is(field, "ops"));
}

/* The fields of a command or statement, without its statements. */
static size_t fields_of(struct bytes document)
{
	struct cursor cursor;
	struct element field;
	struct bytes inner;
	size_t weight = 0;

	if (!cursor_open(&cursor, document))
		return 0;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		weight += FIELD_WEIGHT;
		if (is_update(&field))
			weight += weight_of_update(&field);
		else if (!is_data(&field) && !is_statements(&field) &&
			 element_document(&field, &inner))
			weight += weight_within(field.type, inner, UNLIMITED);
	}
	return weight / FIELD_WEIGHT;
}

static bool may_pass(struct bytes document, size_t most)
{
	return document.length / SHORTEST > most;
}

static void add(struct work *work, struct bytes document)
{
	size_t fields = fields_of(document);

	if (fields > work->largest)
		work->largest = fields;
	work->all += fields;
}

/* Short ones count only where `all` of them may pass the limit of the sum. */
static void add_statement(struct work *work, struct bytes statement, bool all)
{
	if (work->all <= WORK_STATEMENTS_MOST && (all || may_pass(statement, WORK_REWRITTEN_MOST)))
		add(work, statement);
}

static void add_list(struct work *work, struct bytes list, bool data)
{
	bool all = may_pass(list, WORK_STATEMENTS_MOST);
	struct cursor cursor;
	struct element element;

	if (!cursor_open(&cursor, list))
		return;
	while (work->statements <= WORK_STATEMENT_COUNT_MOST &&
	       cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		work->statements++;
		if (!data && element.type == BSON_BYTE_DOCUMENT)
			add_statement(work, element.value, all);
	}
}

static void add_sequence(struct work *work, const struct document_sequence *sequence)
{
	bool all = may_pass(sequence->documents, WORK_STATEMENTS_MOST);
	struct bytes documents = sequence->documents, statement;

	if (!bytes_are(sequence->identifier, "nsInfo"))
		work->statements += sequence->count;
	if (bytes_are(sequence->identifier, "documents") ||
	    work->statements > WORK_STATEMENT_COUNT_MOST)
		return;
	while (message_next_document(&documents, &statement))
		add_statement(work, statement, all);
}

struct work work_of(const struct command *command, const struct message *message)
{
	static const enum command_field lists[] = {FIELD_UPDATES, FIELD_DELETES, FIELD_OPS,
						   FIELD_DOCUMENTS};
	struct work work = {0};

	if (may_pass(command->body, WORK_REWRITTEN_MOST))
		add(&work, command->body);
	for (size_t i = 0; i < ARRAY_LENGTH(lists); i++)
		if (command->fields[lists[i]].type == BSON_BYTE_ARRAY)
			add_list(&work, command->fields[lists[i]].value,
				 lists[i] == FIELD_DOCUMENTS);
	for (size_t i = 0; message && i < message->sequence_count; i++)
		add_sequence(&work, &message->sequences[i]);
	return work;
}
