/* What the load does next, by the seed alone: the same in every arm. */
#ifndef SPILLWAY_TESTS_BENCH_CELEBRITY_DRAW_H
#define SPILLWAY_TESTS_BENCH_CELEBRITY_DRAW_H

#include <stdint.h>

enum kind { PUSH, PROFILE, LAST, MEMBER, KINDS };

struct user {
	int32_t pushed; /* followers, also those whose push is under way */
	int32_t known;  /* followers when the slice began */
};

struct operation {
	enum kind kind;
	int32_t user;
	int32_t followers; /* of the user when the operation was drawn */
	int32_t known;
	int32_t position; /* of the follower that is looked for; -1: one who does not follow */
};

struct draw {
	struct user *users;
	double *cumulative; /* of the users' weights */
	int32_t count;      /* of users */
	int32_t longest;
	int64_t pushes;
	uint64_t random;
};

/* User i has the weight (i + 1)^-exponent: a Zipf distribution, user 0 is the celebrity. */
void draw_init(struct draw *d, int32_t users, double exponent, uint64_t seed);

/* What the users know from now on: all pushes so far have been acknowledged. */
void draw_begin_slice(struct draw *d);

void draw_operation(struct draw *d, struct operation *o);

/* A push alone, as the load before the first slice has them. */
void draw_push(struct draw *d);

/* The number of a follower; differs from those of all other positions of this user. */
int64_t draw_follower(int32_t user, int32_t position);

#endif
