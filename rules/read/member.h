/* Membership: a find names one document by its `_id`, and one of its conditions reads the array,
 * so that a single element satisfies the condition or none does. Then no array has to be put
 * together: main's part of the array is asked, and the overflow only if main has no such element.
 *
 * This module judges the client's find, writes the questions, and reads what comes back.
 * sequence_member.c asks them (docs/internals/spill-protocol.md, "Reads", class 7). */
#pragma once

#include "protocol/command.h"
#include "protocol/packet.h"
#include "rules/rule/state.h"
#include "rules/stages/probe.h"

struct member {
	const struct ruled_namespace *namespace;
	const struct target *target; /* whose array the condition reads */
	struct probe probe;          /* the condition, of overflow documents */
	struct buffer element;       /* what satisfies it, as $elemMatch says it */
	bool texts;                  /* it may compare texts, which a collation of main's decides */
	bool answers; /* what is read of main is what the client wants of the document */
	bool plain;   /* else: its projection is that of a plain find (VERDICT_READ) */
	/* Of the document that was read: */
	struct packet main;    /* the reply, which the others look into */
	struct bytes document; /* without data where there is none */
	struct element id;     /* its own, which need not have the bytes of the client's */
	struct bytes generation;
	int64_t linked;        /* elements of the overflow that count */
	struct state editions; /* of an array that was edited in place; `later` without data: it is
				  none */
	int64_t hit, hit_end;  /* where the overflow document stands that OLDER was said of */
};

/* False where the client's find is another one. */
must_check bool member_of_find(const struct command *command,
			       const struct ruled_namespace *namespace, struct member *member);
void member_fini(struct member *member);

/* Appends to the open body all of the client's fields, its filter and projection in other words:
 * the document comes, whether an element of main's satisfies the condition or not. `timed`: but
 * for its maxTimeMS. */
void member_write_main(struct buffer *out, const struct command *command,
		       const struct member *member, bool timed);
/* Questions to the overflow: each appends the fields of a find, but for those that every helper
 * carries. ONE: the overflow document that holds all of the overflow, if there is one, and whether
 * it has such an element. */
void member_write_one(struct buffer *out, const struct member *member);
bool member_may_have_one(const struct member *member);
/* HIT: one overflow document with such an element. */
void member_write_hit(struct buffer *out, const struct member *member);
/* ALL: all overflow documents of the generation, in order: whether they are complete. */
void member_write_all(struct buffer *out, const struct member *member);
/* LATER, of an array that was edited in place: what counts under its later name, in front of the
 * end of HIT's document. */
void member_write_later(struct buffer *out, const struct member *member);
/* Appends the filter: the client's, with the generation in place of the condition. */
void member_write_generation(struct buffer *out, const struct command *command,
			     const struct member *member);

enum member_found {
	MEMBER_THERE,
	MEMBER_MISSING,
	MEMBER_UNKNOWN, /* the next question decides */
	MEMBER_OLDER,   /* it is there, unless an edit in place has changed that: LATER decides */
	MEMBER_CHANGED, /* the array was written to or moved meanwhile: main is to be read again */
	MEMBER_UNSURE,  /* something is not as expected: the array has to be put together */
};
/* Steals the reply. */
enum member_found member_take_main(struct member *member, struct packet *reply);
enum member_found member_take_one(const struct member *member, const struct packet *reply);
enum member_found member_take_hit(struct member *member, const struct packet *reply);
enum member_found member_take_all(const struct member *member, const struct packet *reply);
enum member_found member_take_later(const struct member *member, const struct packet *reply);

/* Appends the fields of the answer to the open body: those of main's reply, and of its document
 * what the client asked for if `found`. */
void member_write_answer(struct buffer *out, const struct member *member, bool found);
