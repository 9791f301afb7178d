/* Tests proxy/verify/exported.c: the documents of a file. */
#include "proxy/verify/exported.h"

#include "protocol/cursor.h"

#include "tests/unit/unit.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* As a file on a disk that fails: it opens, and nothing comes. */
Test(exported, what_can_not_be_read_is_no_end)
{
	struct exported *exported = exported_open("/");
	struct exported_document next;

	cr_assert_not_null(exported);
	cr_assert_eq(exported_next(exported, &next), EXPORTED_BROKEN);
	cr_assert_eq(exported_next(exported, &next), EXPORTED_END);
	exported_rewind(exported);
	cr_assert_eq(exported_next(exported, &next), EXPORTED_BROKEN);
	exported_close(exported);
}

Test(exported, an_empty_file_ends)
{
	struct exported *exported = exported_open("/dev/null");
	struct exported_document next;

	cr_assert_not_null(exported);
	cr_assert_eq(exported_next(exported, &next), EXPORTED_END);
	exported_close(exported);
}

/* A file that holds this text. */
static struct exported *open_text(const char *text)
{
	int file = memfd_create("exported", 0);
	char path[40];
	struct exported *exported;

	cr_assert_eq(write(file, text, strlen(text)), (ssize_t)strlen(text));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	exported = exported_open(path);
	close(file);
	cr_assert_not_null(exported);
	return exported;
}

/* The fields `n` in turn; 'x' is what is no document, 'u' stands behind one without types. */
static void expect(const char *text, const char *wanted)
{
	struct exported *exported = open_text(text);
	struct exported_document next;
	enum exported_step step;
	char found[64] = "";
	struct element element;

	while ((step = exported_next(exported, &next)) != EXPORTED_END) {
		size_t length = strlen(found);
		struct bytes name = {0};

		if (step == EXPORTED_DOCUMENT && document_find(next.document, "n", &element))
			cr_assert(element_string(&element, &name));
		snprintf(found + length, sizeof(found) - length, "%.*s%s%s", (int)name.length,
			 name.length > 0 ? (const char *)name.data : "",
			 step == EXPORTED_BROKEN ? "x" : "",
			 step == EXPORTED_DOCUMENT && next.untyped ? "u" : "");
	}
	cr_assert_str_eq(found, wanted, "%s: %s instead of %s", text, found, wanted);
	exported_close(exported);
}

Test(exported, each_document_of_a_line_counts)
{
	expect("{\"n\": \"a\"}\n{\"n\": \"b\"}\n", "ab");
	expect("{\"n\": \"a\"} {\"n\": \"b\"}{\"n\": \"c\"}", "abc");
	expect("{\"n\": \"a\"}\r\n\r\n\n  \n{\"n\": \"b\"}\r\n", "ab");
	expect("{\"n\": \"a\"} nothing\n{\"n\": \"b\"}\n", "xb");
	expect("{\"n\": \"a\"} {\"n\": \n{\"n\": \"b\"}\n", "axb");
}

/* As mongoexport --jsonArray writes it, and as jq does. */
Test(exported, an_array_is_no_document)
{
	expect("[{\"n\": \"a\"},{\"n\": \"b\"}]\n", "x");
	expect(" [\n{\"n\": \"a\"},\n{\"n\": \"b\"}\n]\n", "xabx");
}

Test(exported, bare_whole_numbers_have_no_type)
{
	expect("{\"n\": \"a\", \"p\": {\"$numberLong\": \"7\"}}\n", "a");
	expect("{\"n\": \"a\", \"p\": 7}\n{\"n\": \"b\", \"p\": 1.5, \"q\": -2.5e+3}\n", "aub");
	expect("{\"n\": \"a\", \"7\": \"x\\\" 7\"}\n", "a");
	expect("{\"n\": \"a\", \"p\": [-1]}\n", "au");
	expect("{\"n\": \"a\", \"p\": {\"$timestamp\": {\"t\": 7, \"i\": 1}}}\n", "a");
	expect("{\"n\": \"a\", \"p\": [{\"$minKey\": 1}, {\"$maxKey\" : 1}]}\n", "a");
	expect("{\"n\": \"a\", \"p\": [{\"$timestamp\" : {\"t\": 7, \"i\": 1}}, \"$timestamp\", "
	       "1]}\n",
	       "au");
}
