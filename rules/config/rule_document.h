/* Writes a rule as BSON: what `check` prints as JSON, /rules shows and `spillway.rules` records. */
#pragma once

#include "protocol/writer.h"
#include "rules/config/settings.h"
#include "rules/rule/rules.h"

/* Appends every setting of the rule, with its default filled in, under the configuration file's own
 * names and in the order of the table (settings.h). Sizes are whole numbers of bytes, durations
 * texts with a unit, `otherwise` the text "absent" if there is no value. What the rule does not
 * have (flag, counters, reference, `created`, ...) is left out. */
void rule_write(struct buffer *out, const struct rule *rule);
/* The part of it that says what is written into documents besides their elements: flag, counters
 * and reference. */
void rule_write_own_fields(struct buffer *out, const struct rule *rule);
/* One setting in the same form, under another name; nothing if the rule does not have it. */
void rule_write_setting(struct buffer *out, const char *name, const struct setting *setting,
			const struct rule *rule);
