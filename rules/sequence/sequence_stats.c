/* dbStats without the overflow collections that are not listed.
 *
 *   SENT    the client's command
 *   LISTED  listCollections, of overflow collections alone
 *   ASKED   $collStats of one after the other
 *
 * What these hold is taken from mongod's sums. Each is what its collection had when it was asked:
 * while others write, no two numbers of a dbStats are of one moment either. */
#include "protocol/template.h"
#include "rules/rule/overflow_names.h"
#include "rules/sequence/sequence_inner.h"

#include <math.h>
#include <stdlib.h>

enum stats_step {
	STATS_BEGINS,
	STATS_SENT,
	STATS_LISTED,
	STATS_MORE_LISTED,
	STATS_ASKED,
};

enum sum {
	SUM_COLLECTIONS,
	SUM_OBJECTS,
	SUM_DATA,
	SUM_STORAGE,
	SUM_FREE,
	SUM_INDEXES,
	SUM_INDEX_SIZE,
	SUM_INDEX_FREE,
	SUMS,
};

struct stats {
	struct sequence sequence; /* has to be the first */
	struct packet reply;      /* mongod's, to the client's command */
	struct buffer names;      /* of overflow collections, each with its NUL */
	size_t asked;             /* bytes of `names` */
	double sums[SUMS];        /* of these: whole numbers, in bytes */
};

static struct stats *stats_of(struct sequence *sequence)
{
	return (struct stats *)(void *)sequence;
}

/* ---- the answer ---- */

/* A number of dbStats, and which sums are in it. */
struct figure {
	const char *name;
	bool scaled; /* divided by scaleFactor */
	enum sum sum, other;
};

static const struct figure figures[] = {
	{"collections", false, SUM_COLLECTIONS, SUMS},
	{"objects", false, SUM_OBJECTS, SUMS},
	{"indexes", false, SUM_INDEXES, SUMS},
	{"dataSize", true, SUM_DATA, SUMS},
	{"storageSize", true, SUM_STORAGE, SUMS},
	{"freeStorageSize", true, SUM_FREE, SUMS},
	{"indexSize", true, SUM_INDEX_SIZE, SUMS},
	{"indexFreeStorageSize", true, SUM_INDEX_FREE, SUMS},
	{"totalSize", true, SUM_STORAGE, SUM_INDEX_SIZE},
	{"totalFreeStorageSize", true, SUM_FREE, SUM_INDEX_FREE},
};

static double number_of(const struct element *field)
{
	int64_t whole = 0;
	double number;

	if (field->type == BSON_BYTE_DOUBLE) {
		memcpy(&number, field->value.data, sizeof(number));
		return number;
	}
	(void)!element_integer(field, &whole);
	return (double)whole;
}

static double number_at(struct bytes document, const char *name)
{
	struct element field;

	return document_find(document, name, &field) ? number_of(&field) : 0;
}

/* The number without what is in the sums, in bytes. mongod divides whole numbers: before that they
 * were what is nearest. */
static double left_of(const struct stats *stats, const struct figure *figure,
		      const struct element *field, double scale)
{
	double number = figure->scaled ? nearbyint(number_of(field) * scale) : number_of(field);
	double left = number - stats->sums[figure->sum] -
		      (figure->other == SUMS ? 0 : stats->sums[figure->other]);

	return left > 0 ? left : 0;
}

/* In mongod's types: sizes are doubles, counts the smaller integer that holds them. */
static void write_number(struct buffer *out, const struct element *field, double number)
{
	const char *name = (const char *)field->name.data;

	if (field->type == BSON_BYTE_DOUBLE)
		writer_double(out, name, number);
	else if (number <= INT32_MAX)
		writer_int32(out, name, (int32_t)number);
	else
		writer_int64(out, name, (int64_t)number);
}

static const struct figure *figure_named(const struct element *field)
{
	for (size_t i = 0; i < ARRAY_LENGTH(figures); i++)
		if (element_is(field, figures[i].name))
			return &figures[i];
	return NULL;
}

static double average(const struct stats *stats, struct bytes body)
{
	double objects = number_at(body, "objects") - stats->sums[SUM_OBJECTS];
	double scale = number_at(body, "scaleFactor");
	double size = nearbyint(number_at(body, "dataSize") * scale) - stats->sums[SUM_DATA];

	return objects > 0 && size > 0 ? size / objects : 0;
}

static void write_field(const struct stats *stats, struct bytes body, const struct element *field,
			struct buffer *out)
{
	const struct figure *figure = figure_named(field);
	double scale = number_at(body, "scaleFactor");
	double left;

	if (element_is(field, "avgObjSize")) {
		write_number(out, field, average(stats, body));
	} else if (!figure) {
		writer_element(out, field);
	} else {
		left = left_of(stats, figure, field, scale);
		write_number(out, field, figure->scaled && scale > 0 ? left / scale : left);
	}
}

static enum sequence_outcome answer(struct sequence *sequence)
{
	struct stats *stats = stats_of(sequence);
	const struct message *reply = &stats->reply.message;
	size_t body;
	struct cursor cursor;
	struct element field;

	if (stats->sums[SUM_COLLECTIONS] == 0)
		return sequence_pass(sequence, &stats->reply);
	body = sequence_begin_reply(sequence, reply);
	require(cursor_open(&cursor, reply->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		write_field(stats, reply->body, &field, &sequence->buffer);
	return sequence_end_reply(sequence, body);
}

/* ---- what the overflow collections have ---- */

static const char *database_of(const struct sequence *sequence)
{
	return (const char *)sequence->match.command.database.data; /* with its NUL behind it */
}

static void splice_names(struct buffer *out, size_t *place, const void *context)
{
	const struct sequence *sequence = context;

	overflow_names_splice(out, place, namespace_cache_rules(sequence->match.cache),
			      sequence->match.command.database);
}

static enum sequence_outcome fail_late(struct sequence *sequence)
{
	return sequence_fail(sequence, ERROR_MAX_TIME_EXPIRED, "operation exceeded time limit",
			     NULL);
}

static enum sequence_outcome ask_names(struct sequence *sequence,
				       const struct sequence_input *input)
{
	size_t body = sequence_begin_command(sequence);

	template_write_fields(&sequence->buffer,
			      "{listCollections: 1, filter: {$or: [..@names]}, nameOnly: true}",
			      fill_spliced("names", splice_names, sequence));
	sequence_write_read_fields(sequence, input, database_of(sequence), (struct bytes){0});
	sequence->step = STATS_LISTED;
	return sequence_send_command(sequence, body);
}

static enum sequence_outcome ask_more_names(struct sequence *sequence, int64_t cursor_id)
{
	size_t body = sequence_begin_command(sequence);

	writer_int64(&sequence->buffer, "getMore", cursor_id);
	writer_string(&sequence->buffer, "collection", "$cmd.listCollections");
	writer_string(&sequence->buffer, "$db", database_of(sequence));
	sequence_write_cursor_fields(sequence);
	sequence->step = STATS_MORE_LISTED;
	return sequence_send_command(sequence, body);
}

/* The next one; behind the last the client has its answer. */
static enum sequence_outcome ask_next(struct sequence *sequence, const struct sequence_input *input)
{
	struct stats *stats = stats_of(sequence);
	const char *name = (const char *)stats->names.data + stats->asked;
	size_t body;

	if (stats->asked == stats->names.length)
		return answer(sequence);
	if (sequence_time_left(sequence, input) == 0)
		return fail_late(sequence);
	stats->asked += strlen(name) + 1;
	body = sequence_begin_command(sequence);
	template_write_fields(
		&sequence->buffer,
		"{aggregate: @collection, pipeline: [{$collStats: {storageStats: {}}}, "
		"{$replaceWith: '$storageStats'}, {$project: {"
		"count: 1, size: 1, storageSize: 1, freeStorageSize: 1, nindexes: 1, "
		"totalIndexSize: 1, indexFree: {$sum: {$map: {"
		"input: {$objectToArray: '$indexDetails'}, "
		"in: '$$this.v.block-manager.file bytes available for reuse'}}}}}], cursor: {}}",
		fill("collection", name));
	sequence_write_read_fields(sequence, input, database_of(sequence), (struct bytes){0});
	sequence->step = STATS_ASKED;
	return sequence_send_command(sequence, body);
}

static enum sequence_outcome take_names(struct sequence *sequence,
					const struct sequence_input *input)
{
	const struct reply_summary *summary = &input->reply->summary;
	struct buffer *names = &stats_of(sequence)->names;
	struct reply_cursor read = reply_read_cursor(summary->cursor);
	struct cursor entries;
	struct element entry;
	struct bytes name;
	int64_t id;

	if (!summary->ok || !cursor_open(&entries, read.batch) || !element_integer(&read.id, &id))
		return sequence_pass_helper_error(sequence, input->reply, NULL);
	while (cursor_next(&entries, &entry) == CURSOR_ELEMENT)
		if (entry.type == BSON_BYTE_DOCUMENT &&
		    document_find_string(entry.value, "name", &name)) {
			buffer_append(names, name.data, name.length);
			buffer_append(names, "", 1);
		}
	return id ? ask_more_names(sequence, id) : ask_next(sequence, input);
}

static void add(struct stats *stats, struct bytes found)
{
	stats->sums[SUM_COLLECTIONS] += 1;
	stats->sums[SUM_OBJECTS] += number_at(found, "count");
	stats->sums[SUM_DATA] += number_at(found, "size");
	stats->sums[SUM_STORAGE] += number_at(found, "storageSize");
	stats->sums[SUM_FREE] += number_at(found, "freeStorageSize");
	stats->sums[SUM_INDEXES] += number_at(found, "nindexes");
	stats->sums[SUM_INDEX_SIZE] += number_at(found, "totalIndexSize");
	stats->sums[SUM_INDEX_FREE] += number_at(found, "indexFree");
}

/* One that was dropped in between has nothing. */
static enum sequence_outcome take_stats(struct sequence *sequence,
					const struct sequence_input *input)
{
	const struct reply_summary *summary = &input->reply->summary;
	struct cursor batch;
	struct element found;

	if (!summary->ok && summary->code != ERROR_NAMESPACE_NOT_FOUND)
		return sequence_pass_helper_error(sequence, input->reply, NULL);
	if (summary->ok && cursor_open(&batch, reply_read_cursor(summary->cursor).batch) &&
	    cursor_next(&batch, &found) == CURSOR_ELEMENT && found.type == BSON_BYTE_DOCUMENT)
		add(stats_of(sequence), found.value);
	return ask_next(sequence, input);
}

static enum sequence_outcome take_reply(struct sequence *sequence,
					const struct sequence_input *input)
{
	if (!input->reply->summary.ok)
		return sequence_pass(sequence, input->reply);
	stats_of(sequence)->reply = packet_steal(input->reply);
	return sequence_time_left(sequence, input) == 0 ? fail_late(sequence)
							: ask_names(sequence, input);
}

static enum sequence_outcome stats_resume(struct sequence *sequence,
					  const struct sequence_input *input)
{
	switch ((enum stats_step)sequence->step) {
	case STATS_BEGINS:
		sequence->step = STATS_SENT;
		return sequence_send_request(sequence);
	case STATS_SENT:
		return take_reply(sequence, input);
	case STATS_LISTED:
	case STATS_MORE_LISTED:
		return take_names(sequence, input);
	case STATS_ASKED:
		return take_stats(sequence, input);
	}
	require(!"a step without a name");
}

static void stats_fini(struct sequence *sequence)
{
	packet_fini(&stats_of(sequence)->reply);
	buffer_fini(&stats_of(sequence)->names);
}

static size_t stats_memory(const struct sequence *sequence)
{
	const struct stats *stats = (const struct stats *)(const void *)sequence;

	return stats->reply.raw.capacity + stats->names.capacity;
}

struct sequence *sequence_stats_new(void)
{
	struct stats *stats = must_calloc(1, sizeof(*stats));

	stats->sequence.resume = stats_resume;
	stats->sequence.fini = stats_fini;
	stats->sequence.memory = stats_memory;
	return &stats->sequence;
}
