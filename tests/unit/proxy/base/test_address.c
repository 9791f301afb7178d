#include "proxy/base/address.h"

#include "tests/unit/unit.h"

static bool overlap(const char *one, const char *other)
{
	struct sockaddr_storage first = {0}, second = {0};

	cr_assert(address_resolve_now(one, &first));
	cr_assert(address_resolve_now(other, &second));
	cr_assert_eq(address_overlaps(&first, &second), address_overlaps(&second, &first));
	return address_overlaps(&first, &second);
}

Test(address, one_port_of_one_host_or_of_all_hosts_overlaps)
{
	cr_assert(overlap("127.0.0.1:27017", "127.0.0.1:27017"));
	cr_assert(overlap("127.0.0.1:27017", "0.0.0.0:27017"));
	cr_assert(overlap("127.0.0.1:27017", "[::]:27017"));
	cr_assert(overlap("[::1]:27017", "[::]:27017"));
	cr_assert_not(overlap("127.0.0.1:27017", "127.0.0.2:27017"));
	cr_assert_not(overlap("127.0.0.1:27017", "[::1]:27017"));
	cr_assert_not(overlap("127.0.0.1:27017", "0.0.0.0:27018"));
}
