/* Tests rules/write/write_result.c: what is kept of very many errors. */
#include "tests/unit/wire_make.h"

#include "protocol/template.h"
#include "protocol/writer.h"
#include "rules/write/write_result.h"

#include <stdlib.h>

#define MANY 100
#define LONG (1 << 20)

/* {n: 0, writeErrors: [{index: 0, code: 11000, errmsg: "xx...x"}], ok: 1} */
static struct packet failed(void)
{
	auto_free char *text = must_malloc(LONG + 1);
	struct buffer frame = {0};
	size_t start = message_begin(&frame, 0, 7, 0);
	struct packet packet;

	memset(text, 'x', LONG);
	text[LONG] = '\0';
	message_begin_body(&frame);
	template_write_document(&frame,
				"{n: 0, nModified: 0, writeErrors: [{index: 0, code: 11000, "
				"errmsg: @text}], ok: 1}",
				fill("text", (const char *)text));
	message_end(&frame, start);
	packet_read_reply(&packet, &frame);
	return packet;
}

static size_t held(const struct write_result *result)
{
	size_t bytes = 0;

	for (size_t i = 0; i < result->reply_count; i++)
		bytes += result->replies[i].raw.length;
	for (size_t i = 0; i < result->made_count; i++)
		bytes += result->made[i].capacity;
	return bytes;
}

Test(write_result, of_very_many_long_errors_all_are_told_and_the_first_have_words)
{
	struct write_result result = {0};
	auto_buffer struct buffer out = {0};
	size_t with_words = 0;

	for (size_t i = 0; i < MANY; i++) {
		struct packet reply = failed();

		cr_assert(write_result_add(&result, &reply, i));
		cr_assert_leq(held(&result), WRITE_RESULT_ERRORS_MOST + 4 * LONG);
		cr_assert_geq(2 * write_result_memory(&result), held(&result));
	}
	cr_assert_eq(result.errors.count, MANY);
	for (size_t i = 0; i < MANY; i++) {
		struct bytes document = result.errors.entries[i].document;
		int64_t code;

		cr_assert(document_find_integer(document, "code", &code));
		cr_expect_eq(code, 11000);
		cr_expect_eq(result.errors.entries[i].index, i);
		with_words += document.length > LONG;
	}
	cr_expect_geq(with_words, WRITE_RESULT_ERRORS_MOST / LONG);
	cr_expect_lt(with_words, MANY / 2);
	write_result_append(&result, &out, 7);
	cr_expect_leq(out.length, WRITE_RESULT_ERRORS_MOST + 4 * LONG);
	write_result_fini(&result);
}

Test(write_result, an_error_of_ours_behind_them_has_none_either)
{
	struct write_result result = {0};
	size_t count = WRITE_RESULT_ERRORS_MOST / LONG + 1;
	struct bytes text;

	for (size_t i = 0; i < count; i++) {
		struct packet reply = failed();

		cr_assert(write_result_add(&result, &reply, i));
	}
	write_result_add_error(&result, count, 2, bytes_of("bad"));
	cr_assert(document_find_string(result.errors.entries[count].document, "errmsg", &text));
	cr_expect(bytes_begin_with(text, "left out"));
	write_result_fini(&result);
}
