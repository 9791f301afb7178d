/* The keeper: a thread that looks at the servers until all is good, learns their names, judges
 * targets again, and collects garbage. */
#pragma once

/* The thread; its context is the mover. */
void *keeper_run(void *context);
