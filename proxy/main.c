/* The program: `spillway serve` and the operator's commands. */
#include "proxy/analyze.h"
#include "proxy/check.h"
#include "proxy/serve.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#ifndef SPILLWAY_VERSION
#define SPILLWAY_VERSION "0.1.0"
#endif

static const char usage[] =
	"usage: spillway serve --config FILE    run the proxy\n"
	"       spillway check --config FILE    what is wrong with the file and the servers\n"
	"       spillway analyze URI NAMESPACE [ARRAY]    how long arrays are, and whether the "
	"pattern pays\n"
	"       spillway --version | --help\n"
	"exit codes: 0 ok, 1 findings or cannot start, 2 bad usage or file, 3 cannot connect\n";

struct command {
	const char *name;
	int (*run)(const char *config_path);
};

static const struct command commands[] = {
	{"serve", serve_run},
};

static int bad_usage(const char *what)
{
	fprintf(stderr, "spillway: %s\n%s", what, usage);
	return 2;
}

static int run_command(const struct command *command, int count, char **arguments)
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
		config = optarg;
	}
	if (optind < count)
		return bad_usage("too many arguments");
	if (!config)
		return bad_usage("--config FILE is missing");
	return command->run(config);
}

int main(int count, char **arguments)
{
	if (count < 2)
		return bad_usage("a command is missing");
	if (strcmp(arguments[1], "--version") == 0) {
		puts("spillway " SPILLWAY_VERSION);
		return 0;
	}
	if (strcmp(arguments[1], "--help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	if (strcmp(arguments[1], "check") == 0)
		return check_main(count - 1, arguments + 1);
	if (strcmp(arguments[1], "analyze") == 0)
		return analyze_main(count - 1, arguments + 1);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(arguments[1], commands[i].name) == 0)
			return run_command(&commands[i], count - 1, arguments + 1);
	return bad_usage("no such command");
}
