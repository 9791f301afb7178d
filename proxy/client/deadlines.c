/* Deadlines of sessions: one list for each kind, the longest running first. */
#include "proxy/client/deadlines.h"

#include <stddef.h>

void deadline_end(struct deadline_list *list, struct deadline *deadline)
{
	if (!deadline->runs)
		return;
	deadline->runs = false;
	if (deadline->previous)
		deadline->previous->next = deadline->next;
	else
		list->first = deadline->next;
	if (deadline->next)
		deadline->next->previous = deadline->previous;
	else
		list->last = deadline->previous;
	deadline->next = deadline->previous = NULL;
}

void deadline_begin(struct deadline_list *list, struct deadline *deadline, uint64_t now)
{
	deadline_end(list, deadline);
	deadline->runs = true;
	deadline->since = now;
	deadline->previous = list->last;
	if (list->last)
		list->last->next = deadline;
	else
		list->first = deadline;
	list->last = deadline;
}
