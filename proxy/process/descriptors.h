/* How many files the process may have open, and how many connections that leaves room for. */
#pragma once

#include "protocol/base.h"

#include <bson/bson.h>

#define DESCRIPTORS_RESERVED 64 /* for listeners, the mover, the admin page, the libraries */
#define DESCRIPTORS_OF_SESSION 2
#define CONNECTIONS_LEAST 8 /* for less, serving makes no sense */

/* Raises the soft limit of open files to the hard one, and says in the log if that is too little
 * for `connections`. *sockets: how many clients and their servers may use. False where hardly a
 * client could be served: the error says what to raise. */
must_check bool descriptors_raise(int64_t connections, int64_t *sockets, bson_error_t *error);
