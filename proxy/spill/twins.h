/* Overflow documents under one link and one number: the unique index was missing while two movers
 * stored the same elements. Readers take each position from any batch that holds it, so nothing is
 * lost; but the index can't be made again before these documents have been stored anew. */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

/* Appends {_id: link} of up to `most` of those that have such documents to `links`; `foreign`: only
 * where one of them was not written by Spillway. It looks through the whole overflow. */
must_check enum link_result twins_find(struct link *link, const struct mover_target *target,
				       bool foreign, int32_t most, struct buffer *links);
