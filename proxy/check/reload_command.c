/* `spillway reload`: has a running Spillway read its file again, and tells what came of it. */
#include "proxy/check/reload_command.h"

#include "proxy/base/config_file.h"
#include "proxy/check/ask_admin.h"

#include <bson/bson.h>
#include <poll.h>
#include <stdlib.h>

#define EXIT_REFUSED 1
#define EXIT_UNREACHED 3
#define LOOK_MS 50
#define LOOKS 2400 /* two minutes: a server may hang */

static int fail(int code, const char *what, const char *address)
{
	fprintf(stderr, "spillway reload: %s '%s'\n", what, address);
	return code;
}

static void print_report(const bson_t *outcome, FILE *out)
{
	bson_iter_t report;

	if (bson_iter_init_find(&report, outcome, "report") && BSON_ITER_HOLDS_UTF8(&report))
		fputs(bson_iter_utf8(&report, NULL), out);
}

/* -1: the reload has not ended. */
static int judge(const char *text, int64_t asked)
{
	bson_t *outcome = bson_new_from_json((const uint8_t *)text, -1, NULL);
	bson_iter_t at;
	int code = -1;

	if (outcome && bson_iter_init_find(&at, outcome, "ended") &&
	    bson_iter_as_int64(&at) >= asked && bson_iter_init_find(&at, outcome, "good")) {
		code = bson_iter_as_bool(&at) ? 0 : EXIT_REFUSED;
		puts(code == 0 ? "the file holds from now on" : "nothing is changed:");
		print_report(outcome, stdout);
	}
	bson_destroy(outcome);
	return code;
}

static int await_outcome(const struct config *config, const struct admin_files *files,
			 int64_t asked)
{
	for (int i = 0; i < LOOKS; i++) {
		auto_free char *text = ask_admin(config, files, "/reload");
		int code;

		if (!text)
			return fail(EXIT_UNREACHED, "no Spillway answers any more at",
				    config->admin.address);
		code = judge(text, asked);
		if (code >= 0)
			return code;
		(void)poll(NULL, 0, LOOK_MS);
	}
	return fail(EXIT_REFUSED,
		    "the reload has not ended after two minutes; the log of the "
		    "Spillway will tell, whose address is",
		    config->admin.address);
}

static int ask(const struct config *config, const struct admin_files *files)
{
	int status;
	auto_free char *text = ask_admin_to_reload(config, files, &status);
	bson_t *answer;
	bson_iter_t at;
	int64_t asked = 0;

	if (status != 0 && status != 200) {
		fprintf(stderr, "spillway reload: refused at '%s': %s", config->admin.address,
			text ? text : "\n");
		return EXIT_REFUSED;
	}
	answer = text ? bson_new_from_json((const uint8_t *)text, -1, NULL) : NULL;
	if (answer && bson_iter_init_find(&at, answer, "asked"))
		asked = bson_iter_as_int64(&at);
	bson_destroy(answer);
	return asked > 0 ? await_outcome(config, files, asked)
			 : fail(EXIT_UNREACHED, "no Spillway answers at the admin address",
				config->admin.address);
}

int reload_main(const struct command_line *line)
{
	auto_free char *problems = NULL, *mistake = NULL;
	struct config *config = config_load(line->values[OPTION_CONFIG], &problems);
	struct admin_files files = {0};
	int code = EXIT_USAGE;

	if (!config)
		fputs(problems, stderr);
	else if (!config->admin.address)
		fprintf(stderr, "spillway reload: the file has no 'admin' address to ask at: send "
				"SIGHUP to the Spillway, and read its log\n");
	else if (!admin_files_load(&files, config, &mistake))
		fprintf(stderr, "spillway reload: %s\n", mistake);
	else
		code = ask(config, &files);
	admin_files_fini(&files);
	config_free(config);
	return code;
}
