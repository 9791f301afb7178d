/* Tests proxy/upstream/link_cursor.c: no cursor stays behind at the server. */
#include "tests/unit/scripted.h"

#define OPEN_CURSOR \
	"{'ok': 1.0, 'cursor': {'id': {'$numberLong': '99'}, 'ns': 'shop.books', " \
	"'firstBatch': [{'_id': 1}]}}"

static void stop(void *context, struct bytes document)
{
	struct scripted *script = context;

	(void)document;
	atomic_store(&script->stopping, true);
}

static void pass_by(void *context, struct bytes document)
{
	(void)context;
	(void)document;
}

static void expect_lost(link_document each, const char *const *replies, const char *message)
{
	struct scripted script;

	scripted_begin(&script, SCRIPTED_MEMBER, replies);
	cr_assert_eq(link_find(script.link, "shop", made_bson("{'find': 'books'}"), each, &script),
		     LINK_LOST);
	if (message)
		cr_assert_str_eq(link_error(script.link)->message, message);
	scripted_end(&script);
}

Test(link_cursor, a_reader_that_stops_kills_its_cursor)
{
	expect_lost(stop, (const char *const[]){OPEN_CURSOR, "{'ok': 1.0}", NULL}, "stopping");
}

Test(link_cursor, a_cursor_of_a_lost_link_is_killed_over_another)
{
	expect_lost(pass_by, (const char *const[]){OPEN_CURSOR, SCRIPTED_CUT, "{'ok': 1.0}", NULL},
		    NULL);
}

/* Whatever the server leaves open: a getMore's reply would take the place of the one that has it.
 */
Test(link_cursor, the_first_document_stays_where_the_server_has_more)
{
	struct scripted script;
	struct bytes document;
	bool found;
	int64_t id;

	scripted_begin(&script, SCRIPTED_MEMBER,
		       (const char *const[]){OPEN_CURSOR, "{'ok': 1.0}", NULL});
	cr_assert_eq(link_find_one(script.link, "shop", made_bson("{'find': 'books'}"), &document,
				   &found),
		     LINK_DONE);
	cr_assert(found && document_find_integer(document, "_id", &id));
	cr_assert_eq(id, 1);
	scripted_end(&script);
}
