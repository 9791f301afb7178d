/* Keeps what is known of the indexes on ruled and overflow collections. */
#include "rules/rule/known_indexes.h"

#include "protocol/writer.h"
#include "rules/rule/hash.h"
#include "rules/rule/rules.h"

#include <stdlib.h>

struct known_indexes {
	struct known_indexes *next; /* in its row */
	char *database;
	char *collection;
	size_t row;
	size_t holders; /* guarded by the book's lock */
	pthread_mutex_t lock;
	struct buffer now; /* an array; empty where nothing is known */
};

void index_book_init(struct index_book *book, uint64_t key)
{
	*book = (struct index_book){.key = key};
	require(pthread_mutex_init(&book->lock, NULL) == 0);
}

static void indexes_free(struct known_indexes *indexes)
{
	pthread_mutex_destroy(&indexes->lock);
	buffer_fini(&indexes->now);
	free(indexes->database);
	free(indexes->collection);
	free(indexes);
}

void index_book_fini(struct index_book *book)
{
	struct known_indexes *indexes, *next;

	for (size_t i = 0; i < INDEX_BOOK_ROWS; i++)
		for (indexes = book->rows[i]; indexes; indexes = next) {
			next = indexes->next;
			indexes_free(indexes);
		}
	pthread_mutex_destroy(&book->lock);
}

static struct known_indexes *indexes_new(struct bytes database, struct bytes collection)
{
	struct known_indexes *indexes = must_calloc(1, sizeof(*indexes));

	indexes->database = must_strndup((const char *)database.data, database.length);
	indexes->collection = must_strndup((const char *)collection.data, collection.length);
	require(pthread_mutex_init(&indexes->lock, NULL) == 0);
	return indexes;
}

struct known_indexes *index_book_find(struct index_book *book, struct bytes database,
				      struct bytes collection)
{
	uint64_t hash = hash_bytes(database, hash_bytes(collection, book->key));
	size_t number = hash % INDEX_BOOK_ROWS;
	struct known_indexes **row = &book->rows[number], *found;

	pthread_mutex_lock(&book->lock);
	for (found = *row; found; found = found->next)
		if (bytes_are(database, found->database) &&
		    bytes_are(collection, found->collection))
			break;
	if (!found) {
		found = indexes_new(database, collection);
		found->row = number;
		found->next = *row;
		*row = found;
	}
	found->holders++;
	pthread_mutex_unlock(&book->lock);
	return found;
}

void index_book_leave(struct index_book *book, struct known_indexes *indexes)
{
	struct known_indexes **at;

	if (!indexes)
		return;
	pthread_mutex_lock(&book->lock);
	require(indexes->holders > 0);
	if (--indexes->holders == 0) {
		for (at = &book->rows[indexes->row]; *at != indexes; at = &(*at)->next)
			continue;
		*at = indexes->next;
		indexes_free(indexes);
	}
	pthread_mutex_unlock(&book->lock);
}

void known_indexes_take(struct known_indexes *indexes, struct bytes now)
{
	pthread_mutex_lock(&indexes->lock);
	indexes->now.length = 0;
	buffer_append(&indexes->now, now.data, now.length);
	pthread_mutex_unlock(&indexes->lock);
}

bool known_indexes_serve(struct known_indexes *indexes, const char *path)
{
	bool serve;

	if (!indexes)
		return false;
	pthread_mutex_lock(&indexes->lock);
	serve = indexes->now.length > 0 &&
		indexes_begin_with(buffer_view(&indexes->now), "key", path);
	pthread_mutex_unlock(&indexes->lock);
	return serve;
}

/* Of numbers those that are no integers are in doubt: the same. */
static bool same_kind(const struct element *one, const struct element *other)
{
	int64_t way, back;

	if (one->type == BSON_BYTE_STRING || other->type == BSON_BYTE_STRING)
		return one->type == other->type && bytes_equal(one->value, other->value);
	return !element_integer(one, &way) || !element_integer(other, &back) || way == back;
}

bool index_keys_same(struct bytes one, struct bytes other)
{
	struct cursor first, second;
	struct element left, right;
	bool same = true;

	if (!cursor_open(&first, one) || !cursor_open(&second, other))
		return false;
	while (same && cursor_next(&first, &left) == CURSOR_ELEMENT)
		same = cursor_next(&second, &right) == CURSOR_ELEMENT &&
		       bytes_equal(left.name, right.name) && same_kind(&left, &right);
	return same && cursor_next(&second, &right) == CURSOR_END;
}

static bool is_text(struct bytes index)
{
	struct element keys, key;
	struct cursor cursor;
	struct bytes kind;

	if (!document_find(index, "key", &keys) || keys.type != BSON_BYTE_DOCUMENT ||
	    !cursor_open(&cursor, keys.value))
		return false;
	while (cursor_next(&cursor, &key) == CURSOR_ELEMENT)
		if (element_string(&key, &kind) && bytes_are(kind, "text"))
			return true;
	return false;
}

static bool is_meant(struct bytes index, const struct element *hint)
{
	struct element name, key;

	if (!hint)
		return is_text(index);
	if (hint->type == BSON_BYTE_STRING)
		return document_find(index, "name", &name) && name.type == hint->type &&
		       bytes_equal(name.value, hint->value);
	return hint->type == BSON_BYTE_DOCUMENT && document_find(index, "key", &key) &&
	       key.type == BSON_BYTE_DOCUMENT && index_keys_same(key.value, hint->value);
}

static enum index_meant judge_one(struct bytes index, const struct element *hint,
				  bool (*judge)(const void *context, struct bytes index),
				  const void *context)
{
	if (!is_meant(index, hint))
		return INDEX_NOT_KNOWN;
	return judge(context, index) ? INDEX_MEANT_SO : INDEX_MEANT;
}

enum index_meant known_indexes_judge(struct known_indexes *indexes, const struct element *hint,
				     bool (*judge)(const void *context, struct bytes index),
				     const void *context)
{
	enum index_meant meant = INDEX_NOT_KNOWN, one;
	struct cursor cursor;
	struct element index;

	if (!indexes)
		return meant;
	pthread_mutex_lock(&indexes->lock);
	if (indexes->now.length > 0 && cursor_open(&cursor, buffer_view(&indexes->now)))
		while (cursor_next(&cursor, &index) == CURSOR_ELEMENT) {
			one = judge_one(index.value, hint, judge, context);
			meant = one > meant ? one : meant;
		}
	pthread_mutex_unlock(&indexes->lock);
	return meant;
}

bool known_indexes_any(struct known_indexes *indexes,
		       bool (*judge)(const void *context, struct bytes index), const void *context)
{
	struct cursor cursor;
	struct element index;
	bool any = false;

	if (!indexes)
		return false;
	pthread_mutex_lock(&indexes->lock);
	if (indexes->now.length > 0 && cursor_open(&cursor, buffer_view(&indexes->now)))
		while (!any && cursor_next(&cursor, &index) == CURSOR_ELEMENT)
			any = index.type == BSON_BYTE_DOCUMENT && judge(context, index.value);
	pthread_mutex_unlock(&indexes->lock);
	return any;
}

/* `a.$**` has all that is below a. */
static bool begins_with(const struct element *key, const char *path)
{
	static const char all[] = "$**";
	size_t above;

	if (element_is(key, path))
		return true;
	if (key->name.length < sizeof(all))
		return false;
	above = key->name.length - strlen(all);
	return memcmp(key->name.data + above, all, strlen(all)) == 0 &&
	       strncmp((const char *)key->name.data, path, above) == 0;
}

static bool is_whole(struct bytes index)
{
	struct element option;

	return !document_find(index, "partialFilterExpression", &option) &&
	       !document_truth(index, "hidden");
}

bool indexes_begin_with(struct bytes indexes, const char *keys, const char *path)
{
	struct cursor cursor, fields;
	struct element index, key;

	if (!cursor_open(&cursor, indexes))
		return false;
	while (cursor_next(&cursor, &index) == CURSOR_ELEMENT)
		if (index.type == BSON_BYTE_DOCUMENT && document_find(index.value, keys, &key) &&
		    key.type == BSON_BYTE_DOCUMENT && cursor_open(&fields, key.value) &&
		    cursor_next(&fields, &key) == CURSOR_ELEMENT && begins_with(&key, path) &&
		    is_whole(index.value))
			return true;
	return false;
}

static int direction_of(const struct element *key)
{
	int64_t number;

	if (!element_integer(key, &number) || number == 0)
		return 0;
	return number > 0 ? 1 : -1;
}

/* The sort's fields are the index's first ones, all in the same direction or all reversed. */
static bool keys_sort(struct bytes keys, struct bytes sort)
{
	struct cursor wanted, there;
	struct element field, key;
	int turned = 0;

	if (!cursor_open(&wanted, sort) || !cursor_open(&there, keys))
		return false;
	while (cursor_next(&wanted, &field) == CURSOR_ELEMENT) {
		int one = direction_of(&field);

		if (cursor_next(&there, &key) != CURSOR_ELEMENT ||
		    !bytes_equal(key.name, field.name) || one == 0)
			return false;
		one *= direction_of(&key);
		if (one == 0 || (turned != 0 && one != turned))
			return false;
		turned = one;
	}
	return turned != 0;
}

static bool index_sorts(struct bytes index, struct bytes sort)
{
	struct element keys;

	return is_whole(index) && !document_truth(index, "sparse") &&
	       document_find(index, "key", &keys) && keys.type == BSON_BYTE_DOCUMENT &&
	       keys_sort(keys.value, sort);
}

bool known_indexes_sort(struct known_indexes *indexes, struct bytes sort)
{
	struct cursor cursor;
	struct element index;
	bool sorts = false;

	if (!indexes)
		return false;
	pthread_mutex_lock(&indexes->lock);
	if (indexes->now.length > 0 && cursor_open(&cursor, buffer_view(&indexes->now)))
		while (!sorts && cursor_next(&cursor, &index) == CURSOR_ELEMENT)
			sorts = index.type == BSON_BYTE_DOCUMENT && index_sorts(index.value, sort);
	pthread_mutex_unlock(&indexes->lock);
	return sorts;
}

/* ---- what a distinct is answered from ---- */

static size_t count_keys(struct bytes keys)
{
	struct cursor cursor;
	struct element key;
	size_t count = 0;

	if (cursor_open(&cursor, keys))
		while (cursor_next(&cursor, &key) == CURSOR_ELEMENT)
			count++;
	return count;
}

static bool is_number(const struct element *element)
{
	return element->type == BSON_BYTE_DOUBLE || element->type == BSON_BYTE_INT32 ||
	       element->type == BSON_BYTE_INT64 || element->type == BSON_BYTE_DECIMAL;
}

/* How many fields the index has, where it begins with the path and a distinct may be answered from
 * it; else 0. Of indexes with a collation all count: whether two are the same only mongod tells. */
static size_t scanned_keys(struct bytes index, struct bytes path, bool collated)
{
	struct element keys, first, collation;
	struct cursor cursor;

	if (!document_find(index, "key", &keys) || keys.type != BSON_BYTE_DOCUMENT ||
	    !cursor_open(&cursor, keys.value) || cursor_next(&cursor, &first) != CURSOR_ELEMENT ||
	    !bytes_equal(first.name, path) || !is_number(&first) || !is_whole(index) ||
	    document_find(index, "collation", &collation) != collated)
		return 0;
	return count_keys(keys.value);
}

static enum index_scan scan_of(struct bytes index, size_t keys, bool collated)
{
	if (collated)
		return INDEX_SCAN_FETCHES;
	if (!document_truth(index, "sparse"))
		return INDEX_SCAN_KEYS;
	return keys == 1 ? INDEX_SCAN_SPARSE : INDEX_SCAN_AMBIGUOUS;
}

/* The index on _id has the collection's collation. */
static bool have_collation(struct bytes indexes)
{
	struct element index, name, collation;
	struct cursor cursor;
	struct bytes text;

	if (!cursor_open(&cursor, indexes))
		return false;
	while (cursor_next(&cursor, &index) == CURSOR_ELEMENT)
		if (index.type == BSON_BYTE_DOCUMENT && document_find(index.value, "name", &name) &&
		    element_string(&name, &text) && bytes_are(text, "_id_"))
			return document_find(index.value, "collation", &collation);
	return false;
}

static enum index_scan scan_indexes(struct bytes indexes, struct bytes path, bool collated)
{
	enum index_scan scan = INDEX_SCAN_NONE, one;
	size_t fewest = SIZE_MAX, keys;
	struct cursor cursor;
	struct element index;

	if (!cursor_open(&cursor, indexes))
		return INDEX_SCAN_UNKNOWN;
	while (cursor_next(&cursor, &index) == CURSOR_ELEMENT) {
		keys = index.type == BSON_BYTE_DOCUMENT ? scanned_keys(index.value, path, collated)
							: 0;
		if (keys == 0 || keys > fewest)
			continue;
		one = scan_of(index.value, keys, collated);
		scan = keys == fewest && one != scan ? INDEX_SCAN_AMBIGUOUS : one;
		fewest = keys;
	}
	return scan;
}

enum collation_given collation_given(const struct element *collation)
{
	struct element locale;
	struct bytes name;

	if (collation->type != BSON_BYTE_DOCUMENT || collation->value.length <= 5)
		return COLLATION_NONE;
	return document_find(collation->value, "locale", &locale) &&
			       element_string(&locale, &name) && bytes_are(name, "simple")
		       ? COLLATION_SIMPLE
		       : COLLATION_OTHER;
}

enum index_scan known_indexes_scan(struct known_indexes *indexes, struct bytes path,
				   enum collation_given collation)
{
	enum index_scan scan = INDEX_SCAN_UNKNOWN;
	struct bytes now;

	if (!indexes)
		return scan;
	pthread_mutex_lock(&indexes->lock);
	now = buffer_view(&indexes->now);
	if (now.length > 0)
		scan = scan_indexes(now, path,
				    collation == COLLATION_OTHER ||
					    (collation == COLLATION_NONE && have_collation(now)));
	pthread_mutex_unlock(&indexes->lock);
	return scan;
}
