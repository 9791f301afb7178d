/* Repair of one document of `spillway verify`, and the file for what is corrupt. */
#include "proxy/verify/verifying.h"

#include "protocol/template.h"
#include "proxy/job/job_walk.h"
#include "proxy/spill/fold.h"
#include "proxy/upstream/clauses.h"
#include "proxy/upstream/target_read.h"
#include "rules/rule/state.h"
#include "rules/rule/own_fields.h"

#include <bson/bson.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static bool open_export(struct job *job)
{
	struct verifying *verifying = job->context;
	auto_free char *standard = bson_strdup_printf(
		job->options.accept_loss ? "spillway-%s-loss.json" : "spillway-%s-corrupt.bson",
		job->rule->name);
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
	bool lines;
	int64_t written;
};

static void export_document(void *context, struct bytes document)
{
	struct exporting *exporting = context;
	auto_buffer struct buffer out = {0};

	if (exporting->lines)
		verify_accept_line(&out, exporting->namespace, document);
	else
		template_write_document(&out, "{namespace: @namespace, document: @document}",
					fill("namespace", exporting->namespace),
					fill_document("document", document));
	if (fwrite(out.data, 1, out.length, exporting->file) == out.length)
		exporting->written++;
}

must_check enum link_result verify_repair_export(struct job *job, struct mover_target *target,
						 const struct element *id, struct bytes main)
{
	struct verifying *verifying = job->context;
	auto_free char *of_main = verify_main_name(target),
		       *of_overflow = verify_overflow_name(target);
	struct exporting exporting = {.namespace = of_main, .lines = job->options.accept_loss};
	enum link_result result;

	if (!job->options.repair || !job->options.execute || !open_export(job))
		return LINK_DONE;
	exporting.file = verifying->exported;
	export_document(&exporting, main);
	exporting.namespace = of_overflow;
	result = target_read_overflow(job->link, target, id, export_document, &exporting);
	/* Before anything of the document is changed. */
	if (fflush(exporting.file) != 0 || fsync(fileno(exporting.file)) != 0)
		verifying->unexported = true;
	job_report_count(&job->report, "exported", exporting.written);
	return result;
}

must_check bool verify_repair_exported(const struct verifying *verifying)
{
	return verifying->exported && !verifying->unexported && !ferror(verifying->exported);
}

/* False: not all of it was written. */
must_check bool verify_repair_close(struct verifying *verifying)
{
	bool written = !verifying->exported || verify_repair_exported(verifying);

	if (verifying->exported && fclose(verifying->exported) != 0)
		written = false;
	if (!written)
		fprintf(stderr, "spillway: what is corrupt could not all be written\n");
	return written;
}

#define MEND_FLAG(condition, update) \
	"{update: @collection, updates: [{q: {_id: {$eq: @id}, " condition "}, u: " update \
	"}], writeConcern: @write_concern}"
#define SPILLED "'_spill.@state.g': @generation, '_spill.@state.n': @moved"
#define WHOLE "'_spill.@key': {$exists: false}, '@flag': {$eq: @value}"

static struct element element_of(const struct rule_value *value)
{
	return (struct element){.type = value->type, .value = value->value};
}

/* The flag is set where overflow is; the state notes its name if the document had no such field. */
static enum link_result mend_flag(struct job *job, struct mover_target *target,
				  const struct verify_document *verify, struct bytes main)
{
	const struct rule *rule = target->rule;
	const struct element value = element_of(&rule->flag.value);
	const struct element otherwise = element_of(&rule->flag.otherwise);
	struct element flag;
	bool spilled = verify->plan.generation.data;
	bool stands = spilled &&
		      (verify->plan.moved > 0 || own_fields_stand_already(&verify->plan.state));
	bool noted = stands && !document_find_path(main, rule->flag.field, &flag);
	const char *text, *editions = plan_is_edited(&verify->plan) ? ".e" : "";
	char state[STATE_PATH_MAX];

	snprintf(state, sizeof(state), "%s%s", rule->key, editions);
	if (noted)
		text = MEND_FLAG(SPILLED, "{$set: {'@flag': @value}, $addToSet: {'_spill.@key.a': "
					  "'@flag'}}");
	else if (stands)
		text = MEND_FLAG(SPILLED, "{$set: {'@flag': @value}}");
	else if (otherwise.type)
		text = spilled ? MEND_FLAG(SPILLED, "{$set: {'@flag': @otherwise}}")
			       : MEND_FLAG(WHOLE, "{$set: {'@flag': @otherwise}}");
	else
		text = spilled ? MEND_FLAG(SPILLED, "{$unset: {'@flag': ''}}")
			       : MEND_FLAG(WHOLE, "{$unset: {'@flag': ''}}");
	return command_run(job->link, target->database, text,
			   fill("collection", target->collection), fill("id", &verify->plan.id),
			   fill("key", rule->key), fill("state", state),
			   fill_binary("generation", verify->plan.generation),
			   fill("moved", verify->plan.moved), fill("flag", rule->flag.field),
			   fill("value", &value), fill("otherwise", &otherwise));
}

must_check enum link_result verify_repair_mend(struct job *job, struct mover_target *target,
					       const struct verify_document *verify,
					       struct bytes main)
{
	const struct element *id = &verify->plan.id;
	enum link_result result = LINK_DONE;
	struct job_moved moved; /* the second look tells */
	const struct fold_how anew = {.purpose = FOLD_ANEW};
	enum fold end;
	int64_t elements;

	if (verify_document_found(verify, VERIFY_GARBAGE))
		verify_keep_garbage(job->context, id);
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

static bool names_generation(const struct rule *rule, struct bytes main, struct bytes generation)
{
	struct bytes names[STATE_NAMES];
	struct element state;
	size_t count = state_find(rule, main, &state) ? state_names(&state, names) : 0;

	while (count-- > 0)
		if (bytes_equal(names[count], generation))
			return true;
	return false;
}

/* Where the document that the overflow is linked to has another `_id` now, this state may be all
 * that tells of its elements. */
static enum link_result find_owner(struct job *job, const struct mover_target *target,
				   struct bytes generation, bool *found)
{
	struct place owner = {0};
	struct bytes batch = {0}, main;
	struct element link;
	uint8_t *image = NULL;
	enum link_result result = command_find_one(
		job->link, target->overflow_database, &batch,
		"{find: @overflow, filter: {'_spill.g': @generation}, projection: {'@link': 1}, "
		"limit: 1, readConcern: @read_concern}",
		fill("overflow", target->overflow_collection),
		fill("link", target->rule->overflow.link), fill_binary("generation", generation));

	if (result != LINK_DONE || !batch.data ||
	    !document_find(batch, target->rule->overflow.link, &link))
		return result;
	place_set(&owner, link.type, link.value);
	link = (struct element){.type = owner.type, .value = owner.value};
	result = target_read_document(job->link, target, &link, &image, &main);
	*found = image && names_generation(target->rule, main, generation);
	place_fini(&owner);
	bson_free(image);
	return result;
}

must_check enum link_result verify_repair_judge(struct job *job, const struct mover_target *target,
						const struct verify_document *verify,
						struct bytes main, bool *stray)
{
	struct bytes names[STATE_NAMES];
	struct element states, state;
	bool own = false;
	enum link_result result;
	size_t count = 0;

	*stray = false;
	if (!document_find(main, "_spill", &states))
		return LINK_DONE;
	result = target_read_overflow(job->link, target, &verify->plan.id, take_any, &own);
	if (result != LINK_DONE || own)
		return result;
	if (state_find(target->rule, main, &state))
		count = state_names(&state, names);
	for (size_t i = 0; result == LINK_DONE && !*stray && i < count; i++)
		result = find_owner(job, target, names[i], stray);
	*stray |= count == 0;
	return result;
}

/* Of several arrays' states, only this one goes. */
must_check enum link_result verify_repair_drop(struct job *job, const struct mover_target *target,
					       const struct verify_document *verify,
					       struct bytes main)
{
	struct element states, first;
	struct cursor cursor;
	char path[STATE_PATH_MAX];
	bool alone;

	require(document_find(main, "_spill", &states));
	alone = states.type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, states.value) ||
		cursor_next(&cursor, &first) != CURSOR_ELEMENT ||
		cursor_next(&cursor, &first) != CURSOR_ELEMENT;
	job_report_count(&job->report, "states dropped", 1);
	return command_run(
		job->link, target->database,
		"{update: @collection, updates: [{q: {_id: {$eq: @id}, _spill: {$eq: "
		"@states}}, u: {$unset: {'@state': ''}}}], writeConcern: @write_concern}",
		fill("collection", target->collection), fill("id", &verify->plan.id),
		fill("states", &states),
		fill("state", alone ? "_spill" : state_path(path, target->rule, NULL)));
}
