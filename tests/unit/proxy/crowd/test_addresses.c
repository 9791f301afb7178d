/* Tests proxy/crowd/addresses.c: which address came most often. */
#include "tests/unit/unit.h"

#include "proxy/crowd/addresses.h"

static struct peer peer(uint8_t last, uint16_t port)
{
	return (struct peer){.address = {[15] = last}, .port = port, .known = true};
}

Test(addresses, none_came)
{
	struct addresses addresses = {.count = 0};
	size_t count = 1;

	cr_assert_null(addresses_most(&addresses, &count));
	cr_assert_eq(count, 0);
}

Test(addresses, the_most_frequent_one_is_found_whatever_its_ports)
{
	struct peer peers[] = {peer(1, 1), peer(2, 1), peer(1, 2), peer(2, 2), peer(2, 3)};
	struct addresses addresses = {.count = 0};
	size_t count;

	for (size_t i = 0; i < ARRAY_LENGTH(peers); i++)
		addresses_add(&addresses, &peers[i]);
	cr_assert(peer_same_address(addresses_most(&addresses, &count), &peers[1]));
	cr_assert_eq(count, 3);
}

Test(addresses, what_there_is_no_room_for_is_not_counted)
{
	struct peer peers[ADDRESSES_MAX + 1];
	struct addresses addresses = {.count = 0};
	size_t count;

	for (size_t i = 0; i < ARRAY_LENGTH(peers); i++) {
		peers[i] = peer((uint8_t)i, 1);
		addresses_add(&addresses, &peers[i]);
	}
	addresses_add(&addresses, &peers[ADDRESSES_MAX]);
	addresses_add(&addresses, &peers[3]);
	cr_assert(peer_same_address(addresses_most(&addresses, &count), &peers[3]));
	cr_assert_eq(count, 2);
	cr_assert_eq(addresses.count, ADDRESSES_MAX);
}
