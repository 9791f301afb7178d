/* The sweeper: a thread that looks through whole collections, when it is time or somebody asks. */
#pragma once

#include "proxy/mover/mover_inner.h"

/* The thread; its context is the mover. */
void *sweeper_run(void *context);
/* A sweep may be due earlier than the sweeper thinks. */
void sweeper_wake(struct mover *mover);
/* The collection may hold outliers that nobody noted. */
void sweeper_soon(struct mover *mover, struct mover_target *target);
