/* Names with a `*` in them: does one match, and could two match the same name? */
#pragma once

#include "protocol/bytes.h"

/* `*` stands for any run of bytes, also none; every other byte for itself. */
must_check bool glob_match(struct bytes pattern, struct bytes name);
/* True where some name matches both. */
must_check bool glob_meet(struct bytes one, struct bytes other);

static inline bool glob_is(struct bytes name)
{
	return name.length > 0 && memchr(name.data, '*', name.length) != NULL;
}
