/* A thread beside an event loop, for long work. */
#include "proxy/client/aside.h"

#include "proxy/base/log.h"

#include <stdlib.h>

struct aside {
	struct loop *loop;
	struct aside_job *first; /* the loop's: the one that is being done, and those behind it */
	struct aside_job **last;
	bool works; /* a job has been started, and its `done` has not ended */
	bool runs;  /* there is a thread */
	pthread_t thread;
	struct namespace_guard guard;
	pthread_mutex_t namespaces; /* held while one is looked up in the job's */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct aside_job *given; /* under the lock: the thread has not taken it yet */
	bool ends;               /* under the lock */
};

static void aside_start(struct aside *aside);

/* The job's namespaces may be those of earlier rules. */
static void aside_share(const struct aside_job *job, const struct namespace_guard *guard)
{
	if (job->namespaces)
		namespace_cache_share(job->namespaces, guard);
}

/* On the loop. Between two jobs nobody looks at namespaces that nobody holds. */
static void aside_on_done(struct loop *loop, struct loop_task *task)
{
	struct aside_job *job = (struct aside_job *)(void *)task;
	struct aside *aside = loop->aside;

	aside_share(job, NULL);
	aside->first = job->next;
	if (!aside->first)
		aside->last = &aside->first;
	job->done(job);
	namespace_cache_trim(loop->namespaces);
	aside->works = false;
	if (aside->first)
		aside_start(aside);
}

static void aside_do(struct aside *aside, struct aside_job *job)
{
	job->work(job);
	job->task.run = aside_on_done;
	loop_post(aside->loop, &job->task);
}

static void *aside_run(void *context)
{
	struct aside *aside = context;

	log_name_thread("beside a loop");
	pthread_mutex_lock(&aside->lock);
	while (!aside->ends) {
		struct aside_job *job = aside->given;

		aside->given = NULL;
		if (!job) {
			pthread_cond_wait(&aside->changed, &aside->lock);
			continue;
		}
		pthread_mutex_unlock(&aside->lock);
		aside_do(aside, job);
		pthread_mutex_lock(&aside->lock);
	}
	pthread_mutex_unlock(&aside->lock);
	return NULL;
}

/* Where the system gives no thread, the loop itself does the work. */
static void aside_start(struct aside *aside)
{
	aside->works = true;
	if (!aside->runs)
		aside->runs = pthread_create(&aside->thread, NULL, aside_run, aside) == 0;
	if (!aside->runs) {
		aside_do(aside, aside->first);
		return;
	}
	aside_share(aside->first, &aside->guard);
	pthread_mutex_lock(&aside->lock);
	aside->given = aside->first;
	pthread_cond_signal(&aside->changed);
	pthread_mutex_unlock(&aside->lock);
}

void aside_give(struct aside *aside, struct aside_job *job)
{
	job->next = NULL;
	*aside->last = job;
	aside->last = &job->next;
	if (!aside->works)
		aside_start(aside);
}

bool aside_works(const struct aside *aside)
{
	return aside->works;
}

static void aside_enter(void *context)
{
	pthread_mutex_lock(&((struct aside *)context)->namespaces);
}

static void aside_leave(void *context)
{
	pthread_mutex_unlock(&((struct aside *)context)->namespaces);
}

struct aside *aside_new(struct loop *loop)
{
	struct aside *aside = must_calloc(1, sizeof(*aside));

	aside->loop = loop;
	aside->last = &aside->first;
	aside->guard = (struct namespace_guard){aside_enter, aside_leave, aside};
	pthread_mutex_init(&aside->lock, NULL);
	pthread_mutex_init(&aside->namespaces, NULL);
	pthread_cond_init(&aside->changed, NULL);
	return aside;
}

void aside_free(struct aside *aside)
{
	require(!aside->first);
	if (aside->runs) {
		pthread_mutex_lock(&aside->lock);
		aside->ends = true;
		pthread_cond_signal(&aside->changed);
		pthread_mutex_unlock(&aside->lock);
		pthread_join(aside->thread, NULL);
	}
	pthread_cond_destroy(&aside->changed);
	pthread_mutex_destroy(&aside->lock);
	pthread_mutex_destroy(&aside->namespaces);
	free(aside);
}
