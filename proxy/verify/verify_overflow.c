/* The overflow by itself, as `spillway verify` looks at it: what no document refers to, its
 * indexes, and its garbage. */
#include "proxy/verify/verifying.h"

#include "proxy/base/clock.h"
#include "proxy/fitness/fitness.h"
#include "proxy/fitness/index_judge.h"
#include "proxy/mover/garbage.h"
#include "proxy/ownership/rule_owner.h"
#include "proxy/upstream/clauses.h"
#include "proxy/upstream/overflow_index.h"
#include "proxy/upstream/target_read.h"
#include "proxy/verify/verify_look.h"
#include "rules/rule/generation.h"
#include "rules/rule/overflow_document.h"

#include <stdlib.h>
#include <time.h>

static const struct job_report_kind unfit = {
	"unfit", REPORT_UNFINISHED, "the rule can't hold on the collection: nothing is mended",
	.name = "rule-unfit"};

struct orphans {
	int64_t young_from;
	int64_t dead, young, foreign;
};

static void take_orphan(void *context, struct bytes batch)
{
	struct orphans *orphans = context;

	if (!overflow_generation(batch).data)
		orphans->foreign++;
	else if (batch_is_young(batch, orphans->young_from))
		orphans->young++;
	else
		orphans->dead++;
}

static void report_garbage(struct job *job, const struct mover_target *target,
			   const struct element *link, int64_t batches, bool there)
{
	auto_free char *name = (there ? verify_main_name : verify_overflow_name)(target);
	char detail[64];

	snprintf(detail, sizeof(detail), "%lld batches", (long long)batches);
	job_report_add(&job->report, &verify_kinds[there ? VERIFY_GARBAGE : VERIFY_ORPHANS], name,
		       link, detail);
}

/* `there`: the document is, and says nothing of it, as behind a fold. */
static enum link_result look_at_orphan(struct job *job, struct mover_target *target,
				       const struct element *link, bool there)
{
	struct orphans orphans = {.young_from = (int64_t)time(NULL) -
						target->rule->gc_delay_ms / 1000 - 1};
	auto_free char *name = verify_overflow_name(target);
	char detail[64];
	enum link_result result =
		target_read_overflow(job->link, target, link, take_orphan, &orphans);

	if (result != LINK_DONE)
		return result;
	if (orphans.foreign > 0) {
		snprintf(detail, sizeof(detail), "%lld documents", (long long)orphans.foreign);
		job_report_add(&job->report, &verify_kinds[VERIFY_FOREIGN], name, link, detail);
	}
	job_report_count(&job->report, "waiting garbage", orphans.young);
	if (orphans.dead == 0)
		return LINK_DONE;
	if (verify_repairs(job) && ((const struct verifying *)job->context)->collects &&
	    target_may_be_id(link)) {
		verify_keep_garbage(job->context, link);
		return LINK_DONE;
	}
	report_garbage(job, target, link, orphans.dead, there);
	return LINK_DONE;
}

/* Numbers are equal to the overflow, too, however they are written; texts only byte by byte. */
static bool is_overflow_of(const struct element *id, const struct element *link)
{
	return id->type != BSON_BYTE_STRING || bytes_equal(id->value, link->value);
}

/* The walk over documents judges the overflow of those it finds: the ones that look ordinary it
 * doesn't. */
static enum link_result verify_orphan(struct job *job, struct mover_target *target,
				      const struct linked *linked)
{
	struct element link = {.type = linked->link.type, .value = linked->link.value};
	struct verify_document verify;
	struct bytes main;
	uint8_t *image;
	enum link_result result = verify_look(job, target, &link, &verify, &image, &main);
	bool there = result == LINK_DONE && image && is_overflow_of(&verify.plan.id, &link);
	bool judged = there && (verify.plan.kind != PLAN_REST || verify.plan.generation.data ||
				flag_stands(target->rule, main));

	verify_document_fini(&verify);
	bson_free(image);
	return result == LINK_DONE && !judged ? look_at_orphan(job, target, &link, there) : result;
}

must_check enum link_result verify_overflow_walk(struct job *job, struct mover_target *target)
{
	struct link_pages pages = {.link = job->link, .target = target};
	enum link_result result = LINK_DONE;

	while (result == LINK_DONE && !pages.ended) {
		result = link_pages_next(&pages);
		for (size_t i = 0; result == LINK_DONE && i < pages.count; i++)
			if (pages.all[i].moved < 0)
				result = verify_orphan(job, target, &pages.all[i]);
	}
	link_pages_fini(&pages);
	return result;
}

/* Indexes. */

static void report_order(struct job *job, const struct mover_target *target,
			 const struct overflow_index *order)
{
	auto_free char *name = verify_overflow_name(target);
	char reason[500];

	overflow_index_explain(order, target->rule, reason, sizeof(reason));
	job_report_add(&job->report, &verify_kinds[VERIFY_INDEX], name, NULL, reason);
}

static bool has_unique(const struct overflow_indexes *indexes)
{
	return indexes->unique.length > 0 || indexes->placed;
}

static void report_indexes(struct job *job, const struct mover_target *target,
			   const struct overflow_indexes *indexes)
{
	auto_free char *name = verify_overflow_name(target);
	struct cursor cursor;
	struct element each;
	uint64_t bit = 1;

	if (!has_unique(indexes))
		job_report_add(&job->report, &verify_kinds[VERIFY_INDEX], name, NULL,
			       "the unique one of link and batch number");
	else if (!indexes->order.name)
		report_order(job, target, &indexes->order);
	if (target->rule->overflow.indexes.length == 0)
		return;
	require(cursor_open(&cursor, target->rule->overflow.indexes));
	for (; cursor_next(&cursor, &each) == CURSOR_ELEMENT; bit <<= 1)
		if (!(indexes->of_rule & bit))
			job_report_add(&job->report, &verify_kinds[VERIFY_INDEX], name, NULL,
				       "one of the rule's own");
}

/* Makes the indexes, and looks whether documents may be moved here. */
static enum link_result prepare(struct job *job, struct mover_target *target)
{
	struct verifying *verifying = job->context;
	auto_free char *name = verify_main_name(target);
	char reason[TARGET_REASON];

	verifying->unfit = verifying->collects = false;
	if (!verify_repairs(job))
		return LINK_DONE;
	if (target->read_only) {
		verifying->unfit = true;
		job_report_add(&job->report, &unfit, name, NULL,
			       "a rule on it is read-only ('access')");
		return LINK_DONE;
	}
	if (fitness_check(job->link, job->targets, target, FITNESS_OF_BOTH) == LINK_LOST)
		return LINK_LOST;
	verifying->unfit = target_unfit(job->targets, bytes_of(target->database),
					bytes_of(target->collection), reason, sizeof(reason)) ||
			   rule_owner_is_open(target, reason, sizeof(reason));
	if (verifying->unfit) {
		job_report_add(&job->report, &unfit, name, NULL, reason);
		return LINK_DONE;
	}
	return rule_owner_collects(job->link, target, &verifying->collects);
}

/* `walks`: the overflow can be walked by its index. */
must_check enum link_result verify_overflow_indexes(struct job *job, struct mover_target *target,
						    bool *walks)
{
	struct overflow_indexes indexes = {0};
	struct collection_facts facts = {0};
	enum link_result result = prepare(job, target);

	if (result == LINK_DONE)
		result = facts_read_indexes(job->link, target->overflow_database,
					    target->overflow_collection, &facts);
	judge_overflow_indexes(target->rule, &facts.indexes, &indexes);
	*walks = has_unique(&indexes) && indexes.order.name;
	if (result == LINK_DONE && !facts.absent) /* else nothing was moved yet */
		report_indexes(job, target, &indexes);
	overflow_index_fini(&indexes.order);
	facts_fini(&facts);
	return result;
}

static bool is_of_corrupt(const struct verifying *verifying, struct bytes generation)
{
	for (size_t at = 0; at < verifying->corrupt.length; at += GENERATION_BYTES)
		if (bytes_equal(generation,
				(struct bytes){verifying->corrupt.data + at, GENERATION_BYTES}))
			return true;
	return false;
}

struct astray {
	const struct verifying *verifying;
	int64_t count;
};

static void take_astray(void *context, struct bytes batch)
{
	struct astray *astray = context;

	astray->count += is_of_corrupt(astray->verifying, overflow_generation(batch));
}

/* Not where a part of it is what a corrupt document lacks. */
static enum link_result clear_link(struct job *job, struct mover_target *target,
				   const struct element *link)
{
	struct astray astray = {.verifying = job->context};
	auto_free char *name = verify_overflow_name(target);
	enum link_result result = LINK_DONE;
	char detail[64];

	if (astray.verifying->corrupt.length > 0)
		result = target_read_overflow(job->link, target, link, take_astray, &astray);
	if (result != LINK_DONE)
		return result;
	if (astray.count == 0)
		return gc_clear(job->link, target, link, job->metrics);
	snprintf(detail, sizeof(detail), "%lld batches", (long long)astray.count);
	job_report_add(&job->report, &verify_kinds[VERIFY_ASTRAY], name, link, detail);
	return LINK_DONE;
}

/* Garbage goes when whoever still reads it has had time to. */
must_check enum link_result verify_overflow_clear(struct job *job, struct mover_target *target)
{
	struct verifying *verifying = job->context;
	struct buffer *garbage = &verifying->garbage;
	enum link_result result = LINK_DONE;
	struct element link;
	int64_t before;

	if (garbage->length > 0 &&
	    !job_pause(verifying->garbage_since + target->rule->gc_delay_ms - clock_now()))
		return LINK_LOST;
	for (size_t at = 0; result == LINK_DONE && at < garbage->length;) {
		struct bytes each = {garbage->data + at, (size_t)load_int32(garbage->data + at)};

		at += each.length;
		require(document_find(each, "_id", &link));
		before = atomic_load(&job->metrics->generations_collected);
		result = clear_link(job, target, &link);
		if (atomic_load(&job->metrics->generations_collected) > before)
			job_report_count(&job->report, "cleared", 1);
	}
	garbage->length = 0;
	return result;
}
