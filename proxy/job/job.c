/* What the operator's commands have in common. */
#include "proxy/job/job.h"
#include "proxy/base/clock.h"

#include "proxy/base/config_file.h"
#include "proxy/upstream/deployment.h"
#include "proxy/job/workers.h"
#include "proxy/base/json_text.h"
#include "proxy/base/log.h"
#include "proxy/upstream/clauses.h"
#include "proxy/mover/garbage.h"
#include "proxy/spill/round.h"
#include "proxy/upstream/namespaces.h"
#include "proxy/ownership/rule_record.h"
#include "proxy/mover/servers_watch.h"
#include "proxy/job/throttle.h"
#include "rules/rule/text.h"

#include <bson/bson.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PAGE_SIZE 1000
#define SHOW_TERMINAL_MS 200
#define SHOW_LINE_MS 10000
#define SHOW_WAIT_MS 1000 /* a shorter one is not worth a line */
#define MOVE_TRIES 30
#define REFUSED_TRIES 8 /* of these, where the server refuses */
#define PAUSE_MOST_MS 2000
#define NUMBER_MOST 1000000000 /* of an option */

static atomic_bool stopping;

static void on_signal(int number)
{
	(void)number;
	atomic_store(&stopping, true);
}

static void take_signals(void)
{
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	if (signal(SIGHUP, on_signal) == SIG_IGN) /* nohup's */
		signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
}

/* Ends a job that was interrupted while a server does not answer. */
struct watch {
	pthread_t thread;
	int over; /* readable when the job is: who ends it waits for nothing */
};

static void *watch(void *context)
{
	const struct watch *watch = context;
	struct pollfd over = {.fd = watch->over, .events = POLLIN};
	int64_t stopped = 0;

	while (poll(&over, 1, LINK_CUT_MS) <= 0) {
		if (!stopped && atomic_load(&stopping))
			stopped = clock_now();
		if (stopped && clock_now() - stopped > LINK_ANSWER_MS)
			link_cut_all(&stopping);
	}
	return NULL;
}

static void watch_begin(struct watch *watching)
{
	watching->over = eventfd(0, EFD_CLOEXEC);
	require(watching->over >= 0 &&
		pthread_create(&watching->thread, NULL, watch, watching) == 0);
}

static void watch_end(struct watch *watching)
{
	require(eventfd_write(watching->over, 1) == 0);
	pthread_join(watching->thread, NULL);
	close(watching->over);
}

const atomic_bool *job_stopping(void)
{
	return &stopping;
}

must_check bool job_pause(int64_t milliseconds)
{
	return clock_pause(milliseconds, &stopping);
}

/* Options. */

static int bad_usage(const struct job_command *command, const char *what)
{
	fprintf(stderr, "spillway %s: %s\n%s", command->name, what, command->usage);
	return JOB_USAGE;
}

static bool read_number(const char *text, int64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0' && end != text && *number > 0 && *number <= NUMBER_MOST;
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
static bool take_option(struct job_options *options, unsigned option, const char *value)
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
static int read_options(const struct job_command *command, struct job_options *options, int count,
			char **arguments)
{
	int letter;

	opterr = 0;
	while ((letter = getopt_long(count, arguments, "", all_options, NULL)) != -1) {
		if (letter == LETTER_HELP) {
			fputs(command->usage, stdout);
			return JOB_GOOD;
		}
		if ((letter == LETTER_CONFIG && options->config) ||
		    (letter == LETTER_RULE && options->rule))
			return bad_usage(command, "--config and --rule are given once");
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
			return bad_usage(command, "a number from 1 to 1000000000 is wanted");
	}
	if (optind < count)
		return bad_usage(command, "too many arguments");
	if (!options->config || !options->rule)
		return bad_usage(command, "--config FILE and --rule NAME are both needed");
	if (command->options & OPTION_REPAIR && options->execute && !options->repair)
		return bad_usage(command, "--execute goes with --repair");
	if (options->export && !options->execute)
		return bad_usage(command, "--export goes with --repair --execute");
	if (options->resume && !options->execute)
		return bad_usage(command, "--resume goes with --execute");
	return GO_ON;
}

static int load(struct job *job, const struct job_command *command)
{
	auto_free char *problems = NULL;
	auto_free char *unknown = NULL;

	job->config = config_load(job->options.config, &problems);
	if (!job->config) {
		if (job->options.json)
			json_print_failure(command->name, "bad file", problems);
		fputs(problems, stderr);
		return JOB_USAGE;
	}
	log_configure(CONFIG_LOG_ERROR, false);
	for (size_t i = 0; i < rule_set_count(job->config->rules); i++) {
		const struct rule *rule = rule_set_at(job->config->rules, i);

		if (strcmp(rule->name, job->options.rule) == 0)
			job->rule = rule;
	}
	if (job->rule)
		return GO_ON;
	unknown =
		bson_strdup_printf("'%s' has no rule '%s'", job->options.config, job->options.rule);
	if (job->options.json)
		json_print_failure(command->name, "bad file", unknown);
	fprintf(stderr, "spillway: %s\n", unknown);
	return JOB_USAGE;
}

/* `text` may hold what others have written. */
static void complain(const char *before, const char *text)
{
	auto_free char *plain = text_plain(text);

	fprintf(stderr, "spillway: %s%s\n", before, plain);
}

/* The report. */

static void print_report(const struct job *job, const struct job_command *command, enum job_end end,
			 const char *error)
{
	const struct job_options *options = &job->options;
	bool repairs = !(command->options & OPTION_REPAIR) || options->repair;

	job_report_print(&job->report, &(struct job_report_head){
					       .command = command->name,
					       .rule = job->rule->name,
					       .end = end,
					       .error = error,
					       .executed = options->execute,
					       .plan = !options->execute && repairs,
					       .json = options->json,
				       });
}

static int interrupted(const struct job *job, const struct job_command *command)
{
	print_report(job, command, JOB_END_INTERRUPTED, NULL);
	fprintf(stderr, "spillway: interrupted; what was done is whole, and the command can be run "
			"again\n");
	return JOB_INTERRUPTED;
}

/* The server. */

static int connect_to_server(struct job *job, const struct job_command *command)
{
	bson_error_t error = {0};

	job->link = link_open(job->config->upstream_uri, &stopping, &error);
	if (job->link)
		return GO_ON;
	if (atomic_load(&stopping))
		return interrupted(job, command);
	if (job->options.json)
		print_report(job, command, JOB_END_LOST, error.message);
	complain("no server can be used: ", error.message);
	return JOB_NO_SERVER;
}

static const struct job_report_kind passed_over = {
	"passed over", REPORT_UNFINISHED,
	"the server refuses what has to be done there: it was left, and the others were gone on "
	"with"};

static void pass_over(struct job *job, const char *namespace)
{
	const char *words = link_error(job->link)->message;

	if (!job->refused[0])
		snprintf(job->refused, sizeof(job->refused), "%s", words);
	if (rule_is_pattern(job->rule))
		job_report_list(&job->report, &passed_over, namespace, NULL, words);
	link_abort(job->link);
}

/* One namespace of a pattern that the server refuses does not keep the others from their work. */
static enum link_result go_on(struct job *job, const struct mover_target *target,
			      enum link_result result)
{
	auto_free char *name = NULL;

	if (result != LINK_REFUSED)
		return result;
	name = bson_strdup_printf("%s.%s", target->database, target->collection);
	pass_over(job, name);
	return LINK_DONE;
}

static void note_unlisted(void *context, const char *database)
{
	pass_over(context, database);
}

static enum link_result find_of_pattern(struct job *job, bool recorded)
{
	const struct namespaces namespaces = {.targets = job->targets,
					      .rules = job->config->rules,
					      .refused = note_unlisted,
					      .context = job};
	enum link_result result = namespaces_find(job->link, &namespaces, job->rule);

	if (result == LINK_DONE && recorded)
		result = rule_record_find_targets(job->link, job->targets, job->config->rules,
						  job->rule);
	return result;
}

static enum link_result find_targets(struct job *job, bool recorded)
{
	const struct rule *rule = job->rule;

	job->targets = target_set_new(job->config->rules);
	if (rule_is_pattern(rule))
		return find_of_pattern(job, recorded);
	require(target_get(job->targets, rule, bytes_of(rule->database),
			   bytes_of(rule->collection)));
	return LINK_DONE;
}

/* Progress. */

/* For those who look: nothing depends on it. */
static void ask_lag(struct job *job)
{
	if (!job->options.lag_ms && !job->lag_hidden)
		job->lag_hidden = lag_ask(job) == LINK_REFUSED;
}

/* A line of progress stands on the terminal. Any hand may show one. */
static atomic_bool shown;

static void clear_line(void)
{
	if (atomic_exchange(&shown, false))
		fputs("\r\033[K", stderr);
}

/* Whether it is time to say again how things are. */
static bool begin_line(int64_t *told)
{
	int64_t now = clock_now();

	if (now - *told < (isatty(STDERR_FILENO) ? SHOW_TERMINAL_MS : SHOW_LINE_MS))
		return false;
	*told = now;
	return true;
}

static void end_line(void)
{
	bool terminal = isatty(STDERR_FILENO);

	if (!terminal)
		fputc('\n', stderr);
	atomic_store(&shown, terminal);
}

void job_show_lag(const struct job *job, int64_t *told)
{
	if (!begin_line(told))
		return;
	clear_line();
	fprintf(stderr, "waiting for the secondary '%s': %lld s behind, --max-lag is %lld s",
		job->lagging, (long long)job->lag / 1000, (long long)job->options.lag_ms / 1000);
	end_line();
}

must_check bool job_await_readers(const struct mover_target *target, int64_t since)
{
	int64_t left = since + target->rule->gc_delay_ms - clock_now();

	if (left >= SHOW_WAIT_MS) {
		clear_line();
		fprintf(stderr,
			"waiting %lld s: what was folded back may still be read from the overflow "
			"until then (gc_delay)\n",
			(long long)(left + 999) / 1000);
	}
	return job_pause(left);
}

/* How far a page is. */
struct job_pace {
	int64_t found; /* documents of the page that are worked on; at least 1 */
	atomic_llong done;
};

/* A page has so many documents, the last one those that are left. */
static int64_t page_size(const struct job *job)
{
	int64_t left = job->total - job->looked;

	return left < PAGE_SIZE ? left : PAGE_SIZE;
}

static int64_t count_looked(const struct job *job)
{
	const struct job_pace *pace = job->pace;

	return job->looked + (pace ? page_size(job) * atomic_load(&pace->done) / pace->found : 0);
}

static void show_progress(struct job *job)
{
	int64_t passed = clock_now() - job->began + 1, looked = count_looked(job);

	if (!begin_line(&job->told))
		return;
	ask_lag(job);
	clear_line();
	fprintf(stderr,
		"%lld of about %lld documents looked at, %lld worked on, %lld elements, "
		"%lld documents a second",
		(long long)looked, (long long)job->total, (long long)job->documents,
		(long long)job->elements, (long long)(looked * 1000 / passed));
	if (job->lag >= 0)
		fprintf(stderr, ", lag %lld ms", (long long)job->lag);
	if (looked > 0 && job->total > looked)
		fprintf(stderr, ", %lld s to go",
			(long long)((job->total - looked) * passed / looked / 1000));
	end_line();
}

static enum link_result count_documents(struct job *job, const struct mover_target *target)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);
	struct element count;
	enum link_result result;

	writer_string(&out, "count", target->collection);
	writer_close(&out, start);
	result = link_run(job->link, target->database, buffer_view(&out));
	job->began = clock_now();
	job->looked = 0;
	if (result != LINK_DONE || !document_find(link_body(job->link), "n", &count) ||
	    !element_integer(&count, &job->total))
		job->total = 0;
	return result;
}

/* Walking. */

static void keep_id(void *context, struct bytes document)
{
	struct buffer *ids = context;

	buffer_append(ids, document.data, document.length);
}

void job_count_done(struct job *job, size_t count)
{
	if (job->pace)
		atomic_fetch_add(&job->pace->done, (long long)count);
}

static enum link_result work_on_page(struct job *job, struct mover_target *target,
				     const struct job_walk *walk, struct hands *hands,
				     const struct buffer *ids)
{
	struct job_pace pace = {.found = (int64_t)hands_count(buffer_view(ids))};
	enum link_result result = LINK_DONE;

	if (pace.found == 0)
		return LINK_DONE;
	job->pace = &pace;
	result = hands_work(hands, target, walk, ids, show_progress);
	job->pace = NULL;
	return result;
}

must_check enum link_result job_walk(struct job *job, struct mover_target *target,
				     const struct job_walk *walk)
{
	struct id_pages pages = {
		.link = job->link, .target = target, .size = PAGE_SIZE, .from = walk->from};
	struct hands *hands = hands_new(job, walk->helpers);
	enum link_result result = count_documents(job, target);

	while (result == LINK_DONE && !pages.ended) {
		auto_buffer struct buffer ids = {0};

		result = id_pages_next(&pages, walk->filter, keep_id, &ids);
		if (result == LINK_DONE)
			result = work_on_page(job, target, walk, hands, &ids);
		/* A page ends behind so many documents, and the last one with the collection. */
		job->looked += PAGE_SIZE;
		if (pages.ended || job->looked > job->total)
			job->looked = job->total;
		if (result == LINK_DONE && !pages.ended && walk->page)
			result = walk->page(job, target, &pages.from);
		if (result == LINK_DONE)
			show_progress(job);
	}
	id_pages_fini(&pages);
	hands_free(hands);
	return result;
}

must_check enum link_result job_list(struct job *job, struct mover_target *target, job_each each,
				     const struct buffer *ids, size_t helpers)
{
	const struct job_walk walk = {.each = each};
	struct hands *hands = hands_new(job, helpers);
	enum link_result result = hands_work(hands, target, &walk, ids, show_progress);

	hands_free(hands);
	return result;
}

static void note_end(const struct job *job, struct job_moved *moved, const struct round *round,
		     enum round_end end)
{
	moved->rests = end == ROUND_REST;
	snprintf(moved->refused, sizeof(moved->refused), "%s",
		 round->refused ? link_error(job->link)->message : "");
}

must_check enum link_result job_move(struct job *job, struct mover_target *target,
				     const struct element *id, struct job_moved *moved)
{
	struct round round;
	enum round_end end;
	int64_t pause = 10;

	*moved = (struct job_moved){0};
	for (int tries = 0, refused = 0; tries < MOVE_TRIES && refused < REFUSED_TRIES; tries++) {
		enum link_result result = LINK_DONE;

		round = (struct round){.link = job->link,
				       .target = target,
				       .metrics = job->metrics,
				       .id_type = id->type,
				       .id = id->value,
				       .operation_time = link_time(job->link),
				       .tries = tries};
		end = round_run(&round);
		job->elements += round.elements;
		if (end == ROUND_LOST)
			return LINK_LOST;
		note_end(job, moved, &round, end);
		if (end == ROUND_REST || end == ROUND_LEFT)
			return LINK_DONE;
		refused += round.refused;
		if (end == ROUND_GARBAGE)
			result = gc_clear(job->link, target, id, job->metrics);
		if (result == LINK_LOST || !job_pause(pause))
			return LINK_LOST;
		pause = 2 * pause < PAUSE_MOST_MS ? 2 * pause : PAUSE_MOST_MS;
	}
	return LINK_DONE;
}

/* The whole of a command. */

static enum link_result work(struct job *job, const struct job_command *command)
{
	struct mover_target *target;
	enum link_result result = find_targets(job, command->recorded);

	for (size_t i = 0; result == LINK_DONE && (target = target_at(job->targets, i)); i++)
		result = go_on(job, target, command->work(job, target));
	if (result == LINK_DONE && command->finish)
		result = command->finish(job);
	clear_line();
	return result == LINK_DONE && job->refused[0] ? LINK_REFUSED : result;
}

static int outcome(struct job *job, const struct job_command *command, enum link_result result)
{
	const char *error = result == LINK_REFUSED ? job->refused : link_error(job->link)->message;

	if (result == LINK_DONE) {
		print_report(job, command, JOB_END_DONE, NULL);
		return job_report_found(&job->report) ? JOB_FINDINGS : JOB_GOOD;
	}
	if (atomic_load(&stopping))
		return interrupted(job, command);
	print_report(job, command, result == LINK_LOST ? JOB_END_LOST : JOB_END_REFUSED, error);
	complain(result == LINK_LOST ? "the server is lost: " : "the server refuses: ", error);
	return result == LINK_LOST ? JOB_NO_SERVER : JOB_FINDINGS;
}

/* What serve does not start with is not worked on either. Where no server behind a listener can be
 * seen from here, as may be on another machine, nothing tells. */
static int ask_deployment(struct job *job, const struct job_command *command)
{
	struct member_names *names = member_names_new(job->config);
	char reason[1024] = "";
	enum deployment found =
		deployment_look(job->link, job->config, names, &stopping, reason, sizeof(reason));

	member_names_free(names);
	if (atomic_load(&stopping))
		return interrupted(job, command);
	if (found == DEPLOYMENT_FITS || found == DEPLOYMENT_UNSEEN)
		return GO_ON;
	if (found == DEPLOYMENT_LOST)
		return outcome(job, command, LINK_LOST);
	if (job->options.json)
		print_report(job, command, JOB_END_REFUSED, reason);
	complain("", reason);
	return JOB_FINDINGS;
}

/* Says on stderr what a job waits for, where servers or a majority are missing. */
struct waiting {
	pthread_t thread;
	const struct config *config;
	atomic_bool over;
};

static bool waiting_works(void *context)
{
	(void)context;
	return false; /* by a name of its own: another Spillway may be looked for */
}

static void waiting_pause(void *context, int64_t milliseconds)
{
	const struct waiting *waiting = context;
	int64_t until = clock_now() + milliseconds;

	while (!atomic_load(&waiting->over) && clock_now() < until)
		(void)poll(NULL, 0, LINK_CUT_MS);
}

static void waiting_answered(void *context)
{
	(void)context;
}

static void waiting_lacks(void *context, const char *text, bool first)
{
	(void)context;
	if (first)
		complain(SERVERS_WAITING, text);
}

static void waiting_back(void *context, bool told)
{
	(void)context;
	if (told)
		complain("", SERVERS_BACK);
}

static void *wait_and_tell(void *context)
{
	struct waiting *waiting = context;
	const struct servers_watch watch = {.config = waiting->config,
					    .stopping = &waiting->over,
					    .works = waiting_works,
					    .pause = waiting_pause,
					    .answered = waiting_answered,
					    .lacks = waiting_lacks,
					    .back = waiting_back,
					    .context = waiting};

	servers_watch_run(&watch);
	return NULL;
}

static void waiting_begin(struct waiting *waiting, const struct config *config)
{
	waiting->config = config;
	require(pthread_create(&waiting->thread, NULL, wait_and_tell, waiting) == 0);
}

/* A server that does not answer is not waited for. */
static void waiting_end(struct waiting *waiting)
{
	int64_t until;
	struct timespec deadline;

	if (!waiting->config)
		return;
	atomic_store(&waiting->over, true);
	do {
		link_cut_all(&waiting->over);
		until = clock_now() + LINK_CUT_MS;
		deadline = (struct timespec){until / 1000, until % 1000 * 1000000};
	} while (pthread_clockjoin_np(waiting->thread, NULL, CLOCK_MONOTONIC, &deadline) != 0);
}

int job_main(const struct job_command *command, void *context, int count, char **arguments)
{
	struct job job = {.context = context, .began = clock_now(), .lag = -1};
	struct watch watching = {0};
	struct waiting waiting = {0};
	int code;

	take_signals();
	watch_begin(&watching);
	code = read_options(command, &job.options, count, arguments);
	job.told = job.began;
	if (code == GO_ON)
		code = load(&job, command);
	if (code == GO_ON) {
		waiting_begin(&waiting, job.config);
		code = connect_to_server(&job, command);
	}
	if (code == GO_ON)
		code = ask_deployment(&job, command);
	if (code == GO_ON) {
		job.metrics = metrics_new();
		code = outcome(&job, command, work(&job, command));
		target_set_free(job.targets);
		metrics_free_all();
	}
	waiting_end(&waiting);
	link_free(job.link);
	watch_end(&watching);
	job_report_fini(&job.report);
	if (job.config)
		config_free(job.config);
	return code;
}
