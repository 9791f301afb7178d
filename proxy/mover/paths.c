/* Keeps for each listener whether its server is reached as clients' connections reach it. */
#include "proxy/mover/paths.h"

#include "proxy/base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define REASON_MAX 400

/*  UNSEEN ──► REACHED ◄──► DOUBTED
 *     │          ▲            │
 *     └────► LOST ◄───────────┘      */
enum path_state {
	PATH_UNSEEN,  /* not asked yet */
	PATH_REACHED, /* the server has answered */
	PATH_DOUBTED, /* it had, and a client's connection has failed since */
	PATH_LOST,    /* it does not answer */
};

struct path {
	_Atomic(enum path_state) state;
	const char *server;      /* of this state; NULL: none, which is not asked */
	char reason[REASON_MAX]; /* by the lock: why it is lost */
};

struct paths {
	struct reach reach;
	pthread_mutex_t lock;
	struct path all[];
};

struct paths *paths_new(const struct reach *reach)
{
	size_t count = reach->config->listen_count;
	struct paths *paths = must_calloc(1, sizeof(*paths) + count * sizeof(paths->all[0]));

	paths->reach = *reach;
	require(pthread_mutex_init(&paths->lock, NULL) == 0);
	return paths;
}

void paths_free(struct paths *paths)
{
	if (!paths)
		return;
	pthread_mutex_destroy(&paths->lock);
	free(paths);
}

const struct reach *paths_reach(const struct paths *paths)
{
	return &paths->reach;
}

static void set_reached(struct path *path, const char *server)
{
	if (atomic_exchange(&path->state, PATH_REACHED) == PATH_LOST)
		log_info("2021 clients' connections reach server '%s' again", server);
}

static void set_lost(struct paths *paths, struct path *path, const char *server, const char *reason)
{
	bool told = atomic_load(&path->state) == PATH_LOST;

	pthread_mutex_lock(&paths->lock);
	snprintf(path->reason, sizeof(path->reason),
		 "clients' connections do not reach server '%s': %s", server, reason);
	pthread_mutex_unlock(&paths->lock);
	atomic_store(&path->state, PATH_LOST);
	if (!told)
		log_warning("2020 %s", path->reason);
}

/* Another member than before, or none, has yet to be reached. */
static void forget_gone(struct path *path, const char *server)
{
	if (path->server == server)
		return;
	path->server = server;
	atomic_store(&path->state, PATH_UNSEEN);
}

void paths_look(struct paths *paths, const atomic_bool *stopping)
{
	const struct config *config = paths->reach.config;

	for (size_t i = 0; i < config->listen_count && !atomic_load(stopping); i++) {
		auto_buffer struct buffer hello = {0};
		struct path *path = &paths->all[i];
		const char *server = places_server(paths->reach.places, i);
		char reason[REASON_MAX / 2] = "";

		forget_gone(path, server);
		if (!server || atomic_load(&path->state) == PATH_REACHED)
			continue;
		if (reach_hello(&paths->reach, i, stopping, &hello, reason, sizeof(reason)))
			set_reached(path, server);
		else if (!atomic_load(stopping))
			set_lost(paths, path, server, reason);
	}
}

void paths_doubt(struct paths *paths, size_t index)
{
	enum path_state reached = PATH_REACHED;

	(void)atomic_compare_exchange_strong(&paths->all[index].state, &reached, PATH_DOUBTED);
}

bool paths_lead(struct paths *paths, char *reason, size_t size)
{
	bool lead = false;

	snprintf(reason, size, "the servers have not been asked yet");
	(void)places_look(paths->reach.places, reason, size);
	for (size_t i = 0; i < paths->reach.config->listen_count && !lead; i++) {
		enum path_state state = atomic_load(&paths->all[i].state);

		lead = state == PATH_REACHED || state == PATH_DOUBTED;
		if (state != PATH_LOST)
			continue;
		pthread_mutex_lock(&paths->lock);
		snprintf(reason, size, "%s", paths->all[i].reason);
		pthread_mutex_unlock(&paths->lock);
	}
	return lead;
}
