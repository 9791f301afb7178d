/* Keeps work behind the traffic from running ahead of the secondaries, or of a rate. */
#include "proxy/job/throttle.h"

#include "proxy/job/job_walk.h"
#include "proxy/base/clock.h"

#include "proxy/upstream/clauses.h"
#include "proxy/mover/queue.h"

#include <stdio.h>

#define ASK_MS 500
#define NO_REPLICATION 76
#define SECONDARY 2

/* When the member wrote last; -1: it holds no data, or is away. */
static int64_t written_at(struct bytes member, int64_t *state)
{
	struct element element;

	if (!document_find(member, "state", &element) || !element_integer(&element, state) ||
	    !document_find(member, "optimeDate", &element) || element.type != BSON_BYTE_DATE)
		return -1;
	return load_int64(element.value.data);
}

/* How far the slowest secondary is behind the member that is furthest. `slowest` is it. */
static int64_t lag_of(struct bytes members, struct bytes *slowest)
{
	struct cursor cursor;
	struct element each;
	struct bytes member;
	int64_t first = -1, last = INT64_MAX, state = 0, at;

	*slowest = (struct bytes){0};
	if (!cursor_open(&cursor, members))
		return -1;
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT) {
		if (!element_document(&each, &member))
			continue;
		at = written_at(member, &state);
		if (at > first)
			first = at;
		if (at < 0 || state != SECONDARY || at >= last)
			continue;
		last = at;
		*slowest = member;
	}
	return last == INT64_MAX ? 0 : first - last;
}

static void take_lag(struct job *job, struct bytes members)
{
	struct bytes slowest, name = {0};
	struct element element;

	job->lag = lag_of(members, &slowest);
	if (document_find(slowest, "name", &element) && !element_string(&element, &name))
		name = (struct bytes){0};
	snprintf(job->lagging, sizeof(job->lagging), "%.*s", (int)name.length,
		 name.length > 0 ? (const char *)name.data : "");
}

must_check enum link_result lag_ask(struct job *job)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);
	struct element members;
	enum link_result result;

	writer_int32(&out, "replSetGetStatus", 1);
	writer_close(&out, start);
	result = link_run(job->link, "admin", buffer_view(&out));
	if (result == LINK_DONE && document_find(link_body(job->link), "members", &members))
		take_lag(job, members.value);
	/* A standalone has none; an account that may not ask is told so. */
	if (result == LINK_REFUSED && link_error(job->link)->code == NO_REPLICATION)
		return LINK_DONE;
	return result;
}

/* While a secondary is too far behind. */
static enum link_result wait_for_secondaries(struct throttle *throttle, struct job *job)
{
	enum link_result result = LINK_DONE;

	if (!job->options.lag_ms || clock_now() < throttle->asked + ASK_MS)
		return LINK_DONE;
	while (result == LINK_DONE) {
		result = lag_ask(job);
		throttle->asked = clock_now();
		if (result != LINK_DONE || job->lag <= job->options.lag_ms)
			return result;
		job_show_lag(job, &throttle->told);
		if (!job_pause(ASK_MS))
			return LINK_LOST;
	}
	return result;
}

/* When the next document may begin by the rate, counted from the first. */
static int64_t count_one(struct throttle *throttle, const struct job *job)
{
	if (!throttle->began)
		throttle->began = clock_now();
	throttle->done++;
	return job->options.rate ? throttle->began + throttle->done * 1000 / job->options.rate : 0;
}

must_check enum link_result throttle_wait(struct throttle *throttle, struct job *job)
{
	enum link_result result;
	int64_t due;

	pthread_mutex_lock(&throttle->lock);
	due = count_one(throttle, job);
	pthread_mutex_unlock(&throttle->lock);
	if (due && !job_pause(due - clock_now()))
		return LINK_LOST;
	pthread_mutex_lock(&throttle->lock); /* one waits, and the others for it */
	result = wait_for_secondaries(throttle, job);
	pthread_mutex_unlock(&throttle->lock);
	return result;
}
