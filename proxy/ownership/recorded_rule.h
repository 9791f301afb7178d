/* What a record says of a rule on a namespace. Pure. Records are the collection `rules` of the
 * database `spillway`, one document for an array of a collection:
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
 *   uuid?: <binary>
 *   overflow_uuid?: <binary>
 *
 * `_id` is one concrete namespace, also of a rule with a pattern.
 * `format`: of the record, and of all that is stored under it.
 * `resolved`: the rule as the file has it, with its defaults filled in
 * (rules/config/rule_document.h). `hash`: the SHA-256, in hexadecimal digits, of one BSON document
 * that holds what decides how documents are stored: layout, limits, then flag, counters and
 * reference of `resolved`, and `created`, its overflow's. Names, times, access, expose and the
 * overflow's indexes are not in it. Records of versions before these two were have neither: they
 * are added when the rule is next held against its record. A version that does not know them leaves
 * them as they are; so layout and limits are what is compared. `claimed`: documents told whose the
 * overflow is, for a sample of it: who refers to what is to be collected is asked each time.
 * `uuid`: that of the collection whose documents are spilled (renamed.h). `overflow_uuid`: that of
 * the overflow, so that its loss is noticed (proxy/fitness/lost_overflow.h).
 * The layout must stay what it is as long as anything is spilled; the limits may change. */
#pragma once

#include "proxy/upstream/target.h"
#include "protocol/writer.h"

/* The record's `_id`, as a field. */
void recorded_rule_write_key(struct buffer *out, const struct mover_target *target);
/* All that it says of the rule: from `format` to `hash`. */
void recorded_rule_write(struct buffer *out, const struct mover_target *target);
/* `limits` alone. */
void recorded_rule_write_limits(struct buffer *out, const struct rule *rule);

enum rule_record {
	RULE_RECORD_NONE,
	RULE_RECORD_SAME,
	RULE_RECORD_OLDER,  /* the same layout and limits; the rest is not, or not there */
	RULE_RECORD_LIMITS, /* the same layout, other limits */
	RULE_RECORD_OTHER,  /* another layout, or a format that is not known */
};
/* `limits`: the path of those that are compared. */
enum rule_record recorded_rule_compare(struct bytes record, const struct mover_target *target,
				       const char *limits);
/* The format that the record is written in, if this program does not know it: a newer Spillway has
 * written it, and what is stored may mean something else. 0: it is known. A record without a number
 * has the format 1. */
int64_t recorded_rule_newer_format(struct bytes record);
/* Says so: "is recorded in format 2, ...". */
void recorded_rule_tell_newer(struct buffer *out, int64_t format);
/* Appends in what the layouts differ, by the configuration file's keys, with a colon in front;
 * nothing where they don't. */
void recorded_rule_tell_difference(struct buffer *out, struct bytes record,
				   const struct mover_target *target);

/* Names in a record; views of it. */
struct recorded_name {
	struct bytes namespace; /* of these two */
	struct bytes database, collection;
	struct bytes array; /* none of an overflow's */
};
/* False where it is nothing that we wrote. */
must_check bool recorded_rule_main(struct bytes record, struct recorded_name *name);
must_check bool recorded_rule_overflow(struct bytes record, struct recorded_name *name);
