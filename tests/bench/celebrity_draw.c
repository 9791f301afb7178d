/* What the load does next: a seeded random generator, and the Zipf distribution of the users. */
#include "tests/bench/celebrity_draw.h"

#include <err.h>
#include <math.h>
#include <stdlib.h>

static const unsigned kind_shares[KINDS] = {60, 25, 10, 5}; /* percent */

void draw_init(struct draw *d, int32_t users, double exponent, uint64_t seed)
{
	double sum = 0;

	*d = (struct draw){.count = users, .random = seed};
	d->users = calloc((size_t)users, sizeof(*d->users));
	d->cumulative = calloc((size_t)users, sizeof(*d->cumulative));
	if (d->users == NULL || d->cumulative == NULL)
		err(1, "memory for %d users", users);
	for (int32_t i = 0; i < users; i++)
		d->cumulative[i] = sum += pow(i + 1, -exponent);
}

void draw_begin_slice(struct draw *d)
{
	for (int32_t i = 0; i < d->count; i++)
		d->users[i].known = d->users[i].pushed;
}

/* splitmix64 */
static uint64_t draw_number(struct draw *d)
{
	uint64_t z = d->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* By the Zipf distribution: user 0 is the celebrity. */
static int32_t draw_user(struct draw *d)
{
	double point = (double)(draw_number(d) >> 11) * 0x1p-53 * d->cumulative[d->count - 1];
	int32_t low = 0, high = d->count - 1;

	while (low < high) {
		int32_t middle = (low + high) / 2;

		if (d->cumulative[middle] > point)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static enum kind draw_kind(struct draw *d)
{
	unsigned point = (unsigned)(draw_number(d) % 100);
	unsigned kind = 0;

	while (point >= kind_shares[kind])
		point -= kind_shares[kind++];
	return (enum kind)kind;
}

static int32_t take_push(struct draw *d, int32_t user)
{
	int32_t position = d->users[user].pushed++;

	d->pushes++;
	if (d->users[user].pushed > d->longest)
		d->longest = d->users[user].pushed;
	return position;
}

/*
 * Every operation takes three numbers, whatever its kind. A follower is looked for among those who
 * followed before the slice: their pushes have been acknowledged.
 */
void draw_operation(struct draw *d, struct operation *o)
{
	uint64_t chosen;

	o->kind = draw_kind(d);
	o->user = draw_user(d);
	chosen = draw_number(d);
	o->followers = d->users[o->user].pushed;
	o->known = d->users[o->user].known;
	o->position = -1;
	if (o->kind == PUSH)
		o->position = take_push(d, o->user);
	else if (o->kind == MEMBER && (chosen & 1) != 0 && o->known > 0)
		o->position = (int32_t)((chosen >> 1) % (uint64_t)o->known);
}

int64_t draw_follower(int32_t user, int32_t position)
{
	return (uint32_t)position * UINT32_C(2654435761) + (uint32_t)user * UINT32_C(40503);
}

void draw_push(struct draw *d)
{
	take_push(d, draw_user(d));
}
