/* `spillway verify`: what is stored under a rule against the invariants of the spill protocol; and
 * --repair, which finishes what is only unfinished. */
#include "proxy/verify/verify.h"

#include "protocol/template.h"
#include "proxy/base/clock.h"
#include "proxy/job/job_walk.h"
#include "proxy/ownership/renamed.h"
#include "proxy/verify/exported.h"
#include "proxy/verify/verify_look.h"
#include "proxy/verify/verifying.h"
#include "rules/rule/generation.h"

#include <bson/bson.h>
#include <errno.h>
#include <string.h>

static const struct job_report_kind renamed = {"renamed", REPORT_UNFINISHED,
					       "nothing of the overflow is removed until then",
					       .name = "collection-renamed"};

bool verify_repairs(const struct job *job)
{
	const struct verifying *verifying = job->context;

	return job->options.repair && job->options.execute && !verifying->unfit;
}

static char *full_name(const char *database, const char *collection)
{
	return bson_strdup_printf("%s.%s", database, collection);
}

char *verify_main_name(const struct mover_target *target)
{
	return full_name(target->database, target->collection);
}

char *verify_overflow_name(const struct mover_target *target)
{
	return full_name(target->overflow_database, target->overflow_collection);
}

void verify_keep_garbage(struct verifying *verifying, const struct element *link)
{
	auto_buffer struct buffer entry = {0};

	template_write_document(&entry, "{_id: @link}", fill("link", link));
	/* Apart: the list may have any length. */
	buffer_append(&verifying->garbage, entry.data, entry.length);
	verifying->garbage_since = clock_now();
}

/* The walk over documents. */

static void report_document(struct job *job, const struct mover_target *target,
			    const struct element *id, const struct verify_document *verify)
{
	auto_free char *name = verify_main_name(target);

	for (size_t i = 0; i < verify->count; i++) {
		const char *detail = verify->found[i].detail;
		const struct job_report_kind *kind = &verify_kinds[verify->found[i].finding];
		job_report_add_to add;

		if (verify->found[i].finding == VERIFY_GARBAGE && verify_repairs(job) &&
		    !verify_document_has(verify, REPORT_CORRUPT))
			continue; /* it goes at the end */
		add = kind->class == REPORT_CORRUPT ? job_report_list : job_report_add;
		add(&job->report, kind, name, id, *detail ? detail : NULL);
	}
}

static void count(struct job *job, int64_t documents, int64_t spilled, int64_t elements,
		  int64_t young)
{
	job_report_count(&job->report, "documents", documents);
	job_report_count(&job->report, "spilled", spilled);
	job_report_count(&job->report, "elements", elements);
	job_report_count(&job->report, "waiting garbage", young);
}

static void count_document(struct job *job, const struct verify_document *verify)
{
	bool spilled = verify->plan.generation.data && verify->plan.moved > 0;

	count(job, 1, spilled ? 1 : 0, spilled ? verify->plan.elements : 0, verify->young);
	job->elements += verify->sum;
}

static void keep_corrupt(struct verifying *verifying, struct bytes generation)
{
	if (generation.length == GENERATION_BYTES)
		buffer_append(&verifying->corrupt, generation.data, generation.length);
}

enum look {
	LOOK_FIRST,
	LOOK_DROPPED, /* a state that was not the document's has been taken away */
	LOOK_LAST,
};

static enum link_result look_at_document(struct job *job, struct mover_target *target,
					 const struct element *id, enum look look)
{
	struct verify_document verify;
	struct bytes main;
	uint8_t *image;
	bool mends, corrupt, last = look == LOOK_LAST, stray = false, accepted = false;
	enum link_result result = verify_look(job, target, id, &verify, &image, &main);

	corrupt = verify_document_has(&verify, REPORT_CORRUPT);
	if (result == LINK_DONE && image && look == LOOK_FIRST && verify_repairs(job) && corrupt)
		result = verify_repair_judge(job, target, &verify, main, &stray);
	mends = result == LINK_DONE && image && !last && verify_repairs(job) && !corrupt &&
		(verify_document_has(&verify, REPORT_UNFINISHED) ||
		 verify_document_has(&verify, REPORT_GARBAGE));
	if (result == LINK_DONE && image && look == LOOK_FIRST && corrupt && !stray &&
	    job->options.accept_loss)
		result = verify_accept(job, target, &verify, main, &accepted);
	if (accepted) {
		; /* the second look tells */
	} else if (stray && result == LINK_DONE) {
		result = verify_repair_export(job, target, id, main);
		if (result == LINK_DONE && verify_repair_exported(job->context))
			result = verify_repair_drop(job, target, &verify, main);
		if (result == LINK_REFUSED)
			result = LINK_DONE; /* the second look tells */
	} else if (mends) {
		result = verify_repair_mend(job, target, &verify, main);
		if (result == LINK_REFUSED)
			result = LINK_DONE; /* the second look tells */
	} else if (result == LINK_DONE && image) {
		count_document(job, &verify);
		report_document(job, target, id, &verify);
		if (last && !corrupt && !verify_document_has(&verify, REPORT_UNFINISHED))
			job->documents++;
		if (corrupt) {
			keep_corrupt(job->context, verify.plan.generation);
			keep_corrupt(job->context, verify.plan.editions.later);
			if (!job->options.accept_loss) /* else it is written already */
				result = verify_repair_export(job, target, id, main);
		}
	}
	verify_document_fini(&verify);
	bson_free(image);
	if ((stray || accepted) && result == LINK_DONE)
		return look_at_document(job, target, id, LOOK_DROPPED);
	return mends && result == LINK_DONE ? look_at_document(job, target, id, LOOK_LAST) : result;
}

static enum link_result verify_one(struct job *job, struct mover_target *target,
				   const struct element *id)
{
	return look_at_document(job, target, id, LOOK_FIRST);
}

static enum link_result tell_renamed(struct job *job, struct mover_target *target)
{
	auto_free char *name = verify_main_name(target);
	char reason[RENAMED_REASON];
	enum link_result result = renamed_tell(job->link, target, false, reason, sizeof(reason));

	if (result == LINK_DONE && reason[0])
		job_report_add(&job->report, &renamed, name, NULL, reason);
	return result;
}

static enum link_result verify_target(struct job *job, struct mover_target *target)
{
	const struct job_walk walk = {.filter = verify_write_filter, .each = verify_one};
	struct verifying *verifying = job->context;
	bool walks = false;
	enum link_result result;

	verifying->garbage.length = 0; /* of a namespace that was passed over */
	count(job, 0, 0, 0, 0);
	result = tell_renamed(job, target);
	if (result == LINK_DONE)
		result = verify_overflow_indexes(job, target, &walks);
	if (result == LINK_DONE)
		result = verify_from(job, target);
	if (result == LINK_DONE)
		result = job_walk(job, target, &walk);
	if (result == LINK_DONE && walks) /* its order is the index's */
		result = verify_overflow_walk(job, target);
	if (result == LINK_DONE)
		result = verify_overflow_clear(job, target);
	return result;
}

static enum link_result finish(struct job *job)
{
	if (job->options.repair && job->options.execute)
		job_report_count(&job->report, "mended", job->documents);
	return LINK_DONE;
}

int verify_main(const struct command_line *line)
{
	static const struct job_command command = {
		.work = verify_target,
		.finish = finish,
	};
	struct verifying verifying = {0};
	const char *from = line->values[OPTION_FROM];
	int code;

	if (from && !(verifying.from = exported_open(from))) {
		fprintf(stderr, "spillway: '%s' can't be read: %s\n", from, strerror(errno));
		return JOB_USAGE;
	}
	code = job_main(&command, &verifying, line);
	exported_close(verifying.from);
	buffer_fini(&verifying.garbage);
	buffer_fini(&verifying.corrupt);
	return verify_repair_close(&verifying) ? code : JOB_FINDINGS;
}
