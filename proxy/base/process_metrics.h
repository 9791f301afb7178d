/* What the process takes of the machine, under the names that all Prometheus clients use. */
#pragma once

#include "protocol/bytes.h"

/* Before the sandbox is entered, which lets nothing of /proc be opened. */
void process_metrics_open(void);
/* Appends them, and the version, in Prometheus's text format. Any thread, one at a time. */
void process_metrics_print(struct buffer *out);
