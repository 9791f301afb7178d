/* Cheap questions about many documents at once: which of them need a round. */
#include "proxy/mover/look.h"
#include "proxy/base/clock.h"

#include "proxy/base/log.h"

#include <bson/bson.h>
#include <stdlib.h>

#define WRAPPED_ARRAY 8  /* what {a: <array>} has more bytes than the array */
#define ELEMENT_LEAST 16 /* bytes that an element to come is taken to have at least */
#define ELEMENT_GROWTH 8 /* and it may be so many times larger than those that are there */
#define FILTER_LIMIT 1000

/* A `$path` for an expression. */
static char *value_of(const char *path)
{
	return bson_strdup_printf("$%s", path);
}

static char *state_value(const struct rule *rule, const char *field)
{
	char path[STATE_PATH_MAX];

	return value_of(state_path(path, rule, field));
}

static void write_built(struct buffer *out, const char *name, bson_t *built)
{
	writer_document(out, name, (struct bytes){bson_get_data(built), built->len});
	bson_destroy(built);
}

/* Without a state: longer than the threshold, or larger than max_bytes. To count an array's
 * elements in an expression mongod makes each a value of its own, and it would of every document; a
 * path ends at the element that it names, and where the whole document is small the array is not
 * looked at. The path means fields of this name in elements, too: a superset. */
static void write_long(struct buffer *out, const char *name, const struct rule *rule)
{
	auto_free char *beyond =
		bson_strdup_printf("%s.%lld", rule->array, (long long)rule->threshold);
	char state[STATE_PATH_MAX];
	size_t both = writer_open_document(out, name);

	command_exists(out, beyond, true);
	command_exists(out, state_path(state, rule, NULL), false);
	writer_close(out, both);
}

static void write_large(struct buffer *out, const char *name, const struct rule *rule)
{
	auto_free char *array = value_of(rule->array);
	auto_free char *state = state_value(rule, NULL);

	write_built(out, name,
		    BCON_NEW("$expr", "{", "$and", "[", "{", "$gt", "[", "{", "$bsonSize",
			     BCON_UTF8("$$ROOT"), "}", BCON_INT64(rule->max_bytes), "]", "}", "{",
			     "$eq", "[", "{", "$type", BCON_UTF8(state), "}", BCON_UTF8("missing"),
			     "]", "}", "{", "$isArray", BCON_UTF8(array), "}", "{", "$gt", "[", "{",
			     "$bsonSize", "{", "a", BCON_UTF8(array), "}", "}",
			     BCON_INT64(rule->max_bytes + WRAPPED_ARRAY), "]", "}", "]", "}"));
}

/* With a state: longer than the head that it says. */
static void write_tail_waits(struct buffer *out, const char *name, const struct rule *rule)
{
	auto_free char *array = value_of(rule->array);
	auto_free char *head = state_value(rule, "h");
	char state[STATE_PATH_MAX];
	size_t both = writer_open_document(out, name);

	command_exists(out, state_path(state, rule, NULL), true);
	write_built(out, "$expr",
		    BCON_NEW("$and", "[", "{", "$isArray", BCON_UTF8(array), "}", "{", "$gt", "[",
			     "{", "$size", BCON_UTF8(array), "}", "{", "$ifNull", "[",
			     BCON_UTF8(head), BCON_INT64(rule->threshold), "]", "}", "]", "}",
			     "]"));
	writer_close(out, both);
}

void look_write_candidates(struct buffer *out, const char *name, const struct rule *rule)
{
	char moved[STATE_PATH_MAX];
	size_t filter = writer_open_document(out, name), either = writer_open_array(out, "$or");

	write_long(out, "0", rule);
	write_large(out, "1", rule);
	write_tail_waits(out, "2", rule);
	write_built(out, "3", BCON_NEW("_spill", "{", "}"));
	write_built(out, "4", BCON_NEW(state_path(moved, rule, "n"), BCON_INT32(0)));
	writer_close(out, either);
	writer_close(out, filter);
}

/* The question. */

struct asking {
	struct mover *mover;
	struct mover_target *target;
	struct mover_work **works; /* NULL once it has been given back */
	size_t count;
	int64_t now;
};

/* What is computed of a document. */
static void write_measures(struct buffer *out, const struct rule *rule)
{
	auto_free char *array = value_of(rule->array);
	auto_free char *head = state_value(rule, "h");
	auto_free char *moved = state_value(rule, "n");

	write_built(out, "projection",
		    BCON_NEW("_id", BCON_INT32(1), "length", "{", "$cond", "[", "{", "$isArray",
			     BCON_UTF8(array), "}", "{", "$size", BCON_UTF8(array), "}",
			     BCON_INT32(-1), "]", "}", "size", "{", "$bsonSize", "{", "a",
			     BCON_UTF8(array), "}", "}", "head", BCON_UTF8(head), "moved",
			     BCON_UTF8(moved), "empty", "{", "$eq", "[", BCON_UTF8("$_spill"), "{",
			     "$literal", "{", "}", "}", "]", "}"));
}

static int64_t integer_at(struct bytes document, const char *name)
{
	struct element element;
	int64_t value;

	if (!document_find(document, name, &element) || !element_integer(&element, &value))
		return -1;
	return value;
}

/* How many elements fit before the document is an outlier; 0 or less: it is one. */
static int64_t room_of(const struct rule *rule, int64_t length, int64_t size)
{
	int64_t by_count = rule->threshold - length, left = rule->max_bytes - size, each, by_size;

	if (left < 0 || by_count < 0)
		return -1;
	each = length > 0 ? size / length : 0;
	if (each < ELEMENT_LEAST)
		each = ELEMENT_LEAST;
	by_size = left / (ELEMENT_GROWTH * each);
	return by_count < by_size ? by_count : by_size;
}

/* Takes the entry of this _id out of those that wait for an answer. */
static struct mover_work *answered(struct asking *asking, const struct element *id)
{
	for (size_t i = 0; i < asking->count; i++) {
		struct mover_work *work = asking->works[i];

		if (work && work->id_type == id->type && bytes_equal(work->id, id->value)) {
			asking->works[i] = NULL;
			return work;
		}
	}
	return NULL;
}

static void take_answer(void *context, struct bytes document)
{
	struct asking *asking = context;
	const struct rule *rule = asking->target->rule;
	struct mover_queue *queue = asking->mover->rounds;
	int64_t length = integer_at(document, "length"), head = integer_at(document, "head");
	struct element id;
	struct mover_work *work;
	int64_t room;
	bool outlier, tidy;

	if (!document_find(document, "_id", &id))
		return;
	tidy = document_truth(document, "empty");
	room = room_of(rule, length, integer_at(document, "size") - WRAPPED_ARRAY);
	outlier = tidy || integer_at(document, "moved") == 0 ||
		  (length >= 0 && (head >= 0 ? length > head : room < 0));
	work = answered(asking, &id);
	if (!work) {
		/* Stored as 1.0, asked for as 1; or equal under the collection's collation. */
		if (outlier)
			mover_queue_look(queue, asking->target, id.type, id.value, asking->now);
		return;
	}
	if (!outlier && length >= 0)
		mover_queue_room(queue, work, head >= 0 ? MOVER_ROOM_OUTLIER : room, asking->now);
	mover_queue_done(queue, work, outlier ? MOVER_OUTLIER : MOVER_SETTLED, asking->now);
}

static uint64_t latest_time(struct mover_work **works, size_t count)
{
	uint64_t latest = 0;

	for (size_t i = 0; i < count; i++) {
		if (works[i]->operation_time > latest)
			latest = works[i]->operation_time;
	}
	return latest;
}

static void write_ids(struct buffer *out, struct mover_work **works, size_t count)
{
	size_t filter = writer_open_document(out, "filter");
	size_t condition = writer_open_document(out, "_id");
	size_t in = writer_open_array(out, "$in");
	char name[12];

	for (size_t i = 0; i < count; i++)
		writer_renamed(out, writer_index(name, i),
			       &(struct element){.type = works[i]->id_type, .value = works[i]->id});
	writer_close(out, in);
	writer_close(out, condition);
	writer_close(out, filter);
}

static enum link_result ask(struct asking *asking, struct link *link, uint64_t after)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);

	writer_string(&out, "find", asking->target->collection);
	write_ids(&out, asking->works, asking->count);
	write_measures(&out, asking->target->rule);
	command_read_concern(&out, link, after);
	writer_close(&out, start);
	return link_find(link, asking->target->database, buffer_view(&out), take_answer, asking);
}

must_check enum link_result look_at_documents(struct mover *mover, struct link *link,
					      struct mover_work **works, size_t count)
{
	struct asking asking = {mover, works[0]->target, works, count, clock_now()};
	enum link_result result = ask(&asking, link, latest_time(works, count));

	for (size_t i = 0; i < count; i++) {
		/* An answer that names no entry of ours means that the document is gone. */
		if (works[i])
			mover_queue_done(mover->rounds, works[i],
					 result == LINK_DONE ? MOVER_SETTLED : MOVER_RETRY,
					 asking.now);
	}
	if (result == LINK_REFUSED)
		log_debug("mover: '%s.%s': looking refused: %s", asking.target->database,
			  asking.target->collection, link_error(link)->message);
	return result;
}

/* Filters. */

struct found {
	struct mover *mover;
	struct mover_target *target;
	size_t count;
	int64_t now;
};

static void take_found(void *context, struct bytes document)
{
	struct found *found = context;
	struct element id;

	found->count++;
	if (found->target && document_find(document, "_id", &id))
		mover_queue_look(found->mover->rounds, found->target, id.type, id.value,
				 found->now);
}

static enum link_result find_by_filter(struct link *link, const struct mover_work *work,
				       bool candidates, int32_t limit, struct found *found)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), filter, both, projection;

	writer_string(&out, "find", work->target->collection);
	filter = writer_open_document(&out, "filter");
	both = writer_open_array(&out, "$and");
	writer_document(&out, "0", work->filter);
	if (candidates)
		look_write_candidates(&out, "1", work->target->rule);
	writer_close(&out, both);
	writer_close(&out, filter);
	projection = writer_open_document(&out, "projection");
	writer_int32(&out, "_id", 1);
	writer_close(&out, projection);
	if (work->collation.length > 0)
		writer_document(&out, "collation", work->collation);
	writer_int32(&out, "limit", limit);
	command_read_concern(&out, link, work->operation_time);
	writer_close(&out, start);
	return link_find(link, work->target->database, buffer_view(&out), take_found, found);
}

must_check enum link_result look_for_filter(struct mover *mover, struct link *link,
					    struct mover_work *work)
{
	struct found outliers = {mover, work->target, 0, clock_now()}, any = {0};
	enum link_result result = find_by_filter(link, work, true, FILTER_LIMIT, &outliers);

	if (result == LINK_DONE && outliers.count == 0)
		result = find_by_filter(link, work, false, 1, &any);
	/* The write itself may have changed what the filter asked for, or there are too many. */
	if (result == LINK_REFUSED ||
	    (result == LINK_DONE && outliers.count == 0 && any.count == 0) ||
	    outliers.count == FILTER_LIMIT)
		mover_sweep_soon(mover, work->target);
	return result;
}
