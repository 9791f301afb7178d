#include "proxy/crowd/peers.h"

#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static struct peer four(const char *host)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(4711)};

	cr_assert_eq(inet_pton(AF_INET, host, &address.sin_addr), 1);
	return peer_of((const struct sockaddr *)(const void *)&address);
}

static struct peer six(const char *host)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(4712)};

	cr_assert_eq(inet_pton(AF_INET6, host, &address.sin6_addr), 1);
	return peer_of((const struct sockaddr *)(const void *)&address);
}

Test(peers, are_written_as_addresses_are)
{
	const struct sockaddr_storage other = {.ss_family = AF_UNIX};
	struct peer ipv4 = four("127.0.0.1"), ipv6 = six("fe80::1"),
		    mapped = six("::ffff:10.1.2.3");
	struct peer none = peer_of((const struct sockaddr *)(const void *)&other);
	char text[PEER_TEXT];

	cr_expect_str_eq(peer_text(&ipv4, text), "127.0.0.1:4711");
	cr_expect_str_eq(peer_text(&ipv6, text), "[fe80::1]:4712");
	cr_expect_str_eq(peer_text(&mapped, text), "10.1.2.3:4712");
	cr_expect_str_eq(peer_text(&none, text), "an unknown address");
}

Test(peers, are_counted_by_address)
{
	static struct peers peers;
	struct peer one = four("10.0.0.1"), same = six("::ffff:10.0.0.1"), other = six("::1");

	peers_init(&peers);
	cr_expect_eq(peers_join(&peers, &one), 1);
	cr_expect_eq(peers_join(&peers, &other), 1);
	cr_expect_eq(peers_join(&peers, &same), 2, "the port does not count, nor does the family");
	peers_leave(&peers, &one);
	cr_expect_eq(peers_join(&peers, &one), 2);
	peers_leave(&peers, &one);
	peers_leave(&peers, &same);
	cr_expect_eq(peers_join(&peers, &one), 1);
	peers_leave(&peers, &one);
	peers_leave(&peers, &other);
	peers_fini(&peers);
}

Test(peers, many_addresses_are_kept_apart)
{
	static struct peers peers;
	struct peer peer = four("10.0.0.0");
	int many = (int)unit_share(20000, 2000);

	peers_init(&peers);
	for (int round = 1; round <= 2; round++)
		for (int i = 0; i < many; i++) {
			peer.address[14] = (uint8_t)(i >> 8);
			peer.address[15] = (uint8_t)i;
			cr_assert_eq(peers_join(&peers, &peer), round, "%d", i);
		}
	for (int i = 0; i < 2 * many; i++) {
		peer.address[14] = (uint8_t)(i % many >> 8);
		peer.address[15] = (uint8_t)(i % many);
		peers_leave(&peers, &peer);
	}
	peers_fini(&peers);
}
