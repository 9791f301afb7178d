/* Reports for programs: BSON as JSON. */
#pragma once

#include "protocol/writer.h"

/* One line of relaxed extended JSON; freed with bson_free. */
char *json_text(struct bytes document);
/* Appends it, and ends the line. */
void json_append(struct buffer *out, struct bytes document);
/* Prints the document as one line. */
void json_print(struct bytes document);
/* Prints {"command", "ended", "error"}: the report of a command that came to nothing. */
void json_print_failure(const char *command, const char *ended, const char *error);
/* {"<name>": <value>}, as people write a value; freed with bson_free. */
char *json_value_text(const char *name, const struct element *value);

/* Writes the value, or, where JSON can't hold it (what is no UTF-8), that it is unreadable. */
void json_write_value(struct buffer *out, const char *name, const struct element *value);
/* The same of a text, in which '?' stands for what is no ASCII then. */
void json_write_text(struct buffer *out, const char *name, const char *text);
