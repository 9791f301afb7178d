/* What the operator's commands have in common: the file and the rule, the way to the server,
 * Ctrl-C, the report, exit codes. */
#pragma once

#include "proxy/base/command_line.h"
#include "proxy/base/metrics.h"
#include "proxy/base/places.h"
#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"
#include "proxy/job/job_report.h"
#include "rules/config/config.h"

/* Exit codes. */
#define JOB_GOOD 0
#define JOB_FINDINGS 1
#define JOB_USAGE 2
#define JOB_NO_SERVER 3

struct job_options {
	const char *config;
	const char *rule;
	const char *export;
	int64_t rate;   /* documents a second; 0: as fast as it goes */
	int64_t lag_ms; /* pause while a secondary is further behind than this; 0: never */
	bool execute;
	bool resume;
	bool repair;
	bool accept_loss; /* then `repair` is set, too */
	bool json;
};

struct job {
	enum program_command command;
	struct job_options options;
	struct config *config;
	struct places *places;
	const struct rule *rule;
	struct target_set *targets;
	struct metrics *metrics; /* what the mover's code counts */
	struct link *link;
	void *context;            /* the command's own */
	struct job_report report; /* findings, and what the command counted */
	int64_t total;            /* documents in the collection at work, by its metadata */
	int64_t looked;           /* of these, how many were looked at, but for the page at work */
	struct job_pace *pace;    /* of the page at work; the helpers' too; NULL: none */
	int64_t documents;        /* worked on */
	int64_t elements;
	int64_t began;
	int64_t told;      /* when progress was shown last */
	int64_t lag;       /* of the slowest secondary, milliseconds; -1: not known */
	char lagging[256]; /* that one's name */
	bool lag_hidden;   /* the account may not ask for it */
	char refused[512]; /* the server's words, of the first namespace that it refused */
};

struct job_command {
	bool recorded; /* also on namespaces of a pattern that are recorded, but gone */
	/* On each namespace under the rule. */
	enum link_result (*work)(struct job *job, struct mover_target *target);
	/* Once, behind that; NULL: nothing. */
	enum link_result (*finish)(struct job *job);
};

/* The whole of a command: reads the file, works, reports. The exit code. */
int job_main(const struct job_command *command, void *context, const struct command_line *line);

/* Ctrl-C: work ends before the next command to the server. */
const atomic_bool *job_stopping(void);
/* Sleeps; false where it was interrupted. */
must_check bool job_pause(int64_t milliseconds);
