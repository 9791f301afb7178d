/* Fuzzes what is said of filters, keys, expressions, pipelines, updates and projections, and that
 * what is written for them is BSON that still has all that the client sent. The input is a
 * document. */
#include "protocol/writer.h"
#include "rules/query/computed.h"
#include "rules/query/reads.h"

static struct rule rules[] = {
	{.array = (char *)"t",
	 .key = (char *)"t",
	 .threshold = 2,
	 .max_bytes = 100,
	 .fold_limit = 16 << 20,
	 .flag = {.field = (char *)"g"},
	 .counters = {.total = (char *)"c.t", .documents = (char *)"c.d"},
	 .reference = {.field = (char *)"r"}},
	{.array = (char *)"a.b",
	 .key = (char *)"a/b",
	 .threshold = 2,
	 .max_bytes = 100,
	 .fold_limit = 16 << 20,
	 .flag = {.field = (char *)"g",
		  .otherwise = {.type = BSON_BYTE_BOOL, .value = {(const uint8_t *)"", 1}}},
	 .expose = {.flag = true}},
};
static struct target targets[] = {{.rule = &rules[0]}, {.rule = &rules[1]}};
static const struct ruled_namespace both = {.target_count = 2, .targets = targets};

/* The first element of `out`, which holds one field. */
static struct bytes only_field(const struct buffer *out)
{
	struct element field;

	require(document_find(buffer_view(out), "w", &field));
	return field.value;
}

/* One of the elements of `written` is the client's, or begins with the client's document's. */
static bool keeps(struct bytes written, const struct element *client)
{
	struct cursor cursor;
	struct element element;

	require(cursor_open(&cursor, written));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		size_t length = client->value.length - 5;

		if (bytes_equal(element_raw(&element), element_raw(client)))
			return true;
		if (bytes_equal(element.name, client->name) && element.type == client->type &&
		    element.type == BSON_BYTE_DOCUMENT &&
		    element.value.length > client->value.length &&
		    memcmp(element.value.data + 4, client->value.data + 4, length) == 0)
			return true;
	}
	return false;
}

static void check_kept(struct bytes document, struct bytes written)
{
	struct cursor cursor;
	struct element element;

	require(!document_valid(document) || document_valid(written));
	require(cursor_open(&cursor, document));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		require(keeps(written, &element) || element_is(&element, "_id"));
}

static void check_update(const struct element *u)
{
	struct update update = update_classify(u, &both);
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);

	require(update.elements >= 0 && (update.appends || update.elements == 0));
	if (update.kind != UPDATE_WHOLE)
		return;
	update_write_whole(&out, "w", u, &both, NULL);
	writer_close(&out, start);
	check_kept(u->value, only_field(&out));
}

static void check_projection(struct bytes document)
{
	struct projection projection = projection_classify(document, &both);
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);

	if (projection.kind != PROJECTION_INCLUDE && projection.kind != PROJECTION_EXCLUDE)
		return;
	projection_write(&out, "w", document, &both);
	writer_close(&out, start);
	check_kept(document, only_field(&out));
}

/* A rule more never makes less of a document read. */
static void check_reads(struct bytes document)
{
	struct element expression = {.type = BSON_BYTE_DOCUMENT, .value = document};
	enum reads_kind filter = reads_of_filter(document, &both).kind;
	enum reads_kind keys = reads_of_keys(document, &both).kind;
	enum reads_kind value = reads_of_expression(&expression, &both).kind;

	for (size_t i = 0; i < ARRAY_LENGTH(targets); i++) {
		struct ruled_namespace one = {.target_count = 1, .targets = &targets[i]};

		require(reads_of_filter(document, &one).kind <= filter);
		require(reads_of_keys(document, &one).kind <= keys);
		require(reads_of_expression(&expression, &one).kind <= value);
		require(computed_of(document, &one) <= computed_of(document, &both));
	}
	(void)document_is_outlier(document, &both);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes document = {data, size};
	struct element u = {.value = document};

	check_reads(document);
	check_projection(document);
	u.type = BSON_BYTE_DOCUMENT;
	check_update(&u);
	u.type = BSON_BYTE_ARRAY;
	check_update(&u);
	return 0;
}
