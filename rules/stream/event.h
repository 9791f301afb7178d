/* An event of a change stream, as the server tells it. */
#pragma once

#include "protocol/cursor.h"

enum event_kind {
	EVENT_OTHER,
	EVENT_INSERT,
	EVENT_UPDATE,
	EVENT_REPLACE,
	EVENT_DELETE,
	EVENT_GONE, /* drop, rename, dropDatabase: no document is what it was */
};

/* Views into the event. */
struct event {
	struct bytes whole;
	enum event_kind kind;
	bool in_transaction;                     /* of several statements */
	struct bytes database, collection;       /* empty: it names none */
	struct bytes to_database, to_collection; /* of a rename; the same */
	struct element id;                       /* of the document; type 0: none */
	struct element time; /* the Timestamp of its clusterTime; type 0: none */
	struct bytes full;   /* fullDocument; empty: none, or null */
	struct bytes before; /* fullDocumentBeforeChange; the same */
	struct bytes change; /* updateDescription; empty: none */
};

/* False where it can't be read. */
must_check bool event_read(struct bytes whole, struct event *event);
