/* Which server stands behind each listener: an array of texts that are kept until the end, because
 * open connections may still name them. */
#include "proxy/base/places.h"

#include "proxy/base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON_MAX 512

struct place {
	_Atomic(const char *) server; /* the last one; NULL: never one */
	atomic_bool there;
	atomic_size_t connections;
};

struct places {
	size_t count;
	bool fixed; /* with `listen` */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t changes;
	enum places_state state;
	char reason[REASON_MAX];
	char **texts; /* every server that was ever there, once */
	size_t text_count;
	struct place all[];
};

struct places *places_new(const struct config *config)
{
	struct places *places =
		must_calloc(1, sizeof(*places) + config->listen_count * sizeof(places->all[0]));

	places->count = config->listen_count;
	places->fixed = !config->replica_set.on;
	places->state = places->fixed ? PLACES_KNOWN : PLACES_UNSEEN;
	snprintf(places->reason, REASON_MAX, "the members are not known yet");
	for (size_t i = 0; i < places->count; i++) {
		atomic_init(&places->all[i].server, config->listen[i].server);
		atomic_init(&places->all[i].there, config->listen[i].server != NULL);
	}
	require(pthread_mutex_init(&places->lock, NULL) == 0);
	clock_condition_init(&places->changed);
	return places;
}

void places_free(struct places *places)
{
	if (!places)
		return;
	for (size_t i = 0; i < places->text_count; i++)
		free(places->texts[i]);
	free((void *)places->texts);
	pthread_cond_destroy(&places->changed);
	pthread_mutex_destroy(&places->lock);
	free(places);
}

const char *places_latest(const struct places *places, size_t index)
{
	require(index < places->count);
	return atomic_load(&places->all[index].server);
}

const char *places_server(const struct places *places, size_t index)
{
	require(index < places->count);
	return atomic_load(&places->all[index].there) ? places_latest(places, index) : NULL;
}

void places_join(struct places *places, size_t index)
{
	require(index < places->count);
	atomic_fetch_add(&places->all[index].connections, 1);
}

void places_leave(struct places *places, size_t index)
{
	require(index < places->count);
	require(atomic_fetch_sub(&places->all[index].connections, 1) > 0);
}

const char *places_read(const struct places *places, size_t index)
{
	const char *server = places_server(places, index);

	if (server || atomic_load(&places->all[index].connections) == 0)
		return server;
	return places_latest(places, index);
}

/* By the lock. */
static const char *keep_text(struct places *places, const char *text)
{
	for (size_t i = 0; i < places->text_count; i++)
		if (strcmp(places->texts[i], text) == 0)
			return places->texts[i];
	places->texts = must_realloc((void *)places->texts,
				     (places->text_count + 1) * sizeof(*places->texts));
	places->texts[places->text_count] = must_strndup(text, strlen(text));
	return places->texts[places->text_count++];
}

static bool set_place(struct places *places, size_t index, const char *server)
{
	struct place *place = &places->all[index];
	const char *before = places_server(places, index);

	if (server == before || (server && before && strcmp(server, before) == 0))
		return false;
	if (server)
		atomic_store(&place->server, keep_text(places, server));
	atomic_store(&place->there, server != NULL);
	return true;
}

bool places_set(struct places *places, const char *const *servers)
{
	bool changed = false;

	require(!places->fixed);
	pthread_mutex_lock(&places->lock);
	for (size_t i = 0; i < places->count; i++)
		changed = set_place(places, i, servers[i]) || changed;
	places->state = PLACES_KNOWN;
	places->changes += changed;
	pthread_cond_broadcast(&places->changed);
	pthread_mutex_unlock(&places->lock);
	return changed;
}

void places_turn(struct places *places, size_t index, const char *server)
{
	require(places->fixed);
	pthread_mutex_lock(&places->lock);
	places->changes += set_place(places, index, server);
	pthread_mutex_unlock(&places->lock);
}

void places_fail(struct places *places, enum places_state state, const char *reason)
{
	pthread_mutex_lock(&places->lock);
	if (places->state != PLACES_KNOWN) {
		places->state = state;
		snprintf(places->reason, REASON_MAX, "%s", reason);
	}
	pthread_mutex_unlock(&places->lock);
}

enum places_state places_look(struct places *places, char *reason, size_t size)
{
	enum places_state state;

	pthread_mutex_lock(&places->lock);
	state = places->state;
	if (state != PLACES_KNOWN)
		snprintf(reason, size, "%s", places->reason);
	pthread_mutex_unlock(&places->lock);
	return state;
}

bool places_await_change(struct places *places, uint64_t *seen, int64_t milliseconds)
{
	int64_t until = clock_now() + milliseconds;
	bool changed;

	pthread_mutex_lock(&places->lock);
	while (places->changes == *seen && clock_now() < until)
		clock_condition_wait(&places->changed, &places->lock, until);
	changed = places->changes != *seen;
	*seen = places->changes;
	pthread_mutex_unlock(&places->lock);
	return changed;
}
