/* Whether the servers behind the listeners are those that the upstream account reaches: what it
 * moves elsewhere would be split where nobody reads it whole. */
#pragma once

#include "proxy/upstream/member_names.h"
#include "proxy/upstream/link.h"
#include "proxy/tls/reach.h"

/* Two servers, the first of which takes writes, that answered hello so while both were up are none
 * of one deployment. Of mongos nothing is known. Pure. */
bool deployment_differs(struct bytes upstream, struct bytes server);
/* What is told to people of such a server. */
#define DEPLOYMENT_DIFFERS \
	"'%s' (listen) is not of the deployment that the upstream account reaches: arrays would " \
	"be split where clients do not read them"
#define DEPLOYMENT_REMEDY \
	"correct 'listen', or upstream.uri, upstream.uri_file or $SPILLWAY_UPSTREAM_URI: both " \
	"have to name the same servers"

/* Whether it is a mongos, or a mongod of a sharded cluster: then why it is refused. */
bool deployment_is_sharded(struct link *link, char *reason, size_t size);

enum deployment {
	DEPLOYMENT_FITS,   /* as far as servers answer */
	DEPLOYMENT_OTHER,  /* `reason` says which, and what to do */
	DEPLOYMENT_UNSEEN, /* a standalone, and behind no listener does a server answer: why */
	DEPLOYMENT_LOST,   /* the link is */
};
/* Asks the server behind each listener as clients' connections go on to it, and learns its name. */
must_check enum deployment deployment_look(struct link *upstream, const struct reach *reach,
					   struct member_names *names, const atomic_bool *stopping,
					   char *reason, size_t size);
