/* Listening sockets that this process was started with: by a Spillway that it takes over from, or
 * by a service manager ("socket activation"). They come as sd_listen_fds(3) says: descriptors from
 * 3 on, $LISTEN_FDS of them, for the process $LISTEN_PID. */
#pragma once

#include "protocol/base.h"

#include <stddef.h>

/* First of all: nothing else may have been opened. Takes the variables out of the environment. */
void inherited_open(void);
/* True if a socket was passed on that listens on this address, whether it was taken or not. */
must_check bool inherited_has(const char *address);
/* True if one listens on an address that overlaps this one. */
must_check bool inherited_overlaps(const char *address);
/* A socket that listens on this address; below 0: none is left. One that may not share its address
 * with others (SO_REUSEPORT) is there for each who asks: the first takes it, others get
 * duplicates. */
must_check int inherited_take(const char *address);
/* The same, but never a duplicate. */
must_check int inherited_take_more(const char *address);
/* How many there were. */
size_t inherited_count(void);
/* Once the configuration's listeners are open: what nobody took is closed, and said in the log.
 * From here on there are none. */
void inherited_close(void);
