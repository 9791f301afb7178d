/* The program's commands and options, as one table: the command line is read by it, the help and
 * the man page spillway(1) are written from it. */
#pragma once

#include "protocol/base.h"

#include <stdint.h>
#include <stdio.h>

enum program_command {
	PROGRAM_SERVE,
	PROGRAM_RELOAD,
	PROGRAM_UPGRADE,
	PROGRAM_CHECK,
	PROGRAM_ANALYZE,
	PROGRAM_MIGRATE,
	PROGRAM_VERIFY,
	PROGRAM_UNDO,
	PROGRAM_HEALTH,
	PROGRAM_PAUSE,
	PROGRAM_RESUME,
	PROGRAM_EXPLAIN,
	PROGRAM_STATUS,
	PROGRAM_TOP,
	PROGRAM_SUGGEST,
	PROGRAM_COMMANDS,
};

enum program_option {
	OPTION_CONFIG,
	OPTION_RULE,
	OPTION_EXECUTE,
	OPTION_RESUME,
	OPTION_RATE,
	OPTION_LAG,
	OPTION_REPAIR,
	OPTION_ACCEPT_LOSS,
	OPTION_FROM,
	OPTION_EXPORT,
	OPTION_SAMPLE,
	OPTION_URI_FILE,
	OPTION_SVG,
	OPTION_JSON,
	OPTION_YAML,
	OPTION_ALLOW_ROOT,
	OPTION_NO_SANDBOX,
	OPTION_DB,
	OPTION_LIVE,
	OPTION_HELP,
	OPTION_VERSION,
	OPTIONS,
};

/* 0 good, 1 findings, 2 bad usage or file, 3 cannot connect, 4 interrupted in the middle of its
 * work, 130 interrupted, and nothing is left half done. */
#define EXIT_CODES 6
#define EXIT_USAGE 2
#define EXIT_UNFINISHED 4
#define EXIT_SIGNAL 128 /* and the signal's number, as a shell has it: 130 for Ctrl-C */

extern const int program_exit_codes[EXIT_CODES];

struct program_command_row {
	const char *name;
	const char *arguments; /* beside options; "" if it takes none */
	int arguments_most;
	unsigned options;    /* bits: 1 << enum program_option */
	const char *summary; /* one line */
	const char *text;    /* paragraphs, with '\n' between them */
	const char
		*codes[EXIT_CODES]; /* what each of program_exit_codes means; NULL: it has none */
};

struct program_option_row {
	const char *name;
	char letter;       /* 0: it has none */
	const char *value; /* what stands behind it; NULL: it is a switch */
	bool number;       /* the value is a number from 1 to 1000000000 */
	bool required;     /* by each command that takes it */
	int needs; /* another option that must be given too, if the command takes that; else -1 */
	const char *text;
};

const char *program_version(void);

extern const struct program_command_row program_commands[PROGRAM_COMMANDS];
extern const struct program_option_row program_options[OPTIONS];

/* A command line that was read. */
struct command_line {
	enum program_command command;
	const char *values[OPTIONS]; /* NULL: not given; of a switch: its own name */
	int64_t numbers[OPTIONS];    /* 0: not given */
	int argument_count;
	char **arguments;
	char **all; /* main's */
};

/* False: it is dealt with, by help, the version, or an error that was printed; *code is the exit
 * code. `count` and `arguments` are those of main. */
must_check bool command_line_read(struct command_line *line, int count, char **arguments,
				  int *code);
/* Prints what is wrong with the command line, and where help is. The exit code. */
int command_line_refuse(enum program_command command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
