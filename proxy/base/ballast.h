/* Memory for when the system gives no more: what cannot go without finishes what it does, and then
 * requests are refused until there is enough of it again.
 *
 * It is address space that nobody writes to, so it costs no memory until it is given back. */
#pragma once

#include "protocol/base.h"

/* Takes so many bytes aboard, before there are threads that need them. From here on libbson and
 * libuv ask as must_malloc does; OpenSSL always does. False: the system has no room for the
 * ballast, and Spillway goes without. */
must_check bool ballast_load(size_t size);
/* False while half of it has been given away: nothing new may begin. What has been given away is
 * loaded again as soon as the system has room for it. Any thread. */
bool ballast_suffices(void);
/* This thread serves no client: it waits a while for much memory before it takes ballast. */
void ballast_be_patient(void);
