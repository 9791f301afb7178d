/* `spillway verify`: what is stored under a rule against the invariants of the spill protocol; and
 * --repair, which finishes what is only unfinished. */
#include "proxy/verify/verify.h"
#include "rules/rule/overflow_document.h"
#include "proxy/base/clock.h"
#include "proxy/upstream/target_read.h"

#include "proxy/fitness/index_judge.h"
#include "proxy/fitness/fitness.h"
#include "proxy/spill/fold.h"
#include "proxy/upstream/clauses.h"
#include "proxy/mover/garbage.h"
#include "proxy/upstream/overflow_index.h"
#include "proxy/ownership/renamed.h"
#include "proxy/ownership/rule_owner.h"
#include "proxy/verify/verify_look.h"
#include "rules/match/fitness_judge.h"
#include "rules/rule/generation.h"
#include "rules/rule/own_fields.h"

#include <bson/bson.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
	"usage: spillway verify --config FILE --rule NAME [--repair [--execute] [--export FILE]] "
	"[--json]\n"
	"  Compares what is stored under a rule with what the rule says. Reads only, unless told "
	"otherwise.\n"
	"  --repair            says what it would mend: tails that wait, flags, garbage, missing "
	"indexes\n"
	"  --repair --execute  mends it. What is corrupt is not touched: document and overflow go "
	"to a file\n"
	"                      (a state that is another document's, or can't be read, is taken "
	"away if\n"
	"                      no overflow links to its document)\n"
	"  --export FILE       that file (BSON documents {namespace, document}); "
	"spillway-NAME-corrupt.bson\n"
	"exit codes: 0 all is well, 1 findings (what is left of them behind a repair), 2 bad usage "
	"or file,\n"
	"3 cannot connect, 4 interrupted\n";

#define NAMESPACE_NOT_FOUND 26

/* What the command keeps. */
struct verifying {
	FILE *exported;
	bool unexported;       /* it can't be made, which was said */
	struct buffer garbage; /* {_id: link} of documents with dead generations */
	int64_t garbage_since; /* the last of them was found */
	struct buffer corrupt; /* the generations of corrupt documents */
	bool collects;         /* overflow without a document may go */
	bool unfit;            /* nothing is mended where the rule can't hold */
};

static const struct job_report_kind unfit = {"unfit", REPORT_UNFINISHED,
					     "the rule can't hold on the collection: nothing is "
					     "mended"};

static const struct job_report_kind renamed = {"renamed", REPORT_UNFINISHED,
					       "nothing of the overflow is removed until then"};

static bool repairs(const struct job *job)
{
	const struct verifying *verifying = job->context;

	return job->options.repair && job->options.execute && !verifying->unfit;
}

static char *full_name(const char *database, const char *collection)
{
	return bson_strdup_printf("%s.%s", database, collection);
}

static char *main_name(const struct mover_target *target)
{
	return full_name(target->database, target->collection);
}

static char *overflow_name(const struct mover_target *target)
{
	return full_name(target->overflow_database, target->overflow_collection);
}

/* Corruption goes to a file, and stays. */

static bool open_export(struct job *job)
{
	struct verifying *verifying = job->context;
	auto_free char *standard = bson_strdup_printf("spillway-%s-corrupt.bson", job->rule->name);
	const char *path = job->options.export ? job->options.export : standard;
	int file;

	if (verifying->exported || verifying->unexported)
		return verifying->exported;
	file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file >= 0)
		verifying->exported = fdopen(file, "w");
	if (verifying->exported) {
		fprintf(stderr, "spillway: what is corrupt is written to '%s'\n", path);
		return true;
	}
	verifying->unexported = true;
	fprintf(stderr, "spillway: '%s' can't be made: %s\n", path, strerror(errno));
	return false;
}

struct exporting {
	FILE *file;
	const char *namespace;
	int64_t written;
};

static void export_document(void *context, struct bytes document)
{
	struct exporting *exporting = context;
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);

	writer_string(&out, "namespace", exporting->namespace);
	writer_document(&out, "document", document);
	writer_close(&out, start);
	if (fwrite(out.data, 1, out.length, exporting->file) == out.length)
		exporting->written++;
}

static enum link_result export_both(struct job *job, struct mover_target *target,
				    const struct element *id, struct bytes main)
{
	struct verifying *verifying = job->context;
	auto_free char *of_main = main_name(target), *of_overflow = overflow_name(target);
	struct exporting exporting = {.namespace = of_main};
	enum link_result result;

	if (!job->options.repair || !job->options.execute || !open_export(job))
		return LINK_DONE;
	exporting.file = verifying->exported;
	export_document(&exporting, main);
	exporting.namespace = of_overflow;
	result = target_read_overflow(job->link, target, id, export_document, &exporting);
	job_report_count(&job->report, "exported", exporting.written);
	return result;
}

/* Repair of one document, in which nothing is corrupt. */

static void write_flag_guard(struct buffer *out, const struct rule *rule,
			     const struct verify_document *verify)
{
	char path[STATE_PATH_MAX];

	command_equal(out, "_id", verify->plan.id.type, verify->plan.id.value);
	if (!verify->plan.generation.data) {
		command_exists(out, state_path(path, rule, NULL), false);
		command_equal(out, rule->flag.field, rule->flag.value.type, rule->flag.value.value);
		return;
	}
	command_generation(out, state_path(path, rule, "g"), verify->plan.generation);
	writer_int64(out, state_path(path, rule, "n"), verify->plan.moved);
}

/* Sets it where overflow is, remembering that the name is Spillway's where it was not there. */
static void write_flag_change(struct buffer *out, const struct rule *rule, bool stands,
			      bool missing)
{
	const struct rule_value *value = stands ? &rule->flag.value : &rule->flag.otherwise;
	char path[STATE_PATH_MAX];
	size_t part;

	if (!stands && !value->type) {
		part = writer_open_document(out, "$unset");
		writer_string(out, rule->flag.field, "");
		writer_close(out, part);
		return;
	}
	part = writer_open_document(out, "$set");
	writer_renamed(out, rule->flag.field,
		       &(struct element){.type = value->type, .value = value->value});
	writer_close(out, part);
	if (!stands || !missing)
		return;
	part = writer_open_document(out, "$addToSet");
	writer_string(out, state_path(path, rule, "a"), rule->flag.field);
	writer_close(out, part);
}

static enum link_result mend_flag(struct job *job, struct mover_target *target,
				  const struct verify_document *verify, struct bytes main)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), updates, update, part;
	struct element flag;
	bool missing = !document_find_path(main, target->rule->flag.field, &flag);
	bool stands = verify->plan.generation.data &&
		      (verify->plan.moved > 0 || own_fields_stand_already(&verify->plan.state));

	writer_string(&out, "update", target->collection);
	updates = writer_open_array(&out, "updates");
	update = writer_open_document(&out, "0");
	part = writer_open_document(&out, "q");
	write_flag_guard(&out, target->rule, verify);
	writer_close(&out, part);
	part = writer_open_document(&out, "u");
	write_flag_change(&out, target->rule, stands, missing);
	writer_close(&out, part);
	writer_close(&out, update);
	writer_close(&out, updates);
	command_write_concern(&out, job->link);
	writer_close(&out, start);
	return link_run(job->link, target->database, buffer_view(&out));
}

static void keep_garbage(struct verifying *verifying, const struct element *link)
{
	size_t start = writer_open(&verifying->garbage);

	writer_renamed(&verifying->garbage, "_id", link);
	writer_close(&verifying->garbage, start);
	verifying->garbage_since = clock_now();
}

static enum link_result mend(struct job *job, struct mover_target *target,
			     const struct verify_document *verify, struct bytes main)
{
	const struct element *id = &verify->plan.id;
	enum link_result result = LINK_DONE;
	struct job_moved moved; /* the second look tells */
	const struct fold_how anew = {.purpose = FOLD_ANEW};
	enum fold end;
	int64_t elements;

	if (verify_document_found(verify, VERIFY_GARBAGE))
		keep_garbage(job->context, id);
	if (verify_document_found(verify, VERIFY_FLAG))
		result = mend_flag(job, target, verify, main);
	if (result == LINK_DONE && verify_document_wants_new_batches(verify)) {
		result = fold_document(job->link, target, id, &anew, &end, &elements);
		if (result == LINK_DONE && end == FOLD_DONE)
			result = job_move(job, target, id, &moved);
		return result;
	}
	if (result == LINK_DONE && (verify_document_found(verify, VERIFY_NOT_MOVED) ||
				    verify_document_found(verify, VERIFY_NOT_LINKED)))
		result = job_move(job, target, id, &moved);
	return result;
}

/* A state that can't be this document's: nothing of the overflow is, and the state can't be read,
 * or names a generation that is another document's. Whatever else is corrupt stays: its elements
 * may yet be restored. */

static void take_any(void *context, struct bytes batch)
{
	(void)batch;
	*(bool *)context = true;
}

static enum link_result find_generation(struct job *job, const struct mover_target *target,
					struct bytes generation, bool *found)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), part;

	writer_string(&out, "find", target->overflow_collection);
	part = writer_open_document(&out, "filter");
	command_generation(&out, "_spill.g", generation);
	writer_close(&out, part);
	writer_int32(&out, "limit", 1);
	command_read_concern(&out, job->link, link_time(job->link));
	writer_close(&out, start);
	return link_find(job->link, target->overflow_database, buffer_view(&out), take_any, found);
}

static enum link_result judge_stray(struct job *job, const struct mover_target *target,
				    const struct verify_document *verify, struct bytes main,
				    bool *stray)
{
	char path[STATE_PATH_MAX];
	struct element states;
	struct bytes generation;
	bool own = false;
	enum link_result result;

	*stray = false;
	if (!document_find(main, "_spill", &states))
		return LINK_DONE;
	result = target_read_overflow(job->link, target, &verify->plan.id, take_any, &own);
	if (result != LINK_DONE || own)
		return result;
	if (generation_find(main, state_path(path, target->rule, "g"), &generation))
		return find_generation(job, target, generation, stray);
	*stray = true;
	return LINK_DONE;
}

/* Of several arrays' states, only this one. */
static void write_state_unset(struct buffer *out, const struct rule *rule,
			      const struct element *states)
{
	size_t part = writer_open_document(out, "$unset");
	char path[STATE_PATH_MAX];
	struct cursor cursor;
	struct element first;
	bool alone = states->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, states->value) ||
		     cursor_next(&cursor, &first) != CURSOR_ELEMENT ||
		     cursor_next(&cursor, &first) != CURSOR_ELEMENT;

	writer_string(out, alone ? "_spill" : state_path(path, rule, NULL), "");
	writer_close(out, part);
}

static enum link_result drop_state(struct job *job, const struct mover_target *target,
				   const struct verify_document *verify, struct bytes main)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), updates, update, part, equal;
	struct element states;

	require(document_find(main, "_spill", &states));
	writer_string(&out, "update", target->collection);
	updates = writer_open_array(&out, "updates");
	update = writer_open_document(&out, "0");
	part = writer_open_document(&out, "q");
	command_equal(&out, "_id", verify->plan.id.type, verify->plan.id.value);
	equal = writer_open_document(&out, "_spill");
	writer_renamed(&out, "$eq", &states);
	writer_close(&out, equal);
	writer_close(&out, part);
	part = writer_open_document(&out, "u");
	write_state_unset(&out, target->rule, &states);
	writer_close(&out, part);
	writer_close(&out, update);
	writer_close(&out, updates);
	command_write_concern(&out, job->link);
	writer_close(&out, start);
	job_report_count(&job->report, "states dropped", 1);
	return link_run(job->link, target->database, buffer_view(&out));
}

/* The walk over documents. */

static void report_document(struct job *job, const struct mover_target *target,
			    const struct element *id, const struct verify_document *verify)
{
	auto_free char *name = main_name(target);

	for (size_t i = 0; i < verify->count; i++) {
		const char *detail = verify->found[i].detail;
		const struct job_report_kind *kind = &verify_kinds[verify->found[i].finding];
		job_report_add_to add;

		if (verify->found[i].finding == VERIFY_GARBAGE && repairs(job) &&
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

	count(job, 1, spilled ? 1 : 0, spilled ? verify->plan.moved : 0, verify->young);
	job->elements += verify->sum;
}

static void keep_corrupt(struct verifying *verifying, struct bytes generation)
{
	if (generation.length == GENERATION_BYTES)
		buffer_append(&verifying->corrupt, generation.data, generation.length);
}

static bool is_of_corrupt(const struct verifying *verifying, struct bytes generation)
{
	for (size_t at = 0; at < verifying->corrupt.length; at += GENERATION_BYTES)
		if (bytes_equal(generation,
				(struct bytes){verifying->corrupt.data + at, GENERATION_BYTES}))
			return true;
	return false;
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
	bool mends, corrupt, last = look == LOOK_LAST, stray = false;
	enum link_result result = verify_look(job, target, id, &verify, &image, &main);

	corrupt = verify_document_has(&verify, REPORT_CORRUPT);
	if (result == LINK_DONE && image && look == LOOK_FIRST && repairs(job) && corrupt)
		result = judge_stray(job, target, &verify, main, &stray);
	mends = result == LINK_DONE && image && !last && repairs(job) && !corrupt &&
		(verify_document_has(&verify, REPORT_UNFINISHED) ||
		 verify_document_has(&verify, REPORT_GARBAGE));
	if (stray && result == LINK_DONE) {
		result = export_both(job, target, id, main);
		if (result == LINK_DONE)
			result = drop_state(job, target, &verify, main);
		if (result == LINK_REFUSED)
			result = LINK_DONE; /* the second look tells */
	} else if (mends) {
		result = mend(job, target, &verify, main);
		if (result == LINK_REFUSED)
			result = LINK_DONE; /* the second look tells */
	} else if (result == LINK_DONE && image) {
		count_document(job, &verify);
		report_document(job, target, id, &verify);
		if (last && !corrupt && !verify_document_has(&verify, REPORT_UNFINISHED))
			job->documents++;
		if (corrupt) {
			keep_corrupt(job->context, verify.plan.generation);
			result = export_both(job, target, id, main);
		}
	}
	verify_document_fini(&verify);
	bson_free(image);
	if (stray && result == LINK_DONE)
		return look_at_document(job, target, id, LOOK_DROPPED);
	return mends && result == LINK_DONE ? look_at_document(job, target, id, LOOK_LAST) : result;
}

static enum link_result verify_one(struct job *job, struct mover_target *target,
				   const struct element *id)
{
	return look_at_document(job, target, id, LOOK_FIRST);
}

/* Orphans. */

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

/* True when the document is there: the walk over documents has judged its overflow, unless nothing
 * but the overflow spoke of it. */
static enum link_result look_at_orphan(struct job *job, struct mover_target *target,
				       const struct element *link)
{
	struct orphans orphans = {.young_from = (int64_t)time(NULL) -
						target->rule->gc_delay_ms / 1000 - 1};
	auto_free char *name = overflow_name(target);
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
	if (repairs(job) && ((const struct verifying *)job->context)->collects) {
		keep_garbage(job->context, link);
		return LINK_DONE;
	}
	snprintf(detail, sizeof(detail), "%lld batches", (long long)orphans.dead);
	job_report_add(&job->report, &verify_kinds[VERIFY_ORPHANS], name, link, detail);
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
	bool judged = result == LINK_DONE && image && is_overflow_of(&verify.plan.id, &link) &&
		      (verify.plan.kind != PLAN_REST || verify.plan.generation.data ||
		       flag_stands(target->rule, main));

	verify_document_fini(&verify);
	bson_free(image);
	return result == LINK_DONE && !judged ? look_at_orphan(job, target, &link) : result;
}

static enum link_result verify_overflow(struct job *job, struct mover_target *target)
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

struct indexes {
	const struct rule *rule;
	bool batch;
	struct overflow_index order;
	uint64_t wanted; /* of the rule's own, by place: those that are there */
};

static void take_index(void *context, struct bytes index)
{
	struct indexes *indexes = context;

	if (judge_is_batch_index(indexes->rule, index) ||
	    judge_is_place_index(indexes->rule, index))
		indexes->batch = true;
	overflow_index_take(&indexes->order, indexes->rule, index);
	indexes->wanted |= judge_rule_indexes(indexes->rule, index);
}

static void report_order(struct job *job, const struct mover_target *target,
			 const struct overflow_index *order)
{
	auto_free char *name = overflow_name(target);
	char reason[500];

	overflow_index_explain(order, target->rule, reason, sizeof(reason));
	job_report_add(&job->report, &verify_kinds[VERIFY_INDEX], name, NULL, reason);
}

static void report_indexes(struct job *job, const struct mover_target *target,
			   const struct indexes *indexes)
{
	auto_free char *name = overflow_name(target);
	struct cursor cursor;
	struct element each;
	uint64_t bit = 1;

	if (!indexes->batch)
		job_report_add(&job->report, &verify_kinds[VERIFY_INDEX], name, NULL,
			       "the unique one of link and batch number");
	else if (!indexes->order.name)
		report_order(job, target, &indexes->order);
	if (indexes->rule->overflow.indexes.length == 0)
		return;
	require(cursor_open(&cursor, indexes->rule->overflow.indexes));
	for (; cursor_next(&cursor, &each) == CURSOR_ELEMENT; bit <<= 1)
		if (!(indexes->wanted & bit))
			job_report_add(&job->report, &verify_kinds[VERIFY_INDEX], name, NULL,
				       "one of the rule's own");
}

/* Makes the indexes, and looks whether documents may be moved here. */
static enum link_result prepare(struct job *job, struct mover_target *target)
{
	struct verifying *verifying = job->context;
	auto_free char *name = main_name(target);
	char reason[sizeof(target->reason)];

	verifying->unfit = verifying->collects = false;
	if (!repairs(job))
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
static enum link_result verify_indexes(struct job *job, struct mover_target *target, bool *walks)
{
	struct indexes indexes = {.rule = target->rule};
	bson_t *command = BCON_NEW("listIndexes", BCON_UTF8(target->overflow_collection));
	enum link_result result = prepare(job, target);

	if (result == LINK_DONE)
		result = link_find(job->link, target->overflow_database,
				   (struct bytes){bson_get_data(command), command->len}, take_index,
				   &indexes);
	bson_destroy(command);
	*walks = indexes.batch && indexes.order.name;
	if (result == LINK_DONE)
		report_indexes(job, target, &indexes);
	else if (result == LINK_REFUSED && link_error(job->link)->code == NAMESPACE_NOT_FOUND)
		result = LINK_DONE; /* nothing was moved yet */
	overflow_index_fini(&indexes.order);
	return result;
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
	auto_free char *name = overflow_name(target);
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
static enum link_result clear_garbage(struct job *job, struct mover_target *target)
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

static enum link_result tell_renamed(struct job *job, struct mover_target *target)
{
	auto_free char *name = main_name(target);
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
		result = verify_indexes(job, target, &walks);
	if (result == LINK_DONE)
		result = job_walk(job, target, &walk);
	if (result == LINK_DONE && walks) /* its order is the index's */
		result = verify_overflow(job, target);
	if (result == LINK_DONE)
		result = clear_garbage(job, target);
	return result;
}

static enum link_result finish(struct job *job)
{
	if (job->options.repair && job->options.execute)
		job_report_count(&job->report, "mended", job->documents);
	return LINK_DONE;
}

/* False: not all of it was written. */
static bool close_export(struct verifying *verifying)
{
	bool written = !verifying->exported || !ferror(verifying->exported);

	if (verifying->exported && fclose(verifying->exported) != 0)
		written = false;
	if (!written)
		fprintf(stderr, "spillway: what is corrupt could not all be written\n");
	return written;
}

int verify_main(int count, char **arguments)
{
	static const struct job_command command = {
		.name = "verify",
		.usage = usage,
		.options = OPTION_EXECUTE | OPTION_REPAIR | OPTION_EXPORT,
		.work = verify_target,
		.finish = finish,
	};
	struct verifying verifying = {0};
	int code = job_main(&command, &verifying, count, arguments);

	buffer_fini(&verifying.garbage);
	buffer_fini(&verifying.corrupt);
	return close_export(&verifying) ? code : JOB_FINDINGS;
}
