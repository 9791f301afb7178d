/* The links of all overflow documents that Spillway did not write, each once. */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

/* Numbers that are equal are one link. All zeros holds none; adopt_links_fini ends it. */
struct adopt_links {
	struct buffer all; /* {_id: link}, one behind the other */
	size_t count;
	const char *field; /* of the overflow documents, that holds the link */
	size_t *slots;     /* places in `all` + 1, found by the hash of type and value; 0: free */
	size_t mask;
};

/* Reads the target's overflow page by page: no index has these links. */
must_check enum link_result adopt_links_find(struct adopt_links *links, struct link *link,
					     const struct mover_target *target);
void adopt_links_fini(struct adopt_links *links);
