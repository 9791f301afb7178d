/* More hands for a walk: several documents of a page are worked on at once, each hand on a link of
 * its own. What a hand finds and counts is added to the command's own when the page is done. */
#pragma once

#include "proxy/job/job_walk.h"

struct hands;

/* `helpers`: how many beside the calling thread. Each opens its link when there is work for it;
 * where that can't be opened there are fewer. */
struct hands *hands_new(struct job *job, size_t helpers);
void hands_free(struct hands *hands);

/* Documents {_id}, one behind the other: how many. */
size_t hands_count(struct bytes ids);
/* Calls the walk's `each` or `group` with every _id of the page: `ids` are documents {_id}, one
 * behind the other. Where one fails no further one begins, and job->link is the one that failed.
 * `show` is called by the calling thread behind each of its calls. */
must_check enum link_result hands_work(struct hands *hands, struct mover_target *target,
				       const struct job_walk *walk, const struct buffer *ids,
				       void (*show)(struct job *job));
