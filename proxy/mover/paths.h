/* Whether clients' connections reach the servers, which the account's own links do not tell: these
 * may go another way, with TLS or without. Each server is asked until it answers, and again after a
 * client's connection could not be opened. */
#pragma once

#include "proxy/tls/reach.h"

struct paths;

/* What `reach` names must outlive the paths. */
struct paths *paths_new(const struct reach *reach);
void paths_free(struct paths *paths);
const struct reach *paths_reach(const struct paths *paths);

/* Asks the servers about which there is a doubt, all of them at first, and logs what changes. */
void paths_look(struct paths *paths, const atomic_bool *stopping);
/* A client's connection to the server behind this listener could not be opened. Any thread. */
void paths_doubt(struct paths *paths, size_t index);
/* Whether some server is reached; if not, why. Any thread. */
bool paths_lead(struct paths *paths, char *reason, size_t size);
