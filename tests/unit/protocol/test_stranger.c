#include "protocol/stranger.h"

#include "tests/unit/unit.h"

Test(stranger, is_told_by_its_first_bytes)
{
	static const struct {
		const char *start;
		size_t length;
		enum stranger stranger;
	} strangers[] = {
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11, STRANGER_TLS},
		{"\x16\x03\x03", 3, STRANGER_TLS},
		{"\x16\x02", 2, STRANGER_UNKNOWN},
		{"\x16", 1, STRANGER_UNKNOWN},
		{"GET / HTTP/1.1\r\n", 16, STRANGER_HTTP},
		{"POST /a HTTP/1.1\r\n", 18, STRANGER_HTTP},
		{"PRI * HTTP/2.0\r\n", 16, STRANGER_HTTP},
		{"PROXY TCP4 1.2.3.4", 18, STRANGER_PROXIED},
		{"\r\n\r\n\0\r\nQUIT\n", 12, STRANGER_PROXIED},
		{"SSH-2.0-OpenSSH_9", 17, STRANGER_UNKNOWN},
		{"", 0, STRANGER_UNKNOWN},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(strangers); i++)
		cr_expect_eq(stranger_of((struct bytes){(const uint8_t *)strangers[i].start,
							strangers[i].length}),
			     strangers[i].stranger, "%zu", i);
}

Test(stranger, only_a_request_begins_a_connection)
{
	struct frame_header header = {.length = 50, .opcode = OPCODE_MESSAGE};

	cr_assert(stranger_may_begin(&header));
	header.response_to = -1;
	cr_assert(stranger_may_begin(&header));
	for (int bit = 0; bit < 32; bit++) {
		/* mongod takes these for a ClientHello, whatever the opcode */
		header.response_to = (int32_t)(1u << bit);
		cr_assert(!stranger_may_begin(&header));
	}
	header.response_to = 0;
	for (header.opcode = -5; header.opcode < 3000; header.opcode++)
		cr_assert_eq(stranger_may_begin(&header),
			     header.opcode == OPCODE_MESSAGE || header.opcode == OPCODE_QUERY ||
				     header.opcode == OPCODE_COMPRESSED);
}
