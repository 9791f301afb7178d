#include "proxy/crowd/addresses.h"

void addresses_add(struct addresses *addresses, const struct peer *peer)
{
	size_t i = 0;

	while (i < addresses->count && !peer_same_address(addresses->all[i].peer, peer))
		i++;
	if (i == ADDRESSES_MAX)
		return;
	if (i == addresses->count)
		addresses->all[addresses->count++].peer = peer;
	addresses->all[i].count++;
}

const struct peer *addresses_most(const struct addresses *addresses, size_t *count)
{
	const struct peer *most = NULL;

	*count = 0;
	for (size_t i = 0; i < addresses->count; i++) {
		if (addresses->all[i].count <= *count)
			continue;
		*count = addresses->all[i].count;
		most = addresses->all[i].peer;
	}
	return most;
}
