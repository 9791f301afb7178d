/* `spillway serve`: loops, the mover and the admin page, from start to drain. */
#pragma once

/* Returns the exit code: 0 after a drain, 1 where it can't start, 2 for a bad file. */
int serve_run(const char *config_path);
