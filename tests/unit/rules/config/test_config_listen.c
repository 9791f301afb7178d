/* Tests rules/config/config_listen.c: the places of listeners in a process that runs. */
#include "tests/unit/unit.h"

#include "rules/config/config_listen.h"
#include "rules/rule/text.h"

#include <stdio.h>

#define ONE "{address: 'h:1', server: 's:1'}"
#define TWO "{address: 'h:2', server: 's:2'}"

static struct config *parse(const char *list)
{
	auto_free char *problems = NULL;
	auto_buffer struct buffer text = {0};
	struct config *config;

	text_append(&text, "listen: [%s]\nrules: []\n", list);
	config = config_parse("f", buffer_view(&text), NULL, &problems);
	cr_assert(config, "%s", problems);
	return config;
}

static struct config *start(const char *list)
{
	struct config *running = parse(list);

	config_listen_spread(running);
	return running;
}

/* Each place as `address` or, where it is closed, `(address)`. */
static void listens(const struct config *running, const char *expected)
{
	auto_buffer struct buffer text = {0};

	for (size_t i = 0; i < running->listen_count; i++)
		if (running->listen[i].address)
			text_append(&text, running->listen[i].open ? "%s " : "(%s) ",
				    running->listen[i].address);
	buffer_append(&text, "", 1);
	cr_assert_str_eq((char *)text.data, expected);
}

static void reload(struct config *running, const char *list, bool good)
{
	struct config *fresh = parse(list);
	struct listen_plan plan = {0};

	cr_assert(listen_plan_make(&plan, running, fresh));
	cr_assert_eq(fresh->listen, running->listen);
	if (good)
		listen_plan_take(&plan);
	listen_plan_fini(&plan);
	config_free(fresh);
}

Test(config_listen, a_listener_keeps_its_place)
{
	struct config *running = start(ONE ", " TWO);

	reload(running, TWO ", " ONE, true);
	listens(running, "h:1 h:2 ");
	reload(running, TWO, true);
	listens(running, "(h:1) h:2 ");
	reload(running, ONE ", " TWO, true);
	listens(running, "h:1 h:2 ");
	config_free(running);
}

Test(config_listen, another_setting_makes_another_listener)
{
	struct config *running = start(ONE);

	reload(running, "{address: 'h:1', server: 's:1', advertise: 'x:1'}", true);
	listens(running, "(h:1) h:1 ");
	reload(running, "{address: 'h:1', server: 's:1', proxy_protocol_from: [10.0.0.1]}", true);
	listens(running, "(h:1) (h:1) h:1 ");
	reload(running, "{address: 'h:1', server: 's:1', tls: {cert: c, key: k}}", true);
	listens(running, "(h:1) (h:1) (h:1) h:1 ");
	reload(running, ONE, true);
	listens(running, "h:1 (h:1) (h:1) (h:1) ");
	config_free(running);
}

Test(config_listen, what_is_not_taken_leaves_nothing)
{
	struct config *running = start(ONE);

	reload(running, ONE ", " TWO, false);
	listens(running, "h:1 ");
	reload(running, TWO, false);
	listens(running, "h:1 ");
	config_free(running);
}

Test(config_listen, a_plan_says_what_opens_and_what_closes)
{
	struct config *running = start(ONE), *fresh = parse(TWO);
	struct listen_plan plan = {0};

	cr_assert_not(listen_plan_opens(&plan, 0) || listen_plan_closes(&plan, 0));
	cr_assert(listen_plan_make(&plan, running, fresh));
	cr_assert(listen_plan_closes(&plan, 0) && !listen_plan_opens(&plan, 0));
	cr_assert(listen_plan_opens(&plan, 1) && !listen_plan_closes(&plan, 1));
	cr_assert_not(listen_plan_opens(&plan, 2) || listen_plan_closes(&plan, 2));
	listen_plan_fini(&plan);
	config_free(fresh);
	config_free(running);
}

Test(config_listen, places_are_used_up)
{
	struct config *running = start(ONE);
	struct listen_plan plan = {0};
	struct config *fresh;
	char entry[80];

	for (int i = 0; i < CONFIG_LISTEN_FREE; i++) {
		snprintf(entry, sizeof(entry), "{address: 'x:%d', server: 's:1'}", i + 1);
		reload(running, entry, true);
	}
	fresh = parse(TWO);
	cr_assert_not(listen_plan_make(&plan, running, fresh));
	listen_plan_fini(&plan);
	config_free(fresh);
	reload(running, ONE, true);
	config_free(running);
}
