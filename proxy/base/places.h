/* Which server stands behind each listener. With `listen`, the configuration says it, and a reload
 * opens and closes places (rules/config/config_listen.h). With `replica_set`, members come and go:
 * each has its own place, whose number is the member's `_id`. Any thread. */
#pragma once

#include "rules/config/config.h"

struct places;

struct places *places_new(const struct config *config);
/* Takes NULL. */
void places_free(struct places *places);

/* The server behind the listener now; NULL: none. Holds as long as the places. */
const char *places_server(const struct places *places, size_t index);
/* The same, or the last one that was there: for connections that outlive a member. */
const char *places_latest(const struct places *places, size_t index);

/* A client's connection by this listener begins and ends. */
void places_join(struct places *places, size_t index);
void places_leave(struct places *places, size_t index);
/* The server from which clients may still read by this listener: the one that is there, or, while
 * connections outlive the listener, the last one; NULL: none. */
const char *places_read(const struct places *places, size_t index);

enum places_state {
	PLACES_UNSEEN, /* nobody has looked for members yet */
	PLACES_KNOWN,
	PLACES_WAITING, /* they could not be looked at; it is tried on */
	PLACES_WRONG,   /* they cannot be served: for what a person must change */
};
/* From `servers`, one for each listener, NULL: none. True if one is another than before. */
bool places_set(struct places *places, const char *const *servers);
/* With `listen`: the server behind this listener from now on; NULL: the listener is closed. */
void places_turn(struct places *places, size_t index, const char *server);
/* Why the members are not known. Members that are known already stay. */
void places_fail(struct places *places, enum places_state state, const char *reason);
/* `reason` says why, unless they are known. With `listen` they always are. */
enum places_state places_look(struct places *places, char *reason, size_t size);
/* Waits, so long at most, until they are other ones than when *seen was set. */
bool places_await_change(struct places *places, uint64_t *seen, int64_t milliseconds);
