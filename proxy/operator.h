/* What the operator's commands have in common: options, the way to the server, the documents under
 * a rule one by one, progress, Ctrl-C, exit codes. */
#pragma once

#include "proxy/metrics.h"
#include "proxy/mover_link.h"
#include "proxy/mover_target.h"
#include "proxy/pages.h"
#include "proxy/report.h"
#include "rules/config.h"

#define OPERATOR_GOOD 0
#define OPERATOR_FINDINGS 1
#define OPERATOR_USAGE 2
#define OPERATOR_NO_SERVER 3
#define OPERATOR_INTERRUPTED 4

/* Which options a command takes, beside --config, --rule, --json and --help. */
#define OPTION_EXECUTE 1
#define OPTION_RESUME 2
#define OPTION_REPAIR 4
#define OPTION_EXPORT 8
#define OPTION_RATE 16
#define OPTION_LAG 32

struct operator_options {
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

struct operator
{
	struct operator_options options;
	struct config *config;
	const struct rule *rule;
	struct target_set *targets;
	struct metrics *metrics; /* what the mover's code counts */
	struct link *link;
	void *context;        /* the command's own */
	struct report report; /* findings, and what the command counted */
	int64_t total;        /* documents in the collection at work, by its metadata */
	int64_t looked;       /* of these, how many were looked at */
	int64_t documents;    /* worked on */
	int64_t elements;
	int64_t began;
	int64_t told; /* when progress was shown last */
	int64_t lag;  /* of the slowest secondary, milliseconds; -1: not known */
	bool shown;   /* a line of progress stands on the terminal */
};

struct operator_command {
	const char *name;
	const char *usage;
	unsigned options;
	/* On each namespace under the rule. */
	enum link_result (*work)(struct operator* operator, struct mover_target * target);
	/* Once, behind that; NULL: nothing. */
	enum link_result (*finish)(struct operator* operator);
};

/* The whole of a command: reads the options, works, reports. The exit code. */
int operator_main(const struct operator_command *command, void *context, int count,
		  char **arguments);

/* Ctrl-C: work ends before the next command to the server. */
const atomic_bool *operator_stopping(void);
/* Sleeps; false where it was interrupted. */
must_check bool operator_pause(int64_t milliseconds);

/* Calls `each` with every document's `_id` that the filter finds on the target, in the order of
 * `_id`; between pages it shows progress. `pages` says where to begin; NULL: at the start. */
typedef enum link_result (*operator_each)(struct operator* operator, struct mover_target * target,
					  const struct element *id);
/* Called behind each page: all before `place` has been done. */
typedef enum link_result (*operator_page)(struct operator* operator, struct mover_target * target,
					  const struct place *place);
struct operator_walk {
	page_filter filter;
	operator_each each;
	operator_page page; /* NULL: nothing */
	struct place from;  /* taken over */
};
must_check enum link_result operator_walk(struct operator* operator, struct mover_target * target,
					  const struct operator_walk *walk);

/* Reads one document, majority, no earlier than what this link did. `image` is the caller's to free
 * with bson_free; NULL where there is none. */
must_check enum link_result operator_read(struct operator* operator,
					  const struct mover_target * target,
					  const struct element *id, uint8_t **image,
					  struct bytes *document);
/* Moves its tail by the mover's own round, again until it is at rest or is to be left. */
must_check enum link_result operator_move(struct operator* operator, struct mover_target * target,
					  const struct element *id);
