/* Views that would give arrays short: set by one thread, looked at by others. */
#include "rules/rule/views.h"

#include "tests/unit/unit.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

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

/* ---- very many ---- */

#define MANY 100000
#define LOOKS 20000
#define MOST_SECONDS 1 /* some hundredths of one; a look at each view would take ten */

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static char *name_of(size_t number)
{
	char name[32];

	snprintf(name, sizeof(name), "view%zu", number);
	return must_strndup(name, strlen(name));
}

Test(views, a_look_takes_no_longer_where_clients_have_made_very_many)
{
	struct short_view *known = must_calloc(MANY, sizeof(*known));
	char **names = must_calloc(MANY, sizeof(*names));
	double start;

	for (size_t i = 0; i < MANY; i++) {
		names[i] = name_of((i * 7) % MANY / 2);
		known[i] = (struct short_view){i % 2 ? "shop" : "other", names[i], rule};
	}
	views_set(&views, known, MANY);
	start = seconds();
	for (size_t i = 0; i < LOOKS; i++) {
		cr_assert_not(views_may_hold(&views, bytes_of("books")));
		cr_assert_null(views_find(&views, bytes_of("shops"), bytes_of("view7")));
	}
	cr_expect_lt(seconds() - start, MOST_SECONDS);
	for (size_t i = 0; i < MANY; i++) {
		struct bytes database = bytes_of(known[i].database), name = bytes_of(names[i]);

		cr_assert_eq(views_find(&views, database, name), rule);
		cr_assert(views_may_hold(&views, name));
		free(names[i]);
	}
	cr_assert_null(views_find(&views, bytes_of("shop"), bytes_of("view")));
	cr_assert_not(views_may_hold(&views, (struct bytes){(const uint8_t *)"view7\0", 6}));
	views_fini(&views);
	free(names);
	free(known);
}
