/* The `rules` list of the configuration file: read, checked each by itself and against each other.
 */
#pragma once

#include "rules/rule/rules.h"
#include "rules/config/yaml.h"

/* mongod's limit on `database.collection`. */
#define RULE_NAMESPACE_MAX 255

/* A rule and where it stands in the file, for messages. Strings are NULL if they were wrong. */
struct rule_draft {
	struct rule rule;
	const struct yaml_node *node; /* lives as long as the tree */
};

/* The rules, and what is wrong with them. NULL where anything was added to `problems`. */
struct rule_set *rules_file_read(const struct yaml_node *list, struct problems *problems);

/* The mistakes that are one rule's own but need several of its settings, and those between rules.
 */
void rules_check(const struct rule_draft *drafts, size_t count, struct problems *problems);

/* What is wrong with a namespace, or NULL. */
const char *rules_file_namespace_mistake(const char *database, const char *collection);
/* `database.collection` in two, at the first dot. Both are freed by the caller. */
void rules_file_split(const char *text, char **database, char **collection);
/* A copy with `to` for each `from`; freed by the caller. */
char *rules_file_replaced(const char *text, char from, char to);
