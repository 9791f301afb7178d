/* Tests proxy/verify/exported.c: the documents of a file. */
#include "proxy/verify/exported.h"

#include <criterion/criterion.h>
#include <stddef.h>

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
