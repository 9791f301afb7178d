/* What a collection's documents were spilled under: the collection `rules` of the database
 * `spillway`, one document for an array of a collection:
 *
 *   _id: {namespace, array}
 *   format: 1
 *   rule: <its name>
 *   layout: {overflow, kind, link, array?, batch?, flag?, total?, ...}
 *   limits: {threshold, max_bytes, when_outlier, size, batch_bytes}
 *   resolved: {name, namespace, array, threshold, ...}
 *   hash: <text>
 *   checkpoint?: {from, limits}
 *   claimed?: "sample"
 *
 * `_id` is one concrete namespace, also of a rule with a pattern.
 * `resolved`: the rule as the file has it, with its defaults filled in (rules/rule_write.h).
 * `hash`: the SHA-256, in hexadecimal digits, of one BSON document that holds what decides how
 * documents are stored: layout, limits, then flag, counters and reference of `resolved`, and
 * `created`, its overflow's. Names, times, access, expose and the overflow's indexes are not in it.
 * Records of versions before these two were have neither: they are added when the rule is next held
 * against its record. A version that does not know them leaves them as they are; so layout and
 * limits are what is compared.
 * `claimed`: documents told whose the overflow is, for a sample of it: who refers to what is to be
 * collected is asked each time.
 * The layout must stay what it is as long as anything is spilled; the limits may change. */
#pragma once

#include "proxy/mover_link.h"
#include "proxy/mover_target.h"
#include "proxy/pages.h"

#define RULE_RECORD_DATABASE "spillway"
#define RULE_RECORD_COLLECTION "rules"

/* Compares the rule with what is recorded, and records it as it is now. `reason` is empty, or says
 * why it can't hold: documents are spilled under another layout, or the overflow is another's. An
 * account that has no rights on the database is warned of. */
must_check enum link_result rule_record_hold(struct link *link, struct mover_target *target,
					     char *reason, size_t size);
/* The same without recording it, nor asking whose the overflow is. */
must_check enum link_result rule_record_compare(struct link *link,
						const struct mover_target *target, char *reason,
						size_t size);

/* Asks the records whose the overflow is, then documents, and notes it in the target; `reason` says
 * where it is another's. */
must_check enum link_result rule_record_own(struct link *link, struct mover_target *target,
					    char *reason, size_t size);
/* Nobody knows whose: nothing may be moved there; `reason` says so. */
bool rule_record_open(const struct mover_target *target, char *reason, size_t size);
/* The main collection is missing, and another's documents refer to the overflow; `reason` names it.
 */
must_check enum link_result rule_record_renamed(struct link *link,
						const struct mover_target *target, char *reason,
						size_t size);
/* May what no document refers to be collected? Only where the overflow is known to be this rule's,
 * and the main collection is there: what a client drops is tended at once. */
must_check enum link_result rule_record_collects(struct link *link, struct mover_target *target,
						 bool *collects);

enum rule_record {
	RULE_RECORD_NONE,
	RULE_RECORD_SAME,
	RULE_RECORD_OLDER,  /* the same layout and limits; the rest is not, or not there */
	RULE_RECORD_LIMITS, /* the same layout, other limits */
	RULE_RECORD_OTHER,  /* another layout */
};
/* The same without writing. `place`: where a migrate stopped, if one did, and then it is the limits
 * of that moment that are compared. NULL: those that are recorded now are. */
must_check enum link_result rule_record_read(struct link *link, const struct mover_target *target,
					     enum rule_record *record, struct place *place);
/* A migrate has done all before the place; NULL: all. */
must_check enum link_result rule_record_place(struct link *link, const struct mover_target *target,
					      const struct place *place);
/* Nothing is spilled any more. */
must_check enum link_result rule_record_remove(struct link *link,
					       const struct mover_target *target);

/* Makes targets of the rule's namespaces that are recorded, be their collections there or not. */
must_check enum link_result rule_record_find_targets(struct link *link, struct target_set *targets,
						     struct rule_set *rules,
						     const struct rule *rule);
/* Looks for overflow of rules that are gone. `reason` is empty where there is none. `edited` gets
 * the records, one behind the other, of rules whose array was edited before they moved anything. */
must_check enum link_result rule_record_find_gone(struct link *link, struct rule_set *rules,
						  struct buffer *edited, char *reason, size_t size);
/* Removes these, unless another Spillway is connected: asked before this one has other links, which
 * can't be told from another's. */
must_check enum link_result rule_record_remove_edited(struct link *link, struct bytes edited);
