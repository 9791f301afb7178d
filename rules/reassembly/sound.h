/* Expressions by which mongod tells a sound state from a damaged one. */
#pragma once

#include "rules/reassembly/call_writer.h"
#include "rules/rule/rules.h"

/* Of a document that has `_spill`: the rule's array has a state there that can't be read, or
 * `_spill` is no document. */
void sound_add_damaged(struct call *call, const struct rule *rule);
