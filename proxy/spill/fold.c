/* Folding an array back into its document, behind the traffic.
 *
 *   I0  the document: no state, nothing to do
 *   I1  its batches, put together
 *   I2  one update, guarded by the whole state: the elements go back behind the head, and all that
 *       Spillway added goes away; or, where the array is to move out again, the next generation
 *       comes, with nothing in it, and what was added stays (as I2 and M1 in one)
 *
 * The array's value does not change by it, so whoever reads or pushes meanwhile is none the wiser.
 */
#include "proxy/spill/fold.h"

#include "proxy/spill/gathering.h"
#include "proxy/upstream/clauses.h"
#include "proxy/upstream/target_read.h"
#include "rules/rule/counts.h"
#include "rules/rule/overflow_document.h"
#include "rules/rule/own_fields.h"
#include "rules/rule/state.h"

#include <bson/bson.h>
#include <stdio.h>

#define DOCUMENT_MAX (16 << 20)
#define EMPTY_DOCUMENT 5
#define TRIES 12
#define TOO_LARGE 10334
#define TOO_LARGE_RESULT 17419

/* Somebody took the array away. */
static void find_state(struct gathering *gathering)
{
	static const uint8_t empty[EMPTY_DOCUMENT] = {EMPTY_DOCUMENT};
	struct plan *plan = &gathering->plan;
	struct element array, state;
	struct state read;

	if (plan->array.data || !state_find(gathering->rule, gathering->main, &state) ||
	    state_read(&state, true, &read) ||
	    plan_find(gathering->main, gathering->rule->array, &array) != PLAN_PATH_MISSING)
		return;
	plan->state = state;
	plan->generation = read.generation;
	plan->head = read.head;
	plan->moved = plan->elements = read.moved;
	plan->array = (struct bytes){empty, sizeof(empty)};
}

/* What is stored may be any number. */
static int64_t plus(int64_t one, int64_t other)
{
	int64_t sum;

	return __builtin_add_overflow(one, other, &sum) ? INT64_MAX : sum;
}

static void lose(struct gathering *gathering, int64_t from, int64_t to)
{
	struct fold_loss *loss = gathering->how->loss;

	if (from >= to)
		return;
	buffer_append(&loss->gaps, &from, sizeof(from));
	buffer_append(&loss->gaps, &to, sizeof(to));
	loss->missing = plus(loss->missing, to - from);
}

/* The first elements, which stay in the document. */
static void begin_loss(struct gathering *gathering)
{
	struct fold_loss *loss = gathering->how->loss;
	const struct plan *plan = &gathering->plan;
	int64_t tail;

	loss->gaps.length = 0;
	loss->missing = 0;
	find_state(gathering);
	tail = plan->length > plan->head ? plan->length - plan->head : 0;
	loss->whole = plus(plus(plan->head, plan->moved), tail);
	if (plan->generation.data && plan->moved > 0)
		lose(gathering, plan->length, plan->head);
}

/* Of the overflow, in front of this place. */
static void lose_before(struct gathering *gathering, int64_t position)
{
	int64_t to = position < gathering->plan.moved ? position : gathering->plan.moved;

	if (!gathering->how->loss || to <= gathering->length)
		return;
	lose(gathering, plus(gathering->plan.head, gathering->length),
	     plus(gathering->plan.head, to));
	gathering->length = to;
}

void gathering_init(struct gathering *gathering, const struct rule *rule,
		    const struct fold_how *how, struct bytes main)
{
	*gathering = (struct gathering){.rule = rule,
					.how = how,
					.main = main,
					.plan = plan_make(rule, main),
					.size = main.length,
					.most = how->most ? how->most : DOCUMENT_MAX,
					.head = -1};
	if (how->loss)
		begin_loss(gathering);
}

void gathering_fini(struct gathering *gathering)
{
	buffer_fini(&gathering->array);
	buffer_fini(&gathering->parts);
	buffer_fini(&gathering->scratch);
}

static void gather_elements(struct gathering *gathering, struct bytes array, int64_t position)
{
	struct cursor cursor;
	size_t count = 0, most;

	lose_before(gathering, position);
	most = (size_t)(gathering->plan.moved - gathering->length);
	/* What overlaps is equal: that was checked. */
	if (position > gathering->length || !cursor_open(&cursor, array) ||
	    !array_skip(&cursor, (size_t)(gathering->length - position), &count)) {
		gathering->broken = !gathering->how->loss;
		return;
	}
	gathering->large =
		gathering->array.length + array.length + gathering->size > gathering->most;
	if (gathering->large)
		return;
	if (!array_writer_copy(&gathering->writer, &cursor, most, &count))
		gathering->broken = true;
	gathering->length += (int64_t)count;
	gathering->kept += (int64_t)count;
}

/* ---- an array that was edited in place ---- */

/* Its overflow comes in no order of positions: what counts is kept, one copy behind the other. */
static void keep_part(struct gathering *gathering, struct bytes batch)
{
	struct placed placed;

	if (!placed_find(batch, &placed))
		gathering->broken = true;
	else if (placed_counts(&placed, &gathering->plan.editions))
		buffer_append(&gathering->parts, batch.data, batch.length);
	gathering->large = gathering->parts.length + gathering->size > gathering->most;
}

static int64_t count_elements(struct bytes array)
{
	struct cursor cursor;
	size_t count = 0;

	return cursor_open(&cursor, array) && array_skip(&cursor, SIZE_MAX, &count) ? (int64_t)count
										    : 0;
}

/* The arrays of the parts, which look into these, and where they count. */
static void list_parts(struct gathering *gathering, struct buffer *arrays, struct buffer *list)
{
	for (size_t at = 0; at < gathering->parts.length;) {
		struct bytes batch = {gathering->parts.data + at,
				      (size_t)load_int32(gathering->parts.data + at)};
		struct counted each = {.index = list->length / sizeof(each)};
		struct bytes array;

		at += batch.length;
		if (!placed_find(batch, &each.placed) ||
		    !overflow_elements(gathering->rule, batch, &gathering->scratch, &array)) {
			gathering->broken = true;
			return;
		}
		each.held = count_elements(array);
		buffer_append(arrays, &array, sizeof(array));
		buffer_append(list, &each, sizeof(each));
	}
}

static void take_piece(struct gathering *gathering, struct bytes array, int64_t skip, int64_t take)
{
	struct cursor cursor;
	size_t count;

	if (!cursor_open(&cursor, array) || !array_skip(&cursor, (size_t)skip, &count) ||
	    !array_writer_copy(&gathering->writer, &cursor, (size_t)take, &count)) {
		gathering->broken = true;
		return;
	}
	gathering->length += (int64_t)count;
	gathering->kept += (int64_t)count;
}

void gathering_end(struct gathering *gathering)
{
	auto_buffer struct buffer arrays = {0}, list = {0};
	enum counts_step step = COUNTS_HOLE;
	const struct counted *of;
	struct counts counts;
	int64_t skip, take;

	if (!plan_is_edited(&gathering->plan) || gathering->large || gathering->broken)
		return;
	list_parts(gathering, &arrays, &list);
	if (list.length == 0 || gathering->broken) {
		gathering->broken = true;
		return;
	}
	counts_open(&counts, &gathering->plan.editions, (struct counted *)(void *)list.data,
		    list.length / sizeof(struct counted));
	while (!gathering->broken &&
	       (step = counts_next(&counts, &of, &skip, &take)) == COUNTS_PIECE)
		take_piece(gathering, ((struct bytes *)(void *)arrays.data)[of->index], skip, take);
	gathering->broken |= step != COUNTS_END;
}

void gathering_take(void *context, struct bytes batch)
{
	struct gathering *gathering = context;
	struct bytes generation = overflow_generation(batch);
	struct bytes array;
	int64_t position;

	gathering->foreign |= !generation.data;
	if (plan_is_edited(&gathering->plan)) {
		if (generation.data && !gathering->broken && !gathering->large)
			keep_part(gathering, batch);
		return;
	}
	if (gathering->broken || gathering->large || !generation.data ||
	    !bytes_equal(generation, gathering->plan.generation) ||
	    gathering->length >= gathering->plan.moved)
		return;
	if (!overflow_elements(gathering->rule, batch, &gathering->scratch, &array) ||
	    !document_find_integer(batch, "_spill.p", &position) || position < 0)
		gathering->broken = !gathering->how->loss;
	else
		gather_elements(gathering, array, position);
}

/* The document stays as it is then, with a total that nobody else has kept. */
static bool is_counted(const struct gathering *gathering, const struct element *state)
{
	return gathering->how->purpose == FOLD_LEAVES && own_total_is_kept(gathering->rule, state);
}

static void write_push(struct buffer *out, const char *name, const void *context)
{
	const struct gathering *gathering = context;

	if (gathering->kept > 0)
		template_write(out, name, "{'@array': {$each: @elements, $position: @head}}",
			       fill("array", gathering->rule->array),
			       fill_array("elements", buffer_view(&gathering->array)),
			       fill("head", gathering->plan.head));
}

/* The states of other arrays; nothing where there are none. */
static void write_staying(struct buffer *out, const struct rule *rule, struct bytes states)
{
	size_t start = writer_open(out), empty = out->length;
	struct cursor cursor;
	struct element each;

	if (cursor_open(&cursor, states))
		while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
			if (!element_is(&each, rule->key))
				writer_element(out, &each);
	if (out->length == empty)
		out->length = start;
	else
		writer_close(out, start);
}

/* `_spill` goes as a whole where nothing is left in it. A change stream tells a fold from a
 * client's write by this: the latter takes a state out of `_spill`. */
static void splice_going(struct buffer *out, size_t *place, const void *context)
{
	const struct own_fields_back *back = context;

	if (back->staying.length == 0)
		writer_text(out, "_spill", (struct bytes){0});
	own_fields_splice_going(out, place, back);
}

#define PUT_BACK(condition, changes) \
	"{q: {_id: {$eq: @id}, _spill: {$eq: @states}" condition "}, u: {$push: @push, " changes \
	"}}"

/* I2 and M1 in one. The new state remembers what the one before it did. */
static void write_anew(struct buffer *out, const struct mover_target *target,
		       const struct gathering *gathering, const struct element *states,
		       const struct element *state)
{
	uint8_t generation[GENERATION_BYTES];
	struct element added = {0}, before = {0};

	(void)!document_find(state->value, "a", &added);
	(void)!document_find(state->value, "b", &before);
	target_new_generation(target, generation);
	template_write_document(
		out,
		PUT_BACK("", "$set: {'_spill.@key': {g: @new, h: @head, n: 0L, a: @a, b: @b}}"),
		fill("id", &gathering->plan.id), fill("states", states),
		fill_with("push", write_push, gathering), fill("key", target->rule->key),
		fill_binary("new", (struct bytes){generation, sizeof(generation)}),
		fill("head", gathering->head), fill("a", &added), fill("b", &before));
}

/* I2 alone: the rule's fields are as they were before; those that Spillway added go with the state.
 * If elements are counted, the document has as many as were read. */
static void write_whole(struct buffer *out, const struct mover_target *target,
			const struct gathering *gathering, const struct element *states,
			const struct element *state)
{
	bool counted = is_counted(gathering, state);
	int64_t length = counted ? gathering->plan.length : -1;
	auto_buffer struct buffer staying = {0};
	struct own_fields_back back = {.rule = target->rule,
				       .state = state,
				       .total = counted ? length + gathering->length : -1};

	write_staying(&staying, target->rule, states->value);
	back.staying = buffer_view(&staying);
	template_write_document(
		out, PUT_BACK(", '@array': @counted", "$set: @returning, $unset: {..@going}"),
		fill("id", &gathering->plan.id), fill("states", states),
		fill_with("push", write_push, gathering), fill("array", target->rule->array),
		command_fill_size("counted", &length),
		fill_with("returning", own_fields_write_returning, &back),
		fill_spliced("going", splice_going, &back));
}

void gathering_write(const struct gathering *gathering, const struct mover_target *target,
		     struct buffer *statements)
{
	struct element states, state;

	require(document_find(gathering->main, "_spill", &states) &&
		document_find(states.value, target->rule->key, &state));
	(gathering->head >= 0 ? write_anew : write_whole)(statements, target, gathering, &states,
							  &state);
}

/* I2. `folded`: the guard held. */
static enum link_result put_back(struct link *link, const struct mover_target *target,
				 const struct gathering *gathering, bool *folded)
{
	auto_buffer struct buffer statement = {0};
	enum link_result result;

	gathering_write(gathering, target, &statement);
	result = command_run(link, target->database,
			     "{update: @collection, updates: [..@statements], writeConcern: "
			     "@write_concern}",
			     fill("collection", target->collection),
			     fill_documents("statements", buffer_view(&statement)));
	*folded = result == LINK_DONE && link_reply(link)->n == 1;
	return result;
}

/* `_spill: {}` is what the last state leaves where it was not alone. */
static enum link_result take_empty_state(struct link *link, const struct mover_target *target,
					 const struct element *id)
{
	return command_run(link, target->database,
			   "{update: @collection, updates: [{q: {_id: {$eq: @id}, _spill: {}}, u: "
			   "{$unset: {_spill: ''}}}], writeConcern: @write_concern}",
			   fill("collection", target->collection), fill("id", id));
}

/* The array as it will stand in the document. */
static bool write_array(const struct gathering *gathering, struct buffer *out)
{
	struct array_writer writer;
	struct cursor own, overflow;
	size_t count;
	bool written;

	array_writer_open(&writer, out);
	written = cursor_open(&own, gathering->plan.array) &&
		  cursor_open(&overflow, buffer_view(&gathering->array)) &&
		  array_writer_copy(&writer, &own, (size_t)gathering->plan.head, &count) &&
		  array_writer_copy(&writer, &overflow, ARRAY_WRITER_MAX, &count) &&
		  array_writer_copy(&writer, &own, ARRAY_WRITER_MAX, &count);
	array_writer_close(&writer);
	return written;
}

/* Of the generation that follows. */
static void find_head(struct gathering *gathering)
{
	auto_buffer struct buffer whole = {0};
	struct plan fresh = gathering->plan;

	if (gathering->how->purpose < FOLD_ANEW || gathering->foreign ||
	    gathering->plan.moved == 0 || !write_array(gathering, &whole))
		return;
	fresh.array = buffer_view(&whole);
	if (plan_measure(gathering->rule, &fresh) &&
	    !plan_never_moved(gathering->rule, gathering->main, &fresh))
		gathering->head = fresh.head;
}

static bool rests(const struct gathering *gathering)
{
	return gathering->how->purpose == FOLD_ANOTHER &&
	       (gathering->foreign || gathering->head == gathering->plan.head);
}

/* Too few: the generation has just died. */
bool gathering_is_whole(const struct gathering *gathering)
{
	return !gathering->large && !gathering->broken &&
	       gathering->length >= gathering->plan.elements;
}

/* I1 and I2 on an image whose state can be read. False: once more. */
static enum link_result fold_image(struct link *link, struct mover_target *target,
				   struct gathering *gathering, enum fold *end)
{
	bool folded = false;
	enum link_result result = LINK_DONE;

	array_writer_open(&gathering->writer, &gathering->array);
	if (gathering->plan.moved > 0)
		result = (gathering->how->loss ? target_read_places : target_read_overflow)(
			link, target, &gathering->plan.id, gathering_take, gathering);
	if (result == LINK_DONE)
		gathering_end(gathering);
	if (result == LINK_DONE)
		lose_before(gathering, gathering->plan.moved);
	array_writer_close(&gathering->writer);
	*end = FOLD_BUSY;
	if (result != LINK_DONE)
		return result;
	if (gathering->large)
		*end = FOLD_TOO_LARGE;
	if (!gathering_is_whole(gathering))
		return LINK_DONE;
	find_head(gathering);
	if (rests(gathering)) {
		*end = FOLD_RESTS;
		return LINK_DONE;
	}
	if (!gathering->how->looks)
		result = put_back(link, target, gathering, &folded);
	else
		folded = true;
	if (result == LINK_REFUSED &&
	    (link_error(link)->code == TOO_LARGE || link_error(link)->code == TOO_LARGE_RESULT)) {
		*end = FOLD_TOO_LARGE;
		return LINK_DONE;
	}
	if (folded)
		*end = FOLD_DONE;
	return result;
}

/* Whether its state says where the elements are. That of an array that was edited in place does so
 * of batches alone: no Spillway has written another. */
static bool is_understood(const struct gathering *gathering)
{
	const struct plan *plan = &gathering->plan;

	return plan->generation.data && plan->kind != PLAN_BROKEN &&
	       !(plan_is_edited(plan) &&
		 (gathering->how->loss || gathering->rule->overflow.layout != RULE_BATCHES));
}

/* A document with `states`. */
static enum link_result fold_states(struct link *link, struct mover_target *target,
				    struct gathering *gathering, const struct element *states,
				    enum fold *end)
{
	struct element state;

	if (states->type == BSON_BYTE_DOCUMENT && states->value.length == EMPTY_DOCUMENT)
		return !gathering->how->looks ? take_empty_state(link, target, &gathering->plan.id)
					      : LINK_DONE;
	if (states->type == BSON_BYTE_DOCUMENT &&
	    !document_find(states->value, target->rule->key, &state))
		return LINK_DONE;
	if (is_understood(gathering))
		return fold_image(link, target, gathering, end);
	*end = FOLD_BROKEN;
	return LINK_DONE;
}

static enum link_result fold_once(struct link *link, struct mover_target *target,
				  const struct element *id, const struct fold_how *how,
				  enum fold *end, int64_t *elements)
{
	struct gathering gathering = {0};
	struct element states;
	struct bytes main;
	uint8_t *image = NULL;
	enum link_result result = target_read_document(link, target, id, &image, &main);

	*end = FOLD_DONE;
	if (how->loss)
		how->loss->whole = -1;
	if (result == LINK_DONE && image && document_find(main, "_spill", &states)) {
		gathering_init(&gathering, target->rule, how, main);
		result = fold_states(link, target, &gathering, &states, end);
		*elements = *end == FOLD_DONE ? gathering.length : 0;
	}
	gathering_fini(&gathering);
	bson_free(image);
	return result;
}

must_check enum link_result fold_document(struct link *link, struct mover_target *target,
					  const struct element *id, const struct fold_how *how,
					  enum fold *end, int64_t *elements)
{
	enum link_result result = LINK_DONE;

	*elements = 0;
	*end = FOLD_BUSY;
	for (int i = 0; result == LINK_DONE && *end == FOLD_BUSY && i < TRIES; i++) {
		if (i > 0 && !link_pause(link, 10 << (i < 7 ? i : 7)))
			return LINK_LOST;
		result = fold_once(link, target, id, how, end, elements);
	}
	return result;
}
