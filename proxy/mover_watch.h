/* The mover's watcher: a thread that asks a server once a second whether it is there, and tells
 * what the mover waits for: servers, a primary, a majority. */
#pragma once

/* `context`: the mover. */
void *mover_watch(void *context);
