/* One event loop: its deadlines, its drain, work from other threads. */
#include "proxy/client/loop.h"

#include "proxy/client/listener.h"
#include "proxy/base/log.h"
#include "proxy/client/session.h"

#include <stdlib.h>

#define TICK_MS 100

static bool handshake_overdue(const struct loop *loop, const struct session *session)
{
	return uv_now(&loop->uv) - session->handshake.opened >=
	       (uint64_t)loop->service->config->limits.handshake_ms;
}

static void end_overdue_handshakes(struct loop *loop)
{
	struct session *session = loop->handshakes_first;

	while (session && handshake_overdue(loop, session)) {
		struct session *next = session->handshake.next;
		int64_t held;

		if (strangers_due(&loop->service->strangers, STRANGERS_SILENT, uv_now(&loop->uv),
				  &held))
			log_info("session %llu: closed: no request within limits.handshake (%lld "
				 "more like it since the last line)",
				 (unsigned long long)session->id, (long long)held);
		session_handshake_done(session);
		session_close(session, SESSION_END_DONE);
		session = next;
	}
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

static void resume_listeners(struct loop *loop)
{
	for (size_t i = 0; i < loop->listener_count; i++)
		listener_resume(&loop->listeners[i]);
}

static bool listeners_paused(const struct loop *loop)
{
	for (size_t i = 0; i < loop->listener_count; i++)
		if (loop->listeners[i].paused)
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

	end_overdue_handshakes(loop);
	if (loop->drain_until && uv_now(&loop->uv) >= loop->drain_until)
		close_sessions(loop, true);
	else if (loop->drain_until)
		close_sessions(loop, false);
	else
		resume_listeners(loop);
	if (!loop->handshakes_first && !loop->drain_until && !listeners_paused(loop))
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
	for (size_t i = 0; i < loop->listener_count; i++)
		listener_close(&loop->listeners[i]);
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

struct loop *loop_new(struct service *service)
{
	struct loop *loop = must_calloc(1, sizeof(*loop));

	require(uv_loop_init(&loop->uv) == 0);
	loop->service = service;
	loop->metrics = metrics_new();
	loop->namespaces = namespace_cache_new(service->config->rules);
	loop->listeners = must_calloc(service->config->listen_count, sizeof(*loop->listeners));
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
	pthread_mutex_destroy(&loop->lock);
	namespace_cache_free(loop->namespaces);
	free(loop->listeners);
	buffer_fini(&loop->sealed);
	free(loop);
}
