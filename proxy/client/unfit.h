/* What only a running Spillway knows of a match: whether the rule holds on its namespace. */
#pragma once

#include "proxy/mover/mover.h"
#include "rules/match/match.h"

/* Until the servers have been checked, and on a namespace that turned out unfit for its rule, what
 * concerns the array is refused, with the reason. */
void unfit_judge(struct mover *mover, struct match *match);
