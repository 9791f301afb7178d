/* One event loop: its sessions, its shared read buffer, its listeners. A session lives and dies on
 * one loop. */
#pragma once

#include "proxy/crowd/claims.h"
#include "proxy/base/metrics.h"
#include "proxy/base/places.h"
#include "proxy/base/latency.h"
#include "proxy/mover/mover.h"
#include "proxy/client/deadlines.h"
#include "proxy/crowd/peers.h"
#include "proxy/crowd/strangers.h"
#include "proxy/crowd/turns.h"
#include "proxy/observe/observer.h"
#include "proxy/tls/tls_pairs.h"
#include "rules/config/config.h"

#include <pthread.h>
#include <uv.h>

#define LOOP_READ_BUFFER 65536

struct session;
struct aside;
struct reload_desk;

/* What all loops share; made before they start, gone after they ended. */
struct service {
	/* Another one after a reload; who has read it may use it until its callback ends, who is no
	 * loop while it has `reading`. */
	const struct config *_Atomic config;
	pthread_mutex_t reading;
	struct mover *mover;
	struct tls_pairs *tls;
	struct observers *observers; /* NULL: nothing is observed */
	struct places *places;
	struct reload_desk *desk;
	struct reload_desk *upgrade_desk;
	_Atomic int64_t connections; /* open now, all loops together */
	_Atomic int64_t refused;     /* of these, the refused ones, on their way out */
	_Atomic int64_t working;     /* of them, those that have asked for more than hello */
	_Atomic int64_t memory;      /* held for requests and merges, all loops together */
	_Atomic uint64_t short_at;   /* when memory was too short for somebody; uv_now, 0: never */
	atomic_bool scarce;          /* spare_memory_adjust's */
	atomic_bool users;           /* a client has signed in: the server may ask who they are */
	struct claims claims;        /* who holds much of it */
	struct strangers strangers;  /* what was told of them */
	struct peers peers;     /* where clients come from, if connections_per_address is set */
	int64_t descriptors;    /* how many sockets clients and their servers may use */
	_Atomic int64_t paused; /* listeners that had no descriptor for who waited last */
};

struct loop {
	uv_loop_t uv;
	struct service *service;
	struct metrics *metrics;
	struct latencies *latencies;
	struct namespace_cache *namespaces;
	struct aside *aside;           /* does what is long */
	struct observer *observer;     /* NULL: nothing is observed */
	struct earlier_rules *earlier; /* the latest first; see loop_rules.c */
	uint32_t epoch;                /* counts the changes of the rules */
	struct listener *listeners;    /* open ones */
	struct session *sessions;      /* all, newest first */
	struct deadline_list deadlines[DEADLINE_KINDS];
	int64_t unproven;     /* of the service's memory: held for sessions that are not proven */
	struct turns turns;   /* of what crowds do (session_turn.c) */
	uv_timer_t ticks;     /* runs while somebody has a deadline */
	uv_async_t wake;      /* other threads: see loop_post */
	pthread_mutex_t lock; /* of `posted` */
	struct loop_task *posted;
	uint64_t drain_until; /* 0: not draining; uv_now milliseconds */
	bool left;            /* another process accepts: see loop_start_leaving */
	char read_buffer[LOOP_READ_BUFFER];
	char sealed_buffer[LOOP_READ_BUFFER]; /* read_buffer before TLS has opened it */
	struct buffer sealed;                 /* what TLS has sealed and is not written yet */
	struct buffer find;                   /* empty: room for the next session_find's request */
};

/* Work for a loop's own thread, from any thread. */
struct loop_task {
	struct loop_task *next;
	void (*run)(struct loop *loop, struct loop_task *task); /* frees the task */
};

struct loop *loop_new(struct service *service);
/* Runs until the loop has drained. */
void loop_run(struct loop *loop);
void loop_free(struct loop *loop);
void loop_post(struct loop *loop, struct loop_task *task);
/* Any thread: stop accepting, end idle connections, give the busy ones until the configured
 * deadline. */
void loop_start_drain(struct loop *loop);
/* Any thread: another process accepts on the loop's sockets from now on. The loop stops accepting,
 * and goes on serving its connections. Monitoring connections of drivers are closed: the drivers
 * open new ones, which the other process accepts, and let go of their pooled connections between
 * two commands. */
void loop_start_leaving(struct loop *loop);
/* On the loop's thread: those of this listener. Drivers do the same then. */
void loop_close_monitors(struct loop *loop, uint32_t listen_index);
/* For a reload, by a thread that is no loop. Every loop takes these rules (NULL: those that it
 * has); what it has read of the service before is used no longer when this returns. Once no request
 * goes on that began under earlier rules, the mover is told (mover_settled, of its `number`). */
void loops_take_rules(struct loop *const *loops, size_t count, struct rule_set *rules,
		      unsigned number);
/* loop_rules.c, at each tick: earlier rules that nobody needs any more go. */
void loop_look_at_earlier(struct loop *loop);
void loop_free_earlier(struct loop *loop);
/* A deadline was set somewhere: ticks are needed. */
void loop_need_ticks(struct loop *loop);
/* Called by a session when it is gone. */
void loop_on_session_gone(struct loop *loop);
