/* The stages by which `spillway analyze` asks the server. Pure. */
#pragma once

#include "proxy/analyze/analyze_portions.h"
#include "proxy/analyze/analyze_report.h"

/* Each appends to the open array of stages, and counts *index up. */

/* As many documents as the server draws. */
void pipeline_sample(struct buffer *out, size_t *index, int64_t size);
/* Nothing but its _id. */
void pipeline_only_id(struct buffer *out, size_t *index);
/* Each document with the same chance, from the index of _id alone. ($sample draws pages first:
 * documents beside large ones, and so the large ones, come up several times too often.) */
void pipeline_draw(struct buffer *out, size_t *index, const char *collection, double chance);
/* The documents of a portion: by bounds of the index of _id, whatever the types. */
void pipeline_within(struct buffer *out, size_t *index, const struct portion *portion);
/* One document {_id: {a: <array>, n: <length>, c: <class of size>}, ...} for each array of the
 * report and each length. `whole`: nothing is asked of documents that are split. */
void pipeline_count(struct buffer *out, size_t *index, const struct analyze_report *report,
		    bool whole);

/* The filter of a find, alone in the buffer: {_id: {$in: <theirs>}}. */
void pipeline_filter_ids(struct buffer *out, struct bytes documents);
