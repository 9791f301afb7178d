/* `spillway verify`: what is stored under a rule against the invariants of the spill protocol. */
#pragma once

/* The exit code. */
int verify_main(int count, char **arguments);
