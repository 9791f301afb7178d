/* Documents that were spilled under another threshold, or whose batches overlap. */
#include "proxy/mover/refit.h"

#include "proxy/spill/fold.h"
#include "proxy/upstream/target_read.h"
#include "proxy/upstream/clauses.h"
#include "proxy/spill/plan.h"
#include "proxy/ownership/rule_record.h"
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
	char path[STATE_PATH_MAX];
	size_t filter = writer_open_document(out, name), either, each, condition;

	condition = writer_open_document(out, state_path(path, rule, "n"));
	writer_int32(out, "$gt", 0);
	writer_close(out, condition);
	either = writer_open_array(out, "$or");
	each = writer_open_document(out, "0");
	condition = writer_open_document(out, state_path(path, rule, "h"));
	writer_int64(out, "$ne", head_of(rule));
	writer_close(out, condition);
	writer_close(out, each);
	if (rule->when_outlier == RULE_EMPTY) {
		each = writer_open_document(out, "1");
		condition = writer_open_document(out, state_path(path, rule, "n"));
		writer_int64(out, "$lte", rule->threshold);
		writer_close(out, condition);
		writer_close(out, each);
	}
	writer_close(out, either);
	writer_close(out, filter);
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
	auto_buffer struct buffer out = {0}, scratch = {0};
	size_t start = writer_open(&out), filter;
	struct element first;
	struct bytes document, array;
	struct cursor cursor;
	bool found = false;
	enum link_result result;

	writer_string(&out, "find", target->overflow_collection);
	filter = writer_open_document(&out, "filter");
	command_equal(&out, rule->overflow.link, plan->id.type, plan->id.value);
	command_generation(&out, "_spill.g", plan->generation);
	writer_int64(&out, "_spill.p", 0);
	writer_close(&out, filter);
	writer_int32(&out, "limit", 1);
	writer_bool(&out, "singleBatch", true);
	writer_close(&out, start);
	result = link_find_one(link, target->overflow_database, buffer_view(&out), &document,
			       &found);
	*size = 0;
	if (result == LINK_DONE && found && overflow_elements(rule, document, &scratch, &array) &&
	    cursor_open(&cursor, array) && cursor_next(&cursor, &first) == CURSOR_ELEMENT)
		*size = element_raw(&first).length;
	return result;
}

/* Fat elements alone leave fewer in the document than the rule says. `other`: it is worth reading
 * the whole array, which tells. */
static enum link_result judge_head(struct link *link, const struct mover_target *target,
				   const struct plan *plan, bool *other)
{
	const struct rule *rule = target->rule;
	int64_t most = head_of(rule), bytes;
	size_t next;
	enum link_result result;

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

must_check enum link_result refit_document(struct link *link, struct mover_target *target,
					   const struct element *id, enum refit *end)
{
	const struct fold_how how = {.purpose = FOLD_ANOTHER, .most = FOLD_MOST};
	struct bytes main;
	uint8_t *image = NULL;
	int64_t elements;
	enum fold fold;
	bool other = false;
	enum link_result result = target_read_document(link, target, id, &image, &main);
	struct plan plan;

	*end = REFIT_RESTS;
	if (result == LINK_DONE && image) {
		plan = plan_make(target->rule, main);
		if ((plan.kind == PLAN_REST || plan.kind == PLAN_MOVE) && plan.moved > 0)
			result = judge_head(link, target, &plan, &other);
	}
	bson_free(image);
	if (result != LINK_DONE || !other)
		return result;
	result = fold_document(link, target, id, &how, &fold, &elements);
	if (result == LINK_DONE)
		*end = refit_end(fold);
	return result;
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

/* Where they begin, how large they are and, of batches, how many elements they hold. */
static void write_places(struct buffer *out, const struct rule *rule)
{
	size_t projection = writer_open_document(out, "projection"), held;

	writer_int32(out, "_id", 1);
	writer_string(out, "position", "$_spill.p");
	held = writer_open_document(out, "size");
	writer_string(out, "$bsonSize", "$$ROOT");
	writer_close(out, held);
	if (rule->overflow.layout == RULE_BATCHES) {
		auto_free char *array = bson_strdup_printf("$%s", rule->overflow.array);

		held = writer_open_document(out, "held");
		writer_string(out, "$size", array);
		writer_close(out, held);
	}
	writer_close(out, projection);
}

static enum link_result find_overlap(struct link *link, const struct mover_target *target,
				     const struct plan *plan, int64_t from, struct row *row)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), part, condition;

	*row = (struct row){0};
	writer_string(&out, "find", target->overflow_collection);
	part = writer_open_document(&out, "filter");
	command_equal(&out, target->rule->overflow.link, plan->id.type, plan->id.value);
	command_generation(&out, "_spill.g", plan->generation);
	condition = writer_open_document(&out, "_spill.p");
	writer_int64(&out, "$gte", from);
	writer_close(&out, condition);
	writer_close(&out, part);
	write_places(&out, target->rule);
	part = writer_open_document(&out, "sort");
	writer_int32(&out, "_spill.p", 1);
	writer_close(&out, part);
	command_read_concern(&out, link, link_time(link));
	writer_close(&out, start);
	return link_find(link, target->overflow_database, buffer_view(&out), take_batch, row);
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

must_check enum link_result refit_overlapping(struct link *link, struct mover_target *target,
					      const struct element *id, int64_t from,
					      enum refit *end)
{
	const struct fold_how how = {.purpose = FOLD_ANEW, .most = FOLD_MOST};
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
		if ((plan.kind == PLAN_REST || plan.kind == PLAN_MOVE) && plan.moved > 0)
			result = judge_overlap(link, target, &plan, from, &folds);
	}
	bson_free(image);
	if (result != LINK_DONE || !folds)
		return result;
	result = fold_document(link, target, id, &how, &fold, &elements);
	if (result == LINK_DONE)
		*end = refit_end(fold);
	return result;
}
