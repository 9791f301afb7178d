/* Walks a collection under a rule page by page, in the order of an index. */
#include "proxy/upstream/pages.h"

#include "proxy/upstream/clauses.h"
#include "proxy/upstream/overflow_index.h"
#include "proxy/upstream/target_read.h"
#include "rules/rule/overflow_document.h"

#include <stdio.h>
#include <stdlib.h>

#define INDEX_NOT_FOUND 27
#define LINKS_PAGE 2000
#define SPELLINGS 4           /* of a number, which stand among each other in the index */
#define LINKS_BYTES (8 << 20) /* a page's links stand in one command */

void place_set(struct place *place, uint8_t type, struct bytes value)
{
	struct bytes copy = bytes_copy(value); /* the value may be a part of the old one */

	bytes_free(place->value);
	*place = (struct place){type, copy};
}

void place_fini(struct place *place)
{
	bytes_free(place->value);
	*place = (struct place){0};
}

/* Main documents. */

static struct element element_of(const struct place *place)
{
	return (struct element){.type = place->type, .value = place->value};
}

/* {_id: <the place>}; nothing if there is no place. */
static void write_bound(struct buffer *out, const char *name, const void *context)
{
	const struct place *place = context;
	const struct element id = element_of(place);

	if (place->type)
		template_write(out, name, "{_id: @id}", fill("id", &id));
}

static void splice_more(struct buffer *out, size_t *place, const void *context)
{
	const struct id_pages *pages = context;

	(void)place;
	if (pages->overflow)
		writer_int32(out, pages->target->rule->overflow.link, 1);
	else if (pages->sizes)
		template_write_fields(
			out,
			"{size: {$cond: [{$or: [{$ne: [{$type: '$_spill.@key'}, 'missing']}, {$eq: "
			"['$_spill', {$literal: {}}]}]}, '$$REMOVE', {$bsonSize: {a: "
			"'$@array'}}]}}",
			fill("key", pages->target->rule->key),
			fill("array", pages->target->rule->array));
}

static const char *collection_of(const struct id_pages *pages)
{
	return pages->overflow ? pages->target->overflow_collection : pages->target->collection;
}

static const char *database_of(const struct id_pages *pages)
{
	return pages->overflow ? pages->target->overflow_database : pages->target->database;
}

#define BY_ID "projection: {_id: 1, ..@more}, hint: {_id: 1}, min: @from"

/* Where the next page ends: the _id a page's size behind `from`. */
static enum link_result find_page_end(struct id_pages *pages, struct place *to)
{
	struct bytes document;
	struct element id;
	enum link_result result = command_find_one(
		pages->link, database_of(pages), &document,
		"{find: @collection, " BY_ID ", skip: @size, limit: 1, singleBatch: true}",
		fill("collection", collection_of(pages)), fill_spliced("more", splice_more, pages),
		fill_with("from", write_bound, &pages->from), fill("size", pages->size));

	if (result == LINK_DONE && document.data && document_find(document, "_id", &id))
		place_set(to, id.type, id.value);
	return result;
}

struct filtering {
	page_filter filter;
	const struct rule *rule;
};

static void write_filter(struct buffer *out, const char *name, const void *context)
{
	const struct filtering *filtering = context;

	filtering->filter(out, name, filtering->rule);
}

struct naming {
	link_document each;
	void *context;
};

/* A document without an _id comes from no mongod, and nothing can be done to it. */
static void pass_named(void *context, struct bytes document)
{
	const struct naming *naming = context;
	struct element id;

	if (document_find(document, "_id", &id))
		naming->each(naming->context, document);
}

must_check enum link_result id_pages_next(struct id_pages *pages, page_filter filter,
					  link_document each, void *context)
{
	const struct filtering filtering = {filter, pages->target->rule};
	struct naming naming = {each, context};
	struct place to = {0};
	enum link_result result = find_page_end(pages, &to);

	if (result != LINK_DONE)
		return result;
	result = command_find(pages->link, database_of(pages), pass_named, &naming,
			      "{find: @collection, filter: @filter, " BY_ID ", max: @to}",
			      fill("collection", collection_of(pages)),
			      fill_with("filter", write_filter, &filtering),
			      fill_spliced("more", splice_more, pages),
			      fill_with("from", write_bound, &pages->from),
			      fill_with("to", write_bound, &to));
	pages->ended = to.type == 0;
	place_fini(&pages->from);
	pages->from = to;
	return result;
}

void id_pages_fini(struct id_pages *pages)
{
	place_fini(&pages->from);
}

/* The overflow. */

/* A last link that goes on behind the page is counted further by the next one. */
static void begin_page(struct link_pages *pages)
{
	struct linked *first = &pages->all[0];

	for (size_t i = 0; i < pages->count; i++)
		place_fini(&pages->all[i].link);
	pages->count = 0;
	pages->bytes = 0;
	pages->documents = 0;
	pages->full = false;
	if (!pages->open.link.type)
		return;
	*first = pages->open;
	pages->open = (struct linked){0};
	pages->count = 1;
	pages->bytes = first->link.value.length;
}

static bool is_link(const struct linked *linked, const struct element *link)
{
	return linked->link.type == link->type && bytes_equal(linked->link.value, link->value);
}

static bool is_place(const struct place *place, const struct element *value)
{
	return place->type == value->type && bytes_equal(place->value, value->value);
}

/* One of the last links; NULL: a new one. */
static struct linked *find_linked(struct link_pages *pages, const struct element *link)
{
	for (size_t i = 1; i <= SPELLINGS && i <= pages->count; i++)
		if (is_link(&pages->all[pages->count - i], link))
			return &pages->all[pages->count - i];
	return NULL;
}

/* False: the page is full. */
static bool count_batch(struct link_pages *pages, const struct element *link)
{
	struct linked *linked = find_linked(pages, link);

	if (!linked) {
		if (pages->count > 0 && pages->bytes + link->value.length > LINKS_BYTES)
			return false;
		pages->bytes += link->value.length;
		linked = &pages->all[pages->count++];
		*linked = (struct linked){.moved = LINKED_NO_DOCUMENT};
		place_set(&linked->link, link->type, link->value);
	}
	linked->batches++;
	return true;
}

/* In the index what is not there is null. A page begins with the document that the one before ended
 * with, if that is there still. */
static void take_link(void *context, struct bytes document)
{
	struct link_pages *pages = context;
	struct element link = {.type = BSON_BYTE_NULL}, number = link;
	bool linked = document_find(document, pages->target->rule->overflow.link, &link);
	bool same, counted;

	pages->documents++;
	if (!document_find_path(document, overflow_order_path(pages->target->rule), &number))
		number = (struct element){.type = BSON_BYTE_NULL};
	same = is_place(&pages->from, &link) && is_place(&pages->number, &number);
	counted = pages->documents == 1 && same;
	if (pages->full || counted)
		return;
	if (linked && !count_batch(pages, &link)) {
		pages->full = true;
		return;
	}
	pages->passed = same ? pages->passed + 1 : 0;
	place_set(&pages->from, link.type, link.value);
	place_set(&pages->number, number.type, number.value);
}

/* {<link>, <number>} of the last document looked at; nothing at the start. */
static void write_from(struct buffer *out, const char *name, const void *context)
{
	const struct link_pages *pages = context;
	const struct element link = element_of(&pages->from), number = element_of(&pages->number);

	if (link.type)
		template_write(out, name, "{'@link': @from, '@order': @number}",
			       fill("link", pages->target->rule->overflow.link),
			       fill("order", overflow_order_path(pages->target->rule)),
			       fill("from", &link), fill("number", &number));
}

/* Without a unique index any number of documents may be of one place. */
static void splice_passed(struct buffer *out, size_t *place, const void *context)
{
	const struct link_pages *pages = context;

	(void)place;
	if (pages->passed > 0)
		writer_int64(out, "skip", pages->passed);
}

/* The next page of link values, from the index of this name alone. */
static enum link_result find_links(struct link_pages *pages, const char *index)
{
	const struct mover_target *target = pages->target;

	return command_find(
		pages->link, target->overflow_database, take_link, pages,
		"{find: @overflow, projection: {_id: 0, '@link': 1, '@order': 1}, hint: "
		"@index, min: @from, ..@skip, limit: @most}",
		fill("overflow", target->overflow_collection),
		fill("link", target->rule->overflow.link),
		fill("order", overflow_order_path(target->rule)), fill("index", index),
		fill_with("from", write_from, pages), fill_spliced("skip", splice_passed, pages),
		fill("most", LINKS_PAGE));
}

static enum link_result refuse_page(struct link_pages *pages, const struct overflow_index *index)
{
	const struct mover_target *target = pages->target;
	char reason[500], message[900];

	overflow_index_explain(index, target->rule, reason, sizeof(reason));
	snprintf(message, sizeof(message), "'%.64s.%.200s' can't be walked: %s",
		 target->overflow_database, target->overflow_collection, reason);
	return link_refuse(pages->link, INDEX_NOT_FOUND, message);
}

/* Asked for each page: whoever drops the index, or makes it under another name, does so at any
 * time. */
static enum link_result find_page_of_links(struct link_pages *pages)
{
	struct overflow_index index = {0};
	enum link_result result = overflow_index_find(pages->link, pages->target, &index);

	if (result == LINK_DONE && !index.absent)
		result = index.name ? find_links(pages, index.name) : refuse_page(pages, &index);
	overflow_index_fini(&index);
	return result;
}

static void take_owner(void *context, struct bytes document)
{
	struct link_pages *pages = context;
	struct element id, time = {0};
	int64_t moved, at = 0;

	if (!document_find(document, "_id", &id))
		return;
	if (!document_find_integer(document, "moved", &moved))
		moved = LINKED_NO_STATE;
	if (document_find(document, "at", &time) && time.type == BSON_BYTE_DATE)
		at = load_int64(time.value.data);
	for (size_t i = 0; i < pages->count; i++)
		if (is_link(&pages->all[i], &id)) {
			pages->all[i].moved = moved;
			pages->all[i].edited = document_truth(document, "edited");
			pages->all[i].time = at;
		}
}

static void splice_mores(struct buffer *out, size_t *place, const void *context)
{
	const struct link_pages *pages = context;
	char name[12];

	for (size_t i = 0; i < pages->count; i++) {
		const struct element link = element_of(&pages->all[i].link);

		if (target_may_be_id(&link))
			writer_renamed(out, writer_index(name, (*place)++), &link);
	}
}

static enum link_result find_owners(struct link_pages *pages)
{
	const struct mover_target *target = pages->target;

	return command_find(
		pages->link, target->database, take_owner, pages,
		"{find: @collection, filter: {_id: {$in: [..@links]}}, projection: {_id: "
		"1, moved: {$ifNull: ['$_spill.@key.n', '$_spill.@key.e.n']}, "
		"edited: {$eq: [{$type: '$_spill.@key.e'}, 'object']}, "
		"at: '$_spill.@key.t'}}",
		fill("collection", target->collection), fill_spliced("links", splice_mores, pages),
		fill("key", target->rule->key));
}

/* The page's last link may go on behind it. */
static void keep_open(struct link_pages *pages)
{
	if (!pages->ended && !pages->full && pages->count > 0)
		pages->open = pages->all[--pages->count];
}

/* Documents that nobody gave a number are all of one place, however many they are: the next page
 * begins behind them, with the least of all numbers. */
static void pass_unnumbered(struct link_pages *pages)
{
	static const uint8_t not_a_number[8] = {0, 0, 0, 0, 0, 0, 0xf8, 0x7f};

	if (pages->number.type != BSON_BYTE_NULL)
		return;
	place_set(&pages->number, BSON_BYTE_DOUBLE,
		  (struct bytes){not_a_number, sizeof(not_a_number)});
	pages->passed = 0;
}

must_check enum link_result link_pages_next(struct link_pages *pages)
{
	enum link_result result;

	if (!pages->all)
		pages->all = must_calloc(LINKS_PAGE + 1, sizeof(*pages->all));
	begin_page(pages);
	result = find_page_of_links(pages);
	if (result != LINK_DONE)
		return result;
	pages->ended = !pages->full && pages->documents < LINKS_PAGE;
	if (pages->documents == LINKS_PAGE && !pages->full)
		pass_unnumbered(pages);
	keep_open(pages);
	return pages->count > 0 ? find_owners(pages) : LINK_DONE;
}

void link_pages_fini(struct link_pages *pages)
{
	for (size_t i = 0; i < pages->count; i++)
		place_fini(&pages->all[i].link);
	place_fini(&pages->open.link);
	place_fini(&pages->from);
	place_fini(&pages->number);
	free(pages->all);
}
