/* Takes overflow documents, and writes the reply's documents with their gaps filled. */
#include "rules/merge/merge_inner.h"

#include "protocol/writer.h"
#include "rules/merge/array_writer.h"
#include "rules/rule/names.h"
#include "rules/rule/overflow_document.h"

/* Nothing of this size is ever sent, so nothing of it is written. */
#define DOCUMENT_LIMIT (1 << 30)
#define ELEMENTS_LIMIT 6000000 /* so many pass a message, whatever they are */
#define ELEMENT_LEAST 3        /* bytes of one: type, name and NUL */

/* What `_spill` of an overflow document says. `marked`: it may not count in each edition. */
struct part_state {
	struct bytes generation;
	int64_t position;
	bool marked;
};

/* False where the field is not what Spillway writes. */
static bool take_field(const struct element *field, struct part_state *state, struct part *part)
{
	if (field->name.length != 1)
		return true;
	switch (field->name.data[0]) {
	case 'g':
		return generation_read(field, &state->generation);
	case 'p':
		return element_integer(field, &state->position);
	case 'v':
		part->form = PART_VALUE;
		part->type = field->type;
		part->bytes = field->value;
		return true;
	case 'e':
	case 'u':
	case 'w':
		state->marked = true;
		return true;
	default:
		return true;
	}
}

static bool part_state(const struct element *spill, struct part_state *state, struct part *part)
{
	struct element field;
	struct cursor cursor;
	enum cursor_step step;

	*state = (struct part_state){.position = -1};
	if (spill->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, spill->value))
		return false;
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT)
		if (!take_field(&field, state, part))
			return false;
	part->position = (size_t)state->position;
	return step == CURSOR_END && state->generation.data && state->position >= 0;
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

static bool part_read(const struct rule *rule, struct bytes document, struct part_fields *fields,
		      struct part_state *state, struct part *part)
{
	*part = (struct part){.form = PART_DOCUMENT, .bytes = document, .next = NONE};
	if (!fields_read(rule, document, fields) || !part_state(&fields->state, state, part))
		return false;
	if (rule->overflow.layout == RULE_ELEMENTS)
		return true;
	part->form = PART_ARRAY;
	part->bytes = fields->elements.value;
	return fields->elements.type == BSON_BYTE_ARRAY;
}

/* In which editions the part counts. */
static bool part_mark(struct merge *merge, const struct element *spill, struct part *part)
{
	struct placed placed;

	if (!placed_read(spill, &placed))
		return false;
	*(struct placed *)merge_list_add(&merge->marks, NULL, sizeof(placed)) = placed;
	part->marks = LIST_COUNT(merge->marks, struct placed);
	return true;
}

must_check bool merge_add_overflow(struct merge *merge, size_t target, struct bytes document)
{
	const struct rule *rule = merge->namespace->targets[target].rule;
	struct generation *generation;
	struct part_fields fields;
	struct part_state state;
	struct part part;
	size_t at;

	if (!part_read(rule, document, &fields, &state, &part))
		return false;
	at = merge_find_twin(merge, merge_find_generation(merge, state.generation.data, target),
			     &fields.link);
	if (at == NONE)
		return true;
	generation = generation_at(merge, at);
	if (generation->asked != ASKED_BEFORE)
		return true;
	if (state.marked && generation->edited && !part_mark(merge, &fields.state, &part))
		return false;
	at = LIST_COUNT(merge->parts, struct part);
	*(struct part *)merge_list_add(&merge->parts, &merge->first.part, sizeof(part)) = part;
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

/* ---- an array that was edited in place ---- */

/* Of one generation's parts, those that count. */
static void collect(const struct merge *merge, const struct gap *gap, size_t from,
		    struct buffer *out)
{
	const struct generation *generation = generation_at(merge, from);

	for (size_t at = generation->first; at != NONE; at = part_at(merge, at)->next) {
		const struct part *part = part_at(merge, at);
		struct counted each = {.placed = {.generation = {generation->id, GENERATION_BYTES},
						  .position = (int64_t)part->position,
						  .until = PLACED_FOR_EVER,
						  .width = -1},
				       .held = 1,
				       .index = at};
		struct cursor cursor;
		size_t count;

		if (part->marks > 0)
			each.placed = *LIST_AT(merge->marks, struct placed, part->marks - 1);
		if (!placed_counts(&each.placed, state_of_gap(merge, gap)))
			continue;
		if (part->form == PART_ARRAY && cursor_open(&cursor, part->bytes) &&
		    array_skip(&cursor, SIZE_MAX, &count))
			each.held = (int64_t)count;
		buffer_append(out, &each, sizeof(each));
	}
}

/* Of a piece, what lies in the window: `done` elements are in front of it. */
static bool write_piece(struct filling *filling, const struct part *part, size_t skip, size_t take,
			size_t done)
{
	size_t from = done > filling->done ? 0 : filling->done - done, count;
	size_t most = filling->wanted - filling->done;
	struct cursor cursor;

	if (from >= take)
		return true;
	if (part->form != PART_ARRAY)
		return fill_single(filling, part);
	if (!cursor_open(&cursor, part->bytes) || !array_skip(&cursor, skip + from, &count) ||
	    !array_writer_copy(&filling->array, &cursor, take - from < most ? take - from : most,
			       &count))
		return false;
	filling->done += count;
	return true;
}

static bool write_edited(const struct merge *merge, const struct gap *gap, struct filling *filling)
{
	const struct state *state = state_of_gap(merge, gap);
	auto_buffer struct buffer list = {0};
	const struct counted *of;
	struct counts counts;
	enum counts_step step;
	int64_t skip, take;
	size_t done = 0;

	collect(merge, gap, gap->generation, &list);
	collect(merge, gap, gap->later, &list);
	counts_open(&counts, state, LIST_AT(list, struct counted, 0),
		    LIST_COUNT(list, struct counted));
	while ((step = counts_next(&counts, &of, &skip, &take)) == COUNTS_PIECE) {
		if (filling->done < filling->wanted &&
		    !write_piece(filling, part_at(merge, of->index), (size_t)skip, (size_t)take,
				 done))
			return false;
		done += (size_t)take;
	}
	return step == COUNTS_END && done == (size_t)state_elements(state) &&
	       filling->done == filling->wanted;
}

static bool write_overflow(const struct merge *merge, const struct gap *gap,
			   struct filling *filling)
{
	size_t at = gap->id ? generation_at(merge, gap->generation)->first : NONE;

	if (gap->state)
		return write_edited(merge, gap, filling);
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

static size_t gap_size(const struct merge *merge, const struct gap *gap)
{
	return (gap->id ? generation_at(merge, gap->generation)->size : 0) +
	       (gap->state ? generation_at(merge, gap->later)->size : 0);
}

static size_t written_size(const struct merge *merge, const struct entry *entry)
{
	size_t size = entry->document.length;

	for (size_t i = entry->first_gap; i < entry->first_gap + entry->gap_count; i++)
		size += gap_size(merge, gap_at(merge, i));
	return size;
}

bool merge_is_too_long(const struct merge *merge, size_t index)
{
	const struct entry *entry = entry_at(merge, index);

	for (size_t i = entry->first_gap; i < entry->first_gap + entry->gap_count; i++) {
		const struct gap *gap = gap_at(merge, i);
		size_t wants = gap->cut.until - gap->cut.first;

		if (wants > ELEMENTS_LIMIT && gap_size(merge, gap) / ELEMENT_LEAST >= wants)
			return true;
	}
	return false;
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
