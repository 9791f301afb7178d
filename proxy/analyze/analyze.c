/* `spillway analyze`: has lengths and bytes of arrays counted, and says what follows. */
#include "proxy/analyze/analyze.h"

#include "protocol/reply.h"
#include "protocol/writer.h"
#include "proxy/analyze/analyze_pipeline.h"
#include "proxy/analyze/analyze_report.h"
#include "proxy/analyze/analyze_uri.h"
#include "proxy/base/clock.h"
#include "proxy/base/config_file.h"
#include "proxy/analyze/find_arrays.h"
#include "proxy/base/json_text.h"
#include "proxy/terminal/progress.h"
#include "proxy/upstream/link.h"
#include "rules/rule/text.h"

#include <errno.h>
#include <mongoc/mongoc.h>
#include <stdio.h>
#include <stdlib.h>

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

/* The server. */

typedef void (*each_document)(struct analyze *analyze, void *context, struct bytes document);

/* Ends the cursor. */
static bool take_all(struct analyze *analyze, mongoc_cursor_t *cursor, each_document each,
		     void *context)
{
	const bson_t *document;
	bool done;

	while (mongoc_cursor_next(cursor, &document))
		each(analyze, context, (struct bytes){bson_get_data(document), document->len});
	done = !mongoc_cursor_error(cursor, &analyze->error);
	mongoc_cursor_destroy(cursor);
	return done;
}

static bool aggregate(struct analyze *analyze, const struct buffer *pipeline, bool by_id,
		      each_document each, void *context)
{
	bson_t stages, *options = BCON_NEW("allowDiskUse", BCON_BOOL(true));
	mongoc_cursor_t *cursor;

	if (by_id)
		BCON_APPEND(options, "hint", "{", "_id", BCON_INT32(1), "}");
	require(bson_init_static(&stages, pipeline->data, pipeline->length));
	cursor = mongoc_collection_aggregate(analyze->collection, MONGOC_QUERY_NONE, &stages,
					     options, NULL);
	bson_destroy(options);
	return take_all(analyze, cursor, each, context);
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

static void say(const char *text)
{
	if (progress_seen())
		progress_say("%s", text);
}

static bool search_arrays(struct analyze *analyze)
{
	auto_buffer struct buffer pipeline = {0};
	struct found_arrays found = {0};
	struct analyze_report *report = &analyze->report;
	size_t start = writer_open(&pipeline), index = 0;
	bool done;

	report->searched = true;
	say("looking for arrays ...");
	pipeline_sample(&pipeline, &index, SEARCHED);
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

/* Of all documents (no portion, SAMPLE_ALL), of a portion, or of those drawn. */
static bool count_arrays(struct analyze *analyze, int64_t sample, const struct portion *portion)
{
	auto_buffer struct buffer pipeline = {0};
	size_t start = writer_open(&pipeline), index = 0;

	if (sample != SAMPLE_ALL)
		pipeline_draw(&pipeline, &index, mongoc_collection_get_name(analyze->collection),
			      (double)sample / (double)analyze->report.documents);
	if (portion)
		pipeline_within(&pipeline, &index, portion);
	pipeline_count(&pipeline, &index, &analyze->report, analyze->whole);
	writer_close(&pipeline, start);
	return aggregate(analyze, &pipeline, portion || sample != SAMPLE_ALL, take_group, NULL);
}

/* A Spillway with a rule on the collection lets nobody ask for its own field, and gives whole
 * arrays. */
static bool count_whole_arrays(struct analyze *analyze, int64_t sample,
			       const struct portion *portion)
{
	if (count_arrays(analyze, sample, portion))
		return true;
	if (analyze->whole || analyze->error.code != ERROR_COMMAND_NOT_SUPPORTED)
		return false;
	analyze->whole = true;
	return count_arrays(analyze, sample, portion);
}

/* Portions, for those who look. */

static void take_id(struct analyze *analyze, void *context, struct bytes document)
{
	(void)analyze;
	buffer_append(context, document.data, document.length);
}

static bool draw_ids(struct analyze *analyze, int64_t wanted, struct buffer *ids)
{
	auto_buffer struct buffer pipeline = {0};
	size_t start = writer_open(&pipeline), index = 0;

	pipeline_sample(&pipeline, &index, wanted);
	pipeline_only_id(&pipeline, &index);
	writer_close(&pipeline, start);
	return aggregate(analyze, &pipeline, false, take_id, ids);
}

static void take_record(struct analyze *analyze, void *context, struct bytes document)
{
	(void)analyze;
	portions_add(context, document);
}

/* From the index alone, in its order. */
static bool find_records(struct analyze *analyze, const struct buffer *ids,
			 struct portions *portions)
{
	auto_buffer struct buffer filter = {0};
	bson_t drawn, *options = BCON_NEW("projection", "{", "_id", BCON_INT32(1), "}", "hint", "{",
					  "_id", BCON_INT32(1), "}", "sort", "{", "_id",
					  BCON_INT32(1), "}", "showRecordId", BCON_BOOL(true));
	mongoc_cursor_t *cursor;

	pipeline_filter_ids(&filter, buffer_view(ids));
	require(bson_init_static(&drawn, filter.data, filter.length));
	cursor = mongoc_collection_find_with_opts(analyze->collection, &drawn, options, NULL);
	bson_destroy(options);
	return take_all(analyze, cursor, take_record, portions);
}

static bool draw_portions(struct analyze *analyze, int64_t wanted, struct portions *portions)
{
	auto_buffer struct buffer ids = {0};

	return draw_ids(analyze, wanted, &ids) && find_records(analyze, &ids, portions) &&
	       portions_fit(portions);
}

static void show_progress(const struct analyze_report *report, int64_t passed)
{
	const struct progress progress = {report->looked_at, report->documents, passed};
	auto_buffer struct buffer left = {0};

	progress_append_left(&left, &progress);
	progress_say(
		"%lld of about %lld documents (%lld %%) looked at, %lld documents a second%.*s",
		(long long)progress.done, (long long)progress.total,
		(long long)progress_percent(&progress), (long long)(progress.done * 1000 / passed),
		(int)left.length, (const char *)left.data);
}

static bool count_portions(struct analyze *analyze, struct portions *portions)
{
	struct analyze_report *report = &analyze->report;
	struct portion portion;
	int64_t began = clock_now(), told = 0;

	while (portions_next(portions, &portion)) {
		if (!count_whole_arrays(analyze, SAMPLE_ALL, &portion))
			return false;
		for (size_t i = 0; i < report->array_count; i++)
			distribution_finish(&report->arrays[i].distribution);
		if (progress_due(&told))
			show_progress(report, clock_now() - began + 1);
	}
	return true;
}

/* Nothing is counted. */
static void start_anew(struct analyze *analyze)
{
	struct analyze_report *report = &analyze->report;

	for (size_t i = 0; i < report->array_count; i++)
		distribution_fini(&report->arrays[i].distribution);
	report->looked_at = report->bytes = report->spilled = report->largest = 0;
	analyze->whole = false;
}

/* In portions where somebody looks at how far it is: in one go it takes a quarter less time. */
static bool count_all(struct analyze *analyze)
{
	struct portions portions = {0};
	int64_t wanted = progress_seen() ? portions_wanted(analyze->report.documents) : 0;
	bool done = wanted > 0 && draw_portions(analyze, wanted, &portions) &&
		    count_portions(analyze, &portions);

	portions_fini(&portions);
	if (done)
		return true;
	start_anew(analyze);
	say("looking at all documents ...");
	return count_whole_arrays(analyze, SAMPLE_ALL, NULL);
}

static bool count(struct analyze *analyze, int64_t sample)
{
	if (analyze->report.array_count == 0)
		return true;
	if (sample == SAMPLE_ALL)
		return count_all(analyze);
	say("looking at documents drawn at random ...");
	return count_whole_arrays(analyze, sample, NULL);
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
	if (!count(analyze, sample))
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
	bool done, lost;

	if (mistake || !connect_to(analyze)) {
		tell_failure(analyze, "bad usage", mistake ? mistake : analyze->error.message,
			     "the URI is no good: ");
		return 2;
	}
	say("looking at the collection ...");
	done = look(analyze);
	progress_clear();
	if (done)
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
