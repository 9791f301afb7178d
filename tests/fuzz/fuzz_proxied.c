/* Any bytes as a header of the PROXY protocol and as a network: nothing is read beyond what is
 * there, and what is missing is never beyond the header. */
#include "tests/fuzz/fuzz.h"

#include "protocol/proxied.h"

/* A copy of exactly this size: the address sanitizer sees each byte that is read beyond it. */
static enum proxied_state read_start(const uint8_t *data, size_t size, struct proxied *proxied,
				     size_t *missing)
{
	uint8_t *copy = must_malloc(size + 1);
	enum proxied_state state;

	if (size > 0)
		memcpy(copy + 1, data, size);
	state = proxied_read((struct bytes){copy + 1, size}, proxied, missing);
	free(copy);
	return state;
}

static void read_network(struct bytes text)
{
	struct network network;

	if (network_parse(text, &network)) {
		require(network.bits <= 128);
		require(network_holds(&network, network.address));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct proxied proxied;
	size_t length = 0, missing;
	enum proxied_state state;

	read_network((struct bytes){data, size});
	while ((state = read_start(data, length, &proxied, &missing)) == PROXIED_SHORT) {
		require(missing > 0 && length + missing <= PROXIED_MOST);
		if (length + missing > size)
			return 0;
		/* All beginnings on the way are short, too, or wrong already. */
		for (size_t part = length + 1; part < length + missing; part++) {
			struct proxied other;
			size_t less;

			require(read_start(data, part, &other, &less) != PROXIED_READY);
		}
		length += missing;
	}
	require(length <= PROXIED_MOST);
	return 0;
}
