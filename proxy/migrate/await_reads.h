/* Waits for the reads that began before a rule was in force, as serve does with a new rule
 * (open_reads.h). */
#pragma once

#include "proxy/job/job.h"

/* Nothing has been moved under the rule yet: false where the wait was interrupted. What could not
 * be looked at is noted in the report. */
must_check bool await_reads(struct job *job);
