/* The links of all overflow documents that Spillway did not write, each once. */
#include "proxy/migrate/adopt_links.h"

#include "protocol/template.h"
#include "protocol/writer.h"
#include "proxy/upstream/pages.h"
#include "rules/rule/hash.h"

#include <stdlib.h>

#define LINKS_PAGE 1000

/* Numbers that are equal are one link; `whole` has room for it. */
static struct element one_of_equals(const struct element *link, int64_t *whole)
{
	double number;

	if (link->type == BSON_BYTE_INT32)
		*whole = load_int32(link->value.data);
	else if (link->type == BSON_BYTE_INT64)
		*whole = load_int64(link->value.data);
	else if (link->type != BSON_BYTE_DOUBLE)
		return *link;
	else {
		memcpy(&number, link->value.data, sizeof(number));
		if (!(number > -9e15 && number < 9e15) || number != (double)(int64_t)number)
			return *link;
		*whole = (int64_t)number;
	}
	return (struct element){.type = BSON_BYTE_INT64, .value = {(const uint8_t *)whole, 8}};
}

static struct bytes found_at(const struct adopt_links *links, size_t place)
{
	const uint8_t *at = links->all.data + place;

	return (struct bytes){at, (size_t)load_int32(at)};
}

/* The slot that has it, or that is free for it. */
static size_t *slot_of(const struct adopt_links *links, const struct element *link)
{
	size_t at = hash_bytes(link->value, link->type);

	for (;; at++) {
		size_t *slot = &links->slots[at & links->mask];
		struct element there, same;
		int64_t whole;

		if (*slot == 0)
			return slot;
		require(document_find(found_at(links, *slot - 1), "_id", &there));
		same = one_of_equals(&there, &whole);
		if (same.type == link->type && bytes_equal(same.value, link->value))
			return slot;
	}
}

static void make_room(struct adopt_links *links)
{
	size_t *before = links->slots, count = before ? links->mask + 1 : 0;
	struct element link, same;
	int64_t whole;

	if (2 * links->count < count)
		return;
	links->mask = count ? 2 * count - 1 : 1023;
	links->slots = must_calloc(links->mask + 1, sizeof(*links->slots));
	for (size_t i = 0; i < count; i++) {
		if (before[i] == 0)
			continue;
		require(document_find(found_at(links, before[i] - 1), "_id", &link));
		same = one_of_equals(&link, &whole);
		*slot_of(links, &same) = before[i];
	}
	free(before);
}

static void keep_link(void *context, struct bytes document)
{
	struct adopt_links *links = context;
	struct element link = {.type = BSON_BYTE_NULL}, same;
	auto_buffer struct buffer entry = {0};
	size_t *slot, start;
	int64_t whole;

	(void)!document_find(document, links->field, &link);
	make_room(links);
	same = one_of_equals(&link, &whole);
	slot = slot_of(links, &same);
	if (*slot)
		return;
	*slot = links->all.length + 1;
	links->count++;
	start = writer_open(&entry); /* apart: `all` may have any length */
	writer_renamed(&entry, "_id", &link);
	writer_close(&entry, start);
	buffer_append(&links->all, entry.data, entry.length);
}

static void write_by_hand(struct buffer *out, const char *name, const struct rule *rule)
{
	(void)rule;
	template_write(out, name, "{'_spill.g': {$not: {$type: 'binData'}}}");
}

must_check enum link_result adopt_links_find(struct adopt_links *links, struct link *link,
					     const struct mover_target *target)
{
	struct id_pages pages = {
		.link = link, .target = target, .size = LINKS_PAGE, .overflow = true};
	enum link_result result = LINK_DONE;

	links->field = target->rule->overflow.link;
	while (result == LINK_DONE && !pages.ended)
		result = id_pages_next(&pages, write_by_hand, keep_link, links);
	id_pages_fini(&pages);
	return result;
}

void adopt_links_fini(struct adopt_links *links)
{
	free(links->slots);
	buffer_fini(&links->all);
	*links = (struct adopt_links){0};
}
