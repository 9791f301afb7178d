/* Waits for reads that began before something, as serve does with a new rule (open_reads.h). */
#pragma once

#include "proxy/job/job.h"

struct await_reads {
	const struct job_report_kind *unseen; /* noted if it can't be looked */
	const char *since;                    /* they began before: words */
	const char *until;                    /* what is not done before they have ended: words */
	bool folded; /* arrays of the rule were folded back (struct open_reads_place) */
};

/* False where the wait was interrupted. What could not be looked at is noted in the report. */
must_check bool await_reads(struct job *job, const struct await_reads *what);
