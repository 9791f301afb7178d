/* Goes through all levels of a BSON document. */
#include "rules/rule/walk.h"

must_check bool walk_into(struct walk *walk, uint8_t type, struct bytes document)
{
	struct walk_level *level = &walk->levels[walk->depth];

	if (walk->depth == CURSOR_MAX_DEPTH || !cursor_open(&level->cursor, document))
		return false;
	level->array = type == BSON_BYTE_ARRAY;
	walk->depth++;
	return true;
}

must_check bool walk_within(struct walk *walk, const struct element *element)
{
	struct bytes document;

	return !element_document(element, &document) || walk_into(walk, element->type, document);
}

must_check enum cursor_step walk_next(struct walk *walk, struct element *element)
{
	while (walk->depth > 0) {
		enum cursor_step step = cursor_next(&walk->levels[walk->depth - 1].cursor, element);

		if (step != CURSOR_END)
			return step;
		walk->depth--;
	}
	return CURSOR_END;
}

must_check enum cursor_step walk_first(struct walk *walk, uint8_t type, struct bytes document,
				       struct element *element)
{
	walk_start(walk);
	return walk_into(walk, type, document) ? walk_next(walk, element) : CURSOR_INVALID;
}
