/* What clients see of each event of a reply: states are followed from event to event. */
#include "rules/read/stream.h"

#include "protocol/writer.h"

#include <stdio.h>

#define WHOLE_MOST (8 << 20) /* bytes of overflow that are fetched for the updates of a reply */

/* A cut that mongod has noted as a replacement by the shorter document is none of a client's. */
static void advance_replaced(struct stream_item *item, struct known *known)
{
	struct array_states now = {0};

	item->task.unclear = !array_states_read(item->namespace, item->event.full, &now);
	for (size_t i = 0; i < known->states.count; i++) {
		const struct array_state *before = &known->states.list[i];

		item->task.own |= array_state_stands(before, &now) &&
				  array_states_find(&now, before->target)->moved != before->moved;
	}
	array_states_fini(&known->states);
	known->states = now;
}

static void advance(struct stream *stream, struct stream_item *item)
{
	struct knowledge *knowledge = &stream->knowledge;
	const struct event *event = &item->event;
	struct known *known;

	if (event->kind == EVENT_GONE) {
		knowledge_clear(knowledge, event->database, event->collection);
		knowledge_clear(knowledge, event->to_database, event->to_collection);
	}
	known = stream_find_known(stream, item);
	if (!known)
		return;
	if (event->kind == EVENT_UPDATE && item->plain && known->states.count == 0)
		item->changed = false;
	else if (event->kind == EVENT_UPDATE && item->needs)
		change_advance(event->change, &known->states, &item->task);
	else if (event->kind == EVENT_REPLACE || event->kind == EVENT_INSERT)
		advance_replaced(item, known);
	else if (event->kind == EVENT_DELETE)
		known->states.count = 0;
}

/* False: it means what can't be told. */
static bool write_update(struct stream *stream, struct stream_item *item)
{
	struct change_written written;

	item->change = stream->changes.length;
	if (!change_write(item->event.change, &item->task, &stream->changes, &written) ||
	    writer_full(&stream->changes)) /* something of it may be left out */
		return false;
	item->change_length = stream->changes.length - item->change;
	item->whole = written.stored;
	item->drops = !written.left;
	return true;
}

static enum stream_settled settle(struct stream *stream, struct stream_item *item)
{
	item->task.namespace = item->namespace;
	if (!item->advanced && stream->settled >= stream->from)
		advance(stream, item);
	item->advanced = true;
	if (item->earlier)
		return STREAM_SETTLED;
	if (change_unknown(&item->task))
		return STREAM_WANTS_ARRAY;
	if (item->task.edited)
		return STREAM_EDITED;
	if (item->changed)
		return write_update(stream, item) ? STREAM_SETTLED : STREAM_UNCLEAR;
	item->drops = item->drops || item->task.own;
	return item->task.unclear ? STREAM_UNCLEAR : STREAM_SETTLED;
}

enum stream_settled stream_settle(struct stream *stream)
{
	while (stream->settled < stream->count) {
		struct stream_item *item = &stream->items[stream->settled];
		enum stream_settled end = settle(stream, item);

		if (end != STREAM_SETTLED)
			return end;
		stream->settled++;
	}
	return STREAM_SETTLED;
}

/* ---- an array that a write has set to what was stored ---- */

/* Elements of the array, as they are known. */
struct elements {
	struct buffer list; /* of struct element */
	bool unclear;
};

static size_t elements_count(const struct elements *elements)
{
	return elements->list.length / sizeof(struct element);
}

static void take_whole(struct elements *elements, const struct element *array)
{
	struct element element;
	struct cursor cursor;

	elements->list.length = 0;
	if (array->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, array->value))
		elements->unclear = true;
	else
		while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
			buffer_append(&elements->list, &element, sizeof(element));
}

/* What a transaction does to a split array before it sets it: it pushes. */
static void take_push(struct elements *elements, const char *array, const struct element *pushed)
{
	char next[RULE_ARRAY_MAX + 24];

	snprintf(next, sizeof(next), "%s.%zu", array, elements_count(elements));
	if (path_relate(pushed->name, array) == PATH_APART)
		return;
	if (element_is(pushed, array))
		take_whole(elements, pushed);
	else if (element_is(pushed, next))
		buffer_append(&elements->list, pushed, sizeof(*pushed));
	else
		elements->unclear = true;
}

static void take_pushes(struct elements *elements, const char *array,
			const struct stream_item *item)
{
	struct element updated, pushed;
	struct cursor cursor;

	if (!document_find(item->event.change, "updatedFields", &updated) ||
	    !cursor_open(&cursor, updated.value))
		return;
	while (cursor_next(&cursor, &pushed) == CURSOR_ELEMENT)
		take_push(elements, array, &pushed);
}

static bool precedes(const struct stream_item *one, const struct stream_item *item)
{
	return one->namespace == item->namespace && one->event.kind == EVENT_UPDATE &&
	       one->event.id.type == item->event.id.type &&
	       bytes_equal(one->event.id.value, item->event.id.value) &&
	       bytes_equal(one->event.time.value, item->event.time.value);
}

static void write_elements(const struct elements *elements, struct change_array *array)
{
	const struct element *list = (const struct element *)(const void *)elements->list.data;
	size_t start = writer_open(&array->stored);
	char name[12];

	for (size_t i = 0; i < elements_count(elements); i++)
		writer_renamed(&array->stored, writer_index(name, i), &list[i]);
	writer_close(&array->stored, start);
	array->set =
		(struct element){.type = BSON_BYTE_ARRAY, .value = buffer_view(&array->stored)};
}

must_check bool stream_set_array(struct stream *stream, struct change_array *array,
				 const struct element *before)
{
	const struct stream_item *item = &stream->items[stream->settled];
	const char *path = item->namespace->targets[array->target].rule->array;
	struct elements elements = {.unclear = before->type == 0};

	if (before->type != 0)
		take_whole(&elements, before);
	for (size_t i = 0; i < stream->settled; i++)
		if (precedes(&stream->items[i], item))
			take_pushes(&elements, path, &stream->items[i]);
	if (!elements.unclear)
		write_elements(&elements, array);
	array->asked = true;
	buffer_fini(&elements.list);
	return !elements.unclear;
}

/* ---- documents ---- */

static struct merge *merge_of(struct stream *stream, const struct stream_item *item, size_t *number)
{
	struct stream_part *part;

	*number = stream_part_of(stream, item->namespace);
	part = &stream->parts[*number];
	if (!part->fetching)
		fetch_init(&part->fetch, item->namespace);
	part->fetching = true;
	return part->fetch.merge;
}

static bool is_in_whole(const struct stream_item *item, const struct change_array *array)
{
	return change_splits(array) &&
	       path_covers(item->whole.name, item->namespace->targets[array->target].rule->array);
}

/* Whole arrays that are too large for an event are told by positions; so are those that were edited
 * in place, which were larger. */
static bool fits(struct stream *stream, const struct stream_item *item)
{
	int64_t kept = 0, moved = 0;
	bool edited = false;
	size_t bytes;

	for (size_t i = 0; i < item->task.count; i++)
		if (is_in_whole(item, &item->task.arrays[i])) {
			kept += item->task.arrays[i].before.head;
			moved += item->task.arrays[i].before.moved;
			edited = edited || item->task.arrays[i].before.edition > 0;
		}
	bytes = kept ? item->whole.value.length / (size_t)kept * (size_t)moved : 0;
	if (edited || bytes > WHOLE_MOST || stream->whole_bytes + bytes > WHOLE_MOST)
		return false;
	stream->whole_bytes += bytes;
	return true;
}

static void splice_states(struct buffer *out, size_t *place, const void *context)
{
	const struct stream_item *item = context;

	(void)place;
	for (size_t i = 0; i < item->task.count; i++) {
		const struct change_array *array = &item->task.arrays[i];
		const struct array_state *state = &array->before;

		if (is_in_whole(item, array))
			template_write(out, item->namespace->targets[array->target].rule->key,
				       "{g: @g, h: @h, n: @n}",
				       fill_binary("g", (struct bytes){state->generation,
								       GENERATION_BYTES}),
				       fill("h", state->head), fill("n", state->moved));
	}
}

/* The document of the event, with nothing but what has to be whole, and the states. */
static void write_stored(struct stream_item *item)
{
	char path[RULE_ARRAY_MAX + 1], *rest = path, *part;
	size_t opened[RULE_ARRAY_MAX], depth = 0, body = writer_open(&item->stored);

	writer_renamed(&item->stored, "_id", &item->event.id);
	snprintf(path, sizeof(path), "%s", (const char *)item->whole.name.data);
	while ((part = strsep(&rest, ".")) && rest)
		opened[depth++] = writer_open_document(&item->stored, part);
	writer_renamed(&item->stored, part, &item->whole);
	while (depth > 0)
		writer_close(&item->stored, opened[--depth]);
	template_write_fields(&item->stored, "{_spill: {..@states}}",
			      fill_spliced("states", splice_states, item));
	writer_close(&item->stored, body);
	item->documents[STREAM_ARRAY].stored = buffer_view(&item->stored);
}

static bool add_document(struct stream *stream, struct stream_item *item, enum stream_image image)
{
	struct stream_document *document = &item->documents[image];
	struct merge *merge;

	if (!document->stored.data)
		return true;
	merge = merge_of(stream, item, &document->part);
	document->index = merge_document_count(merge);
	return merge_add_document(merge, document->stored) == MERGE_TAKEN;
}

must_check bool stream_open_merges(struct stream *stream)
{
	for (size_t i = 0; i < stream->count; i++) {
		struct stream_item *item = &stream->items[i];

		stream->stop.item = i;
		if (item->whole.type != 0 && fits(stream, item))
			write_stored(item);
		for (enum stream_image j = STREAM_FULL; !item->drops && j < STREAM_IMAGES; j++)
			if (!add_document(stream, item, j))
				return false;
	}
	return true;
}
