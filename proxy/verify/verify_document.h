/* One document under a rule, beside its overflow: what is wrong with it by the invariants V1 to V7
 * (docs/internals/spill-protocol.md#invariants). No server: it is handed the images. */
#pragma once

#include "proxy/spill/plan.h"
#include "proxy/job/job_report.h"

enum verify_finding {
	VERIFY_HOLE,
	VERIFY_MISSING,
	VERIFY_STATE,
	VERIFY_FLAG,
	VERIFY_FIELDS,
	VERIFY_GARBAGE,
	VERIFY_ORPHANS,
	VERIFY_ASTRAY,
	VERIFY_TAIL,
	VERIFY_OVERLAP,
	VERIFY_NUMBERS,
	VERIFY_TOO_LONG,
	VERIFY_NOT_MOVED,
	VERIFY_NOT_LINKED,
	VERIFY_HEAD,
	VERIFY_TWICE,
	VERIFY_NOT_FULL,
	VERIFY_INDEX,
	VERIFY_NEVER_MOVED,
	VERIFY_FOREIGN,
	VERIFY_BESIDE,
	VERIFY_BUSY,
	VERIFY_FINDINGS,
};
extern const struct job_report_kind verify_kinds[VERIFY_FINDINGS];

#define VERIFY_DETAILS 24 /* findings on one document that are kept */
#define VERIFY_DETAIL_SIZE 116

struct verify_document {
	const struct rule *rule;
	int64_t young_from; /* batches stored since (seconds) may be garbage by right */
	struct plan plan;
	bool judged; /* what the batches hold is known to be this document's */
	bool foreign;
	int64_t garbage; /* batches of dead generations */
	int64_t young;   /* of these, those that may still be read */

	/* the generation's batches so far */
	int64_t length;               /* of what they hold together, each position once */
	int64_t sum;                  /* of their lengths */
	int64_t number;               /* of the last one */
	struct cursor beyond;         /* behind the head: what is stored beyond n must equal it */
	struct buffer hashes;         /* of what stands at each position */
	struct buffer scratch;        /* the batch at hand, where its array is made */
	struct buffer counting;       /* of an array edited in place, what counts: struct counted */
	int64_t last_size, last_held; /* of the last batch */
	int64_t first_size;           /* bytes of the first element; 0: none yet */

	size_t count;
	struct {
		enum verify_finding finding;
		char detail[VERIFY_DETAIL_SIZE];
	} found[VERIFY_DETAILS];
	char spare[VERIFY_DETAIL_SIZE]; /* for a detail that is not kept */
};

void verify_document_init(struct verify_document *verify, const struct rule *rule,
			  struct bytes main, int64_t young_from);
/* The same, to be asked only of what its overflow holds. */
void verify_document_init_planned(struct verify_document *verify, const struct rule *rule,
				  const struct plan *plan, int64_t young_from);
/* Its overflow documents, in the order of their numbers. */
void verify_document_batch(struct verify_document *verify, struct bytes batch);
/* Behind the last one: `found` is complete. */
void verify_document_end(struct verify_document *verify, struct bytes main);
void verify_document_fini(struct verify_document *verify);
/* True when one of the findings is of this class. */
bool verify_document_has(const struct verify_document *verify, enum job_report_class class);
bool verify_document_found(const struct verify_document *verify, enum verify_finding finding);
/* Batches that are numbered or filled in another way than the rule's, or counted wrongly: the array
 * goes back and is moved anew, which changes nothing in its value. */
bool verify_document_wants_new_batches(const struct verify_document *verify);

/* Stored at this time or later (seconds), as its ObjectId says. */
bool batch_is_young(struct bytes batch, int64_t young_from);
/* The text is what the rule calls the overflow of the document with this `_id`, which has a text.
 */
bool is_reference(const struct rule *rule, const struct element *id, struct bytes text);
/* The flag has the value that an outlier has. */
bool flag_stands(const struct rule *rule, struct bytes main);
