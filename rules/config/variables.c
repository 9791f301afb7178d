/* `${NAME}` in the values of the configuration file. */
#include "rules/config/variables.h"

#include "rules/rule/text.h"

#include <stdlib.h>

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

struct filling {
	const char *(*find)(const char *name);
	struct problems *problems;
	struct place at;
	struct buffer out;
	bool good;
};

static void fail(struct filling *filling, const char *what, const char *name)
{
	if (filling->good)
		problem_add(filling->problems, filling->at, "'${%s' %s",
			    text_quote(bytes_of(name)).text, what);
	filling->good = false;
}

static void append_value(struct filling *filling, const char *name)
{
	const char *value = filling->find ? filling->find(name) : NULL;
	auto_buffer struct buffer shown = {0};

	text_append(&shown, "%s}", name);
	buffer_append(&shown, "", 1);
	if (!value)
		fail(filling,
		     "names a variable that the environment does not have: set it, or write "
		     "'$${' for a plain '${'",
		     (const char *)shown.data);
	else if (text_valid_length(bytes_of(value)) != strlen(value))
		fail(filling, "names a variable whose value is no UTF-8", (const char *)shown.data);
	else
		buffer_append(&filling->out, value, strlen(value));
}

/* `text` stands behind `${`. Where it goes on. */
static const char *take_variable(struct filling *filling, const char *text)
{
	size_t length = strspn(text, NAME_CHARACTERS);
	auto_free char *name = must_strndup(text, length);

	if (length == 0 || text[length] != '}') {
		fail(filling,
		     "must be ${NAME} with letters, digits and '_'; write '$${' for a "
		     "plain '${'",
		     text);
		return text + strlen(text);
	}
	append_value(filling, name);
	return text + length + 1;
}

/* False if something is wrong. */
static bool fill(struct filling *filling, const char *text)
{
	filling->good = true;
	while (*text) {
		if (strncmp(text, "$${", 3) == 0) {
			buffer_append(&filling->out, "${", 2);
			text += 3;
		} else if (strncmp(text, "${", 2) == 0) {
			text = take_variable(filling, text + 2);
		} else {
			buffer_append(&filling->out, text++, 1);
		}
	}
	return filling->good;
}

static void fill_node(struct yaml_node *node, struct filling *filling)
{
	const char *text = (const char *)node->text.data;

	if (node->kind != YAML_SCALAR || !strstr(text, "${"))
		return;
	filling->at = node->at;
	if (fill(filling, text)) {
		bytes_free(node->text);
		node->text.length = filling->out.length;
		node->text.data = (uint8_t *)text_steal(&filling->out);
		node->filled = true;
	}
	buffer_fini(&filling->out);
}

/* Of a mapping, each second child is a value. */
static void fill_children(const struct yaml_node *parent, struct filling *filling)
{
	bool key = parent->kind == YAML_MAPPING;

	for (struct yaml_node *child = parent->first; child; child = child->next) {
		if (!key)
			fill_node(child, filling);
		if (parent->kind == YAML_MAPPING)
			key = !key;
	}
}

void variables_fill(struct yaml_tree *tree, const char *(*find)(const char *name),
		    struct problems *problems)
{
	struct filling filling = {.find = find, .problems = problems};

	for (const struct yaml_node *node = tree->newest; node; node = node->older)
		fill_children(node, &filling);
}
