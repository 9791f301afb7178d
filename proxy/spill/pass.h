/* Inside a round: what its commands on the main document and on the overflow share. */
#pragma once

#include "proxy/upstream/clauses.h"
#include "proxy/spill/plan.h"
#include "proxy/spill/round.h"

/* What one pass did, when it does not end the round. */
enum pass {
	PASS_AGAIN, /* look at the document again, at once */
	PASS_MOVED, /* the whole tail that was seen is in the overflow */
	PASS_ENDED, /* the round ends as `end` says */
};

/* What a round needs to know of a batch: its number, its place, what it holds; never the elements.
 */
struct batch {
	int64_t number, position, held;
	int64_t size; /* bytes of its array */
};

/* One pass: an image of the document, and what was stored after it. */
struct pass_state {
	struct round *round;
	struct link *link;
	const struct rule *rule;
	struct mover_target *target;
	struct plan plan;
	struct batch open; /* the last batch that is there; its number is how many there are */
	int64_t stored;    /* k: elements stored in a row from position n */
	enum round_end end;
	bool adopted;    /* it was split by hand */
	bool still;      /* M1 only while the array has the length that was read */
	bool overlapped; /* the last batch ends before n, and `open` is another one */
};

/* How a pass ends that does not end well. */
enum pass pass_ended(struct pass_state *pass, enum round_end end);
/* The server refused this step, or is gone. */
enum pass pass_failed(struct pass_state *pass, const char *step, enum link_result result);
/* Batches may overlap from this position on. */
void pass_overlaps(struct pass_state *pass, int64_t from);
enum pass pass_leaves(struct pass_state *pass, const char *why);
/* After a command whose guard either held (`held`) or not. */
enum pass pass_guarded(struct pass_state *pass, const char *step, enum link_result result,
		       enum pass held);

/* Texts of a pass may name, beside their own places:
 *
 *   @collection, @overflow    the two collections' names
 *   @id, @generation          as the plan has them
 *   @head, @moved, @length    h, n, and the elements in the document
 *   @key, @array              the array's key in `_spill`, and its path
 *   @link, @order             the overflow's fields of these purposes
 *   @batch                    the overflow's array; layout elements: ""
 *   @uuid                     of the overflow collection that was judged
 *   @read_concern             majority, no earlier than what the round saw last
 *   @write_concern */
#define pass_write(pass, out, ...) \
	pass_write_filled((pass), (out), TEMPLATE_TEXT(__VA_ARGS__), TEMPLATE_FILLS(__VA_ARGS__))
/* Runs it; what comes after it is read no earlier than this. */
#define pass_run(pass, database, ...) \
	pass_run_filled((pass), (database), TEMPLATE_TEXT(__VA_ARGS__), TEMPLATE_FILLS(__VA_ARGS__))
/* Finds overflow documents. */
#define pass_find(pass, each, context, ...) \
	pass_find_filled((pass), TEMPLATE_TEXT(__VA_ARGS__), TEMPLATE_FILLS(__VA_ARGS__), (each), \
			 (context))
void pass_write_filled(struct pass_state *pass, struct buffer *out, const char *text,
		       const struct fill *fills);
must_check enum link_result pass_run_filled(struct pass_state *pass, const char *database,
					    const char *text, const struct fill *fills);
must_check enum link_result pass_find_filled(struct pass_state *pass, const char *text,
					     const struct fill *fills, link_document each,
					     void *context);
/* Runs a command that is written already. */
must_check enum link_result pass_send(struct pass_state *pass, const char *database,
				      struct bytes command);

/* Commands on the main document: round_main.c. */
must_check enum link_result main_hurry(struct pass_state *pass); /* before M0 */
/* M0; no earlier than `after`. No data: the document is gone. */
must_check enum link_result main_read(struct pass_state *pass, uint64_t after,
				      struct bytes *document);
enum pass main_give_birth(struct pass_state *pass); /* M1 */
enum pass main_cut(struct pass_state *pass);        /* M4 */
enum pass main_undo(struct pass_state *pass);
enum pass main_tidy(struct pass_state *pass);

/* A document's M1 or M4, with a guard of its own: {q, u}, appended to `statements`. */
void main_write_birth(struct pass_state *pass, struct buffer *statements);
void main_write_cut(struct pass_state *pass, struct buffer *statements);
/* The command that holds them. Readers count on a cut not being older than 5 s; and a client's
 * transaction may hold the document for long. */
#define MAIN_UPDATE \
	"update: @collection, updates: [..@statements], maxTimeMS: 5000, " \
	"writeConcern: @write_concern"

/* A generation that is born whole: the plan's head is all that the array holds, and `moved`
 * elements are in batches of the plan's generation, of which `open` is the last. Inside a
 * transaction; `n` of the link's reply is 1 where the array has still so many elements and no
 * state, and the flag's field is what it was (NULL: not there, or the rule has none). */
must_check enum link_result main_adopt(struct pass_state *pass, const struct element *flag);

/* The same of an array that was edited in place, inside a transaction. The plan's generation is the
 * later name. */
enum pass main_hold(struct pass_state *pass); /* others wait from here on */
enum pass main_cut_edited(struct pass_state *pass);
/* After a cut. */
void main_count_cut(struct pass_state *pass);

/* M2 to M4 of an array that was edited in place: round_edited.c. */
enum pass edited_move(struct pass_state *pass);

/* Commands on the overflow: round_overflow.c. */
must_check enum link_result overflow_find_foreign(struct pass_state *pass, bool *found);
must_check enum link_result overflow_find_open(struct pass_state *pass, bool *found); /* M2 */
/* Where that one ends before n: of all that begin at or before n, the one that reaches furthest,
 * with the greatest number among them. */
must_check enum link_result overflow_find_furthest(struct pass_state *pass);
/* M2 of an array that was edited in place. `last`: the greatest number of all. */
must_check enum link_result overflow_find_open_edited(struct pass_state *pass, bool *found,
						      int64_t *last);
/* M3b: the open batch has room. `*filled` is false where it had none for the next element. */
enum pass overflow_fill(struct pass_state *pass, bool *filled);
enum pass overflow_link_stored(struct pass_state *pass);       /* M2a */
enum pass overflow_store(struct pass_state *pass, bool found); /* M3b, M3c */
/* After an insert: what got in is there, and M4 may be sent. */
bool overflow_stands(const struct link *link, enum link_result result);
/* M3c of one document or several: inserts their next batches, one's behind another's, as many as
 * one command may carry. What got in counts as stored, also where one was refused. `sent` is how
 * many batches there were to insert: none at the tails' ends. */
must_check enum link_result overflow_insert(struct pass_state *const *passes, size_t count,
					    size_t *sent);
