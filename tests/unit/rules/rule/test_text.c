/* Tests rules/rule/text.c: quoting, nearest words, UTF-8. */
#include "tests/unit/unit.h"

#include "rules/rule/text.h"

static void expect_quote(const char *text, const char *expected)
{
	struct text_quote quote = text_quote(bytes_of(text));

	cr_assert_str_eq(quote.text, expected);
}

Test(text, a_quote_fits_in_a_line)
{
	expect_quote("", "");
	expect_quote("a\tb\nc\033[1m\177", "a?b?c?[1m?");
	expect_quote("1234567890123456789012345678901234567890123456789012345678901234567890",
		     "12345678901234567890123456789012345678901234567890123456789012345678...");
	/* The two bytes of the last letter would be cut apart. */
	expect_quote("1234567890123456789012345678901234567890123456789012345678901234567\303\244x",
		     "1234567890123456789012345678901234567890123456789012345678901234567...");
}

static void expect_plain(const char *text, const char *expected)
{
	auto_free char *plain = text_plain(text);

	cr_assert_str_eq(plain, expected);
}

Test(text, a_terminal_is_told_nothing)
{
	expect_plain("", "");
	expect_plain("list of \303\244\342\202\254\360\237\230\200 \302\240",
		     "list of \303\244\342\202\254\360\237\230\200 \302\240");
	expect_plain("a\nb\r\tc\033[1m\177", "a\\u000ab\\u000d\\u0009c\\u001b[1m\\u007f");
	expect_plain("\302\233", "\\u009b");
	expect_plain("\233x\303", "\\x9bx\\xc3");
	expect_plain("\300\233\355\240\200", "\\xc0\\x9b\\xed\\xa0\\x80");
}

Test(text, appended_pieces_make_one_text)
{
	struct buffer buffer = {0};
	auto_free char *text = NULL;

	text_append(&buffer, "%s", "");
	text_append(&buffer, "%d,", 5);
	text_append(&buffer, "%300s", "x");
	text = text_steal(&buffer);
	cr_assert_eq(strlen(text), 302);
	cr_assert_eq(strncmp(text, "5,  ", 4), 0);
	cr_assert_null(buffer.data);
}

static const char *nearest(const char *word)
{
	static const char *const words[] = {"threshold", "max_bytes", "array", NULL};

	return text_nearest(bytes_of(word), words);
}

Test(text, the_nearest_word_takes_the_fewest_changes)
{
	cr_assert_str_eq(nearest("treshold"), "threshold");
	cr_assert_str_eq(nearest("MAXBYTES"), "max_bytes");
	cr_assert_str_eq(nearest("arrays"), "array");
	cr_assert_str_eq(nearest(""), "array");
	cr_assert_not_null(nearest("a_very_long_word_that_is_longer_than_any_of_the_words_known"));
}

static size_t valid(const char *text)
{
	return text_valid_length(bytes_of(text));
}

Test(text, utf8_is_known)
{
	cr_assert_eq(valid(""), 0);
	cr_assert_eq(valid("a\303\244\342\202\254\360\237\230\200"), 10);
	cr_assert_eq(valid("a\200"), 1, "a continuation alone");
	cr_assert_eq(valid("ab\303"), 2, "cut off");
	cr_assert_eq(valid("ab\303a"), 2);
	cr_assert_eq(valid("\300\200"), 0, "longer than needed");
	cr_assert_eq(valid("\340\200\200"), 0);
	cr_assert_eq(valid("\355\240\200"), 0, "a surrogate");
	cr_assert_eq(valid("\364\220\200\200"), 0, "beyond U+10FFFF");
	cr_assert_eq(valid("\377"), 0);
	cr_assert_eq(text_valid_length((struct bytes){(const uint8_t *)"a\0b", 3}), 3);
}

Test(text, what_is_no_utf8_is_replaced)
{
	static const char *const texts[][2] = {{"", ""},
					       {"caf\xc3\xa9 x", "caf\xc3\xa9 x"},
					       {"zz\xff\xfe", "zz??"},
					       {"cut\xc3", "cut?"},
					       {"\xed\xa0\x80y", "???y"}};

	for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
		auto_free char *valid = text_valid(texts[i][0]);

		cr_assert_str_eq(valid, texts[i][1]);
	}
}
