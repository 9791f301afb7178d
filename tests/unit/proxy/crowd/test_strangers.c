#include "proxy/crowd/strangers.h"

#include "tests/unit/unit.h"

Test(strangers, are_told_once_a_minute_of_each_kind)
{
	struct strangers strangers;
	int64_t held;

	strangers_init(&strangers);
	cr_assert(strangers_due(&strangers, STRANGER_TLS, 5, &held));
	cr_assert_eq(held, 0);
	for (int i = 0; i < 1000; i++)
		cr_assert(!strangers_due(&strangers, STRANGER_TLS, 60004, &held));
	cr_assert(strangers_due(&strangers, STRANGER_HTTP, 60004, &held));
	cr_assert_eq(held, 0);
	cr_assert(strangers_due(&strangers, STRANGER_TLS, 60005, &held));
	cr_assert_eq(held, 1000);
	cr_assert(!strangers_due(&strangers, STRANGER_TLS, 60006, &held));
	cr_assert_eq(held, 0);
	strangers_fini(&strangers);
}
