/* Whether a name stands twice in a document, at any depth.
 *
 * mongod stores and returns such documents, but 6.0 aborts when a pipeline update puts one in
 * another document's place (it computes the difference of the two for its oplog). */
#pragma once

#include "protocol/cursor.h"

/* `document`: a document or an array (whose own positions are not names). True also where it is
 * broken or nested too deeply. */
must_check bool document_repeats_name(struct bytes document, bool is_array);
/* The same of this name, on the top level. */
must_check bool document_has_twice(struct bytes document, const char *name);
