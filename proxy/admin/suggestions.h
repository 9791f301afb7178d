/* What was observed of arrays without a rule, as JSON and as a table of the status page. */
#pragma once

#include "proxy/admin/status.h"

/* Appends a whole answer:
 *
 *   {"sample": 0.01, "seconds": 3600, "arrays": [{"namespace": ..., "array": ..., "pushes": ...,
 *    "elements": ..., "element_bytes": ..., "grown": [...], "rule": ...}]}
 *
 * `sample` is 0 where nothing is observed. Numbers are of the sample; `grown`: elements pushed to
 * the documents that got most; `rule`: YAML to paste, where one of them got many. */
void status_suggestions(struct buffer *out, const struct status *status);
/* Appends nothing where nothing was observed. */
void status_show_suggestions(struct buffer *out, const struct status *status);
