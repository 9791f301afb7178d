/* Reads documents that were exported: by `spillway verify` as {namespace, document}, as BSON or as
 * lines of JSON; or the bare documents of mongodump and mongoexport. */
#pragma once

#include "protocol/bytes.h"

struct exported;

struct exported_document {
	struct bytes document;  /* views until the next one is read */
	struct bytes namespace; /* without data: a bare document */
	bool untyped; /* JSON with bare whole numbers, whose types nobody knows any more */
};

enum exported_step {
	EXPORTED_DOCUMENT,
	EXPORTED_BROKEN, /* what stands there is no document; the next may be one */
	EXPORTED_END,
};

/* NULL: errno says why it can't be read. */
struct exported *exported_open(const char *path);
/* From the first one on. */
void exported_rewind(struct exported *exported);
enum exported_step exported_next(struct exported *exported, struct exported_document *next);
/* Takes NULL. */
void exported_close(struct exported *exported);
