/* What comes from outside, as text in HTML or XML. */
#include "proxy/base/markup.h"

#include "rules/rule/text.h"

void markup_text(struct buffer *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			text_append(out, "&lt;");
		else if (*text == '>')
			text_append(out, "&gt;");
		else if (*text == '&')
			text_append(out, "&amp;");
		else if (*text == '"')
			text_append(out, "&quot;");
		else
			text_append(out, "%c", (unsigned char)*text < ' ' ? '?' : *text);
	}
}
