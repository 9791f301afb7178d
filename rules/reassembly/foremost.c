/* Finds the documents that come first in the order of a ruled array. */
#include "rules/reassembly/foremost.h"

#include "protocol/template.h"
#include "rules/query/read_options.h"
#include "rules/rule/known_indexes.h"

#define BATCHES 4 /* an outlier is likely to have so many among the overflow's best */

static const struct target *target_of(const struct ruled_namespace *namespace, struct bytes path)
{
	for (size_t i = 0; i < namespace->target_count; i++)
		if (bytes_are(path, namespace->targets[i].rule->array))
			return &namespace->targets[i];
	return NULL;
}

static bool has_index(struct known_indexes *indexes, const char *path)
{
	auto_buffer struct buffer sort = {0};
	size_t start = writer_open(&sort);

	writer_int32(&sort, path, 1);
	writer_close(&sort, start);
	return known_indexes_sort(indexes, buffer_view(&sort));
}

/* A dotted array may stand in documents of another array. */
static bool serves(const struct target *target)
{
	const struct rule *rule = target->rule;

	return !strchr(rule->array, '.') && rule->overflow.layout == RULE_BATCHES &&
	       rule->gc_delay_ms > 0 && has_index(target->overflow_indexes, rule->overflow.array);
}

static bool says_nothing(const struct element *option)
{
	return option->type == 0 ||
	       (option->type == BSON_BYTE_DOCUMENT && option->value.length <= 5);
}

static bool take_order(const struct element *key, int32_t *order)
{
	int64_t number;

	if (!element_integer(key, &number) || (number != 1 && number != -1))
		return false;
	*order = (int32_t)number;
	return true;
}

/* {<array>: 1}, or {<array>: 1, _id: 1}. */
static bool take_sort(const struct element *sort, struct foremost *foremost)
{
	struct cursor cursor;
	struct element key;
	enum cursor_step step;

	if (sort->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, sort->value) ||
	    cursor_next(&cursor, &key) != CURSOR_ELEMENT || !take_order(&key, &foremost->order))
		return false;
	foremost->target = target_of(foremost->namespace, key.name);
	step = cursor_next(&cursor, &key);
	if (step == CURSOR_ELEMENT && element_is(&key, "_id") && take_order(&key, &foremost->by_id))
		step = cursor_next(&cursor, &key);
	return foremost->target && step == CURSOR_END;
}

must_check bool foremost_of_find(const struct command *find, int64_t limit,
				 const struct ruled_namespace *namespace, struct foremost *foremost)
{
	int64_t skip = options_number(find, "skip");

	*foremost = (struct foremost){.namespace = namespace};
	foremost->most = skip + limit;
	return find->kind == COMMAND_FIND && limit > 0 && limit <= FOREMOST_MOST && skip >= 0 &&
	       skip <= FOREMOST_MOST - limit && says_nothing(&find->fields[FIELD_FILTER]) &&
	       !command_has(find, FIELD_COLLATION) && !command_has(find, FIELD_HINT) &&
	       take_sort(&find->fields[FIELD_SORT], foremost) && serves(foremost->target);
}

void foremost_fini(struct foremost *foremost)
{
	buffer_fini(&foremost->named);
	*foremost = (struct foremost){0};
}

bool foremost_is_late(const struct foremost *foremost, uint64_t microseconds)
{
	return microseconds / 1000 >= (uint64_t)foremost->target->rule->gc_delay_ms;
}

/* ---- stages ---- */

/* No query of the link: mongod might take the link's index for it, and sort all that is left. */
#define UNLINKED "{$expr: {$not: [{$in: ['$@link', {$literal: @named}]}]}}"

#define FILLS(foremost) \
	REASSEMBLE_FILLS((foremost)->namespace, (foremost)->target), \
		fill("order", (foremost)->order), \
		fill_template("then", (foremost)->by_id == 0 ? "{}" \
				      : (foremost)->by_id > 0 \
					      ? "{_id: 1}" \
					      : "{_id: -1}"), /* Who is as good as the last may \
								 come before it by its _id. */ \
		fill("tied", (foremost)->by_id == 0 ? 1 : -1), fill("most", (foremost)->most), \
		fill("batches", BATCHES *(foremost)->most << 2 * (foremost)->looks), \
		fill_array("named", buffer_view(&(foremost)->named)), \
		fill_template("unnamed", \
			      (foremost)->named_count ? "{_id: {$nin: @named}}" : "{}"), \
		fill_template("unlinked", (foremost)->named_count ? UNLINKED : "{}"), \
		fill_template("short_error", RAISE(RAISED_SHORT))

/* An outlier of which main holds no element is left to the overflow: mongod sorts an empty array
 * before all that is in one. */
static void write_main(struct buffer *out, size_t *place, const struct foremost *foremost)
{
	template_append(out, place,
			"{$match: {$nor: [{@array: {$size: 0}, _spill.@key.n: {$gt: 0}}], "
			"..@unnamed}}",
			FILLS(foremost));
	template_append(out, place, "{$sort: {@array: @order, ..@then}}", FILLS(foremost));
	template_append(out, place, "{$limit: @most}", FILLS(foremost));
}

struct whole {
	const struct foremost *foremost;
	struct reassembly how;
};

static void splice_whole(struct buffer *out, size_t *place, const void *context)
{
	const struct whole *whole = context;

	reassemble_write_stages(out, place, whole->foremost->namespace, whole->how);
}

void foremost_write_stages(struct buffer *out, size_t *place, const struct foremost *foremost,
			   struct reassembly how)
{
	struct whole whole = {foremost, how};

	write_main(out, place, foremost);
	if (foremost->named_count > 0)
		template_append(out, place,
				"{$unionWith: {coll: @collection, pipeline: ["
				"{$match: {_id: {$in: @named}}}, ..@whole]}}",
				fill_spliced("whole", splice_whole, &whole), FILLS(foremost));
	template_append(out, place,
			"{$unionWith: {coll: @overflow, pipeline: ["
			"{$match: {..@unlinked}}, {$sort: {@batch: @order}}, {$limit: 1}, "
			"{$replaceWith: {@array: '$@batch', _spill: {hit: 1}}}]}}",
			FILLS(foremost));
	template_append(out, place, "{$sort: {@array: @order, _spill.hit: @tied, ..@then}}",
			FILLS(foremost));
	template_append(out, place, "{$limit: @most}", FILLS(foremost));
	template_append(
		out, place,
		"{$match: {$expr: {$cond: [{$gt: ['$_spill.hit', 0]}, @short_error, true]}}}",
		FILLS(foremost));
}

void foremost_write_look(struct buffer *out, const struct foremost *foremost)
{
	template_write_fields(out,
			      "{find: @overflow, filter: {..@unlinked}, sort: {@batch: @order}, "
			      "limit: @batches, batchSize: @batches, projection: {_id: 0, @link: "
			      "1}, singleBatch: true}",
			      FILLS(foremost));
}

/* ---- what comes back ---- */

/* Their bytes are the same: what is equal otherwise is named twice, which does no harm. */
static bool is_named(struct bytes named, const struct element *id)
{
	struct cursor cursor;
	struct element other;

	if (!cursor_open(&cursor, named))
		return false;
	while (cursor_next(&cursor, &other) == CURSOR_ELEMENT)
		if (other.type == id->type && bytes_equal(other.value, id->value))
			return true;
	return false;
}

static void name_one(struct foremost *foremost, const struct element *id)
{
	struct buffer named = {0};
	size_t start = writer_open(&named), count = 0;
	struct cursor cursor;
	struct element other;
	char name[12];

	if (foremost->named_count > 0 && cursor_open(&cursor, buffer_view(&foremost->named)))
		while (cursor_next(&cursor, &other) == CURSOR_ELEMENT)
			writer_renamed(&named, writer_index(name, count++), &other);
	writer_renamed(&named, writer_index(name, count++), id);
	writer_close(&named, start);
	buffer_fini(&foremost->named);
	foremost->named = named;
	foremost->named_count = count;
}

/* A query and an expression call the same values equal. */
static bool is_plain(const struct element *id)
{
	switch (id->type) {
	case BSON_BYTE_DOUBLE:
	case BSON_BYTE_STRING:
	case BSON_BYTE_BINARY:
	case BSON_BYTE_OBJECT_ID:
	case BSON_BYTE_BOOL:
	case BSON_BYTE_DATE:
	case BSON_BYTE_INT32:
	case BSON_BYTE_INT64:
		return true;
	default:
		return false;
	}
}

must_check bool foremost_take(struct foremost *foremost, struct bytes batch)
{
	size_t before = foremost->named_count;
	struct element document, id;
	struct cursor cursor;
	enum cursor_step step = CURSOR_INVALID;

	foremost->looks++;
	if (cursor_open(&cursor, batch))
		while ((step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT)
			if (element_only_field(&document, &id) && is_plain(&id) &&
			    !is_named(buffer_view(&foremost->named), &id) &&
			    foremost->named_count <= FOREMOST_MOST)
				name_one(foremost, &id);
	return step == CURSOR_END && foremost->named_count > before &&
	       foremost->named_count <= FOREMOST_MOST;
}
