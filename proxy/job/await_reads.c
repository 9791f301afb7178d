/* Waits for reads that began before something. */
#include "proxy/job/await_reads.h"

#include "proxy/base/clock.h"
#include "proxy/job/job_walk.h"
#include "proxy/terminal/progress.h"
#include "proxy/upstream/open_reads.h"

#include <stdio.h>

#define LOOK_MS 100
#define SHOW_MS 5000
#define SILENT_MS 10000 /* a server that does not answer for so long is not waited for */

static void show(const struct open_reads *reads, const struct await_reads *what, int64_t *told)
{
	const char *silent = open_reads_silent(reads);

	if (clock_now() - *told < SHOW_MS)
		return;
	*told = clock_now();
	progress_clear();
	if (silent)
		fprintf(stderr, "waiting for the server '%s' to say which reads go on\n", silent);
	else
		fprintf(stderr,
			"waiting: %zu reads and operations that began %s go on; until they have "
			"ended, %s\n",
			open_reads_count(reads), what->since, what->until);
}

/* What will not be known however long it is waited for. */
static bool is_unseen(const struct open_reads *reads, int64_t began)
{
	return open_reads_are_unseen(reads) ||
	       (open_reads_silent(reads) && clock_now() - began > SILENT_MS);
}

static void note_unseen(struct job *job, const struct open_reads *reads,
			const struct await_reads *what)
{
	const char *silent = open_reads_silent(reads);

	job_report_add(&job->report, what->unseen, silent ? silent : job->rule->database, NULL,
		       silent ? "the server does not answer"
			      : "the account lacks the action 'inprog' on the cluster");
}

must_check bool await_reads(struct job *job, const struct await_reads *what)
{
	struct open_reads *reads = open_reads_new();
	const struct open_reads_place place = {.config = job->config,
					       .places = job->places,
					       .rules = job->config->rules,
					       .targets = job->targets,
					       .stopping = job_stopping(),
					       .rule = job->rule,
					       .folded = what->folded};
	int64_t began = clock_now(), told = began - SHOW_MS + 2 * LOOK_MS;
	bool goes_on = true;

	while (goes_on && !open_reads_have_ended(reads, &place)) {
		if (is_unseen(reads, began)) {
			note_unseen(job, reads, what);
			break;
		}
		show(reads, what, &told);
		goes_on = job_pause(LOOK_MS);
	}
	open_reads_free(reads);
	return goes_on;
}
