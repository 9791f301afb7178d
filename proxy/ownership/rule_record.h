/* The collection `rules` of the database `spillway`: one document for an array of a collection,
 * what its documents were spilled under. recorded_rule.h has what it says. */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/pages.h"
#include "proxy/ownership/recorded_rule.h"

/* Who reads them is refused (LINK_REFUSED) only where the account has no rights on them: whatever
 * else the server says is LINK_LOST, as if nobody had answered. Nothing follows from records that
 * could not be read. */

#define RULE_RECORD_DATABASE "spillway"
#define RULE_RECORD_COLLECTION "rules"

/* Compares the rule with what is recorded. `reason` is empty, or says why it can't hold: documents
 * are spilled under another layout. An account that has no rights on the database is warned of. */
must_check enum link_result rule_record_compare(struct link *link,
						const struct mover_target *target,
						enum rule_record *compared, char *reason,
						size_t size);
/* Where a command stopped. */
struct stop {
	struct place from; /* the caller's to end; as it was if none stopped */
	int64_t stayed;    /* findings in front of it */
};
/* The same without looking at the overflow. `stop`: where a migrate stopped, if one did, and then
 * it is the limits of that moment that are compared. NULL: those that are recorded now are. */
must_check enum link_result rule_record_read(struct link *link, const struct mover_target *target,
					     enum rule_record *record, struct stop *stop);

/* The rule as it is now. `sampled`: documents told whose the overflow is, for a sample of it. */
must_check enum link_result rule_record_write(struct link *link, const struct mover_target *target,
					      bool sampled);
/* A migrate has done all before the place, but for `stayed` that it told of; NULL: all. */
must_check enum link_result rule_record_place(struct link *link, const struct mover_target *target,
					      const struct place *place, int64_t stayed);
/* The same of an undo, which has folded back all before the place; and where one stopped. */
must_check enum link_result rule_record_undo_place(struct link *link,
						   const struct mover_target *target,
						   const struct place *place, int64_t stayed);
must_check enum link_result rule_record_undone(struct link *link, const struct mover_target *target,
					       struct stop *stop);
/* The collection's UUID; `found`: there is a record. Type 0 where none is noted. A view until the
 * link's next command. */
must_check enum link_result rule_record_uuid(struct link *link, const struct mover_target *target,
					     struct element *uuid, bool *found);
must_check enum link_result rule_record_note_uuid(struct link *link,
						  const struct mover_target *target,
						  const struct element *uuid);
/* The same of the overflow's. */
must_check enum link_result rule_record_overflow(struct link *link,
						 const struct mover_target *target,
						 struct element *uuid, bool *found);
must_check enum link_result rule_record_note_overflow(struct link *link,
						      const struct mover_target *target,
						      const struct element *uuid);
/* Nothing is spilled any more. */
must_check enum link_result rule_record_remove(struct link *link,
					       const struct mover_target *target);
/* The same of a record, whosever it is. */
must_check enum link_result rule_record_remove_named(struct link *link, struct bytes record);

/* Hands over each record. */
must_check enum link_result rule_record_each(struct link *link, link_document each, void *context);
/* Makes targets of the rule's namespaces that are recorded, be their collections there or not. */
must_check enum link_result rule_record_find_targets(struct link *link, struct target_set *targets,
						     struct rule_set *rules,
						     const struct rule *rule);
/* `found` (else as it was): overflow of Spillway's lies where the record says, or that can't be
 * looked at: documents are spilled. */
must_check enum link_result rule_record_find_overflow(struct link *link, struct bytes record,
						      bool *found);
/* The same of a target that agrees with its record. */
must_check enum link_result rule_record_is_split(struct link *link,
						 const struct mover_target *target, bool *found);
/* Once: the link's account may not read or write records. */
void rule_record_warn_of_rights(struct link *link);
