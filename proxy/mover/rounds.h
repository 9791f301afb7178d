/* The threads that run rounds: they take what is due from the queue, and move tails. */
#pragma once

/* A thread; its context is the mover. */
void *rounds_run(void *context);
