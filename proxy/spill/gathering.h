/* An array that is put together to be folded back: what fold.h does with one document, and what
 * others do with several at once. In fold.c. */
#pragma once

#include "proxy/spill/fold.h"
#include "proxy/spill/plan.h"
#include "rules/merge/array_writer.h"

/* The overflow as it comes. */
struct gathering {
	const struct rule *rule;
	const struct fold_how *how;
	struct bytes main; /* a view */
	struct plan plan;
	struct buffer array;
	struct buffer scratch;
	struct array_writer writer; /* of `array`: opened and closed by the caller */
	int64_t length;             /* places so far */
	int64_t kept;               /* elements so far: as many, unless a loss is accepted */
	size_t size;                /* of the document as it will be */
	size_t most;                /* that it may be */
	int64_t head;               /* of the generation that follows; -1: none does */
	bool foreign;               /* overflow that Spillway did not write stands beside its own */
	struct buffer parts;        /* of an array that was edited in place: see fold.c */
	bool broken;                /* a hole, or what is no batch */
	bool large;
};

void gathering_init(struct gathering *gathering, const struct rule *rule,
		    const struct fold_how *how, struct bytes main);
void gathering_fini(struct gathering *gathering);
/* Its overflow documents, in the order of their numbers; the context is the gathering. */
void gathering_take(void *context, struct bytes batch);
/* Behind the last one. */
void gathering_end(struct gathering *gathering);
/* All that the state counts is there. */
bool gathering_is_whole(const struct gathering *gathering);
/* I2: {q, u}, appended. The document has a state. */
void gathering_write(const struct gathering *gathering, const struct mover_target *target,
		     struct buffer *statements);
