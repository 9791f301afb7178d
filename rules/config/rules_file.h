/* The `rules` list of the configuration file: read, checked each by itself and against each other.
 */
#pragma once

#include "rules/rule/rules.h"
#include "rules/config/yaml.h"

/* mongod's limit on `database.collection`. */
#define RULE_NAMESPACE_MAX 255

/* A rule and where its parts stand in the file, for messages. Strings may be NULL where they were
 * wrong. */
struct rule_draft {
	struct rule rule;
	struct place at; /* the rule itself */
	struct place name;
	struct place namespace;
	struct place array;
	struct place flag;
	struct place total, documents, reference;
	struct place
		overflow; /* `collection`, or `overflow` itself where the name is the default */
};

/* The rules, and what is wrong with them. NULL where anything was added to `problems`. */
struct rule_set *rules_file_read(const struct yaml_node *list, struct problems *problems);

/* The mistakes that are one rule's own but need several of its settings, and those between rules.
 */
void rules_check(const struct rule_draft *drafts, size_t count, struct problems *problems);
