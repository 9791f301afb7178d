/* Tests rules/query/window.c: every small window of every small array, in whatever way it is
 * spilled. */
#include "tests/unit/shop.h"

#include "protocol/writer.h"
#include "rules/query/window.h"

#define THRESHOLD 2 /* of shop.books */

static struct shop shop;

static const struct ruled_namespace *books(void)
{
	bool full;

	return namespace_cache_find(shop.cache, bytes_of("shop"), bytes_of("books"), &full);
}

static bool read_window(const char *projection, struct window *window)
{
	return windows_of(made_bson(projection), books(), window);
}

/* find's own $slice, on numbers. */
static size_t slice(const int *from, size_t length, int64_t skip, int64_t count, int *to)
{
	int64_t start = skip < 0 ? (int64_t)length + skip : skip;
	size_t taken = 0;

	if (start < 0)
		start = 0;
	for (int64_t i = start; i < start + count && i < (int64_t)length; i++)
		to[taken++] = from[i];
	return taken;
}

/* What main keeps, what the overflow has, and the array that they are. */
struct spilled {
	int main[16], overflow[16], whole[16];
	size_t head, count, tail;
};

static struct spilled spilled_of(size_t head, size_t count, size_t tail)
{
	struct spilled spilled = {.head = head, .count = count, .tail = tail};

	for (size_t i = 0; i < head + count + tail; i++) {
		spilled.whole[i] = (int)i;
		if (i < head)
			spilled.main[i] = (int)i;
		else if (i < head + count)
			spilled.overflow[i - head] = (int)i;
		else
			spilled.main[i - count] = (int)i;
	}
	return spilled;
}

static size_t asked_of_main(const struct spilled *spilled, const struct window *window, int *came)
{
	auto_buffer struct buffer projection = {0};
	size_t start = writer_open(&projection), length = spilled->head + spilled->tail;
	struct element field;
	int64_t number;

	if (window->whole) {
		memcpy(came, spilled->main, length * sizeof(*came));
		return length;
	}
	window_write_wider(&projection, window);
	writer_close(&projection, start);
	cr_assert(document_find_path(buffer_view(&projection), "f.$slice", &field));
	cr_assert(element_integer(&field, &number));
	return number < 0 ? slice(spilled->main, length, number, -number, came)
			  : slice(spilled->main, length, 0, number, came);
}

static void check(const struct spilled *spilled, const struct window *window)
{
	int64_t skip = window->skips ? window->skip : window->count < 0 ? window->count : 0;
	int came[16], wanted[16], found[16];
	size_t there = asked_of_main(spilled, window, came), at = 0;
	size_t length = slice(spilled->whole, spilled->head + spilled->count + spilled->tail, skip,
			      window->count < 0 ? -window->count : window->count, wanted);
	struct window_cut cut;

	cr_assert_eq(window_cut(window, there, spilled->head, spilled->count, &cut), WINDOW_FITS);
	cr_assert_leq(cut.skip + cut.head + cut.pass + cut.tail, there);
	cr_assert_leq(cut.until, spilled->count);
	for (size_t i = 0; i < cut.head; i++)
		found[at++] = came[cut.skip + i];
	for (size_t i = cut.first; i < cut.until; i++)
		found[at++] = spilled->overflow[i];
	for (size_t i = 0; i < cut.tail; i++)
		found[at++] = came[cut.skip + cut.head + cut.pass + i];
	cr_assert_eq(at, length, "h %zu, n %zu, tail %zu, [%d, %d]", spilled->head, spilled->count,
		     spilled->tail, (int)skip, window->count);
	cr_assert_eq(memcmp(found, wanted, at * sizeof(*found)), 0);
}

static void check_all(const struct window *window)
{
	for (size_t head = 0; head <= (window->whole ? 2 * THRESHOLD : THRESHOLD); head++)
		for (size_t count = 0; count <= 4; count++)
			for (size_t tail = 0; tail <= 4; tail++) {
				struct spilled spilled = spilled_of(head, count, tail);

				check(&spilled, window);
			}
}

Test(window, each_is_what_find_would_cut_out_of_the_whole_array)
{
	struct window window = {0};

	shop = shop_open();
	window.target = &books()->targets[0];
	for (int whole = 0; whole < 2; whole++) {
		window.whole = whole;
		window.skips = false;
		for (window.count = -9; window.count <= 9; window.count++)
			check_all(&window);
		window.skips = true;
		for (window.skip = -12; window.skip <= 12; window.skip++)
			for (window.count = 1; window.count <= 12; window.count++)
				check_all(&window);
	}
	shop_close(&shop);
}

static bool read_mark(const char *mark, struct window *window)
{
	struct element element = {.type = BSON_BYTE_DOCUMENT, .value = made_bson(mark)};

	return windows_of_mark(&element, books(), window);
}

Test(window, a_document_s_mark_says_which_is_wanted)
{
	static const char *const broken[] = {
		"{'f': 5}",
		"{'f': {}}",
		"{'f': []}",
		"{'f': [1, 2]}",
		"{'f': [1, 2, true, 3]}",
		"{'f': [1, 2, 1]}",
		"{'f': ['a', 2, true]}",
		"{'f': [1, {'$numberLong': '2'}, true]}",
	};
	struct element number = {.type = BSON_BYTE_INT32};
	struct window window = {0};

	shop = shop_open();
	cr_assert(read_mark("{'f': [3, 4, true]}", &window));
	cr_assert_eq(window.target, &books()->targets[0]);
	cr_assert_eq(window.skip, 3);
	cr_assert_eq(window.count, 4);
	cr_assert(window.skips && window.whole);
	cr_assert(read_mark("{'f': [0, -2, false]}", &window));
	cr_assert_eq(window.count, -2);
	cr_assert_not(window.skips);
	cr_assert(read_mark("{}", &window));
	cr_assert_null(window.target);
	for (size_t i = 0; i < ARRAY_LENGTH(broken); i++)
		cr_assert_not(read_mark(broken[i], &window), "%s", broken[i]);
	cr_assert_not(windows_of_mark(&number, books(), &window));
	shop_close(&shop);
}

Test(window, an_array_that_lacks_its_head_is_broken_and_a_long_head_needs_another_way)
{
	struct window window = {.count = 5};
	struct window_cut cut;

	shop = shop_open();
	window.target = &books()->targets[0];
	cr_assert_eq(window_cut(&window, 1, 2, 3, &cut), WINDOW_BROKEN);
	cr_assert_eq(window_cut(&window, 5, 9, 3, &cut), WINDOW_FITS);
	window.count = -5;
	cr_assert_eq(window_cut(&window, 1, 2, 3, &cut), WINDOW_BROKEN);
	cr_assert_eq(window_cut(&window, 5, THRESHOLD + 1, 3, &cut), WINDOW_BEYOND);
	shop_close(&shop);
}

/* Their sums would be less than nothing. */
Test(window, a_state_with_impossible_numbers_is_broken)
{
	struct window window;
	struct window_cut cut;

	shop = shop_open();
	cr_assert(read_window("{'f': {'$slice': 5}}", &window));
	cr_assert_eq(window_cut(&window, 9, 2, INT64_MAX, &cut), WINDOW_BROKEN);
	cr_assert_eq(window_cut(&window, 9, INT64_MAX, 3, &cut), WINDOW_BROKEN);
	cr_assert_eq(window_cut(&window, 9, 2, INT64_MAX / 2, &cut), WINDOW_FITS);
	cr_assert_eq(cut.head + cut.until - cut.first, 5);
	cr_assert_eq(cut.tail, 0);
	shop_close(&shop);
}

Test(window, the_largest_numbers_there_are)
{
	struct window window;
	struct window_cut cut;

	shop = shop_open();
	cr_assert(read_window("{'f': {'$slice': [2147483647, 2147483647]}}", &window));
	cr_assert_eq(window_cut(&window, 3, 2, 4, &cut), WINDOW_FITS);
	cr_assert_eq(cut.head + cut.tail + cut.until - cut.first, 0);
	cr_assert(read_window("{'f': {'$slice': [-2147483647, 2147483647]}}", &window));
	cr_assert_eq(window_cut(&window, 3, 2, 4, &cut), WINDOW_FITS);
	cr_assert_eq(cut.head, 2);
	cr_assert_eq(cut.until - cut.first, 4);
	cr_assert_eq(cut.tail, 1);
	shop_close(&shop);
}

Test(window, a_projection_of_nothing_else)
{
	static const char *const others[] = {
		"{'x': 1}",
		"{'f': {'$slice': 1.5}}",
		"{'f': {'$slice': [1, 0]}}",
		"{'f': {'$slice': 1, '$x': 1}}",
		"{'f': {'$slice': ['$f', 1]}}",
		"{'f': {'$slice': 1}, 'n': {'$size': '$f'}}",
		"{'f': {'$slice': 1}, 'n': '$f'}",
		"{'f': {'$slice': 1}, 'n': ['$f']}",
		"{'f': {'$slice': 1}, 'g': {'$slice': 1}}",
		"{'f': 1}",
	};
	struct window window;

	shop = shop_open();
	cr_assert(read_window("{'f': {'$slice': -3}, 'x': 1, '_id': 0}", &window));
	cr_assert_eq(window.count, -3);
	cr_assert_not(window.skips || window.whole);
	for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
		cr_assert_not(read_window(others[i], &window), "%s", others[i]);
	shop_close(&shop);
}

Test(window, a_find_whose_documents_come_in_one_reply)
{
	static const struct {
		const char *options;
		bool one;
	} finds[] = {
		{"'x': 1", false},
		{"'x': 1, 'batchSize': 100", false},
		{"'x': 1, 'batchSize': 101", false},
		{"'singleBatch': true", false},
		{"'singleBatch': true, 'limit': 5", false},
		{"'singleBatch': true, 'limit': 1", true},
		{"'limit': 101", true},
		{"'limit': 102", false},
		{"'limit': 102, 'batchSize': 50", false},
		{"'limit': 5, 'batchSize': 4", false},
		{"'limit': 5, 'batchSize': 5", true},
		{"'filter': {'_id': 5}", true},
		{"'filter': {'_id': 5}, 'batchSize': 1", false},
		{"'filter': {'_id': {'$in': [5]}}, 'batchSize': 2", false},
		{"'filter': {'_id': {'$regularExpression': {'pattern': 'a', 'options': ''}}}, "
		 "'batchSize': 2",
		 false},
		{"'filter': {'_id': 'a'}, 'collation': {'locale': 'de'}, 'batchSize': 2", false},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(finds); i++) {
		char json[256];
		struct command command;

		snprintf(json, sizeof(json), "{'find': 'books', %s, '$db': 'shop'}",
			 finds[i].options);
		cr_assert(command_parse(made_bson(json), &command));
		cr_assert_eq(window_in_one_reply(&command), finds[i].one, "%s", json);
	}
	made_free();
}
