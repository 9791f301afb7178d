/* Knows the commands and options, reads the command line, prints help. */
#include "proxy/base/command_line.h"

#include "rules/config/uri.h"
#include "rules/rule/text.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#ifndef SPILLWAY_VERSION
#define SPILLWAY_VERSION "0.1.0"
#endif

#define NUMBER_MOST 1000000000 /* of an option */
#define COLUMNS 78             /* of help */

/* ---- The tables. */

#define TAKES(option) (1U << OPTION_##option)
#define TAKES_ALWAYS (TAKES(HELP) | TAKES(VERSION))
#define TAKES_RULE (TAKES_ALWAYS | TAKES(CONFIG) | TAKES(RULE) | TAKES(EXECUTE) | TAKES(JSON))
#define BAD_USAGE "bad usage or file"
#define NO_SERVER "cannot connect"
#define NO_ADMIN "no Spillway answers at the admin address"

const struct program_command_row program_commands[PROGRAM_COMMANDS] = {
	[PROGRAM_SERVE] =
		{
			.name = "serve",
			.arguments = "",
			.options = TAKES_ALWAYS | TAKES(CONFIG) | TAKES(ALLOW_ROOT) |
				   TAKES(NO_SANDBOX),
			.summary = "runs the proxy",
			.text = "Serves clients until SIGTERM or SIGINT. Commands and transactions "
				"that "
				"are running then may go on for limits.drain.",
			.codes = {"ended by a signal", "cannot start", BAD_USAGE},
		},
	[PROGRAM_RELOAD] =
		{
			.name = "reload",
			.arguments = "",
			.options = TAKES_ALWAYS | TAKES(CONFIG),
			.summary = "has a running Spillway read its file again",
			.text = "Asks the Spillway at the file's admin address to read its file "
				"again, as SIGHUP does. All that changed holds from then on, or "
				"nothing. Prints what changed, or why nothing did.",
			.codes = {"the file holds from now on", "refused: nothing changed",
				  BAD_USAGE, NO_SERVER, "interrupted"},
		},
	[PROGRAM_UPGRADE] =
		{
			.name = "upgrade",
			.arguments = "",
			.options = TAKES_ALWAYS | TAKES(CONFIG),
			.summary = "has a running Spillway start its program anew",
			.text = "Asks the Spillway at the file's admin address to start its "
				"program anew, as SIGUSR2 does: what is installed now, with the "
				"file as it is now. The new process takes the listening sockets "
				"over; the one before serves open connections to their end. If "
				"the new one cannot serve, prints why, and nothing is changed.",
			.codes = {"the new process serves", "refused: nothing changed", BAD_USAGE,
				  NO_SERVER, "interrupted"},
		},
	[PROGRAM_CHECK] =
		{
			.name = "check",
			.arguments = "",
			.options = TAKES_ALWAYS | TAKES(CONFIG) | TAKES(JSON),
			.summary = "says what is wrong with the file and the servers",
			.text = "Prints what is wrong with the file. If nothing is, prints the "
				"file with "
				"all defaults, and then what the servers say: rights, versions, "
				"indexes, "
				"validators, views, documents, clients that go around Spillway. "
				"Reads "
				"only. Each finding says what to do.",
			.codes = {"nothing to do", "findings", BAD_USAGE, NO_SERVER, "interrupted"},
		},
	[PROGRAM_ANALYZE] =
		{
			.name = "analyze",
			.arguments = "[URI] NAMESPACE [ARRAY]",
			.arguments_most = 3,
			.options = TAKES_ALWAYS | TAKES(URI_FILE) | TAKES(SAMPLE) | TAKES(SVG) |
				   TAKES(JSON) | TAKES(YAML),
			.summary = "says how long arrays are, and whether the pattern pays",
			.text = "Says how long the arrays of a collection are, whether the outlier "
				"pattern "
				"pays for them, and from which threshold. Reads only.\n"
				"URI is mongodb://... If it holds a password, leave URI out and "
				"use --uri-file, or SPILLWAY_URI in the environment. NAMESPACE is "
				"database.collection, ARRAY is the array's path. Without ARRAY, "
				"arrays are looked for in 1,000 "
				"documents.",
			.codes = {"looked at", "the server refused, or the file can't be written",
				  "bad usage", NO_SERVER, "interrupted"},
		},
	[PROGRAM_MIGRATE] =
		{
			.name = "migrate",
			.arguments = "",
			.options = TAKES_RULE | TAKES(RESUME) | TAKES(RATE) | TAKES(LAG),
			.summary = "moves the outliers that are there already",
			.text = "Moves the tails of arrays that are longer than the rule allows, "
				"and "
				"adopts documents that were split by hand in the rule's layout. "
				"Writes "
				"nothing without --execute. Applications may go on, as long as "
				"they go "
				"through Spillway.",
			.codes = {"done", "documents stay as they are and are listed", BAD_USAGE,
				  NO_SERVER, "interrupted: --resume goes on"},
		},
	[PROGRAM_VERIFY] =
		{
			.name = "verify",
			.arguments = "",
			.options = TAKES_RULE | TAKES(REPAIR) | TAKES(ACCEPT_LOSS) | TAKES(FROM) |
				   TAKES(EXPORT),
			.summary = "compares what is stored with the rule, and mends it",
			.text = "Compares what is stored under a rule with what the rule says. "
				"Reads only, "
				"unless told otherwise.\n"
				"--repair says what it would mend: tails that wait, flags, "
				"garbage, "
				"missing indexes. --repair --execute mends it. What is corrupt is "
				"not "
				"touched: document and overflow go to a file. A state that is "
				"another "
				"document's, or that can't be read, is taken away if no overflow "
				"links to "
				"its document.\n"
				"--accept-loss is for corrupt documents whose elements nobody can "
				"bring back. It says which elements are lost. --accept-loss "
				"--execute writes document and overflow to a file, then makes the "
				"array whole of what is left.\n"
				"--from FILE says which overflow documents of an export or a dump "
				"belong to arrays that are short, and with --execute puts them "
				"back.",
			.codes = {"all is well", "findings; of a repair: what is left of them",
				  BAD_USAGE, NO_SERVER, "interrupted"},
		},
	[PROGRAM_UNDO] =
		{
			.name = "undo",
			.arguments = "",
			.options = TAKES_RULE | TAKES(RESUME) | TAKES(RATE) | TAKES(LAG),
			.summary = "folds every array back into its document",
			.text = "Folds every array back that was moved under a rule. Writes "
				"nothing "
				"without --execute.\n"
				"Before that, stop every Spillway that serves the rule, or raise "
				"the "
				"rule's threshold and max_bytes in its file so far that nothing is "
				"moved "
				"out again: then applications can go on meanwhile.\n"
				"What would pass 16 MB, and what is corrupt, stays as it is and is "
				"listed.",
			.codes = {"all is folded back, or can be", "something stays", BAD_USAGE,
				  NO_SERVER, "interrupted: --resume goes on"},
		},
	[PROGRAM_PAUSE] =
		{
			.name = "pause",
			.arguments = "[RULE]",
			.arguments_most = 1,
			.options = TAKES_ALWAYS | TAKES(CONFIG) | TAKES(JSON),
			.summary = "lets nothing be moved under a rule, or under any",
			.text = "Pauses a rule, or all rules of the file. Within seconds every "
				"Spillway and every migrate, undo and verify --repair that works "
				"on the rule stops moving elements, until 'spillway resume'. The "
				"pause outlives restarts.\n"
				"Clients go on. Arrays grow in their documents meanwhile. Where a "
				"document would pass 16 MB, its tail is moved all the same.",
			.codes = {"paused", "the server refused", BAD_USAGE, NO_SERVER},
		},
	[PROGRAM_RESUME] =
		{
			.name = "resume",
			.arguments = "[RULE]",
			.arguments_most = 1,
			.options = TAKES_ALWAYS | TAKES(CONFIG) | TAKES(JSON),
			.summary = "ends a pause",
			.text = "Ends the pause of a rule, or of all rules of the file.",
			.codes = {"no rule is paused any more", "the server refused", BAD_USAGE,
				  NO_SERVER},
		},
	[PROGRAM_HEALTH] =
		{
			.name = "health",
			.arguments = "",
			.options = TAKES_ALWAYS | TAKES(CONFIG),
			.summary = "says whether the running Spillway is ready",
			.text = "Asks the admin address of the file whether Spillway is ready: for "
				"probes that can run a program, such as a container's. Asks no "
				"server.",
			.codes = {"ready", "not ready, or nobody answers", BAD_USAGE},
		},
	[PROGRAM_EXPLAIN] =
		{
			.name = "explain",
			.arguments = "COMMAND",
			.arguments_most = 1,
			.options = TAKES_ALWAYS | TAKES(CONFIG) | TAKES(DB) | TAKES(LIVE) |
				   TAKES(JSON),
			.summary = "says what becomes of a command",
			.text = "Says whether a command is forwarded, rewritten into which "
				"commands, or refused and why. Then it says what would follow if "
				"the command met an outlier. COMMAND is MongoDB's extended JSON, "
				"such as '{\"find\": \"sales\", \"filter\": {\"_id\": 7}}'.\n"
				"Asks no server. Rights, and namespaces on which a rule cannot "
				"hold, are not looked at. --live asks the running Spillway, which "
				"knows these namespaces, the indexes and the views.",
			.codes = {"it is served", "it is refused", BAD_USAGE, NO_ADMIN},
		},
	[PROGRAM_STATUS] =
		{
			.name = "status",
			.arguments = "",
			.options = TAKES_ALWAYS | TAKES(CONFIG) | TAKES(JSON),
			.summary = "says what the running Spillway is at",
			.text = "Asks the running Spillway by the admin address of the file, with "
				"its token if it has one: whether it is ready, connections, "
				"requests, the mover, namespaces, the slowest requests of ten "
				"minutes, clients. Figures count from the start.",
			.codes = {"it is ready", "it is not ready", BAD_USAGE, NO_ADMIN},
		},
	[PROGRAM_SUGGEST] =
		{
			.name = "suggest",
			.arguments = "",
			.options = TAKES_ALWAYS | TAKES(CONFIG) | TAKES(JSON),
			.summary = "prints rules for growing arrays that were observed",
			.text = "Asks the running Spillway, by the admin address of the file, "
				"which "
				"arrays without a rule have grown most in one document. Prints "
				"them "
				"with rules for the configuration file. The file needs "
				"observe.sample.",
			.codes = {"observed", "nothing is observed", BAD_USAGE, NO_ADMIN},
		},
	[PROGRAM_TOP] =
		{
			.name = "top",
			.arguments = "",
			.options = TAKES_ALWAYS | TAKES(CONFIG),
			.summary = "shows what the running Spillway is at, each second",
			.text = "Asks as 'status' does, each second, and shows what came "
				"meanwhile, "
				"a second. The key q ends it, and so does Ctrl-C.",
			.codes = {"ended", NULL, BAD_USAGE, NO_ADMIN},
		},
};

const struct program_option_row program_options[OPTIONS] = {
	[OPTION_CONFIG] = {"config", 0, "FILE", false, true, -1,
			   "The configuration file: see spillway.yaml(5)."},
	[OPTION_RULE] = {"rule", 0, "NAME", false, true, -1, "The name of a rule in that file."},
	[OPTION_EXECUTE] = {"execute", 0, NULL, false, false, OPTION_REPAIR,
			    "Carries the plan out. Without it, nothing is written."},
	[OPTION_RESUME] = {"resume", 0, NULL, false, false, OPTION_EXECUTE,
			   "Goes on behind the last page of a run that was interrupted."},
	[OPTION_RATE] = {"rate", 0, "N", true, false, -1,
			 "No more than N documents a second, one at a time. Without it, up to 128 "
			 "at once."},
	[OPTION_LAG] = {"max-lag", 0, "S", true, false, -1,
			"Waits while a secondary is more than S seconds behind."},
	[OPTION_REPAIR] = {"repair", 0, NULL, false, false, -1, "Says what it would mend."},
	[OPTION_ACCEPT_LOSS] = {"accept-loss", 0, NULL, false, false, -1,
				"As --repair, and says which elements it would give up."},
	[OPTION_FROM] = {"from", 0, "FILE", false, false, -1,
			 "As --repair, and first puts overflow documents of FILE back."},
	[OPTION_EXPORT] = {"export", 0, "FILE", false, false, OPTION_EXECUTE,
			   "Where --execute puts what is corrupt: {namespace, document}, as BSON "
			   "documents, or with --accept-loss as lines of JSON. Else "
			   "spillway-NAME-corrupt.bson or spillway-NAME-loss.json."},
	[OPTION_SAMPLE] = {"sample", 0, "N", false, false, -1,
			   "Looks at N documents drawn at random, or at 'all'. Unasked, "
			   "collections of more than 20,000,000 documents or 8 GB are sampled by "
			   "50,000."},
	[OPTION_URI_FILE] = {"uri-file", 0, "FILE", false, false, -1,
			     "Reads URI from this file, so that nobody sees it in the list of "
			     "processes."},
	[OPTION_SVG] = {"svg", 0, "FILE", false, false, -1, "Writes the histograms to this file."},
	[OPTION_JSON] = {"json", 0, NULL, false, false, -1,
			 "Prints the report as one line of JSON."},
	[OPTION_YAML] = {"yaml", 0, NULL, false, false, -1,
			 "Prints rules for the configuration file instead of a report."},
	[OPTION_ALLOW_ROOT] = {"allow-root", 0, NULL, false, false, -1,
			       "Serves as root also where other machines can connect. So does "
			       "SPILLWAY_ALLOW_ROOT=1 in the environment."},
	[OPTION_NO_SANDBOX] = {"no-sandbox", 0, NULL, false, false, -1,
			       "Leaves out landlock and the filter of system calls."},
	[OPTION_DB] = {"db", 0, "NAME", false, false, -1,
		       "The database of COMMAND, unless it has a field $db."},
	[OPTION_LIVE] = {"live", 0, NULL, false, false, -1,
			 "Asks the running Spillway by the admin address of the file."},
	[OPTION_HELP] = {"help", 'h', NULL, false, false, -1, "Prints this help."},
	[OPTION_VERSION] = {"version", 'V', NULL, false, false, -1, "Prints the version."},
};

static bool takes(const struct program_command_row *command, int option)
{
	return command->options & 1U << option;
}

/* ---- Help. */

/* Breaks the text into lines that begin with `indent` spaces; the first one is begun already. */
static void print_wrapped(FILE *out, int indent, const char *text)
{
	int column = indent;

	while (*text) {
		int length = (int)strcspn(text, " \n");

		if (column > indent && column + 1 + length > COLUMNS) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		}
		column += fprintf(out, "%s%.*s", column > indent ? " " : "", length, text);
		text += length;
		if (*text == '\n') {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		}
		text += *text != '\0';
	}
	fputc('\n', out);
}

static void print_usage(FILE *out, const struct program_command_row *command)
{
	fprintf(out, "usage: spillway %s", command->name);
	if (*command->arguments)
		fprintf(out, " %s", command->arguments);
	for (int i = 0; i < OPTION_HELP; i++) {
		const struct program_option_row *option = &program_options[i];

		if (takes(command, i))
			fprintf(out, " %s--%s%s%s%s", option->required ? "" : "[", option->name,
				option->value ? " " : "", option->value ? option->value : "",
				option->required ? "" : "]");
	}
	fputc('\n', out);
}

#define OPTION_COLUMN 19

static void print_option(FILE *out, const struct program_option_row *option)
{
	int column = 2;

	if (option->letter)
		column += fprintf(out, "  -%c, --%s", option->letter, option->name) - 2;
	else
		column += fprintf(out, "  --%s%s%s", option->name, option->value ? " " : "",
				  option->value ? option->value : "") -
			  2;
	fprintf(out, "%*s", OPTION_COLUMN - column, "");
	print_wrapped(out, OPTION_COLUMN, option->text);
}

static int print_command_help(const struct program_command_row *command)
{
	print_usage(stdout, command);
	fputs("\n  ", stdout);
	print_wrapped(stdout, 2, command->text);
	puts("\noptions:");
	for (int i = 0; i < OPTIONS; i++)
		if (takes(command, i))
			print_option(stdout, &program_options[i]);
	puts("\nexit codes:");
	for (int code = 0; code < EXIT_CODES; code++)
		if (command->codes[code])
			printf("  %d  %s\n", code, command->codes[code]);
	return 0;
}

static int print_help(void)
{
	puts("usage: spillway COMMAND [OPTION]...\n\ncommands:");
	for (int i = 0; i < PROGRAM_COMMANDS; i++)
		printf("  %-9s%s\n", program_commands[i].name, program_commands[i].summary);
	puts("\n'spillway help COMMAND' explains a command and its options.\n\noptions:");
	print_option(stdout, &program_options[OPTION_HELP]);
	print_option(stdout, &program_options[OPTION_VERSION]);
	puts("\nexit codes: 0 ok, 1 findings or cannot start, 2 bad usage or file, 3 cannot "
	     "connect,\n            4 interrupted");
	return 0;
}

const char *program_version(void)
{
	return SPILLWAY_VERSION;
}

static int print_version(void)
{
	puts("spillway " SPILLWAY_VERSION);
	return 0;
}

/* ---- Errors. */

int command_line_refuse(enum program_command command, const char *format, ...)
{
	const struct program_command_row *row = &program_commands[command];
	va_list arguments;

	fprintf(stderr, "spillway %s: ", row->name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	print_usage(stderr, row);
	fprintf(stderr, "'spillway help %s' explains the options\n", row->name);
	return EXIT_USAGE;
}

static int refuse_command(const char *name)
{
	const char *names[PROGRAM_COMMANDS + 1] = {0};
	auto_free char *masked = uri_masked(name); /* somebody may forget the command */

	for (int i = 0; i < PROGRAM_COMMANDS; i++)
		names[i] = program_commands[i].name;
	fprintf(stderr,
		"spillway: no such command: '%s'; did you mean '%s'?\n"
		"'spillway help' lists the commands\n",
		text_quote(bytes_of(masked)).text, text_nearest(bytes_of(name), names));
	return EXIT_USAGE;
}

static int refuse_program_option(const char *given)
{
	fprintf(stderr, "spillway: unknown option '%.*s'\n'spillway help' lists the commands\n",
		(int)strcspn(given, "="), given);
	return EXIT_USAGE;
}

static int find_command(const char *name)
{
	for (int i = 0; i < PROGRAM_COMMANDS; i++)
		if (strcmp(program_commands[i].name, name) == 0)
			return i;
	return -1;
}

/* ---- Reading. */

static bool read_number(const char *text, int64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0' && end != text && *number > 0 && *number <= NUMBER_MOST;
}

/* Long options give OPTION_FIRST + their place, so that they are no letters. */
#define OPTION_FIRST 256

static void fill_long_options(struct option *options, const struct program_command_row *command)
{
	for (int i = 0; i < OPTIONS; i++)
		if (takes(command, i))
			*options++ = (struct option){
				.name = program_options[i].name,
				.has_arg =
					program_options[i].value ? required_argument : no_argument,
				.val = OPTION_FIRST + i,
			};
	*options = (struct option){0};
}

static int option_of(int found)
{
	for (int i = 0; i < OPTIONS; i++)
		if (found == OPTION_FIRST + i || (found > 0 && found == program_options[i].letter))
			return i;
	return -1;
}

/* Names what getopt did not take, without the value, which may be secret. */
static int refuse_option(const struct command_line *line, int found, const char *given)
{
	int length = (int)strcspn(given, "=");

	if (found == ':')
		return command_line_refuse(line->command, "'%.*s' needs a value", length, given);
	if (optopt >= OPTION_FIRST)
		return command_line_refuse(line->command, "'%.*s' takes no value", length, given);
	if (optopt > 0)
		return command_line_refuse(line->command, "unknown option '-%c'",
					   optopt >= ' ' && optopt <= '~' ? optopt : '?');
	return command_line_refuse(
		line->command, "unknown option '%s'",
		text_quote((struct bytes){(const uint8_t *)given, (size_t)length}).text);
}

#define GO_ON (-1)

/* GO_ON, or the exit code. */
static int take_option(struct command_line *line, int option, const char *value)
{
	const struct program_option_row *row = &program_options[option];

	if (option == OPTION_HELP)
		return print_command_help(&program_commands[line->command]);
	if (option == OPTION_VERSION)
		return print_version();
	if (row->required && line->values[option])
		return command_line_refuse(line->command, "--%s is given once", row->name);
	if (row->number && !read_number(value, &line->numbers[option]))
		return command_line_refuse(line->command,
					   "--%s takes a number from 1 to 1000000000", row->name);
	line->values[option] = row->value ? value : row->name;
	if (option == OPTION_ACCEPT_LOSS || option == OPTION_FROM)
		line->values[OPTION_REPAIR] = row->name;
	return GO_ON;
}

static int take_options(struct command_line *line, int count, char **arguments)
{
	struct option options[OPTIONS + 1];
	int found, code = GO_ON;

	fill_long_options(options, &program_commands[line->command]);
	opterr = 0;
	while (code == GO_ON &&
	       (found = getopt_long(count, arguments, ":hV", options, NULL)) != -1) {
		int option = option_of(found);

		code = option < 0 ? refuse_option(line, found, arguments[optind - 1])
				  : take_option(line, option, optarg);
	}
	line->arguments = arguments + optind;
	line->argument_count = count - optind;
	return code;
}

/* What several options are together. */
static int check_options(const struct command_line *line)
{
	const struct program_command_row *command = &program_commands[line->command];

	if (line->argument_count > command->arguments_most)
		return command_line_refuse(line->command, "too many arguments");
	for (int i = 0; i < OPTIONS; i++) {
		const struct program_option_row *option = &program_options[i];

		if (takes(command, i) && option->required && !line->values[i])
			return command_line_refuse(line->command, "--%s %s is missing",
						   option->name, option->value);
		if (line->values[i] && option->needs >= 0 && takes(command, option->needs) &&
		    !line->values[option->needs])
			return command_line_refuse(line->command, "--%s goes with --%s",
						   option->name,
						   program_options[option->needs].name);
	}
	return GO_ON;
}

/* `help`, and options that stand in the place of a command. False: it is something else. */
static bool answer(int count, char **arguments, int *code)
{
	const char *first = arguments[1];
	int command;

	if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0)
		*code = print_version();
	else if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 ||
		 (strcmp(first, "help") == 0 && count == 2))
		*code = print_help();
	else if (strcmp(first, "help") != 0)
		return false;
	else if ((command = find_command(arguments[2])) >= 0)
		*code = print_command_help(&program_commands[command]);
	else
		*code = refuse_command(arguments[2]);
	return true;
}

must_check bool command_line_read(struct command_line *line, int count, char **arguments, int *code)
{
	int command;

	if (count < 2) {
		fputs("spillway: a command is missing\n'spillway help' lists the commands\n",
		      stderr);
		*code = EXIT_USAGE;
		return false;
	}
	if (answer(count, arguments, code))
		return false;
	command = find_command(arguments[1]);
	if (command < 0) {
		*code = *arguments[1] == '-' ? refuse_program_option(arguments[1])
					     : refuse_command(arguments[1]);
		return false;
	}
	*line = (struct command_line){.command = (enum program_command)command, .all = arguments};
	*code = take_options(line, count - 1, arguments + 1);
	if (*code == GO_ON)
		*code = check_options(line);
	return *code == GO_ON;
}
