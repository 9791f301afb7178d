/* The numbers and switches of a find or count, as mongod reads them: for those that are written as
 * an aggregate. */
#pragma once

#include "protocol/command.h"

/* True where a find, count or distinct has no other fields than those that every mongod knows of
 * that command, and that mean there what they mean of an aggregate. */
bool options_are_usual(const struct command *command);

enum options_verdict {
	OPTIONS_SOUND,
	OPTIONS_WRONG,    /* mongod refuses the command for them, whatever else it says */
	OPTIONS_UNSERVED, /* mongod may take them, we can't */
};

enum options_verdict options_of_find(const struct command *command);
enum options_verdict options_of_count(const struct command *command);

/* A number of a find, or a count's, that is sound; mongod cuts fractions off. 0 where there is
 * none. */
int64_t options_number(const struct command *command, const char *name);
/* Null is none. */
bool options_has_number(const struct command *command, const char *name);
/* A find's singleBatch. */
bool options_single_batch(const struct command *command);
