/* Tests rules/edit/place_batches.c: the numbers of copies. */
#include "tests/unit/shop.h"

#include "protocol/template.h"
#include "protocol/writer.h"
#include "rules/edit/edit_inner.h"

#include <criterion/criterion.h>
#include <time.h>

/* Of this reply to LOWEST. */
static int64_t lowest(const struct edit *edit, const char *documents)
{
	const char *text = made_text("{'cursor': {'firstBatch': [%s], 'id': {'$numberLong': '0'}, "
				     "'ns': 'shop.books_more'}, 'ok': 1.0}",
				     documents);
	struct packet reply = {.summary = reply_summarise(made_bson(text))};

	return place_lowest(edit, &reply);
}

Test(place_batches, copies_are_numbered_below_others)
{
	struct shop shop = shop_open();
	struct edit edit = {.namespace = namespace_cache_find(shop.cache, bytes_of("shop"),
							      bytes_of("books"), NULL)};

	cr_assert_eq(lowest(&edit, ""), 0);
	cr_assert_eq(lowest(&edit, "{'_spill': {'i': 1}}"), 0);
	cr_assert_eq(lowest(&edit, "{'_spill': {'i': -5}}"), -5);
	cr_assert_eq(lowest(&edit, "{'_spill': {'i': -1073741823}}"), -1073741823);
	shop_close(&shop);
}

/* The same numbers again would be those of copies that count: each edit would lose. */
Test(place_batches, behind_the_last_number_they_begin_anywhere)
{
	struct shop shop = shop_open();
	struct edit edit = {.namespace = namespace_cache_find(shop.cache, bytes_of("shop"),
							      bytes_of("books"), NULL)};
	int64_t first = lowest(&edit, "{'_spill': {'i': -1073741824}}"), other = first;

	for (int i = 0; i < 20; i++) {
		int64_t next = lowest(&edit, "{'_spill': {'i': -2000000000}}");

		cr_assert(next <= 0 && next > -1073741824);
		other = next != first ? next : other;
	}
	cr_assert_neq(first, other);
	shop_close(&shop);
}

/* ---- very many batches ---- */

#define MANY 100000
#define MOST_SECONDS 5 /* some tenths of one; what grows by the square takes minutes */

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A reply of {_id: n} documents, each with these fields. */
static struct packet reply_of(struct buffer *body, bool backwards, bool tiles)
{
	size_t document = writer_open(body), cursor = writer_open_document(body, "cursor");
	size_t batch = writer_open_array(body, "firstBatch"), each;
	char index[12];

	for (int32_t i = 0; i < MANY; i++) {
		int32_t number = backwards ? MANY - 1 - i : i;

		each = writer_open_document(body, writer_index(index, (size_t)i));
		writer_int32(body, "_id", number);
		if (tiles)
			template_write_fields(body, "{_spill: {g: @g, p: @p}, bytes: 100}",
					      fill_binary("g", bytes_of("sixteen of a gen")),
					      fill("p", number));
		writer_close(body, each);
	}
	writer_close(body, batch);
	writer_int64(body, "id", 0);
	writer_close(body, cursor);
	writer_double(body, "ok", 1.0);
	writer_close(body, document);
	return (struct packet){.summary = reply_summarise(buffer_view(body))};
}

Test(place_batches, a_reply_in_another_order_takes_no_longer)
{
	struct shop shop = shop_open();
	struct edit edit = {.namespace = namespace_cache_find(shop.cache, bytes_of("shop"),
							      bytes_of("books"), NULL)};
	auto_buffer struct buffer tiles = {0}, there = {0}, back = {0};
	struct packet listed = reply_of(&tiles, false, true);
	struct packet in_order = reply_of(&there, false, false);
	struct packet backwards = reply_of(&back, true, false);
	double start = seconds();

	template_write_document(&edit.place.main, "{bytes: 100}");
	cr_assert(place_list(&edit, &listed));
	cr_expect(place_take_asked(&edit, &in_order));
	cr_expect(place_take_asked(&edit, &backwards));
	cr_expect_lt(seconds() - start, MOST_SECONDS);
	edit_place_fini(&edit.place);
	shop_close(&shop);
}
