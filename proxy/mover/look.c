/* Cheap questions about many documents at once: which of them need a round. */
#include "proxy/mover/look.h"

#include "proxy/base/clock.h"
#include "proxy/base/log.h"
#include "proxy/mover/sweeper.h"

#include <inttypes.h>
#include <stdio.h>

#define WRAPPED_ARRAY 8  /* what {a: <array>} has more bytes than the array */
#define ELEMENT_LEAST 16 /* bytes that an element to come is taken to have at least */
#define ELEMENT_GROWTH 8 /* and it may be so many times larger than those that are there */
#define FILTER_LIMIT 1000

/* Without a state an array is an outlier if it is longer than the threshold, or larger than
 * max_bytes; with a state, if it is longer than the head that the state says.
 *
 * To count an array's elements in an expression mongod makes each a value of its own, and it would
 * of every document. A path ends at the element that it names. If the whole document is small the
 * array is not looked at. The path means fields of this name in elements, too: a superset. */
#define CANDIDATES \
	"{$or: [{'@array.@beyond': {$exists: true}, '_spill.@key': {$exists: false}}, " \
	"{$expr: {$and: [{$gt: [{$bsonSize: '$$ROOT'}, @most]}, " \
	"{$eq: [{$type: '$_spill.@key'}, 'missing']}, {$isArray: '$@array'}, " \
	"{$gt: [{$bsonSize: {a: '$@array'}}, @wrapped]}]}}, " \
	"{'_spill.@key': {$exists: true}, $expr: {$and: [{$isArray: '$@array'}, " \
	"{$gt: [{$size: '$@array'}, {$ifNull: ['$_spill.@key.h', " \
	"'$_spill.@key.e.h', @threshold]}]}]}}, " \
	"{_spill: {}}, {'_spill.@key.n': 0}]}"

void look_write_candidates(struct buffer *out, const char *name, const struct rule *rule)
{
	char beyond[24];

	snprintf(beyond, sizeof(beyond), "%" PRId64, rule->threshold);
	template_write(out, name, CANDIDATES, fill("array", rule->array), fill("key", rule->key),
		       fill_text("beyond", beyond), fill_int64("threshold", rule->threshold),
		       fill_int64("most", rule->max_bytes),
		       fill_int64("wrapped", rule->max_bytes + WRAPPED_ARRAY));
}

static void write_candidates(struct buffer *out, const char *name, const void *rule)
{
	look_write_candidates(out, name, rule);
}

/* The question. */

struct concern {
	const struct link *link;
	uint64_t after;
};

struct asking {
	struct mover *mover;
	struct mover_target *target;
	struct mover_work **works; /* NULL once it has been given back */
	size_t count;
	int64_t now;
};

static int64_t integer_at(struct bytes document, const char *name)
{
	int64_t value;

	return document_find_integer(document, name, &value) ? value : -1;
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

/* After the notes' operation times, where they are known. */
static void write_concern(struct buffer *out, const char *name, const void *context)
{
	const struct concern *concern = context;

	(void)name;
	command_read_concern(out, concern->link, concern->after);
}

static void splice_ids(struct buffer *out, size_t *place, const void *context)
{
	const struct asking *asking = context;
	char name[12];

	for (size_t i = 0; i < asking->count; i++)
		writer_renamed(out, writer_index(name, (*place)++),
			       &(struct element){.type = asking->works[i]->id_type,
						 .value = asking->works[i]->id});
}

static enum link_result ask(struct asking *asking, struct link *link, uint64_t after)
{
	const struct rule *rule = asking->target->rule;
	const struct concern concern = {link, after};

	return command_find(
		link, asking->target->database, take_answer, asking,
		"{find: @collection, filter: {_id: {$in: [..@ids]}}, projection: "
		"{_id: 1, length: {$cond: [{$isArray: '$@array'}, {$size: '$@array'}, -1]}, "
		"size: {$bsonSize: {a: '$@array'}}, head: {$ifNull: ['$_spill.@key.h', "
		"'$_spill.@key.e.h']}, moved: {$ifNull: ['$_spill.@key.n', '$_spill.@key.e.n']}, "
		"empty: {$eq: ['$_spill', {$literal: {}}]}}, "
		"readConcern: @concern}",
		fill("collection", asking->target->collection),
		fill_spliced("ids", splice_ids, asking), fill("array", rule->array),
		fill("key", rule->key), fill_with("concern", write_concern, &concern));
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
		log_debug("4002 mover: '%s.%s': looking refused: %s", asking.target->database,
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

#define BY_FILTER(more) \
	"{find: @collection, filter: {$and: [@filter" more "]}, projection: {_id: 1}, " \
	"collation: @collation, limit: @limit, readConcern: @concern}"

static enum link_result find_by_filter(struct link *link, const struct mover_work *work,
				       bool candidates, int32_t limit, struct found *found)
{
	const struct mover_target *target = work->target;
	const struct concern concern = {link, work->operation_time};
	const struct element collation = {.type = work->collation.length > 0 ? BSON_BYTE_DOCUMENT
									     : 0,
					  .value = work->collation};

	return command_find(link, target->database, take_found, found,
			    candidates ? BY_FILTER(", @candidates") : BY_FILTER(""),
			    fill("collection", target->collection),
			    fill_document("filter", work->filter),
			    fill_with("candidates", write_candidates, target->rule),
			    fill("collation", &collation), fill("limit", limit),
			    fill_with("concern", write_concern, &concern));
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
		sweeper_soon(mover, work->target);
	return result;
}
