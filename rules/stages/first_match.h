/* Aggregates that begin with a $match: where the overflow can be asked behind their documents
 * (probe.h), and what they need of those that match. */
#pragma once

#include "protocol/command.h"
#include "rules/rule/rules.h"

/* The filter of the first stages, which mongod makes one query of (filter_split.h): how many they
 * are. 0 where there is none, or where a document that comes out might be taken for a hit, or a
 * stage does more than to bring documents. */
size_t first_match(const struct command *command, struct buffer *joined, struct element *filter);
/* Documents of the first batch as the command's cursor says, or `usual` ones; 0: not to be told. */
int64_t first_match_batch(const struct command *command, int64_t usual);
/* The stages behind them neither read ruled arrays nor bring documents that have them. */
bool first_match_suffices(const struct command *command, const struct ruled_namespace *namespace);
/* The same of all stages of a pipeline that begins with the namespace's documents. */
bool stages_suffice(struct bytes pipeline, const struct ruled_namespace *namespace);
