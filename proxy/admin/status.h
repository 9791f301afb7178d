/* What the admin address tells of a running Spillway: the status page, the rules, its own
 * connections. */
#pragma once

#include "proxy/base/places.h"
#include "proxy/admin/reload_desk.h"
#include "proxy/mover/mover.h"
#include "proxy/observe/observer.h"
#include "proxy/upstream/target.h"

struct status {
	const struct config *config; /* while a request is answered */
	struct mover *mover;
	const struct places *places;
	const _Atomic int64_t *paused; /* listeners that have no descriptors */
	struct observers *observers;   /* NULL: nothing is observed */
	int64_t started;               /* monotonic microseconds */
	bool hidden; /* nothing that comes from documents is shown: readers need no token */
};

/* True where clients are accepted and some server answers. */
bool status_ready(const struct status *status);
/* Why not. */
void status_not_ready(const struct status *status, char *reason, size_t size);

#define STATUS_HIDDEN "hidden: set admin.token_file to see it"

/* Why a rule can't hold, as it may be shown: the server's words may quote a document. */
void status_reason(const struct status *status, const struct target_view *view, char *text,
		   size_t size);
/* The Content-Security-Policy of the status page, freed by the caller: its one style, no more. */
char *status_page_policy(void);

/* Each appends a whole answer: HTML without scripts; JSON; JSON; JSON. */
void status_page(struct buffer *out, const struct status *status);
void status_rules(struct buffer *out, const struct status *status);
/* What is going on now: see docs/operate.md. */
void status_now(struct buffer *out, const struct status *status);
/* {"connections": ["127.0.0.1:4711", ...]}: our ends of the connections to servers, as these name
 * them. */
void status_connections(struct buffer *out, const struct status *status);
/* {"asked": 3} */
void status_reload_asked(struct buffer *out, uint64_t number);
/* {"ended": 3, "good": true, "report": "..."}: of the latest that has ended. */
void status_reload(struct buffer *out, const struct reload_outcome *outcome);
