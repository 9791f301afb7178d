/* explain of a write that needs the whole array: of what is sent first, the write with its guard.
 */
#include "protocol/writer.h"
#include "rules/edit/edit.h"
#include "rules/sequence/sequence_inner.h"

struct explaining {
	struct sequence *sequence;
	struct command inner;
};

static void write_filter(const struct explaining *explaining, struct buffer *out, const char *name,
			 const struct whole_write *write)
{
	struct edit edit;

	edit_init(&edit, explaining->sequence, write);
	edit.named = EDIT_PINNED; /* whatever document it is: the client's own filter says */
	edit_write_filter(&edit);
	writer_document(out, name, buffer_view(&edit.sent.filter));
	edit_fini(&edit);
}

static void write_statement(const struct explaining *explaining, struct buffer *out,
			    const struct element *statement, bool deletes)
{
	const struct ruled_namespace *namespace = explaining->sequence->match.namespace;
	struct whole_write write;
	struct cursor cursor;
	struct element field;
	size_t start;

	if (statement->type != BSON_BYTE_DOCUMENT ||
	    !whole_write_of_statement(statement->value, deletes, &write) ||
	    !whole_write_wanted(&write, namespace) || !cursor_open(&cursor, statement->value)) {
		writer_element(out, statement);
		return;
	}
	/* An array's names are short, and a NUL follows each. */
	start = writer_open_document(out, (const char *)statement->name.data);
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (element_is(&field, "q"))
			write_filter(explaining, out, "q", &write);
		else
			writer_element(out, &field);
	}
	writer_close(out, start);
}

static void write_statements(const struct explaining *explaining, struct buffer *out,
			     const struct element *array)
{
	bool deletes = element_is(array, "deletes");
	size_t start = writer_open_array(out, deletes ? "deletes" : "updates");
	struct cursor cursor;
	struct element statement;

	require(cursor_open(&cursor, array->value));
	while (cursor_next(&cursor, &statement) == CURSOR_ELEMENT)
		write_statement(explaining, out, &statement, deletes);
	writer_close(out, start);
}

static void write_inner(const struct explaining *explaining, struct buffer *out)
{
	const struct command *inner = &explaining->inner;
	const struct ruled_namespace *namespace = explaining->sequence->match.namespace;
	struct whole_write write = whole_write_of_command(inner);
	bool modifies = inner->fields[FIELD_UPDATES].type == 0 &&
			inner->fields[FIELD_DELETES].type == 0 &&
			whole_write_wanted(&write, namespace);
	size_t start = writer_open_document(out, "explain");
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, inner->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		bool list = element_is(&field, "updates") || element_is(&field, "deletes");

		if (list && field.type == BSON_BYTE_ARRAY)
			write_statements(explaining, out, &field);
		else if (!(modifies && element_is(&field, "query")))
			writer_element(out, &field);
	}
	if (modifies)
		write_filter(explaining, out, "query", &write);
	writer_close(out, start);
}

static bool edit_field(void *context, struct buffer *out, const struct element *field)
{
	if (!element_is(field, "explain"))
		return false;
	write_inner(context, out);
	return true;
}

static enum sequence_outcome explain_resume(struct sequence *sequence,
					    const struct sequence_input *input)
{
	struct explaining explaining = {.sequence = sequence};

	if (input->reply)
		return sequence_pass(sequence, input->reply);
	require(command_parse(sequence->match.command.first.value, &explaining.inner));
	sequence_write_edited(sequence, 0, edit_field, &explaining);
	return sequence->match.facts.answered ? SEQUENCE_SEND : SEQUENCE_SEND_LAST;
}

struct sequence *sequence_explain_new(void)
{
	struct sequence *sequence = must_calloc(1, sizeof(*sequence));

	sequence->resume = explain_resume;
	return sequence;
}
