/* Other rules while loops serve: requests that have begun go on under those of before. */
#include "proxy/client/session.h"

#include <semaphore.h>
#include <stdlib.h>

/* What one change of the rules is to all loops. */
struct rules_turn {
	struct rule_set *rules; /* NULL: no others */
	unsigned number;        /* the mover's */
	sem_t taken;            /* once by each loop */
	_Atomic size_t open;    /* loops in which requests of before may go on */
	_Atomic size_t users;   /* the loops, and who waits for them */
};

struct rules_task {
	struct loop_task task;
	struct rules_turn *turn;
};

/* Rules of before, until no request needs them. */
struct earlier_rules {
	struct earlier_rules *next;
	struct namespace_cache *namespaces;
	struct rules_turn *turn; /* that ended them */
};

static void turn_leave(struct rules_turn *turn)
{
	if (atomic_fetch_sub(&turn->users, 1) > 1)
		return;
	rule_set_unref(turn->rules);
	sem_destroy(&turn->taken);
	free(turn);
}

static void keep_earlier(struct loop *loop, struct rules_turn *turn)
{
	struct earlier_rules *earlier = must_calloc(1, sizeof(*earlier));

	*earlier = (struct earlier_rules){loop->earlier, loop->namespaces, turn};
	loop->earlier = earlier;
	loop->namespaces = namespace_cache_after(earlier->namespaces, turn->rules);
	loop->epoch++;
	for (struct session *session = loop->sessions; session; session = session->next) {
		pending_age(&session->pending);
		session->request.old = session->request.left > 0;
	}
	loop_need_ticks(loop);
}

/* In the loop's thread. */
static void rules_on_task(struct loop *loop, struct loop_task *task)
{
	struct rules_turn *turn = ((struct rules_task *)(void *)task)->turn;
	bool others = turn->rules;

	free(task);
	if (others)
		keep_earlier(loop, turn);
	sem_post(&turn->taken);
	if (!others)
		turn_leave(turn);
}

void loops_take_rules(struct loop *const *loops, size_t count, struct rule_set *rules,
		      unsigned number)
{
	struct rules_turn *turn = must_calloc(1, sizeof(*turn));

	turn->rules = rules ? rule_set_ref(rules) : NULL;
	turn->number = number;
	turn->open = count;
	turn->users = count + 1;
	require(sem_init(&turn->taken, 0, 0) == 0);
	for (size_t i = 0; i < count; i++) {
		struct rules_task *task = must_calloc(1, sizeof(*task));

		task->task.run = rules_on_task;
		task->turn = turn;
		loop_post(loops[i], &task->task);
	}
	for (size_t taken = 0; taken < count;)
		taken += sem_wait(&turn->taken) == 0;
	turn_leave(turn);
}

/* Something of it goes on that was begun under earlier rules. */
static bool is_old(const struct session *session)
{
	bool runs = session->sequence || session_finds(session) || session->memory.away;

	return session->pending.old > 0 || session->request.old ||
	       (runs && session->request.epoch != session->loop->epoch);
}

static bool any_old(const struct loop *loop)
{
	for (const struct session *session = loop->sessions; session; session = session->next)
		if (is_old(session))
			return true;
	return false;
}

void loop_free_earlier(struct loop *loop)
{
	while (loop->earlier) {
		struct earlier_rules *earlier = loop->earlier;

		loop->earlier = earlier->next;
		namespace_cache_free(earlier->namespaces);
		turn_leave(earlier->turn);
		free(earlier);
	}
}

void loop_look_at_earlier(struct loop *loop)
{
	unsigned number;
	bool last;

	if (!loop->earlier || any_old(loop))
		return;
	/* The latest comes first; of those before it nobody waits for the end any more. */
	number = loop->earlier->turn->number;
	last = atomic_fetch_sub(&loop->earlier->turn->open, 1) == 1;
	loop_free_earlier(loop);
	if (last)
		mover_settled(loop->service->mover, number);
}
