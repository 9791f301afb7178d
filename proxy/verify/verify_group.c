/* What a group of documents moved, compared with what is stored. */
#include "proxy/verify/verify_group.h"

#include "proxy/verify/verify_document.h"
#include "rules/rule/overflow_document.h"

#include <stdlib.h>
#include <time.h>

/* A document's overflow beside its image before the cut, of which it holds the tail, and beside
 * what it is now. */
struct checked {
	struct verify_document before, after;
	struct bytes main; /* as it is now; without data: not found */
};

struct checking {
	struct group *group;
	struct checked *all;
	int64_t young_from;
	bool unclear; /* a link is nobody's _id, byte for byte */
};

static struct checked *checked_of(struct checking *checking, struct bytes document,
				  const char *name)
{
	struct group_member *member;
	struct element id;

	if (!document_find(document, name, &id))
		return NULL;
	member = group_find(checking->group, &id);
	return member ? &checking->all[member - checking->group->members] : NULL;
}

static void begin_check(void *context, struct bytes document)
{
	struct checking *checking = context;
	const struct rule *rule = checking->group->target->rule;
	struct checked *checked = checked_of(checking, document, "_id");

	if (!checked || checked->main.data)
		return;
	verify_document_init_planned(&checked->before, rule,
				     &checking->group->members[checked - checking->all].seen,
				     checking->young_from);
	verify_document_init(&checked->after, rule, document, checking->young_from);
	checked->main = document;
}

static void take_batch(void *context, struct bytes batch)
{
	struct checking *checking = context;
	struct checked *checked =
		checked_of(checking, batch, checking->group->target->rule->overflow.link);

	checking->unclear = checking->unclear || !checked;
	if (!checked || !checked->main.data)
		return;
	verify_document_batch(&checked->before, batch);
	verify_document_batch(&checked->after, batch);
}

/* In the order of their numbers, each document's. */
static enum link_result read_overflow(struct checking *checking)
{
	const struct group *group = checking->group;
	const struct mover_target *target = group->target;

	return command_find(group->link, target->overflow_database, take_batch, checking,
			    "{find: @overflow, filter: {'@link': {$in: [..@ids]}}, sort: {'@link': "
			    "1, '@order': 1}, readConcern: @read_concern}",
			    fill("overflow", target->overflow_collection),
			    fill("link", target->rule->overflow.link), group_fill_ids("ids", group),
			    fill("order", overflow_order_path(target->rule)));
}

/* The cut is there, and just so much is stored as was cut: nothing was moved since. */
static bool is_as_cut(const struct pass_state *pass, const struct checked *checked)
{
	const struct plan *now = &checked->after.plan;

	return bytes_equal(now->generation, pass->plan.generation) && now->moved == pass->stored &&
	       !plan_is_edited(now) && checked->before.length == pass->stored;
}

/* What is stored is what was cut. Who leaves is looked at alone. */
static void judge(struct group_member *member, struct checked *checked)
{
	if (!checked->main.data) {
		member->in = false;
		return;
	}
	verify_document_end(&checked->after, checked->main);
	member->in = is_as_cut(&member->pass, checked);
	member->damaged = member->in && verify_document_has(&checked->before, REPORT_CORRUPT);
	if (member->damaged || verify_document_has(&checked->after, REPORT_CORRUPT))
		member->in = false;
}

static void end_checks(struct checking *checking, bool compared)
{
	for (size_t i = 0; i < checking->group->count; i++) {
		struct group_member *member = &checking->group->members[i];

		member->in = member->in && compared;
		if (member->in)
			judge(member, &checking->all[i]);
		verify_document_fini(&checking->all[i].before);
		verify_document_fini(&checking->all[i].after);
	}
}

must_check enum link_result group_verify(struct group *group)
{
	struct replies images = {0};
	struct checking checking = {.group = group,
				    .all = must_calloc(GROUP_MOST, sizeof(*checking.all)),
				    .young_from = (int64_t)time(NULL) -
						  group->target->rule->gc_delay_ms / 1000 - 1};
	enum link_result result = group_read(group, false, begin_check, &checking, &images);

	if (result == LINK_DONE && images.count > 0)
		result = read_overflow(&checking);
	end_checks(&checking, result == LINK_DONE && !checking.unclear);
	free(checking.all);
	replies_free(&images);
	return result == LINK_LOST ? LINK_LOST : LINK_DONE;
}
