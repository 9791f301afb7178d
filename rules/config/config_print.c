/* Writes a configuration as the file that would give it. */
#include "rules/config/config.h"

#include "protocol/cursor.h"
#include "rules/config/rule_document.h"
#include "rules/config/rules_value.h"
#include "rules/config/setting.h"
#include "rules/rule/text.h"
#include "rules/config/uri.h"

#include <ctype.h>
#include <inttypes.h>
#include <strings.h>

/* Texts that YAML takes as they are, also within braces; others are put in quotes. */
static bool is_plain(const char *text)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/";
	size_t length = strlen(text);

	return isalnum((unsigned char)*text) && strspn(text, allowed) == length &&
	       text[length - 1] != ':' && strcasecmp(text, "null") != 0;
}

static void print_text(struct buffer *out, const char *text)
{
	if (is_plain(text))
		text_append(out, "%s", text);
	else
		rules_value_print_quoted(out, bytes_of(text));
}

static void print_key(struct buffer *out, const char *key, const char *text)
{
	if (!text)
		return;
	text_append(out, "%s: ", key);
	print_text(out, text);
	text_append(out, "\n");
}

static void print_size(struct buffer *out, const char *key, int64_t bytes)
{
	char text[SETTING_TEXT_MAX];

	text_append(out, "%s: %s", key, setting_size_text(text, bytes));
}

static void print_duration(struct buffer *out, const char *key, int64_t milliseconds)
{
	char text[SETTING_TEXT_MAX];

	text_append(out, "%s: %s", key, setting_duration_text(text, milliseconds));
}

static void print_head(struct buffer *out, const struct config *config)
{
	auto_free char *uri = uri_masked(config->upstream_uri);

	text_append(out, "listen:\n");
	for (size_t i = 0; i < config->listen_count; i++) {
		print_key(out, "  - address", config->listen[i].address);
		print_key(out, "    server", config->listen[i].server);
		print_key(out, "    advertise", config->listen[i].advertise);
	}
	text_append(out, "upstream:\n");
	print_key(out, "  uri", uri);
	print_key(out, "admin", config->admin ? config->admin : "off");
	text_append(out, "workers: %d\n", config->workers);
}

static void print_limits(struct buffer *out, const struct config *config)
{
	static const char *const levels[] = {
		[CONFIG_LOG_ERROR] = "error",
		[CONFIG_LOG_WARNING] = "warning",
		[CONFIG_LOG_INFO] = "info",
		[CONFIG_LOG_DEBUG] = "debug",
	};

	text_append(out, "limits: { connections: %" PRId64, config->limits.connections);
	print_duration(out, ", handshake", config->limits.handshake_ms);
	print_duration(out, ", drain", config->limits.drain_ms);
	print_size(out, ", memory", config->limits.memory);
	text_append(out, " }\nlog: { level: %s, format: %s }\n", levels[config->log_level],
		    config->log_json ? "json" : "text");
}

static void print_flag(struct buffer *out, const struct rule *rule)
{
	if (rule->flag.field) {
		text_append(out, "    flag: { field: ");
		print_text(out, rule->flag.field);
		text_append(out, ", value: ");
		rules_value_print(out, &rule->flag.value);
		text_append(out, ", otherwise: ");
		rules_value_print(out, &rule->flag.otherwise);
		text_append(out, " }\n");
	}
}

static void print_index(struct buffer *out, struct bytes index)
{
	struct element keys, key;
	struct cursor cursor;
	const char *comma = "";

	require(document_find(index, "keys", &keys) && cursor_open(&cursor, keys.value));
	text_append(out, "        - keys: { ");
	while (cursor_next(&cursor, &key) == CURSOR_ELEMENT) {
		struct rule_value kind = {key.type, key.value};

		text_append(out, "%s", comma);
		rules_value_print_quoted(out, key.name);
		text_append(out, ": ");
		rules_value_print(out, &kind);
		comma = ", ";
	}
	text_append(out, " }\n");
}

static void print_indexes(struct buffer *out, struct bytes indexes)
{
	struct cursor cursor;
	struct element index;

	text_append(out, "      indexes:\n");
	require(cursor_open(&cursor, indexes));
	while (cursor_next(&cursor, &index) == CURSOR_ELEMENT)
		print_index(out, index.value);
}

static void print_plain(struct buffer *out, const struct element *setting)
{
	char size[SETTING_TEXT_MAX];
	struct bytes text;
	int64_t number;

	if (element_string(setting, &text)) {
		print_text(out, (const char *)text.data);
		return;
	}
	require(element_integer(setting, &number));
	if (element_is(setting, "max_bytes"))
		text_append(out, "%s", setting_size_text(size, number));
	else
		text_append(out, "%" PRId64, number);
}

/* Between braces, or brackets: what holds texts and numbers. */
static void print_inline(struct buffer *out, const struct element *setting)
{
	bool list = setting->type == BSON_BYTE_ARRAY;
	const char *before = list ? "" : " ";
	struct cursor cursor;
	struct element part;

	require(cursor_open(&cursor, setting->value));
	text_append(out, list ? "[" : "{");
	while (cursor_next(&cursor, &part) == CURSOR_ELEMENT) {
		text_append(out, "%s", before);
		if (!list)
			text_append(out, "%s: ", (const char *)part.name.data);
		print_plain(out, &part);
		before = ", ";
	}
	text_append(out, list ? "]" : " }");
}

static void print_setting(struct buffer *out, const char *indent, const struct element *setting)
{
	struct bytes inner;

	text_append(out, "%s%s: ", indent, (const char *)setting->name.data);
	if (element_document(setting, &inner))
		print_inline(out, setting);
	else
		print_plain(out, setting);
	text_append(out, "\n");
}

static void print_overflow(struct buffer *out, struct bytes overflow)
{
	struct cursor cursor;
	struct element setting;

	text_append(out, "    overflow:\n");
	require(cursor_open(&cursor, overflow));
	while (cursor_next(&cursor, &setting) == CURSOR_ELEMENT) {
		if (element_is(&setting, "indexes"))
			print_indexes(out, setting.value);
		else
			print_setting(out, "      ", &setting);
	}
}

static void print_rule(struct buffer *out, const struct rule *rule)
{
	auto_buffer struct buffer settings = {0};
	size_t start = writer_open(&settings);
	const char *indent = "  - ";
	struct cursor cursor;
	struct element setting;

	rule_write(&settings, rule);
	writer_close(&settings, start);
	require(cursor_open(&cursor, buffer_view(&settings)));
	while (cursor_next(&cursor, &setting) == CURSOR_ELEMENT) {
		if (element_is(&setting, "flag"))
			print_flag(out, rule); /* its values' types are to be seen */
		else if (element_is(&setting, "overflow"))
			print_overflow(out, setting.value);
		else
			print_setting(out, indent, &setting);
		indent = "    ";
	}
}

char *config_print(const struct config *config)
{
	auto_buffer struct buffer out = {0};
	size_t count = rule_set_count(config->rules);

	print_head(&out, config);
	print_limits(&out, config);
	text_append(&out, count > 0 ? "rules:\n" : "rules: []\n");
	for (size_t i = 0; i < count; i++)
		print_rule(&out, rule_set_at(config->rules, i));
	return text_steal(&out);
}
