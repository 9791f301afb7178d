/* Any bytes as a message that goes by: the same is kept of it in whatever pieces it comes, and what
 * is kept is a message whose fields stand in the whole one. */
#include "tests/fuzz/fuzz.h"

#include "protocol/skim.h"

static bool skim_in_pieces(struct bytes bytes, size_t piece, struct buffer *kept)
{
	struct skim *skim = skim_new();
	bool read;

	while (bytes.length > 0) {
		struct bytes next = {bytes.data, piece < bytes.length ? piece : bytes.length};

		skim_take(skim, next);
		bytes.data += next.length;
		bytes.length -= next.length;
	}
	read = skim_end(skim, kept);
	skim_free(skim);
	return read;
}

/* In their order, since each is looked for behind the one before. */
static void require_fields_of(struct bytes kept, struct bytes body)
{
	struct cursor some, all;
	struct element field, same;

	require(cursor_open(&some, kept) && cursor_open(&all, body));
	while (cursor_next(&some, &field) == CURSOR_ELEMENT) {
		do
			require(cursor_next(&all, &same) == CURSOR_ELEMENT);
		while (!bytes_equal(element_raw(&field), element_raw(&same)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_buffer struct buffer whole = {0}, pieces = {0};
	struct bytes frame = {data, size};
	struct message message, kept;
	bool read = skim_in_pieces(frame, size + 1, &whole);

	require(read == skim_in_pieces(frame, size > 0 ? 1 + data[size - 1] % 64U : 1, &pieces));
	require(bytes_equal(buffer_view(&whole), buffer_view(&pieces)));
	/* Flags that nobody knows are kept, for the reader of what is kept to judge. */
	if (read && message_parse(buffer_view(&whole), &kept) && message_parse(frame, &message))
		require_fields_of(kept.body, message.body);
	return 0;
}
