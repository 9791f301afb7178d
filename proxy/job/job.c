/* What the operator's commands have in common. */
#include "proxy/job/job.h"

#include "proxy/base/clock.h"
#include "proxy/base/config_file.h"
#include "proxy/upstream/deployment.h"
#include "proxy/base/json_text.h"
#include "proxy/base/log.h"
#include "proxy/job/job_walk.h"
#include "proxy/terminal/progress.h"
#include "proxy/upstream/clauses.h"
#include "proxy/upstream/namespaces.h"
#include "proxy/ownership/rule_record.h"
#include "proxy/mover/servers_watch.h"
#include "proxy/upstream/members.h"
#include "rules/rule/text.h"

#include <bson/bson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static atomic_bool stopping;

static volatile sig_atomic_t stopped_by; /* a signal's number */

static void on_signal(int number)
{
	stopped_by = number;
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

static struct job_options options_of(const struct command_line *line)
{
	return (struct job_options){
		.config = line->values[OPTION_CONFIG],
		.rule = line->values[OPTION_RULE],
		.export = line->values[OPTION_EXPORT],
		.rate = line->numbers[OPTION_RATE],
		.lag_ms = line->numbers[OPTION_LAG] * 1000,
		.execute = line->values[OPTION_EXECUTE],
		.resume = line->values[OPTION_RESUME],
		.repair = line->values[OPTION_REPAIR],
		.accept_loss = line->values[OPTION_ACCEPT_LOSS],
		.json = line->values[OPTION_JSON],
	};
}

#define GO_ON (-1)

static const char *job_name(const struct job *job)
{
	return program_commands[job->command].name;
}

/* GO_ON, or the exit code. */
static int load(struct job *job)
{
	auto_free char *problems = NULL;
	auto_free char *unknown = NULL;

	job->config = config_load(job->options.config, &problems);
	if (!job->config) {
		if (job->options.json)
			json_print_failure(job_name(job), "bad file", problems);
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
		json_print_failure(job_name(job), "bad file", unknown);
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

static void print_report(const struct job *job, enum job_end end, const char *error)
{
	const struct job_options *options = &job->options;
	bool plans = job->command != PROGRAM_VERIFY || options->repair;

	job_report_print(&job->report, &(struct job_report_head){
					       .command = job_name(job),
					       .rule = job->rule->name,
					       .end = end,
					       .error = error,
					       .executed = options->execute,
					       .plan = !options->execute && plans,
					       .json = options->json,
				       });
}

static int interrupted(const struct job *job)
{
	print_report(job, JOB_END_INTERRUPTED, NULL);
	fprintf(stderr, "spillway: interrupted%s\n",
		job->options.execute ? "; what was done is whole, and the command can be run again"
				     : "");
	return job->options.execute ? EXIT_UNFINISHED : EXIT_SIGNAL + stopped_by;
}

/* The server. */

static int connect_to_server(struct job *job)
{
	bson_error_t error = {0};

	job->link = link_open(job->config->upstream_uri, &stopping, &error);
	if (job->link)
		return GO_ON;
	if (atomic_load(&stopping))
		return interrupted(job);
	if (job->options.json)
		print_report(job, JOB_END_LOST, error.message);
	complain("no server can be used: ", error.message);
	return JOB_NO_SERVER;
}

static const struct job_report_kind passed_over = {
	"passed over", REPORT_UNFINISHED,
	"the server refuses what has to be done there: it was left, and the others were gone on "
	"with",
	.name = "passed-over"};

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
					      .all = true,
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

/* The whole of a command. */

static enum link_result work(struct job *job, const struct job_command *command)
{
	struct mover_target *target;
	enum link_result result = find_targets(job, command->recorded);

	for (size_t i = 0; result == LINK_DONE && (target = target_at(job->targets, i)); i++)
		result = go_on(job, target, command->work(job, target));
	if (result == LINK_DONE && command->finish)
		result = command->finish(job);
	progress_clear();
	return result == LINK_DONE && job->refused[0] ? LINK_REFUSED : result;
}

static int outcome(struct job *job, enum link_result result)
{
	const char *error = result == LINK_REFUSED ? job->refused : link_error(job->link)->message;

	if (result == LINK_DONE) {
		print_report(job, JOB_END_DONE, NULL);
		return job_report_found(&job->report) ? JOB_FINDINGS : JOB_GOOD;
	}
	if (atomic_load(&stopping))
		return interrupted(job);
	print_report(job, result == LINK_LOST ? JOB_END_LOST : JOB_END_REFUSED, error);
	complain(result == LINK_LOST ? "the server is lost: " : "the server refuses: ", error);
	return result == LINK_LOST ? JOB_NO_SERVER : JOB_FINDINGS;
}

/* What serve does not start with is not worked on either. Where no server behind a listener can be
 * seen from here, as may be on another machine, nothing tells. */
static int ask_deployment(struct job *job)
{
	struct member_names *names;
	char reason[1024] = "";
	struct tls_pairs *tls =
		tls_pairs_new_servers(job->config, job->options.config, reason, sizeof(reason));
	const struct reach reach = {job->config, tls, job->places};
	enum deployment found;

	if (!tls) {
		complain("", reason);
		return JOB_USAGE;
	}
	names = member_names_new(job->config, job->places);
	found = deployment_look(job->link, &reach, names, &stopping, reason, sizeof(reason));
	member_names_free(names);
	tls_pairs_free(tls);
	if (atomic_load(&stopping))
		return interrupted(job);
	if (found == DEPLOYMENT_FITS || found == DEPLOYMENT_UNSEEN)
		return GO_ON;
	if (found == DEPLOYMENT_LOST)
		return outcome(job, LINK_LOST);
	if (job->options.json)
		print_report(job, JOB_END_REFUSED, reason);
	complain("", reason);
	return JOB_FINDINGS;
}

/* Says on stderr what a job waits for, where servers or a majority are missing. */
struct waiting {
	pthread_t thread;
	const struct config *config;
	struct places *places;
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
					    .places = waiting->places,
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

static void waiting_begin(struct waiting *waiting, const struct job *job)
{
	waiting->config = job->config;
	waiting->places = job->places;
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

int job_main(const struct job_command *command, void *context, const struct command_line *line)
{
	struct job job = {.command = line->command,
			  .options = options_of(line),
			  .context = context,
			  .began = clock_now(),
			  .lag = -1};
	struct watch watching = {0};
	struct waiting waiting = {0};
	int code;

	take_signals();
	watch_begin(&watching);
	job.told = job.began;
	code = load(&job);
	if (code == GO_ON) {
		job.places = places_new(job.config);
		members_find_once(job.config, job.places, &stopping);
		waiting_begin(&waiting, &job);
		code = connect_to_server(&job);
	}
	if (code == GO_ON)
		code = ask_deployment(&job);
	if (code == GO_ON) {
		job.metrics = metrics_new();
		code = outcome(&job, work(&job, command));
		target_set_free(job.targets);
		metrics_free_all();
	}
	waiting_end(&waiting);
	link_free(job.link);
	places_free(job.places);
	watch_end(&watching);
	job_report_fini(&job.report);
	if (job.config)
		config_free(job.config);
	return code;
}
