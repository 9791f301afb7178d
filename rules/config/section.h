/* One section of the configuration (a mapping), and the settings in it as the table has them
 * (settings.h).
 *
 * A function that reads a setting leaves its target as it is if the key is missing or its value is
 * wrong. A wrong value is then among the problems. Texts that it stores are owned by the target. */
#pragma once

#include "rules/config/settings.h"
#include "rules/config/yaml.h"

struct section {
	struct problems *problems;
	const struct yaml_node *node; /* NULL: the file has no such section */
	const char *path;             /* of the settings that may stand in it */
};

/* False (and a problem) if `node` is no mapping. Keys that the table does not have, and keys that
 * stand twice, are problems. */
must_check bool section_open(struct section *section, struct problems *problems,
			     const struct yaml_node *node, const char *path);
/* Reads one setting into the struct that it is kept in; of a section, all settings in it. Kinds
 * that have a function of their own are left to it. A required one that is missing is a problem. */
void section_read_setting(const struct section *section, const struct setting *setting, void *base);
/* All settings of the section, except those that go with `layout: batches`. */
void section_read(const struct section *section, void *base);
/* A section in this one that section_read has read; without a node if it is missing. */
struct section section_inner(const struct section *section, const char *key);

/* The value of a key, or NULL. */
const struct yaml_node *section_find(const struct section *section, const char *key);
/* The same, and a problem at the section's beginning if it is missing. */
const struct yaml_node *section_require(const struct section *section, const char *key);
/* Where the key's value stands; the section's beginning if the key is missing. */
struct place section_place(const struct section *section, const char *key);
/* The same of a path that leads from this node; if it ends early, where its last part stands. */
struct place section_place_below(const struct yaml_node *node, const char *path);
/* The list that a key holds, or NULL; anything else than a list is a problem. */
const struct yaml_node *section_list(const struct section *section, const char *key);
/* Not empty, without control characters; quotes make no difference. */
void section_text(const struct section *section, const char *key, char **text);
/* host:port or [IPv6]:port, the port from 1 to 65535. */
must_check bool section_is_address(const char *text);
