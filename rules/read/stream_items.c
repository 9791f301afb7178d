/* The events of a reply: which of them clients see otherwise than they came, and what has to be
 * known for that. */
#include "rules/read/stream.h"

#include <stdlib.h>

#define OWN_DATABASE "spillway"

size_t stream_add_part(struct stream *stream, const struct ruled_namespace *namespace)
{
	stream->parts =
		must_realloc(stream->parts, (stream->part_count + 1) * sizeof(*stream->parts));
	stream->parts[stream->part_count] = (struct stream_part){.namespace = namespace};
	namespace_hold(namespace);
	return stream->part_count++;
}

size_t stream_part_of(struct stream *stream, const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < stream->part_count; i++)
		if (stream->parts[i].namespace == namespace)
			return i;
	return stream_add_part(stream, namespace);
}

/* ---- whose event it is ---- */

bool stream_is_exact(const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++)
		if (namespace->targets[i].rule->streams == RULE_STREAMS_EXACT)
			return true;
	return false;
}

/* Overflow of an exact rule, and Spillway's own records. */
static bool is_own(const struct match *match, const struct event *event)
{
	const struct rule *rule;

	if (bytes_are(event->database, OWN_DATABASE))
		return true;
	rule = rule_set_overflow(namespace_cache_rules(match->cache), event->database,
				 event->collection);
	return rule && rule->streams == RULE_STREAMS_EXACT;
}

static void find_namespace(const struct sequence *sequence, struct stream_item *item)
{
	const struct match *match = &sequence->match;
	const struct event *event = &item->event;

	if (event->collection.length == 0)
		return;
	if (match->namespace) {
		item->namespace = match->namespace;
	} else if (is_own(match, event)) {
		item->drops = true;
		return;
	} else {
		item->namespace = namespace_cache_find(match->cache, event->database,
						       event->collection, NULL);
	}
	if (item->namespace && !stream_is_exact(item->namespace))
		item->namespace = NULL;
}

/* ---- what it needs ---- */

/* Something in the document is not for clients. `*state`: a state is among it. */
static bool hides(const struct ruled_namespace *namespace, struct bytes document, bool *state)
{
	struct element field;
	struct cursor cursor;
	bool found = false;

	*state = false;
	if (!cursor_open(&cursor, document))
		return false;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		*state = *state || element_is(&field, NAME_STATE);
		found = found || name_is_state(field.name) ||
			name_find_hidden(field.name, namespace);
	}
	return found;
}

/* `*state`: fullDocument has a state. */
static void note_documents(struct stream_item *item, bool *state)
{
	const struct event *event = &item->event;
	bool other;

	if (event->full.length > 0 && hides(item->namespace, event->full, state))
		item->documents[STREAM_FULL].stored = event->full;
	if (event->before.length > 0 && hides(item->namespace, event->before, &other))
		item->documents[STREAM_BEFORE].stored = event->before;
}

/* Of what has to be known of more, the document and the time are told. */
static bool is_told(const struct stream_item *item)
{
	return (item->event.id.type != 0 && item->event.time.type != 0) ||
	       (!item->changed && !item->needs && !item->documents[STREAM_FULL].stored.data &&
		!item->documents[STREAM_BEFORE].stored.data);
}

/* False: the event says less than mongod's do. */
static bool look_at(struct stream *stream, struct stream_item *item)
{
	const struct event *event = &item->event;
	struct change_names names = {0};
	bool state = false;

	if (event->change.length > 0)
		names = change_look(event->change, item->namespace);
	item->changed = names.state || names.array || names.hidden;
	note_documents(item, &state);
	item->plain = !names.state && !names.hidden;
	item->needs = names.state || names.array || (state && event->kind == EVENT_REPLACE);
	(void)stream_part_of(stream, item->namespace);
	if (item->needs && event->id.type != 0)
		item->known = knowledge_place(&stream->knowledge,
					      knowledge_add(&stream->knowledge, item->namespace,
							    &event->id)) +
			      1;
	stream->touched = stream->touched || names.state || names.hidden ||
			  item->documents[STREAM_FULL].stored.data ||
			  item->documents[STREAM_BEFORE].stored.data;
	return is_told(item);
}

static void find_from(struct stream *stream)
{
	size_t first = 0;

	while (first < stream->count && !stream->items[first].needs)
		first++;
	stream->from = first;
	while (first < stream->count && stream->from > 0 &&
	       bytes_equal(stream->items[stream->from - 1].event.time.value,
			   stream->items[first].event.time.value))
		stream->from--;
}

struct known *stream_find_known(struct stream *stream, struct stream_item *item)
{
	struct knowledge *knowledge = &stream->knowledge;

	if (item->known)
		return &knowledge->list[item->known - 1];
	return item->namespace && item->event.id.type != 0
		       ? knowledge_find(knowledge, item->namespace, &item->event.id)
		       : NULL;
}

static struct stream_item *add_item(struct stream *stream)
{
	if ((stream->count & (stream->count - 1)) == 0)
		stream->items =
			must_realloc(stream->items, (stream->count ? 2 * stream->count : 1) *
							    sizeof(*stream->items));
	stream->items[stream->count] = (struct stream_item){.drops = false};
	return &stream->items[stream->count++];
}

/* ---- events from before the reply ---- */

int stream_compare_tokens(struct bytes one, struct bytes other)
{
	size_t common = one.length < other.length ? one.length : other.length;
	int order = common ? memcmp(one.data, other.data, common) : 0;

	return order ? order : (one.length > other.length) - (one.length < other.length);
}

static bool is_older(const struct event *event, struct bytes token)
{
	struct bytes own;

	return document_find_string(event->whole, "_id._data", &own) &&
	       stream_compare_tokens(own, token) < 0;
}

static void prepend(struct stream *stream, const struct stream_item *items, size_t count)
{
	struct stream_item *all = must_calloc(2 * (stream->count + count), sizeof(*all));

	if (count > 0)
		memcpy(all, items, count * sizeof(*all));
	memcpy(all + count, stream->items, stream->count * sizeof(*all));
	free(stream->items);
	stream->items = all;
	stream->count += count;
	stream->first += count;
}

must_check bool stream_take_earlier_batch(struct sequence *sequence, struct bytes batch,
					  const struct ruled_namespace *namespace)
{
	struct stream *stream = read_of(sequence)->stream;
	auto_buffer struct buffer items = {0};
	struct element document;
	struct cursor cursor;
	enum cursor_step step;
	struct bytes token;

	if (!batch.data || !cursor_open(&cursor, batch) ||
	    !document_find_string(stream->items[stream->first].event.whole, "_id._data", &token))
		return false;
	while ((step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT) {
		struct stream_item item = {.namespace = namespace, .drops = true, .earlier = true};

		if (document.type != BSON_BYTE_DOCUMENT || !event_read(document.value, &item.event))
			return false;
		if (!is_older(&item.event, token))
			break;
		if (!stream_find_known(stream, &item)) /* no event of the reply needs its state */
			continue;
		if (!look_at(stream, &item))
			return false;
		buffer_append(&items, &item, sizeof(item));
	}
	prepend(stream, (const struct stream_item *)(const void *)items.data,
		items.length / sizeof(struct stream_item));
	return step != CURSOR_INVALID;
}

static void find_marks(struct stream *stream, struct bytes event)
{
	struct element stages, option;

	stream->images = document_find(event, STREAM_IMAGE_MARK, &stages);
	stream->touched = stream->images;
	if (!document_find(event, STREAM_STAGES, &stages) || stages.type != BSON_BYTE_ARRAY)
		return;
	stream->stages.list = stages.value;
	if (document_find(event, STREAM_LET, &option) && option.type == BSON_BYTE_DOCUMENT)
		stream->stages.let = option.value;
	if (document_find(event, STREAM_COLLATION, &option) && option.type == BSON_BYTE_DOCUMENT)
		stream->stages.collation = option.value;
	stream->touched = true;
}

bool stream_is_marked(const struct element *event)
{
	struct element mark;

	return event->type == BSON_BYTE_DOCUMENT &&
	       (document_find(event->value, STREAM_STAGES, &mark) ||
		document_find(event->value, STREAM_IMAGE_MARK, &mark));
}

must_check bool stream_take_batch(struct sequence *sequence, struct bytes batch)
{
	struct stream *stream = read_of(sequence)->stream;
	struct element document;
	struct cursor cursor;
	enum cursor_step step;

	if (!batch.data || !cursor_open(&cursor, batch))
		return false;
	while ((step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT) {
		struct stream_item *item = add_item(stream);

		if (document.type != BSON_BYTE_DOCUMENT ||
		    !event_read(document.value, &item->event))
			return false;
		if (stream->count == 1)
			find_marks(stream, document.value);
		find_namespace(sequence, item);
		stream->touched = stream->touched || item->drops;
		if (item->namespace && !look_at(stream, item))
			return false;
	}
	find_from(stream);
	return step == CURSOR_END;
}
