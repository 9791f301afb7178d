/* For how long a judgement of a target's fitness holds, and when it is renewed. */
#pragma once

#include "proxy/mover/mover_inner.h"

bool judgement_holds(const struct mover_target *target);
/* Judges the target if that was not done yet with this server process: an index that was seen may
 * be gone after a crash, and without it two movers store the same batch. `again`: in any case. Logs
 * why a target has become unfit. LINK_LOST: it could not be judged. */
must_check enum link_result judgement_renew(struct mover *mover, struct link *link,
					    struct mover_target *target, bool again);
/* The same without a line in the log. `found`: it has become unfit just now. */
must_check enum link_result judgement_renew_silently(struct mover *mover, struct link *link,
						     struct mover_target *target, bool again,
						     bool *found);
