/* Tests proxy/mover/queue.c: what is due when, with a clock that the test moves. */
#include "tests/unit/unit.h"

#include "protocol/cursor.h"
#include "proxy/mover/queue.h"

#include <stdio.h>

static struct rule rule = {
	.settle_ms = 1000, .gather = 100, .quiet_ms = 3000, .max_bytes = 1 << 20};
static struct mover_target target = {.rule = &rule};
static struct mover_target other = {.rule = &rule};
static struct mover_work *works[MOVER_TAKE_MAX];

static struct mover_note note_of(enum mover_reason reason, const char *id, int64_t elements)
{
	return (struct mover_note){.reason = reason,
				   .rule = &rule,
				   .id_type = 2,
				   .id = bytes_of(id),
				   .elements = elements};
}

static void note(struct mover_queue *queue, enum mover_reason reason, const char *id,
		 int64_t elements, int64_t now)
{
	struct mover_note made = note_of(reason, id, elements);

	cr_assert(mover_queue_note(queue, &target, &made, now));
}

static void append(struct mover_queue *queue, const char *id, int64_t elements, int64_t now)
{
	note(queue, MOVER_APPENDED, id, elements, now);
}

static size_t take(struct mover_queue *queue, int64_t now)
{
	int64_t next;

	return mover_queue_take(queue, now, works, &next);
}

/* When the earliest entry is due. */
static int64_t next_due(struct mover_queue *queue)
{
	int64_t next;

	cr_assert_eq(mover_queue_take(queue, -1, works, &next), 0);
	return next;
}

static void settle(struct mover_queue *queue, size_t count, int64_t now)
{
	for (size_t i = 0; i < count; i++)
		mover_queue_done(queue, works[i], MOVER_SETTLED, now);
}

Test(mover_queue, an_append_is_due_when_no_other_has_come_for_a_while)
{
	struct mover_queue *queue = mover_queue_new();

	append(queue, "a", 1, 0);
	cr_assert_eq(next_due(queue), 1000);
	append(queue, "a", 1, 500);
	cr_assert_eq(next_due(queue), 1500);
	cr_assert_eq(mover_queue_count(queue), 1);
	cr_assert_eq(take(queue, 1499), 0);
	cr_assert_eq(take(queue, 1500), 1);
	settle(queue, 1, 1500);
	cr_assert_eq(mover_queue_count(queue), 0);
	mover_queue_free(queue);
}

Test(mover_queue, so_many_elements_are_due_at_once)
{
	struct mover_queue *queue = mover_queue_new();

	append(queue, "a", 99, 0);
	cr_assert_eq(take(queue, 10), 0);
	append(queue, "a", 1, 10);
	cr_assert_eq(take(queue, 10), 1);
	append(queue, "a", 1, 20);
	settle(queue, 1, 30);
	cr_assert_eq(next_due(queue), 1020, "what was taken no longer counts");
	mover_queue_free(queue);
}

Test(mover_queue, so_many_bytes_are_due_at_once)
{
	struct mover_queue *queue = mover_queue_new();
	struct mover_note large = note_of(MOVER_APPENDED, "a", 1);

	large.bytes = 600 << 10;
	cr_assert(mover_queue_note(queue, &target, &large, 0));
	cr_assert_eq(take(queue, 10), 0);
	cr_assert(mover_queue_note(queue, &target, &large, 10));
	cr_assert_eq(take(queue, 10), 1);
	cr_assert(!mover_queue_demanded(queue, works[0]));
	settle(queue, 1, 30);
	mover_queue_free(queue);
}

Test(mover_queue, so_many_bytes_are_too_heavy_to_push_on)
{
	struct mover_queue *queue = mover_queue_new();
	struct mover_note large = note_of(MOVER_APPENDED, "a", 1);

	large.bytes = 2 * 1000 * 1000;
	cr_assert_eq(mover_queue_note(queue, &target, &large, 0), MOVER_NOTE_KEPT);
	cr_assert_eq(mover_queue_note(queue, &target, &large, 0), MOVER_NOTE_HEAVY);
	cr_assert_eq(take(queue, 0), 1);
	cr_assert_eq(mover_queue_note(queue, &target, &large, 0), MOVER_NOTE_KEPT,
		     "what is being moved no longer counts");
	settle(queue, 1, 0);
	mover_queue_free(queue);
}

Test(mover_queue, after_an_edit_an_array_is_left_alone_for_longer)
{
	struct mover_queue *queue = mover_queue_new();

	note(queue, MOVER_EDITED, "a", 0, 0);
	cr_assert_eq(next_due(queue), 3000);
	append(queue, "a", 500, 2000);
	cr_assert_eq(next_due(queue), 5000);
	for (int64_t now = 2000; now < 100000; now += 1000)
		note(queue, MOVER_EDITED, "a", 0, now);
	cr_assert_eq(next_due(queue), 60000, "but not for ever");
	mover_queue_free(queue);
}

/* Its garbage goes in the meantime, and a sweep may come upon it. */
Test(mover_queue, after_an_edit_no_look_comes_earlier)
{
	struct mover_queue *queue = mover_queue_new();

	note(queue, MOVER_EDITED, "a", 0, 0);
	mover_queue_look(queue, &target, 2, bytes_of("a"), 100);
	cr_assert_eq(next_due(queue), 3000);
	cr_assert_eq(take(queue, 3000), 1);
	mover_queue_look(queue, &target, 2, bytes_of("a"), 3100);
	note(queue, MOVER_EDITED, "a", 0, 3200);
	mover_queue_look(queue, &target, 2, bytes_of("a"), 3300);
	mover_queue_done(queue, works[0], MOVER_OUTLIER, 3400);
	cr_assert_eq(next_due(queue), 6200, "the look saw what was there before the edit");
	cr_assert_eq(take(queue, 6200), 1);
	cr_assert(works[0]->outlier);
	settle(queue, 1, 6200);
	cr_assert_eq(mover_queue_count(queue), 0);
	mover_queue_free(queue);
}

Test(mover_queue, a_long_quiet_is_kept_as_it_is)
{
	static struct rule patient = {.settle_ms = 1000, .quiet_ms = 600000};
	struct mover_target patients = {.rule = &patient};
	struct mover_queue *queue = mover_queue_new();
	struct mover_note edited = note_of(MOVER_EDITED, "a", 0);

	cr_assert(mover_queue_note(queue, &patients, &edited, 0));
	cr_assert_eq(next_due(queue), 600000);
	cr_assert(mover_queue_note(queue, &patients, &edited, 500000));
	cr_assert_eq(next_due(queue), 600000, "but not for ever");
	mover_queue_free(queue);
}

Test(mover_queue, a_write_that_may_not_be_visible_is_looked_at_again_and_again)
{
	struct mover_queue *queue = mover_queue_new();
	struct mover_note unsettled = note_of(MOVER_APPENDED, "a", 1);
	int64_t now = 0;
	size_t looks = 0;

	unsettled.unsettled = true;
	cr_assert(mover_queue_note(queue, &target, &unsettled, now));
	while (mover_queue_count(queue) > 0) {
		now = next_due(queue);
		cr_assert_eq(take(queue, now), 1);
		settle(queue, 1, now);
		looks++;
	}
	cr_assert_eq(now, 60000);
	cr_assert_eq(looks, 7, "at 1, 2, 4, 8, 16, 32 and 60 s");
	mover_queue_free(queue);
}

Test(mover_queue, an_operation_time_is_the_latest_of_all)
{
	struct mover_queue *queue = mover_queue_new();
	static const uint8_t early[8] = {9, 0, 0, 0, 1}, late[8] = {1, 0, 0, 0, 2};
	struct mover_note timed = note_of(MOVER_APPENDED, "a", 1);

	timed.operation_time = (struct bytes){late, 8};
	cr_assert(mover_queue_note(queue, &target, &timed, 0));
	timed.operation_time = (struct bytes){early, 8};
	cr_assert(mover_queue_note(queue, &target, &timed, 0));
	cr_assert_eq(take(queue, 1000), 1);
	cr_assert_eq(works[0]->operation_time, (uint64_t)2 << 32 | 1);
	settle(queue, 1, 1000);
	mover_queue_free(queue);
}

Test(mover_queue, unknown_documents_of_one_collection_are_taken_together)
{
	struct mover_queue *queue = mover_queue_new();
	struct mover_note foreign = note_of(MOVER_APPENDED, "a", 1);
	size_t count;

	append(queue, "a", 1, 0);
	append(queue, "b", 1, 1);
	append(queue, "c", 1, 2);
	cr_assert(mover_queue_note(queue, &other, &foreign, 3));
	count = take(queue, 5000);
	cr_assert_eq(count, 3);
	for (size_t i = 0; i < count; i++)
		cr_assert_eq(works[i]->target, &target);
	settle(queue, count, 5000);
	cr_assert_eq(take(queue, 5000), 1);
	cr_assert_eq(works[0]->target, &other);
	settle(queue, 1, 5000);
	mover_queue_free(queue);
}

Test(mover_queue, an_outlier_comes_back_at_once_and_alone)
{
	struct mover_queue *queue = mover_queue_new();
	struct mover_work *outlier;

	append(queue, "a", 1, 0);
	append(queue, "b", 1, 0);
	cr_assert_eq(take(queue, 1000), 2);
	outlier = works[0];
	mover_queue_done(queue, works[1], MOVER_SETTLED, 1000);
	mover_queue_done(queue, outlier, MOVER_OUTLIER, 1000);
	append(queue, "c", 1, 0);
	cr_assert_eq(take(queue, 1000), 1);
	cr_assert(works[0]->outlier || works[0]->target == &target);
	settle(queue, 1, 1000);
	cr_assert_eq(take(queue, 1000), 1);
	settle(queue, 1, 1000);
	mover_queue_free(queue);
}

Test(mover_queue, filters_are_taken_one_by_one)
{
	struct mover_queue *queue = mover_queue_new();
	struct mover_note filtered = {.reason = MOVER_APPENDED, .rule = &rule, .elements = 1};

	filtered.filter = bytes_of("one filter");
	cr_assert(mover_queue_note(queue, &target, &filtered, 0));
	filtered.filter = bytes_of("another");
	cr_assert(mover_queue_note(queue, &target, &filtered, 0));
	filtered.collation = bytes_of("with a collation");
	cr_assert(mover_queue_note(queue, &target, &filtered, 0));
	cr_assert_eq(mover_queue_count(queue), 3);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(take(queue, 1000), 1);
		cr_assert_eq(works[0]->id_type, 0);
		settle(queue, 1, 1000);
	}
	mover_queue_free(queue);
}

Test(mover_queue, a_note_while_a_document_is_taken_is_kept_for_later)
{
	struct mover_queue *queue = mover_queue_new();

	append(queue, "a", 1, 0);
	cr_assert_eq(take(queue, 1000), 1);
	append(queue, "a", 1, 1500);
	cr_assert_eq(mover_queue_count(queue), 1);
	cr_assert_eq(next_due(queue), INT64_MAX, "not twice at the same time");
	settle(queue, 1, 1600);
	cr_assert_eq(next_due(queue), 2500);
	mover_queue_free(queue);
}

Test(mover_queue, pauses_double_up_to_five_seconds)
{
	struct mover_queue *queue = mover_queue_new();
	int64_t now = 1000, due, longest = 0;

	append(queue, "a", 1, 0);
	for (int64_t tries = 0; tries < 200; tries++) {
		cr_assert_eq(take(queue, now), 1);
		mover_queue_done(queue, works[0], MOVER_RETRY, now);
		due = next_due(queue);
		cr_assert(due > now && due <= now + 5000);
		cr_assert(tries >= 9 || due <= now + (10 << tries));
		longest = due - now > longest ? due - now : longest;
		now = due;
	}
	cr_assert(longest > 2500);
	mover_queue_free(queue);
}

Test(mover_queue, an_absent_server_is_no_reason_for_long_pauses)
{
	struct mover_queue *queue = mover_queue_new();
	int64_t now = 1000;

	append(queue, "a", 1, 0);
	for (int i = 0; i < 50; i++) {
		cr_assert_eq(take(queue, now), 1);
		mover_queue_done(queue, works[0], MOVER_ABSENT, now);
		cr_assert_eq(next_due(queue), now + 100);
		now += 100;
	}
	mover_queue_free(queue);
}

Test(mover_queue, appends_to_a_document_with_room_need_no_look)
{
	struct mover_queue *queue = mover_queue_new();

	append(queue, "a", 1, 0);
	cr_assert_eq(take(queue, 1000), 1);
	mover_queue_room(queue, works[0], 10, 1000);
	settle(queue, 1, 1000);
	append(queue, "a", 6, 1001);
	append(queue, "a", 4, 1002);
	cr_assert_eq(mover_queue_count(queue), 0);
	append(queue, "a", 1, 1003);
	cr_assert_eq(mover_queue_count(queue), 1);
	mover_queue_free(queue);
}

Test(mover_queue, equal_numbers_are_one_document)
{
	static const struct {
		uint8_t type;
		struct bytes id;
	} ids[] = {
		{BSON_BYTE_INT32, {(const uint8_t *)"\x07\0\0\0", 4}},
		{BSON_BYTE_INT64, {(const uint8_t *)"\x07\0\0\0\0\0\0\0", 8}},
		{BSON_BYTE_DOUBLE, {(const uint8_t *)"\0\0\0\0\0\0\x1c\x40", 8}},
	};
	struct mover_queue *queue = mover_queue_new();

	for (size_t i = 0; i < ARRAY_LENGTH(ids); i++) {
		struct mover_note made = note_of(MOVER_APPENDED, "", 4);

		made.id_type = ids[i].type;
		made.id = ids[i].id;
		cr_assert(mover_queue_note(queue, &target, &made, 0));
		if (i == 0) {
			cr_assert_eq(take(queue, 1000), 1);
			mover_queue_room(queue, works[0], 7, 1000);
			settle(queue, 1, 1000);
		}
		/* 7 are left: four, and then four too many */
		cr_assert_eq(mover_queue_count(queue), i == 2);
	}
	mover_queue_free(queue);
}

/* The look may not see it, and tells of the room there was without it. */
Test(mover_queue, what_is_appended_during_a_look_needs_another)
{
	struct mover_queue *queue = mover_queue_new();

	append(queue, "a", 1, 0);
	cr_assert_eq(take(queue, 1000), 1);
	mover_queue_room(queue, works[0], 10, 1000);
	settle(queue, 1, 1000);
	append(queue, "a", 11, 1001);
	cr_assert_eq(take(queue, 3000), 1);
	append(queue, "a", 1, 3001);
	mover_queue_room(queue, works[0], 5, 3002);
	settle(queue, 1, 3002);
	cr_assert_eq(mover_queue_count(queue), 1);
	cr_assert_eq(take(queue, 6000), 1);
	mover_queue_free(queue);
}

Test(mover_queue, what_is_remembered_of_a_document_ends_with_any_other_write_and_with_time)
{
	struct mover_queue *queue = mover_queue_new();

	append(queue, "a", 1, 0);
	append(queue, "b", 1, 0);
	cr_assert_eq(take(queue, 1000), 2);
	mover_queue_room(queue, works[0], 10, 1000);
	mover_queue_room(queue, works[1], 10, 1000);
	settle(queue, 2, 1000);
	note(queue, MOVER_CHANGED, "a", 0, 1001);
	cr_assert_eq(mover_queue_count(queue), 1);
	cr_assert_eq(take(queue, 3000), 1);
	settle(queue, 1, 3000);
	append(queue, "a", 1, 3001);
	cr_assert_eq(mover_queue_count(queue), 1);
	append(queue, "b", 1, 62000);
	cr_assert_eq(mover_queue_count(queue), 2);
	mover_queue_free(queue);
}

Test(mover_queue, what_is_remembered_of_a_document_ends_with_it)
{
	struct mover_queue *queue = mover_queue_new();
	struct mover_note gone = note_of(MOVER_DELETED, "a", 0);

	append(queue, "a", 1, 0);
	cr_assert_eq(take(queue, 1000), 1);
	mover_queue_room(queue, works[0], INT64_MAX, 1000);
	settle(queue, 1, 1000);
	mover_queue_forget(queue, &target, &gone, 1001);
	cr_assert_eq(mover_queue_count(queue), 0);
	append(queue, "a", 1, 1002);
	cr_assert_eq(mover_queue_count(queue), 1);
	mover_queue_free(queue);
}

Test(mover_queue, what_is_behind_an_unsettled_note_is_looked_at_again)
{
	struct mover_queue *queue = mover_queue_new();
	struct mover_note gone = note_of(MOVER_DELETED, "a", 0);

	mover_queue_look_behind(queue, &target, &gone, 0, 20);
	cr_assert_eq(take(queue, 20), 1);
	settle(queue, 1, 30);
	cr_assert_eq(mover_queue_count(queue), 0);
	gone.unsettled = true;
	mover_queue_look_behind(queue, &target, &gone, 100, 120);
	cr_assert_eq(take(queue, 120), 1);
	settle(queue, 1, 130);
	cr_assert_eq(take(queue, 1099), 0);
	cr_assert_eq(take(queue, 1100), 1);
	mover_queue_free(queue);
}

Test(mover_queue, a_known_outlier_is_not_asked_about)
{
	struct mover_queue *queue = mover_queue_new();

	append(queue, "a", 1, 0);
	cr_assert_eq(take(queue, 1000), 1);
	cr_assert_not(works[0]->outlier);
	mover_queue_room(queue, works[0], MOVER_ROOM_OUTLIER, 1000);
	settle(queue, 1, 1000);
	append(queue, "a", 1, 2000);
	cr_assert_eq(take(queue, 3000), 1);
	cr_assert(works[0]->outlier);
	settle(queue, 1, 3000);
	mover_queue_free(queue);
}

struct told {
	int times;
	bool moved;
};

static void on_told(void *context, bool moved)
{
	struct told *told = context;

	told->times++;
	told->moved = moved;
}

static void demand(struct mover_queue *queue, struct told *told, int64_t now)
{
	struct mover_note asked = note_of(MOVER_APPENDED, "a", 1);
	struct mover_waiter *waiter = must_calloc(1, sizeof(*waiter));

	*waiter = (struct mover_waiter){on_told, told, NULL};
	cr_assert(mover_queue_demand(queue, &target, &asked, waiter, now));
}

Test(mover_queue, a_demand_is_due_at_once_and_told_once)
{
	struct mover_queue *queue = mover_queue_new();
	struct told told = {0}, later = {0};

	append(queue, "a", 1, 0);
	demand(queue, &told, 5);
	cr_assert_eq(take(queue, 5), 1);
	cr_assert(works[0]->outlier);
	demand(queue, &later, 6);
	mover_queue_tell(queue, works[0], true);
	cr_assert(told.times == 1 && told.moved);
	cr_assert(later.times == 1 && later.moved);
	mover_queue_tell(queue, works[0], true);
	cr_assert_eq(told.times, 1);
	settle(queue, 1, 7);
	mover_queue_free(queue);
}

/* Whoever asked has stopped until it is told. */
Test(mover_queue, an_edit_puts_off_no_move_that_somebody_waits_for)
{
	struct mover_queue *queue = mover_queue_new();
	struct told told = {0};

	append(queue, "a", 1, 0);
	cr_assert_eq(take(queue, 1000), 1);
	demand(queue, &told, 1100);
	note(queue, MOVER_EDITED, "a", 0, 1200);
	mover_queue_done(queue, works[0], MOVER_OUTLIER, 1300);
	cr_assert_eq(take(queue, 1300), 1);
	mover_queue_tell(queue, works[0], true);
	settle(queue, 1, 1300);
	demand(queue, &told, 1400);
	note(queue, MOVER_EDITED, "a", 0, 1500);
	cr_assert_eq(take(queue, 1500), 1);
	mover_queue_tell(queue, works[0], true);
	settle(queue, 1, 1600);
	mover_queue_free(queue);
}

Test(mover_queue, who_still_waits_at_the_end_is_told_that_nothing_moved)
{
	struct mover_queue *queue = mover_queue_new();
	struct told told = {0};

	demand(queue, &told, 0);
	mover_queue_free(queue);
	cr_assert(told.times == 1 && !told.moved);
}

Test(mover_queue, a_full_queue_drops_new_documents_only)
{
	struct mover_queue *queue = mover_queue_new();
	struct mover_note extra = note_of(MOVER_APPENDED, "one more", 1);
	char id[16];
	size_t count;

	for (int i = 0; i < MOVER_QUEUE_MAX; i++) {
		snprintf(id, sizeof(id), "%d", i);
		append(queue, id, 1, i % 7);
	}
	cr_assert_not(mover_queue_note(queue, &target, &extra, 0));
	append(queue, "5", 1, 0);
	cr_assert_eq(mover_queue_count(queue), MOVER_QUEUE_MAX);
	while ((count = take(queue, 1 << 20)) > 0)
		settle(queue, count, 0);
	cr_assert_eq(mover_queue_count(queue), 0);
	mover_queue_free(queue);
}

Test(mover_queue, it_is_full_when_clients_have_chosen_very_long_ids_and_filters)
{
	struct mover_queue *queue = mover_queue_new();
	size_t length = 1 << 20, kept = 0, count;
	uint8_t *text = must_calloc(length, 1);
	struct mover_note long_note = {.reason = MOVER_CHANGED, .rule = &rule};

	for (int i = 0; i < 100; i++) {
		text[0] = (uint8_t)i;
		long_note.id_type = i % 2 ? 2 : 0;
		long_note.id = i % 2 ? (struct bytes){text, length} : (struct bytes){0};
		long_note.filter = i % 2 ? (struct bytes){0} : (struct bytes){text, length};
		kept += mover_queue_note(queue, &target, &long_note, 0) != MOVER_NOTE_DROPPED;
	}
	cr_assert_eq(kept, MOVER_QUEUE_BYTES / length);
	append(queue, "", 1, 0);
	while ((count = take(queue, 1 << 20)) > 0)
		settle(queue, count, 0);
	cr_assert_neq(mover_queue_note(queue, &target, &long_note, 0), MOVER_NOTE_DROPPED);
	mover_queue_free(queue);
	free(text);
}

Test(mover_queue, entries_come_in_the_order_in_which_they_are_due)
{
	struct mover_queue *queue = mover_queue_new();
	char id[16];
	int64_t due, last = 0;

	for (int i = 0; i < 500; i++) {
		snprintf(id, sizeof(id), "%d", i);
		append(queue, id, 1, i * 7919 % 503);
	}
	while (mover_queue_count(queue) > 0) {
		due = next_due(queue);
		cr_assert(due >= last);
		last = due;
		settle(queue, take(queue, due), due);
	}
	mover_queue_free(queue);
}

Test(mover_queue, a_look_makes_an_entry_due_earlier_never_later)
{
	struct mover_queue *queue = mover_queue_new();

	mover_queue_look(queue, &target, 2, bytes_of("a"), 500);
	mover_queue_look(queue, &target, 2, bytes_of("a"), 800);
	cr_assert_eq(next_due(queue), 500);
	mover_queue_look(queue, &target, 2, bytes_of("a"), 200);
	cr_assert_eq(next_due(queue), 200);
	cr_assert_eq(take(queue, 200), 1);
	mover_queue_look(queue, &target, 2, bytes_of("a"), 900);
	mover_queue_look(queue, &target, 2, bytes_of("a"), 700);
	settle(queue, 1, 300);
	cr_assert_eq(next_due(queue), 700);
	mover_queue_free(queue);
}

Test(mover_queue, a_closed_queue_lets_nobody_sleep)
{
	struct mover_queue *queue = mover_queue_new();

	mover_queue_close(queue);
	mover_queue_wait(queue, INT64_MAX);
	mover_queue_free(queue);
}

Test(mover_queue, who_waits_is_told_when_the_queue_is_closed_and_so_is_who_comes_later)
{
	struct mover_queue *queue = mover_queue_new();
	struct told taken = {0}, waiting = {0}, late = {0};
	struct mover_note asked = note_of(MOVER_APPENDED, "b", 1);
	struct mover_waiter *waiter = must_calloc(1, sizeof(*waiter));

	demand(queue, &taken, 0);
	demand(queue, &taken, 0);
	cr_assert_eq(take(queue, 0), 1);
	demand(queue, &waiting, 1);
	mover_queue_close(queue);
	cr_assert(taken.times == 2 && waiting.times == 1 && !taken.moved && !waiting.moved);
	*waiter = (struct mover_waiter){on_told, &late, NULL};
	cr_assert(!mover_queue_demand(queue, &target, &asked, waiter, 2));
	cr_assert(late.times == 1 && !late.moved);
	mover_queue_tell(queue, works[0], true);
	settle(queue, 1, 3);
	mover_queue_free(queue);
	cr_assert(taken.times == 2 && waiting.times == 1);
}

Test(mover_queue, what_is_held_keeps_its_news_and_comes_back_when_it_may)
{
	struct mover_queue *queue = mover_queue_new();
	struct mover_note heavy = note_of(MOVER_APPENDED, "a", 1);

	heavy.bytes = 2500000;
	cr_assert_eq(mover_queue_note(queue, &target, &heavy, 0), MOVER_NOTE_KEPT);
	cr_assert_eq(take(queue, 1000), 1);
	cr_assert_not(works[0]->held.place.urgent);
	mover_queue_done(queue, works[0], MOVER_HELD, 5000);
	cr_assert_eq(next_due(queue), 5000);
	append(queue, "a", 200, 1500);
	cr_assert_eq(next_due(queue), 5000, "so many elements would be due at once");
	cr_assert_eq(mover_queue_note(queue, &target, &heavy, 2000), MOVER_NOTE_HEAVY);
	cr_assert_eq(take(queue, 2000), 1);
	cr_assert(works[0]->held.place.urgent, "what came before it was held counts, too");
	settle(queue, 1, 2000);
	cr_assert_eq(mover_queue_count(queue), 0);
	mover_queue_free(queue);
}
