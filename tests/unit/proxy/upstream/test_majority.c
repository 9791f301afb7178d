/* Tests proxy/upstream/majority.c: what a server's hello tells of the set's majority. */
#include "tests/unit/unit.h"

#include "proxy/upstream/majority.h"

#include <bson/bson.h>

/* A hello of a member of `rs`; `primary` empty: it knows none. */
static bson_t *made_hello(const char *primary, int32_t written, int32_t acknowledged)
{
	bson_t *hello =
		BCON_NEW("setName", "rs", "lastWrite", "{", "opTime", "{", "ts",
			 BCON_TIMESTAMP(written, 1), "t", BCON_INT64(1), "}", "majorityOpTime", "{",
			 "ts", BCON_TIMESTAMP(acknowledged, 1), "t", BCON_INT64(1), "}", "}");

	if (primary[0])
		BSON_APPEND_UTF8(hello, "primary", primary);
	return hello;
}

static void take(struct majority *majority, bson_t *hello, int64_t now)
{
	majority_take(majority, (struct bytes){bson_get_data(hello), hello->len}, now);
	bson_destroy(hello);
}

Test(majority, a_server_without_a_set_is_enough)
{
	struct majority majority = {0};

	take(&majority, BCON_NEW("ok", BCON_DOUBLE(1)), 1000);
	cr_assert_eq(majority.lack, MAJORITY_THERE);
	cr_assert_not(majority_is_lost(&majority, 100000));
}

Test(majority, silence_and_a_missing_primary_count_after_a_while)
{
	struct majority majority = {0};

	majority_take(&majority, (struct bytes){0}, 1000);
	cr_assert_eq(majority.lack, MAJORITY_NO_ANSWER);
	cr_assert_not(majority_is_lost(&majority, 3999));
	take(&majority, made_hello("", 5, 5), 3999);
	cr_assert_eq(majority.lack, MAJORITY_NO_PRIMARY);
	cr_assert(majority_is_lost(&majority, 4000), "it began with the silence");
	take(&majority, made_hello("a:1", 5, 5), 4001);
	cr_assert_not(majority_is_lost(&majority, 100000));
	take(&majority, made_hello("", 5, 5), 4002);
	cr_assert_not(majority_is_lost(&majority, 7001), "a new spell");
	cr_assert(majority_is_lost(&majority, 7002));
}

Test(majority, what_stays_unacknowledged_counts_when_nothing_moves)
{
	struct majority majority = {0};

	take(&majority, made_hello("a:1", 9, 5), 1000);
	take(&majority, made_hello("a:1", 20, 5), 5999);
	cr_assert_not(majority_is_lost(&majority, 5999));
	take(&majority, made_hello("a:1", 21, 6), 6000);
	cr_assert_not(majority_is_lost(&majority, 6000), "behind, but going on");
	take(&majority, made_hello("a:1", 22, 6), 11000);
	cr_assert(majority_is_lost(&majority, 11000));
	cr_assert_eq(majority.lack, MAJORITY_UNACKNOWLEDGED);
	take(&majority, made_hello("a:1", 22, 22), 11001);
	cr_assert_not(majority_is_lost(&majority, 11001));
	take(&majority, made_hello("a:1", 22, 22), 60000);
	cr_assert_not(majority_is_lost(&majority, 60000), "nothing is written");
	take(&majority, made_hello("a:1", 23, 22), 61000);
	cr_assert_not(majority_is_lost(&majority, 61000));
}

static void expect_said(enum majority_lack lack, const char *answering, const char *expected)
{
	struct majority_member members[] = {
		{.server = "a:1"}, {.server = "b:2"}, {.server = "c:3"}};
	struct buffer out = {0};

	for (size_t i = 0; answering[i]; i++)
		members[answering[i] - 'a'].answers = true;
	majority_say(&out, lack, bytes_of(lack == MAJORITY_NO_ANSWER ? "" : "rs"), members, 3);
	cr_expect(bytes_are(buffer_view(&out), expected), "%.*s", (int)out.length,
		  (const char *)out.data);
	buffer_fini(&out);
}

Test(majority, what_is_missing_is_said_with_what_to_do)
{
	expect_said(MAJORITY_NO_PRIMARY, "a",
		    "the replica set 'rs' has no primary: 2 of 3 servers do not answer: 'b:2' and "
		    "'c:3'; start them, or see why they can't be reached from here");
	expect_said(MAJORITY_UNACKNOWLEDGED, "ac",
		    "no majority of the replica set 'rs' acknowledges writes: 1 of 3 servers does "
		    "not answer: 'b:2'; start it, or see why it can't be reached from here");
	expect_said(MAJORITY_NO_ANSWER, "",
		    "3 of 3 servers do not answer: 'a:1', 'b:2' and 'c:3'; start them, or see why "
		    "they can't be reached from here");
	expect_said(MAJORITY_NO_PRIMARY, "abc",
		    "the replica set 'rs' has no primary: all members answer; an election takes "
		    "some seconds, and where none comes of it rs.status() tells why");
	expect_said(MAJORITY_UNACKNOWLEDGED, "abc",
		    "no majority of the replica set 'rs' acknowledges writes: all members answer; "
		    "rs.status() tells which of them is behind or recovering");
}

Test(majority, before_members_are_known_none_is_said_to_answer)
{
	auto_buffer struct buffer out = {0};

	majority_say(&out, MAJORITY_NO_ANSWER, bytes_of(""), NULL, 0);
	buffer_append(&out, "", 1);
	cr_assert_str_eq((const char *)out.data,
			 "none of the servers that the seed leads to answers");
}
