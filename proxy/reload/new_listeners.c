/* Opens and closes listeners of a Spillway that serves. */
#include "proxy/reload/new_listeners.h"

#include "proxy/mover/mover_inner.h"
#include "proxy/process/root.h"
#include "proxy/upstream/deployment.h"

#include <stdio.h>

static size_t count_of(const struct new_listeners *listeners)
{
	return listeners->plan.running ? listeners->plan.running->listen_count : 0;
}

static bool read_certificates(struct new_listeners *listeners, char *reason, size_t size)
{
	const struct reload *reload = listeners->reload;

	for (size_t i = 0; i < count_of(listeners); i++)
		if (listeners->plan.filled[i] &&
		    !tls_pairs_add(reload->service->tls, i, reload->first, reload->path, reason,
				   size))
			return false;
	return true;
}

/* As the places will be, where nobody sees them. */
static void plan_places(struct new_listeners *listeners)
{
	const struct config *config = listeners->reload->first;

	listeners->places = places_new(config);
	listeners->names = member_names_new(config, listeners->places);
	for (size_t i = 0; i < count_of(listeners); i++)
		places_turn(listeners->places, i,
			    listeners->plan.open[i] ? config->listen[i].server : NULL);
}

must_check bool new_listeners_place(struct new_listeners *listeners, struct reload *reload,
				    struct config *config, char *reason, size_t size)
{
	bson_error_t error;

	if (config->replica_set.on)
		return true;
	listeners->reload = reload;
	if (!root_may_listen(config, reload->root_allowed, &error)) {
		snprintf(reason, size, "%s", error.message);
		return false;
	}
	if (!listen_plan_make(&listeners->plan, reload->first, config)) {
		snprintf(reason, size,
			 "this process has no room for so many other listeners: %d may come by "
			 "reloads since its start; 'spillway upgrade' starts one that has room",
			 CONFIG_LISTEN_FREE);
		return false;
	}
	plan_places(listeners);
	return read_certificates(listeners, reason, size);
}

bool new_listeners_differ(const struct new_listeners *listeners)
{
	for (size_t i = 0; i < count_of(listeners); i++)
		if (listen_plan_opens(&listeners->plan, i) ||
		    listen_plan_closes(&listeners->plan, i))
			return true;
	return false;
}

must_check enum mover_check new_listeners_try(struct new_listeners *listeners,
					      const atomic_bool *stopping, char *reason,
					      size_t size)
{
	const struct reload *reload = listeners->reload;
	const struct reach reach = {reload->first, reload->service->tls, listeners->places};
	enum deployment found = DEPLOYMENT_LOST;
	bson_error_t error;
	struct link *link = link_open(reload->first->upstream_uri, stopping, &error);

	if (link)
		found = deployment_look(link, &reach, listeners->names, stopping, reason, size);
	if (found == DEPLOYMENT_LOST)
		snprintf(reason, size, "%s", link ? link_error(link)->message : error.message);
	link_free(link);
	switch (found) {
	case DEPLOYMENT_FITS:
		return MOVER_CHECK_GOOD;
	case DEPLOYMENT_OTHER:
		return MOVER_CHECK_BAD;
	case DEPLOYMENT_UNSEEN:
	case DEPLOYMENT_LOST:
		break;
	}
	return MOVER_CHECK_NO_SERVER;
}

must_check bool new_listeners_bind(struct new_listeners *listeners, char *reason, size_t size)
{
	const struct reload *reload = listeners->reload;

	if (!new_listeners_differ(listeners) || !reload->listeners)
		return true;
	listeners->change = listeners_prepare(reload->listeners, reload->first, listeners->places,
					      reason, size);
	return listeners->change;
}

static void open_place(struct new_listeners *listeners, size_t index)
{
	struct service *service = listeners->reload->service;
	const struct config_listen *place = &listeners->reload->first->listen[index];

	member_names_copy(service->mover->names, listeners->names, index);
	places_turn(service->places, index, place->server);
	if (listeners->change)
		listeners_tell(place->address, place->server);
}

void new_listeners_take(struct new_listeners *listeners)
{
	const struct listen_plan *plan = &listeners->plan;

	for (size_t i = 0; i < count_of(listeners); i++)
		if (listen_plan_opens(plan, i))
			open_place(listeners, i);
	for (size_t i = 0; i < count_of(listeners); i++)
		if (listen_plan_closes(plan, i))
			places_turn(listeners->reload->service->places, i, NULL);
	/* A monitor that asks anew is told of the listeners as they are from here on. */
	if (listeners->change)
		listeners_take(listeners->change);
	listeners->change = NULL;
	listen_plan_take(&listeners->plan);
}

void new_listeners_fini(struct new_listeners *listeners)
{
	listeners_drop(listeners->change);
	for (size_t i = 0; i < count_of(listeners); i++)
		if (listeners->plan.filled[i])
			tls_pairs_drop(listeners->reload->service->tls, i);
	if (listeners->names)
		member_names_free(listeners->names);
	places_free(listeners->places);
	listen_plan_fini(&listeners->plan);
}
