/* Which rules an operator has paused, for every Spillway and every command: documents of the
 * collection `spillway.rules`, beside the rules' records, which have another `_id`.
 *
 *   _id: {pause: <a rule's name>}
 *   since: <date>
 *   by: <the machine that `spillway pause` ran on>
 *
 * Who may not read that collection never sees a pause. */
#pragma once

#include "proxy/upstream/link.h"

/* Hands over each pause. */
must_check enum link_result pauses_each(struct link *link, link_document each, void *context);
must_check enum link_result pauses_ask(struct link *link, const char *rule, bool *paused);

/* LINK_REFUSED: link_error says why. `changed`: it was not so before. */
must_check enum link_result pauses_write(struct link *link, const char *rule, const char *by,
					 bool *changed);
must_check enum link_result pauses_remove(struct link *link, const char *rule, bool *changed);
