/* The header of the PROXY protocol, versions 1 and 2; addresses and networks as texts. */
#include "protocol/proxied.h"

/* ---- addresses and networks ---- */

#define GROUPS 8

/* A number at the start of the text, which is taken off; -1 where there is none or it is larger
 * than `most`. Decimal ones have no needless zeros in front. */
static int take_number(struct bytes *text, int base, int most)
{
	static const char digits[] = "0123456789abcdef";
	int number = 0;
	size_t at = 0;

	for (; at < text->length; at++) {
		uint8_t byte = text->data[at];
		const char *digit;

		if (byte >= 'A' && byte <= 'F')
			byte = (uint8_t)(byte + ('a' - 'A'));
		digit = memchr(digits, byte, (size_t)base);
		if (!digit)
			break;
		if (at > 0 && number == 0 && base == 10)
			return -1;
		number = number * base + (int)(digit - digits);
		if (number > most || at > 4)
			return -1;
	}
	*text = (struct bytes){text->data + at, text->length - at};
	return at > 0 ? number : -1;
}

static bool take_byte(struct bytes *text, uint8_t byte)
{
	if (text->length == 0 || text->data[0] != byte)
		return false;
	*text = (struct bytes){text->data + 1, text->length - 1};
	return true;
}

static bool read_four(struct bytes text, uint8_t *address)
{
	for (int i = 0; i < 4; i++) {
		int number;

		if (i > 0 && !take_byte(&text, '.'))
			return false;
		number = take_number(&text, 10, 255);
		if (number < 0)
			return false;
		address[i] = (uint8_t)number;
	}
	return text.length == 0;
}

/* The groups of an IPv6 address; `gap`: before which of them :: stands, or GROUPS. */
struct groups {
	uint8_t bytes[NETWORK_ADDRESS];
	size_t count;
	size_t gap;
};

static bool ends_in_four(struct bytes text)
{
	return memchr(text.data, '.', text.length) && !memchr(text.data, ':', text.length);
}

static bool read_groups(struct bytes text, struct groups *groups)
{
	if (text.length >= 2 && text.data[0] == ':' && text.data[1] == ':') {
		groups->gap = 0;
		text = (struct bytes){text.data + 2, text.length - 2};
	}
	while (text.length > 0) {
		uint8_t *at = groups->bytes + 2 * groups->count;
		int number;

		if (groups->count <= GROUPS - 2 && ends_in_four(text)) {
			groups->count += 2;
			return read_four(text, at);
		}
		number = groups->count < GROUPS ? take_number(&text, 16, 0xffff) : -1;
		if (number < 0)
			return false;
		at[0] = (uint8_t)(number >> 8);
		at[1] = (uint8_t)number;
		groups->count++;
		if (text.length == 0)
			return true;
		if (!take_byte(&text, ':') || text.length == 0)
			return false;
		if (groups->gap == GROUPS && take_byte(&text, ':'))
			groups->gap = groups->count;
	}
	return true;
}

static bool read_six(struct bytes text, uint8_t *address)
{
	struct groups groups = {.gap = GROUPS};
	size_t front, back;

	if (text.length == 0 || !read_groups(text, &groups))
		return false;
	if (groups.gap == GROUPS ? groups.count != GROUPS : groups.count >= GROUPS)
		return false;
	front = 2 * least(groups.gap, groups.count);
	back = 2 * groups.count - front;
	memset(address, 0, NETWORK_ADDRESS);
	memcpy(address, groups.bytes, front);
	memcpy(address + NETWORK_ADDRESS - back, groups.bytes + front, back);
	return true;
}

must_check bool network_address(struct bytes text, uint8_t address[NETWORK_ADDRESS])
{
	uint8_t read[NETWORK_ADDRESS] = {[10] = 0xff, [11] = 0xff};

	if (text.length == 0)
		return false;
	if (!read_four(text, read + 12) && !read_six(text, read))
		return false;
	memcpy(address, read, sizeof(read));
	return true;
}

must_check bool network_parse(struct bytes text, struct network *network)
{
	const uint8_t *slash = text.length > 0 ? memchr(text.data, '/', text.length) : NULL;
	struct bytes address = {text.data, slash ? (size_t)(slash - text.data) : text.length};
	struct bytes length;
	bool four;
	int bits;

	if (!network_address(address, network->address))
		return false;
	four = !memchr(address.data, ':', address.length);
	network->bits = 128;
	if (!slash)
		return true;
	length = (struct bytes){slash + 1, text.length - address.length - 1};
	bits = take_number(&length, 10, four ? 32 : 128);
	if (bits < 0 || length.length > 0)
		return false;
	network->bits = (uint8_t)(four ? bits + 96 : bits);
	return true;
}

bool network_holds(const struct network *network, const uint8_t address[NETWORK_ADDRESS])
{
	size_t whole = network->bits / 8, rest = network->bits % 8;

	if (memcmp(network->address, address, whole) != 0)
		return false;
	return rest == 0 || (network->address[whole] ^ address[whole]) >> (8 - rest) == 0;
}

/* ---- the header ---- */

#define FIRST_LONGEST 107 /* version 1, with its CR LF */
#define FIRST_SHORTEST 15 /* "PROXY UNKNOWN\r\n" */
#define SECOND_HEAD 16    /* version 2: signature, command, family, length */
#define SECOND_SIGNATURE 12
#define SECOND_FOUR 12 /* two addresses, two ports */
#define SECOND_SIX 36

static const uint8_t signature[SECOND_SIGNATURE] = {0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d,
						    0x0a, 'Q',  'U',  'I',  'T',  0x0a};
static const uint8_t first_words[] = {'P', 'R', 'O', 'X', 'Y', ' '};

static bool begins_as(struct bytes bytes, const uint8_t *start, size_t length)
{
	return memcmp(bytes.data, start, least(bytes.length, length)) == 0;
}

/* ---- version 1: a line of text ---- */

/* The next word; words have one space between them. */
static struct bytes take_word(struct bytes *line)
{
	const uint8_t *space = line->length > 0 ? memchr(line->data, ' ', line->length) : NULL;
	struct bytes word = {line->data, space ? (size_t)(space - line->data) : line->length};
	size_t gone = least(word.length + 1, line->length);

	*line = (struct bytes){line->data + gone, line->length - gone};
	return word;
}

static bool read_port(struct bytes word, uint16_t *port)
{
	unsigned number = 0;

	if (word.length == 0 || word.length > 5)
		return false;
	for (size_t i = 0; i < word.length; i++) {
		if (word.data[i] < '0' || word.data[i] > '9')
			return false;
		number = 10 * number + (word.data[i] - (unsigned)'0');
	}
	*port = (uint16_t)number;
	return number <= UINT16_MAX;
}

/* The line without "PROXY " and its end. */
static bool read_line(struct bytes line, struct proxied *proxied)
{
	uint8_t other[NETWORK_ADDRESS];
	struct bytes family = take_word(&line), source, target;
	uint16_t other_port;
	bool six;

	*proxied = (struct proxied){0};
	if (bytes_are(family, "UNKNOWN"))
		return true;
	if (!bytes_are(family, "TCP4") && !bytes_are(family, "TCP6"))
		return false;
	source = take_word(&line);
	target = take_word(&line);
	six = source.length > 0 && memchr(source.data, ':', source.length);
	proxied->known = network_address(source, proxied->address) &&
			 six == bytes_are(family, "TCP6") && network_address(target, other) &&
			 read_port(take_word(&line), &proxied->port) &&
			 read_port(take_word(&line), &other_port) && line.length == 0;
	return proxied->known;
}

static enum proxied_state read_first(struct bytes bytes, struct proxied *proxied, size_t *missing)
{
	size_t length = bytes.length, words = sizeof(first_words);

	if (length < FIRST_SHORTEST) {
		*missing = FIRST_SHORTEST - length;
		return PROXIED_SHORT;
	}
	if (memchr(bytes.data, '\n', length - 1))
		return PROXIED_INVALID;
	if (bytes.data[length - 1] != '\n') {
		*missing = 1;
		return length < FIRST_LONGEST ? PROXIED_SHORT : PROXIED_INVALID;
	}
	if (bytes.data[length - 2] != '\r' ||
	    !read_line((struct bytes){bytes.data + words, length - words - 2}, proxied))
		return PROXIED_INVALID;
	return PROXIED_READY;
}

/* ---- version 2: binary ---- */

static void read_second_address(const uint8_t *at, bool six, struct proxied *proxied)
{
	const uint8_t *port = at + (six ? 32 : 8);

	*proxied = (struct proxied){.known = true, .address = {[10] = 0xff, [11] = 0xff}};
	memcpy(proxied->address + (six ? 0 : 12), at, six ? 16 : 4);
	proxied->port = (uint16_t)(port[0] << 8 | port[1]);
}

static enum proxied_state read_second(struct bytes bytes, struct proxied *proxied, size_t *missing)
{
	size_t length;
	uint8_t command, family;

	if (bytes.length < SECOND_HEAD) {
		*missing = SECOND_HEAD - bytes.length;
		return PROXIED_SHORT;
	}
	length = (size_t)bytes.data[14] << 8 | bytes.data[15];
	command = bytes.data[12];
	family = bytes.data[13];
	if ((command != 0x20 && command != 0x21) || SECOND_HEAD + length > PROXIED_MOST)
		return PROXIED_INVALID;
	if (bytes.length < SECOND_HEAD + length) {
		*missing = SECOND_HEAD + length - bytes.length;
		return PROXIED_SHORT;
	}
	if (bytes.length > SECOND_HEAD + length)
		return PROXIED_INVALID;
	*proxied = (struct proxied){0};
	if (command == 0x20 || (family != 0x11 && family != 0x21)) /* LOCAL; not TCP */
		return PROXIED_READY;
	if (length < (family == 0x21 ? SECOND_SIX : SECOND_FOUR))
		return PROXIED_INVALID;
	read_second_address(bytes.data + SECOND_HEAD, family == 0x21, proxied);
	return PROXIED_READY;
}

must_check enum proxied_state proxied_read(struct bytes bytes, struct proxied *proxied,
					   size_t *missing)
{
	*missing = FIRST_SHORTEST;
	if (bytes.length == 0)
		return PROXIED_SHORT;
	if (begins_as(bytes, first_words, sizeof(first_words)))
		return read_first(bytes, proxied, missing);
	if (begins_as(bytes, signature, sizeof(signature)))
		return read_second(bytes, proxied, missing);
	return PROXIED_INVALID;
}
