/* Writes a configuration as the file that would give it. */
#include "rules/config/config.h"

#include "protocol/cursor.h"
#include "rules/config/rules_value.h"
#include "rules/config/settings.h"
#include "rules/rule/text.h"
#include "rules/config/uri.h"

#include <ctype.h>
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

static void print_index(struct buffer *out, struct bytes index)
{
	struct element keys, key;
	struct cursor cursor;
	const char *comma = "";

	require(document_find(index, "keys", &keys) && cursor_open(&cursor, keys.value));
	text_append(out, "\n        - keys: { ");
	while (cursor_next(&cursor, &key) == CURSOR_ELEMENT) {
		struct rule_value kind = {key.type, key.value};

		text_append(out, "%s", comma);
		rules_value_print_quoted(out, key.name);
		text_append(out, ": ");
		rules_value_print(out, &kind);
		comma = ", ";
	}
	text_append(out, " }");
}

static void print_indexes(struct buffer *out, struct bytes indexes)
{
	struct cursor cursor;
	struct element index;

	require(cursor_open(&cursor, indexes));
	while (cursor_next(&cursor, &index) == CURSOR_ELEMENT)
		print_index(out, index.value);
}

static void print_set(struct buffer *out, const char *const *words, const bool *members)
{
	const char *before = " [";

	for (size_t i = 0; words[i]; i++) {
		if (members[i])
			text_append(out, "%s%s", before, words[i]);
		before = members[i] ? ", " : before;
	}
	text_append(out, *before == ' ' ? " []" : "]");
}

static void print_texts(struct buffer *out, char *const *texts)
{
	const char *before = " [";

	for (; *texts; texts++) {
		text_append(out, "%s", before);
		print_text(out, *texts);
		before = ", ";
	}
	text_append(out, "]");
}

static void print_section(struct buffer *out, const struct setting *section, const void *base);

/* What stands behind the colon. */
static void print_value(struct buffer *out, const struct setting *setting, const void *base)
{
	auto_buffer struct buffer scratch = {0};

	if (setting->kind == SETTING_SECTION) {
		print_section(out, setting, base);
	} else if (setting->kind == SETTING_LIST) {
		print_indexes(out, *(const struct bytes *)setting_in(setting, base));
	} else if (setting->kind == SETTING_SET) {
		print_set(out, setting->words, setting_in(setting, base));
	} else if (setting->kind == SETTING_TEXTS) {
		print_texts(out, *(char **const *)setting_in(setting, base));
	} else if (setting->kind == SETTING_VALUE) {
		text_append(out, " ");
		rules_value_print(out, setting_in(setting, base));
	} else {
		text_append(out, " ");
		print_text(out, setting_text(setting, base, &scratch));
	}
}

/* A section with lists or sections in it has a line for each setting. */
static bool has_lines(const struct setting *section)
{
	bool lines = false;

	for (const struct setting *inner = section + 1; inner->path; inner++)
		lines |= setting_is_in(inner, section->path) &&
			 (inner->kind == SETTING_LIST || inner->kind == SETTING_SECTION);
	return lines;
}

static void print_setting(struct buffer *out, const char *before, const struct setting *setting,
			  const void *base)
{
	text_append(out, "%s%s:", before, setting_key(setting));
	print_value(out, setting, base);
}

/* Its settings with `before` in front of the first, `between` in front of each other. */
static void print_settings(struct buffer *out, const char *path, const void *base,
			   const char *before, const char *between)
{
	for (const struct setting *setting = settings; setting->path; setting++) {
		if (!setting_is_in(setting, path) || !setting_is_set(setting, base))
			continue;
		print_setting(out, before, setting, base);
		before = between;
	}
}

/* Whether the section's brief form says all that is in it. */
static bool is_brief(const struct setting *section, const void *base)
{
	const struct setting *brief = setting_brief(section);

	for (const struct setting *inner = section + 1; brief && inner->path; inner++)
		if (inner != brief && setting_is_in(inner, section->path) &&
		    setting_is_set(inner, base))
			return false;
	return brief;
}

static void print_section(struct buffer *out, const struct setting *section, const void *base)
{
	bool deep = strchr(section->path, '.'); /* it stands in an entry of a list */
	const char *line = deep ? "\n      " : "\n  ";

	if (is_brief(section, base)) {
		print_value(out, setting_brief(section), base);
		return;
	}
	if (has_lines(section)) {
		print_settings(out, section->path, base, line, line);
		return;
	}
	print_settings(out, section->path, base, " { ", ", ");
	text_append(out, " }");
}

static void print_entry(struct buffer *out, const char *path, const void *base)
{
	print_settings(out, path, base, "\n  - ", "\n    ");
}

/* The account is printed apart: without its password. */
static void print_upstream(struct buffer *out, const struct config *config)
{
	auto_free char *uri = uri_masked(config->upstream_uri);

	text_append(out, "\nupstream:\n  uri: ");
	print_text(out, uri);
}

void config_print_value(struct buffer *out, const struct setting *setting, const void *base)
{
	auto_buffer struct buffer text = {0};
	size_t at = 0;

	print_value(&text, setting, base);
	/* A list of indexes begins on a line of its own. */
	while (at < text.length && (text.data[at] == ' ' || text.data[at] == '\n'))
		at++;
	buffer_append(out, text.data + at, text.length - at);
}

char *config_print(const struct config *config)
{
	auto_buffer struct buffer out = {0};
	size_t count = rule_set_count(config->rules);

	if (!config->replica_set.on)
		text_append(&out, "listen:");
	for (size_t i = 0; !config->replica_set.on && i < config->listen_count; i++)
		print_entry(&out, "listen", &config->listen[i]);
	if (!config->replica_set.is_account)
		print_upstream(&out, config);
	for (const struct setting *setting = settings; setting->path; setting++)
		if (setting_is_in(setting, "") && setting_is_set(setting, config) &&
		    strcmp(setting->path, "upstream") != 0 &&
		    strcmp(setting->path, "include") != 0) /* its rules are among all */
			print_setting(&out, "\n", setting, config);
	text_append(&out, count > 0 ? "\nrules:" : "\nrules: []");
	for (size_t i = 0; i < count; i++)
		print_entry(&out, "rules", rule_set_at(config->rules, i));
	text_append(&out, "\n");
	if (*out.data == '\n') /* no `listen` came first */
		return must_strndup((const char *)out.data + 1, out.length - 1);
	return text_steal(&out);
}
