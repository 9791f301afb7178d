/* First rounds of several documents, step by step together. */
#include "proxy/spill/group.h"

#include <stdlib.h>

/* Of documents one behind the other: the next one. False: none is left. */
static bool next_document(struct bytes *left, struct bytes *document)
{
	if (left->length == 0)
		return false;
	*document = (struct bytes){left->data, (size_t)load_int32(left->data)};
	left->data += document->length;
	left->length -= document->length;
	return true;
}

struct group *group_new(struct link *link, struct mover_target *target, struct bytes ids)
{
	struct group *group = must_calloc(1, sizeof(*group));
	struct bytes document;

	group->link = link;
	group->target = target;
	group->round = (struct round){.link = link, .target = target};
	while (next_document(&ids, &document)) {
		struct group_member *member = &group->members[group->count];

		require(group->count < GROUP_MOST);
		member->in = document_find(document, "_id", &member->id);
		group->count += member->in;
	}
	return group;
}

void group_free(struct group *group)
{
	replies_free(&group->images);
	free(group);
}

struct group_member *group_find(struct group *group, const struct element *id)
{
	for (size_t i = 0; i < group->count; i++) {
		struct group_member *member = &group->members[i];

		if (member->id.type == id->type && bytes_equal(member->id.value, id->value))
			return member;
	}
	return NULL;
}

static void splice_ids(struct buffer *out, size_t *place, const void *context)
{
	const struct group *group = context;
	char index[12];

	for (size_t i = 0; i < group->count; i++)
		if (group->members[i].in)
			writer_renamed(out, writer_index(index, (*place)++), &group->members[i].id);
}

struct fill group_fill_ids(const char *name, const struct group *group)
{
	return fill_spliced(name, splice_ids, group);
}

static size_t count_in(const struct group *group)
{
	size_t count = 0;

	for (size_t i = 0; i < group->count; i++)
		count += group->members[i].in;
	return count;
}

static void leave_all(struct group *group)
{
	for (size_t i = 0; i < group->count; i++)
		group->members[i].in = false;
}

must_check enum link_result group_read(struct group *group, bool at_once, link_document each,
				       void *context, struct replies *replies)
{
	auto_buffer struct buffer out = {0};

	if (count_in(group) == 0)
		return LINK_DONE;
	command_write(&out, group->link,
		      "{find: @collection, filter: {_id: {$in: [..@ids]}}, singleBatch: @at_once, "
		      "readConcern: @read_concern}",
		      fill("collection", group->target->collection), group_fill_ids("ids", group),
		      fill("at_once", at_once));
	return link_find_kept(group->link, group->target->database, buffer_view(&out), each,
			      context, replies);
}

static void take_image(void *context, struct bytes document)
{
	struct group *group = context;
	const struct rule *rule = group->target->rule;
	struct group_member *member;
	struct element id;
	struct plan plan;

	member = document_find(document, "_id", &id) ? group_find(group, &id) : NULL;
	if (!member || !member->in)
		return;
	if (!member->image.data ||
	    !plan_follow(rule, &member->seen, member->image, document, &plan))
		plan = plan_make(rule, document);
	member->found = true;
	member->image = document;
	member->seen = plan;
	member->pass = (struct pass_state){.round = &group->round,
					   .link = group->link,
					   .rule = rule,
					   .target = group->target,
					   .plan = plan,
					   .still = true};
}

/* M0. Who is not found, whose plan is another than `wanted`, or has moved something already,
 * leaves.
 */
static enum link_result look(struct group *group, enum plan_kind wanted)
{
	struct replies images = {0};
	enum link_result result;

	for (size_t i = 0; i < group->count; i++)
		group->members[i].found = false;
	result = group_read(group, wanted == PLAN_BIRTH, take_image, group, &images);
	replies_free(&group->images);
	group->images = images;
	for (size_t i = 0; i < group->count; i++) {
		struct group_member *member = &group->members[i];
		const struct plan *plan = &member->pass.plan;

		member->in = member->in && result == LINK_DONE && member->found &&
			     plan->kind == wanted && plan->moved == 0;
	}
	return result;
}

/* Who has overflow documents, whoever wrote them, leaves; and all, where it can't be said who has:
 * a link may be another spelling of a number. */
static void leave_linked(struct group *group)
{
	struct element values, value;
	struct group_member *member;
	struct cursor cursor;

	if (!document_find(link_body(group->link), "values", &values) ||
	    !cursor_open(&cursor, values.value)) {
		leave_all(group);
		return;
	}
	while (cursor_next(&cursor, &value) == CURSOR_ELEMENT) {
		member = group_find(group, &value);
		if (!member) {
			leave_all(group);
			return;
		}
		member->in = false;
	}
}

static enum link_result look_for_overflow(struct group *group)
{
	const struct mover_target *target = group->target;
	enum link_result result;

	if (count_in(group) == 0)
		return LINK_DONE;
	result = command_run(group->link, target->overflow_database,
			     "{distinct: @overflow, key: @link, query: {'@link': {$in: [..@ids]}}, "
			     "readConcern: @read_concern}",
			     fill("overflow", target->overflow_collection),
			     fill("link", target->rule->overflow.link),
			     group_fill_ids("ids", group));
	if (result == LINK_DONE)
		leave_linked(group);
	else
		leave_all(group);
	return result;
}

must_check enum link_result group_look(struct group *group)
{
	enum link_result result = look(group, PLAN_BIRTH);

	if (result == LINK_DONE)
		result = look_for_overflow(group);
	for (size_t i = 0; i < group->count; i++)
		group->members[i].outlier = group->members[i].in;
	return result == LINK_REFUSED ? LINK_DONE : result;
}

/* One command with a statement for each who is in. Whose guard held is seen when it is read again:
 * the reply only counts them. */
static enum link_result update_all(struct group *group, void (*write)(struct pass_state *pass,
								      struct buffer *statements))
{
	auto_buffer struct buffer statements = {0};
	enum link_result result;

	if (count_in(group) == 0)
		return LINK_DONE;
	for (size_t i = 0; i < group->count; i++)
		if (group->members[i].in)
			write(&group->members[i].pass, &statements);
	result = command_run(group->link, group->target->database,
			     "{" MAIN_UPDATE ", ordered: false}",
			     fill("collection", group->target->collection),
			     fill_documents("statements", buffer_view(&statements)));
	if (result == LINK_REFUSED && link_error(group->link)->unacknowledged)
		leave_all(group); /* the next step is for what is acknowledged */
	return result;
}

/* M3, of generations in which nothing counts yet. M2 would look for what another mover has stored
 * of them meanwhile: their first batch can't be stored then. Who gets not all in leaves. */
static enum link_result store_all(struct group *group)
{
	struct pass_state *passes[GROUP_MOST];
	enum link_result result = LINK_DONE;
	size_t count = 0, sent = 1;

	for (size_t i = 0; i < group->count; i++)
		if (group->members[i].in)
			passes[count++] = &group->members[i].pass;
	while (count > 0 && result == LINK_DONE && sent > 0)
		result = overflow_insert(passes, count, &sent);
	if (!overflow_stands(group->link, result))
		leave_all(group); /* rounds of their own see what became of it */
	for (size_t i = 0; i < group->count; i++) {
		const struct pass_state *pass = &group->members[i].pass;

		group->members[i].in &= pass->stored == pass->plan.length - pass->plan.head;
	}
	return result;
}

must_check enum link_result group_move(struct group *group)
{
	enum link_result result = update_all(group, main_write_birth);

	if (result != LINK_LOST)
		result = look(group, PLAN_MOVE);
	if (result != LINK_LOST)
		result = store_all(group);
	if (result != LINK_LOST)
		result = update_all(group, main_write_cut);
	return result == LINK_LOST ? LINK_LOST : LINK_DONE;
}
