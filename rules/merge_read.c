/* Puts the documents of one reply together again.
 *
 * A document has a gap where a ruled array's tail was taken out. What fills a gap is the first `n`
 * elements of a generation, whose parts are the overflow documents that came for it. */
#include "rules/merge_read.h"

#include "protocol/writer.h"
#include "rules/hash.h"
#include "rules/merge_array.h"
#include "rules/names.h"
#include "rules/overflow_document.h"

#include <stdlib.h>

#define STATE_FIELD "_spill"
#define ID_FIELD "_id"
#define HIDDEN_ID_MARK "/id"
#define GENERATION_SIZE 16

/* The most bytes that one filter asks by; what is left is asked by another. */
#define FILTER_LIMIT (8 << 20)
/* Nothing of this size is ever sent, so nothing of it is written. */
#define DOCUMENT_LIMIT (1 << 30)

#define NONE SIZE_MAX /* the index of nothing */
#define FEW_GENERATIONS 8

enum part_form {
	PART_ARRAY,    /* `bytes` is an array of elements */
	PART_VALUE,    /* `bytes` is one element's value */
	PART_DOCUMENT, /* `bytes` is an overflow document which, less our names, is one element */
};

struct part {
	enum part_form form;
	uint8_t type; /* PART_VALUE: the element's */
	struct bytes bytes;
	size_t position; /* in the generation, of the first element */
	size_t next;
};

enum asked {
	ASKED_NOT,
	ASKED_NOW, /* by the filter that is being written */
	ASKED_BEFORE,
};

struct generation {
	uint8_t id[GENERATION_SIZE];
	size_t target;
	size_t users; /* gaps */
	enum asked asked;
	struct element link;
	size_t first, last; /* parts */
	size_t size;        /* of all parts' bytes */
	size_t from, until; /* of windows: the elements that are wanted */
};

struct gap {
	struct bytes array;    /* as the document has it */
	struct window_cut cut; /* what becomes of it; `until` - `first` elements fill the gap */
	size_t there;          /* elements that take `size` bytes */
	size_t size;
	bool numbered; /* these are named as they will be in the whole array */
	size_t target;
	const uint8_t *id; /* NULL: nothing fills it */
	size_t generation;
};

struct entry {
	struct bytes document;
	size_t first_gap;
	size_t gap_count;
	bool changed; /* there is something to merge or to take out */
	bool loses_id;
	bool computed; /* by the client's pipeline: nothing but its mark is taken out */
	bool spilled;  /* it has, or had before it was replaced, a gap */
};

struct merge {
	const struct ruled_namespace *namespace;
	const struct window *windows;                    /* NULL: arrays are wanted whole */
	struct buffer entries, gaps, generations, parts; /* lists of the above */
	size_t *slots; /* many generations, by a hash of their id: open addressing, at most half
			  full */
	size_t slot_mask;
	uint64_t key;
	size_t changed_count, spilled_count;
	size_t hidden_count;
	struct bytes hidden[]; /* names on the top level */
};

static void *list_add(struct buffer *list, size_t size)
{
	void *item;

	buffer_reserve(list, size);
	item = list->data + list->length;
	memset(item, 0, size);
	list->length += size;
	return item;
}

#define LIST_COUNT(list, type) ((list).length / sizeof(type))
#define LIST_AT(list, type, index) (&((type *)(void *)(list).data)[index])

static struct generation *generation_at(const struct merge *merge, size_t index)
{
	return LIST_AT(merge->generations, struct generation, index);
}

static size_t generation_count(const struct merge *merge)
{
	return LIST_COUNT(merge->generations, struct generation);
}

static struct gap *gap_at(const struct merge *merge, size_t index)
{
	return LIST_AT(merge->gaps, struct gap, index);
}

static struct part *part_at(const struct merge *merge, size_t index)
{
	return LIST_AT(merge->parts, struct part, index);
}

static struct entry *entry_at(const struct merge *merge, size_t index)
{
	require(index < merge_document_count(merge));
	return LIST_AT(merge->entries, struct entry, index);
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
	struct merge *merge = must_calloc(1, sizeof(*merge) + most * sizeof(struct bytes));

	merge->namespace = namespace;
	hide(merge, STATE_FIELD);
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
	free(merge->slots);
	free(merge);
}

static bool merge_hides(const struct merge *merge, struct bytes name)
{
	for (size_t i = 0; i < merge->hidden_count; i++) {
		if (bytes_equal(merge->hidden[i], name))
			return true;
	}
	return false;
}

static bool generation_is(const struct generation *generation, const uint8_t *id, size_t target)
{
	return generation->target == target && !memcmp(generation->id, id, GENERATION_SIZE);
}

/* The slot of this generation, or the empty one where it would go. There is at least one. */
static size_t *slot_of(const struct merge *merge, const uint8_t *id, size_t target)
{
	size_t at = hash_bytes((struct bytes){id, GENERATION_SIZE}, merge->key) & merge->slot_mask;

	while (merge->slots[at] != NONE &&
	       !generation_is(generation_at(merge, merge->slots[at]), id, target))
		at = (at + 1) & merge->slot_mask;
	return &merge->slots[at];
}

/* Its index, or NONE. */
static size_t generation_find(const struct merge *merge, const uint8_t *id, size_t target)
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
	for (size_t i = 0; i < count; i++) {
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

/* One gap more needs this generation; what has come for it so far may be too old. */
static size_t generation_use(struct merge *merge, const struct gap *gap, const struct element *link)
{
	struct generation *generation;
	size_t at = generation_find(merge, gap->id, gap->target);

	if (at == NONE) {
		at = generation_count(merge);
		generation = list_add(&merge->generations, sizeof(*generation));
		memcpy(generation->id, gap->id, GENERATION_SIZE);
		generation->target = gap->target;
		slots_add(merge);
	}
	generation = generation_at(merge, at);
	if (generation->users++ == 0 || gap->cut.first < generation->from)
		generation->from = gap->cut.first;
	if (generation->users == 1 || gap->cut.until > generation->until)
		generation->until = gap->cut.until;
	generation->link = *link;
	generation_empty(generation);
	return at;
}

/* What a document's top level says. */
struct survey {
	struct element id;    /* type 0: none */
	struct element state; /* the same */
	bool hidden;          /* something is to be taken out */
	bool spare;           /* a spare name stands in it */
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
		if (survey->id.type == 0 && element_is(&element, ID_FIELD)) {
			survey->id = element;
		} else if (merge_hides(merge, element.name)) {
			survey->hidden = true;
			if (survey->state.type == 0 && element_is(&element, STATE_FIELD))
				survey->state = element;
		} else if (name_is_spare(element.name)) {
			survey->spare = true;
		}
	}
	return step == CURSOR_END;
}

/* The state of one array: _spill.<key>. */
struct state {
	const uint8_t *id; /* its generation's */
	int64_t head;
	int64_t count;
};

static bool element_generation(const struct element *element, const uint8_t **id)
{
	if (element->type != BSON_BYTE_BINARY || element->value.length != 5 + GENERATION_SIZE ||
	    element->value.data[4] != 0)
		return false;
	*id = element->value.data + 5;
	return true;
}

static bool state_read(const struct element *field, struct state *state)
{
	struct element part;
	struct cursor cursor;
	enum cursor_step step;

	*state = (struct state){NULL, -1, -1};
	if (field->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, field->value))
		return false;
	while ((step = cursor_next(&cursor, &part)) == CURSOR_ELEMENT)
		if ((element_is(&part, "g") && !element_generation(&part, &state->id)) ||
		    (element_is(&part, "h") && !element_integer(&part, &state->head)) ||
		    (element_is(&part, "n") && !element_integer(&part, &state->count)))
			return false;
	return step == CURSOR_END && state->id && state->head >= 0 && state->count >= 0;
}

/* Of a rule that isn't ours: as long as nothing has been taken out, the document is whole. */
static enum merge_intake foreign_intake(const struct element *field)
{
	struct element count;
	int64_t n;

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

static size_t gap_count(const struct merge *merge)
{
	return LIST_COUNT(merge->gaps, struct gap);
}

/* What a window leaves of an array and of its overflow. */
static enum merge_intake gap_cut(const struct merge *merge, const struct state *state,
				 struct gap *gap)
{
	struct cursor cursor;
	enum window_fit fit;

	if (!cursor_open(&cursor, gap->array) || !array_skip(&cursor, SIZE_MAX, &gap->there))
		return MERGE_BROKEN;
	gap->size = gap->array.length;
	fit = window_cut(&merge->windows[gap->target], gap->there, (size_t)state->head,
			 (size_t)state->count, &gap->cut);
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

/* The array of a target, if the document has it: with a gap or to be cut. */
static enum merge_intake gap_add(struct merge *merge, struct bytes document, size_t target,
				 const struct state *state)
{
	const char *path = merge->namespace->targets[target].rule->array;
	enum merge_intake intake = MERGE_TAKEN;
	struct gap gap = {.target = target};
	struct element array;

	if (!document_find_path(document, path, &array) || array.type != BSON_BYTE_ARRAY)
		return MERGE_TAKEN;
	gap.array = array.value;
	if (merge->windows && stands_twice(document, path)) {
		intake = MERGE_BEYOND;
	} else if (merge->windows) {
		intake = gap_cut(merge, state, &gap);
	} else if (gap_keep(&gap, (size_t)state->head)) {
		gap.cut.until = (size_t)state->count;
		gap.cut.tail = SIZE_MAX;
	} else {
		intake = MERGE_BROKEN;
	}
	if (gap.cut.until > gap.cut.first)
		gap.id = state->id;
	if (intake == MERGE_TAKEN)
		*(struct gap *)list_add(&merge->gaps, sizeof(gap)) = gap;
	return intake;
}

/* One field of `_spill`: opens the gap that it tells of. */
static enum merge_intake state_intake(struct merge *merge, struct bytes document,
				      const struct element *field)
{
	size_t target = target_of_key(merge, field->name);
	struct state state;

	if (target == NONE)
		return foreign_intake(field);
	if (!state_read(field, &state))
		return MERGE_BROKEN;
	return state.count == 0 ? MERGE_TAKEN : gap_add(merge, document, target, &state);
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
			intake = gap_add(merge, document, i, &(struct state){0});
	}
	return intake;
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

		if (element_is(&field, HIDDEN_ID_MARK))
			survey->loses_id = true;
		else
			intake = state_intake(merge, document, &field);
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

	*survey = (struct survey){0};
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

		gap->generation = gap->id ? generation_use(merge, gap, &survey->id) : NONE;
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
		entry_fill(merge, list_add(&merge->entries, sizeof(struct entry)), document,
			   first_gap, &survey);
	return intake;
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
		if (gap_at(merge, entry->first_gap + i)->id)
			generation_at(merge, gap_at(merge, entry->first_gap + i)->generation)
				->users--;
	merge->changed_count -= entry->changed;
	entry_fill(merge, entry, document, first_gap, &survey);
	/* Its batches may have been larger than those of today: all of them are looked at. */
	for (size_t i = 0; i < entry->gap_count; i++)
		if (gap_at(merge, entry->first_gap + i)->id)
			generation_at(merge, gap_at(merge, entry->first_gap + i)->generation)
				->from = 0;
	return intake;
}

/* Names that clients don't see, beside the state's. */
struct hidden_names {
	struct bytes names[4 * NAME_FIELDS];
	size_t count;
};

/* False where they are too many: then what comes is looked at more closely. */
static bool list_hidden(struct hidden_names *list, const struct ruled_namespace *namespace)
{
	list->count = 0;
	if (namespace->target_count * NAME_FIELDS > ARRAY_LENGTH(list->names))
		return false;
	for (size_t i = 0; i < namespace->target_count; i++) {
		struct name_hidden hidden = name_hidden(namespace->targets[i].rule);

		for (size_t j = 0; j < NAME_FIELDS; j++)
			if (hidden.fields[j])
				list->names[list->count++] = bytes_of(hidden.fields[j]);
	}
	return true;
}

static bool is_ours(const struct hidden_names *list, struct bytes name)
{
	if (bytes_begin_with(name, STATE_FIELD))
		return true;
	for (size_t i = 0; i < list->count; i++)
		if (bytes_equal(name, list->names[i]))
			return true;
	return false;
}

static bool document_untouched(const struct hidden_names *list, struct bytes document)
{
	struct cursor cursor;
	struct element field;
	enum cursor_step step;

	if (!cursor_open(&cursor, document))
		return false;
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT)
		if (is_ours(list, field.name))
			return false;
	return step == CURSOR_END;
}

bool merge_untouched(const struct ruled_namespace *namespace, struct bytes batch)
{
	struct hidden_names hidden;
	struct cursor cursor;
	struct element document;
	enum cursor_step step;

	if (!list_hidden(&hidden, namespace) || !cursor_open(&cursor, batch))
		return false;
	while ((step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT)
		if (document.type != BSON_BYTE_DOCUMENT ||
		    !document_untouched(&hidden, document.value))
			return false;
	return step == CURSOR_END;
}

bool merge_clean(const struct merge *merge)
{
	return merge->changed_count == 0;
}

/* How large a document will be. */
static size_t gap_wants(const struct gap *gap)
{
	return gap->cut.until - gap->cut.first;
}

/* How large what fills it will be. */
static double gap_guess(const struct gap *gap)
{
	return gap->there > 0 ? (double)gap_wants(gap) * (double)gap->size / (double)gap->there : 0;
}

static double entry_guess(const struct merge *merge, const struct entry *entry)
{
	double size = (double)entry->document.length;

	for (size_t i = entry->first_gap; i < entry->first_gap + entry->gap_count; i++)
		size += gap_guess(gap_at(merge, i));
	return size;
}

size_t merge_fitting(const struct merge *merge, size_t most)
{
	size_t count = merge_document_count(merge), fitting = 0;
	double size = 0;

	while (fitting < count) {
		size += entry_guess(merge, entry_at(merge, fitting));
		if (size > (double)most)
			break;
		fitting++;
	}
	return fitting == 0 && count > 0 ? 1 : fitting;
}

static double entry_wants(const struct merge *merge, const struct entry *entry)
{
	double wanted = 0;

	for (size_t i = entry->first_gap; i < entry->first_gap + entry->gap_count; i++)
		wanted += (double)gap_wants(gap_at(merge, i));
	return wanted;
}

size_t merge_half(const struct merge *merge)
{
	size_t count = merge_document_count(merge), half = 0;
	double wanted = 0, passed = 0;

	for (size_t i = 0; i < count; i++)
		wanted += entry_wants(merge, entry_at(merge, i));
	while (half + 1 < count && passed <= wanted / 2)
		passed += entry_wants(merge, entry_at(merge, half++));
	return half > 1 && passed > wanted / 2 ? half - 1 : half;
}

static bool generation_wanted(const struct generation *generation, size_t target)
{
	return generation->target == target && generation->users > 0 &&
	       generation->asked == ASKED_NOT;
}

bool merge_wants(const struct merge *merge, size_t target)
{
	for (size_t i = 0; i < generation_count(merge); i++) {
		if (generation_wanted(generation_at(merge, i), target))
			return true;
	}
	return false;
}

static bool gap_is_wanted(const struct merge *merge, const struct gap *gap, size_t target)
{
	return gap->id && gap->target == target &&
	       generation_wanted(generation_at(merge, gap->generation), target);
}

size_t merge_wanted_elements(const struct merge *merge, size_t target)
{
	size_t count = 0;

	for (size_t i = 0; i < gap_count(merge); i++)
		if (gap_is_wanted(merge, gap_at(merge, i), target))
			count += gap_wants(gap_at(merge, i));
	return count;
}

double merge_wanted_bytes(const struct merge *merge, size_t target)
{
	double bytes = 0;

	for (size_t i = 0; i < gap_count(merge); i++)
		if (gap_is_wanted(merge, gap_at(merge, i), target))
			bytes += gap_guess(gap_at(merge, i));
	return bytes;
}

/* {$in: [...]} of the links of generations that are wanted: these are being asked for then. */
static void write_links(struct merge *merge, size_t target, struct buffer *out)
{
	size_t condition =
		writer_open_document(out, merge->namespace->targets[target].rule->overflow.link);
	size_t list = writer_open_array(out, "$in");
	size_t count = 0;
	char name[12];

	for (size_t i = 0; i < generation_count(merge); i++) {
		struct generation *generation = generation_at(merge, i);

		if (!generation_wanted(generation, target))
			continue;
		if (count > 0 && out->length - condition > FILTER_LIMIT)
			break;
		writer_renamed(out, writer_index(name, count++), &generation->link);
		generation->asked = ASKED_NOW;
	}
	writer_close(out, list);
	writer_close(out, condition);
}

static void write_generations(struct merge *merge, struct buffer *out)
{
	size_t condition = writer_open_document(out, STATE_FIELD ".g");
	size_t list = writer_open_array(out, "$in");
	size_t count = 0;
	char name[12];

	for (size_t i = 0; i < generation_count(merge); i++) {
		struct generation *generation = generation_at(merge, i);

		if (generation->asked != ASKED_NOW)
			continue;
		writer_binary(out, writer_index(name, count++),
			      (struct bytes){generation->id, GENERATION_SIZE});
		generation->asked = ASKED_BEFORE;
	}
	writer_close(out, list);
	writer_close(out, condition);
}

static void write_bound(struct buffer *out, const char *field, const char *verb, size_t bound)
{
	size_t condition = writer_open_document(out, field);

	writer_int64(out, verb, (int64_t)bound);
	writer_close(out, condition);
}

/* A batch holds at most batch_size elements: position x lies in batch x / batch_size + 1 or a later
 * one, and from there on the index leads. */
static void write_bounds(struct buffer *out, const struct rule *rule,
			 const struct generation *generation)
{
	size_t condition;

	if (rule->overflow.layout == RULE_BATCHES) {
		write_bound(out, overflow_order_path(rule), "$gte",
			    generation->from / (size_t)rule->overflow.batch_size + 1);
		write_bound(out, STATE_FIELD ".p", "$lt", generation->until);
		return;
	}
	condition = writer_open_document(out, STATE_FIELD ".p");
	writer_int64(out, "$gte", (int64_t)generation->from);
	writer_int64(out, "$lt", (int64_t)generation->until);
	writer_close(out, condition);
}

/* The batches of one generation that overlap its windows. */
static void write_overlap(struct merge *merge, size_t target, struct generation *generation,
			  struct buffer *out)
{
	const struct rule *rule = merge->namespace->targets[target].rule;
	size_t link = writer_open_document(out, rule->overflow.link), list;

	list = writer_open_array(out, "$in");
	writer_renamed(out, "0", &generation->link);
	writer_close(out, list);
	writer_close(out, link);
	writer_binary(out, STATE_FIELD ".g", (struct bytes){generation->id, GENERATION_SIZE});
	write_bounds(out, rule, generation);
	generation->asked = ASKED_BEFORE;
}

static size_t next_wanted(const struct merge *merge, size_t target, size_t at)
{
	while (at < generation_count(merge) && !generation_wanted(generation_at(merge, at), target))
		at++;
	return at;
}

/* {$or: [<batches>, ...]}, or the only one of them */
static void write_overlaps(struct merge *merge, size_t target, struct buffer *out)
{
	size_t at = next_wanted(merge, target, 0), start = out->length, place = 0, either, branch;
	char name[12];

	if (next_wanted(merge, target, at + 1) == generation_count(merge)) {
		write_overlap(merge, target, generation_at(merge, at), out);
		return;
	}
	either = writer_open_array(out, "$or");
	for (; at < generation_count(merge) && out->length - start < FILTER_LIMIT;
	     at = next_wanted(merge, target, at + 1)) {
		branch = writer_open_document(out, writer_index(name, place++));
		write_overlap(merge, target, generation_at(merge, at), out);
		writer_close(out, branch);
	}
	writer_close(out, either);
}

void merge_write_filter(struct merge *merge, size_t target, struct buffer *out, const char *name)
{
	size_t filter = writer_open_document(out, name);

	if (merge->windows) {
		write_overlaps(merge, target, out);
	} else {
		write_links(merge, target, out);
		write_generations(merge, out);
	}
	writer_close(out, filter);
}

void merge_write_sort(const struct merge *merge, size_t target, struct buffer *out,
		      const char *name)
{
	const struct rule *rule = merge->namespace->targets[target].rule;
	size_t sort = writer_open_document(out, name);

	writer_int32(out, rule->overflow.link, 1);
	writer_int32(out, overflow_order_path(rule), 1);
	writer_close(out, sort);
}

/* What `_spill` of an overflow document says. */
static bool part_state(const struct element *state, const uint8_t **id, struct part *part)
{
	int64_t position = -1;
	struct element field;
	struct cursor cursor;
	enum cursor_step step;

	*id = NULL;
	if (state->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, state->value))
		return false;
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT) {
		if ((element_is(&field, "g") && !element_generation(&field, id)) ||
		    (element_is(&field, "p") && !element_integer(&field, &position)))
			return false;
		if (element_is(&field, "v")) {
			part->form = PART_VALUE;
			part->type = field.type;
			part->bytes = field.value;
		}
	}
	part->position = (size_t)position;
	return step == CURSOR_END && *id && position >= 0;
}

/* A batch: its state and its elements. */
static bool batch_read(const struct rule *rule, struct bytes document, struct element *state,
		       struct element *elements)
{
	const struct bytes array = bytes_of(rule->overflow.array);
	struct element field;
	struct cursor cursor;
	enum cursor_step step;

	if (!cursor_open(&cursor, document))
		return false;
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT)
		if (bytes_equal(field.name, array))
			*elements = field;
		else if (element_is(&field, STATE_FIELD))
			*state = field;
	return step == CURSOR_END && elements->type == BSON_BYTE_ARRAY;
}

static bool part_read(const struct rule *rule, struct bytes document, const uint8_t **id,
		      struct part *part)
{
	struct element state = {0}, elements = {0};

	*part = (struct part){.form = PART_DOCUMENT, .bytes = document, .next = NONE};
	if (rule->overflow.layout == RULE_ELEMENTS)
		return document_find(document, STATE_FIELD, &state) && part_state(&state, id, part);
	if (!batch_read(rule, document, &state, &elements) || !part_state(&state, id, part))
		return false;
	part->form = PART_ARRAY;
	part->bytes = elements.value;
	return true;
}

must_check bool merge_add_overflow(struct merge *merge, size_t target, struct bytes document)
{
	const struct rule *rule = merge->namespace->targets[target].rule;
	struct generation *generation;
	const uint8_t *id;
	struct part part;
	size_t at;

	if (!part_read(rule, document, &id, &part))
		return false;
	at = generation_find(merge, id, target);
	if (at == NONE)
		return true;
	generation = generation_at(merge, at);
	if (generation->asked != ASKED_BEFORE)
		return true;
	at = LIST_COUNT(merge->parts, struct part);
	*(struct part *)list_add(&merge->parts, sizeof(part)) = part;
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
	return merge_hides(merge, element->name) ||
	       (entry->loses_id && element_is(element, ID_FIELD));
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
