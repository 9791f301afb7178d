/* `spillway explain`: what becomes of a command. */
#include "proxy/base/config_file.h"
#include "proxy/base/json_text.h"
#include "proxy/explain/explain.h"
#include "proxy/inspect/inspect.h"
#include "proxy/inspect/running.h"
#include "rules/rule/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

static int print(const bson_t *explained, bool json)
{
	auto_buffer struct buffer text = {0};
	auto_free char *plain = NULL;
	bson_iter_t verdict;
	bool refused;

	refused = bson_iter_init_find(&verdict, explained, "verdict") &&
		  BSON_ITER_HOLDS_UTF8(&verdict) &&
		  (strcmp(bson_iter_utf8(&verdict, NULL), "refused") == 0 ||
		   strcmp(bson_iter_utf8(&verdict, NULL), "closed") == 0);
	if (json) {
		json_print((struct bytes){bson_get_data(explained), explained->len});
		return refused;
	}
	explain_print(&text, explained);
	plain = text_steal(&text);
	fputs(plain, stdout);
	return refused;
}

static int explain_offline(const struct command_line *line, const bson_t *command)
{
	auto_free char *problems = NULL;
	struct config *config = config_load(line->values[OPTION_CONFIG], &problems);
	struct explain explain = {.imagines = true};
	bson_t *out;
	int code;

	if (!config) {
		fputs(problems, stderr);
		return EXIT_USAGE;
	}
	out = bson_new();
	explain.namespaces = namespace_cache_new(config->rules);
	explain_command(&explain, command, out);
	code = print(out, line->values[OPTION_JSON]);
	bson_destroy(out);
	namespace_cache_free(explain.namespaces);
	config_free(config);
	return code;
}

static void append_encoded(struct buffer *path, const char *text)
{
	for (; *text; text++)
		text_append(path, isalnum((unsigned char)*text) ? "%c" : "%%%02x",
			    (unsigned char)*text);
}

static int explain_live(const struct command_line *line, const bson_t *command)
{
	auto_buffer struct buffer path = {0};
	char *json = bson_as_canonical_extended_json(command, NULL);
	struct running running;
	bson_t *answer;
	int code;

	text_append(&path, "/explain?command=");
	append_encoded(&path, json);
	buffer_append(&path, "", 1);
	bson_free(json);
	if (!running_open(&running, line))
		return EXIT_USAGE;
	answer = running_ask(&running, (const char *)path.data);
	code = answer ? print(answer, line->values[OPTION_JSON]) : EXIT_NO_ANSWER;
	if (running.too_long)
		code = EXIT_USAGE;
	bson_destroy(answer);
	running_close(&running);
	return code;
}

int explain_main(const struct command_line *line)
{
	auto_free char *mistake = NULL;
	bson_t *command;
	int code;

	if (line->argument_count < 1)
		return command_line_refuse(line->command, "COMMAND is missing");
	command = explain_read(line->arguments[0], line->values[OPTION_DB], &mistake);
	if (!command)
		return command_line_refuse(line->command, "%s", mistake);
	code = (line->values[OPTION_LIVE] ? explain_live : explain_offline)(line, command);
	bson_destroy(command);
	return code;
}
