/* Corrupt documents of `spillway verify --accept-loss`: what is left of an array becomes the array.
 */
#include "proxy/verify/verifying.h"

#include "protocol/template.h"
#include "proxy/job/job_walk.h"
#include "proxy/spill/fold.h"
#include "proxy/upstream/clauses.h"
#include "rules/rule/text.h"

#include <bson/bson.h>

#define GAPS_TOLD 20

static const struct job_report_kind accepted = {
	"loss", REPORT_LEFT, "lost elements were accepted: what is left is a whole array",
	.name = "loss-accepted"};
static const struct job_report_kind planned = {
	"loss", REPORT_LEFT, "--accept-loss --execute makes a whole array of what is left",
	.name = "loss-planned"};
static const struct job_report_kind stays = {
	"loss", REPORT_CORRUPT, "the loss can't be accepted: the document stays as it is",
	.name = "loss-not-accepted"};

/* ---- The export. */

/* The document as it is in the text; NULL: JSON can't hold it byte for byte. */
static char *exact_json(struct bytes document)
{
	bson_t bson, *again;
	char *text;
	bool same;

	if (!bson_init_static(&bson, document.data, document.length))
		return NULL;
	text = bson_as_canonical_extended_json(&bson, NULL);
	again = text ? bson_new_from_json((const uint8_t *)text, -1, NULL) : NULL;
	same = again && again->len == document.length &&
	       memcmp(bson_get_data(again), document.data, document.length) == 0;
	if (again)
		bson_destroy(again);
	if (!same) {
		bson_free(text);
		text = NULL;
	}
	return text;
}

void verify_accept_line(struct buffer *out, const char *namespace, struct bytes document)
{
	auto_buffer struct buffer whole = {0};
	char *json;

	template_write_document(&whole, "{namespace: @namespace, document: @document}",
				fill("namespace", namespace), fill_document("document", document));
	json = exact_json(buffer_view(&whole));
	if (!json) {
		auto_free char *name = text_valid(namespace);

		whole.length = 0;
		template_write_document(&whole, "{namespace: @namespace, bson: @bytes}",
					fill("namespace", (const char *)name),
					fill_binary("bytes", document));
		json = exact_json(buffer_view(&whole));
	}
	require(json);
	buffer_append(out, json, strlen(json));
	buffer_append(out, "\n", 1);
	bson_free(json);
}

/* ---- What is lost. */

static int64_t gap_at(const struct fold_loss *loss, size_t index)
{
	int64_t place;

	memcpy(&place, loss->gaps.data + index * sizeof(place), sizeof(place));
	return place;
}

/* In places of the array, which begins at 0. */
static void tell_loss(struct buffer *out, const struct rule *rule, const struct fold_loss *loss)
{
	size_t gaps = loss->gaps.length / (2 * sizeof(int64_t));

	text_append(out, "of %lld elements of '%s', %lld are lost", (long long)loss->whole,
		    rule->array, (long long)loss->missing);
	for (size_t i = 0; i < gaps && i < GAPS_TOLD; i++)
		text_append(out, "%s%lld to %lld", i == 0 ? ": places " : ", ",
			    (long long)gap_at(loss, 2 * i), (long long)gap_at(loss, 2 * i + 1) - 1);
	if (gaps > GAPS_TOLD)
		text_append(out, ", and %zu more ranges", gaps - GAPS_TOLD);
	buffer_append(out, "", 1);
}

static void report(struct job *job, const struct mover_target *target, const struct element *id,
		   const struct job_report_kind *kind, const char *detail)
{
	auto_free char *name = verify_main_name(target);

	job_report_list(&job->report, kind, name, id, detail);
}

/* ---- Making the array whole. */

static const char *const reasons[] = {
	[FOLD_TOO_LARGE] = "the document would pass 16 MB; restore it, or set the array anew",
	[FOLD_BUSY] = "it changed each time: run the command again",
};

static const char edited[] =
	"its array was edited in place: a loss can't be accepted there; restore "
	"it, or set the array anew";

/* Nothing says which elements of the overflow are the array's: it is what the document holds. */
static enum link_result drop_state(struct job *job, struct mover_target *target,
				   const struct verify_document *verify, struct bytes main,
				   bool *changed)
{
	static const char *const why = "its state can't be read: the array is what the document "
				       "holds, and its overflow is in the export alone";
	struct element states;
	enum link_result result = LINK_DONE;

	if (!document_find(main, "_spill", &states)) {
		report(job, target, &verify->plan.id, &stays, "it is not what --accept-loss mends");
		return LINK_DONE;
	}
	if (!verify_repairs(job)) {
		report(job, target, &verify->plan.id, &planned, why);
		return LINK_DONE;
	}
	result = verify_repair_drop(job, target, verify, main);
	*changed = result == LINK_DONE && link_reply(job->link)->n == 1;
	if (result == LINK_DONE)
		report(job, target, &verify->plan.id, *changed ? &accepted : &stays,
		       *changed ? why : reasons[FOLD_BUSY]);
	return result;
}

static enum link_result fold(struct job *job, struct mover_target *target,
			     const struct verify_document *verify, struct fold_loss *loss,
			     enum fold *end)
{
	const struct fold_how how = {
		.purpose = FOLD_ANEW, .looks = !verify_repairs(job), .loss = loss};
	int64_t elements;

	return fold_document(job->link, target, &verify->plan.id, &how, end, &elements);
}

static enum link_result settle(struct job *job, struct mover_target *target,
			       const struct verify_document *verify, struct bytes main,
			       bool *changed)
{
	auto_buffer struct buffer text = {0};
	struct fold_loss loss = {.whole = -1};
	bool execute = verify_repairs(job);
	enum fold end = FOLD_BUSY;
	struct job_moved moved; /* the next look tells */
	enum link_result result;

	if (plan_is_edited(&verify->plan)) {
		report(job, target, &verify->plan.id, &stays, edited);
		return LINK_DONE;
	}
	result = fold(job, target, verify, &loss, &end);
	if (result == LINK_DONE && end == FOLD_BROKEN) {
		result = drop_state(job, target, verify, main, changed);
	} else if (result == LINK_DONE && end == FOLD_DONE && loss.whole >= 0) {
		tell_loss(&text, target->rule, &loss);
		report(job, target, &verify->plan.id, execute ? &accepted : &planned,
		       (const char *)text.data);
		*changed = execute;
		if (execute)
			result = job_move(job, target, &verify->plan.id, &moved);
	} else if (result == LINK_DONE && end == FOLD_DONE) {
		*changed = execute; /* somebody else was faster */
	} else if (result == LINK_DONE) {
		report(job, target, &verify->plan.id, &stays, reasons[end]);
	}
	buffer_fini(&loss.gaps);
	return result;
}

/* If none of its elements is there, all may be, under another link. No index finds them. */
static enum link_result look_elsewhere(struct job *job, const struct mover_target *target,
				       const struct verify_document *verify, bool *found)
{
	struct bytes batch = {0};
	enum link_result result;

	*found = false;
	if (!verify->plan.generation.data || verify->sum > 0)
		return LINK_DONE;
	result = command_find_one(
		job->link, target->overflow_database, &batch,
		"{find: @overflow, filter: {'_spill.g': @generation, '@link': {$ne: @id}}, "
		"projection: {_id: 1}, limit: 1, readConcern: @read_concern}",
		fill("overflow", target->overflow_collection),
		fill("link", target->rule->overflow.link), fill("id", &verify->plan.id),
		fill_binary("generation", verify->plan.generation));
	*found = result == LINK_DONE && batch.data;
	return result;
}

must_check enum link_result verify_accept(struct job *job, struct mover_target *target,
					  const struct verify_document *verify, struct bytes main,
					  bool *changed)
{
	bool elsewhere;
	enum link_result result = look_elsewhere(job, target, verify, &elsewhere);

	*changed = false;
	if (result == LINK_DONE && elsewhere) {
		report(job, target, &verify->plan.id, &stays,
		       "overflow of its array is linked to another _id: correct the links, or "
		       "delete that overflow");
		return LINK_DONE;
	}
	if (result == LINK_DONE && verify_repairs(job))
		result = verify_repair_export(job, target, &verify->plan.id, main);
	if (result == LINK_DONE && verify_repairs(job) && !verify_repair_exported(job->context)) {
		report(job, target, &verify->plan.id, &stays,
		       "what there is could not be written to the file");
		return LINK_DONE;
	}
	if (result == LINK_DONE)
		result = settle(job, target, verify, main, changed);
	if (result == LINK_REFUSED)
		report(job, target, &verify->plan.id, &stays, link_error(job->link)->message);
	if (result == LINK_DONE && *changed) {
		job_report_count(&job->report, "accepted", 1);
		verify_keep_garbage(job->context, &verify->plan.id);
	}
	return result == LINK_REFUSED ? LINK_DONE : result;
}
