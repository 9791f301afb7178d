/* Reads the rules of the configuration file and fills their defaults in. */
#include "rules/config/rules_file.h"

#include "rules/config/overflow_section.h"
#include "rules/config/section.h"
#include "rules/rule/own_fields.h"
#include "rules/rule/text.h"

#include <stdlib.h>

#define DATABASE_MAX 63 /* mongod's limit */

/* ---- Namespaces. */

const char *rules_file_namespace_mistake(const char *database, const char *collection)
{
	if (*database == '\0' || *collection == '\0')
		return "has an empty part";
	if (strpbrk(database, "/\\ \"$") || strchr(collection, '$'))
		return "has a character that such names cannot have";
	if (rule_spares_database(bytes_of(database)))
		return "is in a database of the server's or of Spillway's own";
	if (rule_spares_collection(bytes_of(collection)))
		return "is one of the server's own collections";
	if (strlen(database) > DATABASE_MAX ||
	    strlen(database) + 1 + strlen(collection) > RULE_NAMESPACE_MAX)
		return "is longer than the server allows";
	return NULL;
}

void rules_file_split(const char *text, char **database, char **collection)
{
	const char *dot = strchr(text, '.');

	*database = must_strndup(text, (size_t)(dot - text));
	*collection = must_strndup(dot + 1, strlen(dot + 1));
}

static void read_namespace(const struct section *section, struct rule *rule)
{
	struct place at = section_place(section, "namespace");
	auto_free char *text = NULL;
	const char *mistake;

	section_text(section, "namespace", &text);
	if (!text)
		return;
	if (!strchr(text, '.')) {
		problem_add(section->problems, at,
			    "'namespace' must be database.collection, not '%s'",
			    text_quote(bytes_of(text)).text);
		return;
	}
	rules_file_split(text, &rule->database, &rule->collection);
	mistake = rules_file_namespace_mistake(rule->database, rule->collection);
	if (mistake)
		problem_add(section->problems, at, "'namespace' '%s' %s",
			    text_quote(bytes_of(text)).text, mistake);
}

/* ---- The array's path. */

static const char *part_mistake(struct bytes part, bool first)
{
	size_t digits = 0;

	while (digits < part.length && part.data[digits] >= '0' && part.data[digits] <= '9')
		digits++;
	if (part.length == 0)
		return "has an empty part";
	if (memchr(part.data, '$', part.length))
		return "has a '$' in it; a path through documents is needed";
	if (digits == part.length)
		return "has a number as a part: a path through an array cannot be ruled";
	if (first && bytes_are(part, "_id"))
		return "is in '_id', which cannot change";
	if (first && bytes_are(part, "_spill"))
		return "is in '_spill', which is Spillway's own";
	return NULL;
}

static const char *path_mistake(const char *path)
{
	const char *mistake = NULL;

	for (const char *part = path; !mistake; part++) {
		size_t length = strcspn(part, ".");

		mistake = part_mistake((struct bytes){(const uint8_t *)part, length}, part == path);
		part += length;
		if (*part == '\0')
			break;
	}
	return mistake;
}

char *rules_file_replaced(const char *text, char from, char to)
{
	char *copy = must_strndup(text, strlen(text));

	for (char *at = copy; *at; at++) {
		if (*at == from)
			*at = to;
	}
	return copy;
}

static void check_array(const struct section *section, struct rule *rule)
{
	struct place at = section_place(section, "array");
	const char *mistake;

	if (!rule->array)
		return;
	rule->key = rules_file_replaced(rule->array, '.', '/');
	mistake = path_mistake(rule->array);
	if (mistake)
		problem_add(section->problems, at, "'array' '%s' %s",
			    text_quote(bytes_of(rule->array)).text, mistake);
	else if (strlen(rule->array) > RULE_ARRAY_MAX)
		problem_add(section->problems, at,
			    "'array' is a path of %zu bytes, %d are the most", strlen(rule->array),
			    RULE_ARRAY_MAX);
}

/* ---- The flag, counters, reference, and what of them clients see. */

static bool values_equal(const struct rule_value *one, const struct rule_value *other)
{
	return one->type == other->type && bytes_equal(one->value, other->value);
}

static void check_flag(const struct section *section, const struct rule *rule)
{
	struct section flag = section_inner(section, "flag");

	if (rule->flag.value.type && values_equal(&rule->flag.value, &rule->flag.otherwise))
		problem_add(section->problems, section_place(&flag, "otherwise"),
			    "'otherwise' must differ from 'value', or the flag tells nothing");
}

static void check_counters(const struct section *section, const struct rule *rule)
{
	struct section counters = section_inner(section, "counters");

	if (!counters.node)
		return;
	if (!section_find(&counters, "total") && !section_find(&counters, "documents"))
		problem_add(section->problems, counters.node->at,
			    "'counters' must name 'total', 'documents' or both");
	else if (rule->counters.owned_by_app && !section_find(&counters, "total"))
		problem_add(section->problems, section_place(&counters, "owner"),
			    "'owner' says who keeps 'total', which is missing here");
}

static bool is_format(const char *format)
{
	const char *mark = strstr(format, RULE_ID_MARK);

	return mark && strcspn(format, "{}") == (size_t)(mark - format) &&
	       !strpbrk(mark + strlen(RULE_ID_MARK), "{}");
}

static void check_reference(const struct section *section, const struct rule *rule)
{
	struct section reference = section_inner(section, "reference");

	if (rule->reference.format && !is_format(rule->reference.format))
		problem_add(section->problems, section_place(&reference, "format"),
			    "'format' must hold " RULE_ID_MARK " once, and no other braces, not "
			    "'%s'",
			    text_quote(bytes_of(rule->reference.format)).text);
}

static void read_exposed(const struct section *section, const struct yaml_node *item,
			 struct rule *rule)
{
	static const char *const names[] = {"flag", "counters", "reference", NULL};
	static const char *const words = "'flag', 'counters' or 'reference'";
	bool scalar = item->kind == YAML_SCALAR;

	for (size_t i = 0; scalar && names[i]; i++) {
		if (!bytes_are(item->text, names[i]))
			continue;
		if (!section_find(section, names[i]))
			problem_add(section->problems, item->at,
				    "'expose' names '%s', which the rule does not have", names[i]);
		rule->expose.flag |= i == 0;
		rule->expose.counters |= i == 1;
		rule->expose.reference |= i == 2;
		return;
	}
	problem_add(section->problems, item->at, "'expose' must name %s%s%s%s", words,
		    scalar ? ", not '" : "", scalar ? text_quote(item->text).text : "",
		    scalar ? "'" : "");
}

static void read_expose(const struct section *section, struct rule *rule)
{
	const struct yaml_node *list = section_list(section, "expose");

	for (const struct yaml_node *item = list ? list->first : NULL; item; item = item->next)
		read_exposed(section, item, rule);
}

/* ---- A rule, and all of them. */

#define RULE_NAME_MAX 64

static void check_name(const struct section *section, const struct rule *rule)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	if (!rule->name)
		return;
	if (strspn(rule->name, allowed) < strlen(rule->name) || strlen(rule->name) > RULE_NAME_MAX)
		problem_add(section->problems, section_place(section, "name"),
			    "'name' must be up to %d letters, digits, '.', '_' and '-', not '%s'",
			    RULE_NAME_MAX, text_quote(bytes_of(rule->name)).text);
}

static void read_rule(struct rule_draft *draft, const struct yaml_node *node,
		      struct problems *problems)
{
	struct rule *rule = &draft->rule;
	struct section section;

	draft->node = node;
	if (!section_open(&section, problems, node, "rules"))
		return;
	settings_fill("rules", rule);
	section_read(&section, rule);
	check_name(&section, rule);
	read_namespace(&section, rule);
	check_array(&section, rule);
	check_flag(&section, rule);
	check_counters(&section, rule);
	check_reference(&section, rule);
	read_expose(&section, rule);
	overflow_section_read(&section, rule);
}

static struct rule_set *set_of(struct rule_draft *drafts, size_t count)
{
	struct rule *rules = must_calloc(count, sizeof(*rules));

	for (size_t i = 0; i < count; i++)
		rules[i] = drafts[i].rule;
	return rule_set_new(rules, count);
}

struct rule_set *rules_file_read(const struct yaml_node *list, struct problems *problems)
{
	auto_free struct rule_draft *drafts = must_calloc(list->count, sizeof(*drafts));
	size_t count = 0;

	for (const struct yaml_node *item = list->first; item; item = item->next)
		read_rule(&drafts[count++], item, problems);
	rules_check(drafts, count, problems);
	if (problems->count == 0)
		return set_of(drafts, count);
	for (size_t i = 0; i < count; i++)
		rule_fini(&drafts[i].rule);
	return NULL;
}
