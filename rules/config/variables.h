/* `${NAME}` in the values of the configuration file. */
#pragma once

#include "rules/config/yaml.h"

/* Puts the value of the variable for each `${NAME}` in a scalar that is no key; `$${` stands for
 * `${`. `find` gives NULL for a variable that is not set; NULL: none is. A variable that is not
 * set, or whose value is no text, is a problem; no message repeats a value. */
void variables_fill(struct yaml_tree *tree, const char *(*find)(const char *name),
		    struct problems *problems);
