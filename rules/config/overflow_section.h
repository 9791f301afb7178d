/* The section `overflow` of a rule: what section_read leaves to a function of its own, and what
 * several of its settings are together. */
#pragma once

#include "rules/config/section.h"
#include "rules/rule/rules.h"

/* `section` is the rule's, which section_read has read. */
void overflow_section_read(const struct section *section, struct rule *rule);
