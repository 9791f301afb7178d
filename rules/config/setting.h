/*
 * One section of the configuration (a mapping) and the typed settings in it.
 *
 * A function that reads a setting leaves its target as it is where the key is not there, or where
 * the value is wrong, which is then among the problems. Texts that it stores are owned by the
 * target.
 */
#pragma once

#include "rules/config/yaml.h"

struct section {
	struct problems *problems;
	const struct yaml_node *node;
};

/* False (and a problem) where `node` is no mapping. Keys that are not among `keys` (ends with
 * NULL), and keys that stand twice, are problems. */
must_check bool section_open(struct section *section, struct problems *problems,
			     const struct yaml_node *node, const char *const *keys);
/* The value of a key, or NULL. */
const struct yaml_node *section_find(const struct section *section, const char *key);
/* The same, and a problem at the section's beginning where it is not there. */
const struct yaml_node *section_require(const struct section *section, const char *key);
/* Where the key's value stands; the section's beginning where the key is not there. */
struct place section_place(const struct section *section, const char *key);
/* The list that a key holds, or NULL; anything else than a list is a problem. */
const struct yaml_node *section_list(const struct section *section, const char *key);

/* Not empty, without control characters; quotes make no difference. */
void setting_text(const struct section *section, const char *key, char **text);
/* As setting_text, and such a name as a document's field may have on its top level. */
void setting_field(const struct section *section, const char *key, char **name);
/* host:port or [IPv6]:port */
void setting_address(const struct section *section, const char *key, char **address);

struct range {
	int64_t least;
	int64_t most;
};
void setting_count(const struct section *section, const char *key, struct range range,
		   int64_t *count);
/* KB, MB, GB are powers of 1024; B or nothing means bytes. */
void setting_size(const struct section *section, const char *key, struct range range,
		  int64_t *bytes);
/* ms, s, m, h; the unit is required. */
void setting_duration(const struct section *section, const char *key, struct range range,
		      int64_t *milliseconds);
/* The word `off`. */
bool setting_is_off(const struct section *section, const char *key);
/* The index of the word in `words` (ends with NULL), or -1 where there is none or a wrong one. */
int setting_choice(const struct section *section, const char *key, const char *const *words);

/* The largest unit in which the number is whole: "1MB", "90s"; `text` is room for it. */
#define SETTING_TEXT_MAX 32
const char *setting_size_text(char *text, int64_t bytes);
const char *setting_duration_text(char *text, int64_t milliseconds);
