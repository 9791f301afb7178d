/* Rules in further files, which the configuration file names under `include`. */
#pragma once

#include "rules/config/config.h"
#include "rules/config/yaml.h"

#define INCLUDES_MAX 100

/* Beside the world and the problems, all zeros is none. */
struct includes {
	const struct config_world *world;
	struct problems *problems;
	struct included *latest;
	size_t count;
};

/* Appends the rules of these files, and of those that they include, to the list of rules. `list`:
 * of paths as the file `name` has them, seen from its folder; NULL: none. False if something
 * is wrong. The nodes live until includes_fini. */
must_check bool includes_append(struct includes *includes, const char *name,
				const struct yaml_node *list, struct yaml_node *rules);
/* The paths of all files that were read, as they were opened: a list that ends with NULL, freed by
 * the caller; NULL: none. */
char **includes_paths(const struct includes *includes);
/* To be called when the problems have been told: they name the files. */
void includes_fini(struct includes *includes);
