#include "protocol/proxied.h"

#include "tests/unit/unit.h"

#include <arpa/inet.h>

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define HEADER(text) \
	{ \
		(text), sizeof(text) - 1 \
	}

struct header {
	const char *bytes;
	size_t length;
};

/* Reads as a session does: just what is missing, each time. What has been read when it ends. */
static enum proxied_state read_all(struct header header, struct proxied *proxied, size_t *read)
{
	uint8_t *copy = must_malloc(header.length + 1);
	enum proxied_state state;
	size_t missing;

	*read = 0;
	/* A copy of exactly what was read: the address sanitizer sees what is read beyond. */
	while ((state = proxied_read((struct bytes){copy, *read}, proxied, &missing)) ==
		       PROXIED_SHORT &&
	       *read < header.length) {
		cr_assert(missing > 0);
		missing = least(missing, header.length - *read);
		free(copy);
		copy = must_malloc(*read + missing);
		memcpy(copy, header.bytes, *read + missing);
		*read += missing;
	}
	free(copy);
	return state;
}

static const struct {
	struct header header;
	bool known;
	const char *address;
	uint16_t port;
} good[] = {
	{HEADER("PROXY TCP4 192.168.0.1 10.0.0.1 56324 443\r\n"), true, "192.168.0.1", 56324},
	{HEADER("PROXY TCP4 1.2.3.4 5.6.7.8 0 1\r\n"), true, "1.2.3.4", 0},
	{HEADER("PROXY TCP6 2001:db8::1 ::1 65535 1\r\n"), true, "2001:db8::1", 65535},
	{HEADER("PROXY UNKNOWN\r\n"), false, NULL, 0},
	{HEADER("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n"), false, NULL, 0},
	{HEADER(SIGNATURE "\x21\x11\0\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x10\x92\0\1"), true,
	 "1.2.3.4", 4242},
	{HEADER(SIGNATURE "\x21\x11\0\x0f\x01\x02\x03\x04\x05\x06\x07\x08\x10\x92\0\1\4\0\0"), true,
	 "1.2.3.4", 4242},
	{HEADER(SIGNATURE "\x21\x21\0\x24\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"
			  "0123456789abcdef\x10\x92\0\1"),
	 true, "2001:db8::1", 4242},
	{HEADER(SIGNATURE "\x20\x11\0\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x10\x92\0\1"), false,
	 NULL, 0},
	{HEADER(SIGNATURE "\x20\0\0\0"), false, NULL, 0},
	{HEADER(SIGNATURE "\x21\0\0\0"), false, NULL, 0},
	{HEADER(SIGNATURE "\x21\x31\0\3abc"), false, NULL, 0},
};

Test(proxied, says_where_a_connection_comes_from)
{
	for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
		struct proxied proxied;
		uint8_t address[NETWORK_ADDRESS];
		size_t read;

		cr_assert_eq(read_all(good[i].header, &proxied, &read), PROXIED_READY, "%zu", i);
		cr_expect_eq(read, good[i].header.length, "%zu", i);
		cr_assert_eq(proxied.known, good[i].known, "%zu", i);
		if (!proxied.known)
			continue;
		cr_assert(network_address(bytes_of(good[i].address), address));
		cr_expect(memcmp(address, proxied.address, sizeof(address)) == 0, "%zu", i);
		cr_expect_eq(proxied.port, good[i].port, "%zu", i);
	}
}

Test(proxied, never_reads_beyond_itself)
{
	for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
		struct header longer = {NULL, good[i].header.length + 40};
		char *bytes = must_calloc(1, longer.length);
		struct proxied proxied;
		size_t read;

		memset(bytes, '\n', longer.length);
		memcpy(bytes, good[i].header.bytes, good[i].header.length);
		longer.bytes = bytes;
		cr_expect_eq(read_all(longer, &proxied, &read), PROXIED_READY, "%zu", i);
		cr_expect_eq(read, good[i].header.length, "%zu", i);
		free(bytes);
	}
}

Test(proxied, byte_by_byte_it_is_short_until_its_end)
{
	for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
		for (size_t length = 0; length < good[i].header.length; length++) {
			struct bytes start = {(const uint8_t *)good[i].header.bytes, length};
			struct proxied proxied;
			size_t missing;

			cr_expect_eq(proxied_read(start, &proxied, &missing), PROXIED_SHORT,
				     "%zu: %zu", i, length);
			cr_expect(missing > 0 && missing <= good[i].header.length - length,
				  "%zu: %zu", i, length);
		}
}

Test(proxied, what_is_no_header_is_not_taken)
{
	static const struct header bad[] = {
		HEADER("G"),
		HEADER("\x16\x03\x01"),
		HEADER("PROXYTCP4"),
		HEADER("PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n"),
		HEADER("PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n"),
		HEADER("PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n"),
		HEADER("PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n"),
		HEADER("PROXY TCP4 1.2.3.4 5.6.7.8 -1 2\r\n"),
		HEADER("PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n"),
		HEADER("PROXY TCP4 ::1 5.6.7.8 1 2\r\n"),
		HEADER("PROXY TCP6 1.2.3.4 ::1 1 2\r\n"),
		HEADER("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n"),
		HEADER("PROXY TCP4 \r\n     "),
		HEADER("PROXY UNKNOWN                                                              "
		       "      "
		       "                                  \r\n"),
		HEADER("\r\n\r\n\0\r\nQUIT\r"),
		HEADER(SIGNATURE "\x11\x11\0\x0c"),
		HEADER(SIGNATURE "\x22\x11\0\x0c"),
		HEADER(SIGNATURE "\x21\x11\0\x0b\x01\x02\x03\x04\x05\x06\x07\x08\x10\x92\0"),
		HEADER(SIGNATURE "\x21\x21\0\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x10\x92\0\1"),
		HEADER(SIGNATURE "\x21\x11\xff\xff"),
	};

	for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
		struct proxied proxied;
		size_t read;

		cr_expect_eq(read_all(bad[i], &proxied, &read), PROXIED_INVALID, "%zu", i);
	}
}

static struct bytes text(const char *text)
{
	return bytes_of(text);
}

Test(proxied, addresses_are_those_that_the_system_reads)
{
	static const char *const texts[] = {
		"::",
		"::1",
		"1::",
		"2001:db8::1",
		"2001:DB8:0:0:1:2:3:4",
		"1:2:3:4:5:6:7:8",
		"::2:3:4:5:6:7:8",
		"1:2:3:4:5:6:7::",
		"::ffff:10.0.0.1",
		"64:ff9b::1.2.3.4",
		"1:2:3:4:5:6:1.2.3.4",
		"fe80::",
		"1:2:3:4:5:6:7",
		"1:2:3:4:5:6:7:8:9",
		":1",
		"1:",
		":",
		":::",
		"1::2::3",
		"12345::",
		"g::",
		"::1.2.3",
		"1:2:3:4:5:6:7:1.2.3.4",
		"::1.2.3.4:5",
		"1.2.3.4::",
		"::1:2:3:4:5:6:7:8",
		"1:2:3:4::5:6:7:8",
		"::/0",
		"",
		" ::1",
		"::1 ",
		"[::1]",
		"::1%lo",
		"1:::2",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
		uint8_t expected[16], address[16];
		bool is_good = inet_pton(AF_INET6, texts[i], expected) == 1;

		cr_assert_eq(network_address(text(texts[i]), address), is_good, "%s", texts[i]);
		if (is_good)
			cr_expect(memcmp(address, expected, 16) == 0, "%s", texts[i]);
	}
}

Test(proxied, four_numbers_are_an_address_of_version_4)
{
	static const char *const wrong[] = {"1.2.3",    "1.2.3.256", "01.2.3.4", "1.2.3.4.5",
					    "1.2.3.4 ", "1..2.3",    "1.2.3.",   "a.b.c.d",
					    "1.2.3.00", "-1.2.3.4"};
	const uint8_t expected[16] = {[10] = 0xff, [11] = 0xff, 10, 0, 255, 7};
	uint8_t address[16];

	cr_assert(network_address(text("10.0.255.7"), address));
	cr_expect(memcmp(address, expected, 16) == 0);
	for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
		cr_expect_not(network_address(text(wrong[i]), address), "%s", wrong[i]);
}

Test(proxied, a_network_holds_what_begins_as_it_does)
{
	static const struct {
		const char *network, *address;
		bool holds;
	} cases[] = {
		{"10.0.0.0/8", "10.255.1.2", true},
		{"10.0.0.0/8", "11.0.0.0", false},
		{"10.0.0.0/8", "::a00:1", false},
		{"10.1.2.3", "10.1.2.3", true},
		{"10.1.2.3", "10.1.2.2", false},
		{"10.1.2.3/31", "10.1.2.2", true},
		{"0.0.0.0/0", "200.1.1.1", true},
		{"0.0.0.0/0", "::1", false},
		{"::/0", "::1", true},
		{"::/0", "1.2.3.4", true},
		{"2001:db8::/33", "2001:db8:7fff::1", true},
		{"2001:db8::/33", "2001:db8:8000::1", false},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		struct network network;
		uint8_t address[16];

		cr_assert(network_parse(text(cases[i].network), &network), "%zu", i);
		cr_assert(network_address(text(cases[i].address), address), "%zu", i);
		cr_expect_eq(network_holds(&network, address), cases[i].holds, "%zu", i);
	}
}

Test(proxied, the_length_of_a_network_is_a_number_of_bits)
{
	static const char *const wrong[] = {
		"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/8/8", "::/129", "/8",
		"10.0.0.0/-1", "10.0.0/8",  "",           "10.0.0.0/08"};
	struct network network;

	for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
		cr_expect_not(network_parse(text(wrong[i]), &network), "%s", wrong[i]);
}
