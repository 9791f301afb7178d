/* Tests proxy/crowd/clients.c: which kinds of clients have connections. */
#include "tests/unit/unit.h"

#include "proxy/crowd/clients.h"

#include <stdio.h>

#define MANY 300

struct seen {
	size_t kinds;
	int64_t connections, others;
};

static void see(void *context, const struct client_view *view)
{
	struct seen *seen = context;

	seen->kinds++;
	seen->connections += view->connections;
	if (strcmp(view->application, "(other clients)") == 0)
		seen->others += view->connections;
}

static struct seen see_all(void)
{
	struct seen seen = {0};

	clients_each(see, &seen);
	return seen;
}

Test(clients, connections_of_one_kind_are_counted_together)
{
	const struct peer peer = {.known = true};
	struct client_entry *one = clients_join("shop", "driver", &peer);
	struct client_entry *other = clients_join("shop", "driver", &peer);

	cr_assert_eq(see_all().kinds, 1);
	cr_assert_eq(see_all().connections, 2);
	clients_leave(one);
	clients_leave(other);
	cr_assert_eq(see_all().kinds, 0);
}

Test(clients, whoever_comes_behind_many_kinds_is_among_the_others)
{
	const struct peer peer = {.known = true};
	struct client_entry *entries[MANY];
	char name[16];

	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "%d", i);
		entries[i] = clients_join(name, NULL, &peer);
	}
	cr_assert_eq(see_all().connections, MANY);
	cr_assert_eq(see_all().kinds, 257);
	cr_assert_eq(see_all().others, MANY - 256);
	for (size_t i = 0; i < MANY; i++)
		clients_leave(entries[i]);
	cr_assert_eq(see_all().kinds, 0);
}
