/* Finds that go out as they came, and replies that go back so. */
#include "rules/read/plain_find.h"

#include "protocol/command.h"
#include "protocol/message.h"
#include "rules/merge/merge.h"
#include "rules/query/reads.h"

#define BIT(field) (UINT64_C(1) << (field))

/* What may stand in the command, once: with anything else the whole matcher has to look. */
#define PLAIN_FIELDS \
	(BIT(FIELD_DB) | BIT(FIELD_FILTER) | BIT(FIELD_SORT) | BIT(FIELD_LSID) | \
	 BIT(FIELD_CLUSTER_TIME) | BIT(FIELD_READ_PREFERENCE) | BIT(FIELD_READ_CONCERN) | \
	 BIT(FIELD_MAX_TIME) | BIT(FIELD_BATCH_SIZE) | BIT(FIELD_COLLATION) | BIT(FIELD_COMMENT) | \
	 BIT(FIELD_API_VERSION) | BIT(FIELD_API_STRICT) | BIT(FIELD_API_DEPRECATION))

_Static_assert(FIELD_COUNT <= 64, "a bit for each field");

struct plain {
	struct bytes collection;
	struct bytes database;
	struct bytes filter, sort; /* without data where there is none */
};

/* False where nothing is to be told of the field without guessing. */
static bool take_field(const struct element *element, uint64_t *allowed, struct plain *plain)
{
	enum command_field field = command_field_of(element->name);

	if (field == FIELD_COUNT)
		return !element_is(element, "find");
	if (!(*allowed & BIT(field)))
		return false;
	*allowed &= ~BIT(field);
	if (field == FIELD_DB)
		return element_string(element, &plain->database);
	if (field != FIELD_FILTER && field != FIELD_SORT)
		return true;
	*(field == FIELD_SORT ? &plain->sort : &plain->filter) = element->value;
	return element->type == BSON_BYTE_DOCUMENT;
}

static inline bool open_first(struct bytes document, struct cursor *cursor, struct element *first)
{
	return cursor_open(cursor, document) && cursor_next(cursor, first) == CURSOR_ELEMENT;
}

static bool read_command(struct bytes body, struct plain *plain)
{
	uint64_t allowed = PLAIN_FIELDS;
	struct cursor cursor;
	struct element element;
	enum cursor_step step;

	if (!open_first(body, &cursor, &element) || !element_is(&element, "find") ||
	    !element_string(&element, &plain->collection))
		return false;
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT)
		if (!take_field(&element, &allowed, plain))
			return false;
	return step == CURSOR_END;
}

/* A condition on `_id` alone is the most common of all, and no rule is on that. */
static bool is_of_id(struct bytes filter)
{
	struct cursor cursor;
	struct element condition;

	return open_first(filter, &cursor, &condition) && element_is(&condition, "_id") &&
	       cursor_next(&cursor, &condition) == CURSOR_END;
}

static bool reads_no_array(const struct plain *plain, const struct ruled_namespace *namespace)
{
	if (plain->filter.data && !is_of_id(plain->filter)) {
		struct reads reads = reads_of_filter(plain->filter, namespace);

		if (reads.kind != READS_NOTHING || reads.searches)
			return false;
	}
	return !plain->sort.data || reads_of_sort(plain->sort, namespace).kind == READS_NOTHING;
}

must_check bool plain_find(struct namespace_cache *cache, struct bytes frame,
			   const struct ruled_namespace **namespace)
{
	struct plain plain = {0};
	struct bytes body;
	const struct ruled_namespace *found;
	bool full;

	if (!message_lone_body(frame, &body) || !read_command(body, &plain) ||
	    rule_set_short_view(namespace_cache_rules(cache), plain.database, plain.collection))
		return false;
	found = namespace_cache_find(cache, plain.database, plain.collection, &full);
	if (!found || !reads_no_array(&plain, found))
		return false;
	*namespace = found;
	return true;
}

must_check bool plain_find_passes(const struct ruled_namespace *namespace, struct bytes frame)
{
	struct bytes body;
	struct element cursor, batch;
	struct cursor rest;

	/* mongod writes first what is looked for here, but for collections that are not there. */
	return message_lone_body(frame, &body) && open_first(body, &rest, &cursor) &&
	       element_is(&cursor, "cursor") && cursor.type == BSON_BYTE_DOCUMENT &&
	       open_first(cursor.value, &rest, &batch) && element_is(&batch, "firstBatch") &&
	       batch.type == BSON_BYTE_ARRAY && merge_untouched(namespace, batch.value);
}
