/* Reads an update's operators as a list. */
#include "rules/query/update_operators.h"

must_check bool changes_open(struct changes *changes, struct bytes update)
{
	*changes = (struct changes){0};
	return cursor_open(&changes->verbs, update);
}

/* Goes to the next operator that has a document. */
static enum cursor_step next_verb(struct changes *changes)
{
	struct element verb;

	do {
		enum cursor_step step = cursor_next(&changes->verbs, &verb);

		if (step != CURSOR_ELEMENT)
			return step;
	} while (verb.type != BSON_BYTE_DOCUMENT);
	if (!cursor_open(&changes->paths, verb.value))
		return CURSOR_INVALID;
	changes->change.verb = verb.name;
	changes->inside = true;
	return CURSOR_ELEMENT;
}

static enum cursor_step next_path(struct changes *changes)
{
	struct change *change = &changes->change;
	enum cursor_step step = cursor_next(&changes->paths, &change->value);

	if (step == CURSOR_ELEMENT) {
		change->path = change->value.name;
		changes->target_pending = bytes_are(change->verb, "$rename");
	}
	changes->inside = step == CURSOR_ELEMENT;
	return step;
}

must_check enum cursor_step changes_next(struct changes *changes, struct change *change)
{
	enum cursor_step step = CURSOR_END;

	if (changes->target_pending &&
	    element_string(&changes->change.value, &changes->change.path))
		step = CURSOR_ELEMENT;
	changes->target_pending = false;
	while (step == CURSOR_END) {
		if (!changes->inside && (step = next_verb(changes)) != CURSOR_ELEMENT)
			return step;
		step = next_path(changes);
	}
	if (step == CURSOR_ELEMENT)
		*change = changes->change;
	return step;
}
