/* Any documents as a reply and its overflow: merged within their bounds, and what is written is a
 * document that shows nothing of Spillway's. */
#include "tests/fuzz/fuzz.h"

#include "rules/merge/merge.h"

static const struct rule rules[] = {
	{.array = "f",
	 .key = "f",
	 .flag = {.field = "flag"},
	 .threshold = 2,
	 .overflow = {.link = "link", .array = "more", .batch_size = 3}},
	{.array = "a.f",
	 .key = "a/f",
	 .counters = {.total = "total", .documents = "documents"},
	 .expose = {.counters = true},
	 .overflow = {.link = "link", .array = "more", .batch_field = "number", .batch_size = 2}},
	{.array = "c", .key = "c", .overflow = {.link = "link", .layout = RULE_ELEMENTS}},
};

static struct target targets[] = {{.rule = &rules[0]}, {.rule = &rules[1]}, {.rule = &rules[2]}};

static const struct ruled_namespace namespace = {
	.target_count = ARRAY_LENGTH(targets),
	.targets = targets,
};

/* Takes the next document off the input; false at its end. */
static bool next_document(struct bytes *input, struct bytes *document)
{
	size_t length = document_length(*input);

	if (length == 0)
		return false;
	*document = (struct bytes){input->data, length};
	input->data += length;
	input->length -= length;
	return true;
}

static void ask(struct merge *merge)
{
	for (size_t i = 0; i < ARRAY_LENGTH(targets); i++) {
		auto_buffer struct buffer out = {0};

		if (!merge_wants(merge, i))
			continue;
		merge_write_filter(merge, i, &out, "filter");
		merge_write_sort(merge, i, &out, "sort");
	}
}

static void check_written(struct bytes document)
{
	auto_buffer struct buffer out = {0};
	struct merge *merge = merge_new(&namespace);

	require(merge_add_document(merge, document) == MERGE_TAKEN);
	require(merge_clean(merge));
	require(merge_write_document(merge, 0, &out));
	require(bytes_equal(document, buffer_view(&out)));
	merge_free(merge);
}

static void write_all(const struct merge *merge)
{
	for (size_t i = 0; i < merge_document_count(merge); i++) {
		auto_buffer struct buffer out = {0};

		if (merge_write_document(merge, i, &out))
			check_written(buffer_view(&out));
		else
			require(out.length == 0);
	}
}

/* A byte says how many documents the reply has; the others are overflow, for each target. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes input = {data, size}, document;
	struct merge *merge = merge_new(&namespace);
	size_t replies = size > 0 ? 1 + data[0] % 4 : 0;
	struct window windows[ARRAY_LENGTH(targets)];

	if (size > 0)
		input = (struct bytes){data + 1, size - 1};
	for (size_t i = 0; i < ARRAY_LENGTH(targets); i++)
		windows[i] = (struct window){.target = &targets[i],
					     .skip = (size > 0 ? (int32_t)(data[0] >> 5) : 0) - 3,
					     .count = (int32_t)(1 + i),
					     .skips = true};
	if (size > 0 && data[0] & 0x10)
		merge_set_windows(merge, windows);
	for (; replies > 0 && next_document(&input, &document); replies--)
		(void)!merge_add_document(merge, document);
	ask(merge);
	while (next_document(&input, &document)) {
		for (size_t i = 0; i < ARRAY_LENGTH(targets); i++)
			(void)!merge_add_overflow(merge, i, document);
	}
	write_all(merge);
	if (merge_document_count(merge) > 1 &&
	    merge_replace_document(merge, 0, merge_document(merge, 1)) == MERGE_TAKEN)
		write_all(merge);
	merge_free(merge);
	return 0;
}
