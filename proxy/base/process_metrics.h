/* What the process takes of the machine, under the names that all Prometheus clients use. */
#pragma once

#include "protocol/bytes.h"

/* Before the sandbox is entered, which lets nothing of /proc be opened. */
void process_metrics_open(void);
struct process_figures {
	int64_t resident_bytes, descriptors; /* -1: not known */
	int64_t descriptors_most, cpu_milliseconds;
};
struct process_figures process_figures(void);
/* Appends them, and the version, in Prometheus's text format. One thread at a time. */
void process_metrics_print(struct buffer *out);
