/* Who holds much memory, and who gives up first. */
#include "proxy/crowd/claims.h"

#include "protocol/base.h"

#include <stdlib.h>

void claims_init(struct claims *claims)
{
	claims->newest = NULL;
	pthread_mutex_init(&claims->lock, NULL);
}

void claims_fini(struct claims *claims)
{
	pthread_mutex_destroy(&claims->lock);
}

static void add(struct claims *claims, struct claim *claim)
{
	claim->newer = NULL;
	claim->older = claims->newest;
	if (claim->older)
		claim->older->newer = claim;
	claims->newest = claim;
}

static void take_out(struct claims *claims, struct claim *claim)
{
	if (claim->newer)
		claim->newer->older = claim->older;
	else
		claims->newest = claim->older;
	if (claim->older)
		claim->older->newer = claim->newer;
	claim->told = claim->early = false;
}

/* From the newest on, as many as it takes. */
static void tell(struct claims *claims, int64_t excess)
{
	for (struct claim *claim = claims->newest; claim; claim = claim->older) {
		claim->told = excess > 0;
		claim->early = excess > 0 && claim->older;
		excess -= claim->held;
	}
}

void claims_set(struct claims *claims, struct claim *claim, int64_t held, int64_t excess)
{
	if (held < CLAIMS_LEAST)
		held = 0;
	if (held == claim->held && excess <= 0)
		return;
	pthread_mutex_lock(&claims->lock);
	if (claim->held == 0 && held > 0)
		add(claims, claim);
	else if (claim->held > 0 && held == 0)
		take_out(claims, claim);
	claim->held = held;
	tell(claims, excess);
	pthread_mutex_unlock(&claims->lock);
}

void claims_tell(struct claims *claims, int64_t excess)
{
	pthread_mutex_lock(&claims->lock);
	tell(claims, excess);
	pthread_mutex_unlock(&claims->lock);
}

struct claim *claims_new(void)
{
	return must_calloc(1, sizeof(struct claim));
}

void claims_drop(struct claims *claims, struct claim *claim)
{
	if (claim)
		claims_set(claims, claim, 0, 0);
	free(claim);
}

bool claims_give_up(const struct claim *claim)
{
	return !claim || claim->held == 0 || claim->told;
}

bool claims_give_up_early(const struct claim *claim)
{
	return claim && claim->early;
}
