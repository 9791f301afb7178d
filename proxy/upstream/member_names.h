/* What each configured server calls itself, and the address that clients shall call it by. Any
 * thread. */
#pragma once

#include "proxy/base/places.h"

struct member_names;

/* Both must outlive the names. */
struct member_names *member_names_new(const struct config *config, const struct places *places);
void member_names_free(struct member_names *names);

/* The server behind config->listen[listen_index] calls itself `me`; empty: it has no name (a
 * standalone). */
void member_names_learn(struct member_names *names, size_t listen_index, struct bytes me);
/* The same by its hello, unless that comes from a member that does not know its set yet. */
void member_names_learn_hello(struct member_names *names, size_t listen_index, struct bytes hello);
/* What `from` knows of this one. */
void member_names_copy(struct member_names *names, struct member_names *from, size_t listen_index);
/* With `replica_set`, the set's configuration says the names: then nothing else is learned. NULL:
 * no member is there. */
void member_names_set(struct member_names *names, size_t listen_index, const char *name);
bool member_names_known(struct member_names *names, size_t listen_index);
/* The advertised address of the listener in front of this member; its text belongs to the config.
 */
must_check bool member_names_find(struct member_names *names, struct bytes member,
				  struct bytes *advertised);
/* False, with the member's name, where this hello lists a member that no listener covers, and every
 * server has said its name. */
must_check bool member_names_cover(struct member_names *names, struct bytes hello, char *member,
				   size_t size);
