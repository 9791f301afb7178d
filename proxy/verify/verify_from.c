/* `spillway verify --from FILE`: puts overflow documents of a file back whose generation is still
 * that of their document. */
#include "proxy/verify/verifying.h"

#include "protocol/template.h"
#include "proxy/upstream/clauses.h"
#include "proxy/upstream/target_read.h"
#include "proxy/verify/exported.h"
#include "rules/rule/overflow_document.h"
#include "rules/rule/walk.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

#define GROUP_BYTES (8 << 20) /* of one document's batches that are put back together */
#define GROUP_COUNT 1000

static const struct job_report_kind left = {"from", REPORT_UNFINISHED,
					    "overflow documents of the file are not put back",
					    .name = "not-restored"};

/* A batch, of the file or of the overflow. */
struct placed {
	struct bytes batch;
	int64_t number;
	bool of_file;
};

/* Batches of one document that stand behind one another in the file, beside what is stored. */
struct restoring {
	struct job *job;
	struct mover_target *target;
	struct buffer file;   /* documents, one behind the other */
	struct buffer stored; /* the same */
	struct buffer link;   /* {link: value} of those of the file */
	size_t count;         /* of those of the file */
	struct buffer scratch;
};

static void say(struct restoring *restoring, const struct element *link, const char *why)
{
	auto_free char *name = verify_overflow_name(restoring->target);

	job_report_list(&restoring->job->report, &left, name, link, why);
}

static void count(struct restoring *restoring, const char *name, size_t number)
{
	job_report_count(&restoring->job->report, name, (int64_t)number);
}

static void keep(void *context, struct bytes batch)
{
	buffer_append(context, batch.data, batch.length);
}

/* ---- What may be put back. */

/* NULL: the document's state names the generation. */
static const char *judge_main(const struct restoring *restoring, struct bytes main,
			      const struct element *link, struct bytes generation)
{
	const struct plan plan = plan_make(restoring->target->rule, main);

	if (plan.kind == PLAN_BROKEN)
		return "the document's state can't be read";
	if (plan.id.type != link->type || !bytes_equal(plan.id.value, link->value))
		return "the document's _id is written otherwise";
	if (!plan.generation.data)
		return "the array stands whole in its document: its generation has ended";
	if (plan_is_edited(&plan))
		return "the array was edited in place since";
	if (!bytes_equal(plan.generation, generation))
		return "the document has another generation now";
	return NULL;
}

/* What is stored comes first. */
static int by_number(const void *one, const void *other)
{
	const struct placed *a = one, *b = other;

	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return a->of_file - b->of_file;
}

static size_t take_placed(const struct rule *rule, const struct buffer *from, bool of_file,
			  struct placed *all, size_t count)
{
	for (size_t at = 0; at < from->length;) {
		struct bytes batch = {from->data + at, (size_t)load_int32(from->data + at)};
		int64_t number = 0, position;

		at += batch.length;
		if (of_file || overflow_place(rule, batch, &number, &position)) {
			require(!of_file || overflow_place(rule, batch, &number, &position));
			all[count++] = (struct placed){batch, number, of_file};
		}
	}
	return count;
}

static size_t count_documents(const struct buffer *documents)
{
	size_t number = 0;

	for (size_t at = 0; at < documents->length; number++)
		at += (size_t)load_int32(documents->data + at);
	return number;
}

/* Elements that are stored, or that the document holds, are the same ones. */
static bool agrees(const struct restoring *restoring, struct bytes main, const struct placed *all,
		   size_t count)
{
	struct verify_document verify;
	bool differs;

	verify_document_init(&verify, restoring->target->rule, main, INT64_MAX);
	for (size_t i = 0; i < count; i++)
		if (all[i].batch.data)
			verify_document_batch(&verify, all[i].batch);
	verify_document_end(&verify, main);
	differs = verify_document_found(&verify, VERIFY_OVERLAP) ||
		  verify_document_found(&verify, VERIFY_TAIL);
	verify_document_fini(&verify);
	return !differs;
}

/* Of those with one number the first one stays: a file may have one twice, too. False: they are not
 * the same. */
static bool pass_over_stored(struct restoring *restoring, struct placed *all, size_t length,
			     size_t *there)
{
	const struct placed *first = all;
	bool good = true;

	*there = 0;
	for (size_t i = 1; i < length; i++) {
		if (all[i].number != first->number)
			first = &all[i];
		if (first == &all[i] || !all[i].of_file)
			continue;
		if (!bytes_equal(first->batch, all[i].batch))
			good = false;
		all[i].batch = (struct bytes){0};
		(*there)++;
	}
	count(restoring, "there already", *there);
	return good;
}

/* ---- Putting back. */

static enum link_result insert(struct restoring *restoring, const struct placed *all, size_t length,
			       size_t missing)
{
	const struct mover_target *target = restoring->target;
	auto_buffer struct buffer documents = {0};
	enum link_result result = LINK_DONE;

	for (size_t i = 0; i < length; i++)
		if (all[i].of_file && all[i].batch.data)
			buffer_append(&documents, all[i].batch.data, all[i].batch.length);
	if (verify_repairs(restoring->job))
		result = command_run(restoring->job->link, target->overflow_database,
				     "{insert: @overflow, documents: [..@documents], "
				     "writeConcern: @write_concern}",
				     fill("overflow", target->overflow_collection),
				     fill_documents("documents", buffer_view(&documents)));
	if (result == LINK_DONE)
		count(restoring, "restored", missing);
	return result;
}

static enum link_result put_back(struct restoring *restoring, const struct element *link,
				 struct bytes main)
{
	size_t length, there, most = restoring->count + count_documents(&restoring->stored);
	struct placed *all = must_calloc(most + 1, sizeof(*all));
	enum link_result result = LINK_DONE;

	length = take_placed(restoring->target->rule, &restoring->stored, false, all, 0);
	length = take_placed(restoring->target->rule, &restoring->file, true, all, length);
	qsort(all, length, sizeof(*all), by_number);
	if (!pass_over_stored(restoring, all, length, &there))
		say(restoring, link, "another overflow document has the number of one of them");
	else if (there < restoring->count && !agrees(restoring, main, all, length))
		say(restoring, link, "their elements are not those that are stored");
	else if (there < restoring->count)
		result = insert(restoring, all, length, restoring->count - there);
	free(all);
	return result;
}

static enum link_result restore(struct restoring *restoring, const struct element *link)
{
	struct job *job = restoring->job;
	struct bytes first = {restoring->file.data, (size_t)load_int32(restoring->file.data)};
	const char *why = "there is no such document";
	struct bytes main;
	uint8_t *image;
	enum link_result result =
		target_read_document(job->link, restoring->target, link, &image, &main);

	if (result == LINK_DONE && image)
		why = judge_main(restoring, main, link, overflow_generation(first));
	restoring->stored.length = 0;
	if (result == LINK_DONE && !why)
		result = target_read_overflow(job->link, restoring->target, link, keep,
					      &restoring->stored);
	if (result == LINK_DONE && why)
		say(restoring, link, why);
	else if (result == LINK_DONE)
		result = put_back(restoring, link, main);
	if (result == LINK_REFUSED)
		say(restoring, link, link_error(job->link)->message);
	bson_free(image);
	return result == LINK_REFUSED ? LINK_DONE : result;
}

static enum link_result flush(struct restoring *restoring)
{
	struct element link;
	enum link_result result = LINK_DONE;

	if (restoring->count > 0) {
		require(document_find(buffer_view(&restoring->link), "link", &link));
		result = restore(restoring, &link);
	}
	restoring->file.length = restoring->link.length = restoring->count = 0;
	return result;
}

/* ---- Reading the file. */

/* Of this rule's overflow. A bare document does not say where it was. */
static bool concerns(const struct restoring *restoring, const struct exported_document *next,
		     struct bytes generation)
{
	auto_free char *name = verify_overflow_name(restoring->target);

	if (next->namespace.data)
		return bytes_are(next->namespace, name);
	return !rule_is_pattern(restoring->target->rule) ||
	       target_named(restoring->target, generation.data);
}

static bool same_group(const struct restoring *restoring, struct bytes link, struct bytes batch)
{
	struct bytes before = {restoring->file.data, restoring->file.length};

	if (restoring->count == 0)
		return true;
	before.length = (size_t)load_int32(before.data);
	return restoring->count < GROUP_COUNT && restoring->file.length < GROUP_BYTES &&
	       bytes_equal(buffer_view(&restoring->link), link) &&
	       bytes_equal(overflow_generation(before), overflow_generation(batch));
}

static bool holds_int32(struct bytes array)
{
	struct element element;
	struct walk walk;

	for (enum cursor_step step = walk_first(&walk, BSON_BYTE_ARRAY, array, &element);
	     step == CURSOR_ELEMENT; step = walk_next(&walk, &element))
		if (element.type == BSON_BYTE_INT32 || !walk_within(&walk, &element))
			return true;
	return false;
}

/* Whole numbers among its elements may have been of another type before they became JSON. */
static bool lost_types(struct restoring *restoring, const struct exported_document *next)
{
	struct bytes array;

	return next->untyped &&
	       overflow_elements(restoring->target->rule, next->document, &restoring->scratch,
				 &array) &&
	       holds_int32(array);
}

static enum link_result take(struct restoring *restoring, const struct exported_document *next)
{
	struct bytes batch = next->document, generation = overflow_generation(batch);
	auto_buffer struct buffer link = {0};
	enum link_result result = LINK_DONE;
	struct element value;
	int64_t number, position;

	if (!generation.data ||
	    !document_find(batch, restoring->target->rule->overflow.link, &value) ||
	    !overflow_place(restoring->target->rule, batch, &number, &position) ||
	    !concerns(restoring, next, generation)) {
		count(restoring, "passed over", 1);
		return LINK_DONE;
	}
	if (lost_types(restoring, next)) {
		say(restoring, &value,
		    "its JSON does not tell the types of whole numbers: export it in the "
		    "canonical format, or as BSON");
		return LINK_DONE;
	}
	template_write_document(&link, "{link: @link}", fill("link", &value));
	if (!same_group(restoring, buffer_view(&link), batch))
		result = flush(restoring);
	if (restoring->count == 0)
		buffer_append(&restoring->link, link.data, link.length);
	buffer_append(&restoring->file, batch.data, batch.length);
	restoring->count++;
	return result;
}

must_check enum link_result verify_from(struct job *job, struct mover_target *target)
{
	struct verifying *verifying = job->context;
	struct restoring restoring = {.job = job, .target = target};
	enum link_result result = LINK_DONE;
	struct exported_document next;
	enum exported_step step;

	if (!verifying->from)
		return LINK_DONE;
	exported_rewind(verifying->from);
	count(&restoring, "restored", 0);
	if (verifying->unfit) /* which is told */
		return LINK_DONE;
	while (result == LINK_DONE &&
	       (step = exported_next(verifying->from, &next)) != EXPORTED_END) {
		if (step == EXPORTED_DOCUMENT)
			result = take(&restoring, &next);
		else
			say(&restoring, NULL, "a part of the file is no document");
		if (atomic_load(job_stopping()))
			result = LINK_LOST;
	}
	if (result == LINK_DONE)
		result = flush(&restoring);
	buffer_fini(&restoring.file);
	buffer_fini(&restoring.stored);
	buffer_fini(&restoring.link);
	buffer_fini(&restoring.scratch);
	return result;
}
