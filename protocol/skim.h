/* What a message tells of its sender, picked out while its bytes go by: of a request that can't be
 * held as a whole, the session, the transaction and the Stable API's version. */
#pragma once

#include "protocol/message.h"

struct skim;

struct skim *skim_new(void);
void skim_free(struct skim *skim);
/* The next bytes of the frame, its header first. */
void skim_take(struct skim *skim, struct bytes bytes);
/* Behind the frame: appends one that has of its body only the command's name and those fields.
 * False where it could not be read: it was compressed, or no OP_MSG, or broken. */
must_check bool skim_end(const struct skim *skim, struct buffer *frame);
