/* The batches that an edit in place copies, and what it learns of them. */
#include "rules/edit/edit_inner.h"

#include "rules/rule/counts.h"
#include "rules/rule/names.h"
#include "rules/rule/overflow_document.h"
#include "rules/rule/own_fields.h"

#include <stdlib.h>

#define ANSWER_MOST 40000000 /* bytes of a document that findAndModify answers with */
#define ROOM_LEFT 8          /* what leaves such a part of a document free is folded back */
#define NUMBERS (1 << 30)    /* of copies; as many more are left for those of one edit */

struct place_batch {
	struct element id;
	struct counted counted;
	size_t first; /* of its pieces, counted from 1; 0: it has none */
	bool asked;   /* an element of it meets the condition, in whichever piece */
	size_t by_id; /* the number of the batch that stands here in the order of `_id`s */
};

/* The documents of a reply. */
static bool open_batch(const struct packet *reply, struct cursor *cursor, int64_t *cursor_id)
{
	struct reply_cursor read = reply_read_cursor(reply->summary.cursor);

	return element_integer(&read.id, cursor_id) && read.batch.data &&
	       cursor_open(cursor, read.batch);
}

/* The same of one that has them all. */
static bool open_all(const struct packet *reply, struct cursor *cursor)
{
	int64_t cursor_id;

	return open_batch(reply, cursor, &cursor_id) && cursor_id == 0;
}

/* ---- which there are ---- */

/* Full, as long as nothing else is said of it. */
static bool list_batch(struct edit_place *place, struct bytes document, const struct rule *rule)
{
	struct place_batch batch = {.counted.held = rule->overflow.batch_size};
	int64_t bytes;

	if (!placed_find(document, &batch.counted.placed) ||
	    !document_find(document, "_id", &batch.id) ||
	    !document_find_integer(document, "bytes", &bytes))
		return false;
	batch.counted.index = place->batches.length / sizeof(batch);
	place->bytes += bytes;
	buffer_append(&place->batches, &batch, sizeof(batch));
	return true;
}

static int compare_ids(const struct element *one, const struct element *other)
{
	return bytes_order(element_raw(one), element_raw(other));
}

static int by_id(const void *one, const void *other)
{
	return compare_ids(&(*(struct place_batch *const *)one)->id,
			   &(*(struct place_batch *const *)other)->id);
}

static void sort_batches(struct edit_place *place)
{
	size_t count = place->batches.length / sizeof(struct place_batch);
	struct place_batch *batches = (void *)place->batches.data;
	struct place_batch **sorted = must_calloc(count + 1, sizeof(struct place_batch *));

	for (size_t i = 0; i < count; i++)
		sorted[i] = &batches[i];
	qsort(sorted, count, sizeof(struct place_batch *), by_id);
	for (size_t i = 0; i < count; i++)
		batches[i].by_id = (size_t)(sorted[i] - batches);
	free(sorted);
}

must_check bool place_list(struct edit *edit, struct packet *reply)
{
	struct edit_place *place = &edit->place;
	struct element document;
	struct cursor cursor;
	enum cursor_step step;

	packet_fini(&place->listed);
	place->listed = packet_steal(reply);
	if (!open_all(&place->listed, &cursor) ||
	    !document_find_integer(buffer_view(&place->main), "bytes", &place->bytes))
		return false;
	while ((step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT)
		if (document.type != BSON_BYTE_DOCUMENT ||
		    !list_batch(place, document.value, edit_rule(edit)))
			return false;
	sort_batches(place);
	return step == CURSOR_END;
}

static struct place_batch *search_batch(struct edit_place *place, const struct element *id)
{
	struct place_batch *batches = (void *)place->batches.data;
	size_t from = 0, to = place->batches.length / sizeof(struct place_batch);

	while (from < to) {
		size_t middle = from + (to - from) / 2;
		struct place_batch *batch = &batches[batches[middle].by_id];
		int order = compare_ids(id, &batch->id);

		if (order == 0)
			return batch;
		if (order > 0)
			from = middle + 1;
		else
			to = middle;
	}
	return NULL;
}

/* Which one a document of a reply is; NULL: none of them. Replies mostly come in the order of
 * TILES. One that mongod finds by an index on the array does not. */
static struct place_batch *find_batch(struct edit_place *place, struct bytes document)
{
	size_t count = place->batches.length / sizeof(struct place_batch);
	struct place_batch *batches = (void *)place->batches.data, *batch = NULL;
	struct element id;

	if (!document_find(document, "_id", &id))
		return NULL;
	if (place->next < count && compare_ids(&batches[place->next].id, &id) == 0)
		batch = &batches[place->next];
	else
		batch = search_batch(place, &id);
	if (batch)
		place->next = (size_t)(batch - batches) + 1;
	return batch;
}

static bool take_lengths(struct edit_place *place, const struct packet *reply)
{
	struct place_batch *batch;
	struct element document;
	struct cursor cursor;
	enum cursor_step step;

	if (!open_all(reply, &cursor))
		return false;
	while ((step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT)
		if (document.type != BSON_BYTE_DOCUMENT ||
		    !(batch = find_batch(place, document.value)) ||
		    !document_find_integer(document.value, "held", &batch->counted.held))
			return false;
	return step == CURSOR_END;
}

/* False if some position is held by no batch, or if there are not as many elements as the state
 * says: what means an element by its place would meet another one. */
static bool list_pieces(struct edit_place *place)
{
	int64_t elements = 0;
	size_t count = place->batches.length / sizeof(struct place_batch);
	struct place_batch *batches = (void *)place->batches.data;
	auto_free struct counted *all = must_calloc(count + 1, sizeof(*all));
	const struct counted *of;
	struct counts counts;
	enum counts_step step;
	int64_t skip, take;

	for (size_t i = 0; i < count; i++)
		all[i] = batches[i].counted;
	counts_open(&counts, &place->state, all, count);
	while ((step = counts_next(&counts, &of, &skip, &take)) == COUNTS_PIECE) {
		struct place_batch *batch = &batches[of->index];
		struct place_piece piece = {.position = of->placed.position + skip,
					    .skip = skip,
					    .take = take,
					    .width =
						    of->placed.width >= 0 ? of->placed.width : take,
					    .batch = of->index,
					    .next = batch->first};

		elements += take;
		buffer_append(&place->pieces, &piece, sizeof(piece));
		batch->first = place->pieces.length / sizeof(piece);
	}
	return step == COUNTS_END && elements == state_elements(&place->state);
}

must_check enum place_listed place_measure(struct edit *edit, const struct packet *reply)
{
	struct edit_place *place = &edit->place;
	int64_t most = edit_rule(edit)->fold_limit;
	bool fits = !place->tried && place->bytes <= most - most / ROOM_LEFT;

	if (!take_lengths(place, reply))
		return PLACE_LISTED_BROKEN;
	if (!list_pieces(place))
		return PLACE_LISTED_HOLE;
	place->tried = true;
	if (fits)
		return PLACE_LISTED_FITS;
	return !edit->write.counted && edit->write.fields.type == 0 && place->bytes > ANSWER_MOST
		       ? PLACE_LISTED_LONG
		       : PLACE_LISTED;
}

bool place_found(const struct packet *reply)
{
	struct element document;
	struct cursor cursor;

	return open_all(reply, &cursor) && cursor_next(&cursor, &document) == CURSOR_ELEMENT;
}

/* Copies have numbers below 0, and below those of others. Where these come near their end, because
 * edits leave garbage no time to go, they begin anywhere: if a number is taken, the next try draws
 * another place. */
int64_t place_lowest(const struct edit *edit, const struct packet *reply)
{
	struct element document;
	struct cursor cursor;
	int64_t lowest;

	if (open_all(reply, &cursor) && cursor_next(&cursor, &document) == CURSOR_ELEMENT &&
	    document.type == BSON_BYTE_DOCUMENT &&
	    document_find_integer(document.value, overflow_order_path(edit_rule(edit)), &lowest) &&
	    lowest < 0)
		return lowest > -NUMBERS ? lowest : -(int64_t)arc4random_uniform(NUMBERS);
	return 0;
}

/* ---- their copies ---- */

static void write_number(struct buffer *out, const struct rule *rule, int64_t number)
{
	if (rule->overflow.batch_field)
		writer_int32(out, rule->overflow.batch_field, (int32_t)number);
}

static void write_part(struct buffer *out, const struct rule *rule, const struct element *array,
		       const struct place_piece *piece)
{
	size_t start = writer_open_array(out, rule->overflow.array), index = 0;
	struct cursor cursor;
	struct element element;
	char name[12];

	require(cursor_open(&cursor, array->value));
	for (int64_t i = 0; i < piece->skip + piece->take; i++) {
		if (cursor_next(&cursor, &element) != CURSOR_ELEMENT)
			break;
		if (i >= piece->skip)
			writer_renamed(out, writer_index(name, index++), &element);
	}
	writer_close(out, start);
}

/* mongod goes through the copies in the order of their numbers, which is that of their elements: so
 * of several errors the first one in the array is told. 0 is the head's. */
static int64_t number_of(const struct edit_place *place, size_t rank)
{
	size_t count = place->pieces.length / sizeof(struct place_piece) + 2;

	return place->lowest - (int64_t)count + (int64_t)rank;
}

int64_t place_first(const struct edit *edit)
{
	return number_of(&edit->place, 0);
}

static void write_state(const struct edit *edit, struct buffer *out, struct bytes generation,
			int64_t position, int64_t width, int64_t number)
{
	const struct edit_place *place = &edit->place;
	size_t state = writer_open_document(out, NAME_STATE);

	writer_binary(out, "g", generation);
	writer_int64(out, "p", position);
	if (!edit_rule(edit)->overflow.batch_field)
		writer_int32(out, "i", (int32_t)number);
	writer_int32(out, "e", (int32_t)place->state.edition + 1);
	if (width >= 0)
		writer_int64(out, "w", width);
	writer_close(out, state);
}

/* What stands in the batch beside its array stays. */
static bool write_copy(struct edit *edit, struct bytes batch, size_t index)
{
	struct edit_place *place = &edit->place;
	const struct place_piece *piece =
		(const struct place_piece *)(const void *)place->pieces.data + index;
	int64_t number = number_of(place, index + 1);
	const struct rule *rule = edit_rule(edit);
	struct buffer *out = &place->copies;
	size_t document = writer_open(out);
	struct element field;
	struct cursor cursor;
	bool found = false;

	if (!cursor_open(&cursor, batch))
		return false;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (element_is(&field, "_id") || element_is(&field, NAME_STATE))
			continue;
		if (element_is(&field, rule->overflow.array) && field.type == BSON_BYTE_ARRAY) {
			write_part(out, rule, &field, piece);
			found = true;
		} else if (rule->overflow.batch_field &&
			   element_is(&field, rule->overflow.batch_field)) {
			write_number(out, rule, number);
		} else {
			writer_element(out, &field);
		}
	}
	write_state(edit, out, place->state.later, piece->position, piece->width, number);
	writer_close(out, document);
	place->copied += piece->take;
	return found;
}

/* A batch that others cover has nothing to be copied. */
static bool copy_batch(struct edit *edit, struct bytes document)
{
	struct edit_place *place = &edit->place;
	const struct place_piece *pieces = (const void *)place->pieces.data;
	const struct place_batch *batch = find_batch(place, document);

	if (!batch)
		return false;
	if (batch->first == 0)
		return true;
	template_write_document(&place->marked, "{_id: @id}", fill("id", &batch->id));
	place->marks++;
	for (size_t i = batch->first; i > 0; i = pieces[i - 1].next)
		if (!write_copy(edit, document, i - 1))
			return false;
	return true;
}

must_check bool place_copy(struct edit *edit, const struct packet *reply)
{
	struct element document;
	struct cursor cursor;
	enum cursor_step step;

	if (!open_batch(reply, &cursor, &edit->place.cursor_id))
		return false;
	while ((step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT)
		if (document.type != BSON_BYTE_DOCUMENT || !copy_batch(edit, document.value))
			return false;
	return step == CURSOR_END;
}

/* ---- the head ---- */

static void append_part(struct edit *edit, const char *part, struct buffer *out, size_t *index)
{
	struct element array, each;
	struct cursor cursor;
	char name[12];

	require(document_find(buffer_view(&edit->place.main), part, &array));
	if (array.type == BSON_BYTE_ARRAY && cursor_open(&cursor, array.value))
		while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
			writer_renamed(out, writer_index(name, (*index)++), &each);
}

/* Under a name that nothing else has; `position` tells which it is. */
static void copy_parts(struct edit *edit, const char *part, const char *other, int64_t position,
		       size_t rank)
{
	const struct rule *rule = edit_rule(edit);
	struct edit_place *place = &edit->place;
	struct buffer *out = &place->copies;
	size_t document = writer_open(out), array, index = 0;

	writer_renamed(out, rule->overflow.link, &edit->id);
	write_number(out, rule, number_of(place, rank));
	array = writer_open_array(out, rule->overflow.array);
	append_part(edit, part, out, &index);
	if (other)
		append_part(edit, other, out, &index);
	writer_close(out, array);
	write_state(edit, out, (struct bytes){place->names.pending, GENERATION_BYTES}, position, -1,
		    number_of(place, rank));
	writer_close(out, document);
}

bool place_counts_total(const struct edit *edit)
{
	return edit->place.update.removes && own_field_name(edit_rule(edit), OWN_TOTAL);
}

void place_copy_main(struct edit *edit)
{
	const struct edit_place *place = &edit->place;
	size_t behind = place->pieces.length / sizeof(struct place_piece) + 1;
	enum place_where where = place->aim.where;

	if (where == PLACE_IN_MAIN)
		copy_parts(edit, "head", "tail", 2, 0);
	if (where == PLACE_IN_HEAD || (where == PLACE_EVERYWHERE && place->state.head > 0))
		copy_parts(edit, "head", NULL, 0, 0);
	if (where == PLACE_IN_TAIL || (where == PLACE_EVERYWHERE && place_length(edit, "tail") > 0))
		copy_parts(edit, "tail", NULL, 1, behind);
}

int64_t place_length(const struct edit *edit, const char *part)
{
	struct element array, each;
	struct cursor cursor;
	int64_t length = 0;

	if (document_find(buffer_view(&edit->place.main), part, &array) &&
	    array.type == BSON_BYTE_ARRAY && cursor_open(&cursor, array.value))
		while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
			length++;
	return length;
}

/* ---- where one element stands ---- */

static void aim_at_piece(struct edit_place *place, size_t piece, int64_t at)
{
	place->aim.where = PLACE_IN_BATCH;
	place->aim.piece = piece;
	place->aim.at = at;
}

/* The element of the overflow that so many others stand before: place_measure has counted them. */
static void aim_at_element(struct edit_place *place, int64_t before)
{
	const struct place_piece *pieces = (const void *)place->pieces.data;
	size_t i = 0;

	for (; before >= pieces[i].take; i++)
		before -= pieces[i].take;
	aim_at_piece(place, i, before);
}

void place_aim(struct edit *edit)
{
	struct edit_place *place = &edit->place;
	int64_t stored = state_elements(&place->state), head = place->state.head;
	int64_t at = place->update.at;

	place->aim = (struct place_aim){.where = PLACE_IN_MAIN, .at = at < head ? at : at - stored};
	if (at >= head && at < head + stored)
		aim_at_element(place, at - head);
}

/* What is taken out of main needs no copy to be known. */
void place_aim_pop(struct edit *edit)
{
	struct edit_place *place = &edit->place;
	int64_t stored = state_elements(&place->state), head = place->state.head;
	int64_t tail = place_length(edit, "tail");
	bool last = place->update.kind == PLACE_LAST;

	place->aim = (struct place_aim){.measured = last && tail == 0, .longer = last && tail > 0};
	place->after = (struct place_after){head, place->state.removed, -1};
	if (last ? tail > 0 : head + stored == 0 && tail > 0)
		place->aim.where = PLACE_IN_TAIL;
	else if (last ? stored > 0 : head == 0 && stored > 0)
		aim_at_element(place, last ? stored - 1 : 0);
	else
		place->aim.where = head > 0 ? PLACE_IN_HEAD : PLACE_NOWHERE;
	if (place->aim.where == PLACE_IN_HEAD)
		place->after.head--;
	if (place_counts_total(edit) && place->aim.where != PLACE_IN_BATCH)
		place->after.total = head + tail + stored - 1;
}

static struct place_batch *batch_of(const struct edit_place *place, size_t piece)
{
	const struct place_piece *pieces = (const void *)place->pieces.data;

	return (struct place_batch *)(void *)place->batches.data + pieces[piece].batch;
}

static bool is_whole(const struct edit_place *place, size_t piece)
{
	const struct place_piece *pieces = (const void *)place->pieces.data;

	return pieces[piece].skip == 0 &&
	       pieces[piece].take == batch_of(place, piece)->counted.held;
}

enum place_asked place_ask_from(struct edit *edit, size_t piece)
{
	struct edit_place *place = &edit->place;

	for (; piece < place->pieces.length / sizeof(struct place_piece); piece++) {
		if (!batch_of(place, piece)->asked)
			continue;
		aim_at_piece(place, piece, 0);
		return is_whole(place, piece) ? PLACE_ASKED_THERE : PLACE_ASKED_PART;
	}
	return PLACE_ASKED_NOWHERE;
}

must_check bool place_take_asked(struct edit *edit, const struct packet *reply)
{
	struct place_batch *batch;
	struct element document;
	struct cursor cursor;
	enum cursor_step step;

	if (!open_all(reply, &cursor))
		return false;
	while ((step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT) {
		if (document.type != BSON_BYTE_DOCUMENT ||
		    !(batch = find_batch(&edit->place, document.value)))
			return false;
		batch->asked = true;
	}
	return step == CURSOR_END;
}

struct place_piece place_aimed(const struct edit *edit)
{
	const struct place_piece *pieces = (const void *)edit->place.pieces.data;

	return pieces[edit->place.aim.piece];
}

void place_write_aimed(struct buffer *out, const struct edit *edit)
{
	const struct edit_place *place = &edit->place;

	template_write_fields(out, "{_id: @id}",
			      fill("id", &batch_of(place, place->aim.piece)->id));
}

/* ---- what is left of them ---- */

must_check bool place_take_sizes(struct edit *edit, const struct packet *reply)
{
	struct edit_place *place = &edit->place;
	int64_t parts[2] = {place_length(edit, "head"), place_length(edit, "tail")};
	int64_t copied = 0, position, held;
	struct element document;
	struct bytes generation;
	struct cursor cursor;
	enum cursor_step step;

	if (!open_all(reply, &cursor))
		return false;
	while ((step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT) {
		if (document.type != BSON_BYTE_DOCUMENT ||
		    !generation_find(document.value, "g", &generation) ||
		    !document_find_integer(document.value, "p", &position) ||
		    !document_find_integer(document.value, "held", &held))
			return false;
		if (memcmp(generation.data, place->names.pending, GENERATION_BYTES) != 0)
			copied += held;
		else if (position == 0 || position == 1)
			parts[position] = held;
	}
	place->after.head = parts[0];
	place->after.removed = place->state.removed + place->copied - copied;
	if (place_counts_total(edit))
		place->after.total =
			parts[0] + parts[1] + place->state.moved - place->after.removed;
	return step == CURSOR_END;
}
