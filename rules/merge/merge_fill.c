/* Takes overflow documents, and writes the reply's documents with their gaps filled. */
#include "rules/merge/merge_inner.h"

#include "protocol/writer.h"
#include "rules/merge/array_writer.h"
#include "rules/rule/names.h"
#include "rules/rule/overflow_document.h"

/* Nothing of this size is ever sent, so nothing of it is written. */
#define DOCUMENT_LIMIT (1 << 30)

/* What `_spill` of an overflow document says. */
static bool part_state(const struct element *state, const uint8_t **id, struct part *part)
{
	struct bytes generation = {0};
	int64_t position = -1;
	struct element field;
	struct cursor cursor;
	enum cursor_step step;

	*id = NULL;
	if (state->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, state->value))
		return false;
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT) {
		if ((element_is(&field, "g") && !generation_read(&field, &generation)) ||
		    (element_is(&field, "p") && !element_integer(&field, &position)))
			return false;
		if (element_is(&field, "v")) {
			part->form = PART_VALUE;
			part->type = field.type;
			part->bytes = field.value;
		}
	}
	*id = generation.data;
	part->position = (size_t)position;
	return step == CURSOR_END && *id && position >= 0;
}

/* What an overflow document says beside its elements. */
struct part_fields {
	struct element link;
	struct element state;
	struct element elements; /* of a batch */
};

static bool fields_read(const struct rule *rule, struct bytes document, struct part_fields *fields)
{
	const struct bytes link = bytes_of(rule->overflow.link);
	struct bytes array = {0};
	struct element field;
	struct cursor cursor;
	enum cursor_step step;

	*fields = (struct part_fields){0};
	if (rule->overflow.layout == RULE_BATCHES)
		array = bytes_of(rule->overflow.array);
	if (!cursor_open(&cursor, document))
		return false;
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT)
		if (bytes_equal(field.name, link))
			fields->link = field;
		else if (array.length > 0 && bytes_equal(field.name, array))
			fields->elements = field;
		else if (element_is(&field, NAME_STATE))
			fields->state = field;
	return step == CURSOR_END && fields->link.type != 0;
}

static bool part_read(const struct rule *rule, struct bytes document, const uint8_t **id,
		      struct element *link, struct part *part)
{
	struct part_fields fields;

	*part = (struct part){.form = PART_DOCUMENT, .bytes = document, .next = NONE};
	if (!fields_read(rule, document, &fields) || !part_state(&fields.state, id, part))
		return false;
	*link = fields.link;
	if (rule->overflow.layout == RULE_ELEMENTS)
		return true;
	part->form = PART_ARRAY;
	part->bytes = fields.elements.value;
	return fields.elements.type == BSON_BYTE_ARRAY;
}

must_check bool merge_add_overflow(struct merge *merge, size_t target, struct bytes document)
{
	const struct rule *rule = merge->namespace->targets[target].rule;
	struct generation *generation;
	const uint8_t *id;
	struct element link;
	struct part part;
	size_t at;

	if (!part_read(rule, document, &id, &link, &part))
		return false;
	at = merge_find_twin(merge, merge_find_generation(merge, id, target), &link);
	if (at == NONE)
		return true;
	generation = generation_at(merge, at);
	if (generation->asked != ASKED_BEFORE)
		return true;
	at = LIST_COUNT(merge->parts, struct part);
	*(struct part *)merge_list_add(&merge->parts, sizeof(part)) = part;
	if (generation->last == NONE)
		generation->first = at;
	else
		part_at(merge, generation->last)->next = at;
	generation->last = at;
	generation->size += part.bytes.length;
	return true;
}

/* A gap that is being filled. */
struct filling {
	const struct rule *rule;
	struct array_writer array;
	size_t wanted;
	size_t done;
};

static bool fill_single(struct filling *filling, const struct part *part)
{
	struct buffer *out = filling->array.out;

	filling->done++;
	if (part->form == PART_VALUE) {
		if (!array_writer_begin(&filling->array, part->type))
			return false;
		buffer_append(out, part->bytes.data, part->bytes.length);
		return true;
	}
	return array_writer_begin(&filling->array, BSON_BYTE_DOCUMENT) &&
	       overflow_write_own(filling->rule, part->bytes, out);
}

/* Writes what this part has beyond the elements that are there already: positions that two parts
 * have are the same in both. */
static bool fill_from(struct filling *filling, const struct part *part)
{
	size_t known, count;
	struct cursor cursor;

	if (part->position > filling->done)
		return false; /* a hole */
	known = filling->done - part->position;
	if (part->form != PART_ARRAY)
		return known > 0 || fill_single(filling, part);
	if (!cursor_open(&cursor, part->bytes) || !array_skip(&cursor, known, &count))
		return false;
	if (!array_writer_copy(&filling->array, &cursor, filling->wanted - filling->done, &count))
		return false;
	filling->done += count;
	return true;
}

static bool write_overflow(const struct merge *merge, const struct gap *gap,
			   struct filling *filling)
{
	size_t at = gap->id ? generation_at(merge, gap->generation)->first : NONE;

	for (; at != NONE && filling->done < filling->wanted; at = part_at(merge, at)->next) {
		if (!fill_from(filling, part_at(merge, at)))
			return false;
	}
	return filling->done == filling->wanted;
}

/* What stands before the gap. */
static bool write_head(struct array_writer *array, struct cursor *own, const struct gap *gap)
{
	size_t count;

	if (gap->numbered) {
		array_writer_append(array, (struct bytes){own->at, gap->size}, gap->there);
		own->at += gap->size;
		return true;
	}
	return array_skip(own, gap->cut.skip, &count) &&
	       array_writer_copy(array, own, gap->cut.head, &count);
}

static bool write_array(const struct merge *merge, const struct gap *gap, struct buffer *out)
{
	struct filling filling = {.rule = merge->namespace->targets[gap->target].rule,
				  .done = gap->cut.first,
				  .wanted = gap->cut.until};
	struct cursor own;
	size_t count;

	if (!cursor_open(&own, gap->array))
		return false;
	array_writer_open(&filling.array, out);
	if (!write_head(&filling.array, &own, gap) || !write_overflow(merge, gap, &filling) ||
	    !array_skip(&own, gap->cut.pass, &count) ||
	    !array_writer_copy(&filling.array, &own, gap->cut.tail, &count))
		return false;
	array_writer_close(&filling.array);
	return true;
}

/* The gap whose array is this element or lies in it, else NULL. */
static const struct gap *gap_in(const struct merge *merge, const struct entry *entry,
				const struct element *element)
{
	for (size_t i = entry->first_gap; i < entry->first_gap + entry->gap_count; i++) {
		const struct gap *gap = gap_at(merge, i);

		if (gap->array.data >= element->value.data &&
		    gap->array.data < element->value.data + element->value.length)
			return gap;
	}
	return NULL;
}

static bool element_hidden(const struct merge *merge, const struct entry *entry,
			   const struct element *element)
{
	if (entry->computed)
		return element_is(element, NAME_COMPUTED);
	return merge_hides(merge, element->name) || (entry->loses_id && element_is(element, "_id"));
}

/* A document on the way to an array, or the whole one. As deep as a rule's path. */
static bool write_fields(const struct merge *merge, const struct entry *entry,
			 struct bytes document, struct buffer *out)
{
	bool top = document.data == entry->document.data;
	size_t start = writer_open(out);
	struct cursor cursor;
	struct element element;
	enum cursor_step step;
	const uint8_t *kept;

	if (!cursor_open(&cursor, document))
		return false;
	kept = cursor.at; /* from here on, bytes are yet to be written */
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT) {
		const struct gap *gap = gap_in(merge, entry, &element);
		bool hidden = top && element_hidden(merge, entry, &element);
		const uint8_t *end = hidden ? element.name.data - 1 : element.value.data;

		if (!hidden && !gap)
			continue;
		buffer_append(out, kept, (size_t)(end - kept));
		kept = cursor.at;
		if (hidden)
			continue;
		if (gap->array.data == element.value.data) {
			if (!write_array(merge, gap, out))
				return false;
		} else if (!write_fields(merge, entry, element.value, out)) {
			return false;
		}
	}
	buffer_append(out, kept, (size_t)(cursor.at - kept));
	writer_close(out, start);
	return step == CURSOR_END;
}

static size_t written_size(const struct merge *merge, const struct entry *entry)
{
	size_t size = entry->document.length;

	for (size_t i = entry->first_gap; i < entry->first_gap + entry->gap_count; i++)
		if (gap_at(merge, i)->id)
			size += generation_at(merge, gap_at(merge, i)->generation)->size;
	return size;
}

must_check bool merge_write_document(const struct merge *merge, size_t index, struct buffer *out)
{
	const struct entry *entry = entry_at(merge, index);
	size_t before = out->length, size = written_size(merge, entry);

	if (size > DOCUMENT_LIMIT)
		return false;
	buffer_reserve(out, size);
	if (!entry->changed) {
		buffer_append(out, entry->document.data, entry->document.length);
		return true;
	}
	if (!write_fields(merge, entry, entry->document, out)) {
		out->length = before;
		return false;
	}
	return true;
}
