/* Tests proxy/verify/verify_accept.c: what becomes of a document in an export. */
#include "tests/unit/wire_make.h"

#include "proxy/verify/verifying.h"

#include <criterion/criterion.h>

#define EMPTY "{ \"$binary\" : { \"base64\" : \"BQAAAAA=\", \"subType\" : \"00\" } }"

static void expect_line(const char *namespace, const char *line)
{
	auto_buffer struct buffer out = {0};

	verify_accept_line(&out, namespace, made_bson("{}"));
	buffer_append(&out, "", 1);
	cr_assert_str_eq((const char *)out.data, line);
}

Test(verify_accept, a_document_is_one_line)
{
	expect_line("shop.books", "{ \"namespace\" : \"shop.books\", \"document\" : {  } }\n");
}

/* A name that JSON can't hold; the document still is, byte for byte. */
Test(verify_accept, a_name_that_is_no_utf8_loses_what_is_none)
{
	expect_line("shop.b\xffks", "{ \"namespace\" : \"shop.b?ks\", \"bson\" : " EMPTY " }\n");
}
