/* Tests proxy/upstream/members.c and proxy/base/places.c: a member stands at the place of its
 * `_id`. */
#include "tests/unit/unit.h"

#include "proxy/upstream/members.h"

#include <bson/bson.h>

#define PLACES 4

static struct bytes view(const bson_t *document)
{
	return (struct bytes){bson_get_data(document), document->len};
}

static bool read_members(const bson_t *status, struct bytes *servers, struct members_stray *stray)
{
	return members_read(&(struct members_reply){view(status), {0}}, PLACES, servers, stray);
}

Test(members, each_has_the_place_of_its_id)
{
	bson_t *reply =
		BCON_NEW("members", "[", "{", "_id", BCON_INT32(3), "name", "db3:1", "}", "{",
			 "_id", BCON_INT64(0), "name", "db0:1", "hidden", BCON_BOOL(true), "}", "{",
			 "_id", BCON_INT32(1), "name", "db1:1", "state", BCON_INT32(7), "}", "]");
	struct bytes servers[PLACES] = {{0}};
	struct members_stray stray;

	cr_assert(read_members(reply, servers, &stray));
	cr_assert(bytes_are(servers[0], "db0:1"));
	cr_assert_null(servers[1].data, "an arbiter holds no data");
	cr_assert_null(servers[2].data);
	cr_assert(bytes_are(servers[3], "db3:1"));
	bson_destroy(reply);
}

Test(members, one_beyond_the_places_is_named)
{
	bson_t *reply = BCON_NEW("members", "[", "{", "_id", BCON_INT32(PLACES), "name", "db4:1",
				 "}", "{", "_id", BCON_INT32(0), "name", "db0:1", "}", "]");
	struct bytes servers[PLACES] = {{0}};
	struct members_stray stray = {0};

	cr_assert_not(read_members(reply, servers, &stray));
	cr_assert(bytes_are(stray.name, "db4:1"));
	cr_assert_eq(stray.id, PLACES);
	cr_assert(bytes_are(servers[0], "db0:1"), "the others have theirs");
	bson_destroy(reply);
}

Test(members, an_arbiter_beyond_the_places_needs_none)
{
	bson_t *reply = BCON_NEW("members", "[", "{", "_id", BCON_INT32(9), "name", "db9:1",
				 "state", BCON_INT32(7), "}", "]");
	struct bytes servers[PLACES] = {{0}};
	struct members_stray stray;

	cr_assert(read_members(reply, servers, &stray));
	bson_destroy(reply);
}

Test(members, an_arbiter_that_is_down_is_known_by_another_members_hello)
{
	bson_t *status = BCON_NEW("members", "[", "{", "_id", BCON_INT32(1), "name", "db1:1",
				  "state", BCON_INT32(8), "}", "]");
	bson_t *hello = BCON_NEW("arbiters", "[", "db9:1", "db1:1", "]");
	struct bytes servers[PLACES] = {{0}};
	struct members_stray stray;

	cr_assert(members_read(&(struct members_reply){view(status), view(hello)}, PLACES, servers,
			       &stray));
	cr_assert_null(servers[1].data);
	bson_destroy(status);
	bson_destroy(hello);
}

Test(members, what_is_no_configuration_has_no_members)
{
	bson_t *replies[] = {
		BCON_NEW("ok", BCON_INT32(1)),
		BCON_NEW("members", BCON_INT32(1)),
		BCON_NEW("members", "[", BCON_INT32(1), "{", "}", "{", "_id", BCON_INT32(1), "}",
			 "{", "name", "h:1", "}", "{", "_id", "1", "name", "h:1", "}", "]"),
	};
	struct bytes servers[PLACES] = {{0}};
	struct members_stray stray;

	for (size_t i = 0; i < ARRAY_LENGTH(replies); i++) {
		(void)!read_members(replies[i], servers, &stray);
		for (size_t place = 0; place < PLACES; place++)
			cr_assert_null(servers[place].data);
		bson_destroy(replies[i]);
	}
}

static struct config_listen listen[PLACES];
static const struct config config = {
	.listen = listen, .listen_count = PLACES, .replica_set = {.on = true}};

Test(places, a_member_that_is_gone_leaves_its_name_for_open_connections)
{
	struct places *places = places_new(&config);
	const char *one[PLACES] = {"db0:1", NULL, "db2:1"}, *none[PLACES] = {NULL};
	uint64_t seen = 0;
	char reason[64];

	cr_assert_eq(places_look(places, reason, sizeof(reason)), PLACES_UNSEEN);
	cr_assert(places_set(places, one));
	cr_assert_not(places_set(places, one));
	cr_assert(places_await_change(places, &seen, 0));
	cr_assert_not(places_await_change(places, &seen, 0));
	cr_assert_str_eq(places_server(places, 2), "db2:1");
	cr_assert_null(places_server(places, 1));
	cr_assert(places_set(places, none));
	cr_assert_null(places_server(places, 2));
	cr_assert_str_eq(places_latest(places, 2), "db2:1");
	places_free(places);
}

Test(places, a_failure_does_not_forget_members)
{
	struct places *places = places_new(&config);
	const char *one[PLACES] = {"db0:1"};
	char reason[64] = "";

	places_fail(places, PLACES_WRONG, "why");
	cr_assert_eq(places_look(places, reason, sizeof(reason)), PLACES_WRONG);
	cr_assert_str_eq(reason, "why");
	cr_assert(places_set(places, one));
	places_fail(places, PLACES_WAITING, "why");
	cr_assert_eq(places_look(places, reason, sizeof(reason)), PLACES_KNOWN);
	cr_assert_str_eq(places_server(places, 0), "db0:1");
	places_free(places);
}
