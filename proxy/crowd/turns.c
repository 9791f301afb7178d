/* Turns of what many clients may do without having signed in, or without use. */
#include "proxy/crowd/turns.h"

#define WAIT_MOST_US 1000000
#define AT_ONCE_US 2000 /* what was not used of this time may be used at once */
#define SECOND_MS 1000
#define CROWD 100 /* waits in a second; the monitors of many clients bring about a few at once */

/* One in so many microseconds. */
static const uint64_t each[TURNS_KINDS] = {
	[TURNS_FIRST_GREETINGS] = 200,
	[TURNS_FURTHER_GREETINGS] = 1000,
	[TURNS_REFUSALS] = 200,
};

must_check uint64_t turns_take(struct turns *turns, enum turns_kind kind, uint64_t now)
{
	uint64_t turn = turns->latest[kind] + each[kind];

	now *= 1000;
	if (turn + AT_ONCE_US < now)
		turn = now - AT_ONCE_US;
	if (turn > now + WAIT_MOST_US)
		turn = now + WAIT_MOST_US;
	turns->latest[kind] = turn;
	return turn > now ? (turn - now + 999) / 1000 : 0;
}

must_check bool turns_crowded(struct turns *turns, uint64_t now)
{
	if (now >= turns->since + SECOND_MS) {
		turns->since = now;
		turns->waits = 0;
	}
	turns->waits += turns->waits <= CROWD;
	return turns->waits > CROWD;
}
