/* More hands for a walk. */
#include "proxy/job/workers.h"

#include "proxy/job/throttle.h"

#include <bson/bson.h>
#include <pthread.h>
#include <stdlib.h>

#define SHARE_BYTES (1 << 20)

struct page_work {
	struct mover_target *target;
	const struct job_walk *walk;
	const struct buffer *ids;
	size_t share; /* documents that a hand takes at once */
	size_t at;    /* the next document; under the lock, as is `failed` */
	pthread_mutex_t lock;
	bool failed;
};

struct hand {
	struct job job; /* its own link and report; all else is the command's */
	struct page_work *page;
	pthread_t thread;
	enum link_result result;
	bool alone; /* it got no link, and won't ask again */
};

struct hands {
	struct job *job;
	struct hand *helpers;
	size_t count;
};

struct hands *hands_new(struct job *job, size_t helpers)
{
	struct hands *hands = must_calloc(1, sizeof(*hands));

	hands->job = job;
	hands->helpers = must_calloc(helpers + 1, sizeof(*hands->helpers));
	hands->count = helpers;
	return hands;
}

void hands_free(struct hands *hands)
{
	for (size_t i = 0; i < hands->count; i++)
		link_free(hands->helpers[i].job.link);
	free(hands->helpers);
	free(hands);
}

size_t hands_count(struct bytes ids)
{
	size_t count = 0;

	for (size_t at = 0; at < ids.length; count++)
		at += (size_t)load_int32(ids.data + at);
	return count;
}

/* A share, but of large _ids fewer: they stand in one command. */
static bool take_next(struct page_work *page, struct bytes *ids)
{
	pthread_mutex_lock(&page->lock);
	*ids = (struct bytes){page->ids->data + page->at, 0};
	for (size_t i = 0; i < page->share && !page->failed && ids->length < SHARE_BYTES &&
			   page->at < page->ids->length;
	     i++) {
		size_t length = (size_t)load_int32(page->ids->data + page->at);

		ids->length += length;
		page->at += length;
	}
	pthread_mutex_unlock(&page->lock);
	return ids->length > 0;
}

static enum link_result work(struct page_work *page, struct job *job, struct bytes ids)
{
	enum link_result result = throttle_pause(job);
	struct element id;

	if (result != LINK_DONE)
		return result;
	if (page->walk->group)
		result = page->walk->group(job, page->target, ids);
	else if (document_find(ids, "_id", &id))
		result = page->walk->each(job, page->target, &id);
	job_count_done(job, hands_count(ids));
	return result;
}

static void fail(struct page_work *page)
{
	pthread_mutex_lock(&page->lock);
	page->failed = true;
	pthread_mutex_unlock(&page->lock);
}

/* The helper's link reads no earlier than what the page was found by. */
static enum link_result catch_up(struct link *link)
{
	bson_t *ping = BCON_NEW("ping", BCON_INT32(1));
	enum link_result result =
		link_run(link, "admin", (struct bytes){bson_get_data(ping), ping->len});

	bson_destroy(ping);
	return result;
}

/* All at once open their links, while the calling thread is at work. */
static bool has_link(struct hand *hand)
{
	bson_error_t error;

	if (!hand->job.link && !hand->alone)
		hand->job.link = link_open(hand->job.config->upstream_uri, job_stopping(), &error);
	hand->alone = !hand->job.link;
	return hand->job.link;
}

static void *help(void *context)
{
	struct hand *hand = context;
	struct bytes ids;

	hand->result = LINK_DONE;
	if (!has_link(hand))
		return NULL;
	hand->result = catch_up(hand->job.link);
	while (hand->result == LINK_DONE && take_next(hand->page, &ids))
		hand->result = work(hand->page, &hand->job, ids);
	if (hand->result != LINK_DONE)
		fail(hand->page);
	return NULL;
}

static void start(struct hands *hands, struct hand *hand, struct page_work *page)
{
	struct link *link = hand->job.link;

	hand->job = *hands->job;
	hand->job.link = link;
	hand->job.report = (struct job_report){0};
	hand->job.documents = 0;
	hand->job.elements = 0;
	hand->page = page;
	require(pthread_create(&hand->thread, NULL, help, hand) == 0);
}

/* Adds what it did; a link that failed changes places with the command's, which tells why. */
static enum link_result finish(struct hands *hands, struct hand *hand)
{
	struct job *job = hands->job;
	struct link *failed;

	pthread_join(hand->thread, NULL);
	failed = hand->job.link;
	job->documents += hand->job.documents;
	job->elements += hand->job.elements;
	if (hand->job.lag > job->lag)
		job->lag = hand->job.lag;
	job_report_merge(&job->report, &hand->job.report);
	if (hand->result != LINK_DONE) {
		hand->job.link = job->link;
		job->link = failed;
	}
	return hand->result;
}

/* Something for each hand, as far as a group may go. */
static size_t share(const struct hands *hands, const struct job_walk *walk, size_t count)
{
	size_t each = (count + hands->count) / (hands->count + 1);

	if (!walk->group || each == 0)
		return 1;
	return each < walk->group_most ? each : walk->group_most;
}

must_check enum link_result hands_work(struct hands *hands, struct mover_target *target,
				       const struct job_walk *walk, const struct buffer *ids,
				       void (*show)(struct job *job))
{
	struct page_work page = {.target = target,
				 .walk = walk,
				 .ids = ids,
				 .share = share(hands, walk, hands_count(buffer_view(ids))),
				 .lock = PTHREAD_MUTEX_INITIALIZER};
	enum link_result result = LINK_DONE, other;
	struct bytes some;

	for (size_t i = 0; i < hands->count; i++)
		start(hands, &hands->helpers[i], &page);
	while (result == LINK_DONE && take_next(&page, &some)) {
		result = work(&page, hands->job, some);
		if (result == LINK_DONE)
			show(hands->job);
	}
	if (result != LINK_DONE)
		fail(&page);
	for (size_t i = 0; i < hands->count; i++) {
		other = finish(hands, &hands->helpers[i]);
		if (result == LINK_DONE)
			result = other;
	}
	pthread_mutex_destroy(&page.lock);
	return result;
}
