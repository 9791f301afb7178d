/* Collects what is wrong with a configuration file. */
#include "rules/config/problems.h"

#include "rules/rule/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void problem_add(struct problems *problems, struct place at, const char *format, ...)
{
	va_list arguments;
	char *text;

	if (problems->count == PROBLEMS_MAX) {
		problems->unheld++;
		return;
	}
	va_start(arguments, format);
	require(vasprintf(&text, format, arguments) >= 0);
	va_end(arguments);
	problems->items =
		must_realloc(problems->items, (problems->count + 1) * sizeof(*problems->items));
	problems->items[problems->count++] = (struct problem){at, text};
}

static bool place_before(struct place one, struct place other)
{
	if (one.file != other.file)
		return !one.file;
	return one.line < other.line || (one.line == other.line && one.column < other.column);
}

/* By place; those of one place stay as they were found. */
static void problems_sort(struct problems *problems)
{
	for (size_t i = 1; i < problems->count; i++) {
		struct problem moved = problems->items[i];
		size_t to = i;

		for (; to > 0 && place_before(moved.at, problems->items[to - 1].at); to--)
			problems->items[to] = problems->items[to - 1];
		problems->items[to] = moved;
	}
}

char *problems_steal(struct problems *problems)
{
	auto_buffer struct buffer lines = {0};

	problems_sort(problems);
	for (size_t i = 0; i < problems->count; i++) {
		const struct problem *problem = &problems->items[i];

		text_append(&lines, "%s:%d:%d: %s\n",
			    problem->at.file ? problem->at.file : problems->name, problem->at.line,
			    problem->at.column, problem->text);
	}
	if (problems->unheld > 0)
		text_append(&lines, "%s: and %zu more\n", problems->name, problems->unheld);
	problems_fini(problems);
	return text_steal(&lines);
}

void problems_fini(struct problems *problems)
{
	for (size_t i = 0; i < problems->count; i++)
		free(problems->items[i].text);
	free(problems->items);
	*problems = (struct problems){.name = problems->name};
}
