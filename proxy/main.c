/* The program: `spillway serve` and the operator's commands. */
#include "protocol/base.h"
#include "proxy/analyze/analyze.h"
#include "proxy/check/check.h"
#include "proxy/check/health.h"
#include "proxy/check/reload_command.h"
#include "proxy/base/command_line.h"
#include "proxy/base/log.h"
#include "proxy/job/pause.h"
#include "proxy/inspect/inspect.h"
#include "proxy/migrate/migrate.h"
#include "proxy/process/secrets.h"
#include "proxy/serve.h"
#include "proxy/verify/undo.h"
#include "proxy/verify/verify.h"
#include "rules/config/uri.h"

#include <mongoc/mongoc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What it says of URIs may quote them, and its own format is not the log's. */
static void log_driver(mongoc_log_level_t level, const char *domain, const char *message,
		       void *context)
{
	(void)domain;
	(void)context;
	if (level <= MONGOC_LOG_LEVEL_WARNING)
		log_debug("1001 mongo-c-driver: %s", uri_driver_mistake(message));
}

static void take_driver_log(void)
{
	mongoc_log_set_handler(log_driver, NULL);
}

/* The driver has something to say as soon as it is loaded, long before main: what stands in this
 * section runs before the libraries begin. */
static void (*const before_libraries)(void)
	__attribute__((section(".preinit_array"), used)) = take_driver_log;

/* A report that was not written whole is no success. */
static int end(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	fprintf(stderr, "spillway: what was to be printed could not be written\n");
	return code ? code : 1;
}

/* What a signal's handler prints to standard output; NULL: nothing. */
static const char *interrupted_report;

/* On a terminal a line of progress goes first. */
static const char *interrupted_said = "spillway: interrupted\n";

/* Of commands that write nothing, or one document at a time: Ctrl-C ends them at once. */
static void end_interrupted(int number)
{
	const char *report = interrupted_report, *said = interrupted_said;

	(void)!write(STDERR_FILENO, said, strlen(said));
	if (report)
		(void)!write(STDOUT_FILENO, report, strlen(report));
	_exit(EXIT_SIGNAL + number);
}

static void leave_at_signals(const struct command_line *line)
{
	static char report[64];

	snprintf(report, sizeof(report), "{ \"command\" : \"%s\", \"ended\" : \"interrupted\" }\n",
		 program_commands[line->command].name);
	interrupted_report = line->values[OPTION_JSON] ? report : NULL;
	if (isatty(STDERR_FILENO))
		interrupted_said = "\r\033[Kspillway: interrupted\n";
	signal(SIGINT, end_interrupted);
	signal(SIGTERM, end_interrupted);
	if (signal(SIGHUP, end_interrupted) == SIG_IGN) /* nohup's */
		signal(SIGHUP, SIG_IGN);
}

int main(int count, char **arguments)
{
	static int (*const runs[PROGRAM_COMMANDS])(const struct command_line *line) = {
		[PROGRAM_SERVE] = serve_run,      [PROGRAM_RELOAD] = reload_main,
		[PROGRAM_UPGRADE] = upgrade_main, [PROGRAM_CHECK] = check_main,
		[PROGRAM_ANALYZE] = analyze_main, [PROGRAM_MIGRATE] = migrate_main,
		[PROGRAM_VERIFY] = verify_main,   [PROGRAM_UNDO] = undo_main,
		[PROGRAM_EXPLAIN] = explain_main, [PROGRAM_STATUS] = status_main,
		[PROGRAM_TOP] = top_main,         [PROGRAM_SUGGEST] = suggest_main,
		[PROGRAM_HEALTH] = health_main,   [PROGRAM_PAUSE] = pause_main,
		[PROGRAM_RESUME] = resume_main,
	};
	/* The others take signals themselves. */
	static const bool leaves[PROGRAM_COMMANDS] = {
		[PROGRAM_RELOAD] = true,  [PROGRAM_UPGRADE] = true, [PROGRAM_CHECK] = true,
		[PROGRAM_ANALYZE] = true, [PROGRAM_EXPLAIN] = true, [PROGRAM_STATUS] = true,
		[PROGRAM_SUGGEST] = true, [PROGRAM_HEALTH] = true,  [PROGRAM_PAUSE] = true,
		[PROGRAM_RESUME] = true};
	struct command_line line;
	int code;

	secrets_keep();
	if (command_line_read(&line, count, arguments, &code)) {
		if (leaves[line.command])
			leave_at_signals(&line);
		code = runs[line.command](&line);
	}
	return end(code);
}
