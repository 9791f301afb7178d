/* Keeps the admin address's connections in the order in which they came. */
#include "proxy/admin/crowd.h"

#include "protocol/base.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

struct crowd_member {
	struct crowd_member *before, *behind;
	struct in6_addr address; /* IPv4 in its mapped form */
	int descriptor;
	bool ended; /* shut down; counts no more */
};

struct crowd {
	struct crowd_member *oldest, *newest;
};

struct crowd *crowd_new(void)
{
	return must_calloc(1, sizeof(struct crowd));
}

void crowd_free(struct crowd *crowd)
{
	require(!crowd || !crowd->oldest);
	free(crowd);
}

static struct in6_addr address_of(const struct sockaddr *address)
{
	const struct sockaddr_in *four = (const void *)address;
	const struct sockaddr_in6 *six = (const void *)address;
	struct in6_addr mapped = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

	if (address->sa_family == AF_INET6)
		return six->sin6_addr;
	memcpy(&mapped.s6_addr[12], &four->sin_addr, sizeof(four->sin_addr));
	return mapped;
}

static bool same_address(const struct crowd_member *one, const struct crowd_member *other)
{
	return memcmp(&one->address, &other->address, sizeof(one->address)) == 0;
}

static void end(struct crowd_member *member)
{
	member->ended = true;
	shutdown(member->descriptor, SHUT_RDWR);
}

static void make_room(struct crowd *crowd, const struct crowd_member *newcomer)
{
	struct crowd_member *oldest = NULL, *oldest_near = NULL;
	size_t all = 0, near = 0;

	for (struct crowd_member *at = crowd->oldest; at; at = at->behind) {
		if (at->ended)
			continue;
		oldest = oldest ? oldest : at;
		all++;
		if (same_address(at, newcomer)) {
			oldest_near = oldest_near ? oldest_near : at;
			near++;
		}
	}
	if (near >= CROWD_OF_ADDRESS)
		end(oldest_near);
	else if (all >= CROWD_MAX)
		end(oldest);
}

struct crowd_member *crowd_enter(struct crowd *crowd, const struct sockaddr *address,
				 int descriptor)
{
	struct crowd_member *member = must_calloc(1, sizeof(*member));

	member->address = address_of(address);
	member->descriptor = descriptor;
	make_room(crowd, member);
	member->before = crowd->newest;
	*(crowd->newest ? &crowd->newest->behind : &crowd->oldest) = member;
	crowd->newest = member;
	return member;
}

void crowd_leave(struct crowd *crowd, struct crowd_member *member)
{
	*(member->before ? &member->before->behind : &crowd->oldest) = member->behind;
	*(member->behind ? &member->behind->before : &crowd->newest) = member->before;
	free(member);
}
