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
	       cursor.at == cursor.end;
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

/* The first value of a document, a document or array; `head`: its type and name, with the NUL. */
static inline bool first_value(struct bytes document, struct bytes head, struct bytes *value)
{
	struct cursor cursor;
	size_t there;

	if (!cursor_open(&cursor, document))
		return false;
	there = (size_t)(cursor.end - cursor.at);
	if (there < head.length || memcmp(cursor.at, head.data, head.length) != 0)
		return false;
	value->data = cursor.at + head.length;
	value->length = document_length((struct bytes){value->data, there - head.length});
	return value->length > 0;
}

must_check bool plain_find_passes(const struct ruled_namespace *namespace, struct bytes frame)
{
	static const uint8_t cursor[] = "\3cursor", batch[] = "\4firstBatch";
	struct bytes body, found, documents;

	/* mongod writes first what is looked for here, but for collections that are not there. */
	return message_lone_body(frame, &body) &&
	       first_value(body, (struct bytes){cursor, sizeof(cursor)}, &found) &&
	       first_value(found, (struct bytes){batch, sizeof(batch)}, &documents) &&
	       merge_untouched(namespace, documents);
}
