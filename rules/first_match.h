/* Aggregates that begin with a $match: where the overflow can be asked behind their documents
 * (probe.h), and what they need of those that match. */
#pragma once

#include "protocol/command.h"
#include "rules/rules.h"

/* The filter of the first stage. False where there is none, or where a document that comes out
 * might be taken for a hit, or a stage does more than to bring documents. */
must_check bool first_match(const struct command *command, struct element *filter);
/* Documents of the first batch as the command's cursor says, or `usual` ones; 0: not to be told. */
int64_t first_match_batch(const struct command *command, int64_t usual);
/* The stages behind it neither read ruled arrays nor bring documents that have them. */
bool first_match_suffices(const struct command *command, const struct ruled_namespace *namespace);
