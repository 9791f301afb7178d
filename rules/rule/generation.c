/* What a sound name of a generation is. */
#include "rules/rule/generation.h"

#include <stdlib.h>

#define SUBTYPE 0
#define BEFORE (4 + 1) /* the length and the subtype, in front of the bytes */

must_check bool generation_read(const struct element *field, struct bytes *name)
{
	if (field->type != BSON_BYTE_BINARY || field->value.length != BEFORE + GENERATION_BYTES ||
	    field->value.data[4] != SUBTYPE)
		return false;
	*name = (struct bytes){field->value.data + BEFORE, GENERATION_BYTES};
	return true;
}

must_check bool generation_find(struct bytes document, const char *path, struct bytes *name)
{
	struct element field;

	return document_find_path(document, path, &field) && generation_read(&field, name);
}

void generation_draw(uint8_t *name)
{
	arc4random_buf(name + GENERATION_TARGET_BYTES, GENERATION_BYTES - GENERATION_TARGET_BYTES);
}
