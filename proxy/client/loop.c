/* One event loop: its deadlines, its drain, work from other threads. */
#include "proxy/client/loop.h"

#include "proxy/client/aside.h"
#include "proxy/client/listener.h"
#include "proxy/client/session.h"

#include <stdlib.h>

#define TICK_MS 100
#define LOOK_MS 500
#define UNREAD_MS 1000

static int64_t deadline_length(const struct loop *loop, enum deadline_kind kind)
{
	const struct config_limits *limits = &loop->service->config->limits;

	switch (kind) {
	case DEADLINE_HANDSHAKE:
		return limits->handshake_ms;
	case DEADLINE_LOGIN:
		return limits->login_ms;
	case DEADLINE_PROGRESS:
		return limits->progress_ms;
	case DEADLINE_LOOK:
		return LOOK_MS;
	case DEADLINE_UNREAD:
		return UNREAD_MS;
	case DEADLINE_KINDS:
		break;
	}
	require(!"a deadline without a length");
}

static struct session *session_of(struct deadline *deadline, enum deadline_kind kind)
{
	void *deadlines = (char *)(deadline - kind) - offsetof(struct session_deadlines, each);

	return ((struct session_deadlines *)deadlines)->session;
}

static void end_overdue(struct loop *loop, enum deadline_kind kind)
{
	struct deadline_list *list = &loop->deadlines[kind];
	uint64_t now = uv_now(&loop->uv), length = (uint64_t)deadline_length(loop, kind);

	while (list->first && now - list->first->since >= length)
		session_on_overdue(session_of(list->first, kind), kind);
}

static bool deadlines_run(const struct loop *loop)
{
	for (int kind = 0; kind < DEADLINE_KINDS; kind++)
		if (loop->deadlines[kind].first)
			return true;
	return false;
}

static void close_sessions(struct loop *loop, bool also_busy)
{
	struct session *session = loop->sessions;

	while (session) {
		struct session *next = session->next;

		if (also_busy)
			session_close(session, SESSION_END_DONE);
		else
			session_close_if_idle(session);
		session = next;
	}
}

/* Those of this listener; NULL: of all. */
static void close_monitors(struct loop *loop, const uint32_t *listen_index)
{
	struct session *session = loop->sessions;

	while (session) {
		struct session *next = session->next;

		if (!listen_index || session->listen_index == *listen_index)
			session_close_if_monitor(session);
		session = next;
	}
}

void loop_close_monitors(struct loop *loop, uint32_t listen_index)
{
	close_monitors(loop, &listen_index);
}

static void resume_listeners(struct loop *loop)
{
	for (struct listener *listener = loop->listeners; listener; listener = listener->next)
		listener_resume(listener);
}

static bool listeners_paused(const struct loop *loop)
{
	for (const struct listener *listener = loop->listeners; listener; listener = listener->next)
		if (listener->paused)
			return true;
	return false;
}

/* Nothing keeps the loop alive once the last session is gone. */
static void finish_drain(struct loop *loop)
{
	if (!loop->drain_until || loop->sessions)
		return;
	if (!uv_is_closing((uv_handle_t *)(void *)&loop->ticks))
		uv_close((uv_handle_t *)(void *)&loop->ticks, NULL);
	if (!uv_is_closing((uv_handle_t *)(void *)&loop->wake))
		uv_close((uv_handle_t *)(void *)&loop->wake, NULL);
}

static void loop_on_tick(uv_timer_t *timer)
{
	struct loop *loop = timer->data;

	for (int kind = 0; kind < DEADLINE_KINDS; kind++)
		end_overdue(loop, kind);
	if (loop->drain_until && uv_now(&loop->uv) >= loop->drain_until)
		close_sessions(loop, true);
	else if (loop->drain_until)
		close_sessions(loop, false);
	else if (loop->left)
		close_monitors(loop, NULL);
	else
		resume_listeners(loop);
	loop_look_at_earlier(loop);
	if (!deadlines_run(loop) && !loop->earlier && !loop->drain_until && !loop->left &&
	    !listeners_paused(loop))
		uv_timer_stop(timer);
	finish_drain(loop);
}

void loop_need_ticks(struct loop *loop)
{
	if (!uv_is_active((uv_handle_t *)(void *)&loop->ticks))
		uv_timer_start(&loop->ticks, loop_on_tick, TICK_MS, TICK_MS);
}

void loop_on_session_gone(struct loop *loop)
{
	metric_add(&loop->metrics->connections_closed, 1);
	metric_add(&loop->metrics->connections_open, -1);
	atomic_fetch_sub(&loop->service->connections, 1);
	finish_drain(loop);
}

static void loop_on_wake(uv_async_t *async)
{
	struct loop *loop = async->data;
	struct loop_task *task, *reversed = NULL;

	pthread_mutex_lock(&loop->lock);
	task = loop->posted;
	loop->posted = NULL;
	pthread_mutex_unlock(&loop->lock);
	while (task) {
		struct loop_task *next = task->next;

		task->next = reversed;
		reversed = task;
		task = next;
	}
	while (reversed) {
		task = reversed;
		reversed = task->next;
		task->run(loop, task);
	}
}

void loop_post(struct loop *loop, struct loop_task *task)
{
	pthread_mutex_lock(&loop->lock);
	task->next = loop->posted;
	loop->posted = task;
	uv_async_send(&loop->wake);
	pthread_mutex_unlock(&loop->lock);
}

static void run_drain(struct loop *loop, struct loop_task *task)
{
	free(task);
	if (loop->drain_until)
		return;
	uv_update_time(&loop->uv);
	loop->drain_until = uv_now(&loop->uv) + (uint64_t)loop->service->config->limits.drain_ms;
	if (loop->drain_until == 0)
		loop->drain_until = 1;
	while (loop->listeners)
		listener_close(loop->listeners);
	close_sessions(loop, false);
	loop_need_ticks(loop);
	finish_drain(loop);
}

void loop_start_drain(struct loop *loop)
{
	struct loop_task *task = must_calloc(1, sizeof(*task));

	task->run = run_drain;
	loop_post(loop, task);
}

static void run_leaving(struct loop *loop, struct loop_task *task)
{
	free(task);
	loop->left = true;
	while (loop->listeners)
		listener_close(loop->listeners);
	close_monitors(loop, NULL);
	loop_need_ticks(loop);
}

void loop_start_leaving(struct loop *loop)
{
	struct loop_task *task = must_calloc(1, sizeof(*task));

	task->run = run_leaving;
	loop_post(loop, task);
}

struct loop *loop_new(struct service *service)
{
	struct loop *loop = must_calloc(1, sizeof(*loop));

	require(uv_loop_init(&loop->uv) == 0);
	loop->service = service;
	loop->metrics = metrics_new();
	loop->latencies = latencies_new();
	loop->namespaces = namespace_cache_new(service->config->rules);
	loop->aside = aside_new(loop);
	loop->observer = observers_join(service->observers);
	uv_timer_init(&loop->uv, &loop->ticks);
	loop->ticks.data = loop;
	uv_async_init(&loop->uv, &loop->wake, loop_on_wake);
	loop->wake.data = loop;
	pthread_mutex_init(&loop->lock, NULL);
	return loop;
}

void loop_run(struct loop *loop)
{
	uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void loop_free(struct loop *loop)
{
	require(uv_loop_close(&loop->uv) == 0);
	aside_free(loop->aside);
	pthread_mutex_destroy(&loop->lock);
	loop_free_earlier(loop);
	namespace_cache_free(loop->namespaces);
	buffer_fini(&loop->sealed);
	buffer_fini(&loop->find);
	free(loop);
}
