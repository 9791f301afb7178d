/* Tests proxy/client/pending.c: the replies that a server owes. */
#include "tests/unit/unit.h"

#include "proxy/client/pending.h"

static void owe(struct pending *pending, int32_t id, enum pending_kind kind)
{
	pending_push(pending, (struct pending_entry){.request_id = id, .kind = (uint8_t)kind});
}

static void owe_from(struct pending *pending, int32_t first, int32_t count)
{
	for (int32_t i = 0; i < count; i++)
		owe(pending, first + i, PENDING_FORWARD);
}

/* They are answered in turn. */
static void settle_from(struct pending *pending, int32_t first, int32_t count)
{
	for (int32_t i = 0; i < count; i++) {
		struct pending_entry *entry = pending_match(pending, first + i);

		cr_assert_not_null(entry, "%d", first + i);
		cr_assert_eq(entry->request_id, first + i);
		pending_pop(pending);
	}
}

Test(pending, nothing_is_owed_at_first)
{
	struct pending pending = {0};

	cr_assert_null(pending_match(&pending, 0));
	cr_assert(pending_only_hello(&pending));
	pending_fini(&pending);
}

Test(pending, replies_come_in_the_order_of_the_requests_however_many)
{
	struct pending pending = {0};

	for (int32_t count = 1; count < 70; count++) {
		owe_from(&pending, 100 * count, count);
		cr_assert_eq(pending.count, (uint32_t)count);
		settle_from(&pending, 100 * count, count);
		cr_assert_eq(pending.count, 0);
	}
	pending_fini(&pending);
}

Test(pending, the_ring_goes_around_and_grows_while_it_is_turned)
{
	struct pending pending = {0};
	int32_t next = 0, oldest = 0;

	for (int32_t round = 0; round < 200; round++) {
		owe_from(&pending, next, 3);
		next += 3;
		settle_from(&pending, oldest, 2);
		oldest += 2;
		cr_assert_eq(pending.count, (uint32_t)(next - oldest));
	}
	settle_from(&pending, oldest, next - oldest);
	pending_fini(&pending);
}

Test(pending, few_owed_replies_cost_no_memory_and_many_give_it_back)
{
	struct pending pending = {0};

	owe_from(&pending, 0, PENDING_INLINE);
	cr_assert_null(pending.entries);
	owe_from(&pending, PENDING_INLINE, 1);
	cr_assert_not_null(pending.entries);
	settle_from(&pending, 0, PENDING_INLINE + 1);
	cr_assert_null(pending.entries);
	owe_from(&pending, 50, 2);
	settle_from(&pending, 50, 2);
	pending_fini(&pending);
}

Test(pending, a_matched_entry_stays_in_front_until_it_is_popped)
{
	struct pending pending = {0};
	struct pending_entry *entry;

	pending_push(&pending, (struct pending_entry){
				       .request_id = 7, .kind = PENDING_HELLO, .exhaust = true});
	entry = pending_match(&pending, 7);
	cr_assert_eq(entry->kind, PENDING_HELLO);
	cr_assert(entry->exhaust);
	entry->request_id = 70; /* the next part of the stream answers this part */
	cr_assert_null(pending_match(&pending, 7));
	cr_assert_eq(pending_match(&pending, 70), entry);
	pending_pop(&pending);
	cr_assert_null(pending_match(&pending, 70));
	pending_fini(&pending);
}

Test(pending, a_reply_passes_over_requests_that_got_none)
{
	struct pending pending = {0};

	owe_from(&pending, 0, 9);
	cr_assert_eq(pending_match(&pending, 6)->request_id, 6);
	cr_assert_eq(pending.count, 3);
	cr_assert_null(pending_match(&pending, 2));
	cr_assert_null(pending_match(&pending, 99), "an unknown reply");
	cr_assert_eq(pending.count, 3, "drops nothing");
	settle_from(&pending, 6, 3);
	pending_fini(&pending);
}

Test(pending, of_two_requests_with_one_id_the_older_is_answered_first)
{
	struct pending pending = {0};

	owe(&pending, 5, PENDING_FORWARD);
	owe(&pending, 5, PENDING_SEQUENCE);
	cr_assert_eq(pending_match(&pending, 5)->kind, PENDING_FORWARD);
	pending_pop(&pending);
	cr_assert_eq(pending_match(&pending, 5)->kind, PENDING_SEQUENCE);
	pending_pop(&pending);
	pending_fini(&pending);
}

Test(pending, a_monitor_waits_for_hello_alone)
{
	struct pending pending = {0};

	owe(&pending, 1, PENDING_HELLO);
	owe(&pending, 2, PENDING_HELLO);
	cr_assert(pending_only_hello(&pending));
	owe(&pending, 3, PENDING_FORWARD);
	cr_assert_not(pending_only_hello(&pending));
	pending_fini(&pending);
	cr_assert(pending_only_hello(&pending));
}

Test(pending, a_time_belongs_to_the_first_entry_alone)
{
	struct pending pending = {0};

	pending_begin(&pending, 4711);
	pending_push(&pending, (struct pending_entry){.request_id = 1});
	pending_push(&pending, (struct pending_entry){.request_id = 2});
	cr_assert_not_null(pending_match(&pending, 1));
	cr_assert(pending.timed);
	cr_assert_eq(pending.asked, 4711);
	cr_assert_not_null(pending_match(&pending, 2));
	cr_assert_not(pending.timed);
	pending_fini(&pending);
}
