/* What is secret in a MongoDB connection string. */
#pragma once

#include "protocol/bytes.h"

/* The URI with "***" for the password and for what else in it is secret; freed by the caller. */
char *uri_masked(const char *uri);
bool uri_has_secret(const char *uri);
