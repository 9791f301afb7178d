/* What is known of a write before anything is sent for it. */
#include "rules/edit/edit_inner.h"

#include "rules/query/statements.h"

#include <stdlib.h>

must_check bool edit_concerns_one(struct edit *edit)
{
	size_t concerned = 0;

	for (size_t i = 0; i < edit->namespace->target_count; i++) {
		concerned += edit->concerned[i];
		if (edit->concerned[i])
			edit->target = i;
	}
	return concerned == 1;
}

/* Of one array alone, and of nothing else that the write reads or changes of arrays. */
static void find_membership(struct edit *edit)
{
	const struct ruled_namespace *namespace = edit->namespace;
	const struct whole_write *write = &edit->write;
	struct ruled_namespace one;

	if (!edit_concerns_one(edit) || !edit->facts.bare)
		return;
	one = ruled_alone(namespace, edit->target);
	if (strcmp(one.targets->overflow_database, namespace->database) != 0)
		return; /* no $lookup reaches it */
	if (edit->facts.reads && edit->facts.appends)
		membership_of_filter(write->filter.value, &one, &edit->membership);
	else if (!edit->facts.reads && write->update.type != 0)
		membership_of_update(&write->update, &one, &edit->membership);
}

void edit_init(struct edit *edit, struct sequence *sequence, const struct whole_write *write)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;

	*edit = (struct edit){
		.sequence = sequence, .write = *write, .namespace = namespace, .all = true};
	edit->concerned = must_calloc(namespace->target_count, sizeof(*edit->concerned));
	for (size_t i = 0; i < namespace->target_count; i++) {
		edit->concerned[i] = whole_write_concerns(write, namespace, i);
		edit->all = edit->all && edit->concerned[i];
	}
	if (statement_pinned_id(write->filter.value, write->collation.type != 0, &edit->id))
		edit->named = EDIT_PINNED;
	edit->facts = whole_write_judge(write, namespace);
	find_membership(edit);
	edit_decide_together(edit);
}
