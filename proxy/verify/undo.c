/* `spillway undo`: folds everything back that a rule has moved, and takes away what is left of it.
 */
#include "proxy/verify/undo.h"
#include "proxy/job/await_reads.h"
#include "proxy/job/job_walk.h"
#include "proxy/base/clock.h"
#include "proxy/job/throttle.h"

#include "proxy/fitness/fitness.h"
#include "proxy/spill/fold.h"
#include "proxy/upstream/clauses.h"
#include "proxy/mover/garbage.h"
#include "proxy/ownership/neighbours.h"
#include "proxy/upstream/overflow_index.h"
#include "proxy/ownership/rule_owner.h"
#include "proxy/ownership/rule_record.h"
#include "proxy/verify/undo_group.h"
#include "proxy/verify/verify_look.h"
#include "rules/rule/state.h"

#include <bson/bson.h>
#include <stdio.h>

static const struct job_report_kind too_large = {"too large", REPORT_UNFINISHED,
						 "the document would pass 16 MB: it stays",
						 .name = "too-large"};
static const struct job_report_kind corrupt = {
	"corrupt", REPORT_CORRUPT,
	"elements are missing or differ: it stays; 'spillway verify' says more", .name = "corrupt"};
static const struct job_report_kind refused = {"refused", REPORT_UNFINISHED,
					       "the server refuses to write it: it stays",
					       .name = "refused"};
static const struct job_report_kind busy = {
	"busy", REPORT_UNFINISHED, "it changed each time: run the command again", .name = "busy"};
static const struct job_report_kind again = {
	"moved again", REPORT_UNFINISHED,
	"a Spillway moves documents out again: stop it, or raise "
	"its threshold, then run the command again",
	.name = "moved-again"};
static const struct job_report_kind foreign = {
	"foreign", REPORT_UNFINISHED,
	"the overflow has documents that Spillway did not write, or that came just now: look at "
	"them, or run the command again",
	.name = "foreign-overflow"};
static const struct job_report_kind kept = {"kept", REPORT_UNFINISHED,
					    "the empty overflow collection and the rule's record: "
					    "another Spillway is connected, or that can't be "
					    "asked; run the command again when all are stopped",
					    .name = "record-kept"};
static const struct job_report_kind others = {
	"another's", REPORT_UNFINISHED, "the rule in the file is not the one that moved documents",
	.name = "rule-of-other"};
static const struct job_report_kind hidden = {
	"hidden", REPORT_UNFINISHED, "the overflow can't be walked: nothing is folded back",
	.name = "overflow-index-hidden"};
static const struct job_report_kind unowned = {
	"not known", REPORT_UNFINISHED,
	"the overflow is not recorded as this rule's: nothing of it is removed; correct the rule's "
	"namespace, or let the account read the database 'spillway'",
	.name = "owner-unknown"};
static const struct job_report_kind record_stays = {
	"record", REPORT_LEFT,
	"the rule's record stays: the upstream account may not remove from 'spillway.rules'",
	.name = "record-stays"};
static const struct job_report_kind unseen = {
	"reads", REPORT_LEFT,
	"it is not known whether reads go on that began before arrays were folded back: without "
	"the rule they may return short arrays",
	.name = "reads-unseen"};

#define NAMESPACE_NOT_FOUND 26

/* Beside the calling thread, if groups are at work. */
#define HELPERS_IN_GROUPS 3

/* Any hand's. */
struct undoing {
	_Atomic int64_t last_fold; /* when; 0: none */
	int64_t awaited;           /* the last fold before which no read began that goes on */
	atomic_bool proven;        /* a tail that came back lay in the target's overflow */
	bool dropped;              /* the target's overflow is gone */
	atomic_bool stayed;        /* sound documents did, and were told of */
	atomic_bool damaged;       /* some are corrupt, or may be */
	bool second;               /* the walk that looks for what was moved again */
	bool corrupt;              /* that walk has met what says that elements are elsewhere */
	bool connected;            /* another Spillway is: nothing is dropped in this run */
	struct throttle throttle;
};

/* Every document with a state; those of other rules alone come along. */
static void write_filter(struct buffer *out, const char *name, const struct rule *rule)
{
	(void)rule;
	template_write(out, name, "{_spill: {$exists: true}}");
}

static void report_document(struct job *job, const struct mover_target *target,
			    const struct job_report_kind *kind, const struct element *id,
			    const char *detail)
{
	auto_free char *name = bson_strdup_printf("%s.%s", target->database, target->collection);

	job_report_list(&job->report, kind, name, id, detail);
}

/* A refusal that is this document's own, such as a validator's. */
static bool is_refused(const struct job *job, enum link_result result)
{
	const struct link_error *error = link_error(job->link);

	return result == LINK_REFUSED && !error->write_concern && error->code != ERROR_UNAUTHORIZED;
}

static void count_folded(struct job *job, bool spilled, int64_t elements)
{
	struct undoing *undoing = job->context;

	undoing->last_fold = clock_now();
	if (elements > 0)
		undoing->proven = true;
	job->documents++;
	job->elements += elements;
	job_report_count(&job->report, "documents", spilled ? 1 : 0);
	job_report_count(&job->report, "elements", elements);
}

/* The second walk only looks. */
static enum link_result fold_sound(struct job *job, struct mover_target *target,
				   const struct element *id, bool spilled)
{
	struct undoing *undoing = job->context;
	const struct fold_how how = {.purpose = FOLD_LEAVES,
				     .looks = !job->options.execute || undoing->second};
	enum fold end;
	int64_t elements;
	enum link_result result = fold_document(job->link, target, id, &how, &end, &elements);

	if (is_refused(job, result)) {
		undoing->stayed = true;
		report_document(job, target, &refused, id, link_error(job->link)->message);
		return LINK_DONE;
	}
	if (result != LINK_DONE)
		return result;
	if (undoing->second) {
		/* Those that stayed are there, too. */
		if (end == FOLD_DONE && spilled && !undoing->stayed)
			report_document(job, target, &again, id, NULL);
		return LINK_DONE;
	}
	if (end == FOLD_TOO_LARGE)
		report_document(job, target, &too_large, id, NULL);
	else if (end == FOLD_BROKEN)
		report_document(job, target, &corrupt, id, NULL);
	else if (end == FOLD_BUSY)
		report_document(job, target, &busy, id, NULL);
	if (end == FOLD_BUSY)
		undoing->stayed = true;
	if (end == FOLD_DONE)
		count_folded(job, spilled, elements);
	return LINK_DONE;
}

/* The second walk tells of them where the first one did not come. */
static void stay_corrupt(struct job *job, const struct mover_target *target,
			 const struct element *id, const char *detail)
{
	struct undoing *undoing = job->context;

	atomic_store(&undoing->damaged, true);
	if (undoing->second)
		undoing->corrupt = true;
	if (!undoing->second || !job_report_found(&job->report))
		report_document(job, target, &corrupt, id, detail);
}

static enum link_result undo_document(struct job *job, struct mover_target *target,
				      const struct element *id)
{
	struct verify_document verify;
	struct bytes main;
	uint8_t *image;
	enum link_result result = verify_look(job, target, id, &verify, &image, &main);
	bool sound = !verify_document_has(&verify, REPORT_CORRUPT);
	struct element state;

	if (result == LINK_DONE && image && sound)
		result = fold_sound(job, target, id, state_find(target->rule, main, &state));
	else if (result == LINK_DONE && image)
		stay_corrupt(job, target, id, verify.found[0].detail);
	verify_document_fini(&verify);
	bson_free(image);
	return result;
}

static bool is_slow(const struct job *job)
{
	return job->options.rate;
}

static enum link_result undo_one(struct job *job, struct mover_target *target,
				 const struct element *id)
{
	struct undoing *undoing = job->context;
	enum link_result result = undo_document(job, target, id);

	return result == LINK_DONE && job->options.execute && !undoing->second
		       ? throttle_wait(&undoing->throttle, job)
		       : result;
}

/* Several documents step by step together, and alone who does not get through with the others. */
static enum link_result undo_several(struct job *job, struct mover_target *target, struct bytes ids)
{
	struct undoing *undoing = job->context;
	struct undo_group group;
	enum link_result result = undo_group_fold(job->link, target, ids, &group);

	for (size_t i = 0; result == LINK_DONE && i < group.count; i++) {
		const struct undo_member *member = &group.members[i];

		if (member->done)
			count_folded(job, true, member->elements);
		else
			result = undo_document(job, target, &member->id);
	}
	return result == LINK_DONE ? throttle_wait(&undoing->throttle, job) : result;
}

static enum link_result keep_place(struct job *job, struct mover_target *target,
				   const struct place *place, int64_t stayed)
{
	return link_unless_unauthorized(job->link,
					rule_record_undo_place(job->link, target, place, stayed));
}

/* The overflow. */

#define CLEAR_AT_ONCE 100
#define CLEAR_BYTES (1 << 20) /* of links */

/* What has no document may be what a corrupt one lacks, which has another `_id` now. */
static bool may_go(const struct job *job, const struct linked *linked)
{
	const struct undoing *undoing = job->context;

	return linked->moved == LINKED_NO_STATE ||
	       (linked->moved == LINKED_NO_DOCUMENT && !undoing->damaged);
}

/* So many links of the page, from `at` on, in one look. */
static enum link_result clear_some(struct job *job, struct mover_target *target,
				   const struct link_pages *pages, size_t *at)
{
	auto_buffer struct buffer links = {0};
	size_t start = writer_open(&links), count = 0;
	char name[12];

	for (; *at < pages->count && count < CLEAR_AT_ONCE && links.length < CLEAR_BYTES; (*at)++) {
		const struct place *link = &pages->all[*at].link;

		if (may_go(job, &pages->all[*at]))
			writer_renamed(&links, writer_index(name, count++),
				       &(struct element){.type = link->type, .value = link->value});
	}
	writer_close(&links, start);
	return count > 0 ? gc_clear_links(job->link, target, buffer_view(&links), job->metrics)
			 : LINK_DONE;
}

static enum link_result clear_page(struct job *job, struct mover_target *target,
				   const struct link_pages *pages)
{
	enum link_result result = LINK_DONE;

	for (size_t at = 0; result == LINK_DONE && at < pages->count;)
		result = clear_some(job, target, pages, &at);
	return result;
}

/* A cursor, or the snapshot of a transaction, may hold documents as they were split. Once the
 * overflow is gone the rule may be taken out of the file, and they would come as they are. */
static bool await_earlier(struct job *job)
{
	static const struct await_reads what = {.unseen = &unseen,
						.since = "before arrays were folded back",
						.until = "the rule has to stay in the file",
						.folded = true};
	struct undoing *undoing = job->context;
	int64_t last_fold = undoing->last_fold;

	if (undoing->awaited == last_fold)
		return true;
	undoing->awaited = last_fold;
	return await_reads(job, &what);
}

/* What was folded back may still be read for a while: T_gc. */
static enum link_result clear_overflow(struct job *job, struct mover_target *target)
{
	const struct undoing *undoing = job->context;
	struct link_pages pages = {.link = job->link, .target = target};
	enum link_result result = LINK_DONE;

	if (undoing->last_fold && !job_await_readers(target, undoing->last_fold))
		return LINK_LOST;
	if (!await_earlier(job))
		return LINK_LOST;
	while (result == LINK_DONE && !pages.ended) {
		result = link_pages_next(&pages);
		if (result == LINK_DONE)
			result = clear_page(job, target, &pages);
	}
	link_pages_fini(&pages);
	return result;
}

static enum link_result find_any(struct job *job, const struct mover_target *target, bool *found)
{
	struct bytes document;
	enum link_result result = command_find_one(job->link, target->overflow_database, &document,
						   "{find: @overflow, limit: 1, singleBatch: true}",
						   fill("overflow", target->overflow_collection));

	if (result == LINK_DONE)
		*found = document.data;
	return result;
}

static enum link_result drop_overflow(struct job *job, const struct mover_target *target)
{
	enum link_result result = command_run(job->link, target->overflow_database,
					      "{drop: @overflow, writeConcern: @write_concern}",
					      fill("overflow", target->overflow_collection));

	if (result == LINK_REFUSED && link_error(job->link)->code == NAMESPACE_NOT_FOUND)
		return LINK_DONE;
	return result;
}

/* Once one is seen no further namespace waits for its end. */
static enum link_result look_for_others(struct job *job)
{
	struct undoing *undoing = job->context;

	return undoing->connected ? LINK_DONE : neighbours_find(job->link, &undoing->connected);
}

static enum link_result finish_overflow(struct job *job, const struct mover_target *target)
{
	auto_free char *name =
		bson_strdup_printf("%s.%s", target->overflow_database, target->overflow_collection);
	struct undoing *undoing = job->context;
	bool documents = false;
	enum link_result result = look_for_others(job);

	if (result == LINK_DONE)
		result = find_any(job, target, &documents);
	if (result != LINK_DONE || (undoing->corrupt && !documents))
		return result; /* what tells of its loss stays */
	if (documents) {
		if (!owner_is_known(target->owner))
			job_report_add(&job->report, &unowned, name, NULL, NULL);
		else if (!job_report_found(&job->report))
			job_report_add(&job->report, &foreign, name, NULL, NULL);
		return LINK_DONE;
	}
	/* A mover that has just stored a batch would link it although it is gone: nothing is
	 * dropped while one may be at work. Before and behind: one may have stored something and be
	 * gone, or be back. */
	result = look_for_others(job);
	if (result != LINK_DONE)
		return result;
	if (!undoing->connected) {
		undoing->dropped = true;
		return drop_overflow(job, target);
	}
	job_report_add(&job->report, &kept, name, NULL, NULL);
	return LINK_DONE;
}

static enum link_result forget_rule(struct job *job, const struct mover_target *target)
{
	const struct undoing *undoing = job->context;
	enum rule_record record;
	enum link_result result =
		undoing->dropped ? rule_record_remove(job->link, target) : LINK_DONE;

	if (result != LINK_REFUSED || link_error(job->link)->code != ERROR_UNAUTHORIZED)
		return result;
	result = rule_record_read(job->link, target, &record, NULL);
	if (result == LINK_DONE && record != RULE_RECORD_NONE)
		report_document(job, target, &record_stays, NULL, NULL);
	return link_unless_unauthorized(job->link, result);
}

/* What is left there at the end is found by walking it. */
static enum link_result ask_index(struct job *job, struct mover_target *target, bool *may)
{
	struct overflow_index index = {0};
	enum link_result result = overflow_index_find(job->link, target, &index);
	char reason[500];

	if (result == LINK_DONE && overflow_index_is_hidden(&index)) {
		*may = false;
		overflow_index_explain(&index, target->rule, reason, sizeof(reason));
		report_document(job, target, &hidden, NULL, reason);
	}
	overflow_index_fini(&index);
	return result;
}

/* Nothing is written where the overflow is another's, or what was moved is not to be read by the
 * rule in the file. `may`: neither is. */
static enum link_result begin(struct job *job, struct mover_target *target, bool *may)
{
	char reason[600];
	enum rule_record compared;
	enum link_result result = rule_owner_ask(job->link, target, reason, sizeof(reason));

	if (result == LINK_DONE && !reason[0])
		result = rule_record_compare(job->link, target, &compared, reason, sizeof(reason));
	if (result == LINK_DONE && !reason[0])
		result = rule_owner_renamed(job->link, target, reason, sizeof(reason));
	*may = result == LINK_DONE && !reason[0];
	if (result == LINK_DONE && reason[0])
		report_document(job, target, &others, NULL, reason);
	if (*may)
		result = ask_index(job, target, may);
	if (result != LINK_DONE || !*may || !job->options.execute)
		return result;
	/* What was done before a stop is done no more. */
	return job->options.resume ? LINK_DONE : keep_place(job, target, NULL, 0);
}

/* Its index is what the overflow is walked by. */
static enum link_result clear(struct job *job, struct mover_target *target)
{
	const struct undoing *undoing = job->context;
	enum link_result result = fitness_check(job->link, job->targets, target, FITNESS_OF_BOTH);

	if (undoing->proven && target->owner != OWNER_OTHER && !owner_is_known(target->owner))
		atomic_store(&target->owner, OWNER_CLAIMED);
	return result == LINK_DONE && owner_is_known(target->owner) ? clear_overflow(job, target)
								    : result;
}

/* Behind the place where an interrupted run stopped; what it folded back just now may still be
 * read. */
static enum link_result find_place(struct job *job, const struct mover_target *target,
				   struct job_walk *walk)
{
	struct undoing *undoing = job->context;
	struct stop stop = {0};
	enum link_result result =
		link_unless_unauthorized(job->link, rule_record_undone(job->link, target, &stop));

	undoing->last_fold = clock_now();
	undoing->stayed = undoing->damaged = stop.stayed > 0;
	walk->from = stop.from;
	walk->stayed = stop.stayed;
	return result;
}

static enum link_result fold_all(struct job *job, struct mover_target *target)
{
	bool groups = job->options.execute && !is_slow(job);
	struct job_walk walk = {.filter = write_filter,
				.each = undo_one,
				.group = groups ? undo_several : NULL,
				.group_most = UNDO_GROUP_MOST,
				.page = job->options.execute ? keep_place : NULL,
				.helpers = groups ? HELPERS_IN_GROUPS : 0};
	enum link_result result = LINK_DONE;

	/* An account that may not ask is told so before anything is done. */
	if (job->options.lag_ms)
		result = lag_ask(job);
	if (result == LINK_DONE && job->options.resume)
		result = find_place(job, target, &walk);
	if (result == LINK_DONE)
		return job_walk(job, target, &walk);
	place_fini(&walk.from);
	return result;
}

static enum link_result undo_target(struct job *job, struct mover_target *target)
{
	const struct job_walk walk = {.filter = write_filter, .each = undo_one};
	struct undoing *undoing = job->context;
	bool may;
	enum link_result result = begin(job, target, &may);

	job_report_count(&job->report, "documents", 0);
	job_report_count(&job->report, "elements", 0);
	if (result != LINK_DONE || !may)
		return result;
	undoing->second = undoing->dropped = undoing->corrupt = false;
	atomic_store(&undoing->proven, false);
	atomic_store(&undoing->stayed, false);
	atomic_store(&undoing->damaged, false);
	target->read_only = false; /* what is kept for reading goes back, too */
	result = fold_all(job, target);
	if (result != LINK_DONE || !job->options.execute)
		return result;
	result = keep_place(job, target, NULL, 0);
	if (result == LINK_DONE)
		result = clear(job, target);
	undoing->second = true;
	if (result == LINK_DONE)
		result = job_walk(job, target, &walk);
	if (result == LINK_DONE)
		result = finish_overflow(job, target);
	return result == LINK_DONE ? forget_rule(job, target) : result;
}

int undo_main(const struct command_line *line)
{
	static const struct job_command command = {
		.recorded = true,
		.work = undo_target,
	};
	struct undoing undoing = {.throttle = {.lock = PTHREAD_MUTEX_INITIALIZER}};

	return job_main(&command, &undoing, line);
}
