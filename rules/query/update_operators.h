/* Reads an update's operators as a list: which operator changes which path by what. */
#pragma once

#include "protocol/cursor.h"

struct change {
	struct bytes verb; /* the operator: "$set" */
	struct bytes path;
	struct element value; /* what stands behind the path; for both of $rename's the new name */
};

struct changes {
	struct cursor verbs;
	struct cursor paths;
	bool inside;          /* of the operator that `paths` reads */
	bool target_pending;  /* the new name of a $rename is yet to come */
	struct change change; /* the last one */
};

/* False where it is not BSON. */
must_check bool changes_open(struct changes *changes, struct bytes update);
/* Like cursor_next. A $rename makes two: of the old path and of the new one. Operators without a
 * document are passed over: mongod refuses them. */
must_check enum cursor_step changes_next(struct changes *changes, struct change *change);
