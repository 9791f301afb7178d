/* What the operator's commands have in common: options, the way to the server, the documents under
 * a rule one by one, progress, Ctrl-C, exit codes. */
#pragma once

#include "proxy/base/metrics.h"
#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"
#include "proxy/upstream/pages.h"
#include "proxy/job/job_report.h"
#include "rules/config/config.h"

/* Exit codes. */
#define JOB_GOOD 0
#define JOB_FINDINGS 1
#define JOB_USAGE 2
#define JOB_NO_SERVER 3
#define JOB_INTERRUPTED 4

/* Which options a command takes, beside --config, --rule, --json and --help. */
#define OPTION_EXECUTE 1
#define OPTION_RESUME 2
#define OPTION_REPAIR 4
#define OPTION_EXPORT 8
#define OPTION_RATE 16
#define OPTION_LAG 32

struct job_options {
	const char *config;
	const char *rule;
	const char *export;
	int64_t rate;   /* documents a second; 0: as fast as it goes */
	int64_t lag_ms; /* pause while a secondary is further behind than this; 0: never */
	bool execute;
	bool resume;
	bool repair;
	bool json;
};

struct job {
	struct job_options options;
	struct config *config;
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
	const char *name;
	const char *usage;
	unsigned options;
	bool recorded; /* also on namespaces of a pattern that are recorded, but gone */
	/* On each namespace under the rule. */
	enum link_result (*work)(struct job *job, struct mover_target *target);
	/* Once, behind that; NULL: nothing. */
	enum link_result (*finish)(struct job *job);
};

/* The whole of a command: reads the options, works, reports. The exit code. */
int job_main(const struct job_command *command, void *context, int count, char **arguments);

/* Ctrl-C: work ends before the next command to the server. */
const atomic_bool *job_stopping(void);
/* Sleeps; false where it was interrupted. */
must_check bool job_pause(int64_t milliseconds);
/* Until nobody reads any more what lay in the overflow at `since`; says so where that takes time.
 * False where it was interrupted. */
must_check bool job_await_readers(const struct mover_target *target, int64_t since);

/* Says which secondary is waited for, from time to time: `told` is when it did last. */
void job_show_lag(const struct job *job, int64_t *told);

/* Calls `each` with every document's `_id` that the filter finds on the target, in the order of
 * `_id` where there are no helpers; these have a `job` of their own each, and share what `context`
 * points to. Between pages it shows progress. `pages` says where to begin; NULL: at the start. */
typedef enum link_result (*job_each)(struct job *job, struct mover_target *target,
				     const struct element *id);
/* The same with several: documents {_id}, one behind the other. */
typedef enum link_result (*job_group)(struct job *job, struct mover_target *target,
				      struct bytes ids);
/* Called behind each page: all before `place` has been done. */
typedef enum link_result (*job_page)(struct job *job, struct mover_target *target,
				     const struct place *place);
struct job_walk {
	page_filter filter;
	job_each each;
	job_group group;   /* NULL: `each` is called; else this one, and never `each` */
	size_t group_most; /* documents that it takes */
	job_page page;     /* NULL: nothing */
	size_t helpers;    /* documents worked on at the same time, beside one */
	struct place from; /* taken over */
};
must_check enum link_result job_walk(struct job *job, struct mover_target *target,
				     const struct job_walk *walk);

/* Calls `each` with every `_id` of a list: documents {_id}, one behind the other. */
must_check enum link_result job_list(struct job *job, struct mover_target *target, job_each each,
				     const struct buffer *ids, size_t helpers);

/* So many more of the page at work are done: any hand, any thread. */
void job_count_done(struct job *job, size_t count);

struct job_moved {
	bool rests;
	char refused[512]; /* the server's words; empty: it didn't refuse */
};

/* Moves its tail by the mover's own round, again until it is at rest or is to be left. */
must_check enum link_result job_move(struct job *job, struct mover_target *target,
				     const struct element *id, struct job_moved *moved);
