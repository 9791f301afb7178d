/* Credentials of the process stay in its memory: no core dumps, and no debugger of the same user.
 */
#pragma once

#define SECRETS_ALLOW_CORE "SPILLWAY_ALLOW_CORE"

/* For all commands, before anything is read. The environment's SPILLWAY_ALLOW_CORE=1 leaves the
 * process as it is, for who looks for a bug. */
void secrets_keep(void);
