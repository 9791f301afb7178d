/* Which collections of a database lists leave out: the overflow collections of rules that do not
 * say `overflow: {listed: true}`, by the names that these rules give. */
#pragma once

#include "rules/rule/rules.h"

/* The database may have some. */
bool overflow_names_any(const struct rule_set *set, struct bytes database);
/* A collection of this name is one. */
bool overflow_names_hide(const struct rule_set *set, struct bytes database,
			 struct bytes collection);
/* Appends conditions to the open array, "*place" and on: an entry of listCollections that meets one
 * of them is left out. Of a view none is met. */
void overflow_names_splice(struct buffer *out, size_t *place, const struct rule_set *set,
			   struct bytes database);
/* The same for events of change streams, the other way round: an event that meets all of them is
 * none of an overflow collection, listed or not. */
void overflow_names_splice_events(struct buffer *out, size_t *place, const struct rule_set *set);
