/* What the operator's commands have in common. */
#include "proxy/operator.h"

#include "proxy/config_file.h"
#include "proxy/log.h"
#include "proxy/mover_command.h"
#include "proxy/mover_gc.h"
#include "proxy/mover_round.h"
#include "proxy/namespaces.h"
#include "rules/glob.h"

#include <bson/bson.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PAGE_SIZE 1000
#define SHOW_TERMINAL_MS 200
#define SHOW_LINE_MS 10000
#define MOVE_TRIES 30
#define PAUSE_MOST_MS 2000

static atomic_bool stopping;

static void on_signal(int number)
{
	(void)number;
	atomic_store(&stopping, true);
}

const atomic_bool *operator_stopping(void)
{
	return &stopping;
}

must_check bool operator_pause(int64_t milliseconds)
{
	int64_t until = mover_clock() + milliseconds, left;

	while (!atomic_load(&stopping) && (left = until - mover_clock()) > 0)
		(void)poll(NULL, 0, left < 100 ? (int)left : 100);
	return !atomic_load(&stopping);
}

/* Options. */

static int bad_usage(const struct operator_command *command, const char *what)
{
	fprintf(stderr, "spillway %s: %s\n%s", command->name, what, command->usage);
	return OPERATOR_USAGE;
}

static bool read_number(const char *text, int64_t *number)
{
	char *end;

	*number = strtoll(text, &end, 10);
	return *end == '\0' && end != text && *number > 0;
}

enum option_letter { LETTER_CONFIG = 1, LETTER_RULE, LETTER_JSON, LETTER_HELP, LETTER_FIRST };

/* The letters of a command's own options are LETTER_FIRST + the place of their bit. */
static const struct option all_options[] = {
	{"config", required_argument, NULL, LETTER_CONFIG},
	{"rule", required_argument, NULL, LETTER_RULE},
	{"json", no_argument, NULL, LETTER_JSON},
	{"help", no_argument, NULL, LETTER_HELP},
	{"execute", no_argument, NULL, LETTER_FIRST},
	{"resume", no_argument, NULL, LETTER_FIRST + 1},
	{"repair", no_argument, NULL, LETTER_FIRST + 2},
	{"export", required_argument, NULL, LETTER_FIRST + 3},
	{"rate", required_argument, NULL, LETTER_FIRST + 4},
	{"max-lag", required_argument, NULL, LETTER_FIRST + 5},
	{0},
};

/* False: its value can't be read. */
static bool take_option(struct operator_options *options, unsigned option, const char *value)
{
	switch (option) {
	case OPTION_EXECUTE:
		return options->execute = true;
	case OPTION_RESUME:
		return options->resume = true;
	case OPTION_REPAIR:
		return options->repair = true;
	case OPTION_EXPORT:
		options->export = value;
		return true;
	case OPTION_RATE:
		return read_number(value, &options->rate);
	case OPTION_LAG:
		if (!read_number(value, &options->lag_ms))
			return false;
		options->lag_ms *= 1000;
		return true;
	default:
		return false;
	}
}

#define GO_ON (-1)

/* GO_ON, or the exit code. */
static int read_options(const struct operator_command *command, struct operator_options *options,
			int count, char **arguments)
{
	int letter;

	opterr = 0;
	while ((letter = getopt_long(count, arguments, "", all_options, NULL)) != -1) {
		if (letter == LETTER_HELP) {
			fputs(command->usage, stdout);
			return OPERATOR_GOOD;
		}
		if (letter == LETTER_CONFIG)
			options->config = optarg;
		else if (letter == LETTER_RULE)
			options->rule = optarg;
		else if (letter == LETTER_JSON)
			options->json = true;
		else if (letter < LETTER_FIRST || letter == '?' ||
			 !(command->options & 1U << (letter - LETTER_FIRST)))
			return bad_usage(command, "unknown option, or one without its value");
		else if (!take_option(options, 1U << (letter - LETTER_FIRST), optarg))
			return bad_usage(command, "a number above 0 is wanted");
	}
	if (optind < count)
		return bad_usage(command, "too many arguments");
	if (!options->config || !options->rule)
		return bad_usage(command, "--config FILE and --rule NAME are both needed");
	if (command->options & OPTION_REPAIR && options->execute && !options->repair)
		return bad_usage(command, "--execute goes with --repair");
	return GO_ON;
}

static int load(struct operator* operator)
{
	auto_free char *problems = NULL;

	operator->config = config_load(operator->options.config, &problems);
	if (!operator->config) {
		fputs(problems, stderr);
		return OPERATOR_USAGE;
	}
	log_configure(CONFIG_LOG_ERROR, false);
	for (size_t i = 0; i < rule_set_count(operator->config->rules); i++) {
		const struct rule *rule = rule_set_at(operator->config->rules, i);

		if (strcmp(rule->name, operator->options.rule) == 0)
			operator->rule = rule;
	}
	if (operator->rule)
		return GO_ON;
	fprintf(stderr, "spillway: '%s' has no rule '%s'\n", operator->options.config,
							     operator->options.rule);
	return OPERATOR_USAGE;
}

/* The server. */

static int connect_to_server(struct operator* operator)
{
	bson_error_t error = {0};

	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	signal(SIGPIPE, SIG_IGN);
	operator->link = link_open(operator->config->upstream_uri, &stopping, &error);
	if (operator->link)
		return GO_ON;
	fprintf(stderr, "spillway: no server can be used: %s\n", error.message);
	return OPERATOR_NO_SERVER;
}

static enum link_result find_targets(struct operator* operator)
{
	const struct rule *rule = operator->rule;

	operator->targets = target_set_new(operator->config->rules);
	if (glob_is(bytes_of(rule->database)) || glob_is(bytes_of(rule->collection)))
		return namespaces_find(operator->link, operator->targets, operator->config->rules,
				       rule);
	require(target_get(operator->targets, rule, bytes_of(rule->database),
			   bytes_of(rule->collection)));
	return LINK_DONE;
}

/* Progress. */

static void clear_line(struct operator* operator)
{
	if (operator->shown)
		fputs("\r\033[K", stderr);
	operator->shown = false;
}

static void show_progress(struct operator* operator)
{
	bool terminal = isatty(STDERR_FILENO);
	int64_t now = mover_clock(), passed = now - operator->began + 1;

	if (now - operator->told<(terminal ? SHOW_TERMINAL_MS : SHOW_LINE_MS))
		return;
	operator->told = now;
	clear_line(operator);
	fprintf(stderr,
		"%lld of about %lld documents looked at, %lld worked on, %lld elements, "
		"%lld documents a second",
		(long long)operator->looked, (long long)operator->total,
		(long long)operator->documents, (long long)operator->elements,
		(long long)(operator->looked * 1000 / passed));
	if (operator->lag >= 0)
		fprintf(stderr, ", lag %lld ms", (long long)operator->lag);
	if (operator->looked> 0 && operator->total> operator->looked)
		fprintf(stderr, ", %lld s to go",
			(long long)((operator->total - operator->looked) *
				    passed / operator->looked / 1000));
	if (!terminal)
		fputc('\n', stderr);
	operator->shown = terminal;
}

static enum link_result count_documents(struct operator* operator,
					const struct mover_target * target)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);
	struct element count;
	enum link_result result;

	writer_string(&out, "count", target->collection);
	writer_close(&out, start);
	result = link_run(operator->link, target->database, buffer_view(&out));
	operator->looked = 0;
	if (result != LINK_DONE || !document_find(link_body(operator->link), "n", &count) ||
	    !element_integer(&count, &operator->total))
		operator->total = 0;
	return result;
}

/* Walking. */

static void keep_id(void *context, struct bytes document)
{
	struct buffer *ids = context;

	buffer_append(ids, document.data, document.length);
}

static enum link_result work_on_page(struct operator* operator, struct mover_target * target,
				     const struct operator_walk *walk, const struct buffer *ids)
{
	enum link_result result = LINK_DONE;
	struct element id;

	for (size_t at = 0; result == LINK_DONE && at < ids->length;) {
		struct bytes document = {ids->data + at, (size_t)load_int32(ids->data + at)};

		at += document.length;
		if (document_find(document, "_id", &id))
			result = walk->each(operator, target, &id);
		show_progress(operator);
	}
	return result;
}

must_check enum link_result operator_walk(struct operator* operator, struct mover_target * target,
					  const struct operator_walk *walk)
{
	struct id_pages pages = {
		.link = operator->link, .target = target, .size = PAGE_SIZE, .from = walk->from};
	enum link_result result = count_documents(operator, target);

	while (result == LINK_DONE && !pages.ended) {
		auto_buffer struct buffer ids = {0};

		result = id_pages_next(&pages, walk->filter, keep_id, &ids);
		if (result == LINK_DONE)
			result = work_on_page(operator, target, walk, &ids);
		operator->looked += PAGE_SIZE;
		if (result == LINK_DONE && !pages.ended && walk->page)
			result = walk->page(operator, target, &pages.from);
		show_progress(operator);
	}
	id_pages_fini(&pages);
	return result;
}

must_check enum link_result operator_read(struct operator* operator,
					  const struct mover_target * target,
					  const struct element *id, uint8_t **image,
					  struct bytes *document)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), filter;
	bool found = false;
	enum link_result result;

	writer_string(&out, "find", target->collection);
	filter = writer_open_document(&out, "filter");
	command_equal(&out, "_id", id->type, id->value);
	writer_close(&out, filter);
	writer_int32(&out, "limit", 1);
	writer_bool(&out, "singleBatch", true);
	command_read_concern(&out, operator->link, time_after(operator->link, 0));
	writer_close(&out, start);
	result = link_find_one(operator->link, target->database, buffer_view(&out), document,
			       &found);
	*image = result == LINK_DONE && found ? link_steal_body(operator->link) : NULL;
	return result;
}

must_check enum link_result operator_move(struct operator* operator, struct mover_target * target,
					  const struct element *id)
{
	struct round round;
	enum round_end end;
	int64_t pause = 10;

	for (int tries = 0; tries < MOVE_TRIES; tries++) {
		enum link_result result = LINK_DONE;

		round = (struct round){.link = operator->link,
				       .target = target,
				       .metrics = operator->metrics,
				       .id_type = id->type,
				       .id = id->value,
				       .operation_time = time_after(operator->link, 0),
				       .tries = tries};
		end = round_run(&round);
		operator->elements += round.elements;
		if (end == ROUND_LOST)
			return LINK_LOST;
		if (end == ROUND_REST || end == ROUND_LEFT)
			return LINK_DONE;
		if (end == ROUND_GARBAGE)
			result = gc_clear(operator->link, target, id, operator->metrics);
		if (result == LINK_LOST || !operator_pause(pause))
			return LINK_LOST;
		pause = 2 * pause < PAUSE_MOST_MS ? 2 * pause : PAUSE_MOST_MS;
	}
	return LINK_DONE; /* whoever verifies it sees it */
}

/* The whole of a command. */

static enum link_result work(struct operator* operator, const struct operator_command * command)
{
	struct mover_target *target;
	enum link_result result = find_targets(operator);

	for (size_t i = 0; result == LINK_DONE && (target = target_at(operator->targets, i)); i++)
		result = command->work(operator, target);
	if (result == LINK_DONE && command->finish)
		result = command->finish(operator);
	clear_line(operator);
	return result;
}

static int outcome(struct operator* operator, const struct operator_command * command,
		   enum link_result result)
{
	const struct link_error *error = link_error(operator->link);

	report_print(&operator->report,
		     command->name, operator->rule->name, operator->options.execute,
							  operator->options.json);
	if (result == LINK_DONE)
		return report_found(&operator->report) ? OPERATOR_FINDINGS : OPERATOR_GOOD;
	if (atomic_load(&stopping)) {
		fprintf(stderr,
			"spillway: interrupted; what was done is whole, and the command can "
			"be run again\n");
		return OPERATOR_INTERRUPTED;
	}
	fprintf(stderr, "spillway: %s: %s\n",
		result == LINK_LOST ? "the server is lost" : "the server refuses", error->message);
	return result == LINK_LOST ? OPERATOR_NO_SERVER : OPERATOR_FINDINGS;
}

int operator_main(const struct operator_command *command, void *context, int count,
		  char **arguments)
{
	struct operator operator= {.context = context, .began = mover_clock(), .lag = -1};
	int code = read_options(command, &operator.options, count, arguments);

	operator.told = operator.began;
	if (code == GO_ON)
		code = load(&operator);
	if (code == GO_ON)
		code = connect_to_server(&operator);
	if (code == GO_ON) {
		operator.metrics = metrics_new();
		code = outcome(&operator, command, work(&operator, command));
		target_set_free(operator.targets);
		metrics_free_all();
	}
	link_free(operator.link);
	report_fini(&operator.report);
	if (operator.config)
		config_free(operator.config);
	return code;
}
