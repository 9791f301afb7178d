/* A second process, forked before the sandbox is entered and before the file is read. It does one
 * thing: start the program anew, with the command line of this process, for an upgrade. `serve`
 * itself may start no program. It ends when `serve` ends. */
#pragma once

#include "protocol/base.h"

#include <bson/bson.h>
#include <stddef.h>

/* Variables of the new process: the channel's descriptor, and the digest. */
#define LAUNCHER_CHANNEL "SPILLWAY_TAKES_OVER"
#define LAUNCHER_DIGEST "SPILLWAY_TAKES_FILE"

/* While there is one thread. `arguments` are those of main, and stay. */
void launcher_start(char *const *arguments);
/* Starts the program with these listening sockets (see inherited.h). `digest`: of the file that the
 * new process has to find (config_loaded_digest). *channel: a socket of
 * packets to the new process (see takeover.h); owned by the caller. The new process may still fail:
 * then the channel says why, and ends. */
must_check bool launcher_launch(const int *sockets, size_t count, const char *digest, int *channel,
				bson_error_t *error);
/* Ends the launcher. */
void launcher_stop(void);
