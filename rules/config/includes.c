/* Rules in further files. */
#include "rules/config/includes.h"

#include "rules/config/variables.h"
#include "rules/rule/text.h"

#include <stdlib.h>

/* A file that was read. */
struct included {
	struct included *before;
	char *path;
	struct yaml_tree tree;
};

static bool is_included(const struct includes *includes, const char *path)
{
	for (const struct included *each = includes->latest; each; each = each->before)
		if (strcmp(each->path, path) == 0)
			return true;
	return false;
}

/* What is wrong with the file is among all problems, with its name. */
static void name_problems(struct includes *includes, struct included *file, struct problems *found)
{
	for (size_t i = 0; i < found->count; i++) {
		found->items[i].at.file = file->path;
		problem_add(includes->problems, found->items[i].at, "%s", found->items[i].text);
	}
	problems_fini(found);
	for (struct yaml_node *node = file->tree.newest; node; node = node->older)
		node->at.file = file->path;
}

/* Its nodes; false if they cannot be had. */
static bool parse(struct includes *includes, struct included *file, struct place at)
{
	struct problems found = {.name = file->path};
	auto_buffer struct buffer content = {0};
	auto_free char *mistake = NULL;
	bool good;

	if (!includes->world->read_file) {
		problem_add(includes->problems, at, "'include' cannot be read here");
		return false;
	}
	if (!includes->world->read_file("", file->path, &content, &mistake)) {
		problem_add(includes->problems, at, "'include' '%s' %s",
			    text_quote(bytes_of(file->path)).text, mistake);
		return false;
	}
	good = yaml_parse(&file->tree, buffer_view(&content), &found);
	if (good)
		variables_fill(&file->tree, includes->world->variable, &found);
	good = good && found.count == 0;
	name_problems(includes, file, &found);
	return good;
}

static void append_children(struct yaml_node *to, struct yaml_node *from)
{
	if (!from->first)
		return;
	if (to->last)
		to->last->next = from->first;
	else
		to->first = from->first;
	to->last = from->last;
	to->count += from->count;
}

static bool include_list(struct includes *includes, const char *name, const struct yaml_node *list,
			 struct yaml_node *rules);

/* One of the keys that an included file may have. */
static bool take_key(struct includes *includes, const struct included *file, struct yaml_node *key,
		     struct yaml_node *rules)
{
	struct yaml_node *value = key->next;
	bool include = bytes_are(key->text, "include");

	if (!include && !bytes_are(key->text, "rules")) {
		problem_add(includes->problems, key->at,
			    "'%s' cannot stand in an included file: only 'rules' and 'include' can",
			    text_quote(key->text).text);
		return false;
	}
	if (value->kind != YAML_LIST) {
		problem_add(includes->problems, value->at, "'%s' must be a list",
			    include ? "include" : "rules");
		return false;
	}
	if (include)
		return include_list(includes, file->path, value, rules);
	append_children(rules, value);
	return true;
}

static bool take_file(struct includes *includes, const struct included *file,
		      struct yaml_node *rules)
{
	const struct yaml_node *root = file->tree.root;
	bool good = true;

	if (!root)
		return true;
	if (root->kind != YAML_MAPPING) {
		problem_add(includes->problems, root->at,
			    "keys with values must stand here: rules, include");
		return false;
	}
	for (struct yaml_node *key = root->first; key && key->next; key = key->next->next)
		good = take_key(includes, file, key, rules) && good;
	return good;
}

static bool include_file(struct includes *includes, const char *name, const char *path,
			 struct place at, struct yaml_node *rules)
{
	struct included *file;
	auto_free char *whole = config_beside(name, path);

	if (is_included(includes, whole) || includes->count == INCLUDES_MAX) {
		problem_add(includes->problems, at,
			    includes->count == INCLUDES_MAX
				    ? "'include' '%s': too many files"
				    : "'include' '%s': it is included already",
			    text_quote(bytes_of(whole)).text);
		return false;
	}
	file = must_calloc(1, sizeof(*file));
	file->path = whole;
	whole = NULL;
	file->before = includes->latest;
	includes->latest = file;
	includes->count++;
	return parse(includes, file, at) && take_file(includes, file, rules);
}

static bool include_list(struct includes *includes, const char *name, const struct yaml_node *list,
			 struct yaml_node *rules)
{
	bool good = true;

	for (const struct yaml_node *item = list->first; item; item = item->next) {
		if (item->kind != YAML_SCALAR || item->text.length == 0) {
			problem_add(includes->problems, item->at,
				    "'include' must hold the names of files");
			good = false;
			continue;
		}
		good = include_file(includes, name, (const char *)item->text.data, item->at,
				    rules) &&
		       good;
	}
	return good;
}

must_check bool includes_append(struct includes *includes, const char *name,
				const struct yaml_node *list, struct yaml_node *rules)
{
	return !list || include_list(includes, name, list, rules);
}

char **includes_paths(const struct includes *includes)
{
	char **paths;
	size_t at = includes->count;

	if (at == 0)
		return NULL;
	paths = must_calloc(at + 1, sizeof(*paths));
	for (const struct included *each = includes->latest; each; each = each->before)
		paths[--at] = must_strndup(each->path, strlen(each->path));
	return paths;
}

void includes_fini(struct includes *includes)
{
	while (includes->latest) {
		struct included *file = includes->latest;

		includes->latest = file->before;
		yaml_tree_fini(&file->tree);
		free(file->path);
		free(file);
	}
}
