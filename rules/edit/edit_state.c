/* What an edit can tell of the state that it has read. */
#include "rules/edit/edit.h"

#include "rules/rule/generation.h"

must_check bool edit_has_state(const struct edit *edit, size_t index)
{
	struct element state, count;
	struct bytes generation;

	return edit_state_of(edit, index, &state) &&
	       generation_find(state.value, "g", &generation) &&
	       document_find(state.value, "n", &count);
}

must_check bool edit_has_head(const struct edit *edit, size_t index)
{
	struct element state, head;
	int64_t length;

	return edit_has_state(edit, index) && edit_state_of(edit, index, &state) &&
	       document_find(state.value, "h", &head) && element_integer(&head, &length) &&
	       length >= 0;
}
