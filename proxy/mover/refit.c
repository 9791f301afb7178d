/* Documents that were spilled under another threshold, or whose batches overlap. */
#include "proxy/mover/refit.h"

#include "proxy/spill/fold.h"
#include "proxy/upstream/target_read.h"
#include "proxy/upstream/clauses.h"
#include "proxy/spill/plan.h"
#include "proxy/ownership/rule_record.h"
#include "rules/rule/counts.h"
#include "rules/rule/overflow_document.h"

#include <bson/bson.h>

#define FOLD_MOST (8 << 20) /* pushes to what is folded must have room until its tail has gone */

static int64_t head_of(const struct rule *rule)
{
	return rule->when_outlier == RULE_EMPTY ? 0 : rule->threshold;
}

/* Of an emptied array another head says nothing: one that would be ordinary now is short. */
void refit_write_candidates(struct buffer *out, const char *name, const struct rule *rule)
{
	template_write(
		out, name,
		rule->when_outlier == RULE_EMPTY
			? "{'_spill.@key.n': {$gt: 0}, $or: [{'_spill.@key.h': {$ne: @head}}, "
			  "{'_spill.@key.n': {$lte: @threshold}}]}"
			: "{'_spill.@key.n': {$gt: 0}, $or: [{'_spill.@key.h': {$ne: @head}}]}",
		fill("key", rule->key), fill_int64("head", head_of(rule)),
		fill_int64("threshold", rule->threshold));
}

must_check enum link_result refit_wanted(struct link *link, const struct mover_target *target,
					 bool *wanted)
{
	enum rule_record record = RULE_RECORD_NONE;
	enum link_result result = rule_record_read(link, target, &record, NULL);

	/* An account without rights there records nothing, and nobody else's limits either. */
	*wanted = result == LINK_REFUSED ||
		  (record != RULE_RECORD_LIMITS && record != RULE_RECORD_OTHER);
	return result == LINK_REFUSED ? LINK_DONE : result;
}

/* Bytes of the element that comes behind the head: the overflow's first. 0: it isn't there. */
static enum link_result measure_next(struct link *link, const struct mover_target *target,
				     const struct plan *plan, size_t *size)
{
	const struct rule *rule = target->rule;
	auto_buffer struct buffer scratch = {0};
	struct element first;
	struct bytes document, array;
	struct cursor cursor;
	enum link_result result = command_find_one(
		link, target->overflow_database, &document,
		"{find: @overflow, filter: {'@link': @id, '_spill.g': @generation, '_spill.p': "
		"0L}, "
		"limit: 1, singleBatch: true}",
		fill("overflow", target->overflow_collection), fill("link", rule->overflow.link),
		command_fill_equal("id", &plan->id), fill_binary("generation", plan->generation));

	*size = 0;
	if (result == LINK_DONE && document.data &&
	    overflow_elements(rule, document, &scratch, &array) && cursor_open(&cursor, array) &&
	    cursor_next(&cursor, &first) == CURSOR_ELEMENT)
		*size = element_raw(&first).length;
	return result;
}

/* Fat elements alone leave fewer in the document than the rule says. `other`: it is worth reading
 * the whole array, which tells. */
static enum link_result judge_head(struct link *link, const struct mover_target *target,
				   const struct plan *plan, int64_t from, bool *other)
{
	const struct rule *rule = target->rule;
	int64_t most = head_of(rule), bytes;
	size_t next;
	enum link_result result;

	(void)from;
	*other = plan->length >= plan->head &&
		 (plan->head != most || plan->moved + plan->length <= rule->threshold);
	if (!*other || plan->head >= most)
		return LINK_DONE;
	result = measure_next(link, target, plan, &next);
	bytes = plan->tail.at - plan->array.data + 1 + (int64_t)next;
	*other = next > 0 && bytes <= rule->max_bytes;
	return result;
}

static enum refit refit_end(enum fold fold)
{
	switch (fold) {
	case FOLD_BUSY:
		return REFIT_BUSY;
	case FOLD_DONE:
		return REFIT_FOLDED;
	case FOLD_RESTS:
	case FOLD_TOO_LARGE:
	case FOLD_BROKEN:
		return REFIT_RESTS;
	}
	require(!"an end of folding without a name");
}

/* Which arrays may be folded, and who says of one whether it is. */
struct refit_look {
	enum fold_purpose purpose;
	bool edited; /* only of arrays that were edited in place; else only of others */
	enum link_result (*judge)(struct link *link, const struct mover_target *target,
				  const struct plan *plan, int64_t from, bool *folds);
	int64_t from; /* for the judge */
};

static enum link_result refit(struct link *link, struct mover_target *target,
			      const struct element *id, const struct refit_look *look,
			      enum refit *end)
{
	const struct fold_how how = {.purpose = look->purpose, .most = FOLD_MOST};
	struct bytes main;
	uint8_t *image = NULL;
	int64_t elements;
	enum fold fold;
	bool folds = false;
	enum link_result result = target_read_document(link, target, id, &image, &main);
	struct plan plan;

	*end = REFIT_RESTS;
	if (result == LINK_DONE && image) {
		plan = plan_make(target->rule, main);
		if ((plan.kind == PLAN_REST || plan.kind == PLAN_MOVE) &&
		    plan_is_edited(&plan) == look->edited && (look->edited || plan.moved > 0))
			result = look->judge(link, target, &plan, look->from, &folds);
	}
	bson_free(image);
	if (result != LINK_DONE || !folds)
		return result;
	result = fold_document(link, target, id, &how, &fold, &elements);
	if (result == LINK_DONE)
		*end = refit_end(fold);
	return result;
}

must_check enum link_result refit_document(struct link *link, struct mover_target *target,
					   const struct element *id, enum refit *end)
{
	const struct refit_look look = {.purpose = FOLD_ANOTHER, .judge = judge_head};

	return refit(link, target, id, &look, end);
}

/* Batches by their positions, as far as they have come. */
struct row {
	int64_t end;
	int64_t size; /* of them, in bytes */
	bool begun, overlaps;
};

static bool take_integer(struct bytes document, const char *name, int64_t *value)
{
	struct element element;

	return document_find(document, name, &element) && element_integer(&element, value);
}

static void take_batch(void *context, struct bytes document)
{
	struct row *row = context;
	int64_t position = 0, held = 1; /* an element of its own */
	int64_t size = 0;

	if (!take_integer(document, "position", &position) ||
	    !take_integer(document, "size", &size))
		return;
	row->size += size;
	(void)take_integer(document, "held", &held);
	row->overlaps |= row->begun && position < row->end;
	row->begun = true;
	if (position + held > row->end)
		row->end = position + held;
}

/* Asks where overflow documents begin, how large they are and, of batches, how many elements they
 * hold. */
#define PLACES(held) \
	"{find: @overflow, filter: {'@link': @id, '_spill.g': @generation, '_spill.p': {$gte: " \
	"@from}}, " \
	"projection: {_id: 1, position: '$_spill.p', size: {$bsonSize: '$$ROOT'}" held "}, " \
	"sort: {'_spill.p': 1}, readConcern: @read_concern}"

static enum link_result find_overlap(struct link *link, const struct mover_target *target,
				     const struct plan *plan, int64_t from, struct row *row)
{
	const struct rule *rule = target->rule;
	const char *array = rule->overflow.array ? rule->overflow.array : "";

	*row = (struct row){0};
	return command_find(
		link, target->overflow_database, take_batch, row,
		rule->overflow.layout == RULE_BATCHES ? PLACES(", held: {$size: '$@array'}")
						      : PLACES(""),
		fill("overflow", target->overflow_collection), fill("link", rule->overflow.link),
		command_fill_equal("id", &plan->id), fill_binary("generation", plan->generation),
		fill("from", from), fill("array", array));
}

/* The last ones are looked at first, which may be enough. An array that is too large is not even
 * read. */
static enum link_result judge_overlap(struct link *link, const struct mover_target *target,
				      const struct plan *plan, int64_t from, bool *folds)
{
	struct row row;
	enum link_result result = find_overlap(link, target, plan, from, &row);

	if (result == LINK_DONE && row.overlaps && from > 0)
		result = find_overlap(link, target, plan, 0, &row);
	*folds = result == LINK_DONE && row.overlaps && row.size <= FOLD_MOST;
	return result;
}

/* What counts of an array that was edited in place. */
static enum link_result judge_counting(struct link *link, const struct mover_target *target,
				       const struct plan *plan, int64_t from, bool *folds)
{
	struct row row = {0};
	enum link_result result = command_find(
		link, target->overflow_database, take_batch, &row,
		"{find: @overflow, filter: {'@link': @id, " COUNTS_CONDITIONS "}, projection: "
		"{_id: 1, position: '$_spill.p', size: {$bsonSize: '$$ROOT'}}, readConcern: "
		"@read_concern}",
		fill("overflow", target->overflow_collection),
		fill("link", target->rule->overflow.link), command_fill_equal("id", &plan->id),
		COUNTS_FILLS(&plan->editions));

	(void)from;
	*folds = result == LINK_DONE && row.size <= FOLD_MOST &&
		 row.size <= target->rule->fold_limit / 2;
	return result;
}

must_check enum link_result refit_edited(struct link *link, struct mover_target *target,
					 const struct element *id, enum refit *end)
{
	const struct refit_look look = {
		.purpose = FOLD_ANEW, .edited = true, .judge = judge_counting};

	return refit(link, target, id, &look, end);
}

must_check enum link_result refit_overlapping(struct link *link, struct mover_target *target,
					      const struct element *id, int64_t from,
					      enum refit *end)
{
	const struct refit_look look = {.purpose = FOLD_ANEW, .judge = judge_overlap, .from = from};

	return refit(link, target, id, &look, end);
}
