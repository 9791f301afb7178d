/* Looks which cursors and operations of before a new rule still go on. */
#include "proxy/upstream/open_reads.h"

#include "proxy/base/clock.h"
#include "proxy/base/log.h"
#include "proxy/upstream/clauses.h"

#include <stdlib.h>

#define AGAIN_MS 200 /* doubled up to: */
#define AGAIN_MOST_MS 5000
#define RESTS 4 /* times as long as a look took */

enum open_read_kind {
	OPEN_OPERATION,
	OPEN_CURSOR,
	OPEN_TRANSACTION,
};

/* What goes on. */
struct open_read {
	size_t member; /* the listener's place */
	enum open_read_kind kind;
	int64_t id;
	bool there; /* at the latest look */
};

struct open_reads {
	struct open_read *list;
	size_t count;
	bool taken; /* the first look is over */
	bool told;
	bool blind;         /* it was told that the account may not look */
	bool missed;        /* it was told that a server does not answer */
	const char *silent; /* that one, at the latest look; NULL: all answered. The places' */
	int64_t due, pause;
};

struct open_reads *open_reads_new(void)
{
	return must_calloc(1, sizeof(struct open_reads));
}

void open_reads_forget(struct open_reads *reads)
{
	free(reads->list);
	*reads = (struct open_reads){0};
}

void open_reads_free(struct open_reads *reads)
{
	open_reads_forget(reads);
	free(reads);
}

/* Spillway's own reads are among them, since a client may call itself 'spillway': they end soon,
 * but for building an index, which is no read. */
#define LOOK \
	"{aggregate: 1, pipeline: [{$currentOp: {allUsers: true, idleCursors: true, " \
	"idleConnections: false, idleSessions: @sessions}}, {$match: {" \
	"'command.createIndexes': {$exists: false}, $or: [{'cursor.cursorId': {$type: 'long'}}, " \
	"{active: true, op: {$ne: 'none'}}, {type: 'idleSession'}]}}, " \
	"{$project: {ns: 1, opid: 1, cursor: '$cursor.cursorId', tailable: " \
	"'$cursor.tailable', session: '$lsid.id', transaction: " \
	"'$transaction.parameters.txnNumber'}}], " \
	"cursor: {}}"

must_check enum link_result open_reads_try(struct link *link)
{
	struct bytes document;

	return command_find_one(link, "admin", &document, LOOK, fill_bool("sessions", false));
}

/* ---- What may concern a rule that waits. */

struct looking {
	struct open_reads *reads;
	const struct open_reads_place *place;
	size_t member;
};

/* A change stream reads one collection, or those of a database, or all. */
static bool stream_concerns(const struct rule *rule, struct bytes database, struct bytes collection)
{
	if (rule->streams == RULE_STREAMS_AS_STORED)
		return false;
	if (bytes_are(database, "admin"))
		return true;
	if (collection.length > 0 && collection.data[0] == '$')
		return rule_pattern_matches_database(rule->database, database);
	return rule_matches(rule, database, collection);
}

/* Any other read may come to the rule's collection by a stage or a view of its database. */
static bool concerns(const struct rule *rule, struct bytes namespace, bool stream)
{
	const uint8_t *dot = memchr(namespace.data, '.', namespace.length);
	struct bytes database = {namespace.data,
				 dot ? (size_t)(dot - namespace.data) : namespace.length};
	struct bytes collection = {0};

	if (dot)
		collection = (struct bytes){dot + 1, namespace.length - database.length - 1};
	return stream ? stream_concerns(rule, database, collection)
		      : rule_pattern_matches_database(rule->database, database);
}

static bool concerns_any(const struct open_reads_place *place, struct bytes namespace, bool stream)
{
	if (place->rule)
		return concerns(place->rule, namespace, stream);
	for (size_t i = 0; i < rule_set_count(place->rules); i++)
		if (target_set_rule_waits(place->targets, i) &&
		    concerns(rule_set_at(place->rules, i), namespace, stream))
			return true;
	return false;
}

/* ---- What goes on. */

static void see(struct open_reads *reads, const struct open_read *seen)
{
	for (size_t i = 0; i < reads->count; i++) {
		struct open_read *read = &reads->list[i];

		if (read->member == seen->member && read->kind == seen->kind &&
		    read->id == seen->id)
			read->there = true;
	}
	if (reads->taken)
		return;
	reads->list = must_realloc(reads->list, (reads->count + 1) * sizeof(*reads->list));
	reads->list[reads->count++] = *seen;
}

/* Between two of its commands a transaction names no collection, and may read any. */
static bool take_transaction(const struct looking *looking, struct bytes document)
{
	struct open_read seen = {
		.member = looking->member, .kind = OPEN_TRANSACTION, .there = true};
	struct element session, number;

	if (!looking->place->folded || !document_find(document, "transaction", &number) ||
	    !element_integer(&number, &seen.id) || !document_find(document, "session", &session) ||
	    session.type != BSON_BYTE_BINARY || session.value.length < 4 + 1 + 8)
		return false;
	seen.id ^= load_int64(session.value.data + 4 + 1);
	see(looking->reads, &seen);
	return true;
}

static void take_read(void *context, struct bytes document)
{
	const struct looking *looking = context;
	struct open_read seen = {.member = looking->member, .there = true};
	struct element id, tailable;
	struct bytes namespace;
	bool stream = document_find(document, "tailable", &tailable) &&
		      tailable.type == BSON_BYTE_BOOL && tailable.value.data[0];

	if (take_transaction(looking, document) || (stream && looking->place->folded) ||
	    !document_find_string(document, "ns", &namespace) || namespace.length == 0 ||
	    !concerns_any(looking->place, namespace, stream))
		return;
	if (document_find(document, "cursor", &id))
		seen.kind = OPEN_CURSOR;
	else if (!document_find(document, "opid", &id))
		return;
	if (element_integer(&id, &seen.id))
		see(looking->reads, &seen);
}

static void tell_blind(struct open_reads *reads, const char *server, const struct link *link)
{
	if (!reads->blind)
		log_warning("4048 mover: the upstream account may not see whether reads go on at "
			    "'%s' that began before the rules were in force; such a read may "
			    "return a short array: give the account the action 'inprog' on the "
			    "cluster (%s)",
			    server, link_error(link)->message);
	reads->blind = true;
}

/* A server that is only away for a while is not told of. */
static void note_silent(struct open_reads *reads, const char *server)
{
	bool again = reads->silent == server;

	reads->silent = server;
	if (!again || reads->missed)
		return;
	log_warning("4049 mover: the server '%s' does not say whether reads go on that began "
		    "before the new rules; until it does, no tail moves under these rules: bring "
		    "it back, or take its listener out of the file and reload, or, with "
		    "'replica_set', take it out of the set; and close the connections of "
		    "clients to it",
		    server);
	reads->missed = true;
}

static bool look_at_member(struct looking *looking)
{
	const struct open_reads_place *place = looking->place;
	const char *server = places_read(place->places, looking->member);
	enum link_result result;
	bson_error_t error;
	struct link *link;

	if (!server)
		return true; /* nobody has this place */
	link = link_open_server(place->config->upstream_uri, server, place->stopping, &error);
	result = link ? command_find(link, "admin", take_read, looking, LOOK,
				     fill_bool("sessions", place->folded))
		      : LINK_LOST;
	if (result == LINK_REFUSED)
		tell_blind(looking->reads, server, link);
	if (result == LINK_LOST && !atomic_load(place->stopping))
		note_silent(looking->reads, server);
	link_free(link);
	return result == LINK_DONE;
}

/* False if some server did not say. */
static bool look(struct open_reads *reads, const struct open_reads_place *place)
{
	struct looking looking = {reads, place, 0};
	char reason[16];

	if (places_look(place->places, reason, sizeof(reason)) != PLACES_KNOWN)
		return false;
	for (size_t i = 0; i < reads->count; i++)
		reads->list[i].there = false;
	for (; looking.member < place->config->listen_count; looking.member++)
		if (!look_at_member(&looking))
			return false;
	reads->silent = NULL;
	return true;
}

static void forget_ended(struct open_reads *reads)
{
	size_t kept = 0;

	for (size_t i = 0; i < reads->count; i++)
		if (reads->list[i].there)
			reads->list[kept++] = reads->list[i];
	reads->count = kept;
}

static void tell(struct open_reads *reads)
{
	if (!reads->told)
		log_info("4047 mover: %zu reads and operations that began before the new rules go "
			 "on; until they have ended, no tail moves under these rules",
			 reads->count);
	reads->told = true;
}

/* A server that hangs must not keep who asks from other work. */
static void rest(struct open_reads *reads, int64_t took)
{
	reads->pause = reads->pause ? 2 * reads->pause : AGAIN_MS;
	if (reads->pause > AGAIN_MOST_MS)
		reads->pause = AGAIN_MOST_MS;
	reads->due = clock_now() + reads->pause + RESTS * took;
}

must_check bool open_reads_have_ended(struct open_reads *reads,
				      const struct open_reads_place *place)
{
	bool again = reads->taken, seen;
	int64_t began = clock_now();

	if (began < reads->due)
		return false;
	seen = look(reads, place);
	rest(reads, clock_now() - began);
	if (!seen) {
		if (!reads->taken)
			reads->count = 0;
		return false;
	}
	reads->taken = true;
	forget_ended(reads);
	if (reads->count > 0 && again)
		tell(reads);
	return reads->count == 0;
}

bool open_reads_were_met(const struct open_reads *reads)
{
	return reads->taken && reads->count > 0;
}

size_t open_reads_count(const struct open_reads *reads)
{
	return reads->count;
}

const char *open_reads_silent(const struct open_reads *reads)
{
	return reads->silent;
}

bool open_reads_are_unseen(const struct open_reads *reads)
{
	return reads->blind;
}

bool open_reads_were_told(const struct open_reads *reads)
{
	return reads->told;
}
