/* Is another Spillway connected to the server? */
#pragma once

#include "proxy/upstream/link.h"

/* `found` is true, too, where the account may not ask. This link is not counted. One that has just
 * gone is seen a moment longer: asked again for a second and a half. */
must_check enum link_result neighbours_find(struct link *link, bool *found);
