/* `spillway check`, on the servers: names the documents that are never moved. */
#pragma once

#include "rules/config.h"

/* Looks through the outliers of each rule on one namespace and prints those that are left as they
 * are, and overflow documents that Spillway did not write. Reads only. Returns how many were found;
 * 0 with a line on standard error where no server answers. */
size_t check_documents(const struct config *config);
