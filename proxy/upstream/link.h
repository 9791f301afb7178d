/* One connection to one server, and never a second: what a round of the mover runs on.
 *
 * A driver's client reconnects without a word. On a standalone that destroys arrays: batches that
 * were acknowledged before a crash may be gone after it, while the main document's guard still
 * holds (docs/internals/spill-protocol.md#moving). So a link's client gets one stream in its life;
 * when that breaks, every later command fails, and who wants to go on opens a new link and begins
 * from the start. */
#pragma once

#include "protocol/reply.h"

#include <bson/bson.h>
#include <stdatomic.h>

struct link;

enum link_result {
	LINK_DONE,    /* the server did it */
	LINK_REFUSED, /* the server answered with an error: link_error */
	LINK_LOST, /* no answer, or no primary any more: the outcome is unknown, the link is dead;
		    * from who reads records and judges rules also: no answer to go by, for now */
};

#define LINK_AUTHENTICATION_FAILED 18

/* The appName by which servers know Spillway's work. That of the uri, if it has one, follows in
 * brackets: others of the name can be looked for (neighbours.h). */
#define LINK_NAME "spillway"

/* What the last refused or lost command was told. */
struct link_error {
	int64_t code;
	int64_t done; /* of a write's documents or statements, how many were done before this one */
	bool write_concern;  /* done, but not acknowledged as was asked */
	bool unacknowledged; /* the same of what was done, also beside another error */
	char message[512];
};

/* From now on, links by the URI `uri` know these servers (the list ends with NULL) instead of those
 * that stand in it: they are the members of its replica set now. `plain` is the same URI as
 * mongodb://, and is that of the first call for good. Any thread; for one URI of the process. */
void link_know_members(const char *uri, const char *plain, const char *const *hosts);

/* Before the driver is used without a link. Any thread, any number of times. */
void link_need_driver(void);
/* Opens a link to the server among the hosts of `uri` that takes writes. `stopping`: once true,
 * no command is sent any more (it counts as lost). NULL where no server could be used. */
must_check struct link *link_open(const char *uri, const atomic_bool *stopping,
				  bson_error_t *error);
/* To this one server, whatever it is, without the uri's credentials; its TLS options hold. */
must_check struct link *link_open_member(const char *uri, const char *host,
					 const atomic_bool *stopping, bson_error_t *error);
/* The same with the uri's credentials. */
must_check struct link *link_open_server(const char *uri, const char *host,
					 const atomic_bool *stopping, bson_error_t *error);
/* To this one server, without credentials and without TLS. */
must_check struct link *link_open_plain(const char *host, const atomic_bool *stopping,
					bson_error_t *error);
/* To whichever of the uri's hosts answers first, without credentials, and which is given a few
 * seconds only for each answer: to see whether servers are there. */
must_check struct link *link_open_any(const char *uri, const atomic_bool *stopping,
				      bson_error_t *error);
/* The same to this host alone, or to whichever answers first (NULL), by a name that no Spillway is
 * known by at work (neighbours.h). */
must_check struct link *link_open_early(const char *uri, const char *host,
					const atomic_bool *stopping, bson_error_t *error);
must_check enum link_result link_ask_hello(struct link *link);
/* Why no link could be opened: the account can't sign in; `reason` says what to do. */
bool link_sign_in_failed(const bson_error_t *error, char *reason, size_t size);
/* mongod quotes the whole command, session and signatures, where it may not be run: its name will
 * do. */
void link_cut_command(char *message);
/* The error says how the server, the network or the command before is doing, and nothing of what
 * was asked about: it may be gone the next time. */
bool link_error_passes(const struct link_error *error);
/* Done, where the account had no rights for it: nothing is there that it could have to do with. */
must_check enum link_result link_unless_unauthorized(const struct link *link,
						     enum link_result result);
/* As good as lost: nobody knows, and who asks again may. Refused stays what will be so again. */
must_check enum link_result link_lost_in_passing(const struct link *link, enum link_result result);
/* Refused stays a lack of rights alone; any other refusal is as good as lost. */
must_check enum link_result link_lost_or_unauthorized(const struct link *link,
						      enum link_result result);
void link_free(struct link *link);

/* From another thread: whatever waits for an answer on a link that ends by this flag is lost at
 * once, be it that no server answers. Again and again: one may be opening. */
#define LINK_ANSWER_MS 1000 /* who is to end waits so long for an answer first */
#define LINK_CUT_MS 50      /* and cuts so often */
void link_cut_all(const atomic_bool *stopping);

/* No replica set: no cluster time, and `majority` is a word without meaning there. */
bool link_standalone(const struct link *link);
/* What the server's hello said. */
struct bytes link_hello(const struct link *link);
/* Names the server's process: another one may have forgotten what this one said, after a crash or
 * as a new primary. */
uint64_t link_process(const struct link *link);
/* May be used for another round: it is neither dead nor older than half a day. */
bool link_alive(const struct link *link);
/* Sleeps; false if whoever opened the link stops meanwhile. */
must_check bool link_pause(const struct link *link, int64_t milliseconds);
/* Differs between any two links of this process. */
uint64_t link_serial(const struct link *link);

/* Sends the command (a BSON document without `$db`) and waits for the answer. Errors are also what
 * stands in `writeErrors` and `writeConcernError`. */
must_check enum link_result link_run(struct link *link, const char *database, struct bytes command);
/* A transaction: what link_run sends from now on becomes visible at once, by link_commit, or never.
 * Snapshot reads; the writes' concern is majority. Not on a standalone. Only link_abort may follow
 * a command that was refused; where the outcome of a commit is not known, the link is dead. */
must_check enum link_result link_begin(struct link *link);
must_check enum link_result link_commit(struct link *link);
void link_abort(struct link *link);
bool link_in_transaction(const struct link *link);

/* Refused by us, as if a server had answered with this error. */
must_check enum link_result link_refuse(struct link *link, int64_t code, const char *message);

/* Of the last command; views until the next one. */
struct bytes link_body(const struct link *link);
/* The same, the caller's to free with bson_free. */
must_check uint8_t *link_steal_body(struct link *link);
const struct reply_summary *link_reply(const struct link *link);
const struct link_error *link_error(const struct link *link);
/* The latest operationTime of all replies; 0 where the server knows none. */
uint64_t link_time(const struct link *link);

/* Runs a command that returns a cursor and hands over each document of it. */
typedef void (*link_document)(void *context, struct bytes document);
must_check enum link_result link_find(struct link *link, const char *database, struct bytes command,
				      link_document each, void *context);
/* As link_find, but the replies are kept: views into the documents hold until replies_free. */
struct replies {
	uint8_t **bodies;
	size_t count;
};
must_check enum link_result link_find_kept(struct link *link, const char *database,
					   struct bytes command, link_document each, void *context,
					   struct replies *replies);
void replies_free(struct replies *replies);
/* As link_find, of the first document alone, a view until the next command; `found` is false
 * without one. */
must_check enum link_result link_find_one(struct link *link, const char *database,
					  struct bytes command, struct bytes *document,
					  bool *found);
