/* Tests rules/merge: arrays that were edited in place, against a model of their editions. */
#include "tests/unit/wire_make.h"

#include "protocol/writer.h"
#include "rules/merge/merge.h"
#include "rules/rule/generation.h"

#define HEAD 2
#define ELEMENTS_MAX 64
#define BATCHES_MAX 64
#define EDITIONS 4

static struct rule rule = {
	.name = "plain",
	.array = "f",
	.key = "f",
	.threshold = 3,
	.overflow = {.link = "book", .array = "more", .batch_size = 4},
};
static struct target target = {.rule = &rule};
static const struct ruled_namespace books = {
	.database = "shop", .collection = "books", .target_count = 1, .targets = &target};

static const uint8_t names[2][GENERATION_BYTES] = {{1}, {2}};

/* An overflow document. */
struct batch {
	int number, name, position, width; /* width: -1 of what is no copy */
	int first, until;                  /* until: 0 if it counts for ever */
	int count, elements[8];
};

struct model {
	struct batch batches[BATCHES_MAX];
	int count, bound, moved;
	int removed[EDITIONS];
	int lengths[EDITIONS], arrays[EDITIONS][ELEMENTS_MAX]; /* the overflow, in each edition */
};

static int below(int most)
{
	return (int)arc4random_uniform((uint32_t)most);
}

static void store(struct model *model, int name, int until)
{
	while (model->moved < until) {
		struct batch *batch = &model->batches[model->count];

		*batch = (struct batch){.number = model->count + 1, .name = name, .width = -1};
		batch->position = model->moved;
		for (int size = 1 + below(4); batch->count < size && model->moved < until;)
			batch->elements[batch->count++] = model->moved++;
		model->count++;
	}
}

/* What counts in an edition, in order. */
static struct batch *find(struct model *model, int position, int edition)
{
	for (int i = 0; i < model->count; i++) {
		struct batch *each = &model->batches[i];

		if (each->position == position && each->first <= edition &&
		    (each->until == 0 || each->until > edition))
			return each;
	}
	cr_assert(false, "no batch holds %d", position);
	return NULL;
}

static void note(struct model *model, int edition)
{
	int position = 0;

	while (position < model->moved) {
		const struct batch *batch = find(model, position, edition);

		memcpy(&model->arrays[edition][model->lengths[edition]], batch->elements,
		       (size_t)batch->count * sizeof(int));
		model->lengths[edition] += batch->count;
		position += batch->width >= 0 ? batch->width : batch->count;
	}
	model->removed[edition] = model->moved - model->lengths[edition];
}

/* Some batches become copies with elements removed or changed. */
static void edit(struct model *model, int edition, int *lowest)
{
	int position = 0;

	while (position < model->moved) {
		struct batch *old = find(model, position, edition - 1), *copy;
		int width = old->width >= 0 ? old->width : old->count;

		position += width;
		if (below(3) > 0)
			continue;
		copy = &model->batches[model->count++];
		*copy = *old;
		copy->number = --*lowest;
		copy->name = 1;
		copy->width = width;
		copy->first = edition;
		copy->count = 0;
		old->until = edition;
		for (int i = 0; i < old->count; i++)
			if (below(3) > 0)
				copy->elements[copy->count++] = old->elements[i] + 100 * below(2);
	}
	note(model, edition);
}

static struct model made_model(void)
{
	struct model model = {0};
	int lowest = 0;

	store(&model, 0, 3 + below(9));
	model.bound = model.moved;
	store(&model, 1, model.moved + below(9));
	note(&model, 0);
	for (int edition = 1; edition < EDITIONS; edition++)
		edit(&model, edition, &lowest);
	return model;
}

static void write_name(struct buffer *out, const char *field, int name)
{
	writer_binary(out, field, (struct bytes){names[name], GENERATION_BYTES});
}

static void write_numbers(struct buffer *out, const char *field, const int *numbers, int count)
{
	size_t array = writer_open_array(out, field);
	char name[12];

	for (int i = 0; i < count; i++)
		writer_int32(out, writer_index(name, (size_t)i), numbers[i]);
	writer_close(out, array);
}

static struct bytes made_main(const struct model *model, int edition)
{
	static const int own[] = {-1, -2, -3};
	auto_buffer struct buffer out = {0};
	size_t document = writer_open(&out), states, state, editions;

	writer_int32(&out, "_id", 7);
	write_numbers(&out, "f", own, ARRAY_LENGTH(own));
	states = writer_open_document(&out, "_spill");
	state = writer_open_document(&out, "f");
	editions = writer_open_document(&out, "e");
	write_name(&out, "g", 0);
	write_name(&out, "l", 1);
	writer_int64(&out, "b", model->bound);
	writer_int64(&out, "h", HEAD);
	writer_int64(&out, "n", model->moved);
	writer_int64(&out, "r", model->removed[edition]);
	writer_int32(&out, "v", edition);
	writer_close(&out, editions);
	writer_close(&out, state);
	writer_close(&out, states);
	writer_close(&out, document);
	return made_copy(buffer_view(&out));
}

static struct bytes made_batch(const struct batch *batch)
{
	auto_buffer struct buffer out = {0};
	size_t document = writer_open(&out), state;

	writer_int32(&out, "book", 7);
	write_numbers(&out, "more", batch->elements, batch->count);
	state = writer_open_document(&out, "_spill");
	write_name(&out, "g", batch->name);
	writer_int64(&out, "p", batch->position);
	writer_int32(&out, "i", batch->number);
	if (batch->first > 0)
		writer_int32(&out, "e", batch->first);
	if (batch->until > 0)
		writer_int32(&out, "u", batch->until);
	if (batch->width >= 0)
		writer_int64(&out, "w", batch->width);
	writer_close(&out, state);
	writer_close(&out, document);
	return made_copy(buffer_view(&out));
}

static int by_number(const void *one, const void *other)
{
	return ((const struct batch *)one)->number - ((const struct batch *)other)->number;
}

/* All of the overflow but the batch `lost`, by numbers, as a find brings it. */
static struct merge *made_merge(struct model model, int edition, const struct window *window,
				int lost)
{
	struct merge *merge = merge_new(&books);
	auto_buffer struct buffer query = {0};
	size_t document = writer_open(&query);

	if (window)
		merge_set_windows(merge, window);
	cr_assert(merge_add_document(merge, made_main(&model, edition)) == MERGE_TAKEN);
	if (merge_wants(merge, 0))
		merge_write_filter(merge, 0, &query, "filter");
	cr_assert_not(merge_wants(merge, 0));
	writer_close(&query, document);
	qsort(model.batches, (size_t)model.count, sizeof(*model.batches), by_number);
	for (int i = 0; i < model.count; i++)
		if (i != lost)
			cr_assert(merge_add_overflow(merge, 0, made_batch(&model.batches[i])));
	return merge;
}

/* The document, with the elements [from, to) of the whole array. */
static struct bytes made_whole(const struct model *model, int edition, int from, int to)
{
	auto_buffer struct buffer out = {0};
	int whole[ELEMENTS_MAX + 3] = {-1, -2};
	size_t document = writer_open(&out);

	memcpy(whole + HEAD, model->arrays[edition],
	       (size_t)model->lengths[edition] * sizeof(*whole));
	whole[HEAD + model->lengths[edition]] = -3;
	writer_int32(&out, "_id", 7);
	write_numbers(&out, "f", whole + from, to - from);
	writer_close(&out, document);
	return made_copy(buffer_view(&out));
}

static void expect(const struct model *model, int edition, const struct window *window, int from,
		   int to)
{
	struct merge *merge = made_merge(*model, edition, window, -1);
	auto_buffer struct buffer out = {0};

	cr_assert(merge_write_document(merge, 0, &out));
	cr_assert(bytes_equal(buffer_view(&out), made_whole(model, edition, from, to)));
	merge_free(merge);
}

Test(merge_editions, each_edition_is_what_it_was)
{
	for (int i = 0; i < 500; i++) {
		const struct model model = made_model();

		for (int edition = 0; edition < EDITIONS; edition++)
			expect(&model, edition, NULL, 0, HEAD + model.lengths[edition] + 1);
	}
}

Test(merge_editions, a_window_counts_elements_and_no_positions)
{
	for (int i = 0; i < 500; i++) {
		const struct model model = made_model();
		int edition = below(EDITIONS), length = HEAD + model.lengths[edition] + 1;
		int from = below(length), count = 1 + below(8);
		const struct window first = {&target, from, count, true, false};
		const struct window last = {&target, 0, -count, false, false};

		expect(&model, edition, &first, from,
		       from + count < length ? from + count : length);
		expect(&model, edition, &last, count < length ? length - count : 0, length);
	}
}

Test(merge_editions, a_batch_that_counts_and_is_missing_is_a_hole)
{
	for (int i = 0; i < 500; i++) {
		const struct model model = made_model();
		int edition = below(EDITIONS), lost = below(model.count);
		struct model sorted = model;
		struct batch *batch = &sorted.batches[lost];
		struct merge *merge = made_merge(model, edition, NULL, lost);
		auto_buffer struct buffer out = {0};
		bool counts;

		qsort(sorted.batches, (size_t)sorted.count, sizeof(*sorted.batches), by_number);
		counts = batch->first <= edition && (batch->until == 0 || batch->until > edition);
		if (model.lengths[edition] > 0)
			cr_assert_eq(merge_write_document(merge, 0, &out), !counts);
		merge_free(merge);
	}
}

Test(merge_editions, both_names_are_asked_for_without_bounds)
{
	const struct window window = {&target, 5, 1, true, false};
	struct model model = {0};
	struct merge *merge = merge_new(&books);
	auto_buffer struct buffer query = {0};
	struct element filter, branches, branch, field;
	size_t document = writer_open(&query), count = 0;
	struct cursor cursor;

	store(&model, 0, 9);
	model.bound = 6;
	merge_set_windows(merge, &window);
	cr_assert(merge_add_document(merge, made_main(&model, 0)) == MERGE_TAKEN);
	merge_write_filter(merge, 0, &query, "filter");
	writer_close(&query, document);
	cr_assert(document_find(buffer_view(&query), "filter", &filter));
	cr_assert(document_find(filter.value, "$or", &branches));
	cr_assert(cursor_open(&cursor, branches.value));
	while (cursor_next(&cursor, &branch) == CURSOR_ELEMENT) {
		cr_assert(document_find(branch.value, "_spill.g", &field));
		cr_assert_not(document_find(branch.value, "_spill.p", &field));
		cr_assert_not(document_find(branch.value, "_spill.i", &field));
		count++;
	}
	cr_assert(count == 2);
	merge_free(merge);
}

Test(merge_editions, an_array_of_a_rule_that_is_gone_is_not_shown_as_whole)
{
	struct merge *merge = merge_new(&books);

	cr_assert(merge_add_document(merge, made_bson("{'_id': 1, '_spill': {'x': {'e': {}}}}")) ==
		  MERGE_FOREIGN);
	cr_assert(merge_add_document(merge, made_bson("{'_id': 1, 'f': [], '_spill': {'f': "
						      "{'e': {}}}}")) == MERGE_BROKEN);
	merge_free(merge);
}
