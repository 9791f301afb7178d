/* Tests rules/read/stream_reply.c: the events that clients see. */
#include "tests/unit/wire_make.h"

#include "rules/read/stream.h"

#include <criterion/criterion.h>

#define EVENTS 4

/* So large that a part ends behind each. */
static struct bytes large_event(int number)
{
	return made_bson(made_text("{'_id': %d, 'fullDocument': {'text': '%0*d'}}", number,
				   STREAM_PART_MOST + 1, 0));
}

static void expect_ids(const struct stream *stream, const char *ids)
{
	struct bytes events = buffer_view(&stream->events), event;
	struct element id;

	for (; *ids; ids++) {
		int64_t number;

		cr_assert(message_next_document(&events, &event));
		cr_assert(document_find(event, "_id", &id) && element_integer(&id, &number));
		cr_assert_eq(number, *ids - '0');
	}
	cr_assert_eq(events.length, 0);
}

/* With whole documents they may be too many for one buffer: what comes behind its end would be left
 * out. */
Test(stream_reply, events_go_through_the_stages_in_parts)
{
	struct stream_item items[EVENTS] = {{.event.whole = large_event(1)},
					    {.event.whole = made_bson("{'_id': 2}")},
					    {.event.whole = large_event(3)},
					    {.event.whole = made_bson("{'_id': 4}")}};
	struct stream stream = {
		.items = items, .count = EVENTS, .stages.list = made_bson("{'0': {}}")};

	cr_assert(stream_write_events(&stream));
	expect_ids(&stream, "1");
	cr_assert(stream_write_events(&stream));
	expect_ids(&stream, "23");
	cr_assert(stream_write_events(&stream));
	expect_ids(&stream, "4");
	cr_assert_eq(stream.told, stream.count);
	buffer_fini(&stream.events);
	made_free();
}

Test(stream_reply, without_stages_all_come_at_once)
{
	struct stream_item items[EVENTS] = {{.event.whole = large_event(1)},
					    {.event.whole = made_bson("{'_id': 2}")},
					    {.event.whole = large_event(3)},
					    {.event.whole = made_bson("{'_id': 4}")}};
	struct stream stream = {.items = items, .count = EVENTS};

	cr_assert(stream_write_events(&stream));
	expect_ids(&stream, "1234");
	buffer_fini(&stream.events);
	made_free();
}
