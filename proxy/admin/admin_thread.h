/* The thread in which libmicrohttpd serves the admin address. */
#pragma once

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* libmicrohttpd's own thread would spin while there are no descriptors. This one pauses then, and
 * gives away the spare one, so that a probe is told that clients are not accepted. */
struct admin_thread {
	struct MHD_Daemon *daemon; /* started with MHD_USE_EPOLL, without a thread of its own */
	pthread_t thread;
	int events;           /* libmicrohttpd's epoll */
	int wake;             /* an eventfd: ends the thread */
	atomic_bool runs_out; /* see admin_thread_run_out; set before the thread is woken */
	int spare; /* a descriptor kept for who asks while there are no others; -1: lent */
};

void admin_thread_start(struct admin_thread *thread, struct MHD_Daemon *daemon);
/* Before the daemon is stopped. */
void admin_thread_stop(struct admin_thread *thread);
/* The same, once those who have connected are answered, or after a second: somebody else accepts on
 * the socket. */
void admin_thread_run_out(struct admin_thread *thread);
