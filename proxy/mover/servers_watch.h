/* A thread that asks a server once a second whether it is there, and tells what others wait for:
 * servers, a primary, a majority. */
#pragma once

#include "rules/config/config.h"

#include "proxy/base/places.h"

#include <stdatomic.h>

struct servers_watch {
	const struct config *config;
	struct places *places;
	const atomic_bool *stopping;
	/* Of a Spillway at work, which others know by its connections (neighbours.h). */
	bool (*works)(void *context);
	void (*pause)(void *context, int64_t milliseconds); /* ends early where `stopping` is set */
	void (*answered)(void *context);                    /* some server did */
	/* `text`: what is missing and what to do. Told again, with `first` false, when the servers
	 * have been asked again. */
	void (*lacks)(void *context, const char *text, bool first);
	void (*back)(void *context, bool told);
	void *context;
};

#define SERVERS_WAITING "waiting for the servers: "
#define SERVERS_BACK "the servers are back"

/* Returns when `stopping` is set. */
void servers_watch_run(const struct servers_watch *watch);
