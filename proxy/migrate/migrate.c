/* `spillway migrate`: moves the outliers that are there already, by the mover's own rounds, while
 * applications keep working through Spillway. */
#include "proxy/migrate/migrate.h"

#include "proxy/job/await_reads.h"
#include "proxy/job/job_walk.h"
#include "proxy/migrate/adopt.h"
#include "proxy/migrate/adopt_judge.h"
#include "proxy/fitness/fitness.h"
#include "proxy/fitness/mirror.h"
#include "proxy/upstream/clauses.h"
#include "proxy/spill/group.h"
#include "proxy/mover/look.h"
#include "proxy/ownership/rule_owner.h"
#include "proxy/ownership/rule_record.h"
#include "proxy/verify/verify_group.h"
#include "proxy/verify/verify_look.h"

#include <bson/bson.h>
#include <malloc.h>
#include <stdio.h>

/* Alone, a document waits for the server's disk most of the time. */
#define HELPERS_ALONE 7
#define HELPERS_IN_GROUPS 3
#define MOVES 8            /* of one document that is edited again and again */
#define QUIET_MOST_MS 5000 /* between them */
#define READ_ONLY "a rule on it is read-only ('access'): nothing is moved"

static const struct job_report_kind never_moved = {
	"never moved", REPORT_UNFINISHED, "Spillway leaves it as it is", .name = "left-alone"};
static const struct job_report_kind flagged = {"flag", REPORT_UNFINISHED,
					       "the flag stands, but there is no overflow",
					       .name = "flag-without-overflow"};
static const struct job_report_kind broken = {
	"corrupt", REPORT_CORRUPT, "'spillway verify' says more: it stays", .name = "corrupt"};
static const struct job_report_kind failed = {"not moved", REPORT_UNFINISHED,
					      "it could not be moved: run the command again",
					      .name = "not-moved"};
static const struct job_report_kind unfit = {
	"unfit", REPORT_UNFINISHED, "the rule can't hold on the collection", .name = "rule-unfit"};

static const struct job_report_kind changed = {
	"changed", REPORT_UNFINISHED, "the rule is not what it was when documents were moved",
	.name = "rule-changed"};

static void report_document(struct job *job, const struct mover_target *target,
			    const struct job_report_kind *kind, const struct element *id,
			    const char *detail)
{
	auto_free char *name = bson_strdup_printf("%s.%s", target->database, target->collection);

	job_report_add(&job->report, kind, name, id, detail);
}

/* What is to be moved of a document. */
struct outlier {
	int64_t elements, bytes;
};

static struct outlier measure(const struct plan *plan)
{
	int64_t waiting = plan->length > plan->head ? plan->length - plan->head : 0;

	return (struct outlier){waiting,
				waiting ? (int64_t)plan->array.length * waiting / plan->length : 0};
}

static void count_outlier(struct job *job, const struct outlier *outlier)
{
	job_report_count(&job->report, "documents", 1);
	job_report_count(&job->report, "elements", outlier->elements);
	job_report_count(&job->report, "bytes", outlier->bytes);
}

/* What it was found to be, before anything is done. True: there is something to move. */
static bool judge(struct job *job, const struct mover_target *target, const struct element *id,
		  const struct verify_document *verify)
{
	if (verify_document_has(verify, REPORT_CORRUPT))
		report_document(job, target, &broken, id, verify->found[0].detail);
	else if (verify_document_found(verify, VERIFY_NEVER_MOVED))
		report_document(job, target, &never_moved, id, verify->plan.why);
	else if (verify->plan.kind != PLAN_REST)
		return !verify->foreign; /* what was not adopted is listed */
	return false;
}

/* An application's flag for overflow that is gone. */
static void judge_flag(struct job *job, const struct mover_target *target, const struct element *id,
		       const struct verify_document *verify, struct bytes main)
{
	auto_free char *name = bson_strdup_printf("%s.%s", target->database, target->collection);
	struct element flag;

	if (verify->plan.kind == PLAN_REST && verify->judged && !verify->plan.generation.data &&
	    !verify->foreign && verify->garbage == 0 &&
	    adopt_flag_stands(target->rule, main, &flag))
		job_report_list(&job->report, &flagged, name, id, NULL);
}

/* Behind the move: nothing may be corrupt, and no tail may be left; what was pushed since waits for
 * the mover. `back`: an edit has folded it back meanwhile. */
static enum link_result check_moved(struct job *job, struct mover_target *target,
				    const struct element *id, bool *back)
{
	struct verify_document verify;
	struct bytes main;
	uint8_t *image;
	enum link_result result = verify_look(job, target, id, &verify, &image, &main);

	*back = false;
	if (result == LINK_DONE && image) {
		*back = verify.plan.kind == PLAN_BIRTH ||
			(verify.plan.kind == PLAN_MOVE && verify.plan.moved == 0);
		if (verify_document_has(&verify, REPORT_CORRUPT))
			report_document(job, target, &broken, id, verify.found[0].detail);
	}
	verify_document_fini(&verify);
	bson_free(image);
	return result;
}

static enum link_result move(struct job *job, struct mover_target *target, const struct element *id,
			     const struct outlier *outlier)
{
	struct migrating *migrating = job->context;
	enum link_result result = LINK_DONE;
	int64_t quiet = target->rule->quiet_ms;
	struct job_moved moved = {.rests = true};
	bool back = true;

	for (int i = 0; result == LINK_DONE && moved.rests && back && i < MOVES; i++) {
		if (i > 0 && !job_pause(quiet < QUIET_MOST_MS ? quiet : QUIET_MOST_MS))
			return LINK_LOST;
		result = job_move(job, target, id, &moved);
		if (result == LINK_DONE)
			result = check_moved(job, target, id, &back);
	}
	if (result == LINK_DONE && (back || !moved.rests))
		report_document(job, target, &failed, id, *moved.refused ? moved.refused : NULL);
	else if (result == LINK_DONE)
		count_outlier(job, outlier);
	return result == LINK_DONE ? throttle_wait(&migrating->throttle, job) : result;
}

static enum link_result migrate_document(struct job *job, struct mover_target *target,
					 const struct element *id)
{
	struct verify_document verify;
	struct bytes main;
	uint8_t *image;
	enum link_result result = verify_look(job, target, id, &verify, &image, &main);
	bool moves = result == LINK_DONE && image && judge(job, target, id, &verify);
	struct outlier outlier = {0};

	if (moves) {
		job->documents++;
		outlier = measure(&verify.plan);
	} else if (result == LINK_DONE && image) {
		judge_flag(job, target, id, &verify, main);
	}
	verify_document_fini(&verify);
	bson_free(image);
	if (moves && job->options.execute)
		return move(job, target, id, &outlier);
	if (moves)
		count_outlier(job, &outlier);
	return result;
}

/* What a group was made of is settled for each. */
static enum link_result settle_member(struct job *job, struct group *group,
				      const struct group_member *member,
				      const struct outlier *outlier)
{
	if (!member->outlier)
		return migrate_document(job, group->target, &member->id);
	job->documents++;
	if (member->damaged) {
		report_document(job, group->target, &broken, &member->id,
				"what is stored differs from the elements that were cut off");
		return LINK_DONE;
	}
	if (job->options.execute && !member->in)
		return move(job, group->target, &member->id, outlier);
	job->elements += job->options.execute ? member->pass.stored : 0;
	count_outlier(job, outlier);
	return LINK_DONE;
}

static enum link_result settle(struct job *job, struct group *group, struct outlier *outliers)
{
	enum link_result result = LINK_DONE;

	for (size_t i = 0; i < group->count; i++)
		if (group->members[i].outlier)
			outliers[i] = measure(&group->members[i].pass.plan);
	if (job->options.execute) {
		result = group_move(group);
		if (result == LINK_DONE)
			result = group_verify(group);
	}
	for (size_t i = 0; result == LINK_DONE && i < group->count; i++)
		result = settle_member(job, group, &group->members[i], &outliers[i]);
	return result;
}

/* Several documents step by step together, and alone who does not get through with the others. */
static enum link_result migrate_group(struct job *job, struct mover_target *target,
				      struct bytes ids)
{
	struct migrating *migrating = job->context;
	struct group *group = group_new(job->link, target, ids);
	struct outlier outliers[GROUP_MOST] = {{0}};
	enum link_result result = group_look(group);

	if (result == LINK_DONE)
		result = settle(job, group, outliers);
	group_free(group);
	return result == LINK_DONE && job->options.execute
		       ? throttle_wait(&migrating->throttle, job)
		       : result;
}

static enum link_result keep_place(struct job *job, struct mover_target *target,
				   const struct place *place, int64_t stayed)
{
	if (!job->options.execute)
		return LINK_DONE;
	/* An account that has no rights there has recorded nothing: --resume would say so. */
	return link_unless_unauthorized(job->link,
					rule_record_place(job->link, target, place, stayed));
}

/* Where an interrupted run stopped. `fit`: this one may go on there. */
static enum link_result find_place(struct job *job, struct mover_target *target,
				   struct job_walk *walk, bool *fit)
{
	struct stop stop = {0};
	enum rule_record record;
	enum link_result result = rule_record_read(job->link, target, &record, &stop);

	walk->from = stop.from;
	walk->stayed = stop.stayed;

	*fit = record != RULE_RECORD_LIMITS;
	if (!*fit)
		report_document(job, target, &changed, NULL,
				"it has other limits now: start without --resume");
	return result;
}

/* The overflow's indexes are made, the rule is recorded; a plan looks whether they could be. `fit`:
 * work may begin. */
static enum link_result prepare(struct job *job, struct mover_target *target, bool *fit)
{
	char reason[TARGET_REASON];
	bool execute = job->options.execute;
	enum link_result result = fitness_check(job->link, job->targets, target,
						execute ? FITNESS_OF_BOTH : FITNESS_OF_PLAN);

	if (result != LINK_DONE)
		return result;
	*fit = !target_unfit(job->targets, bytes_of(target->database), bytes_of(target->collection),
			     reason, sizeof(reason)) &&
	       !rule_owner_is_open(target, reason, sizeof(reason));
	if (*fit)
		return execute ? mirror_renew(job->link, target) : LINK_DONE;
	report_document(job, target, &unfit, NULL, reason);
	return LINK_DONE;
}

static void begin_counts(struct job *job)
{
	static const char *const names[] = {"documents", "elements", "bytes", "adopted",
					    "adopted elements"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		job_report_count(&job->report, names[i], 0);
}

static void write_flagged(struct buffer *out, const char *name, const struct rule *rule)
{
	char path[STATE_PATH_MAX];
	size_t filter = writer_open_document(out, name), condition, in;

	condition = writer_open_document(out, rule->flag.field);
	in = writer_open_array(out, "$in");
	writer_renamed(
		out, "0",
		&(struct element){.type = rule->flag.value.type, .value = rule->flag.value.value});
	writer_bool(out, "1", true);
	writer_string(out, "2", "true");
	writer_close(out, in);
	writer_close(out, condition);
	command_exists(out, state_path(path, rule, NULL), false);
	writer_close(out, filter);
}

/* Outliers, and what an application calls one. */
static void write_filter(struct buffer *out, const char *name, const struct rule *rule)
{
	size_t filter = writer_open_document(out, name), either = writer_open_array(out, "$or");

	look_write_candidates(out, "0", rule);
	if (rule->flag.field)
		write_flagged(out, "1", rule);
	writer_close(out, either);
	writer_close(out, filter);
}

/* Adopted arrays that went back are moved anew, wherever a run before this one stopped, and when
 * nobody reads their overflow any more. */
static bool await_folded(struct job *job, const struct mover_target *target, struct job_walk *walk)
{
	struct migrating *migrating = job->context;
	int64_t folded_at = atomic_exchange(&migrating->folded_at, 0);

	if (folded_at == 0)
		return true;
	place_fini(&walk->from);
	walk->stayed = 0;
	return job_await_readers(target, folded_at);
}

static const struct job_report_kind unseen = {
	"reads", REPORT_LEFT,
	"it is not known whether reads go on that began before the rule: they may return short "
	"arrays",
	.name = "reads-unseen"};

/* A cursor that was opened before the rule would return short arrays. Once documents are split, no
 * Spillway serves without the rule (decision 86). */
static enum link_result await_readers(struct job *job, const struct mover_target *target)
{
	static const struct await_reads what = {
		.unseen = &unseen, .since = "before the rule", .until = "nothing is moved"};
	struct migrating *migrating = job->context;
	bool split = false;
	enum link_result result;

	if (!job->options.execute || migrating->waited)
		return LINK_DONE;
	result = rule_record_is_split(job->link, target, &split);
	if (result != LINK_DONE || split)
		return result;
	migrating->waited = await_reads(job, &what);
	return migrating->waited ? LINK_DONE : LINK_LOST;
}

static enum link_result migrate_target(struct job *job, struct mover_target *target)
{
	struct migrating *migrating = job->context;
	struct job_walk walk = {.filter = write_filter,
				.each = migrate_document,
				.group = job->options.rate ? NULL : migrate_group,
				.group_most = GROUP_MOST,
				.page = keep_place,
				.helpers = job->options.rate ? 0 : HELPERS_IN_GROUPS};
	enum link_result result = LINK_DONE;
	bool fit = true;

	begin_counts(job);
	if (target->read_only) {
		report_document(job, target, &unfit, NULL, READ_ONLY);
		return LINK_DONE;
	}
	/* An account that may not ask is told so before anything is done. */
	if (job->options.lag_ms)
		result = lag_ask(job);
	if (result == LINK_DONE && job->options.resume)
		result = find_place(job, target, &walk, &fit);
	if (result == LINK_DONE && fit)
		result = prepare(job, target, &fit);
	if (result == LINK_DONE && fit)
		result = await_readers(job, target);
	if (result == LINK_DONE && fit && !job->options.resume)
		result = keep_place(job, target, NULL, 0); /* of a run before */
	migrating->adopts = fit;
	if (result == LINK_DONE)
		result = adopt_all(job, target, job->options.rate ? 0 : HELPERS_ALONE);
	if (result != LINK_DONE || !fit) {
		place_fini(&walk.from);
		return result;
	}
	if (!await_folded(job, target, &walk)) {
		place_fini(&walk.from);
		return LINK_LOST;
	}
	result = job_walk(job, target, &walk);
	return result == LINK_DONE ? keep_place(job, target, NULL, 0) : result;
}

int migrate_main(const struct command_line *line)
{
	static const struct job_command command = {
		.work = migrate_target,
	};
	struct migrating migrating = {.throttle = {.lock = PTHREAD_MUTEX_INITIALIZER}};

	/* Each group needs the same few megabytes again: what went back to the system would come
	 * back page by page, a sixth of the program's time. */
	(void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
	(void)mallopt(M_TRIM_THRESHOLD, 128 << 20);
	return job_main(&command, &migrating, line);
}
