/* Turns scalars into BSON values by YAML's core schema, and BSON values into scalars. */
#include "rules/config/rules_value.h"

#include "protocol/cursor.h"
#include "rules/rule/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- Reading. */

enum number {
	NUMBER_NONE,
	NUMBER_INTEGER,
	NUMBER_TOO_LARGE,
};

static enum number read_digits(const char *text, int base, int64_t *number)
{
	long long read;

	errno = 0;
	read = strtoll(text, NULL, base);
	if (errno == ERANGE)
		return NUMBER_TOO_LARGE;
	*number = read;
	return NUMBER_INTEGER;
}

/* [-+]?[0-9]+ | 0o[0-7]+ | 0x[0-9a-fA-F]+ */
static enum number read_integer(const char *text, int64_t *number)
{
	size_t sign = *text == '-' || *text == '+';
	size_t octal = strspn(text + 2 * (strncmp(text, "0o", 2) == 0), "01234567");
	size_t hex = strspn(text + 2 * (strncmp(text, "0x", 2) == 0), "0123456789abcdefABCDEF");
	size_t decimal = strspn(text + sign, "0123456789");

	if (strncmp(text, "0o", 2) == 0 && octal > 0 && text[2 + octal] == '\0')
		return read_digits(text + 2, 8, number);
	if (strncmp(text, "0x", 2) == 0 && hex > 0 && text[2 + hex] == '\0')
		return read_digits(text + 2, 16, number);
	if (decimal > 0 && text[sign + decimal] == '\0')
		return read_digits(text, 10, number);
	return NUMBER_NONE;
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool is_float(const char *text)
{
	size_t whole, fraction = 0;

	text += *text == '-' || *text == '+';
	whole = strspn(text, "0123456789");
	text += whole;
	if (*text == '.') {
		fraction = strspn(text + 1, "0123456789");
		text += 1 + fraction;
	}
	if (whole + fraction == 0)
		return false;
	if (*text == 'e' || *text == 'E') {
		text++;
		text += *text == '-' || *text == '+';
		if (strspn(text, "0123456789") == 0)
			return false;
		text += strspn(text, "0123456789");
	}
	return *text == '\0';
}

static bool is_one_of(const char *text, const char *const *words)
{
	for (; *words; words++) {
		if (strcmp(text, *words) == 0)
			return true;
	}
	return false;
}

static bool read_double(const char *text, double *number)
{
	static const char *const infinities[] = {".inf", ".Inf", ".INF", NULL};
	static const char *const nans[] = {".nan", ".NaN", ".NAN", NULL};
	size_t sign = *text == '-' || *text == '+';

	if (is_one_of(text + sign, infinities))
		*number = *text == '-' ? -INFINITY : INFINITY;
	else if (is_one_of(text, nans))
		*number = NAN;
	else if (is_float(text))
		*number = strtod(text, NULL);
	else
		return false;
	return true;
}

static void set_value(struct rule_value *value, uint8_t type, const void *data, size_t length)
{
	value->type = type;
	value->value.data = length ? (const uint8_t *)must_strndup(data, length) : NULL;
	value->value.length = length;
}

static void set_string(struct rule_value *value, struct bytes text)
{
	auto_buffer struct buffer string = {0};
	int32_t length = (int32_t)text.length + 1;

	buffer_append(&string, &length, sizeof(length));
	buffer_append(&string, text.data, text.length);
	buffer_append(&string, "", 1);
	value->type = BSON_BYTE_STRING;
	value->value.length = string.length;
	value->value.data = buffer_steal(&string).data;
}

static void set_integer(struct rule_value *value, int64_t number)
{
	int32_t small = (int32_t)number;

	if (small == number)
		set_value(value, BSON_BYTE_INT32, &small, sizeof(small));
	else
		set_value(value, BSON_BYTE_INT64, &number, sizeof(number));
}

must_check bool rules_value_integer(const struct yaml_node *node, int64_t *number)
{
	const char *text = (const char *)node->text.data;

	return node->kind == YAML_SCALAR && node->plain &&
	       read_integer(text, number) == NUMBER_INTEGER;
}

/* False where the text has no other type than string. */
static bool read_typed(const char *text, struct rule_value *value)
{
	static const char *const truths[] = {"true", "True", "TRUE", NULL};
	static const char *const lies[] = {"false", "False", "FALSE", NULL};
	int64_t integer;
	double real;

	if (is_one_of(text, truths))
		set_value(value, BSON_BYTE_BOOL, "\1", 1);
	else if (is_one_of(text, lies))
		set_value(value, BSON_BYTE_BOOL, "\0", 1);
	else if (read_integer(text, &integer) == NUMBER_INTEGER)
		set_integer(value, integer);
	else if (read_double(text, &real))
		set_value(value, BSON_BYTE_DOUBLE, &real, sizeof(real));
	else
		return false;
	return true;
}

must_check bool rules_value_read(const struct yaml_node *node, struct rule_value *value)
{
	const char *text = (const char *)node->text.data;
	int64_t integer;

	require(node->kind == YAML_SCALAR);
	if (node->plain && read_integer(text, &integer) == NUMBER_TOO_LARGE)
		return false;
	if (yaml_is_null(node))
		set_value(value, BSON_BYTE_NULL, NULL, 0);
	else if (!node->plain || !read_typed(text, value))
		set_string(value, node->text);
	return true;
}

/* ---- Printing. */

void rules_value_print_quoted(struct buffer *buffer, struct bytes text)
{
	buffer_append(buffer, "\"", 1);
	for (size_t i = 0; i < text.length; i++) {
		uint8_t byte = text.data[i];

		if (byte == '"' || byte == '\\')
			text_append(buffer, "\\%c", byte);
		else if (byte < 0x20 || byte == 0x7f)
			text_append(buffer, "\\x%02x", byte);
		else
			buffer_append(buffer, &byte, 1);
	}
	buffer_append(buffer, "\"", 1);
}

static void print_double(struct buffer *buffer, double number)
{
	size_t start = buffer->length;

	if (isnan(number)) {
		text_append(buffer, ".nan");
		return;
	}
	if (isinf(number)) {
		text_append(buffer, number < 0 ? "-.inf" : ".inf");
		return;
	}
	text_append(buffer, "%.17g", number);
	if (!memchr(buffer->data + start, '.', buffer->length - start) &&
	    !memchr(buffer->data + start, 'e', buffer->length - start))
		text_append(buffer, ".0");
}

void rules_value_print(struct buffer *buffer, const struct rule_value *value)
{
	struct element element = {.type = value->type, .value = value->value};
	struct bytes text;
	int64_t integer;
	double real;

	if (value->type == 0) {
		text_append(buffer, "absent");
	} else if (value->type == BSON_BYTE_NULL) {
		text_append(buffer, "null");
	} else if (value->type == BSON_BYTE_BOOL) {
		text_append(buffer, value->value.data[0] ? "true" : "false");
	} else if (value->type == BSON_BYTE_DOUBLE) {
		memcpy(&real, value->value.data, sizeof(real));
		print_double(buffer, real);
	} else if (element_string(&element, &text)) {
		rules_value_print_quoted(buffer, text);
	} else {
		require(element_integer(&element, &integer));
		text_append(buffer, "%" PRId64, integer);
	}
}
