/* `spillway analyze`: counts lengths and bytes of arrays in one aggregation, and says what follows.
 */
#include "proxy/analyze/analyze.h"

#include "protocol/reply.h"
#include "protocol/writer.h"
#include "proxy/analyze/analyze_report.h"
#include "proxy/analyze/analyze_uri.h"
#include "proxy/base/config_file.h"
#include "proxy/analyze/find_arrays.h"
#include "proxy/base/json_text.h"
#include "proxy/upstream/link.h"
#include "rules/rule/text.h"

#include <errno.h>
#include <mongoc/mongoc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SEARCHED 1000           /* documents in which arrays are looked for */
#define ARRAYS_MAX 12           /* so many are looked at in one go */
#define DOCUMENTS_MANY 20000000 /* larger collections are sampled, */
#define BYTES_MANY (8LL << 30)
#define SAMPLE_DEFAULT 50000 /* by so many documents */
#define SAMPLE_ALL 0
#define SAMPLE_UNSET (-1)
#define CONNECT_TIMEOUT_MS 5000

struct analyze {
	char *uri;
	const char *namespace;
	const char *array; /* NULL: all that are found */
	const char *svg;
	int64_t sample;
	bool json;
	bool yaml;
	bool whole; /* asked through a Spillway with a rule on it: nothing is seen split */
	mongoc_client_t *client;
	mongoc_collection_t *collection;
	struct analyze_report report;
	bson_error_t error;
};

/* The command line. */

static bool read_sample(const char *text, int64_t *sample)
{
	char *end;

	if (strcmp(text, "all") == 0) {
		*sample = SAMPLE_ALL;
		return true;
	}
	errno = 0;
	*sample = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0' && end != text && *sample > 0 && *sample <= INT32_MAX;
}

/* What is wrong with the command line, or NULL. `taken`: arguments before NAMESPACE. */
static const char *take_line(struct analyze *analyze, const struct command_line *line, int taken)
{
	const char *sample = line->values[OPTION_SAMPLE], *dot;
	int left = line->argument_count - taken;

	if (line->values[OPTION_JSON] && line->values[OPTION_YAML])
		return "--json and --yaml are two forms: choose one";
	if (sample && !read_sample(sample, &analyze->sample))
		return "--sample takes a number of documents, or 'all'";
	if (left < 1)
		return taken ? "URI and NAMESPACE are needed" : "NAMESPACE is needed";
	if (left > 2)
		return "too many arguments";
	analyze->namespace = line->arguments[taken];
	analyze->array = left == 2 ? line->arguments[taken + 1] : NULL;
	analyze->svg = line->values[OPTION_SVG];
	analyze->json = line->values[OPTION_JSON];
	analyze->yaml = line->values[OPTION_YAML];
	dot = strchr(analyze->namespace, '.');
	if (!dot || dot == analyze->namespace || !dot[1])
		return "NAMESPACE is database.collection";
	if (!bson_utf8_validate(analyze->namespace, strlen(analyze->namespace), false))
		return "NAMESPACE is not UTF-8";
	if (analyze->array && (!*analyze->array || *analyze->array == '$'))
		return "ARRAY is a path of names";
	if (analyze->array && !bson_utf8_validate(analyze->array, strlen(analyze->array), false))
		return "ARRAY is not UTF-8";
	return NULL;
}

/* The pipeline. */

static size_t open_stage(struct buffer *out, size_t *index, const char *name, size_t *stage)
{
	char text[12];

	*stage = writer_open_document(out, writer_index(text, (*index)++));
	return writer_open_document(out, name);
}

static void close_stage(struct buffer *out, size_t content, size_t stage)
{
	writer_close(out, content);
	writer_close(out, stage);
}

static void write_json(struct buffer *out, const char *name, const char *path, const char *format)
{
	auto_buffer struct buffer text = {0}, quoted = {0};
	bson_error_t error;
	bson_t *value;

	/* The path is the user's: as a JSON string's content. */
	for (; *path; path++)
		text_append(&quoted,
			    *path > 0 && *path < ' '        ? "\\u%04x"
			    : *path == '"' || *path == '\\' ? "\\%c"
							    : "%c",
			    *path);
	buffer_append(&quoted, "", 1);
	for (; *format; format++)
		text_append(&text, *format == '@' ? "%s" : "%.1s",
			    *format == '@' ? (const char *)quoted.data : format);
	value = bson_new_from_json(text.data, (ssize_t)text.length, &error);
	require(value);
	writer_document(out, name, (struct bytes){bson_get_data(value), value->len});
	bson_destroy(value);
}

/* {$or: [false, {$isArray: <each parent>}]}: the path would go through an array. */
static void write_parents(struct buffer *out, const char *name, const char *path)
{
	size_t document = writer_open_document(out, name), or = writer_open_array(out, "$or");
	size_t index = 1, is_array;
	char text[12];

	writer_bool(out, "0", false);
	for (const char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.')) {
		auto_free char *parent = bson_strdup_printf("$%.*s", (int)(dot - path), path);

		is_array = writer_open_document(out, writer_index(text, index++));
		writer_string(out, "$isArray", parent);
		writer_close(out, is_array);
	}
	writer_close(out, or);
	writer_close(out, document);
}

/* The length: {$cond: [<is an array>, {$size: ...}, -2 or -1]}. */
static void write_length(struct buffer *out, const char *name, const char *path)
{
	size_t document = writer_open_document(out, name), cond = writer_open_array(out, "$cond");
	size_t guarded, inner;

	if (!strchr(path, '.')) {
		write_json(out, "0", path, "{\"$isArray\": \"$@\"}");
		write_json(out, "1", path, "{\"$size\": \"$@\"}");
	} else {
		write_parents(out, "0", path);
		writer_int32(out, "1", LENGTH_OTHER);
	}
	if (!strchr(path, '.')) {
		write_json(out, "2", path, "{\"$cond\": [{\"$gt\": [\"$@\", null]}, -2, -1]}");
	} else {
		guarded = writer_open_document(out, "2");
		inner = writer_open_array(out, "$cond");
		write_json(out, "0", path, "{\"$isArray\": \"$@\"}");
		write_json(out, "1", path, "{\"$size\": \"$@\"}");
		write_json(out, "2", path, "{\"$cond\": [{\"$gt\": [\"$@\", null]}, -2, -1]}");
		writer_close(out, inner);
		writer_close(out, guarded);
	}
	writer_close(out, cond);
	writer_close(out, document);
}

#define DOCUMENT_BYTES "{\"$bsonSize\": \"$$ROOT\"}"
#define DOCUMENT_SPLIT "{\"$cond\": [{\"$gt\": [\"$_spill\", null]}, 1, 0]}"
#define ARRAY_BYTES "{\"$bsonSize\": {\"a\": \"$@\"}}"

/* One array: all is worked out in the group itself, which is a quarter faster than a stage before
 * it. */
static void write_direct_group(struct buffer *out, size_t *index, const struct analyze *analyze)
{
	const char *path = analyze->report.arrays[0].path;
	size_t stage, group = open_stage(out, index, "$group", &stage), id;

	id = writer_open_document(out, "_id");
	write_json(out, "a", "", "{\"$literal\": 0}");
	write_length(out, "n", path);
	write_json(out, "c", path, "{\"$ceil\": {\"$log\": [" ARRAY_BYTES ", 2]}}");
	writer_close(out, id);
	write_json(out, "d", "", "{\"$sum\": 1}");
	write_json(out, "b", path, "{\"$sum\": " ARRAY_BYTES "}");
	write_json(out, "m", path, "{\"$max\": " ARRAY_BYTES "}");
	write_json(out, "r", "", "{\"$sum\": " DOCUMENT_BYTES "}");
	write_json(out, "l", "", "{\"$max\": " DOCUMENT_BYTES "}");
	if (!analyze->whole)
		write_json(out, "s", "", "{\"$sum\": " DOCUMENT_SPLIT "}");
	close_stage(out, group, stage);
}

/* Several: what is wanted of each document, its arrays' numbers, lengths and bytes, once for each
 * array. */
static void write_project(struct buffer *out, size_t *index, const struct analyze *analyze)
{
	const struct analyze_report *report = &analyze->report;
	size_t stage, project = open_stage(out, index, "$project", &stage), arrays, array;
	char name[12];

	writer_int32(out, "_id", 0);
	arrays = writer_open_array(out, "a");
	for (size_t i = 0; i < report->array_count; i++) {
		array = writer_open_document(out, writer_index(name, i));
		writer_int32(out, "a", (int32_t)i);
		write_length(out, "n", report->arrays[i].path);
		write_json(out, "b", report->arrays[i].path, ARRAY_BYTES);
		writer_close(out, array);
	}
	writer_close(out, arrays);
	write_json(out, "r", "", DOCUMENT_BYTES);
	if (!analyze->whole)
		write_json(out, "s", "", DOCUMENT_SPLIT);
	close_stage(out, project, stage);
	stage = writer_open_document(out, writer_index(name, (*index)++));
	writer_string(out, "$unwind", "$a");
	writer_close(out, stage);
}

static void write_group(struct buffer *out, size_t *index)
{
	size_t stage, group = open_stage(out, index, "$group", &stage);

	write_json(out, "_id", "",
		   "{\"a\": \"$a.a\", \"n\": \"$a.n\","
		   " \"c\": {\"$ceil\": {\"$log\": [\"$a.b\", 2]}}}");
	write_json(out, "d", "", "{\"$sum\": 1}");
	write_json(out, "b", "", "{\"$sum\": \"$a.b\"}");
	write_json(out, "m", "", "{\"$max\": \"$a.b\"}");
	write_json(out, "r", "", "{\"$sum\": \"$r\"}");
	write_json(out, "l", "", "{\"$max\": \"$r\"}");
	write_json(out, "s", "", "{\"$sum\": \"$s\"}");
	close_stage(out, group, stage);
}

static void write_sample(struct buffer *out, size_t *index, int64_t size)
{
	size_t stage, sample = open_stage(out, index, "$sample", &stage);

	writer_int64(out, "size", size);
	close_stage(out, sample, stage);
}

/* Each document with the same chance, from the index of _id alone. ($sample draws pages first:
 * documents beside large ones, and so the large ones, come up several times too often.) */
static void write_draw(struct buffer *out, size_t *index, const struct analyze *analyze,
		       double chance)
{
	size_t stage, content = open_stage(out, index, "$project", &stage), less;
	char name[12];

	writer_int32(out, "_id", 1);
	close_stage(out, content, stage);
	content = open_stage(out, index, "$addFields", &stage);
	write_json(out, "r", "", "{\"$rand\": {}}");
	close_stage(out, content, stage);
	content = open_stage(out, index, "$match", &stage);
	less = writer_open_document(out, "r");
	writer_double(out, "$lt", chance);
	writer_close(out, less);
	close_stage(out, content, stage);
	content = open_stage(out, index, "$lookup", &stage);
	writer_string(out, "from", mongoc_collection_get_name(analyze->collection));
	writer_string(out, "localField", "_id");
	writer_string(out, "foreignField", "_id");
	writer_string(out, "as", "d");
	close_stage(out, content, stage);
	stage = writer_open_document(out, writer_index(name, (*index)++));
	write_json(out, "$replaceWith", "", "{\"$ifNull\": [{\"$first\": \"$d\"}, {}]}");
	writer_close(out, stage);
}

/* The server. */

typedef void (*each_document)(struct analyze *analyze, void *context, struct bytes document);

static bool aggregate(struct analyze *analyze, const struct buffer *pipeline, bool by_id,
		      each_document each, void *context)
{
	bson_t stages, *options = BCON_NEW("allowDiskUse", BCON_BOOL(true));
	const bson_t *document;
	mongoc_cursor_t *cursor;
	bool done;

	if (by_id)
		BCON_APPEND(options, "hint", "{", "_id", BCON_INT32(1), "}");
	require(bson_init_static(&stages, pipeline->data, pipeline->length));
	cursor = mongoc_collection_aggregate(analyze->collection, MONGOC_QUERY_NONE, &stages,
					     options, NULL);
	while (mongoc_cursor_next(cursor, &document))
		each(analyze, context, (struct bytes){bson_get_data(document), document->len});
	done = !mongoc_cursor_error(cursor, &analyze->error);
	mongoc_cursor_destroy(cursor);
	bson_destroy(options);
	return done;
}

static int64_t integer_at(struct bytes document, const char *path)
{
	struct element element;
	int64_t value = 0;

	if (document_find_path(document, path, &element) && element_integer(&element, &value))
		return value;
	return 0;
}

static bool look_at_collection(struct analyze *analyze, int64_t *bytes)
{
	bson_t *command =
		BCON_NEW("collStats", BCON_UTF8(mongoc_collection_get_name(analyze->collection)));
	struct bytes stats;
	bson_t reply;
	bool done = mongoc_collection_command_simple(analyze->collection, command, NULL, &reply,
						     &analyze->error);

	stats = (struct bytes){bson_get_data(&reply), reply.len};
	analyze->report.documents = integer_at(stats, "count");
	*bytes = integer_at(stats, "size");
	bson_destroy(&reply);
	bson_destroy(command);
	return done;
}

static void search_document(struct analyze *analyze, void *context, struct bytes document)
{
	(void)analyze;
	found_arrays_add(context, document);
}

static void add_array(struct analyze_report *report, const char *path)
{
	report->arrays =
		must_realloc(report->arrays, (report->array_count + 1) * sizeof(*report->arrays));
	report->arrays[report->array_count++] =
		(struct report_array){.path = must_strndup(path, strlen(path))};
}

static bool search_arrays(struct analyze *analyze)
{
	auto_buffer struct buffer pipeline = {0};
	struct found_arrays found = {0};
	struct analyze_report *report = &analyze->report;
	size_t start = writer_open(&pipeline), index = 0;
	bool done;

	report->searched = true;
	write_sample(&pipeline, &index, SEARCHED);
	writer_close(&pipeline, start);
	done = aggregate(analyze, &pipeline, false, search_document, &found);
	found_arrays_sort(&found);
	for (size_t i = 0; i < found.count && i < ARRAYS_MAX; i++)
		add_array(report, found.arrays[i].path);
	report->left_out = found.count - report->array_count;
	found_arrays_fini(&found);
	return done;
}

static void take_group(struct analyze *analyze, void *context, struct bytes group)
{
	struct analyze_report *report = &analyze->report;
	int64_t array = integer_at(group, "_id.a"), largest = integer_at(group, "l");
	struct distribution_row row = {integer_at(group, "_id.n"), integer_at(group, "d"),
				       integer_at(group, "b"), integer_at(group, "m")};

	(void)context;
	if (array < 0 || (size_t)array >= report->array_count)
		return;
	distribution_add(&report->arrays[array].distribution, &row, integer_at(group, "_id.c"));
	if (array > 0) /* each document comes once for each array */
		return;
	report->looked_at += row.documents;
	report->bytes += integer_at(group, "r");
	report->spilled += integer_at(group, "s");
	if (largest > report->largest)
		report->largest = largest;
}

static bool count_arrays(struct analyze *analyze, int64_t sample)
{
	auto_buffer struct buffer pipeline = {0};
	size_t start = writer_open(&pipeline), index = 0;

	if (analyze->report.array_count == 0)
		return true;
	if (sample != SAMPLE_ALL)
		write_draw(&pipeline, &index, analyze,
			   (double)sample / (double)analyze->report.documents);
	if (analyze->report.array_count == 1) {
		write_direct_group(&pipeline, &index, analyze);
	} else {
		write_project(&pipeline, &index, analyze);
		write_group(&pipeline, &index);
	}
	writer_close(&pipeline, start);
	return aggregate(analyze, &pipeline, sample != SAMPLE_ALL, take_group, NULL);
}

/* A Spillway with a rule on the collection lets nobody ask for its own field, and gives whole
 * arrays. */
static bool count_whole_arrays(struct analyze *analyze, int64_t sample)
{
	if (count_arrays(analyze, sample))
		return true;
	analyze->whole = analyze->error.code == ERROR_COMMAND_NOT_SUPPORTED;
	return analyze->whole && count_arrays(analyze, sample);
}

/* mongod reads the whole collection for a sample of more than a twentieth: then all is looked at.
 */
static int64_t choose_sample(const struct analyze *analyze, int64_t bytes)
{
	int64_t sample = analyze->sample, documents = analyze->report.documents;

	if (sample == SAMPLE_UNSET)
		sample = documents > DOCUMENTS_MANY || bytes > BYTES_MANY ? SAMPLE_DEFAULT
									  : SAMPLE_ALL;
	return sample > documents / 20 ? SAMPLE_ALL : sample;
}

static bool look(struct analyze *analyze)
{
	struct analyze_report *report = &analyze->report;
	int64_t began = bson_get_monotonic_time(), bytes = 0, sample;

	if (!look_at_collection(analyze, &bytes))
		return false;
	if (analyze->array)
		add_array(report, analyze->array);
	else if (!search_arrays(analyze))
		return false;
	sample = choose_sample(analyze, bytes);
	if (!count_whole_arrays(analyze, sample))
		return false;
	if (report->array_count == 0)
		report->looked_at = report->documents < SEARCHED ? report->documents : SEARCHED;
	else if (sample == SAMPLE_ALL)
		report->documents = report->looked_at; /* what collStats says may be off */
	for (size_t i = 0; i < report->array_count; i++) {
		distribution_finish(&report->arrays[i].distribution);
		report->arrays[i].advice = report->spilled > 0
						   ? (struct advice){.verdict = VERDICT_SPLIT}
						   : advice_make(&report->arrays[i].distribution,
								 report_is_sample(report));
	}
	report->seconds = (double)(bson_get_monotonic_time() - began) / 1e6;
	return true;
}

/* The program. */

static bool write_svg(struct analyze *analyze)
{
	auto_buffer struct buffer out = {0};
	FILE *file = fopen(analyze->svg, "w");
	bool written;

	if (!file) {
		fprintf(stderr, "spillway: '%s' can't be written: %s\n", analyze->svg,
			strerror(errno));
		return false;
	}
	analyze_report_svg(&out, &analyze->report);
	written = fwrite(out.data, 1, out.length, file) == out.length;
	if (fclose(file) == 0 && written)
		return true;
	fprintf(stderr, "spillway: '%s' could not be written\n", analyze->svg);
	return false;
}

static bool connect_to(struct analyze *analyze)
{
	mongoc_uri_t *uri = mongoc_uri_new_with_error(analyze->uri, &analyze->error);
	const char *dot = strchr(analyze->namespace, '.');
	auto_free char *database =
		must_strndup(analyze->namespace, (size_t)(dot - analyze->namespace));

	if (!uri)
		return false;
	if (mongoc_uri_get_option_as_int32(uri, MONGOC_URI_SERVERSELECTIONTIMEOUTMS, 0) == 0)
		mongoc_uri_set_option_as_int32(uri, MONGOC_URI_SERVERSELECTIONTIMEOUTMS,
					       CONNECT_TIMEOUT_MS);
	/* An aggregation over a large collection says nothing for a long time. */
	mongoc_uri_set_option_as_int32(uri, MONGOC_URI_SOCKETTIMEOUTMS, INT32_MAX);
	analyze->client = mongoc_client_new_from_uri_with_error(uri, &analyze->error);
	mongoc_uri_destroy(uri);
	if (!analyze->client)
		return false;
	mongoc_client_set_appname(analyze->client, "spillway analyze");
	analyze->collection = mongoc_client_get_collection(analyze->client, database, dot + 1);
	return true;
}

static bool is_unreachable(const bson_error_t *error)
{
	return error->domain == MONGOC_ERROR_SERVER_SELECTION ||
	       error->domain == MONGOC_ERROR_STREAM ||
	       (error->domain == MONGOC_ERROR_CLIENT &&
		error->code == MONGOC_ERROR_CLIENT_AUTHENTICATE);
}

static int tell(struct analyze *analyze)
{
	auto_buffer struct buffer out = {0};

	if (analyze->json)
		analyze_report_json(&out, &analyze->report);
	else if (analyze->yaml)
		analyze_report_yaml(&out, &analyze->report);
	else
		analyze_report_text(&out, &analyze->report);
	printf("%.*s%s", (int)out.length, (const char *)out.data, analyze->json ? "\n" : "");
	return analyze->svg && !write_svg(analyze) ? 1 : 0;
}

static void tell_failure(const struct analyze *analyze, const char *ended, const char *error,
			 const char *before)
{
	auto_free char *plain = text_plain(error);

	if (analyze->json)
		json_print_failure("analyze", ended, error);
	fprintf(stderr, "spillway: %s%s\n", before, plain);
}

static int run(struct analyze *analyze)
{
	auto_free char *mistake = config_uri_mistake(analyze->uri);
	bool lost;

	if (mistake || !connect_to(analyze)) {
		tell_failure(analyze, "bad usage", mistake ? mistake : analyze->error.message,
			     "the URI is no good: ");
		return 2;
	}
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "looking at %s ...\n", analyze->namespace);
	if (look(analyze))
		return tell(analyze);
	lost = is_unreachable(&analyze->error);
	link_cut_command(analyze->error.message);
	tell_failure(analyze, lost ? "lost" : "refused", analyze->error.message, "");
	return lost ? 3 : 1;
}

static int run_connected(struct analyze *analyze)
{
	int code;

	require(analyze->namespace);
	mongoc_init();
	analyze->report.namespace = must_strndup(analyze->namespace, strlen(analyze->namespace));
	code = run(analyze);
	analyze_report_fini(&analyze->report);
	mongoc_collection_destroy(analyze->collection);
	mongoc_client_destroy(analyze->client);
	mongoc_cleanup();
	return code;
}

int analyze_main(const struct command_line *line)
{
	struct analyze analyze = {.sample = SAMPLE_UNSET};
	auto_free char *no_uri = NULL;
	const char *mistake;
	int taken, code;

	analyze.uri = analyze_uri(line, &taken, &no_uri);
	mistake = analyze.uri ? take_line(&analyze, line, taken) : no_uri;
	code = mistake ? command_line_refuse(line->command, "%s", mistake)
		       : run_connected(&analyze);
	analyze_uri_free(analyze.uri);
	return code;
}
