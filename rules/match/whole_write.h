/* A write that needs ruled arrays whole: what of it decides that, and how its filter can be judged.
 * The sequence that serves it is rules/edit/edit.h. */
#pragma once

#include "protocol/command.h"
#include "rules/rule/rules.h"

/* The write as the client's command has it. Views that outlive the edit; a field that is not there
 * has type 0. */
struct whole_write {
	struct element filter; /* a document */
	struct element update; /* none: a delete */
	struct element collation;
	struct element hint;
	struct element sort;
	struct element fields; /* findAndModify's projection */
	struct element array_filters;
	bool constants; /* `c`: variables of its own */
	bool upsert;
	bool many;    /* multi: true, limit: 0 */
	bool denied;  /* the user may not read overflow: the write stays away from what is spilled
		       */
	bool counted; /* the reply tells whether it changed the document (nModified) */
	size_t bytes; /* of the statement */
};

/* One statement of an update or delete. False where it can't be read. */
bool whole_write_of_statement(struct bytes document, bool deletes, struct whole_write *write);
/* A findAndModify. */
struct whole_write whole_write_of_command(const struct command *command);
/* True when a ruled array of the namespace has to be whole for it. */
bool whole_write_wanted(const struct whole_write *write, const struct ruled_namespace *namespace);

/* Why it can't be served; NULL where it can. Nothing has to be sent to know. */
const char *whole_write_unserved(const struct whole_write *write,
				 const struct ruled_namespace *namespace);

/* The array of the namespace's target has to be whole for it. */
bool whole_write_concerns(const struct whole_write *write, const struct ruled_namespace *namespace,
			  size_t target);

struct whole_write_facts {
	bool reads;      /* the filter, sort or hint reads a ruled array */
	bool document;   /* the filter looks at more than the fields that it names ($jsonSchema) */
	bool raises;     /* a document may make the filter fail: the ones before it count */
	bool settles;    /* mongod can judge the filter in a pipeline */
	bool positional; /* which element it changes is told by the filter */
	bool appends;    /* to arrays, or leaves them alone; or deletes the document */
	bool bare;       /* neither sort nor hint reads an array, and no image is cut */
	bool swaps;      /* exact check-and-set is possible: the update only appends, and what the
			    filter reads of arrays stands by itself */
	bool sets; /* arrays as a whole, and reads none: right as it is where the one that stands
		      has another length */
};
struct whole_write_facts whole_write_judge(const struct whole_write *write,
					   const struct ruled_namespace *namespace);
