/* mongod 8.0's bulkWrite (bulk_write.idl): its ops read, and a run of them written as the insert,
 * update or delete that does the same. */
#pragma once

#include "protocol/command.h"
#include "protocol/packet.h"
#include "protocol/reply.h"

#define BULK_WRITE_MAX 100000 /* ops, as mongod */

enum bulk_kind {
	BULK_INSERT,
	BULK_UPDATE,
	BULK_DELETE,
};

struct bulk_op {
	struct bytes document; /* as the client has it; each field is what it must be */
	enum bulk_kind kind;
	uint32_t namespace; /* its number in nsInfo, where there is one */
};

struct bulk_namespace {
	struct bytes database;
	struct bytes collection;
	struct element uuid; /* type 0: none */
};

/* Views into the packet. */
struct bulk_write {
	struct bulk_op *ops;
	size_t count;
	struct bulk_namespace *namespaces;
	size_t namespace_count;
	struct buffer ids;  /* int32 each: the client's stmtIds, one for each op; empty: none */
	int64_t batch_size; /* results in the first batch; -1: all */
	bool ordered;
	bool errors_only;
	bool stops;  /* at the first error: ordered, or in a transaction */
	bool silent; /* {w: 0}: mongod's reply lists nothing */
};

/* What mongod would say, or why we can't serve it. */
struct bulk_problem {
	enum error_code code;
	char message[192];
};

/* False with *problem where it can't be served; nothing is left to free then. */
must_check bool bulk_write_parse(struct bulk_write *bulk, const struct packet *packet,
				 const struct command *command, struct bulk_problem *problem);
void bulk_write_fini(struct bulk_write *bulk);

/* Ops that are one command: neighbours of one kind on one namespace. */
struct bulk_run {
	size_t first;
	size_t count;
};

/* Each run repeats the command's other fields: more bytes of them, in all longest runs together,
 * are not written. */
#define BULK_REPEATED_MOST (256 << 20)

must_check bool bulk_write_repeats_much(const struct bulk_write *bulk,
					const struct command *client);
/* The longest run that begins at op `first`. */
struct bulk_run bulk_write_longest(const struct bulk_write *bulk, size_t first);
/* The run whose reply tells all that the client wants to know of each op: where it wants to hear of
 * each, updates and deletes go out one by one. */
struct bulk_run bulk_write_run(const struct bulk_write *bulk, size_t first);

/* A run's command. */
struct bulk_command {
	struct bulk_run run;
	int64_t time_left; /* milliseconds; -1: the client's own limit, if any */
	int32_t request_id;
	bool begun; /* not the first: the transaction has started */
};

/* Appends the whole frame; it is no longer than the client's. */
void bulk_write_command(const struct bulk_write *bulk, const struct command *client,
			const struct bulk_command *command, struct buffer *out);
