/* Several arrays folded back step by step together. */
#include "proxy/verify/undo_group.h"

#include "proxy/upstream/clauses.h"
#include "proxy/upstream/target_read.h"
#include "proxy/verify/verify_document.h"
#include "rules/rule/overflow_document.h"
#include "rules/rule/state.h"

#include <bson/bson.h>
#include <stdlib.h>
#include <time.h>

#define PORTION_BYTES (8 << 20) /* of arrays that are folded back by one command */
#define ELEMENT_BYTES 64        /* what an element is taken to have if none is in the document */

static const struct fold_how leaves = {.purpose = FOLD_LEAVES};

/* A member's document beside its overflow. */
struct folding {
	struct bytes main; /* without data: it was not read, or is no case for the group */
	struct gathering gathering;
	struct verify_document verify;
	int64_t size; /* that its array is expected to have */
	bool in;      /* of the portion at work */
};

struct undoing {
	struct link *link;
	struct mover_target *target;
	struct undo_group *group;
	struct folding *all;
	int64_t young_from;
	bool unclear; /* a link is nobody's _id, byte for byte */
};

static struct folding *folding_of(struct undoing *undoing, struct bytes document, const char *name)
{
	struct element id;

	if (!document_find(document, name, &id))
		return NULL;
	for (size_t i = 0; i < undoing->group->count; i++) {
		const struct element *each = &undoing->group->members[i].id;

		if (each->type == id.type && bytes_equal(each->value, id.value))
			return &undoing->all[i];
	}
	return NULL;
}

static int64_t expected_size(const struct plan *plan)
{
	int64_t each =
		plan->length > 0 ? (int64_t)plan->array.length / plan->length : ELEMENT_BYTES;

	/* What is stored may be any number. */
	return plan->moved < PORTION_BYTES / each ? plan->moved * each : PORTION_BYTES;
}

/* I0 of one: only what Spillway has written, and can read. */
static void take_main(void *context, struct bytes document)
{
	struct undoing *undoing = context;
	struct folding *folding = folding_of(undoing, document, "_id");
	struct element state;
	struct plan plan;

	if (!folding || folding->main.data || !state_find(undoing->target->rule, document, &state))
		return;
	plan = plan_make(undoing->target->rule, document);
	if (!plan.generation.data || plan.kind == PLAN_BROKEN || plan_is_edited(&plan))
		return;
	folding->main = document;
	folding->size = expected_size(&plan);
}

static void splice_all(struct buffer *out, size_t *place, const void *context)
{
	const struct undoing *undoing = context;
	char index[12];

	for (size_t i = 0; i < undoing->group->count; i++)
		writer_renamed(out, writer_index(index, (*place)++),
			       &undoing->group->members[i].id);
}

static enum link_result read_mains(struct undoing *undoing, struct replies *images)
{
	auto_buffer struct buffer out = {0};

	command_write(&out, undoing->link,
		      "{find: @collection, filter: {_id: {$in: [..@ids]}}, singleBatch: true, "
		      "readConcern: @read_concern}",
		      fill("collection", undoing->target->collection),
		      fill_spliced("ids", splice_all, undoing));
	return link_find_kept(undoing->link, undoing->target->database, buffer_view(&out),
			      take_main, undoing, images);
}

/* I1 of one batch. */
static void take_batch(void *context, struct bytes batch)
{
	struct undoing *undoing = context;
	struct folding *folding = folding_of(undoing, batch, undoing->target->rule->overflow.link);

	undoing->unclear = undoing->unclear || !folding;
	if (!folding || !folding->in)
		return;
	verify_document_batch(&folding->verify, batch);
	gathering_take(&folding->gathering, batch);
}

static void splice_portion(struct buffer *out, size_t *place, const void *context)
{
	const struct undoing *undoing = context;
	char index[12];

	for (size_t i = 0; i < undoing->group->count; i++)
		if (undoing->all[i].in)
			writer_renamed(out, writer_index(index, (*place)++),
				       &undoing->group->members[i].id);
}

static enum link_result read_overflow(struct undoing *undoing)
{
	const struct mover_target *target = undoing->target;

	return command_find(undoing->link, target->overflow_database, take_batch, undoing,
			    "{find: @overflow, filter: {'@link': {$in: [..@ids]}}, sort: {'@link': "
			    "1, '@order': 1}, readConcern: @read_concern}",
			    fill("overflow", target->overflow_collection),
			    fill("link", target->rule->overflow.link),
			    fill_spliced("ids", splice_portion, undoing),
			    fill("order", overflow_order_path(target->rule)));
}

static void begin_one(const struct undoing *undoing, struct folding *folding)
{
	const struct rule *rule = undoing->target->rule;

	folding->in = true;
	gathering_init(&folding->gathering, rule, &leaves, folding->main);
	array_writer_open(&folding->gathering.writer, &folding->gathering.array);
	verify_document_init(&folding->verify, rule, folding->main, undoing->young_from);
}

/* The next members whose arrays are not too much together; `at` is the first that was not asked
 * yet. False: none is left. */
static bool begin_portion(struct undoing *undoing, size_t *at)
{
	int64_t size = 0;
	bool any = false;

	for (; *at < undoing->group->count; (*at)++) {
		struct folding *folding = &undoing->all[*at];

		if (!folding->main.data)
			continue;
		size += folding->size;
		if (any && size > PORTION_BYTES)
			break;
		any = true;
		begin_one(undoing, folding);
	}
	return any;
}

/* What is not sound, and what has just changed, is looked at alone. */
static size_t judge(struct undoing *undoing, bool read, struct buffer *statements)
{
	size_t count = 0;

	for (size_t i = 0; i < undoing->group->count; i++) {
		struct folding *folding = &undoing->all[i];
		struct gathering *gathering = &folding->gathering;

		if (!folding->in)
			continue;
		array_writer_close(&gathering->writer);
		verify_document_end(&folding->verify, folding->main);
		folding->in = read && !undoing->unclear && gathering_is_whole(gathering) &&
			      !verify_document_has(&folding->verify, REPORT_CORRUPT) &&
			      statements->length + gathering->array.length < 3 * PORTION_BYTES;
		if (!folding->in)
			continue;
		gathering_write(gathering, undoing->target, statements);
		count++;
	}
	return count;
}

/* Where not all guards held, or the server refused something: it has no state any more. */
static enum link_result confirm(struct undoing *undoing, const struct element *id, bool *done)
{
	struct bytes main;
	struct element state;
	uint8_t *image = NULL;
	enum link_result result =
		target_read_document(undoing->link, undoing->target, id, &image, &main);

	*done = result == LINK_DONE && image && !state_find(undoing->target->rule, main, &state);
	bson_free(image);
	return result;
}

/* I2. */
static enum link_result put_back(struct undoing *undoing, const struct buffer *statements,
				 size_t count)
{
	const struct mover_target *target = undoing->target;
	enum link_result result = command_run(
		undoing->link, target->database,
		"{update: @collection, updates: [..@statements], ordered: false, writeConcern: "
		"@write_concern}",
		fill("collection", target->collection),
		fill_documents("statements", buffer_view(statements)));
	bool all = result == LINK_DONE && link_reply(undoing->link)->n == (int64_t)count;

	for (size_t i = 0; result != LINK_LOST && i < undoing->group->count; i++) {
		struct undo_member *member = &undoing->group->members[i];

		if (!undoing->all[i].in)
			continue;
		member->done = all;
		member->elements = undoing->all[i].gathering.length;
		if (!all)
			result = confirm(undoing, &member->id, &member->done);
	}
	return result;
}

static enum link_result fold_portion(struct undoing *undoing)
{
	auto_buffer struct buffer statements = {0};
	enum link_result result = read_overflow(undoing);
	size_t count = judge(undoing, result == LINK_DONE, &statements);

	if (result == LINK_DONE && count > 0)
		result = put_back(undoing, &statements, count);
	for (size_t i = 0; i < undoing->group->count; i++) {
		struct folding *folding = &undoing->all[i];

		gathering_fini(&folding->gathering);
		verify_document_fini(&folding->verify);
		folding->gathering = (struct gathering){0};
		folding->verify = (struct verify_document){0};
		folding->in = false;
	}
	return result;
}

static void take_ids(struct undo_group *group, struct bytes ids)
{
	for (size_t at = 0; at < ids.length;) {
		struct bytes each = {ids.data + at, (size_t)load_int32(ids.data + at)};

		at += each.length;
		require(group->count < UNDO_GROUP_MOST);
		group->members[group->count] = (struct undo_member){0};
		group->count += document_find(each, "_id", &group->members[group->count].id);
	}
}

must_check enum link_result undo_group_fold(struct link *link, struct mover_target *target,
					    struct bytes ids, struct undo_group *group)
{
	struct undoing undoing = {.link = link,
				  .target = target,
				  .group = group,
				  .all = must_calloc(UNDO_GROUP_MOST, sizeof(struct folding)),
				  .young_from = (int64_t)time(NULL) -
						target->rule->gc_delay_ms / 1000 - 1};
	struct replies images = {0};
	enum link_result result;
	size_t at = 0;

	group->count = 0;
	take_ids(group, ids);
	result = read_mains(&undoing, &images);
	while (result == LINK_DONE && begin_portion(&undoing, &at))
		result = fold_portion(&undoing);
	free(undoing.all);
	replies_free(&images);
	return result == LINK_LOST ? LINK_LOST : LINK_DONE;
}
