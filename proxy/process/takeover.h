/* The new process of an upgrade: what it says to the one that it takes over from. Packets, the
 * first byte is the kind:
 *
 *     new  E text     why it will not serve; there may be several
 *     new  R pid      it accepts connections and would go on
 *     old  Y          it does, and is the main process for the service manager
 *     old  N          it ends
 */
#pragma once

#include "protocol/base.h"

#include <sys/types.h>

#define TAKEOVER_TEXT 1400 /* bytes of a packet, at most */
#define TAKEOVER_ERROR 'E'
#define TAKEOVER_READY 'R'
#define TAKEOVER_YOURS 'Y'
#define TAKEOVER_NO 'N'

/* First of all, with inherited_open. Errors of the log are said to the other process from now on.
 */
void takeover_open(void);
/* True if this is the file that the other process has seen, or if there is none. The other process
 * has compared its rules with those in force: two processes with different ones may not move
 * anything side by side. */
must_check bool takeover_finds(const char *digest);
/* True if another process serves until this one is ready. */
bool takeover_runs(void);
/* This process accepts connections. Returns when the other one knows, or has ended. False: this one
 * has to end. */
must_check bool takeover_end(void);
/* Behind that: the other process has not ended; it serves connections that it had. For the main
 * thread. */
bool takeover_before_lives(void);
