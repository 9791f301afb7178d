/* Views that would give arrays short: set by one thread, looked at by others. */
#include "rules/rule/views.h"

#include <criterion/criterion.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>

#define SETS 20000

static struct views views;
static const struct rule *const rule = (const struct rule *)(const void *)&views;
static atomic_bool done;

static void set(unsigned number)
{
	char name[16];
	struct short_view known[2] = {{(char *)"shop", (char *)"always", rule},
				      {(char *)"shop", name, rule}};

	snprintf(name, sizeof(name), "v%u", number);
	views_set(&views, known, 2);
}

static void *look(void *missed)
{
	while (!atomic_load(&done))
		if (views_find(&views, bytes_of("shop"), bytes_of("always")) != rule ||
		    !views_may_hold(&views, bytes_of("always")))
			*(bool *)missed = true;
	return NULL;
}

Test(views, what_was_set_before_goes_once_nobody_looks)
{
	bool missed = false;
	pthread_t looker;
	size_t before;

	cr_assert_not(views_may_hold(&views, bytes_of("always")));
	set(0);
	before = mallinfo2().uordblks;
	cr_assert_eq(pthread_create(&looker, NULL, look, &missed), 0);
	for (unsigned i = 1; i <= SETS; i++)
		set(i);
	atomic_store(&done, true);
	pthread_join(looker, NULL);
	cr_assert_not(missed);
	set(SETS + 1);
	cr_assert_lt(mallinfo2().uordblks, before + SETS * 16);
	cr_assert_null(views_find(&views, bytes_of("shop"), bytes_of("v1")));
	cr_assert_eq(views_find(&views, bytes_of("shop"), bytes_of("v20001")), rule);
	views_fini(&views);
}
