/* The parts that the mover's commands have in common, appended to the open document of a buffer. */
#pragma once

#include "protocol/writer.h"
#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

/* `_spill.<key>` or `_spill.<key>.<field>`: a field of a document's state. */
#define STATE_PATH_MAX 512
const char *state_path(char *path, const struct rule *rule, const char *field);

/* majority, after the operation time (0: none); a standalone knows no operation times. */
void command_read_concern(struct buffer *command, const struct link *link, uint64_t after);
/* majority; on a standalone: in the journal. Nothing in a transaction: the commit has it. */
void command_write_concern(struct buffer *command, const struct link *link);
/* {<name>: {$eq: <value>}}: also where the value is a document or null. */
void command_equal(struct buffer *command, const char *name, uint8_t type, struct bytes value);
void command_generation(struct buffer *command, const char *name, struct bytes generation);
/* The command is for the overflow collection that was judged, and no other of its name. */
void command_overflow_uuid(struct buffer *command, const struct mover_target *target);
void command_exists(struct buffer *command, const char *name, bool exists);
/* A condition for overflow documents that no mover wrote: they name no generation. */
void command_foreign(struct buffer *command);
/* The later of the two times. */
uint64_t time_after(const struct link *link, uint64_t time);
