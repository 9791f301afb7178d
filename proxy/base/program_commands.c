/* The commands of the program and their options, with the text of their help. */
#include "proxy/base/command_line.h"

#include <signal.h>

#define TAKES(option) (1U << OPTION_##option)
#define TAKES_ALWAYS (TAKES(HELP) | TAKES(VERSION))
#define TAKES_RULE (TAKES_ALWAYS | TAKES(CONFIG) | TAKES(RULE) | TAKES(EXECUTE) | TAKES(JSON))
#define BAD_USAGE "bad usage or file"
#define NO_SERVER "cannot connect"
#define NO_ADMIN "no Spillway answers at the admin address"

const int program_exit_codes[EXIT_CODES] = {0, 1, 2, 3, EXIT_UNFINISHED, EXIT_SIGNAL + SIGINT};

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
				  BAD_USAGE, NO_SERVER, NULL, "interrupted"},
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
				  NO_SERVER, NULL, "interrupted"},
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
			.codes = {"nothing to do", "findings", BAD_USAGE, NO_SERVER, NULL,
				  "interrupted"},
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
				  "bad usage", NO_SERVER, NULL, "interrupted"},
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
				  NO_SERVER, "interrupted while it wrote: --resume goes on",
				  "interrupted"},
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
				  BAD_USAGE, NO_SERVER, "interrupted while it mended",
				  "interrupted"},
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
				  NO_SERVER, "interrupted while it wrote: --resume goes on",
				  "interrupted"},
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
			.codes = {"paused", "the server refused", BAD_USAGE, NO_SERVER, NULL,
				  "interrupted"},
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
				  NO_SERVER, NULL, "interrupted"},
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
			.codes = {"ready", "not ready, or nobody answers", BAD_USAGE, NULL, NULL,
				  "interrupted"},
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
			.codes = {"it is served", "it is refused", BAD_USAGE, NO_ADMIN, NULL,
				  "interrupted"},
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
			.codes = {"it is ready", "it is not ready", BAD_USAGE, NO_ADMIN, NULL,
				  "interrupted"},
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
			.codes = {"observed", "nothing is observed", BAD_USAGE, NO_ADMIN, NULL,
				  "interrupted"},
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
