/* What an operator's command found, for people and as JSON: findings by kind, each with how many
 * there are and the first few documents. */
#pragma once

#include "protocol/cursor.h"

#define REPORT_EXAMPLES 5
#define REPORT_LISTED 10000 /* examples of a kind that is listed */

/* How bad a finding is. */
enum job_report_class {
	REPORT_CORRUPT,    /* elements are lost, or can't be told */
	REPORT_UNFINISHED, /* work that is not done yet */
	REPORT_GARBAGE,    /* overflow documents that nobody needs any more */
	REPORT_LEFT,       /* left as it is, by rule: a note, no finding */
};

struct job_report_kind {
	const char *code; /* V1 to V7 of the spill protocol, or a word; several kinds share one */
	enum job_report_class class;
	const char *what;
	const char *name;   /* of this kind alone, for programs: kebab-case, and never changed */
	const char *remedy; /* what to do; NULL: --repair does it, or `what` says it */
};

struct job_report_example {
	char *namespace;
	struct bytes id; /* {_id}; owned; empty where it is about the collection */
	char *detail;
};

struct job_report_entry {
	const struct job_report_kind *kind;
	int64_t count;
	struct job_report_example *examples; /* as many as job_report_examples says */
	bool listed;
};

struct job_report_count {
	const char *name;
	int64_t value;
};

struct job_report {
	struct job_report_entry *entries;
	size_t entry_count;
	struct job_report_count counts[12];
	size_t count_count;
};

/* How many of the counted are kept as examples. */
size_t job_report_examples(const struct job_report_entry *entry);

/* `id`: NULL where it is about the whole collection; `detail`: NULL where the kind says all. */
void job_report_add(struct job_report *report, const struct job_report_kind *kind,
		    const char *namespace, const struct element *id, const char *detail);
/* The same for a kind of which each document is to be named, not just the first few; but no more
 * than REPORT_LISTED of them, and how many more there are. */
void job_report_list(struct job_report *report, const struct job_report_kind *kind,
		     const char *namespace, const struct element *id, const char *detail);
typedef void (*job_report_add_to)(struct job_report *report, const struct job_report_kind *kind,
				  const char *namespace, const struct element *id,
				  const char *detail);
/* Adds to what is counted under this name, which is in capitals nowhere and has no underscore. */
void job_report_count(struct job_report *report, const char *name, int64_t amount);
int64_t job_report_counted(const struct job_report *report, const char *name);
/* Takes over what another report has, which is empty then. */
void job_report_merge(struct job_report *report, struct job_report *other);
/* How many are more than left alone. */
int64_t job_report_findings(const struct job_report *report);
bool job_report_found(const struct job_report *report);

/* What the report is of, and how that ended. */
enum job_end {
	JOB_END_DONE,
	JOB_END_REFUSED, /* the server refused something */
	JOB_END_LOST,
	JOB_END_INTERRUPTED,
};
struct job_report_head {
	const char *command, *rule;
	const char *error; /* the words, where it is not done */
	enum job_end end;
	bool executed;
	bool plan; /* --execute would write what is counted */
	bool json;
};
void job_report_print(const struct job_report *report, const struct job_report_head *head);
void job_report_fini(struct job_report *report);
