/* Scalars of the configuration as BSON values and back: YAML's core schema (1.2.2, section 10.3.2).
 */
#pragma once

#include "rules/rule/rules.h"
#include "rules/config/yaml.h"

/* A plain scalar that the core schema takes for a whole number of 64 bits. */
must_check bool rules_value_integer(const struct yaml_node *node, int64_t *number);
/* bool, int32 (int64 where it needs it), double, null, else a string; a quoted scalar is always
 * one. False for a whole number beyond 64 bits. The value is owned by the caller. */
must_check bool rules_value_read(const struct yaml_node *node, struct rule_value *value);
/* As YAML that is read back as the same value; for text_append's buffers. Type 0 is `absent`. */
void rules_value_print(struct buffer *buffer, const struct rule_value *value);
/* A double-quoted scalar. */
void rules_value_print_quoted(struct buffer *buffer, struct bytes text);
