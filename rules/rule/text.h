/* Text for people: appending, quoting, the nearest word, valid UTF-8, nothing that a terminal
 * obeys. */
#pragma once

#include "protocol/bytes.h"

/* Appends as printf does, without a NUL. */
void text_append(struct buffer *buffer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Ends the text with a NUL and hands it to the caller, who frees it. */
char *text_steal(struct buffer *buffer);

/* What a user wrote, fit for one line of a message: shortened, control characters as '?'. By value:
 * `text_quote(name).text` lives to the end of the statement. */
struct text_quote {
	char text[72];
};
struct text_quote text_quote(struct bytes text);

/* The one of `words` (ends with NULL) that takes the fewest changes to become `word`. */
const char *text_nearest(struct bytes word, const char *const *words);

/* Where the first byte stands that is no UTF-8 (RFC 3629); the length where all is well. */
size_t text_valid_length(struct bytes text);

/* The text with '?' for each byte that is no UTF-8; freed by the caller. */
char *text_valid(const char *text);

/* The text as it may go to a terminal: control characters as \u001b, what is no UTF-8 as \xff;
 * freed by the caller. */
char *text_plain(const char *text);
