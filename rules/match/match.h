/* Decides what becomes of a request: from its first bytes where no rule can concern it, else from
 * the whole of it. */
#pragma once

#include "protocol/command.h"
#include "protocol/packet.h"
#include "protocol/reply.h"
#include "rules/rule/note.h"
#include "rules/rule/rules.h"
#include "rules/stages/aggregate.h"

enum match_step {
	MATCH_FORWARD, /* cut through, bytes as they arrive */
	MATCH_MORE,    /* too few bytes to tell */
	MATCH_WHOLE,   /* the whole frame has to be read */
};

enum match_transaction {
	MATCH_NO_TRANSACTION,
	MATCH_IN_TRANSACTION,   /* autocommit: false */
	MATCH_ENDS_TRANSACTION, /* commitTransaction, abortTransaction */
};

/* What the relay has to know of a request that it forwards. */
struct match_facts {
	bool answered; /* the server owes a reply */
	bool exhaust;  /* which may announce more */
	bool reads_on; /* a getMore, which a stage of ours in its pipeline may make fail */
	bool signs_in; /* from here on the connection may be another user's */
	enum match_transaction transaction;
};

/* `bytes` begin with a frame's whole header and may end anywhere. Facts are filled in for
 * MATCH_FORWARD. */
must_check enum match_step match_prefix(const struct rule_set *rules, struct bytes bytes,
					struct match_facts *facts);

enum match_verdict {
	VERDICT_FORWARD,
	VERDICT_HELLO,     /* forward, with hello_edit_request and hello_edit_reply */
	VERDICT_READ,      /* sequences: see sequence.h */
	VERDICT_AGGREGATE, /* a read that needs arrays whole: mongod puts them together */
	VERDICT_WRITE,
	VERDICT_FIND_AND_MODIFY,
	VERDICT_BULK_WRITE,
	VERDICT_EXPLAIN, /* of a write that edits */
	VERDICT_WATCH,   /* forwarded; that it is done has to be seen */
	VERDICT_HIDE,    /* listCollections, dbStats: overflow collections are left out of the
			    answer; drop of one: answered */
	VERDICT_STREAM,  /* a change stream, or a getMore that may be one's */
	VERDICT_REFUSE,  /* answer with code and message */
	VERDICT_CLOSE,   /* can't be answered and must not pass */
};

#define MATCH_NO_STAGE SIZE_MAX

/* What the client hears, and what refusals are counted by. */
struct match_refusal {
	enum error_code code;
	const char *rule;  /* its name, or "" */
	char what[64];     /* operator or command */
	char message[512]; /* last: match_packet clears what stands before it */
};

struct match {
	enum match_verdict verdict;
	struct match_facts facts;
	const struct ruled_namespace
		*namespace; /* for the sequences; also set where a ruled namespace is forwarded */
	bool touches_array; /* writes to a ruled array (an unfit namespace refuses that) */
	bool searches;      /* has a $text (an unfit namespace refuses that, too: its text index
			       may be over the array) */
	bool edits;         /* some statement needs a whole array: see edit.h */
	bool refuses; /* VERDICT_WRITE, VERDICT_BULK_WRITE: a statement is to be refused, for what
			 `refusal` says, unless mongod refuses it by itself; see `cache`
		       */
	bool wrong;   /* VERDICT_READ: its projection is one that mongod refuses */
	bool windows; /* VERDICT_READ: a find of nothing but windows of its arrays */
	size_t stage; /* VERDICT_AGGREGATE of an aggregate: before which of its stages;
			 MATCH_NO_STAGE: its own documents stay as they are */
	bool bare;    /* VERDICT_AGGREGATE: that stage takes the arrays away; nothing needs
			 them, what is hidden has to go with them */
	/* VERDICT_AGGREGATE of a distinct with a query: mongod answers it from the keys of an
	 * index, or from one document for each key. */
	bool scans_keys, scans_documents;
	bool unites;          /* a $unionWith brings documents of a ruled namespace */
	bool computes;        /* VERDICT_AGGREGATE: its documents are marked (computed.h) */
	bool changes_fitness; /* createIndexes, collMod, create, drop, renameCollection on
				 `namespace`; without one, dropDatabase */
	const struct ruled_namespace *asks_indexes; /* a hint or a collMod means an index on it that
						       is not known, and may look into an array */
	enum mover_tending tending;                 /* before the client hears that it is done */
	const struct ruled_namespace *onto; /* renameCollection: what has the new name, or NULL;
					       `namespace` is what had the old one, or the same.
					       aggregate: what a $merge writes into, or NULL */
	struct namespace_cache *cache;      /* VERDICT_BULK_WRITE: its runs are matched again;
					       `refuses`: its statements;
					       VERDICT_AGGREGATE: namespaces that stages reach;
					       VERDICT_HIDE: the rules */
	struct match_refusal refusal;       /* VERDICT_REFUSE; `refuses` */
	struct command command; /* views into the packet; read for PACKET_MESSAGE only */
};

void match_packet(struct namespace_cache *cache, const struct packet *packet, struct match *match);

/* Of VERDICT_READ and VERDICT_AGGREGATE: for the aggregate that stands for the request. */
struct aggregate_task match_task(const struct match *match);
/* Some rule that the request may meet leaves damaged documents out of reads. */
bool match_skips_damaged(const struct match *match);

/* Has the last word on a match, and may turn it into a refusal: the caller knows more of a
 * namespace than its rules. */
struct match_judge {
	void (*judge)(void *context, struct match *match);
	void *context;
};

/* Why a statement of the client's update or delete, a VERDICT_WRITE, can't be served: the match is
 * turned into a refusal. */
void match_refuse_unserved(const struct packet *packet, struct match *match);
/* The same with the judge's word, on each run of a bulkWrite too. `judge` may be NULL. */
void match_packet_judged(struct namespace_cache *cache, const struct packet *packet,
			 const struct match_judge *judge, struct match *match);
/* The rule of which an array would come short out of a view with this definition; NULL where none
 * does. */
const struct rule *match_view(struct namespace_cache *cache, struct bytes database,
			      struct bytes source, struct bytes pipeline);
/* Turns the match into a refusal: "rule 'NAME' on 'DB.COLL': " and what follows. */
void match_refuse(struct match *match, const struct rule *rule, const char *what, const char *why);
