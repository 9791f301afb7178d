/* What a group of documents moved, compared with what is stored. */
#pragma once

#include "proxy/spill/group.h"

/* Behind group_move. Who is in then is as it should be: its overflow holds, element by element, the
 * tail that was read before it was cut, what it says of its overflow is true, and nothing of it is
 * corrupt. Who is not was changed meanwhile, or has to be looked at alone. LINK_DONE, or LINK_LOST.
 */
must_check enum link_result group_verify(struct group *group);
