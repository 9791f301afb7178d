/* Tests proxy/migrate/adopt_links.c: each link once. */
#include "tests/unit/spilling.h"

#include "proxy/migrate/adopt_links.h"

static void find_links(struct adopt_links *links, size_t count)
{
	static const char *const replies[] = {
		SCRIPTED_BATCH("[]"),
		SCRIPTED_BATCH("[{'_id': 1, 'of': 7}, {'_id': 2, 'of': 7.0}, {'_id': 3, 'of': 8}, "
			       "{'_id': 4}, {'_id': 5, 'of': 8}, {'_id': 6, 'of': null}]"),
		NULL};
	struct mover_target target = spilling_target(&plain_rule);
	struct scripted script;

	scripted_begin(&script, SCRIPTED_MEMBER, replies);
	cr_assert_eq(adopt_links_find(links, script.link, &target), LINK_DONE);
	cr_assert_eq(links->count, count, "%zu", links->count);
	scripted_end(&script);
}

Test(adopt_links, each_link_comes_once)
{
	struct adopt_links links = {0};

	find_links(&links, 3);
	cr_assert(bytes_equal((struct bytes){links.all.data, 14}, made_bson("{'_id': 7}")));
	adopt_links_fini(&links);
}

/* A BSON buffer takes nothing more from that size on. */
Test(adopt_links, links_may_fill_more_than_a_buffer_of_bson)
{
	struct adopt_links links = {0};

	buffer_reserve(&links.all, WRITER_MOST + 1000); /* the system gives what is touched */
	links.all.length = WRITER_MOST + 1;
	find_links(&links, 3);
	cr_assert(bytes_equal((struct bytes){links.all.data + WRITER_MOST + 1, 14},
			      made_bson("{'_id': 7}")));
	adopt_links_fini(&links);
}
