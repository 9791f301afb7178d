/* Tests rules/read/stream_settle.c: what clients see of an update. */
#include "tests/unit/shop.h"

#include "protocol/writer.h"
#include "rules/read/stream.h"

#include <criterion/criterion.h>

/* Of an event without its change nobody would know. */
Test(stream_settle, changes_that_pass_a_buffer_are_not_told)
{
	struct shop shop = shop_open();
	struct stream_item item = {
		.namespace =
			namespace_cache_find(shop.cache, bytes_of("shop"), bytes_of("books"), NULL),
		.event.change = made_bson("{'updatedFields': {'x': 1}, 'removedFields': [], "
					  "'truncatedArrays': []}"),
		.changed = true};
	struct stream stream = {.items = &item, .count = 1, .from = 1};

	cr_assert_eq(stream_settle(&stream), STREAM_SETTLED);
	cr_assert_gt(item.change_length, 0);
	buffer_reserve(&stream.changes, WRITER_MOST + 1000); /* the system gives what is touched */
	stream.changes.length = WRITER_MOST + 1;
	stream.settled = 0;
	cr_assert_eq(stream_settle(&stream), STREAM_UNCLEAR);
	buffer_fini(&stream.changes);
	shop_close(&shop);
}
