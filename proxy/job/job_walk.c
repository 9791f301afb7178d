/* Walks the documents under a rule, shows how far it is, and moves one by the mover's own round. */
#include "proxy/job/job_walk.h"

#include "proxy/base/clock.h"
#include "proxy/job/throttle.h"
#include "proxy/job/workers.h"
#include "proxy/mover/garbage.h"
#include "proxy/spill/round.h"
#include "proxy/terminal/progress.h"
#include "rules/rule/text.h"

#include <bson/bson.h>
#include <stdio.h>

#define PAGE_SIZE 1000
#define SHOW_WAIT_MS 1000 /* a shorter one is not worth a line */
#define MOVE_TRIES 30
#define REFUSED_TRIES 8 /* of these, if the server refuses */
#define PAUSE_MOST_MS 2000

/* Progress. */

/* For those who look: nothing depends on it. */
static void ask_lag(struct job *job)
{
	if (!job->options.lag_ms && !job->lag_hidden)
		job->lag_hidden = lag_ask(job) == LINK_REFUSED;
}

void job_show_lag(const struct job *job, int64_t *told)
{
	if (progress_due(told))
		progress_say("waiting for the secondary '%s': %lld s behind, --max-lag is %lld s",
			     job->lagging, (long long)job->lag / 1000,
			     (long long)job->options.lag_ms / 1000);
}

void job_show_pause(const struct job *job, int64_t *told)
{
	if (progress_due(told))
		progress_say("rule '%s' is paused: waiting for 'spillway resume'", job->rule->name);
}

must_check bool job_await_readers(const struct mover_target *target, int64_t since)
{
	int64_t left = since + target->rule->gc_delay_ms - clock_now();

	if (left >= SHOW_WAIT_MS) {
		progress_clear();
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
	int64_t passed = clock_now() - job->began + 1;
	const struct progress progress = {count_looked(job), job->total, passed};
	auto_buffer struct buffer more = {0};

	if (!progress_due(&job->told))
		return;
	ask_lag(job);
	if (job->lag >= 0)
		text_append(&more, ", lag %lld ms", (long long)job->lag);
	progress_append_left(&more, &progress);
	progress_say("%lld of about %lld documents (%lld %%) looked at, %lld worked on, "
		     "%lld elements, %lld documents a second%.*s",
		     (long long)progress.done, (long long)progress.total,
		     (long long)progress_percent(&progress), (long long)job->documents,
		     (long long)job->elements, (long long)(progress.done * 1000 / passed),
		     (int)more.length, (const char *)more.data);
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

static const struct job_report_kind stayed_before = {
	"stayed", REPORT_UNFINISHED,
	"the run that was interrupted left documents in front of the place where this one went on",
	.name = "stayed-before", .remedy = "run the command without --resume: it names them"};

static void tell_stayed(struct job *job, const struct mover_target *target, int64_t count)
{
	auto_free char *name = bson_strdup_printf("%s.%s", target->database, target->collection);
	char detail[64];

	if (count <= 0)
		return;
	snprintf(detail, sizeof(detail), "%lld findings", (long long)count);
	job_report_add(&job->report, &stayed_before, name, NULL, detail);
}

must_check enum link_result job_walk(struct job *job, struct mover_target *target,
				     const struct job_walk *walk)
{
	int64_t before;
	struct id_pages pages = {
		.link = job->link, .target = target, .size = PAGE_SIZE, .from = walk->from};
	struct hands *hands = hands_new(job, walk->helpers);
	enum link_result result = count_documents(job, target);

	tell_stayed(job, target, walk->stayed);
	before = job_report_findings(&job->report) - walk->stayed;
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
			result = walk->page(job, target, &pages.from,
					    job_report_findings(&job->report) - before);
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
