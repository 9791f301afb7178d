/* Tests proxy/verify/verify.c: what it keeps. */
#include "tests/unit/wire_make.h"

#include "protocol/writer.h"
#include "proxy/verify/verifying.h"

#include <criterion/criterion.h>

/* A BSON buffer takes nothing more from that size on. */
Test(verify, garbage_may_fill_more_than_a_buffer_of_bson)
{
	struct verifying verifying = {0};
	struct element link;

	cr_assert(document_find(made_bson("{'_id': 7}"), "_id", &link));
	buffer_reserve(&verifying.garbage, WRITER_MOST + 1000); /* what is touched is given */
	verifying.garbage.length = WRITER_MOST + 1;
	verify_keep_garbage(&verifying, &link);
	cr_assert_eq(verifying.garbage.length, WRITER_MOST + 1 + 14);
	cr_assert(bytes_equal((struct bytes){verifying.garbage.data + WRITER_MOST + 1, 14},
			      made_bson("{'_id': 7}")));
	buffer_fini(&verifying.garbage);
	made_free();
}
