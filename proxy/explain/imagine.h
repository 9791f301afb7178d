/* A server that is imagined: it has one document, an outlier, and its overflow. */
#pragma once

#include "rules/rule/rules.h"

#include <bson/bson.h>

struct imagined {
	const struct ruled_namespace *namespace;
	const bson_t *request; /* the client's command, for the `_id` that it asks for */
	int writes;            /* so many it has got */
};

/* The whole frame with which it answers this request. */
void imagine_reply(struct imagined *imagined, struct bytes request, struct buffer *frame);
