/* Who may ask the admin address: by the name that a request uses for it, the site whose page makes
 * a browser ask, and the token.
 *
 * The name guards against DNS rebinding: a page's own name is made to lead to this address, so that
 * the browser takes both for one site. Its requests then have that name in `Host`. */
#pragma once

#include "rules/config/config.h"

struct guard {
	const struct config_admin *config;
	const char *token; /* NULL: none is asked for */
};

/* Headers are NULL if the request has none of that name. */
struct guard_request {
	const char *path;
	const char *host;
	bool hosts; /* it has more than one `Host` */
	const char *authorization;
	const char *fetch_site;
	const char *fetch_mode;
	const char *fetch_dest;
};

enum guard_verdict {
	GUARD_PASSES,
	GUARD_OTHER_SITE,
	GUARD_OTHER_HOST,
	GUARD_NO_TOKEN,
};

enum guard_verdict guard_judge(const struct guard *guard, const struct guard_request *request);
