/* What the files of an edit share. */
#pragma once

#include "protocol/template.h"
#include "rules/edit/edit.h"
#include "rules/rule/state.h"
#include "rules/sequence/sequence_inner.h"

#define EDIT_ROUNDS_LEAST 4

/* That of `target`. */
static inline const struct rule *edit_rule(const struct edit *edit)
{
	return edit->namespace->targets[edit->target].rule;
}

/* An expression: how many elements the array has in its document; -1: it is none. */
#define EDIT_LENGTH "{$cond: [{$isArray: '$@array'}, {$size: '$@array'}, -1]}"

/* ---- edit_plan.c: what is known beforehand ---- */

/* Of one array alone: `target`, the last one else. */
must_check bool edit_concerns_one(struct edit *edit);

/* ---- edit.c: the story ---- */

/* E0's filter, for this purpose. */
enum edit_outcome edit_write(struct edit *edit, enum edit_purpose purpose);
/* The documents of a cursor's reply. False: `*outcome` says what it was instead. */
must_check bool edit_open_batch(struct edit *edit, struct packet *reply, struct cursor *cursor,
				enum edit_outcome *outcome);
/* The document at work matches no longer. */
enum edit_outcome edit_take_none(struct edit *edit);

/* ---- edit_together.c: several documents of a statement in one command ---- */

/* edit->list.together. */
void edit_decide_together(struct edit *edit);
/* A document that a search has found, for the list. `whole`: its arrays had been put together. */
void edit_list_document(struct edit *edit, struct bytes document, bool whole);
/* What is to be written next, from edit->list.next on. False: that one goes alone. */
must_check bool edit_gather(struct edit *edit);
/* What became of them: those up to edit->list.next are done, or no longer meant. If edit->end.reply
 * has an error, it is that of the last of these alone. False: it can't be read. */
must_check bool edit_take_together(struct edit *edit);

/* ---- edit_look.c: a document whose array is spilled ---- */

enum edit_outcome edit_take_look(struct edit *edit, struct packet *reply);
enum edit_outcome edit_take_probe(struct edit *edit, struct packet *reply);
enum edit_outcome edit_take_settle(struct edit *edit, struct packet *reply);
/* Sets the array `target` as a whole: behind edit_sets_another. */
enum edit_outcome edit_set_whole(struct edit *edit);

/* ---- edit_refuse.c: it can't go on ---- */

bool edit_in_transaction(const struct edit *edit);
/* What was asked last applied nothing. */
enum edit_outcome edit_refuse(struct edit *edit, enum error_code code, const char *message);
enum edit_outcome edit_refuse_unauthorized(struct edit *edit);
enum edit_outcome edit_refuse_unnamed(struct edit *edit);
enum edit_outcome edit_refuse_unreadable(struct edit *edit);
enum edit_outcome edit_refuse_memory(struct edit *edit, const char *message);
enum edit_outcome edit_refuse_time(struct edit *edit);
/* The state of the document at work is damaged, or of a rule that is gone (`foreign`). */
enum edit_outcome edit_refuse_state(struct edit *edit, bool foreign);
/* Counts a round that was lost against another writer. False: enough of them. */
must_check bool edit_may_try_on(struct edit *edit);
/* The same, as long as no pause is needed. */
must_check bool edit_tries_at_once(struct edit *edit);
/* What was asked lost against another writer: LOOK after a pause. */
enum edit_outcome edit_pause(struct edit *edit);
/* The overflow did not hold all that the state of the document at work links. */
enum edit_outcome edit_take_shortage(struct edit *edit);
/* The server's error to a command of Spillway's. */
enum edit_outcome edit_fail(struct edit *edit, struct packet *reply);
/* The server's error to a read. True: `end.failure` has it, the filter itself causes it. */
must_check bool edit_keep_failure(struct edit *edit, struct packet *reply,
				  enum edit_outcome *outcome);
/* The code of the command's error, or of its only statement's; 0: there is none. */
int64_t edit_error_code(const struct reply_summary *summary);

/* ---- edit_filter.c: the filters that it writes ---- */

/* The client's filter, or what is left of it behind a fold. */
struct bytes edit_filter_left(const struct edit *edit);
/* `_id` can be named exactly under the write's collation. */
bool edit_can_pin(const struct edit *edit, const struct element *id);
/* @pin: the document at work, and no other. */
struct fill edit_fill_pin(const struct edit *edit);
/* ..@rest: the conditions on anything but ruled arrays. */
struct fill edit_fill_rest(const struct edit *edit);
/* ..@guard: no concerned array has a state. */
struct fill edit_fill_guard(const struct edit *edit);
/* ..@candidates: conditions that each document with a state meets that the filter may match. */
struct fill edit_fill_candidates(const struct edit *edit);
/* The client's filter, as far as it is not answered yet: @filter. */
struct fill edit_fill_filter(const struct edit *edit);
/* A check-and-set: the filter without its conditions on arrays, which were answered, and what was
 * read. */
void edit_write_swap(struct edit *edit);
/* The same behind a probe: the filter, which main's part has to meet, and the overflow that was
 * looked into. */
void edit_write_probed(struct edit *edit);
/* The update as a whole, on a document whose array `target` stays what it is. */
void edit_write_whole(struct edit *edit);
/* edit->bare, when what was read has been folded back. */
void edit_write_bare(struct edit *edit);

/* ---- edit_commands.c: what it sends ---- */

/* ..@whole: the stages that put documents together and judge the filter on them. */
struct fill edit_fill_whole(const struct edit *edit);
/* The client's bypassDocumentValidation, or none: what is written to main goes by it, too. */
struct element edit_bypass(const struct edit *edit);
/* Ends a read that `body` opened and that has its own collation. */
enum edit_outcome edit_send_body(struct edit *edit, size_t body);
/* Ends a read that `body` opened. */
enum edit_outcome edit_send_read(struct edit *edit, size_t body);
/* ..@lengths: of the concerned arrays, named by target. */
struct fill edit_fill_lengths(const struct edit *edit);
/* ..@read: what a search reads beside the `_id`, where several documents are written at once; with
 * ..@lengths. */
struct fill edit_fill_read(const struct edit *edit);
/* The document, or documents, that the write is about: their `_id`s. */
enum edit_outcome edit_send_search(struct edit *edit);
enum edit_outcome edit_send_get_more(struct edit *edit);
enum edit_outcome edit_send_look(struct edit *edit);
enum edit_outcome edit_send_probe(struct edit *edit);
enum edit_outcome edit_send_settle(struct edit *edit);

/* Appends the conditions that the document's overflow meets. A collation may find other texts equal
 * to the `_id`. */
void edit_write_linked(struct buffer *out, const struct edit *edit);

/* ---- edit_probe.c: PROBE of an array that was edited in place ---- */

must_check bool edit_probes_edition(const struct edit *edit);
enum edit_outcome edit_send_probe_of_edition(struct edit *edit);
enum edit_probed {
	EDIT_PROBED_FOUND,   /* the overflow has the value */
	EDIT_PROBED_MISSING, /* and all of it was looked into */
	EDIT_PROBED_UNSURE,  /* a batch has it of which a part alone counts */
	EDIT_PROBED_SHORT,   /* something is missing */
};
enum edit_probed edit_take_probe_of_edition(const struct edit *edit, struct bytes answer);

/* ---- edit_state.c: what E1 has read ---- */

/* The copy that `id` looks into from now on. False if the `_id` can't be named: it may have changed
 * its form since it was listed. */
must_check bool edit_keep_document(struct edit *edit, struct bytes document);
/* The same of SETTLE's answer: the state, and how much of each array is in main. False also if an
 * array that was read has no state. */
must_check bool edit_keep_settled(struct edit *edit, struct bytes document);
/* Appends that document instead. False: nothing is appended. */
must_check bool edit_write_settled(const struct edit *edit, struct bytes document,
				   struct buffer *out);
/* What was read of an array's state; false where it has none. */
must_check bool edit_state_of(const struct edit *edit, size_t target, struct element *state);
/* The same as it was read; false also if it is damaged. */
must_check bool edit_read_state(const struct edit *edit, size_t target, struct state *read);
/* The state can be named; */
must_check bool edit_has_state(const struct edit *edit, size_t target);
/* and the head's length is there, too: of any other state a membership is not asked. That of an
 * array that was edited in place has it elsewhere. */
must_check bool edit_has_head(const struct edit *edit, size_t target);
/* Elements in main, of an array whose state can be named; -1: it is another one, or nobody has
 * read how many. */
int64_t edit_main_length(const struct edit *edit, size_t target);
/* Elements in the overflow, of an array whose state has a count. */
int64_t edit_moved_count(const struct edit *edit, size_t target);
/* The document has a state of a concerned array. */
must_check bool edit_is_spilled(const struct edit *edit, struct bytes document);
/* Some spilled array can't be what it is set to: `target`. `whatever` its length is: nobody can
 * compare the two, as it is too large to be folded back or its overflow is lost. */
must_check bool edit_sets_another(struct edit *edit, bool whatever);

/* ---- edit_search.c: the search, where the overflow is asked, too ---- */

/* edit->search.by_overflow: whether that helps. Not in a transaction, which takes no such stage. */
void edit_decide_search(struct edit *edit);
enum edit_outcome edit_search_by_overflow(struct edit *edit);
enum edit_hits {
	EDIT_HITS_FOUND,  /* the first `*documents` of the batch are those that match, and all */
	EDIT_HITS_AGAIN,  /* documents were named that had not been candidates: send it again */
	EDIT_HITS_KILL,   /* edit->search.cursor_id is not needed: edit_send_kill, then search them
			     all */
	EDIT_HITS_ALL,    /* search all of them */
	EDIT_HITS_FAILED, /* the error stands: that of a hit's document whose state can't be read,
			     or of a command that was interrupted */
};
enum edit_hits edit_take_hits(struct edit *edit, const struct packet *reply, struct bytes *batch,
			      size_t *documents);
enum edit_outcome edit_send_kill(struct edit *edit);

/* ---- edit_fold.c: how it folds arrays back ---- */

enum edit_outcome edit_begin_fold(struct edit *edit);
enum edit_outcome edit_take_overflow(struct edit *edit, struct packet *reply);
enum edit_outcome edit_take_fold(struct edit *edit, struct packet *reply);

/* ---- edit_place.c: edits in place ---- */

#define EDIT_TOO_LARGE "the whole array, which this write needs in one document, passes 16 MB"
#define EDIT_COPIES_MOST 48000000 /* bytes of the batches that an edit concerns */

/* edit->place.update is the edit: of one array, edit->target, whose state can be read. */
must_check bool edit_may_place(struct edit *edit);
/* Behind edit_may_place. */
enum edit_outcome edit_begin_place(struct edit *edit);
enum edit_outcome edit_take_place(struct edit *edit, struct packet *reply);

/* ---- place_batches.c: what it copies ---- */

enum place_listed {
	PLACE_LISTED,
	PLACE_LISTED_FITS, /* the whole array fits into a document */
	PLACE_LISTED_LONG, /* the answer would have the whole array, and pass a message */
	PLACE_LISTED_HOLE,
	PLACE_LISTED_BROKEN,
};
/* The reply to TILES. */
must_check bool place_list(struct edit *edit, struct packet *reply);
/* The same of LENGTHS, behind it. */
must_check enum place_listed place_measure(struct edit *edit, const struct packet *reply);
/* The reply to ASK_MAIN has the document. */
bool place_found(const struct packet *reply);
/* The least number of a batch in the overflow, or 0. */
int64_t place_lowest(const struct edit *edit, const struct packet *reply);
/* The least number of a copy; all are below place->lowest. */
int64_t place_first(const struct edit *edit);
/* Copies of what HITS has found. False: the reply can't be read. */
must_check bool place_copy(struct edit *edit, const struct packet *reply);
/* Copies of what is in main, as far as X1 has to know what becomes of it. */
void place_copy_main(struct edit *edit);
/* The rule keeps the array's length in the document, and it changes. */
bool place_counts_total(const struct edit *edit);
/* Elements of main's "head" or "tail". */
int64_t place_length(const struct edit *edit, const char *part);
/* edit->place.aim of an update that means one element by its place; */
void place_aim(struct edit *edit);
/* the same of $pop, and what X2 leaves where the element is in main. */
void place_aim_pop(struct edit *edit);
enum place_asked {
	PLACE_ASKED_THERE, /* an element of edit->place.aim.piece meets the condition, */
	PLACE_ASKED_PART,  /* or one of its batch that does not count: others hold its position */
	PLACE_ASKED_NOWHERE,
};
/* The reply to ASK. */
must_check bool place_take_asked(struct edit *edit, const struct packet *reply);
/* The first piece from PIECE on, of a batch that the reply named. */
enum place_asked place_ask_from(struct edit *edit, size_t piece);
/* That of edit->place.aim. */
struct place_piece place_aimed(const struct edit *edit);
/* Appends the condition that the batch of edit->place.aim.piece alone meets. */
void place_write_aimed(struct buffer *out, const struct edit *edit);
/* What has become of the copies. */
must_check bool place_take_sizes(struct edit *edit, const struct packet *reply);

/* ---- edit_place_commands.c: what it sends ---- */

enum edit_outcome edit_send_hold(struct edit *edit);
enum edit_outcome edit_send_clean(struct edit *edit);
enum edit_outcome edit_send_unmark(struct edit *edit);
enum edit_outcome edit_send_tiles(struct edit *edit);
enum edit_outcome edit_send_lengths(struct edit *edit);
enum edit_outcome edit_send_ask_main(struct edit *edit);
enum edit_outcome edit_send_ask(struct edit *edit);
enum edit_outcome edit_send_ask_part(struct edit *edit);
enum edit_outcome edit_send_lowest(struct edit *edit);
enum edit_outcome edit_send_hits(struct edit *edit);
enum edit_outcome edit_send_hits_on(struct edit *edit);
enum edit_outcome edit_send_copies(struct edit *edit);
enum edit_outcome edit_send_apply(struct edit *edit);
enum edit_outcome edit_send_sizes(struct edit *edit);
enum edit_outcome edit_send_discard(struct edit *edit);
enum edit_outcome edit_send_commit(struct edit *edit);
enum edit_outcome edit_send_abort(struct edit *edit);
enum edit_outcome edit_send_restore(struct edit *edit);
enum edit_outcome edit_send_restore_marks(struct edit *edit);
enum edit_outcome edit_send_restore_copies(struct edit *edit);
/* X2: the client's statement makes the copies count. Else the statement as it is, where no batch
 * changes, nor the head. */
enum edit_outcome edit_write_placed(struct edit *edit, bool counts);

/* ---- edit_words.c: errors that quote the filter, or that our stages raised ---- */

/* `reply` is one. */
bool edit_words_wanted(const struct edit *edit);
/* Asks for mongod's words on the client's own filter, */
enum edit_outcome edit_send_words(const struct edit *edit);
/* which take their place in `reply`. */
void edit_take_words(struct edit *edit, const struct packet *explained);
/* The client's pipeline has computed a name of Spillway's own: `reply` says so, with code 115. True
 * where it was that. */
bool edit_tell_forged(struct edit *edit);
