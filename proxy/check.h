/* `spillway check --config FILE`: what is wrong with the file, or every rule with its defaults. */
#pragma once

/* The exit code: 0 all is well, 2 the file is bad. */
int check_run(const char *config_path);
