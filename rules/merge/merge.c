/* Takes the documents of a reply, and finds their gaps. */
#include "rules/merge/merge_inner.h"

#include "rules/rule/hash.h"
#include "rules/merge/array_writer.h"
#include "rules/rule/names.h"
#include "rules/rule/state.h"

#include <stdlib.h>

#define FEW_GENERATIONS 8

/* The first item moves to where more have room. */
static void list_own(struct buffer *list)
{
	struct buffer own = {0};

	buffer_append(&own, list->data, list->length);
	*list = own;
}

void *merge_list_add(struct buffer *list, void *first, size_t size)
{
	void *item;

	if (first && list->length == 0) {
		list->data = first;
	} else {
		if (list->capacity == 0)
			list_own(list);
		buffer_reserve(list, size);
	}
	item = list->data + list->length;
	memset(item, 0, size);
	list->length += size;
	return item;
}

static void hide(struct merge *merge, const char *name)
{
	if (name)
		merge->hidden[merge->hidden_count++] = bytes_of(name);
}

static void hide_names_of(struct merge *merge, const struct rule *rule)
{
	struct name_hidden hidden = name_hidden(rule);

	for (size_t i = 0; i < NAME_FIELDS; i++)
		hide(merge, hidden.fields[i]);
}

struct merge *merge_new(const struct ruled_namespace *namespace)
{
	const size_t most = 1 + NAME_FIELDS * namespace->target_count;
	struct merge *merge = must_malloc(sizeof(*merge) + most * sizeof(struct bytes));

	*merge = (struct merge){.namespace = namespace};
	hide(merge, NAME_STATE);
	for (size_t i = 0; i < namespace->target_count; i++)
		hide_names_of(merge, namespace->targets[i].rule);
	return merge;
}

void merge_set_windows(struct merge *merge, const struct window *windows)
{
	merge->windows = windows;
}

void merge_free(struct merge *merge)
{
	if (!merge)
		return;
	buffer_fini(&merge->entries);
	buffer_fini(&merge->gaps);
	buffer_fini(&merge->generations);
	buffer_fini(&merge->parts);
	buffer_fini(&merge->states);
	buffer_fini(&merge->marks);
	free(merge->slots);
	free(merge->marked);
	free(merge);
}

bool merge_hides(const struct merge *merge, struct bytes name)
{
	for (size_t i = 0; i < merge->hidden_count; i++) {
		if (bytes_equal(merge->hidden[i], name))
			return true;
	}
	return false;
}

static bool generation_is(const struct generation *generation, const uint8_t *id, size_t target)
{
	return generation->target == target && !memcmp(generation->id, id, GENERATION_BYTES);
}

/* The slot of this generation, or the empty one where it would go. There is at least one. */
static size_t *slot_of(const struct merge *merge, const uint8_t *id, size_t target)
{
	size_t at = hash_bytes((struct bytes){id, GENERATION_BYTES}, merge->key) & merge->slot_mask;

	while (merge->slots[at] != NONE &&
	       !generation_is(generation_at(merge, merge->slots[at]), id, target))
		at = (at + 1) & merge->slot_mask;
	return &merge->slots[at];
}

size_t merge_find_generation(const struct merge *merge, const uint8_t *id, size_t target)
{
	if (merge->slots)
		return *slot_of(merge, id, target);
	for (size_t i = 0; i < generation_count(merge); i++)
		if (generation_is(generation_at(merge, i), id, target))
			return i;
	return NONE;
}

/* A table for twice as many as there are. */
static void slots_make(struct merge *merge)
{
	size_t count = generation_count(merge), size = 16;

	while (size < 4 * count)
		size *= 2;
	if (!merge->slots)
		merge->key = (uint64_t)arc4random() << 32 | arc4random();
	free(merge->slots);
	merge->slots = must_malloc(size * sizeof(*merge->slots));
	memset(merge->slots, 0xff, size * sizeof(*merge->slots));
	merge->slot_mask = size - 1;
	/* Of twins the first one stays. */
	for (size_t i = count; i-- > 0;) {
		const struct generation *generation = generation_at(merge, i);

		*slot_of(merge, generation->id, generation->target) = i;
	}
}

/* The last generation is new. A few are found without a table. */
static void slots_add(struct merge *merge)
{
	size_t count = generation_count(merge);
	const struct generation *generation = generation_at(merge, count - 1);

	if (count <= FEW_GENERATIONS)
		return;
	if (!merge->slots || 2 * count > merge->slot_mask + 1)
		slots_make(merge);
	else
		*slot_of(merge, generation->id, generation->target) = count - 1;
}

static void generation_empty(struct generation *generation)
{
	generation->asked = ASKED_NOT;
	generation->first = generation->last = NONE;
	generation->size = 0;
}

static bool same_value(const struct element *one, const struct element *other)
{
	return one->type == other->type && bytes_equal(one->value, other->value);
}

static bool is_number(const struct element *element)
{
	return element->type == BSON_BYTE_INT32 || element->type == BSON_BYTE_INT64 ||
	       element->type == BSON_BYTE_DOUBLE || element->type == BSON_BYTE_DECIMAL;
}

static bool names_document(const struct merge *merge, const struct element *link)
{
	for (size_t i = 0; i < generation_count(merge); i++)
		if (same_value(&generation_at(merge, i)->link, link))
			return true;
	return false;
}

/* A pipeline may have set the `_id` to an equal value of other types since it was copied to the
 * overflow (1 to 1.0, {a: 1} to {a: 1.0}). What is no whole number can't be compared here: the
 * server has found it to be equal, if it is no other document that this link was asked for. */
static bool links_to(const struct merge *merge, const struct generation *generation,
		     const struct element *link)
{
	const struct element *id = &generation->link;
	int64_t one, other;

	if (same_value(id, link))
		return true;
	if (element_integer(id, &one) && element_integer(link, &other))
		return one == other;
	return ((is_number(id) && is_number(link)) ||
		(id->type == BSON_BYTE_DOCUMENT && link->type == BSON_BYTE_DOCUMENT)) &&
	       !names_document(merge, link);
}

size_t merge_find_twin(const struct merge *merge, size_t at, const struct element *link)
{
	while (at != NONE && !links_to(merge, generation_at(merge, at), link))
		at = generation_at(merge, at)->twin;
	return at;
}

/* Of twins, that of just this document; *last: the twin to be followed by a new one. */
static size_t find_own(const struct merge *merge, const uint8_t *id, size_t target,
		       const struct element *link, size_t *last)
{
	size_t at = merge_find_generation(merge, id, target);

	*last = NONE;
	while (at != NONE && !same_value(&generation_at(merge, at)->link, link)) {
		*last = at;
		at = generation_at(merge, at)->twin;
	}
	return at;
}

static size_t generation_add(struct merge *merge, const uint8_t *id, size_t target, size_t twin_of)
{
	size_t at = generation_count(merge);
	struct generation *generation =
		merge_list_add(&merge->generations, &merge->first.generation, sizeof(*generation));

	memcpy(generation->id, id, GENERATION_BYTES);
	generation->target = target;
	generation->twin = NONE;
	if (twin_of == NONE)
		slots_add(merge);
	else
		generation_at(merge, twin_of)->twin = at;
	return at;
}

/* One gap more needs this generation; what has come for it so far may be too old. */
static size_t generation_use(struct merge *merge, const struct gap *gap, const uint8_t *id,
			     const struct element *link)
{
	struct generation *generation;
	size_t last, at = find_own(merge, id, gap->target, link, &last);

	if (at == NONE)
		at = generation_add(merge, id, gap->target, last);
	generation = generation_at(merge, at);
	if (generation->users++ == 0 || gap->cut.first < generation->from)
		generation->from = gap->cut.first;
	if (generation->users == 1 || gap->cut.until > generation->until)
		generation->until = gap->cut.until;
	generation->edited = generation->edited || gap->state > 0;
	generation->link = *link;
	generation_empty(generation);
	return at;
}

/* What a document's top level says. */
struct survey {
	struct element id;            /* type 0: none */
	struct element state;         /* the same */
	const struct window *windows; /* that are wanted of its arrays, or NULL */
	bool hidden;                  /* something is to be taken out */
	bool spare;                   /* a spare name stands in it */
	bool loses_id;
	bool computed; /* its last field is the mark */
};

static bool survey_document(const struct merge *merge, struct bytes document, struct survey *survey)
{
	struct cursor cursor;
	struct element element;
	enum cursor_step step;

	if (!cursor_open(&cursor, document))
		return false;
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT) {
		survey->computed = element_is(&element, NAME_COMPUTED);
		if (survey->id.type == 0 && element_is(&element, "_id")) {
			survey->id = element;
		} else if (merge_hides(merge, element.name)) {
			survey->hidden = true;
			if (survey->state.type == 0 && element_is(&element, NAME_STATE))
				survey->state = element;
		} else if (name_is_spare(element.name)) {
			survey->spare = true;
		}
	}
	return step == CURSOR_END;
}

/* Of a rule that isn't ours: as long as nothing has been taken out, the document is whole. */
static enum merge_intake foreign_intake(const struct element *field)
{
	struct element count;
	int64_t n;

	if (state_is_edited(field))
		return MERGE_FOREIGN;
	if (field->type != BSON_BYTE_DOCUMENT || !document_find(field->value, "n", &count) ||
	    !element_integer(&count, &n))
		return MERGE_BROKEN;
	return n == 0 ? MERGE_TAKEN : MERGE_FOREIGN;
}

static size_t target_of_key(const struct merge *merge, struct bytes key)
{
	for (size_t i = 0; i < merge->namespace->target_count; i++) {
		if (bytes_are(key, merge->namespace->targets[i].rule->key))
			return i;
	}
	return NONE;
}

/* The array keeps its first `head` elements; false where it has fewer. */
static bool gap_keep(struct gap *gap, size_t head)
{
	struct cursor cursor;
	size_t numbered, count;

	if (!cursor_open(&cursor, gap->array))
		return false;
	numbered = array_skip_numbered(&cursor, head);
	if (!array_skip(&cursor, head - numbered, &count) || numbered + count != head)
		return false;
	gap->there = gap->cut.head = head;
	gap->size = (size_t)(cursor.at - gap->array.data) - 4;
	gap->numbered = numbered == head;
	return true;
}

/* What a window leaves of an array and of its overflow. */
static enum merge_intake gap_cut(const struct window *window, const struct state *state,
				 struct gap *gap)
{
	struct cursor cursor;
	enum window_fit fit;

	if (!cursor_open(&cursor, gap->array) || !array_skip(&cursor, SIZE_MAX, &gap->there))
		return MERGE_BROKEN;
	gap->size = gap->array.length;
	fit = window_cut(window, gap->there, (size_t)state->head, (size_t)state_elements(state),
			 &gap->cut);
	if (fit == WINDOW_BEYOND)
		return MERGE_BEYOND;
	return fit == WINDOW_FITS ? MERGE_TAKEN : MERGE_BROKEN;
}

static bool stands_twice(struct bytes document, const char *name)
{
	struct cursor cursor;
	struct element element;
	size_t count = 0;

	if (!cursor_open(&cursor, document))
		return false;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		count += element_is(&element, name);
	return count > 1;
}

static size_t state_add(struct merge *merge, const struct state *state)
{
	*(struct state *)merge_list_add(&merge->states, NULL, sizeof(*state)) = *state;
	return LIST_COUNT(merge->states, struct state);
}

/* The array of a target, if the document has it: with a gap or to be cut. */
static enum merge_intake gap_add(struct merge *merge, struct bytes document, size_t target,
				 const struct state *state, const struct window *windows)
{
	const char *path = merge->namespace->targets[target].rule->array;
	enum merge_intake intake = MERGE_TAKEN;
	const struct window *window = windows && windows[target].target ? &windows[target] : NULL;
	struct gap gap = {.target = target};
	struct element array;

	if (!document_find_path(document, path, &array) || array.type != BSON_BYTE_ARRAY)
		return MERGE_TAKEN;
	gap.array = array.value;
	if (window && stands_twice(document, path)) {
		intake = MERGE_BEYOND;
	} else if (window) {
		intake = gap_cut(window, state, &gap);
	} else if (gap_keep(&gap, (size_t)state->head)) {
		gap.cut.until = (size_t)state_elements(state);
		gap.cut.tail = SIZE_MAX;
	} else {
		intake = MERGE_BROKEN;
	}
	if (gap.cut.until > gap.cut.first) {
		gap.id = state->generation.data;
		gap.state = state->later.data ? state_add(merge, state) : 0;
	}
	if (intake == MERGE_TAKEN)
		*(struct gap *)merge_list_add(&merge->gaps, &merge->first.gap, sizeof(gap)) = gap;
	return intake;
}

/* One field of `_spill`: opens the gap that it tells of. */
static enum merge_intake state_intake(struct merge *merge, struct bytes document,
				      const struct element *field, const struct window *windows)
{
	size_t target = target_of_key(merge, field->name);
	struct state state;

	if (target == NONE)
		return foreign_intake(field);
	if (state_read_any(field, false, &state))
		return MERGE_BROKEN;
	return state.moved == 0 ? MERGE_TAKEN : gap_add(merge, document, target, &state, windows);
}

/* The arrays that have no gap are cut, too. */
static enum merge_intake windows_intake(struct merge *merge, struct bytes document,
					size_t first_gap)
{
	enum merge_intake intake = MERGE_TAKEN;

	for (size_t i = 0; i < merge->namespace->target_count && intake == MERGE_TAKEN; i++) {
		bool known = false;

		for (size_t j = first_gap; j < gap_count(merge); j++)
			known = known || gap_at(merge, j)->target == i;
		if (!known)
			intake = gap_add(merge, document, i, &(struct state){0}, merge->windows);
	}
	return intake;
}

/* The document's own windows, in front of its states. */
static enum merge_intake mark_intake(struct merge *merge, const struct element *mark,
				     struct survey *survey)
{
	if (!merge->marked)
		merge->marked = must_calloc(merge->namespace->target_count, sizeof(*merge->marked));
	survey->windows = merge->marked;
	return windows_of_mark(mark, merge->namespace, merge->marked) ? MERGE_TAKEN : MERGE_BROKEN;
}

/* All of `_spill`; a mark says that the client has hidden `_id`. */
static enum merge_intake states_intake(struct merge *merge, struct bytes document,
				       struct bytes states, struct survey *survey)
{
	struct cursor cursor;
	struct element field;
	enum cursor_step step;

	if (!cursor_open(&cursor, states))
		return MERGE_BROKEN;
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT) {
		enum merge_intake intake = MERGE_TAKEN;

		if (element_is(&field, NAME_ID_MARK))
			survey->loses_id = true;
		else if (element_is(&field, NAME_WINDOW_MARK))
			intake = mark_intake(merge, &field, survey);
		else
			intake = state_intake(merge, document, &field, survey->windows);
		if (intake != MERGE_TAKEN)
			return intake;
	}
	return step == CURSOR_END ? MERGE_TAKEN : MERGE_BROKEN;
}

/* What becomes of the document: its gaps are the last ones of the list. */
static enum merge_intake document_intake(struct merge *merge, struct bytes document,
					 struct survey *survey)
{
	size_t first_gap = gap_count(merge);
	enum merge_intake intake = MERGE_TAKEN;

	*survey = (struct survey){.windows = merge->windows};
	if (!survey_document(merge, document, survey))
		return MERGE_BROKEN;
	if (survey->computed)
		return MERGE_TAKEN;
	if (survey->spare)
		return MERGE_SPARE;
	if (survey->state.type == BSON_BYTE_DOCUMENT)
		intake = states_intake(merge, document, survey->state.value, survey);
	else if (survey->state.type != 0)
		intake = MERGE_BROKEN;
	if (intake == MERGE_TAKEN && merge->windows)
		intake = windows_intake(merge, document, first_gap);
	for (size_t i = first_gap; i < gap_count(merge) && intake == MERGE_TAKEN; i++)
		if (gap_at(merge, i)->id && survey->id.type == 0)
			return MERGE_BROKEN;
	return intake;
}

/* The array stays as it is. */
static bool gap_is_none(const struct gap *gap)
{
	return !gap->id && gap->cut.skip + gap->cut.pass == 0 &&
	       gap->cut.head + gap->cut.tail == gap->there;
}

/* Gives the entry its document and all gaps from `first_gap` on. */
static void entry_fill(struct merge *merge, struct entry *entry, struct bytes document,
		       size_t first_gap, const struct survey *survey)
{
	bool spilled = entry->spilled;

	entry->document = document;
	entry->loses_id = survey->loses_id;
	entry->computed = survey->computed;
	entry->first_gap = first_gap;
	entry->gap_count = gap_count(merge) - first_gap;
	entry->changed = survey->hidden || survey->computed;
	for (size_t i = first_gap; i < first_gap + entry->gap_count; i++) {
		struct gap *gap = gap_at(merge, i);

		gap->generation = gap->id ? generation_use(merge, gap, gap->id, &survey->id) : NONE;
		gap->later = gap->state ? generation_use(merge, gap,
							 state_of_gap(merge, gap)->later.data,
							 &survey->id)
					: NONE;
		entry->spilled = entry->spilled || gap->id;
		entry->changed = entry->changed || !gap_is_none(gap);
	}
	merge->changed_count += entry->changed;
	merge->spilled_count += entry->spilled && !spilled;
}

must_check enum merge_intake merge_add_document(struct merge *merge, struct bytes document)
{
	size_t first_gap = gap_count(merge);
	struct survey survey;
	enum merge_intake intake = document_intake(merge, document, &survey);

	if (intake == MERGE_TAKEN)
		entry_fill(
			merge,
			merge_list_add(&merge->entries, &merge->first.entry, sizeof(struct entry)),
			document, first_gap, &survey);
	return intake;
}

/* It needs its generations no longer. */
static void gap_leave(struct merge *merge, const struct gap *gap)
{
	if (gap->id)
		generation_at(merge, gap->generation)->users--;
	if (gap->state)
		generation_at(merge, gap->later)->users--;
}

must_check enum merge_intake merge_replace_document(struct merge *merge, size_t index,
						    struct bytes document)
{
	struct entry *entry = entry_at(merge, index);
	size_t first_gap = gap_count(merge);
	struct survey survey;
	enum merge_intake intake = document_intake(merge, document, &survey);

	if (intake != MERGE_TAKEN)
		return intake;
	for (size_t i = 0; i < entry->gap_count; i++)
		gap_leave(merge, gap_at(merge, entry->first_gap + i));
	merge->changed_count -= entry->changed;
	entry_fill(merge, entry, document, first_gap, &survey);
	/* Its batches may have been larger than those of today: all of them are looked at. */
	for (size_t i = 0; i < entry->gap_count; i++)
		if (gap_at(merge, entry->first_gap + i)->id)
			generation_at(merge, gap_at(merge, entry->first_gap + i)->generation)
				->from = 0;
	return intake;
}

bool merge_clean(const struct merge *merge)
{
	return merge->changed_count == 0;
}

size_t merge_document_count(const struct merge *merge)
{
	return LIST_COUNT(merge->entries, struct entry);
}

struct bytes merge_document(const struct merge *merge, size_t index)
{
	return entry_at(merge, index)->document;
}

size_t merge_spilled_count(const struct merge *merge)
{
	return merge->spilled_count;
}
