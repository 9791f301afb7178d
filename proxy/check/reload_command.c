/* `spillway reload` has a running Spillway read its file again, `spillway upgrade` has it start the
 * program anew. Both tell what came of it. */
#include "proxy/check/reload_command.h"

#include "proxy/base/config_file.h"
#include "proxy/check/ask_admin.h"

#include <bson/bson.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

#define EXIT_REFUSED 1
#define EXIT_UNREACHED 3
#define LOOK_MS 50

/* What is asked for. */
struct wish {
	const struct config *config;
	const struct admin_files *files;
	const char *name, *path;
	int looks;     /* so often, LOOK_MS apart */
	int64_t asked; /* its number */
	int64_t pid;   /* of the process that was asked */
};

static int fail(const struct wish *wish, int code, const char *what)
{
	fprintf(stderr, "spillway %s: %s '%s'\n", wish->name, what, wish->config->admin.address);
	return code;
}

/* 0: it has no such number. */
static int64_t number_of(const bson_t *answer, const char *key)
{
	bson_iter_t at;

	return answer && bson_iter_init_find(&at, answer, key) ? bson_iter_as_int64(&at) : 0;
}

static bson_t *read_answer(const char *text)
{
	return text ? bson_new_from_json((const uint8_t *)text, -1, NULL) : NULL;
}

static void print_report(const bson_t *outcome)
{
	bson_iter_t report;

	if (bson_iter_init_find(&report, outcome, "report") && BSON_ITER_HOLDS_UTF8(&report))
		fputs(bson_iter_utf8(&report, NULL), stdout);
}

/* -1: it has not ended. */
static int judge_reload(const struct wish *wish, const bson_t *outcome)
{
	bson_iter_t at;
	int code;

	if (!outcome || number_of(outcome, "ended") < wish->asked ||
	    !bson_iter_init_find(&at, outcome, "good"))
		return -1;
	code = bson_iter_as_bool(&at) ? 0 : EXIT_REFUSED;
	puts(code == 0 ? "the file holds from now on" : "nothing is changed:");
	print_report(outcome);
	return code;
}

/* The address answers all the while: when another process does, that one serves. */
static int judge_upgrade(const struct wish *wish, const bson_t *outcome)
{
	int64_t pid = number_of(outcome, "pid");
	bson_iter_t good;

	if (pid && pid != wish->pid) {
		printf("process %" PRId64 " serves from now on; process %" PRId64
		       " ends when its connections do\n",
		       pid, wish->pid);
		return 0;
	}
	/* If it is good, the process that was asked has answered its last request. */
	if (!outcome || number_of(outcome, "ended") < wish->asked ||
	    !bson_iter_init_find(&good, outcome, "good") || bson_iter_as_bool(&good))
		return -1;
	puts("nothing is changed:");
	print_report(outcome);
	return EXIT_REFUSED;
}

static int await_outcome(const struct wish *wish,
			 int (*judge)(const struct wish *wish, const bson_t *outcome))
{
	for (int i = 0, missed = 0; i < wish->looks; i++) {
		auto_free char *text = ask_admin(wish->config, wish->files, wish->path);
		bson_t *outcome = read_answer(text);
		int code = judge(wish, outcome);

		bson_destroy(outcome);
		if (code >= 0)
			return code;
		missed = text ? 0 : missed + 1;
		if (missed > 1)
			return fail(wish, EXIT_UNREACHED, "no Spillway answers any more at");
		(void)poll(NULL, 0, LOOK_MS);
	}
	return fail(wish, EXIT_REFUSED,
		    "it has not ended yet; the log of the Spillway will tell, whose address is");
}

static int ask(struct wish *wish, int (*judge)(const struct wish *wish, const bson_t *outcome))
{
	int status;
	auto_free char *text = ask_admin_for(wish->config, wish->files, wish->path, &status);
	bson_t *answer;

	/* An older version, which knows no such wish. */
	if (status == 404 || status == 405)
		return fail(wish, EXIT_UNREACHED, "restart the Spillway, which cannot do that, at");
	if (status != 0 && status != 200) {
		fprintf(stderr, "spillway %s: refused at '%s': %s", wish->name,
			wish->config->admin.address, text ? text : "\n");
		return EXIT_REFUSED;
	}
	answer = read_answer(text);
	wish->asked = number_of(answer, "asked");
	wish->pid = number_of(answer, "pid");
	bson_destroy(answer);
	return wish->asked > 0
		       ? await_outcome(wish, judge)
		       : fail(wish, EXIT_UNREACHED, "no Spillway answers at the admin address");
}

static int run(const struct command_line *line, const struct wish *kind,
	       int (*judge)(const struct wish *wish, const bson_t *outcome))
{
	auto_free char *problems = NULL, *mistake = NULL;
	struct config *config = config_load(line->values[OPTION_CONFIG], &problems);
	struct admin_files files = {0};
	struct wish wish = *kind;
	int code = EXIT_USAGE;

	wish.config = config;
	wish.files = &files;

	if (!config)
		fputs(problems, stderr);
	else if (!config->admin.address)
		fprintf(stderr,
			"spillway %s: the file has no 'admin' address to ask at: send %s to the "
			"Spillway, and read its log\n",
			wish.name, judge == judge_reload ? "SIGHUP" : "SIGUSR2");
	else if (!admin_files_load(&files, config, &mistake))
		fprintf(stderr, "spillway %s: %s\n", wish.name, mistake);
	else
		code = ask(&wish, judge);
	admin_files_fini(&files);
	config_free(config);
	return code;
}

int reload_main(const struct command_line *line)
{
	static const struct wish wish = {.name = "reload", .path = "/reload", .looks = 2400};

	return run(line, &wish, judge_reload);
}

/* The first look of a new process at thousands of namespaces takes minutes. */
int upgrade_main(const struct command_line *line)
{
	static const struct wish wish = {.name = "upgrade", .path = "/upgrade", .looks = 18000};

	return run(line, &wish, judge_upgrade);
}
