/* Which indexes the overflow has because the main collection has them. */
#include "proxy/fitness/mirror.h"

#include "proxy/base/log.h"
#include "proxy/upstream/clauses.h"
#include "proxy/upstream/facts.h"
#include "rules/rule/known_indexes.h"
#include "rules/rule/overflow_document.h"

#define INDEX_NOT_FOUND 27

/* A key's field that looks into the array: written under the name that it has in the overflow.
 * False where it has none. */
static bool write_key(const struct rule *rule, const struct element *field, struct buffer *out)
{
	auto_buffer struct buffer name = {0};

	if (!overflow_path(rule, (const char *)field->name.data + strlen(rule->array), &name))
		return false;
	writer_renamed(out, (const char *)name.data, field);
	return true;
}

/* False where the index as a whole has no like. */
static bool write_keys(const struct rule *rule, struct bytes keys, struct buffer *out)
{
	size_t start = writer_open_document(out, "key"), found = 0;
	struct cursor cursor;
	struct element field;
	int64_t way;

	if (!cursor_open(&cursor, keys))
		return false;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		enum path_relation relation = path_relate(field.name, rule->array);

		if (relation != PATH_SAME && relation != PATH_BELOW)
			continue;
		if (!element_integer(&field, &way))
			return false;
		found += write_key(rule, &field, out);
	}
	writer_close(out, start);
	return found > 0;
}

must_check bool mirror_write(const struct rule *rule, struct bytes index, const char *name,
			     struct buffer *out)
{
	size_t before = out->length, start = writer_open_document(out, name);
	auto_buffer struct buffer own = {0};
	struct element keys, option;
	struct bytes text;

	if (!document_find(index, "key", &keys) || keys.type != BSON_BYTE_DOCUMENT ||
	    !document_find(index, "name", &option) || !element_string(&option, &text) ||
	    !write_keys(rule, keys.value, out)) {
		out->length = before;
		return false;
	}
	buffer_append(&own, MIRROR_NAME, strlen(MIRROR_NAME));
	buffer_append(&own, text.data, text.length);
	writer_text(out, "name", buffer_view(&own));
	if (document_truth(index, "sparse"))
		writer_bool(out, "sparse", true);
	if (document_truth(index, "hidden"))
		writer_bool(out, "hidden", true);
	if (document_find(index, "collation", &option))
		writer_element(out, &option);
	writer_close(out, start);
	return true;
}

static bool same_option(struct bytes one, struct bytes other, const char *option)
{
	struct element first, second;
	bool has = document_find(one, option, &first);

	if (has != document_find(other, option, &second))
		return false;
	return !has || bytes_equal(first.value, second.value);
}

bool mirror_same(struct bytes one, struct bytes other)
{
	struct element keys, others;

	return document_find(one, "key", &keys) && document_find(other, "key", &others) &&
	       index_keys_same(keys.value, others.value) &&
	       document_truth(one, "sparse") == document_truth(other, "sparse") &&
	       document_truth(one, "hidden") == document_truth(other, "hidden") &&
	       same_option(one, other, "collation") &&
	       same_option(one, other, "partialFilterExpression");
}

struct bytes mirror_name(struct bytes index)
{
	struct bytes name = {0};
	struct element element;

	if (document_find(index, "name", &element) && !element_string(&element, &name))
		return (struct bytes){0};
	return name;
}

bool mirror_is_ours(struct bytes index)
{
	struct bytes name = mirror_name(index);

	return name.length > strlen(MIRROR_NAME) && bytes_begin_with(name, MIRROR_NAME);
}

/* Making them. */

struct mirroring {
	struct link *link;
	struct mover_target *target;
	struct namespace_facts facts;
	struct buffer wanted; /* an array of indexes: the likes of the main collection's */
};

/* Whether an index like this one is among these. */
static bool wants(const struct mirroring *mirroring, struct bytes index)
{
	struct cursor cursor;
	struct element each;

	require(cursor_open(&cursor, buffer_view(&mirroring->wanted)));
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
		if (mirror_same(each.value, index))
			return true;
	return false;
}

static bool has(const struct mirroring *mirroring, struct bytes index)
{
	const struct copies *there = &mirroring->facts.overflow.indexes;

	for (size_t i = 0; i < there->count; i++)
		if (mirror_same(there->list[i], index))
			return true;
	return false;
}

/* `index`: what is made or dropped. */
static enum link_result run(struct mirroring *mirroring, const char *text, struct bytes index)
{
	static struct log_limit told; /* clients make indexes */
	struct mover_target *target = mirroring->target;
	struct bytes name = mirror_name(index);
	auto_free char *called = must_strndup((const char *)name.data, name.length);
	enum link_result result = command_run(mirroring->link, target->overflow_database, text,
					      fill("collection", target->overflow_collection),
					      fill("name", called), fill_document("index", index));

	if (result == LINK_REFUSED && link_error(mirroring->link)->code != INDEX_NOT_FOUND)
		log_limited(&told, CONFIG_LOG_WARNING,
			    "5002 mover: '%s.%s': the index '%s' could not be made or dropped: %s",
			    target->overflow_database, target->overflow_collection, called,
			    link_error(mirroring->link)->message);
	return result == LINK_LOST ? LINK_LOST : LINK_DONE;
}

/* First what is too many, whose names may be wanted again. */
static enum link_result drop_others(struct mirroring *mirroring)
{
	const struct copies *there = &mirroring->facts.overflow.indexes;
	enum link_result result = LINK_DONE;

	for (size_t i = 0; result == LINK_DONE && i < there->count; i++)
		if (mirror_is_ours(there->list[i]) && !wants(mirroring, there->list[i]))
			result = run(mirroring,
				     "{dropIndexes: @collection, index: @name, "
				     "writeConcern: @write_concern}",
				     there->list[i]);
	return result;
}

static enum link_result make_missing(struct mirroring *mirroring)
{
	enum link_result result = LINK_DONE;
	struct cursor cursor;
	struct element index;

	require(cursor_open(&cursor, buffer_view(&mirroring->wanted)));
	while (result == LINK_DONE && cursor_next(&cursor, &index) == CURSOR_ELEMENT)
		if (!has(mirroring, index.value))
			result = run(mirroring,
				     "{createIndexes: @collection, indexes: [@index], "
				     "writeConcern: @write_concern}",
				     index.value);
	return result;
}

/* Tells what the overflow has now: the likes, and what others made there. One that could not be
 * made costs time where it is believed in, no more. */
static void tell_overflow(const struct mirroring *mirroring)
{
	const struct copies *there = &mirroring->facts.overflow.indexes;
	auto_buffer struct buffer now = {0};
	size_t list = writer_open(&now), count = 0;
	bool read_only = mirroring->target->read_only; /* then it has those that it had */
	struct cursor cursor;
	struct element index;
	char name[12];

	require(cursor_open(&cursor, buffer_view(&mirroring->wanted)));
	while (!read_only && cursor_next(&cursor, &index) == CURSOR_ELEMENT)
		writer_document(&now, writer_index(name, count++), index.value);
	for (size_t i = 0; i < there->count; i++)
		if (read_only || !mirror_is_ours(there->list[i]))
			writer_document(&now, writer_index(name, count++), there->list[i]);
	writer_close(&now, list);
	known_indexes_take(mirroring->target->overflow_indexes, buffer_view(&now));
}

static void tell_main(const struct mirroring *mirroring)
{
	const struct copies *there = &mirroring->facts.main.indexes;
	auto_buffer struct buffer now = {0};
	size_t list = writer_open(&now);
	char name[12];

	for (size_t i = 0; i < there->count; i++)
		writer_document(&now, writer_index(name, i), there->list[i]);
	writer_close(&now, list);
	known_indexes_take(mirroring->target->indexes, buffer_view(&now));
}

static void find_wanted(struct mirroring *mirroring)
{
	const struct copies *there = &mirroring->facts.main.indexes;
	size_t list = writer_open(&mirroring->wanted), count = 0;
	char name[12];

	for (size_t i = 0; i < there->count; i++)
		count += mirror_write(mirroring->target->rule, there->list[i],
				      writer_index(name, count), &mirroring->wanted);
	writer_close(&mirroring->wanted, list);
}

static enum link_result renew(struct mirroring *mirroring)
{
	struct mover_target *target = mirroring->target;
	struct namespace_facts *facts = &mirroring->facts;
	/* The overflow's first: what another Spillway makes there its main collection has already.
	 */
	enum link_result result = facts_read_indexes(mirroring->link, target->overflow_database,
						     target->overflow_collection, &facts->overflow);

	if (result == LINK_DONE)
		result = facts_read_indexes(mirroring->link, target->database, target->collection,
					    &facts->main);
	if (result != LINK_DONE)
		return result;
	find_wanted(mirroring);
	tell_main(mirroring);
	if (!target->read_only)
		result = drop_others(mirroring);
	if (result == LINK_DONE && !target->read_only)
		result = make_missing(mirroring);
	if (result == LINK_DONE)
		tell_overflow(mirroring);
	return result;
}

must_check enum link_result mirror_renew(struct link *link, struct mover_target *target)
{
	struct mirroring mirroring = {.link = link, .target = target};
	enum link_result result = renew(&mirroring);

	facts_fini(&mirroring.facts.main);
	facts_fini(&mirroring.facts.overflow);
	buffer_fini(&mirroring.wanted);
	return result;
}
