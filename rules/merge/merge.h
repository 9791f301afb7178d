/* Puts the documents of one reply together again: finds out what overflow they need, takes it in,
 * writes whole documents.
 *
 * L = f[0:h] ++ ov(g)[0:n] ++ f[h:] (docs/internals/spill-protocol.md, "Reading an array"). What a
 * document carries decides what is merged and stripped. Pure: the caller sends the query and hands
 * over what comes back. All documents are views that must outlive the merge. */
#pragma once

#include "rules/query/window.h"

struct merge;

struct merge *merge_new(const struct ruled_namespace *namespace);
/* Only these parts of the arrays are wanted, one for each target; of main's arrays comes what
 * window_write_wider asks for. They must outlive the merge, which has no documents yet. */
void merge_set_windows(struct merge *merge, const struct window *windows);
void merge_free(struct merge *merge);

enum merge_intake {
	MERGE_TAKEN,
	MERGE_BROKEN,  /* not BSON, or a state that no Spillway writes */
	MERGE_FOREIGN, /* spilled under a rule that this rule set doesn't have: must not be shown as
			  if it were whole */
	MERGE_SPARE,   /* it has a field that an inclusion may have brought unasked */
	MERGE_BEYOND,  /* its window can't be told from what came: another way */
};

/* A document of the reply, in its order. Its state is read from `_spill`, and what is wanted of its
 * arrays, if `_spill` has a mark for that (window_write_marks). Where the client's
 * projection hides `_id`, `_id` is there nevertheless, for linking, and `_spill` carries a mark
 * under the key "/id", whatever its value (see projection_write): such a document loses its `_id`.
 * One that a pipeline has computed has a mark as its last field (computed.h): it loses that alone.
 */
must_check enum merge_intake merge_add_document(struct merge *merge, struct bytes document);
/* Document `index` as it was read again. Its older overflow is forgotten. */
must_check enum merge_intake merge_replace_document(struct merge *merge, size_t index,
						    struct bytes document);

/* True where no document of a reply's batch has anything to put together or to hide: merge_clean
 * would say so of all of them. False says nothing. */
bool merge_untouched(const struct ruled_namespace *namespace, struct bytes batch);
/* True when every document can go on byte for byte as it came: nothing spilled, nothing to hide. */
bool merge_clean(const struct merge *merge);
/* How many of the first documents, put together, come to no more than `most` bytes, as the elements
 * that are left at their heads let guess; one at least where there are any. */
size_t merge_fitting(const struct merge *merge, size_t most);
/* How many of the first documents hold about half of all that is wanted; fewer than there are, and
 * one at least. */
size_t merge_half(const struct merge *merge);
/* True when documents need overflow of this target that has not been asked for (since they were
 * added or replaced). */
bool merge_wants(const struct merge *merge, size_t target);
/* How many elements are wanted of this target, roughly: what is asked for together. */
size_t merge_wanted_elements(const struct merge *merge, size_t target);
/* How many bytes these take, as the elements that are left let guess. */
double merge_wanted_bytes(const struct merge *merge, size_t target);
/* Appends the filter document {<link>: {$in: [...]}, "_spill.g": {$in: [...]}} as field `name` of
 * the open document in `out`, and takes these documents as asked for. No filter asks for more than
 * some 8 MB of links: merge_wants tells whether another is needed. */
void merge_write_filter(struct merge *merge, size_t target, struct buffer *out, const char *name);
/* Appends the sort document {<link>: 1, <batch>: 1} as field `name`. */
void merge_write_sort(const struct merge *merge, size_t target, struct buffer *out,
		      const char *name);
/* One overflow document, in the query's order. False where it is broken. */
must_check bool merge_add_overflow(struct merge *merge, size_t target, struct bytes document);

/* Appends document `index`, whole and without what clients don't see
 * (docs/internals/spill-protocol.md, "Hidden names"), to `out` as a BSON document. False, `out`
 * unchanged, when its generation has died meanwhile (a hole, or fewer than n elements): read it
 * again. Also where it comes to what no message holds (10,000,000 elements, 1 GB): */
must_check bool merge_write_document(const struct merge *merge, size_t index, struct buffer *out);
/* what has come can be so many elements. */
bool merge_is_too_long(const struct merge *merge, size_t index);
size_t merge_document_count(const struct merge *merge);
struct bytes merge_document(const struct merge *merge, size_t index);
/* How many documents needed overflow so far (for the metric). */
size_t merge_spilled_count(const struct merge *merge);
