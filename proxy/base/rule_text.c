/* A rule to paste. */
#include "proxy/base/rule_text.h"

#include "rules/config/rules_value.h"
#include "rules/rule/glob.h"
#include "rules/rule/text.h"

#include <ctype.h>
#include <inttypes.h>

#define NAME_MOST 64 /* bytes of a rule's name */

/* A name has letters, digits, '.', '_' and '-' only. */
static void write_name(struct buffer *out, const char *collection, const char *array)
{
	auto_buffer struct buffer name = {0};

	text_append(&name, "%s-%s", collection, array);
	for (size_t i = 0; i < name.length; i++)
		if (name.data[i] >= 128 || (!isalnum(name.data[i]) && !strchr("._-", name.data[i])))
			name.data[i] = '_';
	if (name.length > NAME_MOST)
		name.length = NAME_MOST;
	rules_value_print_quoted(out, buffer_view(&name));
}

static void write_quoted(struct buffer *out, const char *before, const char *text)
{
	text_append(out, "%s", before);
	rules_value_print_quoted(out, bytes_of(text));
}

bool rule_text_can_name(const char *namespace)
{
	return !glob_is(bytes_of(namespace));
}

void rule_text_write(struct buffer *out, const char *namespace, const char *array,
		     int64_t threshold)
{
	const char *dot = strchr(namespace, '.'), *last = strrchr(array, '.');
	const char *name = last ? last + 1 : array;

	text_append(out, "  - name: ");
	write_name(out, dot ? dot + 1 : namespace, array);
	write_quoted(out, "\n    namespace: ", namespace);
	write_quoted(out, "\n    array: ", array);
	text_append(out, "\n    threshold: %" PRId64, threshold);
	text_append(out, "\n    overflow: { link: %s, array: ",
		    strcmp(name, "main_id") == 0 ? "main_link" : "main_id");
	write_quoted(out, "", strcmp(name, "_id") == 0 ? "elements" : name);
	text_append(out, " }\n");
}
