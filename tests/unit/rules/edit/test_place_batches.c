/* Tests rules/edit/place_batches.c: the numbers of copies. */
#include "tests/unit/shop.h"

#include "rules/edit/edit_inner.h"

#include <criterion/criterion.h>

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
