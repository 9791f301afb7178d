/* Tests proxy/upstream/member_names.c: what servers call themselves, and who stands before them. */
#include "tests/unit/unit.h"

#include "proxy/upstream/member_names.h"

#include <bson/bson.h>

static struct config_listen listen[] = {
	{.server = "10.0.0.1:27017", .advertise = "proxy:1"},
	{.server = "10.0.0.2:27017", .advertise = "proxy:2"},
};
static struct config config = {.listen = listen, .listen_count = ARRAY_LENGTH(listen)};

static bool covered(struct member_names *names, bson_t *hello, char *member)
{
	bool covers = member_names_cover(names, (struct bytes){bson_get_data(hello), hello->len},
					 member, 64);

	bson_destroy(hello);
	return covers;
}

Test(member_names, a_member_is_found_by_the_name_that_its_server_told)
{
	struct places *places = places_new(&config);
	struct member_names *names = member_names_new(&config, places);
	struct bytes advertised;

	cr_assert_not(member_names_find(names, bytes_of("db2:27017"), &advertised));
	cr_assert_not(member_names_known(names, 1));
	member_names_learn(names, 1, bytes_of("db2:27017"));
	cr_assert(member_names_known(names, 1));
	cr_assert(member_names_find(names, bytes_of("db2:27017"), &advertised));
	cr_assert(bytes_are(advertised, "proxy:2"));
	cr_assert_not(member_names_find(names, bytes_of("10.0.0.2:27017"), &advertised));
	member_names_learn(names, 1, bytes_of("db3:27017"));
	cr_assert_not(member_names_find(names, bytes_of("db2:27017"), &advertised));
	member_names_free(names);
	places_free(places);
}

Test(member_names, a_member_without_a_listener_is_told_once_all_names_are_known)
{
	struct places *places = places_new(&config);
	struct member_names *names = member_names_new(&config, places);
	char member[64] = "";

	member_names_learn(names, 0, bytes_of("db1:27017"));
	cr_assert(covered(names, BCON_NEW("hosts", "[", "db1:27017", "db9:27017", "]"), member));
	member_names_learn(names, 1, bytes_of("db2:27017"));
	cr_assert(covered(names, BCON_NEW("hosts", "[", "db1:27017", "db2:27017", "]"), member));
	cr_assert_not(
		covered(names, BCON_NEW("hosts", "[", "db1:27017", "db9:27017", "]"), member));
	cr_assert_str_eq(member, "db9:27017");
	cr_assert_not(covered(names, BCON_NEW("hosts", "[", "]", "passives", "[", "db8:27017", "]"),
			      member));
	cr_assert(covered(names, BCON_NEW("hosts", "[", "]", "arbiters", "[", "db8:27017", "]"),
			  member));
	cr_assert(covered(names, BCON_NEW("isWritablePrimary", BCON_BOOL(true)), member));
	member_names_free(names);
	places_free(places);
}

Test(member_names, a_listener_that_is_closed_stands_before_nobody)
{
	struct places *places = places_new(&config);
	struct member_names *names = member_names_new(&config, places);
	struct bytes advertised;
	char member[64];

	member_names_learn(names, 0, bytes_of("db1:27017"));
	member_names_learn(names, 1, bytes_of("db2:27017"));
	places_turn(places, 1, NULL);
	cr_assert_not(member_names_find(names, bytes_of("db2:27017"), &advertised));
	cr_assert_not(covered(names, BCON_NEW("hosts", "[", "db2:27017", "]"), member));
	places_turn(places, 1, "10.0.0.2:27017");
	cr_assert(member_names_find(names, bytes_of("db2:27017"), &advertised));
	member_names_free(names);
	places_free(places);
}

Test(member_names, what_others_know_of_a_server_is_copied)
{
	struct places *places = places_new(&config);
	struct member_names *names = member_names_new(&config, places);
	struct member_names *others = member_names_new(&config, places);
	struct bytes advertised;

	member_names_learn(others, 0, bytes_of("db1:27017"));
	member_names_copy(names, others, 0);
	member_names_copy(names, others, 1);
	cr_assert(member_names_find(names, bytes_of("db1:27017"), &advertised));
	cr_assert_not(member_names_known(names, 1));
	member_names_free(others);
	member_names_free(names);
	places_free(places);
}
