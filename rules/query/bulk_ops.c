/* bulkWrite: its ops read, and runs of them written as the commands that mongod has had before. */
#include "rules/query/bulk_ops.h"

#include "protocol/template.h"
#include "protocol/writer.h"
#include "rules/query/bulk_fields.h"
#include "rules/rule/names.h"
#include "rules/query/statements.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- reading ---- */

/* What is read of, and where a problem is told. */
struct reading {
	struct bulk_write *bulk;
	const struct packet *packet;
	const struct command *command;
	struct bulk_problem *problem;
};

__attribute__((format(printf, 3, 4))) static bool fail(const struct reading *reading,
						       enum error_code code, const char *format,
						       ...)
{
	va_list arguments;

	reading->problem->code = code;
	va_start(arguments, format);
	vsnprintf(reading->problem->message, sizeof(reading->problem->message), format, arguments);
	va_end(arguments);
	return false;
}

static bool fail_broken(const struct reading *reading, const char *what)
{
	return fail(reading, ERROR_FAILED_TO_PARSE,
		    "%s can't be read without guessing (malformed, missing, or there twice)", what);
}

/* One field of an op; `seen`: those before it, a bit for each. */
static bool read_field(const struct reading *reading, const struct bulk_definition *kind,
		       const struct element *element, unsigned *seen)
{
	const struct bulk_field *field = bulk_find_field(kind, element->name);
	unsigned bit;

	if (!field)
		return fail(
			reading, ERROR_COMMAND_NOT_SUPPORTED,
			"the field '%.*s' of an op is not supported by this version of Spillway",
			(int)(element->name.length < 40 ? element->name.length : 40),
			(const char *)element->name.data);
	bit = 1U << (field - kind->fields);
	if (*seen & bit)
		return fail_broken(reading, "an op");
	if (bulk_field_absent(field, element))
		return true;
	*seen |= bit;
	if (!bulk_field_fits(element, field->kind))
		return fail(reading, ERROR_TYPE_MISMATCH,
			    "BSON field 'bulkWrite.ops.%s' is the wrong type", field->name);
	return true;
}

static bool read_namespace_number(const struct reading *reading, const struct element *element,
				  struct bulk_op *op)
{
	int64_t number;

	if (!bulk_read_index(element, &number) || number < 0 ||
	    (uint64_t)number >= reading->bulk->namespace_count)
		return fail(reading, ERROR_BAD_VALUE,
			    "a bulkWrite ops entry has an invalid nsInfo index");
	op->namespace = (uint32_t)number;
	return true;
}

/* The first field tells what the op is. */
static bool read_kind(const struct reading *reading, const struct element *first,
		      struct bulk_op *op)
{
	for (size_t i = 0; i < ARRAY_LENGTH(bulk_definitions); i++)
		if (element_is(first, bulk_definitions[i].command)) {
			op->kind = (enum bulk_kind)i;
			return true;
		}
	return fail(reading, ERROR_FAILED_TO_PARSE,
		    "an op must begin with 'insert', 'update' or 'delete'");
}

static bool read_op(const struct reading *reading, struct bytes document, struct bulk_op *op)
{
	struct cursor cursor;
	struct element element;
	enum cursor_step step = CURSOR_INVALID;
	const struct bulk_definition *kind = NULL;
	unsigned seen = 0;

	op->document = document;
	if (cursor_open(&cursor, document))
		step = cursor_next(&cursor, &element);
	for (; step == CURSOR_ELEMENT; step = cursor_next(&cursor, &element)) {
		if (!kind && !read_kind(reading, &element, op))
			return false;
		kind = &bulk_definitions[op->kind];
		if (!read_field(reading, kind, &element, &seen) ||
		    (&kind->fields[0] == bulk_find_field(kind, element.name) &&
		     !read_namespace_number(reading, &element, op)))
			return false;
	}
	if (step != CURSOR_END || !kind)
		return fail_broken(reading, "an op");
	for (size_t i = 0; i < kind->count; i++)
		if (kind->fields[i].needed && !(seen & 1U << i))
			return fail_broken(reading, "an op");
	return true;
}

static bool read_ops(const struct reading *reading)
{
	struct bulk_write *bulk = reading->bulk;
	struct statements statements;
	struct bytes document;
	size_t room = 0;
	bool broken;

	if (!statements_open(&statements, &reading->packet->message, reading->command, FIELD_OPS))
		return fail_broken(reading, "ops");
	while (statements_next(&statements, &document, &broken)) {
		if (bulk->count == BULK_WRITE_MAX)
			return fail(reading, ERROR_INVALID_LENGTH,
				    "Write batch sizes must be between 1 and %d", BULK_WRITE_MAX);
		if (bulk->count == room) {
			room = room ? 2 * room : 16;
			bulk->ops = must_realloc(bulk->ops, room * sizeof(*bulk->ops));
		}
		if (!read_op(reading, document, &bulk->ops[bulk->count]))
			return false;
		bulk->count++;
	}
	if (broken)
		return fail_broken(reading, "ops");
	return bulk->count > 0 || fail(reading, ERROR_INVALID_LENGTH,
				       "Write batch sizes must be between 1 and %d. Got 0 "
				       "operations.",
				       BULK_WRITE_MAX);
}

static bool split_name(struct bytes name, struct bulk_namespace *namespace)
{
	struct bytes database, collection;

	if (!name_split(name, &database, &collection) || database.length == 0 ||
	    collection.length == 0 || memchr(name.data, 0, name.length))
		return false;
	namespace->database = database;
	namespace->collection = collection;
	return true;
}

static bool read_namespace(const struct reading *reading, struct bytes document,
			   struct bulk_namespace *namespace)
{
	struct cursor cursor;
	struct element element;
	struct bytes name;
	enum cursor_step step = CURSOR_INVALID;

	*namespace = (struct bulk_namespace){0};
	if (cursor_open(&cursor, document))
		step = cursor_next(&cursor, &element);
	for (; step == CURSOR_ELEMENT; step = cursor_next(&cursor, &element)) {
		if (element_is(&element, "ns") && namespace->collection.length == 0) {
			if (!element_string(&element, &name) || !split_name(name, namespace))
				return fail(reading, ERROR_INVALID_NAMESPACE,
					    "Invalid namespace specified for bulkWrite");
		} else if (element_is(&element, "collectionUUID") && namespace->uuid.type == 0) {
			if (!element_is_nothing(&element))
			namespace->uuid = element;
		} else {
			return fail(reading, ERROR_COMMAND_NOT_SUPPORTED,
				    "nsInfo with other fields than 'ns' and 'collectionUUID' is "
				    "not supported by this version of Spillway");
		}
	}
	return (step == CURSOR_END && namespace->collection.length > 0) ||
	       fail_broken(reading, "nsInfo");
}

static bool read_namespaces(const struct reading *reading)
{
	struct bulk_write *bulk = reading->bulk;
	struct statements statements;
	struct bytes document;
	size_t room = 0;
	bool broken;

	if (!statements_open(&statements, &reading->packet->message, reading->command,
			     FIELD_NS_INFO))
		return fail_broken(reading, "nsInfo");
	while (statements_next(&statements, &document, &broken)) {
		if (bulk->namespace_count == room) {
			room = room ? 2 * room : 4;
			bulk->namespaces =
				must_realloc(bulk->namespaces, room * sizeof(*bulk->namespaces));
		}
		if (!read_namespace(reading, document, &bulk->namespaces[bulk->namespace_count]))
			return false;
		bulk->namespace_count++;
	}
	return !broken || fail_broken(reading, "nsInfo");
}

static bool is_given(const struct element *element)
{
	return element->type != 0 && !element_is_nothing(element);
}

/* A top-level flag, a bool and nothing else. */
static bool read_flag(const struct reading *reading, enum command_field field, bool otherwise,
		      bool *flag)
{
	const struct element *element = &reading->command->fields[field];

	*flag = is_given(element) ? element_truth(element) : otherwise;
	return !is_given(element) || element->type == BSON_BYTE_BOOL ||
	       fail(reading, ERROR_TYPE_MISMATCH, "BSON field 'bulkWrite.%.*s' is the wrong type",
		    (int)element->name.length, (const char *)element->name.data);
}

static bool read_id(const struct element *element, int32_t *id)
{
	int64_t number;

	if (!element_integer(element, &number) || number != (int32_t)number)
		return false;
	*id = (int32_t)number;
	return true;
}

static bool read_id_list(const struct reading *reading, const struct element *ids)
{
	struct bulk_write *bulk = reading->bulk;
	struct cursor cursor;
	struct element element;
	enum cursor_step step;
	int32_t id;

	if (ids->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, ids->value))
		return fail_broken(reading, "stmtIds");
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT && read_id(&element, &id))
		buffer_append(&bulk->ids, &id, sizeof(id));
	if (step != CURSOR_END)
		return fail_broken(reading, "stmtIds");
	return bulk->ids.length == bulk->count * sizeof(id) ||
	       fail(reading, ERROR_INVALID_LENGTH,
		    "Number of statement ids must match the number of batch entries. Got %zu "
		    "statement ids but %zu operations.",
		    bulk->ids.length / sizeof(id), bulk->count);
}

static bool read_statement_ids(const struct reading *reading)
{
	const struct element *id = &reading->command->fields[FIELD_STMT_ID];
	const struct element *ids = &reading->command->fields[FIELD_STMT_IDS];
	int32_t first;

	if (is_given(id) && is_given(ids))
		return fail(reading, ERROR_INVALID_OPTIONS,
			    "May not specify both stmtId and stmtIds in bulkWrite command");
	if (is_given(id) && !read_id(id, &first))
		return fail_broken(reading, "stmtId");
	return !is_given(ids) || read_id_list(reading, ids);
}

/* {batchSize: n}, and nothing else. */
static bool read_cursor(const struct reading *reading)
{
	struct element options, field;
	struct cursor cursor;
	enum cursor_step step;
	int64_t size;

	reading->bulk->batch_size = -1;
	if (!document_find(reading->command->body, "cursor", &options) || !is_given(&options))
		return true;
	if (options.type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, options.value))
		return fail(reading, ERROR_TYPE_MISMATCH,
			    "BSON field 'bulkWrite.cursor' is the wrong type, expected type "
			    "'object'");
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT) {
		if (!element_is(&field, "batchSize"))
			return fail(reading, ERROR_FAILED_TO_PARSE,
				    "BSON field 'bulkWrite.cursor.%.*s' is an unknown field.",
				    (int)(field.name.length < 40 ? field.name.length : 40),
				    (const char *)field.name.data);
		if (!is_given(&field))
			continue;
		if (!bulk_read_index(&field, &size))
			return fail(reading, ERROR_TYPE_MISMATCH,
				    "BSON field 'bulkWrite.cursor.batchSize' is the wrong type");
		if (size < 0)
			return fail(reading, ERROR_BAD_VALUE,
				    "BSON field 'batchSize' value must be >= 0");
		reading->bulk->batch_size = size;
	}
	return step == CURSOR_END || fail_broken(reading, "cursor");
}

/* Fields that bulkWrite doesn't know, but the older commands do. */
static bool read_fields(const struct reading *reading)
{
	static const char *const foreign[] = {"documents",
					      "updates",
					      "deletes",
					      "insert",
					      "update",
					      "delete",
					      "collectionUUID",
					      "encryptionInformation",
					      "isTimeseriesNamespace"};
	struct element element;

	for (size_t i = 0; i < ARRAY_LENGTH(foreign); i++)
		if (document_find(reading->command->body, foreign[i], &element))
			return fail(reading, ERROR_FAILED_TO_PARSE,
				    "BSON field 'bulkWrite.%s' is an unknown field.", foreign[i]);
	return true;
}

static bool read_all(const struct reading *reading)
{
	struct bulk_write *bulk = reading->bulk;
	const struct command *command = reading->command;

	if (!bytes_are(command->database, "admin"))
		return fail(reading, ERROR_UNAUTHORIZED,
			    "bulkWrite may only be run against the admin database.");
	if (!read_flag(reading, FIELD_ORDERED, true, &bulk->ordered) ||
	    !read_flag(reading, FIELD_ERRORS_ONLY, false, &bulk->errors_only))
		return false;
	bulk->stops = bulk->ordered || command_has(command, FIELD_AUTOCOMMIT);
	bulk->silent = concern_is_unacknowledged(&command->fields[FIELD_WRITE_CONCERN]);
	return read_fields(reading) && read_cursor(reading) && read_namespaces(reading) &&
	       read_ops(reading) && read_statement_ids(reading);
}

must_check bool bulk_write_parse(struct bulk_write *bulk, const struct packet *packet,
				 const struct command *command, struct bulk_problem *problem)
{
	struct bulk_write parsed = {0};
	const struct reading reading = {&parsed, packet, command, problem};

	if (!read_all(&reading)) {
		bulk_write_fini(&parsed);
		return false;
	}
	*bulk = parsed;
	return true;
}

void bulk_write_fini(struct bulk_write *bulk)
{
	free(bulk->ops);
	free(bulk->namespaces);
	buffer_fini(&bulk->ids);
	*bulk = (struct bulk_write){0};
}

/* ---- runs ---- */

struct bulk_run bulk_write_longest(const struct bulk_write *bulk, size_t first)
{
	const struct bulk_op *op = &bulk->ops[first];
	struct bulk_run run = {first, 1};

	while (first + run.count < bulk->count && op[run.count].kind == op->kind &&
	       op[run.count].namespace == op->namespace)
		run.count++;
	return run;
}

struct bulk_run bulk_write_run(const struct bulk_write *bulk, size_t first)
{
	if (!bulk->errors_only && bulk->ops[first].kind != BULK_INSERT)
		return (struct bulk_run){first, 1};
	return bulk_write_longest(bulk, first);
}

/* ---- writing ---- */

/* What the run's command has otherwise, or has not. */
static bool is_of_the_bulk(const struct element *field)
{
	static const char *const names[] = {"bulkWrite", "ops",        "nsInfo",
					    "cursor",    "errorsOnly", "ordered",
					    "stmtId",    "stmtIds",    "$db"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (element_is(field, names[i]))
			return true;
	return false;
}

static size_t repeated_length(const struct command *client)
{
	struct cursor cursor;
	struct element field;
	size_t length = 0;

	require(cursor_open(&cursor, client->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!is_of_the_bulk(&field))
			length += element_raw(&field).length;
	return length;
}

must_check bool bulk_write_repeats_much(const struct bulk_write *bulk, const struct command *client)
{
	size_t runs = 0;

	for (size_t i = 0; i < bulk->count; i += bulk_write_longest(bulk, i).count)
		runs++;
	return repeated_length(client) * runs > BULK_REPEATED_MOST;
}

static bool is_left_out(const struct bulk_write *bulk, const struct bulk_command *command,
			const struct command *client, const struct element *field)
{
	bool in_transaction = command_has(client, FIELD_AUTOCOMMIT);

	return is_of_the_bulk(field) ||
	       (element_is(field, "let") && bulk->ops[command->run.first].kind == BULK_INSERT) ||
	       (element_is(field, "maxTimeMS") && command->time_left >= 0) ||
	       (element_is(field, "writeConcern") && bulk->silent) ||
	       (in_transaction && command->begun &&
		(element_is(field, "startTransaction") || element_is(field, "readConcern")));
}

/* In the client's form: its own list, or a first number from which they go up. */
static void write_statement_ids(const struct bulk_write *bulk, const struct command *client,
				struct bulk_run run, struct buffer *out)
{
	int32_t first = 0;
	size_t array;
	char name[12];

	if (!command_has(client, FIELD_TXN_NUMBER))
		return;
	if (bulk->ids.length == 0) {
		if (!read_id(&client->fields[FIELD_STMT_ID], &first))
			first = 0;
		writer_int32(out, "stmtId", (int32_t)((uint32_t)first + run.first));
		return;
	}
	array = writer_open_array(out, "stmtIds");
	for (size_t i = 0; i < run.count; i++)
		writer_int32(out, writer_index(name, i),
			     load_int32(bulk->ids.data + (run.first + i) * sizeof(int32_t)));
	writer_close(out, array);
}

static void write_body(const struct bulk_write *bulk, const struct command *client,
		       const struct bulk_command *command, struct buffer *out)
{
	const struct bulk_op *op = &bulk->ops[command->run.first];
	const struct bulk_namespace *namespace = &bulk->namespaces[op->namespace];
	size_t body = writer_open(out);
	struct cursor cursor;
	struct element field;

	writer_text(out, bulk_definitions[op->kind].command, namespace->collection);
	writer_bool(out, "ordered", bulk->ordered);
	require(cursor_open(&cursor, client->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!is_left_out(bulk, command, client, &field))
			writer_element(out, &field);
	if (namespace->uuid.type != 0)
		writer_element(out, &namespace->uuid);
	write_statement_ids(bulk, client, command->run, out);
	if (bulk->silent) /* it is answered, and waits for nobody */
		template_write_fields(out, "{writeConcern: {w: 1}}");
	if (command->time_left >= 0)
		writer_int64(out, "maxTimeMS", command->time_left);
	writer_text(out, "$db", namespace->database);
	writer_close(out, body);
}

static void write_statement(const struct bulk_op *op, struct buffer *out)
{
	const struct bulk_definition *kind = &bulk_definitions[op->kind];
	bool many = false;
	size_t start = writer_open(out);
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, op->document));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		const struct bulk_field *known = bulk_find_field(kind, field.name);

		require(known);
		if (bulk_field_absent(known, &field))
			continue;
		if (known->old)
			writer_renamed(out, known->old, &field);
		else if (known->kind == BULK_FIELD_BOOL)
			many = element_truth(&field);
	}
	if (op->kind == BULK_DELETE)
		writer_int32(out, "limit", many ? 0 : 1);
	writer_close(out, start);
}

static void write_op(const struct bulk_op *op, struct buffer *out)
{
	struct element document;

	if (op->kind != BULK_INSERT) {
		write_statement(op, out);
		return;
	}
	require(document_find(op->document, "document", &document));
	buffer_append(out, document.value.data, document.value.length);
}

void bulk_write_command(const struct bulk_write *bulk, const struct command *client,
			const struct bulk_command *command, struct buffer *out)
{
	struct bulk_run run = command->run;
	size_t start = message_begin(out, command->request_id, 0, 0), sequence;

	message_begin_body(out);
	write_body(bulk, client, command, out);
	sequence = message_begin_sequence(
		out, bytes_of(bulk_definitions[bulk->ops[run.first].kind].sequence));
	for (size_t i = run.first; i < run.first + run.count; i++)
		write_op(&bulk->ops[i], out);
	message_end_sequence(out, sequence);
	message_end(out, start);
}
