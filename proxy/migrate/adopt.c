/* Adoption: documents that were split by hand in a rule's layout become Spillway's as they are. */
#include "proxy/migrate/adopt.h"
#include "proxy/job/job_walk.h"
#include "rules/rule/overflow_document.h"
#include "proxy/base/clock.h"
#include "proxy/upstream/target_read.h"

#include "proxy/migrate/adopt_judge.h"
#include "proxy/migrate/adopt_links.h"
#include "proxy/spill/fold.h"
#include "proxy/upstream/clauses.h"
#include "proxy/spill/pass.h"
#include "proxy/mover/queue.h"
#include "proxy/verify/verify_look.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

/* Longer than a server keeps the transaction of a command that was killed. */
#define PATIENCE_MS 75000
#define PAUSE_FIRST_MS 10
#define PAUSE_MOST_MS 1000
#define DOCUMENT_MAX (16 << 20)
#define UPDATES_MAX 500 /* of documents of one element, in one command */
#define IDS_PAGE 1000

static const struct job_report_kind refused = {"split by hand", REPORT_UNFINISHED,
					       "it is not adopted: it stays as it is",
					       .name = "not-adopted"};
static const struct job_report_kind orphan = {
	"no document", REPORT_UNFINISHED,
	"overflow made by hand, and there is no document that it is linked to: it stays",
	.name = "overflow-without-document"};
static const struct job_report_kind large = {
	"large", REPORT_LEFT,
	"more than 16 MB together: it is read whole, but no edit and no undo can fold it back",
	.name = "too-large"};
static const struct job_report_kind restless = {
	"not at rest", REPORT_UNFINISHED,
	"adopted, but its batches are not what the rule would make", .name = "batches-not-at-rest"};
static const struct job_report_kind broken = {
	"corrupt", REPORT_CORRUPT, "'spillway verify' says more", .name = "adopted-differs"};

static void report(struct job *job, const struct mover_target *target,
		   const struct job_report_kind *kind, const struct element *id, const char *detail)
{
	bool of_overflow = kind == &orphan;
	auto_free char *name = bson_strdup_printf(
		"%s.%s", of_overflow ? target->overflow_database : target->database,
		of_overflow ? target->overflow_collection : target->collection);

	job_report_list(&job->report, kind, name, id, detail);
}

static void take_batch(void *context, struct bytes batch)
{
	adopt_split_batch(context, batch);
}

static void count_batch(void *context, struct bytes batch)
{
	*(int64_t *)context += overflow_generation(batch).data ? 0 : 1;
}

/* The overflow as it is in the transaction. */
struct again {
	int64_t count;
	uint64_t seal;
};

static void take_again(void *context, struct bytes batch)
{
	struct again *again = context;

	if (overflow_generation(batch).data)
		return;
	again->count++;
	again->seal += adopt_seal(batch);
}

/* Whether the document is still what was judged. */
static enum link_result look_again(struct job *job, const struct mover_target *target,
				   const struct element *id, const struct adopt_split *split,
				   bool *changed)
{
	struct bytes main;
	uint8_t *image = NULL;
	enum link_result result = target_read_document(job->link, target, id, &image, &main);

	*changed = result == LINK_DONE && (!image || !bytes_equal(main, split->main));
	bson_free(image);
	return result;
}

/* Without a document. */
static enum link_result look_at_orphan(struct job *job, const struct mover_target *target,
				       const struct element *link)
{
	int64_t count = 0;
	char detail[64];
	enum link_result result =
		target_read_overflow(job->link, target, link, count_batch, &count);

	if (result != LINK_DONE || count == 0)
		return result;
	snprintf(detail, sizeof(detail), "%lld overflow documents", (long long)count);
	report(job, target, &orphan, link, detail);
	return LINK_DONE;
}

/* The transaction. */

/* What batches must still be is said when they are written; of elements nothing but all their bytes
 * says it. */
static enum link_result read_again(struct job *job, const struct mover_target *target,
				   const struct element *link, struct again *again)
{
	return command_find(
		job->link, target->overflow_database, take_again, again,
		target->rule->overflow.layout == RULE_BATCHES
			? "{find: @overflow, filter: {'@link': @id}, projection: {_id: 1}}"
			: "{find: @overflow, filter: {'@link': @id}}",
		fill("overflow", target->overflow_collection),
		fill("link", target->rule->overflow.link), command_fill_equal("id", link));
}

/* In the transaction's snapshot all is as it was judged. What changes of it from there on is a
 * write conflict; only an overflow document that is new then is not. */
static enum link_result look_inside(struct job *job, const struct mover_target *target,
				    const struct adopt_split *split, bool *held)
{
	struct again again = {0};
	bool changed = true;
	enum link_result result = look_again(job, target, &split->plan.id, split, &changed);

	if (result == LINK_DONE && !changed)
		result = read_again(job, target, &split->plan.id, &again);
	*held = result == LINK_DONE && !changed && again.count == split->count &&
		(target->rule->overflow.layout == RULE_BATCHES || again.seal == split->seal);
	return result;
}

/* What a batch must still be, so that its elements have their place. */
static void write_batch_guard(struct buffer *out, const struct adopt_split *split,
			      struct bytes batch)
{
	const struct rule *rule = split->rule;
	struct element id, number, held;
	size_t q = writer_open_document(out, "q"), condition;

	require(document_find(batch, "_id", &id) && document_find(batch, "held", &held));
	command_equal(out, "_id", id.type, id.value);
	command_equal(out, rule->overflow.link, split->plan.id.type, split->plan.id.value);
	if (document_find(batch, "number", &number))
		command_equal(out, rule->overflow.batch_field, number.type, number.value);
	condition = writer_open_document(out, rule->overflow.array);
	writer_renamed(out, "$size", &held);
	writer_close(out, condition);
	command_exists(out, "_spill", false);
	writer_close(out, q);
}

/* `number`: 0 for a document of one element. */
static void write_batch_state(struct buffer *out, const struct pass_state *pass, int64_t position,
			      int32_t number)
{
	size_t u = writer_open_document(out, "u"), set = writer_open_document(out, "$set"), state;

	state = writer_open_document(out, "_spill");
	command_generation(out, "g", pass->plan.generation);
	writer_int64(out, "p", position);
	if (number > 0 && !pass->rule->overflow.batch_field)
		writer_int32(out, "i", number);
	writer_close(out, state);
	writer_close(out, set);
	writer_close(out, u);
}

static void write_batch_updates(struct buffer *out, const struct pass_state *pass,
				const struct adopt_split *split)
{
	size_t updates = writer_open_array(out, "updates"), update;
	int64_t position = 0, held;
	int32_t number = 0;
	struct element element;
	char name[12];

	for (size_t at = 0; at < split->batches.length;) {
		const uint8_t *data = split->batches.data + at;
		struct bytes batch = {data, (size_t)load_int32(data)};

		at += batch.length;
		update = writer_open_document(out, writer_index(name, (size_t)number));
		write_batch_guard(out, split, batch);
		write_batch_state(out, pass, position, ++number);
		writer_close(out, update);
		require(document_find(batch, "held", &element) && element_integer(&element, &held));
		position += held;
	}
	writer_close(out, updates);
}

/* What they hold was looked at in the transaction. By `_id` alone mongod finds them without making
 * plans. */
static int64_t write_element_updates(struct buffer *out, const struct pass_state *pass,
				     const struct adopt_split *split, int64_t from)
{
	size_t updates = writer_open_array(out, "updates"), update, q;
	int64_t count = 0;
	char name[12];

	while (count < UPDATES_MAX && from + count < split->count) {
		const struct adopt_place *place =
			adopt_order_at(&split->order, (size_t)(from + count));

		update = writer_open_document(out, writer_index(name, (size_t)count));
		q = writer_open_document(out, "q");
		command_equal(out, "_id", BSON_BYTE_OBJECT_ID,
			      (struct bytes){place->id, sizeof(place->id)});
		writer_close(out, q);
		write_batch_state(out, pass, from + count++, 0);
		writer_close(out, update);
	}
	writer_close(out, updates);
	return count;
}

/* All batches, or documents of one element from place `from` on, as many as one command takes. */
static int64_t write_updates(struct buffer *out, const struct pass_state *pass,
			     const struct adopt_split *split, int64_t from)
{
	if (pass->rule->overflow.layout == RULE_ELEMENTS)
		return write_element_updates(out, pass, split, from);
	write_batch_updates(out, pass, split);
	return split->count;
}

/* `held`: every batch is what it was. */
static enum link_result mark_batches(struct pass_state *pass, const struct adopt_split *split,
				     bool *held)
{
	enum link_result result = LINK_DONE;
	int64_t count;

	*held = true;
	for (int64_t from = 0; result == LINK_DONE && *held && from < split->count; from += count) {
		auto_buffer struct buffer out = {0};
		size_t start = writer_open(&out);

		writer_string(&out, "update", pass->target->overflow_collection);
		count = write_updates(&out, pass, split, from);
		writer_close(&out, start);
		result = link_run(pass->link, pass->target->overflow_database, buffer_view(&out));
		*held = result == LINK_DONE && link_reply(pass->link)->n == count;
	}
	return result;
}

static enum link_result mark_all(struct job *job, struct pass_state *pass,
				 const struct adopt_split *split, bool *held)
{
	enum link_result result = look_inside(job, pass->target, split, held);

	if (result == LINK_DONE && *held)
		result = mark_batches(pass, split, held);
	if (result != LINK_DONE || !*held)
		return result;
	result = main_adopt(pass, split->flag.type ? &split->flag : NULL);
	*held = result == LINK_DONE && link_reply(pass->link)->n == 1;
	return result;
}

/* Where only the majority is late it is done: a read of the majority waits for it. */
static enum link_result commit(struct job *job)
{
	enum link_result result = link_commit(job->link);

	return result == LINK_REFUSED && link_error(job->link)->write_concern ? LINK_DONE : result;
}

/* `taken` is false where something was not as it had been read. */
static enum link_result take_over(struct job *job, struct mover_target *target,
				  const struct adopt_split *split, bool *taken)
{
	uint8_t generation[GENERATION_BYTES];
	struct round round = {.link = job->link, .target = target, .metrics = job->metrics};
	struct pass_state pass = {.round = &round,
				  .link = job->link,
				  .rule = target->rule,
				  .target = target,
				  .plan = split->plan,
				  .open = {.number = split->count},
				  .adopted = true};
	enum link_result result = link_begin(job->link);

	*taken = false;
	target_new_generation(target, generation);
	pass.plan.generation = (struct bytes){generation, sizeof(generation)};
	pass.plan.head = split->plan.length;
	pass.plan.moved = pass.plan.elements = split->elements;
	if (result == LINK_DONE)
		result = mark_all(job, &pass, split, taken);
	if (result == LINK_DONE && *taken)
		result = commit(job);
	link_abort(job->link);
	*taken = *taken && result == LINK_DONE;
	return result;
}

/* Behind it. */

static void note_fold(struct job *job, const struct mover_target *target, const struct element *id,
		      enum fold end)
{
	struct migrating *migrating = job->context;

	switch (end) {
	case FOLD_DONE:
	case FOLD_RESTS:
		atomic_store(&migrating->folded_at, clock_now());
		return;
	case FOLD_TOO_LARGE:
		report(job, target, &restless, id, "it is too large to be folded back");
		return;
	case FOLD_BUSY:
		report(job, target, &restless, id, "it changed each time; 'verify' can repair it");
		return;
	case FOLD_BROKEN:
		report(job, target, &broken, id, "elements of it are missing");
		return;
	}
	require(!"an end without a name");
}

/* Batches of another size than the rule's: the array goes back, and is moved anew with all that is
 * too long. */
static enum link_result bring_to_rest(struct job *job, struct mover_target *target,
				      const struct element *id)
{
	const struct fold_how anew = {.purpose = FOLD_ANEW};
	struct verify_document verify;
	struct bytes main;
	uint8_t *image;
	int64_t elements;
	enum fold end;
	enum link_result result = verify_look(job, target, id, &verify, &image, &main);

	if (result == LINK_DONE && verify_document_has(&verify, REPORT_CORRUPT)) {
		report(job, target, &broken, id, verify.found[0].detail);
	} else if (result == LINK_DONE && verify.foreign) {
		report(job, target, &refused, id,
		       "adopted, but overflow documents came meanwhile: they don't count");
	} else if (result == LINK_DONE && verify_document_found(&verify, VERIFY_BUSY)) {
		note_fold(job, target, id, FOLD_BUSY);
	} else if (result == LINK_DONE && verify_document_wants_new_batches(&verify)) {
		result = fold_document(job->link, target, id, &anew, &end, &elements);
		if (result == LINK_DONE)
			note_fold(job, target, id, end);
	}
	verify_document_fini(&verify);
	bson_free(image);
	return result;
}

static void count_adopted(struct job *job, const struct mover_target *target,
			  const struct adopt_split *split)
{
	job->documents++;
	job->elements += split->elements;
	job_report_count(&job->report, "adopted", 1);
	job_report_count(&job->report, "adopted elements", split->elements);
	if (split->bytes > DOCUMENT_MAX)
		report(job, target, &large, &split->plan.id, NULL);
}

static enum link_result finish(struct job *job, struct mover_target *target,
			       const struct adopt_split *split)
{
	struct migrating *migrating = job->context;
	enum link_result result;

	count_adopted(job, target, split);
	result = bring_to_rest(job, target, &split->plan.id);
	if (result == LINK_REFUSED) {
		report(job, target, &restless, &split->plan.id, link_error(job->link)->message);
		result = LINK_DONE;
	}
	return result == LINK_DONE ? throttle_wait(&migrating->throttle, job) : result;
}

static enum link_result list_refused(struct job *job, struct mover_target *target,
				     const struct adopt_split *split, bool *again)
{
	enum link_result result = look_again(job, target, &split->plan.id, split, again);

	if (result == LINK_DONE && !*again)
		report(job, target, &refused, &split->plan.id, split->why);
	return result;
}

static enum link_result execute(struct job *job, struct mover_target *target,
				const struct adopt_split *split, bool *again, char *why)
{
	bool taken;
	enum link_result result = take_over(job, target, split, &taken);

	*again = result == LINK_DONE && !taken;
	if (result != LINK_REFUSED)
		return result == LINK_DONE && taken ? finish(job, target, split) : result;
	*again = link_error_passes(link_error(job->link));
	snprintf(why, ADOPT_WHY_SIZE, "%.190s", link_error(job->link)->message);
	if (!*again)
		report(job, target, &refused, &split->plan.id, why);
	return LINK_DONE;
}

/* One look at a document, and what follows. `again`: it, or its overflow, has changed meanwhile, or
 * the server refused (`why`). */
static enum link_result adopt_split(struct job *job, struct mover_target *target,
				    struct adopt_split *split, bool *again, char *why)
{
	const struct migrating *migrating = job->context;

	if (split->count == 0)
		return LINK_DONE;
	if (!split->why[0] && migrating->own_ids)
		snprintf(split->why, ADOPT_WHY_SIZE,
			 "other arrays hold elements that have an _id of their own: those of its "
			 "overflow documents may be theirs, and would be lost");
	if (!split->why[0] && link_standalone(job->link))
		snprintf(split->why, ADOPT_WHY_SIZE,
			 "adoption needs transactions, which a standalone has not: make the server "
			 "a replica set, be it of one member");
	if (split->why[0])
		return list_refused(job, target, split, again);
	if (migrating->adopts && job->options.execute)
		return execute(job, target, split, again, why);
	if (migrating->adopts)
		count_adopted(job, target, split);
	return LINK_DONE;
}

static enum link_result adopt_once(struct job *job, struct mover_target *target,
				   const struct element *link, bool *again, char *why)
{
	struct adopt_split split = {0};
	struct bytes main;
	uint8_t *image = NULL;
	enum link_result result = target_read_document(job->link, target, link, &image, &main);

	*again = false;
	snprintf(why, ADOPT_WHY_SIZE, "it changed each time it was looked at");
	if (result == LINK_DONE && !image)
		return look_at_orphan(job, target, link);
	if (result == LINK_DONE) {
		adopt_split_init(&split, target->rule, main);
		result = target_read_overflow(job->link, target, link, take_batch, &split);
	}
	if (result == LINK_DONE) {
		adopt_split_end(&split);
		result = adopt_split(job, target, &split, again, why);
	}
	adopt_split_fini(&split);
	bson_free(image);
	return result;
}

static enum link_result adopt_document(struct job *job, struct mover_target *target,
				       const struct element *link)
{
	int64_t until = clock_now() + PATIENCE_MS, pause = PAUSE_FIRST_MS;
	char why[ADOPT_WHY_SIZE];
	bool again = true;
	enum link_result result = adopt_once(job, target, link, &again, why);

	while (result == LINK_DONE && again && clock_now() < until) {
		if (!job_pause(pause))
			return LINK_LOST;
		pause = 2 * pause < PAUSE_MOST_MS ? 2 * pause : PAUSE_MOST_MS;
		result = adopt_once(job, target, link, &again, why);
	}
	if (result == LINK_DONE && again)
		report(job, target, &refused, link, why);
	return result;
}

static void write_own_ids(struct buffer *out, const char *name, const struct rule *rule)
{
	auto_free char *path = bson_strdup_printf("%s._id", rule->array);
	size_t filter = writer_open_document(out, name);

	command_exists(out, path, true);
	writer_close(out, filter);
}

static void take_own_id(void *context, struct bytes document)
{
	(void)document;
	*(bool *)context = true;
}

/* Where the application gives its elements an `_id`, that of an overflow document may be one. */
static enum link_result find_own_ids(struct job *job, const struct mover_target *target)
{
	struct migrating *migrating = job->context;
	struct id_pages pages = {.link = job->link, .target = target, .size = IDS_PAGE};
	enum link_result result = LINK_DONE;

	while (result == LINK_DONE && !pages.ended && !migrating->own_ids)
		result = id_pages_next(&pages, write_own_ids, take_own_id, &migrating->own_ids);
	id_pages_fini(&pages);
	return result;
}

must_check enum link_result adopt_all(struct job *job, struct mover_target *target, size_t helpers)
{
	struct migrating *migrating = job->context;
	struct adopt_links links = {0};
	enum link_result result = adopt_links_find(&links, job->link, target);

	migrating->own_ids = false;
	if (result == LINK_DONE && links.count > 0 &&
	    target->rule->overflow.layout == RULE_ELEMENTS)
		result = find_own_ids(job, target);
	if (result == LINK_DONE && links.count > 0)
		result = job_list(job, target, adopt_document, &links.all, helpers);
	adopt_links_fini(&links);
	return result;
}
