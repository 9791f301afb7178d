/* What the parts of `spillway verify` share. */
#pragma once

#include "proxy/job/job.h"
#include "proxy/upstream/pages.h"
#include "proxy/verify/verify_document.h"

#include <stdio.h>

#define NAMESPACE_NOT_FOUND 26

/* What the command keeps. */
struct verifying {
	FILE *exported;
	bool unexported;       /* it can't be made, which was said */
	struct buffer garbage; /* {_id: link} of documents with dead generations */
	int64_t garbage_since; /* the last of them was found */
	struct buffer corrupt; /* the generations of corrupt documents */
	bool collects;         /* overflow without a document may go */
	struct exported *from; /* what is to be put back; NULL: nothing */
	bool unfit;            /* nothing is mended where the rule can't hold */
};

/* The command was told to mend, and may. */
bool verify_repairs(const struct job *job);
/* The collections' full names; the caller's to free. */
char *verify_main_name(const struct mover_target *target);
char *verify_overflow_name(const struct mover_target *target);
/* What lies under this link is looked through at the end. */
void verify_keep_garbage(struct verifying *verifying, const struct element *link);

/* Repair of one document: verify_repair.c. */

/* Corruption goes to a file, and stays. */
must_check enum link_result verify_repair_export(struct job *job, struct mover_target *target,
						 const struct element *id, struct bytes main);
/* All that was to be exported so far lies on the disk. */
must_check bool verify_repair_exported(const struct verifying *verifying);
/* False: not all of it was written. */
must_check bool verify_repair_close(struct verifying *verifying);
/* Nothing of the document is corrupt. A second look tells what became of it. */
must_check enum link_result verify_repair_mend(struct job *job, struct mover_target *target,
					       const struct verify_document *verify,
					       struct bytes main);
/* Whether the state can't be this document's; then it may be dropped. */
must_check enum link_result verify_repair_judge(struct job *job, const struct mover_target *target,
						const struct verify_document *verify,
						struct bytes main, bool *stray);
must_check enum link_result verify_repair_drop(struct job *job, const struct mover_target *target,
					       const struct verify_document *verify,
					       struct bytes main);

/* Losses that are accepted: verify_accept.c. */

/* One {namespace, document} as a line of JSON from which the same bytes come back. */
void verify_accept_line(struct buffer *out, const char *namespace, struct bytes document);
/* A corrupt document: says what is lost, and with --execute makes the array whole of what is left,
 * behind the export. `changed`: something was written, or the document is another now. */
must_check enum link_result verify_accept(struct job *job, struct mover_target *target,
					  const struct verify_document *verify, struct bytes main,
					  bool *changed);

/* Puts back what the file has, before documents are looked at: verify_from.c. */
must_check enum link_result verify_from(struct job *job, struct mover_target *target);

/* The overflow by itself: verify_overflow.c. */

/* Its indexes, which a repair makes. `walks`: the overflow can be walked by its index. */
must_check enum link_result verify_overflow_indexes(struct job *job, struct mover_target *target,
						    bool *walks);
/* Overflow without a document. */
must_check enum link_result verify_overflow_walk(struct job *job, struct mover_target *target);
/* Garbage goes when whoever still reads it has had time to. */
must_check enum link_result verify_overflow_clear(struct job *job, struct mover_target *target);
