/* Tests rules/config/rules_value.c: YAML's core schema as BSON, and back. */
#include "tests/unit/unit.h"

#include "protocol/cursor.h"
#include "rules/config/rules_value.h"
#include "rules/rule/text.h"

#include <stdlib.h>

static struct rule_value value_of(const char *text, bool plain)
{
	struct yaml_node node = {.kind = YAML_SCALAR, .plain = plain, .text = bytes_of(text)};
	struct rule_value value = {0};

	cr_assert(rules_value_read(&node, &value), "%s", text);
	return value;
}

/* The value has these bytes, and prints as text that is read as the same value again. */
static void expect(const char *text, bool plain, uint8_t type, const void *bytes, size_t length)
{
	struct rule_value value = value_of(text, plain), again = {0};
	auto_free char *yaml = NULL;
	struct buffer printed = {0};
	struct problems problems = {.name = "f"};
	struct yaml_tree tree = {0};

	cr_assert_eq(value.type, type, "%s: type %d", text, value.type);
	cr_assert(bytes_equal(value.value, (struct bytes){bytes, length}), "%s", text);
	rules_value_print(&printed, &value);
	yaml = text_steal(&printed);
	cr_assert(yaml_parse(&tree, bytes_of(yaml), &problems), "%s", yaml);
	cr_assert(rules_value_read(tree.root, &again));
	cr_assert_eq(again.type, type, "%s printed as %s", text, yaml);
	cr_assert(bytes_equal(again.value, value.value), "%s printed as %s", text, yaml);
	yaml_tree_fini(&tree);
	bytes_free(value.value);
	bytes_free(again.value);
}

static void expect_string(const char *text, bool plain)
{
	struct buffer bytes = {0};
	int32_t length = (int32_t)strlen(text) + 1;

	buffer_append(&bytes, &length, sizeof(length));
	buffer_append(&bytes, text, (size_t)length);
	expect(text, plain, BSON_BYTE_STRING, bytes.data, bytes.length);
	buffer_fini(&bytes);
}

static void expect_int32(const char *text, int32_t number)
{
	expect(text, true, BSON_BYTE_INT32, &number, sizeof(number));
}

static void expect_int64(const char *text, int64_t number)
{
	expect(text, true, BSON_BYTE_INT64, &number, sizeof(number));
}

static void expect_double(const char *text, double number)
{
	expect(text, true, BSON_BYTE_DOUBLE, &number, sizeof(number));
}

Test(rules_value, booleans_and_null)
{
	expect("true", true, BSON_BYTE_BOOL, "\1", 1);
	expect("True", true, BSON_BYTE_BOOL, "\1", 1);
	expect("FALSE", true, BSON_BYTE_BOOL, "\0", 1);
	expect("", true, BSON_BYTE_NULL, NULL, 0);
	expect("~", true, BSON_BYTE_NULL, NULL, 0);
	expect("Null", true, BSON_BYTE_NULL, NULL, 0);
}

Test(rules_value, whole_numbers)
{
	expect_int32("0", 0);
	expect_int32("-0012", -12);
	expect_int32("+7", 7);
	expect_int32("0x1F", 31);
	expect_int32("0o17", 15);
	expect_int32("2147483647", INT32_MAX);
	expect_int64("2147483648", 2147483648);
	expect_int64("-9223372036854775808", INT64_MIN);
	expect_int64("9223372036854775807", INT64_MAX);
}

Test(rules_value, doubles)
{
	expect_double("1.5", 1.5);
	expect_double("1.", 1);
	expect_double(".5", 0.5);
	expect_double("-1e3", -1000);
	expect_double("1E+300", 1e300);
	expect_double("0.1", 0.1);
	expect_double("-0.0", -0.0);
	expect_double(".inf", __builtin_inf());
	expect_double("-.INF", -__builtin_inf());
	expect_double(".NaN", __builtin_nan(""));
}

Test(rules_value, strings)
{
	expect_string("true", false);
	expect_string("5", false);
	expect_string("", false);
	expect_string("null", false);
	expect_string("a\"b\\c\n\t\177\303\244", false);
	expect_string("yes", true);
	expect_string("tRUE", true);
	expect_string("1.2.3", true);
	expect_string("1e", true);
	expect_string("0x", true);
	expect_string("-0x1", true);
	expect_string(".", true);
	expect_string("-", true);
	expect_string("inf", true);
	expect_string("-.nan", true);
	expect_string("absent", false);
}

Test(rules_value, a_string_may_hold_a_nul)
{
	struct yaml_node node = {.kind = YAML_SCALAR, .text = {(const uint8_t *)"a\0b", 3}};
	struct rule_value value = {0};
	struct buffer printed = {0};

	cr_assert(rules_value_read(&node, &value));
	cr_assert(bytes_equal(value.value, (struct bytes){(const uint8_t *)"\4\0\0\0a\0b\0", 8}));
	rules_value_print(&printed, &value);
	cr_assert(bytes_are(buffer_view(&printed), "\"a\\x00b\""));
	bytes_free(value.value);
	buffer_fini(&printed);
}

Test(rules_value, a_number_beyond_64_bits_is_refused)
{
	static const char *const texts[] = {"9223372036854775808", "-9223372036854775809",
					    "0x8000000000000000"};

	for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
		struct yaml_node node = {
			.kind = YAML_SCALAR, .plain = true, .text = bytes_of(texts[i])};
		struct rule_value value = {0};

		cr_assert_not(rules_value_read(&node, &value), "%s", texts[i]);
	}
}
