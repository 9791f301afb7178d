/* Refuses what concerns an array whose rule does not hold, or of which that is not known yet. */
#include "proxy/client/unfit.h"

void unfit_judge(struct mover *mover, struct match *match)
{
	char reason[400];

	if (!match->namespace || !(match->touches_array || match->searches) ||
	    match->verdict == VERDICT_REFUSE)
		return;
	if (mover_unfit(mover, bytes_of(match->namespace->database),
			bytes_of(match->namespace->collection), reason, sizeof(reason))) {
		match_refuse(match, match->namespace->targets[0].rule, "unfit", reason);
	} else if (!mover_ready(mover)) {
		mover_not_ready(mover, reason, sizeof(reason));
		match_refuse(match, match->namespace->targets[0].rule, "not ready", reason);
		match->refusal.code = ERROR_TEMPORARILY_UNAVAILABLE;
	}
}
