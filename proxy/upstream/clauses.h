/* Runs commands that are written as templates (protocol/template.h), and has the parts that the
 * mover's commands have in common.
 *
 *   result = command_run(link, "shop", "{drop: @collection, writeConcern: @write_concern}",
 *                        fill("collection", target->overflow_collection));
 *
 * Each text may name @read_concern (majority, no earlier than all that the link did) and
 * @write_concern. */
#pragma once

#include "protocol/template.h"
#include "protocol/writer.h"
#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

#define command_run(link, database, ...) \
	command_run_filled((link), (database), TEMPLATE_TEXT(__VA_ARGS__), \
			   TEMPLATE_FILLS(__VA_ARGS__))
/* Hands over each document, as link_find. */
#define command_find(link, database, each, context, ...) \
	command_find_filled((link), (database), TEMPLATE_TEXT(__VA_ARGS__), \
			    TEMPLATE_FILLS(__VA_ARGS__), (each), (context))
/* With LINK_DONE `document` is the first one, a view until the next command, or has no data. */
#define command_find_one(link, database, document, ...) \
	command_find_one_filled((link), (database), TEMPLATE_TEXT(__VA_ARGS__), \
				TEMPLATE_FILLS(__VA_ARGS__), (document))

must_check enum link_result command_run_filled(struct link *link, const char *database,
					       const char *text, const struct fill *fills);
must_check enum link_result command_find_filled(struct link *link, const char *database,
						const char *text, const struct fill *fills,
						link_document each, void *context);
must_check enum link_result command_find_one_filled(struct link *link, const char *database,
						    const char *text, const struct fill *fills,
						    struct bytes *document);
/* Appends the command. */
#define command_write(out, link, ...) \
	command_write_filled((out), (link), TEMPLATE_TEXT(__VA_ARGS__), TEMPLATE_FILLS(__VA_ARGS__))
void command_write_filled(struct buffer *out, const struct link *link, const char *text,
			  const struct fill *fills);
/* One list of fills; where both have a place, the first one's counts. */
#define COMMAND_FILLS 32
void command_join_fills(struct fill all[COMMAND_FILLS], const struct fill *first,
			const struct fill *second);

/* Places of a command. An element that is NULL leaves its field out. */
struct fill command_fill_equal(const char *name, const struct element *element);
/* {$size: <length>}; a length below 0 leaves the field out. */
struct fill command_fill_size(const char *name, const int64_t *length);
struct fill command_fill_uuid(const char *name, const struct mover_target *target);

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
/* The later of the two times. */
uint64_t time_after(const struct link *link, uint64_t time);
