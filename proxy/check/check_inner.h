/* What the parts of `spillway check` share. */
#pragma once

#include "proxy/fitness/findings.h"
#include "proxy/upstream/facts.h"
#include "proxy/tls/reach.h"
#include "rules/config/config.h"

struct check {
	const struct config *config;
	struct reach reach;
	struct link *link; /* to the server that takes writes, with the upstream account */
	struct findings findings;
	char unread[512];     /* why records could not be read; empty: they could */
	atomic_bool stopping; /* never; links ask for one */
};

/* Names of databases, each once. All zeros is an empty list. */
struct databases {
	char **names;
	size_t count;
};
void databases_add(struct databases *databases, struct bytes name);
void databases_fini(struct databases *databases);
/* Adds those that the pattern matches. Refused is who may not ask. */
must_check enum link_result databases_match(struct link *link, struct databases *databases,
					    const char *pattern);

/* The parts, in the order in which they are looked at. Each only reads, and finds nothing more once
 * the link is lost. */
void check_admin(struct check *check);      /* the admin address, without any server */
void check_servers(struct check *check);    /* versions, members, sharding */
void check_rights(struct check *check);     /* of the upstream account */
void check_namespaces(struct check *check); /* collections, indexes, validators, views */
void check_clients(struct check *check);    /* who goes around Spillway */

/* One concrete namespace under a rule. */
struct check_target {
	const struct rule *rule;
	const struct ruled_namespace *namespace;
	const char *overflow_database;
	const char *overflow_collection;
};
/* What its documents were spilled under, by what is recorded; false where serve can't hold the rule
 * because of that. */
must_check bool check_record(struct check *check, const struct check_target *target);
/* Rules that are gone from the file while something is spilled under them. */
void check_gone_rules(struct check *check);
void check_pauses(struct check *check);
/* The views of a database that would see ruled arrays short. */
void check_views(struct check *check, struct namespace_cache *namespaces, const char *database,
		 const struct copies *collections);
/* The overflow collection (an entry of listCollections) may refuse what would be moved there. */
void check_overflow_validator(struct check *check, const struct check_target *target,
			      struct bytes entry);
/* The documents of one: never moved, or near 16 MB. */
void check_documents(struct check *check, const struct check_target *target);
