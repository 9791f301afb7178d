/* `spillway status`: one screen of what the running Spillway is at. */
#include "proxy/base/json_text.h"
#include "proxy/inspect/inspect.h"
#include "proxy/inspect/running.h"
#include "proxy/inspect/screen.h"
#include "rules/rule/text.h"

#include <stdio.h>
#include <stdlib.h>

#define ROWS 10 /* of a table */

static int print(const bson_t *now, bool json)
{
	const struct screen screen = {.now = now, .rows = ROWS};
	struct buffer out = {0};
	auto_free char *text = NULL;
	bson_iter_t ready;

	if (json) {
		json_print((struct bytes){bson_get_data(now), now->len});
	} else {
		screen_print(&screen, &out);
		text = text_steal(&out);
		fputs(text, stdout);
	}
	return bson_iter_init_find(&ready, now, "ready") && bson_iter_as_bool(&ready) ? 0 : 1;
}

int status_main(const struct command_line *line)
{
	struct running running;
	bson_t *now;
	int code;

	if (!running_open(&running, line))
		return EXIT_USAGE;
	now = running_ask(&running, "/status");
	code = now ? print(now, line->values[OPTION_JSON]) : EXIT_NO_ANSWER;
	bson_destroy(now);
	running_close(&running);
	return code;
}
