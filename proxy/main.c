/* The program: `spillway serve` and the operator's commands. */
#include "protocol/base.h"
#include "proxy/analyze/analyze.h"
#include "proxy/check/check.h"
#include "proxy/base/log.h"
#include "proxy/migrate/migrate.h"
#include "proxy/serve.h"
#include "proxy/verify/undo.h"
#include "proxy/verify/verify.h"
#include "rules/config/uri.h"

#include <getopt.h>
#include <mongoc/mongoc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef SPILLWAY_VERSION
#define SPILLWAY_VERSION "0.1.0"
#endif

/* What it says of URIs may quote them, and its own format is not the log's. */
static void log_driver(mongoc_log_level_t level, const char *domain, const char *message,
		       void *context)
{
	(void)domain;
	(void)context;
	if (level <= MONGOC_LOG_LEVEL_WARNING)
		log_debug("mongo-c-driver: %s", uri_driver_mistake(message));
}

static void take_driver_log(void)
{
	mongoc_log_set_handler(log_driver, NULL);
}

/* The driver has something to say as soon as it is loaded, long before main: what stands in this
 * section runs before the libraries begin. */
static void (*const before_libraries)(void)
	__attribute__((section(".preinit_array"), used)) = take_driver_log;

static const char usage[] =
	"usage: spillway serve --config FILE    run the proxy\n"
	"       spillway check --config FILE    what is wrong with the file and the servers\n"
	"       spillway analyze URI NAMESPACE [ARRAY]    how long arrays are, and whether the "
	"pattern pays\n"
	"       spillway migrate --config FILE --rule NAME [--execute]    move the outliers that "
	"are there\n"
	"       spillway verify --config FILE --rule NAME [--repair [--execute]]    compare what "
	"is stored with the rule\n"
	"       spillway undo --config FILE --rule NAME [--execute]    fold everything back\n"
	"       spillway --version | --help, also behind a command\n"
	"exit codes: 0 ok, 1 findings or cannot start, 2 bad usage or file, 3 cannot connect, 4 "
	"interrupted\n";

static int bad_usage(const char *what)
{
	fprintf(stderr, "spillway: %s\n%s", what, usage);
	return 2;
}

static int print_version(void)
{
	puts("spillway " SPILLWAY_VERSION);
	return 0;
}

static bool asks_version(int count, char **arguments)
{
	for (int i = 2; i < count; i++)
		if (strcmp(arguments[i], "--version") == 0)
			return true;
	return false;
}

/* A report that was not written whole is no success. */
static int end(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	fprintf(stderr, "spillway: what was to be printed could not be written\n");
	return code ? code : 1;
}

/* A command that takes nothing but the file. */
static int run_with_file(int (*run)(const char *config_path), int count, char **arguments)
{
	static const struct option options[] = {
		{"config", required_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	const char *config = NULL;
	int option;

	opterr = 0;
	while ((option = getopt_long(count, arguments, "", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		if (option != 'c')
			return bad_usage("unknown option, or --config without a file");
		if (config)
			return bad_usage("--config is given once");
		config = optarg;
	}
	if (optind < count)
		return bad_usage("too many arguments");
	if (!config)
		return bad_usage("--config FILE is missing");
	return run(config);
}

static int serve_main(int count, char **arguments)
{
	return run_with_file(serve_run, count, arguments);
}

#define INTERRUPTED 4

/* What a signal's handler prints to standard output; NULL: nothing. */
static const char *interrupted_report;

/* Of commands that write nothing: Ctrl-C ends them at once. */
static void end_interrupted(int number)
{
	static const char said[] = "spillway: interrupted\n";
	const char *report = interrupted_report;

	(void)number;
	if (report)
		(void)!write(STDOUT_FILENO, report, strlen(report));
	(void)!write(STDERR_FILENO, said, sizeof(said) - 1);
	_exit(INTERRUPTED);
}

/* `--json`, which may be shortened. */
static bool asks_json(int count, char **arguments)
{
	for (int i = 1; i < count; i++)
		if (strncmp(arguments[i], "--j", 3) == 0 &&
		    strncmp(arguments[i], "--json", strlen(arguments[i])) == 0)
			return true;
	return false;
}

static void leave_at_signals(const char *report)
{
	interrupted_report = report;
	signal(SIGINT, end_interrupted);
	signal(SIGTERM, end_interrupted);
	if (signal(SIGHUP, end_interrupted) == SIG_IGN) /* nohup's */
		signal(SIGHUP, SIG_IGN);
}

static int check_or_leave(int count, char **arguments)
{
	leave_at_signals(asks_json(count, arguments)
				 ? "{ \"command\" : \"check\", \"ended\" : \"interrupted\" }\n"
				 : NULL);
	return check_main(count, arguments);
}

static int analyze_or_leave(int count, char **arguments)
{
	leave_at_signals(asks_json(count, arguments)
				 ? "{ \"command\" : \"analyze\", \"ended\" : \"interrupted\" }\n"
				 : NULL);
	return analyze_main(count, arguments);
}

/* Each is given its own name and what follows it. */
static const struct command {
	const char *name;
	int (*run)(int count, char **arguments);
} commands[] = {
	{"serve", serve_main},     {"check", check_or_leave}, {"analyze", analyze_or_leave},
	{"migrate", migrate_main}, {"verify", verify_main},   {"undo", undo_main},
};

int main(int count, char **arguments)
{
	if (count < 2)
		return bad_usage("a command is missing");
	if (strcmp(arguments[1], "--version") == 0)
		return end(print_version());
	if (strcmp(arguments[1], "--help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LENGTH(commands); i++)
		if (strcmp(arguments[1], commands[i].name) == 0)
			return end(asks_version(count, arguments)
					   ? print_version()
					   : commands[i].run(count - 1, arguments + 1));
	return bad_usage("no such command");
}
