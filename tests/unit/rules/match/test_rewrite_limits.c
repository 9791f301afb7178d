/* Requests that are small and cheap to send, and large and dear to rewrite. */
#include "tests/unit/shop.h"

#include "protocol/writer.h"
#include "rules/sequence/sequence.h"
#include "rules/query/work.h"

#include <time.h>

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- values ---- */

typedef void make_value(struct buffer *out, const char *name, size_t count);

/* "f.a.a.a..." */
static char *path_of(const char *first, size_t components)
{
	size_t length = strlen(first);
	char *path = must_malloc(length + 2 * components + 1);

	memcpy(path, first, length);
	for (size_t i = 0; i < components; i++)
		memcpy(path + length + 2 * i, ".a", 2);
	path[length + 2 * components] = '\0';
	return path;
}

static void long_text(struct buffer *out, const char *name, size_t count)
{
	auto_free char *path = path_of("f", count);

	writer_string(out, name, path);
}

static void long_key(struct buffer *out, const char *name, size_t count)
{
	auto_free char *path = path_of("f", count);
	size_t document = writer_open_document(out, name);

	writer_int32(out, path, 1);
	writer_close(out, document);
}

/* {f0: 1, f1: 1, ...}, below the array or beside it */
static void many_of(struct buffer *out, const char *name, size_t count, const char *before,
		    const char *after)
{
	size_t document = writer_open_document(out, name);
	char field[64];

	for (size_t i = 0; i < count; i++) {
		snprintf(field, sizeof(field), "%s%zu%s", before, i, after);
		writer_int32(out, field, 1);
	}
	writer_close(out, document);
}

static void many_below(struct buffer *out, const char *name, size_t count)
{
	many_of(out, name, count, "f.x", "");
}

static void many_beside(struct buffer *out, const char *name, size_t count)
{
	many_of(out, name, count, "g", "");
}

static void many_same(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name);

	for (size_t i = 0; i < count; i++)
		writer_int32(out, "f", 1);
	writer_close(out, document);
}

static void list_of(struct buffer *out, const char *name, size_t count, const char *key)
{
	size_t array = writer_open_array(out, name), document;
	char index[12];

	for (size_t i = 0; i < count; i++) {
		document = writer_open_document(out, writer_index(index, i));
		writer_int32(out, key, (int32_t)i);
		writer_close(out, document);
	}
	writer_close(out, array);
}

static void or_of_many(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name);

	list_of(out, "$or", count, "f");
	writer_close(out, document);
}

static void and_of_many(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name);

	list_of(out, "$and", count, "f.x");
	writer_close(out, document);
}

static void in_many(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name), field = writer_open_document(out, "f"),
	       array = writer_open_array(out, "$in");
	char index[12];

	for (size_t i = 0; i < count; i++)
		writer_int32(out, writer_index(index, i), (int32_t)i);
	writer_close(out, array);
	writer_close(out, field);
	writer_close(out, document);
}

/* {<verb>: [{<verb>: [... {f: 1}]}]} */
static void nested_list(struct buffer *out, const char *name, size_t depth, const char *verb)
{
	auto_free size_t *opened = must_calloc(2 * depth + 1, sizeof(*opened));
	size_t count = 0;

	opened[count++] = writer_open_document(out, name);
	for (size_t i = 0; i < depth; i++) {
		opened[count++] = writer_open_array(out, verb);
		opened[count++] = writer_open_document(out, "0");
	}
	writer_int32(out, "f", 1);
	while (count > 0)
		writer_close(out, opened[--count]);
}

static void nested_and(struct buffer *out, const char *name, size_t depth)
{
	nested_list(out, name, depth, "$and");
}

static void nested_nor(struct buffer *out, const char *name, size_t depth)
{
	nested_list(out, name, depth, "$nor");
}

/* {f: {$elemMatch: {f: {$elemMatch: ...}}}} */
static void nested_elem(struct buffer *out, const char *name, size_t depth)
{
	auto_free size_t *opened = must_calloc(2 * depth + 1, sizeof(*opened));
	size_t count = 0;

	opened[count++] = writer_open_document(out, name);
	for (size_t i = 0; i < depth; i++) {
		opened[count++] = writer_open_document(out, "f");
		opened[count++] = writer_open_document(out, "$elemMatch");
	}
	writer_int32(out, "f", 1);
	while (count > 0)
		writer_close(out, opened[--count]);
}

static void expression_of_many(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name),
	       array = writer_open_array(out, "$concatArrays");
	char index[12];

	for (size_t i = 0; i < count; i++)
		writer_string(out, writer_index(index, i), "$f");
	writer_close(out, array);
	writer_close(out, document);
}

static void filter_of_expression(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name);

	expression_of_many(out, "$expr", count);
	writer_close(out, document);
}

static void slices_of_many(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name), slice;
	char field[64];

	for (size_t i = 0; i < count; i++) {
		snprintf(field, sizeof(field), "f%zu", i);
		slice = writer_open_document(out, i == 0 ? "f" : field);
		writer_int32(out, "$slice", 3);
		writer_close(out, slice);
	}
	writer_close(out, document);
}

/* Projections of many computed fields. */
static void computed_many(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name);
	char field[64];

	for (size_t i = 0; i < count; i++) {
		snprintf(field, sizeof(field), "c%zu", i);
		writer_string(out, field, "$f.x");
	}
	writer_close(out, document);
}

/* {g0.$: 1, g1.$: 1, ...} beside a filter of as many conditions */
static void positions_and_filter(struct buffer *out, const char *name, size_t count)
{
	many_of(out, name, count, "g", ".$");
	or_of_many(out, "filter", count);
}

/* {$set: {f.0.x0: 1, f.0.x1: 1, ...}} */
static void set_many(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name);

	many_of(out, "$set", count, "f.0.x", "");
	writer_close(out, document);
}

static void set_many_filtered(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name);

	many_of(out, "$set", count, "f.$[i", "].x");
	writer_close(out, document);
}

static void unset_many_prefixes(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name);

	many_of(out, "$unset", count, "f", "");
	many_same(out, "$set", count);
	writer_close(out, document);
}

static void set_long(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name);

	long_key(out, "$set", count);
	writer_close(out, document);
}

static void push_many(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name),
	       push = writer_open_document(out, "$push"), field = writer_open_document(out, "f");

	list_of(out, "$each", count, "x");
	writer_close(out, field);
	writer_close(out, push);
	writer_close(out, document);
}

static void add_many_to_set(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name),
	       push = writer_open_document(out, "$addToSet"),
	       field = writer_open_document(out, "f");

	list_of(out, "$each", count, "x");
	writer_close(out, field);
	writer_close(out, push);
	writer_close(out, document);
}

static void padding(struct buffer *out, const char *name, size_t count)
{
	auto_free char *text = must_malloc(count + 1);

	memset(text, 'x', count);
	text[count] = '\0';
	writer_string(out, name, text);
}

/* ---- pipelines ---- */

static void stages_of(struct buffer *out, const char *name, size_t count, const char *stage)
{
	struct bytes value = made_bson(stage);
	size_t array = writer_open_array(out, name);
	char index[12];

	for (size_t i = 0; i < count; i++)
		writer_document(out, writer_index(index, i), value);
	writer_close(out, array);
}

#define STAGES(name, stage) \
	static void name(struct buffer *out, const char *field, size_t count) \
	{ \
		stages_of(out, field, count, stage); \
	}

STAGES(unions, "{'$unionWith': 'books'}")
STAGES(lookups, "{'$lookup': {'from': 'books', 'localField': 'a', 'foreignField': 'f', 'as': 'j'}}")
STAGES(graphs, "{'$graphLookup': {'from': 'books', 'startWith': '$a', 'connectFromField': 'a', "
	       "'connectToField': 'b', 'as': 'j'}}")
STAGES(foreign_lookups,
       "{'$lookup': {'from': 'others', 'localField': 'a', 'foreignField': 'f', 'as': 'j'}}")
STAGES(matches, "{'$match': {'f': 1}}")
STAGES(plain_matches, "{'$match': {'g': 1}}")
STAGES(failing_matches, "{'$match': {'$expr': {'$eq': ['$f', 1]}}}")
STAGES(sets, "{'$set': {'f': 1}}")
STAGES(sorts, "{'$sort': {'f.x': 1}}")
STAGES(projects, "{'$project': {'f.x': 1}}")

static void facets_of_unions(struct buffer *out, const char *name, size_t count)
{
	size_t array = writer_open_array(out, name), document = writer_open_document(out, "0"),
	       facet = writer_open_document(out, "$facet");
	char field[32];

	for (size_t i = 0; i < count; i++) {
		snprintf(field, sizeof(field), "p%zu", i);
		unions(out, field, 100);
	}
	writer_close(out, facet);
	writer_close(out, document);
	writer_close(out, array);
}

/* [{$unionWith: {coll: "books", pipeline: [{$unionWith: ...}]}}] */
static void nested_unions(struct buffer *out, const char *name, size_t depth)
{
	auto_free size_t *opened = must_calloc(3 * depth + 1, sizeof(*opened));
	size_t count = 0;

	opened[count++] = writer_open_array(out, name);
	for (size_t i = 0; i < depth; i++) {
		opened[count++] = writer_open_document(out, "0");
		opened[count++] = writer_open_document(out, "$unionWith");
		writer_string(out, "coll", "books");
		opened[count++] = writer_open_array(out, "pipeline");
	}
	while (count > 0)
		writer_close(out, opened[--count]);
}

static void lookups_with_long_fields(struct buffer *out, const char *name, size_t count)
{
	auto_free char *path = path_of("f", count);
	size_t array = writer_open_array(out, name), document = writer_open_document(out, "0"),
	       lookup = writer_open_document(out, "$lookup");

	writer_string(out, "from", "books");
	writer_string(out, "localField", path);
	writer_string(out, "foreignField", path);
	writer_string(out, "as", path);
	writer_close(out, lookup);
	writer_close(out, document);
	writer_close(out, array);
}

/* ---- commands ---- */

/* {<name>: "books", <field>: <value>, <another>: <JSON>, $db: "shop"} */
struct request {
	const char *name, *field;
	make_value *value;
	size_t count;
	const char *more; /* JSON; NULL: none */
	const char
		*list; /* the value stands in the first document of this list; NULL: at the top */
	bool repeated; /* the list has `count` such documents, with values of one */
};

static void write_listed(struct buffer *out, const struct request *request)
{
	struct bytes more = made_bson(request->more ? request->more : "{}");
	size_t array = writer_open_array(out, request->list), document;
	char index[12];

	for (size_t i = 0; i < (request->repeated ? request->count : 1); i++) {
		document = writer_open_document(out, writer_index(index, i));
		request->value(out, request->field, request->repeated ? 1 : request->count);
		buffer_append(out, more.data + 4, more.length - 5);
		writer_close(out, document);
	}
	writer_close(out, array);
}

static struct buffer frame_of(const struct request *request)
{
	struct bytes more = made_bson(request->more ? request->more : "{}");
	struct buffer frame = {0};
	size_t start = message_begin(&frame, 7, 0, 0), body;

	message_begin_body(&frame);
	body = writer_open(&frame);
	writer_string(&frame, request->name, "books");
	if (request->list) {
		write_listed(&frame, request);
	} else {
		request->value(&frame, request->field, request->count);
		buffer_append(&frame, more.data + 4, more.length - 5);
	}
	if (strcmp(request->name, "aggregate") == 0)
		writer_document(&frame, "cursor", made_bson("{}"));
	writer_string(&frame, "$db", "shop");
	writer_close(&frame, body);
	message_end(&frame, start);
	return frame;
}

/* The body's length without padding. */
static size_t padding_less(const struct request *request)
{
	auto_buffer struct buffer frame = frame_of(request);

	return frame.length - FRAME_HEADER_LENGTH - 5;
}

struct cost {
	double match, resume;
	size_t in, out;
	enum match_verdict verdict;
	int32_t code;
};

static int32_t code_of(const struct sequence *sequence)
{
	struct packet reply;
	struct buffer copy = {0};
	struct element code;
	int32_t number = 0;

	buffer_append(&copy, sequence->output.data, sequence->output.length);
	packet_read(&reply, &copy);
	if (reply.kind == PACKET_MESSAGE && document_find(reply.message.body, "code", &code))
		number = load_int32(code.value.data);
	packet_fini(&reply);
	return number;
}

/* What it takes up to the first command that is sent. */
static struct cost cost_of(struct shop *shop, const struct request *request)
{
	struct sequence_input input = {.now = 1};
	struct buffer frame = frame_of(request);
	struct cost cost = {.in = frame.length};
	struct sequence *sequence;
	struct packet packet;
	struct match match;
	double start;

	packet_read(&packet, &frame);
	start = seconds();
	match_packet(shop->cache, &packet, &match);
	cost.match = seconds() - start;
	cost.verdict = match.verdict;
	cost.out = cost.in;
	if (match.verdict != VERDICT_FORWARD && match.verdict != VERDICT_CLOSE) {
		start = seconds();
		sequence = match.asks_indexes ? sequence_new_ask(&packet, &match)
					      : sequence_new(&packet, &match);
		if (sequence_resume(sequence, &input) == SEQUENCE_DONE)
			cost.code = code_of(sequence);
		else if (match.verdict == VERDICT_REFUSE) /* mongod is asked first */
			cost.code = (int32_t)match.refusal.code;
		cost.out = sequence->output.length;
		cost.resume = seconds() - start;
		sequence_free(sequence);
	}
	packet_fini(&packet);
	return cost;
}

static const struct {
	struct request request;
	const char *what;
	int32_t code; /* of the error that answers it; 0: it is rewritten, or goes on */
} requests[] = {
	{{.name = "distinct", .field = "key", .value = long_text, .count = 60000},
	 "distinct: long key",
	 15},
	{{.name = "distinct",
	  .field = "query",
	  .value = or_of_many,
	  .count = 60000,
	  .more = "{'key': 'f.x'}"},
	 "distinct: $or",
	 0},
	{{.name = "aggregate", .field = "pipeline", .value = unions, .count = 400000},
	 "unions",
	 115},
	{{.name = "aggregate", .field = "pipeline", .value = lookups, .count = 30000},
	 "lookups by the array",
	 115},
	{{.name = "aggregate", .field = "pipeline", .value = graphs, .count = 30000},
	 "graph lookups",
	 115},
	{{.name = "aggregate", .field = "pipeline", .value = foreign_lookups, .count = 30000},
	 "other lookups",
	 9},
	{{.name = "aggregate", .field = "pipeline", .value = matches, .count = 60000},
	 "matches",
	 9},
	{{.name = "aggregate", .field = "pipeline", .value = plain_matches, .count = 60000},
	 "plain matches",
	 9},
	{{.name = "aggregate", .field = "pipeline", .value = failing_matches, .count = 60000},
	 "failing matches",
	 9},
	{{.name = "aggregate", .field = "pipeline", .value = sets, .count = 60000}, "sets", 9},
	{{.name = "aggregate", .field = "pipeline", .value = sorts, .count = 60000}, "sorts", 9},
	{{.name = "aggregate", .field = "pipeline", .value = projects, .count = 60000},
	 "projects",
	 9},
	{{.name = "aggregate", .field = "pipeline", .value = matches, .count = 1000},
	 "1,000 matches",
	 0},
	{{.name = "aggregate", .field = "pipeline", .value = plain_matches, .count = 1000},
	 "1,000 plain matches",
	 0},
	{{.name = "aggregate", .field = "pipeline", .value = failing_matches, .count = 1000},
	 "1,000 failing matches",
	 0},
	{{.name = "aggregate", .field = "pipeline", .value = sorts, .count = 1000},
	 "1,000 sorts",
	 0},
	{{.name = "aggregate", .field = "pipeline", .value = lookups, .count = 1000},
	 "1,000 lookups",
	 0},
	{{.name = "aggregate", .field = "pipeline", .value = unions, .count = 1000},
	 "1,000 unions",
	 0},
	{{.name = "aggregate", .field = "pipeline", .value = facets_of_unions, .count = 1000},
	 "facets of unions",
	 115},
	{{.name = "aggregate", .field = "pipeline", .value = nested_unions, .count = 60},
	 "nested unions",
	 232},
	{{.name = "aggregate",
	  .field = "pipeline",
	  .value = lookups_with_long_fields,
	  .count = 60000},
	 "long fields of a lookup",
	 0},
	{{.name = "aggregate",
	  .field = "let",
	  .value = many_beside,
	  .count = 60000,
	  .more = "{'pipeline': [{'$match': {'f': 1}}]}"},
	 "let",
	 0},
	{{.name = "find", .field = "filter", .value = long_key, .count = 200000},
	 "find: long path",
	 0},
	{{.name = "find", .field = "filter", .value = many_below, .count = 60000},
	 "find: many below",
	 0},
	{{.name = "find", .field = "filter", .value = many_same, .count = 60000},
	 "find: many same",
	 0},
	{{.name = "find", .field = "filter", .value = or_of_many, .count = 60000}, "find: $or", 0},
	{{.name = "find", .field = "filter", .value = and_of_many, .count = 60000},
	 "find: $and",
	 0},
	{{.name = "find", .field = "filter", .value = in_many, .count = 200000}, "find: $in", 0},
	{{.name = "find", .field = "filter", .value = nested_and, .count = 90},
	 "find: nested $and",
	 0},
	{{.name = "find", .field = "filter", .value = nested_nor, .count = 90},
	 "find: nested $nor",
	 0},
	{{.name = "find", .field = "filter", .value = nested_elem, .count = 90},
	 "find: nested $elemMatch",
	 0},
	{{.name = "find", .field = "filter", .value = nested_and, .count = 30000},
	 "find: deep $and",
	 9},
	{{.name = "find", .field = "filter", .value = nested_elem, .count = 30000},
	 "find: deep $elemMatch",
	 115},
	{{.name = "find", .field = "filter", .value = filter_of_expression, .count = 60000},
	 "find: $expr",
	 0},
	{{.name = "find", .field = "projection", .value = long_key, .count = 200000},
	 "find: long projection",
	 0},
	{{.name = "find", .field = "projection", .value = many_below, .count = 60000},
	 "find: many projected below",
	 0},
	{{.name = "find", .field = "projection", .value = many_beside, .count = 60000},
	 "find: many projected beside",
	 0},
	{{.name = "find", .field = "projection", .value = many_same, .count = 60000},
	 "find: the same projected",
	 0},
	{{.name = "find", .field = "projection", .value = slices_of_many, .count = 30000},
	 "find: slices",
	 0},
	{{.name = "find", .field = "projection", .value = computed_many, .count = 60000},
	 "find: computed",
	 0},
	{{.name = "find",
	  .field = "projection",
	  .value = many_below,
	  .count = 60000,
	  .more = "{'filter': {'f': 1}}"},
	 "find: projected below, filter",
	 0},
	{{.name = "find",
	  .field = "projection",
	  .value = many_beside,
	  .count = 60000,
	  .more = "{'filter': {'f': 1}}"},
	 "find: projected beside, filter",
	 0},
	{{.name = "find",
	  .field = "projection",
	  .value = slices_of_many,
	  .count = 30000,
	  .more = "{'filter': {'f': 1}}"},
	 "find: slices, filter",
	 0},
	{{.name = "find",
	  .field = "projection",
	  .value = computed_many,
	  .count = 30000,
	  .more = "{'filter': {'f': 1}}"},
	 "find: computed, filter",
	 0},
	{{.name = "find", .field = "projection", .value = positions_and_filter, .count = 60000},
	 "find: positions, filter",
	 115},
	{{.name = "find", .field = "sort", .value = many_below, .count = 60000}, "find: sort", 0},
	{{.name = "find", .field = "sort", .value = long_key, .count = 200000},
	 "find: long sort",
	 0},
	{{.name = "find",
	  .field = "sort",
	  .value = many_below,
	  .count = 30000,
	  .more = "{'projection': {'f.y': 1}}"},
	 "find: sort, projection",
	 0},
	{{.name = "find",
	  .field = "hint",
	  .value = many_below,
	  .count = 60000,
	  .more = "{'filter': {'f': 1}}"},
	 "find: hint",
	 0},
	{{.name = "find",
	  .field = "hint",
	  .value = many_beside,
	  .count = 30000,
	  .more = "{'min': {'g0': 1}, 'filter': {'f': 1}}"},
	 "find: hint and min",
	 115},
	{{.name = "find",
	  .field = "let",
	  .value = many_beside,
	  .count = 60000,
	  .more = "{'filter': {'f': 1}}"},
	 "find: let",
	 0},
	{{.name = "count", .field = "query", .value = or_of_many, .count = 60000}, "count: $or", 0},
	{{.name = "count", .field = "query", .value = many_below, .count = 60000},
	 "count: many below",
	 0},
	{{.name = "update",
	  .field = "q",
	  .value = or_of_many,
	  .count = 30000,
	  .more = "{'u': {'$set': {'f.0': 1}}}",
	  .list = "updates"},
	 "update: $or",
	 0},
	{{.name = "update",
	  .field = "q",
	  .value = in_many,
	  .count = 60000,
	  .more = "{'u': {'$push': {'f': 1}}}",
	  .list = "updates"},
	 "update: $in",
	 0},
	{{.name = "update",
	  .field = "q",
	  .value = long_key,
	  .count = 200000,
	  .more = "{'u': {'$set': {'f.0': 1}}}",
	  .list = "updates"},
	 "update: long path",
	 0},
	{{.name = "update",
	  .field = "u",
	  .value = set_many,
	  .count = 60000,
	  .more = "{'q': {'_id': 1}}",
	  .list = "updates"},
	 "update: many paths",
	 0},
	{{.name = "update",
	  .field = "u",
	  .value = set_many_filtered,
	  .count = 30000,
	  .more = "{'q': {'_id': 1}}",
	  .list = "updates"},
	 "update: many filtered",
	 0},
	{{.name = "update",
	  .field = "u",
	  .value = unset_many_prefixes,
	  .count = 30000,
	  .more = "{'q': {'_id': 1}}",
	  .list = "updates"},
	 "update: repeated",
	 0},
	{{.name = "update",
	  .field = "u",
	  .value = set_long,
	  .count = 200000,
	  .more = "{'q': {'_id': 1}}",
	  .list = "updates"},
	 "update: long path set",
	 0},
	{{.name = "update",
	  .field = "u",
	  .value = push_many,
	  .count = 60000,
	  .more = "{'q': {'_id': 1}}",
	  .list = "updates"},
	 "update: many pushed",
	 0},
	{{.name = "update",
	  .field = "u",
	  .value = add_many_to_set,
	  .count = 60000,
	  .more = "{'q': {'_id': 1}}",
	  .list = "updates"},
	 "update: many added",
	 0},
	{{.name = "update",
	  .field = "u",
	  .value = sets,
	  .count = 60000,
	  .more = "{'q': {'_id': 1}}",
	  .list = "updates"},
	 "update: a long pipeline",
	 0},
	{{.name = "update",
	  .field = "arrayFilters",
	  .value = sets,
	  .count = 30000,
	  .more = "{'q': {'_id': 1}, 'u': {'$set': {'f.$[i]': 1}}}",
	  .list = "updates"},
	 "update: array filters",
	 0},
	{{.name = "update",
	  .field = "u",
	  .value = set_many,
	  .count = 30000,
	  .more = "{'q': {'_id': 1}}",
	  .list = "updates",
	  .repeated = true},
	 "100,000 edits",
	 0},
	{{.name = "update",
	  .field = "u",
	  .value = push_many,
	  .count = 30000,
	  .more = "{'q': {'_id': 1}}",
	  .list = "updates",
	  .repeated = true},
	 "100,000 pushes",
	 0},
	{{.name = "update",
	  .field = "q",
	  .value = or_of_many,
	  .count = 30000,
	  .more = "{'u': {'$set': {'f.0': 1}}}",
	  .list = "updates",
	  .repeated = true},
	 "100,000 edits by conditions",
	 0},
	{{.name = "delete",
	  .field = "q",
	  .value = or_of_many,
	  .count = 30000,
	  .more = "{'limit': 1}",
	  .list = "deletes",
	  .repeated = true},
	 "100,000 deletes",
	 0},
	{{.name = "delete",
	  .field = "q",
	  .value = or_of_many,
	  .count = 30000,
	  .more = "{'limit': 0}",
	  .list = "deletes"},
	 "delete: $or",
	 0},
	{{.name = "insert",
	  .field = "f",
	  .value = lookups,
	  .count = 30000,
	  .list = "documents",
	  .repeated = true},
	 "100,000 inserts",
	 0},
	{{.name = "insert", .field = "f", .value = matches, .count = 60000, .list = "documents"},
	 "insert: a long array",
	 0},
	{{.name = "insert", .field = "g", .value = nested_and, .count = 30000, .list = "documents"},
	 "insert: deep",
	 0},
	{{.name = "insert",
	  .field = "g",
	  .value = many_beside,
	  .count = 60000,
	  .list = "documents"},
	 "insert: wide",
	 0},
	{{.name = "findAndModify",
	  .field = "query",
	  .value = or_of_many,
	  .count = 30000,
	  .more = "{'update': {'$set': {'f.0': 1}}}"},
	 "findAndModify: $or",
	 0},
	{{.name = "findAndModify",
	  .field = "fields",
	  .value = slices_of_many,
	  .count = 30000,
	  .more = "{'query': {'f': 1}, 'update': {'$set': {'f.0': 1}}}"},
	 "findAndModify: slices",
	 0},
	{{.name = "findAndModify",
	  .field = "fields",
	  .value = many_below,
	  .count = 30000,
	  .more = "{'query': {'f': 1}, 'update': {'$set': {'f.0': 1}}}"},
	 "findAndModify: fields",
	 0},
	{{.name = "createIndexes",
	  .field = "key",
	  .value = many_below,
	  .count = 30000,
	  .more = "{'name': 'x'}",
	  .list = "indexes"},
	 "createIndexes: wide",
	 0},
	{{.name = "createIndexes",
	  .field = "key",
	  .value = many_below,
	  .count = 30000,
	  .more = "{'name': 'x'}",
	  .list = "indexes",
	  .repeated = true},
	 "createIndexes: many",
	 0},
	{{.name = "collMod", .field = "validator", .value = or_of_many, .count = 30000},
	 "collMod",
	 115},
};

#define MOST_SECONDS 5 /* some hundredths of one; what grows by the square takes minutes */

Test(rewrite_limits, no_request_takes_long_or_grows_beyond_a_message)
{
	struct shop shop = shop_open();

	for (size_t i = 0, step = unit_step(ARRAY_LENGTH(requests), 5); i < ARRAY_LENGTH(requests);
	     i += step) {
		struct cost cost = cost_of(&shop, &requests[i].request);

		cr_expect_lt(cost.match + cost.resume, MOST_SECONDS, "%s", requests[i].what);
		cr_expect_leq(cost.out, FRAME_MAX_LENGTH, "%s", requests[i].what);
		cr_expect_eq(cost.code, requests[i].code, "%s: %d", requests[i].what,
			     (int)cost.code);
	}
	shop_close(&shop);
}

Test(rewrite_limits, a_body_that_mongod_does_not_take_is_not_read)
{
	static const size_t lengths[] = {16793600, 16793601};
	struct shop shop = shop_open();

	for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
		struct request request = {.name = "find", .field = "comment", .value = padding};
		struct cost cost;

		request.count = lengths[i] - padding_less(&request);
		cost = cost_of(&shop, &request);
		cr_expect_eq(cost.in, lengths[i] + FRAME_HEADER_LENGTH + 5);
		cr_expect_eq(cost.code, i == 0 ? 0 : ERROR_OBJECT_TOO_LARGE);
	}
	shop_close(&shop);
}

/* ---- what has too many fields ---- */

static size_t fields_of(struct request request, size_t count)
{
	struct command command;
	struct message message;
	struct buffer frame;
	size_t fields;

	request.count = count;
	frame = frame_of(&request);
	cr_assert(message_parse(buffer_view(&frame), &message));
	cr_assert(command_parse(message.body, &command));
	fields = work_of(&command, &message).largest;
	buffer_fini(&frame);
	return fields;
}

/* How many the request may have, so that no more than `most` fields stand in it. */
static size_t count_of(struct request request, size_t most)
{
	size_t few = fields_of(request, most / 4), each = fields_of(request, most / 4 + 8) - few;

	cr_assert(few > 0 && each > 0 && most > few);
	return most / 4 + (most - few) * 8 / each;
}

static const struct {
	struct request request;
	const char *what;
	size_t most;
} bounded[] = {
	{{.name = "find", .field = "filter", .value = or_of_many}, "$or", WORK_REWRITTEN_MOST},
	{{.name = "find", .field = "filter", .value = many_below}, "paths", WORK_REWRITTEN_MOST},
	{{.name = "find", .field = "filter", .value = and_of_many}, "$and", WORK_REWRITTEN_MOST},
	{{.name = "find", .field = "filter", .value = filter_of_expression},
	 "$expr",
	 WORK_REWRITTEN_MOST},
	{{.name = "find", .field = "projection", .value = many_beside},
	 "projection",
	 WORK_REWRITTEN_MOST},
	{{.name = "find", .field = "projection", .value = computed_many},
	 "computed fields",
	 WORK_REWRITTEN_MOST},
	{{.name = "find", .field = "sort", .value = many_below}, "sort", WORK_REWRITTEN_MOST},
	{{.name = "find", .field = "let", .value = many_beside, .more = "{'filter': {'f': 1}}"},
	 "let",
	 WORK_REWRITTEN_MOST},
	{{.name = "count", .field = "query", .value = or_of_many}, "count", WORK_REWRITTEN_MOST},
	{{.name = "distinct", .field = "query", .value = or_of_many, .more = "{'key': 'f.x'}"},
	 "distinct",
	 WORK_REWRITTEN_MOST},
	{{.name = "findAndModify",
	  .field = "query",
	  .value = or_of_many,
	  .more = "{'update': {'$set': {'f.0': 1}}}"},
	 "findAndModify",
	 WORK_REWRITTEN_MOST},
	{{.name = "findAndModify",
	  .field = "update",
	  .value = set_many,
	  .more = "{'query': {'_id': 1}}"},
	 "findAndModify's update",
	 WORK_REWRITTEN_MOST},
	{{.name = "update",
	  .field = "q",
	  .value = or_of_many,
	  .more = "{'u': {'$set': {'f.0': 1}}}",
	  .list = "updates"},
	 "an update's filter",
	 WORK_REWRITTEN_MOST},
	{{.name = "update",
	  .field = "u",
	  .value = set_many,
	  .more = "{'q': {'_id': 1}}",
	  .list = "updates"},
	 "an update's paths",
	 WORK_REWRITTEN_MOST},
	{{.name = "update",
	  .field = "arrayFilters",
	  .value = sets,
	  .more = "{'q': {'_id': 1}, 'u': {'$set': {'f.$[i]': 1}}}",
	  .list = "updates"},
	 "arrayFilters",
	 WORK_REWRITTEN_MOST},
	{{.name = "delete",
	  .field = "q",
	  .value = or_of_many,
	  .more = "{'limit': 1}",
	  .list = "deletes"},
	 "a delete's filter",
	 WORK_REWRITTEN_MOST},
	{{.name = "aggregate",
	  .field = "let",
	  .value = many_beside,
	  .more = "{'pipeline': [{'$match': {'f': 1}}]}"},
	 "an aggregate's let",
	 WORK_REWRITTEN_MOST},
	/* what goes out as it came */
	{{.name = "find", .field = "filter", .value = many_beside}, "plain find", WORK_READ_MOST},
	{{.name = "count", .field = "query", .value = many_beside}, "plain count", WORK_READ_MOST},
	{{.name = "find", .field = "hint", .value = many_beside}, "plain hint", WORK_READ_MOST},
};

Test(rewrite_limits, a_command_with_too_many_fields_is_refused_before_it_is_rewritten)
{
	struct shop shop = shop_open();

	for (size_t i = 0, step = unit_step(ARRAY_LENGTH(bounded), 4); i < ARRAY_LENGTH(bounded);
	     i += step) {
		struct request request = bounded[i].request;
		size_t most = count_of(request, bounded[i].most);

		request.count = most;
		cr_expect_eq(cost_of(&shop, &request).code, 0, "%s: %zu", bounded[i].what, most);
		request.count = most + 1;
		cr_expect_eq(cost_of(&shop, &request).code, ERROR_OBJECT_TOO_LARGE, "%s: %zu",
			     bounded[i].what, most + 1);
	}
	shop_close(&shop);
}

/* What a rewritten pipeline may have is in 1,000 stages. */
static void wide_matches(struct buffer *out, const char *name, size_t count)
{
	size_t array = writer_open_array(out, name), stage;
	char index[12];

	for (size_t i = 0; i < 100; i++) {
		stage = writer_open_document(out, writer_index(index, i));
		many_below(out, "$match", count / 100);
		writer_close(out, stage);
	}
	writer_close(out, array);
}

static void wide_union(struct buffer *out, const char *name, size_t count)
{
	size_t array = writer_open_array(out, name), stage = writer_open_document(out, "0"),
	       verb = writer_open_document(out, "$unionWith");

	writer_string(out, "coll", "books");
	wide_matches(out, "pipeline", count);
	writer_close(out, verb);
	writer_close(out, stage);
	writer_close(out, array);
}

Test(rewrite_limits, a_pipeline_with_too_many_fields_is_refused)
{
	static make_value *const pipelines[] = {wide_matches, wide_union};
	struct shop shop = shop_open();

	for (size_t i = 0; i < ARRAY_LENGTH(pipelines); i++) {
		struct request request = {
			.name = "aggregate", .field = "pipeline", .value = pipelines[i]};

		request.count = WORK_REWRITTEN_MOST - 1000;
		cr_expect_eq(cost_of(&shop, &request).code, 0);
		request.count = WORK_REWRITTEN_MOST + 1000;
		cr_expect_eq(cost_of(&shop, &request).code, ERROR_OBJECT_TOO_LARGE);
	}
	shop_close(&shop);
}

Test(rewrite_limits, a_view_with_a_large_pipeline_is_judged)
{
	struct shop shop = shop_open();
	struct request request = {.name = "create",
				  .field = "pipeline",
				  .value = wide_matches,
				  .count = WORK_READ_MOST + 1000,
				  .more = "{'viewOn': 'books'}"};
	struct cost cost = cost_of(&shop, &request);

	cr_expect_eq(cost.verdict, VERDICT_REFUSE);
	cr_expect_eq(cost.code, ERROR_COMMAND_NOT_SUPPORTED);
	shop_close(&shop);
}

/* A list of values is copied as a whole: an application may have a long one. */
static void ids_and_more(struct buffer *out, const char *name, size_t count)
{
	size_t document = writer_open_document(out, name), field = writer_open_document(out, "_id"),
	       array = writer_open_array(out, "$in");
	char index[12];

	for (size_t i = 0; i < count; i++)
		writer_int64(out, writer_index(index, i), (int64_t)i);
	writer_close(out, array);
	writer_close(out, field);
	writer_int32(out, "f", 1);
	writer_close(out, document);
}

static void one_push(struct buffer *out, const char *name, size_t count)
{
	(void)count;
	writer_document(out, name, made_bson("{'$push': {'f': 1}}"));
}

static void one_edit(struct buffer *out, const char *name, size_t count)
{
	(void)count;
	writer_document(out, name, made_bson("{'$set': {'f.0': 1}}"));
}

static void a_number(struct buffer *out, const char *name, size_t count)
{
	writer_int32(out, name, (int32_t)count);
}

#define MANY WORK_STATEMENT_COUNT_MOST

static const struct {
	struct request request;
	const char *what;
} large[] = {
	{{.name = "find", .field = "filter", .value = ids_and_more, .count = 500000}, "ids"},
	{{.name = "update",
	  .field = "q",
	  .value = ids_and_more,
	  .count = 500000,
	  .more = "{'u': {'$set': {'f.0': 1}}, 'multi': true}",
	  .list = "updates"},
	 "ids of an update"},
	{{.name = "update",
	  .field = "u",
	  .value = one_push,
	  .count = MANY,
	  .more = "{'q': {'_id': 1}}",
	  .list = "updates",
	  .repeated = true},
	 "pushes"},
	{{.name = "update",
	  .field = "u",
	  .value = one_edit,
	  .count = MANY,
	  .more = "{'q': {'_id': 1}}",
	  .list = "updates",
	  .repeated = true},
	 "edits"},
	{{.name = "delete",
	  .field = "limit",
	  .value = a_number,
	  .count = MANY,
	  .more = "{'q': {'f': 1}}",
	  .list = "deletes",
	  .repeated = true},
	 "deletes"},
	{{.name = "insert",
	  .field = "f",
	  .value = matches,
	  .count = MANY,
	  .list = "documents",
	  .repeated = true},
	 "inserts"},
	{{.name = "insert", .field = "f", .value = matches, .count = 400000, .list = "documents"},
	 "an insert of a long array"},
	{{.name = "update",
	  .field = "u",
	  .value = push_many,
	  .count = 400000,
	  .more = "{'q': {'_id': 1}}",
	  .list = "updates"},
	 "a push of many"},
};

Test(rewrite_limits, large_commands_of_an_application_are_served)
{
	struct shop shop = shop_open();

	for (size_t i = 0, step = unit_step(ARRAY_LENGTH(large), 3); i < ARRAY_LENGTH(large);
	     i += step) {
		struct cost cost = cost_of(&shop, &large[i].request);

		cr_expect_eq(cost.code, 0, "%s: %d", large[i].what, (int)cost.code);
		cr_expect_neq(cost.verdict, VERDICT_REFUSE, "%s", large[i].what);
	}
	shop_close(&shop);
}

Test(rewrite_limits, more_statements_than_mongod_takes_are_refused)
{
	struct shop shop = shop_open();

	for (size_t i = 0, step = unit_step(ARRAY_LENGTH(large), 3); i < ARRAY_LENGTH(large);
	     i += step) {
		struct request request = large[i].request;

		if (!request.repeated)
			continue;
		request.count = MANY + 1;
		cr_expect_eq(cost_of(&shop, &request).code, ERROR_INVALID_LENGTH, "%s",
			     large[i].what);
	}
	shop_close(&shop);
}

/* Each is small; all of them are not. */
static struct buffer updates_of(size_t count, size_t fields)
{
	auto_buffer struct buffer statement = {0};
	struct buffer frame = {0};
	size_t start = message_begin(&frame, 7, 0, 0), body, sequence;

	message_begin_body(&frame);
	body = writer_open(&frame);
	writer_string(&frame, "update", "books");
	writer_string(&frame, "$db", "shop");
	writer_close(&frame, body);
	body = writer_open(&statement);
	many_same(&statement, "q", fields);
	writer_document(&statement, "u", made_bson("{'$push': {'f': 1}}"));
	writer_close(&statement, body);
	sequence = message_begin_sequence(&frame, bytes_of("updates"));
	for (size_t i = 0; i < count; i++)
		buffer_append(&frame, statement.data, statement.length);
	message_end_sequence(&frame, sequence);
	message_end(&frame, start);
	return frame;
}

Test(rewrite_limits, all_statements_together_have_a_limit)
{
	static const struct {
		size_t fields;
		int32_t code;
	} cases[] = {{35, 0}, {45, ERROR_OBJECT_TOO_LARGE}};
	struct shop shop = shop_open();

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		struct buffer frame = updates_of(MANY, cases[i].fields);
		struct packet packet;
		struct match match;

		packet_read(&packet, &frame);
		match_packet(shop.cache, &packet, &match);
		cr_expect_eq(match.verdict == VERDICT_REFUSE ? (int32_t)match.refusal.code : 0,
			     cases[i].code);
		packet_fini(&packet);
	}
	shop_close(&shop);
}

/* Nothing of it is rewritten. */
Test(rewrite_limits, what_no_rule_concerns_may_have_any_number_of_fields)
{
	struct shop shop = shop_open();
	struct request request = {.name = "find", .field = "filter", .value = many_beside};
	struct buffer frame;
	struct packet packet;
	struct match match;

	request.count = 2 * WORK_READ_MOST;
	frame = frame_of(&request);
	memcpy(frame.data + FRAME_HEADER_LENGTH + 5 + 4 + 1 + strlen("find") + 1 + 4, "cooks", 5);
	packet_read(&packet, &frame);
	match_packet(shop.cache, &packet, &match);
	cr_expect_eq(match.verdict, VERDICT_FORWARD);
	packet_fini(&packet);
	shop_close(&shop);
}
