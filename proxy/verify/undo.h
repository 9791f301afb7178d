/* `spillway undo`: folds everything back that a rule has moved. */
#pragma once

/* The exit code. */
int undo_main(int count, char **arguments);
