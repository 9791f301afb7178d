/* What is secret in a MongoDB connection string, and what is wrong with it. */
#pragma once

#include "protocol/bytes.h"

/* The URI with "***" for the password and for what else in it is secret; freed by the caller. */
char *uri_masked(const char *uri);
bool uri_has_secret(const char *uri);
/* Whether it names a user, with a password or without. */
bool uri_has_user(const char *uri);
/* mongodb+srv://: the servers stand in the DNS. */
bool uri_is_srv(const char *uri);

/* What is wrong with the URI, freed by the caller; NULL: nothing that is seen here. No part of it
 * is repeated that could be one of a password. */
char *uri_mistake(const char *uri);
/* The same for servers that the driver could take, but the mover can't; a constant. */
const char *uri_hosts_mistake(const char *uri);
/* A server's HOST:PORT as it stands in a URI without mistakes, by its place; freed by the caller.
 * NULL behind the last. */
char *uri_host(const char *uri, size_t index);
/* What mongo-c-driver says of a URI, or other words where it may quote what is secret. A view of
 * `message`, or a constant. */
const char *uri_driver_mistake(const char *message);
