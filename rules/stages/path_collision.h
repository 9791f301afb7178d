/* Says whether paths of a find's projection stand in each other's way: one of them twice, or one
 * that leads through another. mongod refuses these, errors 31249 and 31250. */
#pragma once

#include "protocol/cursor.h"

/* False too where the projection can't be followed to its end. */
bool collision_in(struct bytes projection);
