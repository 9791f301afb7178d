/* Builds and judges text for people. */
#include "rules/rule/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

void text_append(struct buffer *buffer, const char *format, ...)
{
	va_list arguments, again;
	int length;

	va_start(arguments, format);
	va_copy(again, arguments);
	length = vsnprintf(NULL, 0, format, arguments);
	va_end(arguments);
	require(length >= 0);
	buffer_reserve(buffer, (size_t)length + 1);
	vsnprintf((char *)buffer->data + buffer->length, (size_t)length + 1, format, again);
	va_end(again);
	buffer->length += (size_t)length;
}

char *text_steal(struct buffer *buffer)
{
	buffer_append(buffer, "", 1);
	return (char *)buffer_steal(buffer).data;
}

struct text_quote text_quote(struct bytes text)
{
	static const char cut[] = "...";
	struct text_quote quote = {{0}};
	size_t room = sizeof(quote.text) - sizeof(cut);
	size_t length = text.length <= room ? text.length : room;

	/* A character that would be cut in two is left out. */
	while (length < text.length && length > 0 && (text.data[length] & 0xc0) == 0x80)
		length--;
	for (size_t i = 0; i < length; i++)
		quote.text[i] =
			text.data[i] < 0x20 || text.data[i] == 0x7f ? '?' : (char)text.data[i];
	if (length < text.length)
		memcpy(quote.text + length, cut, sizeof(cut));
	return quote;
}

#define WORD_MAX 48 /* longer ones are compared by their beginning */

static bool same_letter(uint8_t a, char b)
{
	return tolower(a) == tolower((unsigned char)b);
}

/* Levenshtein's distance, upper and lower case being the same. */
static size_t distance(struct bytes word, const char *other)
{
	size_t length = least(word.length, WORD_MAX), other_length = least(strlen(other), WORD_MAX);
	size_t row[WORD_MAX + 1];

	for (size_t j = 0; j <= other_length; j++)
		row[j] = j;
	for (size_t i = 1; i <= length; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= other_length; j++) {
			bool same = same_letter(word.data[i - 1], other[j - 1]);
			size_t replaced = diagonal + !same;

			diagonal = row[j];
			row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
		}
	}
	return row[other_length];
}

const char *text_nearest(struct bytes word, const char *const *words)
{
	const char *nearest = *words;

	for (; *words; words++) {
		if (distance(word, *words) < distance(word, nearest))
			nearest = *words;
	}
	return nearest;
}

/* How many bytes the character at `at` has; 0 where it is none. */
static size_t character_length(const uint8_t *at, size_t left)
{
	static const struct {
		uint8_t mask, lead;
		uint32_t least;
	} forms[] = {
		{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

	for (size_t length = 1; length <= ARRAY_LENGTH(forms); length++) {
		uint32_t code = at[0] & (uint8_t)~forms[length - 1].mask;

		if ((at[0] & forms[length - 1].mask) != forms[length - 1].lead)
			continue;
		if (length > left)
			return 0;
		for (size_t i = 1; i < length; i++) {
			if ((at[i] & 0xc0) != 0x80)
				return 0;
			code = code << 6 | (at[i] & 0x3f);
		}
		if (code < forms[length - 1].least || code > 0x10ffff || (code >> 11) == 0x1b)
			return 0;
		return length;
	}
	return 0;
}

size_t text_valid_length(struct bytes text)
{
	size_t at = 0;

	while (at < text.length) {
		size_t length = character_length(text.data + at, text.length - at);

		if (length == 0)
			break;
		at += length;
	}
	return at;
}

char *text_valid(const char *text)
{
	size_t length = strlen(text), at = 0;
	char *valid = must_strndup(text, length);

	while ((at += text_valid_length((struct bytes){(uint8_t *)valid + at, length - at})) <
	       length)
		valid[at] = '?';
	return valid;
}

/* C0, DEL and C1, by their first bytes. */
static bool is_control(const uint8_t *character, size_t length)
{
	return character[0] < 0x20 || character[0] == 0x7f ||
	       (length == 2 && character[0] == 0xc2 && character[1] < 0xa0);
}

char *text_plain(const char *text)
{
	const uint8_t *at = (const uint8_t *)text;
	struct buffer plain = {0};
	size_t left = strlen(text);

	while (left > 0) {
		size_t length = character_length(at, left);

		if (length == 0)
			text_append(&plain, "\\x%02x", at[0]);
		else if (is_control(at, length))
			text_append(&plain, "\\u%04x", at[length - 1]);
		else
			buffer_append(&plain, at, length);
		length += length == 0;
		at += length;
		left -= length;
	}
	return text_steal(&plain);
}
