/* `spillway migrate`: moves the outliers that are there already. */
#pragma once

/* The exit code. */
int migrate_main(int count, char **arguments);
