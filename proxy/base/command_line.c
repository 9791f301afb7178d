/* Reads the command line, prints help. */
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
	for (int i = 0; i < EXIT_CODES; i++)
		if (command->codes[i])
			printf("  %d  %s\n", program_exit_codes[i], command->codes[i]);
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
	     "connect,\n            4 interrupted, work is left, 130 interrupted");
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
