/* Tests protocol/repeats.c. */
#include "tests/unit/wire_make.h"

#include "protocol/repeats.h"

Test(repeats, a_name_stands_twice_on_the_top_level)
{
	cr_assert(document_has_twice(made_bson("{'a': 1, 'b': 2, 'a': 3}"), "a"));
	cr_assert_not(document_has_twice(made_bson("{'a': 1, 'b': 2, 'a': 3}"), "b"));
	cr_assert_not(document_has_twice(made_bson("{'a': {'b': 1}, 'c': {'b': 2}}"), "b"));
	cr_assert_not(document_has_twice((struct bytes){(const uint8_t *)"\4\0\0\0", 4}, "a"));
}

Test(repeats, any_name_stands_twice_at_any_depth)
{
	cr_assert(document_repeats_name(made_bson("{'x': [{'a': 1, 'a': 3}]}"), false));
	cr_assert_not(document_repeats_name(made_bson("{'a': {'a': 1}, 'b': [{'a': 2}]}"), false));
	cr_assert_not(document_repeats_name(made_bson("{'0': 1, '1': 1}"), true));
	cr_assert(document_repeats_name((struct bytes){(const uint8_t *)"\4\0\0\0", 4}, false));
}
