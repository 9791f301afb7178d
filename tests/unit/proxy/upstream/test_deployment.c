/* Tests proxy/upstream/deployment.c: what two servers say of themselves that are none of one
 * deployment. */
#include "tests/unit/unit.h"

#include "proxy/upstream/deployment.h"

#include <bson/bson.h>

/* JSON is written with ' for ". */
static bson_t *parse(const char *json)
{
	auto_free char *text = must_strndup(json, strlen(json));
	bson_error_t error;
	bson_t *built;

	for (char *at = text; *at; at++)
		*at = *at == '\'' ? '"' : *at;
	built = bson_new_from_json((const uint8_t *)text, -1, &error);
	cr_assert_not_null(built, "%s: %s", text, error.message);
	return built;
}

static bool differ(const char *upstream, const char *server)
{
	bson_t *one = parse(upstream), *other = parse(server);
	bool found = deployment_differs((struct bytes){bson_get_data(one), one->len},
					(struct bytes){bson_get_data(other), other->len});

	bson_destroy(one);
	bson_destroy(other);
	return found;
}

#define PROCESS(last) \
	"'topologyVersion': {'processId': {'$oid': '00000000000000000000000" last "'}}"

Test(deployment, a_standalone_is_one_process)
{
	cr_assert_not(differ("{" PROCESS("1") "}", "{" PROCESS("1") "}"));
	cr_assert(differ("{" PROCESS("1") "}", "{" PROCESS("2") "}"));
	cr_assert(differ("{" PROCESS("1") "}", "{'isreplicaset': true, " PROCESS("2") "}"));
}

Test(deployment, what_a_server_does_not_say_tells_nothing)
{
	cr_assert_not(differ("{" PROCESS("1") "}", "{}"));
	cr_assert_not(differ("{}", "{" PROCESS("2") "}"));
	cr_assert_not(differ("{" PROCESS("1") "}", "{'topologyVersion': {'processId': 2}}"));
	cr_assert_not(differ("{" PROCESS("1") "}", "{'topologyVersion': 2}"));
}

Test(deployment, members_are_many_processes_of_one_set)
{
	cr_assert_not(
		differ("{'setName': 'a', " PROCESS("1") "}", "{'setName': 'a', " PROCESS("2") "}"));
	cr_assert(differ("{'setName': 'a'}", "{'setName': 'b'}"));
	cr_assert(differ("{" PROCESS("1") "}", "{'setName': 'b', " PROCESS("2") "}"));
}

Test(deployment, a_member_without_its_set_is_maintained)
{
	cr_assert_not(differ("{'setName': 'a', " PROCESS("1") "}", "{" PROCESS("2") "}"));
}

Test(deployment, of_routers_nothing_is_known)
{
	cr_assert_not(differ("{'msg': 'isdbgrid', " PROCESS("1") "}",
			     "{'msg': 'isdbgrid', " PROCESS("2") "}"));
	cr_assert_not(differ("{" PROCESS("1") "}", "{'msg': 'isdbgrid', " PROCESS("2") "}"));
}
