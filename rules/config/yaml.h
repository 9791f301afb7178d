/*
 * The part of YAML 1.2 that a configuration file may use, as a tree: mappings, lists, scalars.
 * Aliases, anchors, tags, merge keys, directives for other versions and further documents are
 * refused.
 */
#pragma once

#include "rules/config/problems.h"

enum yaml_kind {
	YAML_SCALAR,
	YAML_MAPPING, /* its children are a key (always a scalar), its value, the next key... */
	YAML_LIST,
};

struct yaml_node {
	enum yaml_kind kind;
	bool plain;  /* a scalar without quotes, whose text decides on its type */
	bool filled; /* a variable of the environment stands in it */
	struct place at;
	struct bytes text;       /* of a scalar: valid UTF-8, a NUL behind it; owned */
	size_t count;            /* of children */
	struct yaml_node *first; /* child */
	struct yaml_node *last;
	struct yaml_node *next;  /* sibling */
	struct yaml_node *older; /* the one made before it */
};

struct yaml_tree {
	struct yaml_node *root; /* NULL where the text holds nothing but comments */
	struct yaml_node *newest;
};

/* False where something is wrong, which is then among the problems: the first syntax error, or all
 * uses of what is refused. The tree is to be ended in both cases. */
must_check bool yaml_parse(struct yaml_tree *tree, struct bytes text, struct problems *problems);
void yaml_tree_fini(struct yaml_tree *tree);

/* A plain scalar that the core schema (YAML 1.2.2, 10.3.2) takes for null. */
bool yaml_is_null(const struct yaml_node *node);
