/* Writes a rule as the configuration file would have it, but as BSON. */
#include "rules/config/rule_document.h"

#include "rules/rule/text.h"

static void write_value(struct buffer *out, const char *name, const struct rule_value *value)
{
	if (value->type)
		writer_renamed(out, name,
			       &(struct element){.type = value->type, .value = value->value});
	else
		writer_string(out, name, "absent");
}

static void write_set(struct buffer *out, const struct setting *setting, const bool *members)
{
	size_t set = writer_open_array(out, setting_key(setting)), index = 0;
	char name[12];

	for (size_t i = 0; setting->words[i]; i++)
		if (members[i])
			writer_string(out, writer_index(name, index++), setting->words[i]);
	writer_close(out, set);
}

static void write_text(struct buffer *out, const char *name, const struct setting *setting,
		       const struct rule *rule)
{
	auto_buffer struct buffer scratch = {0};

	writer_string(out, name, setting_text(setting, rule, &scratch));
}

static void write_section(struct buffer *out, const char *path, const struct rule *rule)
{
	for (const struct setting *setting = settings; setting->path; setting++)
		if (setting_is_in(setting, path))
			rule_write_setting(out, setting_key(setting), setting, rule);
}

void rule_write_setting(struct buffer *out, const char *name, const struct setting *setting,
			const struct rule *rule)
{
	size_t section;

	if (!setting_is_set(setting, rule))
		return;
	if (setting->kind == SETTING_SECTION) {
		section = writer_open_document(out, name);
		write_section(out, setting->path, rule);
		writer_close(out, section);
	} else if (setting->kind == SETTING_COUNT || setting->kind == SETTING_SIZE) {
		writer_int64(out, name, *(const int64_t *)setting_in(setting, rule));
	} else if (setting->kind == SETTING_VALUE) {
		write_value(out, name, setting_in(setting, rule));
	} else if (setting->kind == SETTING_SET) {
		write_set(out, setting, setting_in(setting, rule));
	} else if (setting->kind == SETTING_LIST) {
		writer_array(out, name, *(const struct bytes *)setting_in(setting, rule));
	} else {
		write_text(out, name, setting, rule);
	}
}

void rule_write(struct buffer *out, const struct rule *rule)
{
	write_section(out, "rules", rule);
}

void rule_write_own_fields(struct buffer *out, const struct rule *rule)
{
	static const char *const keys[] = {"flag", "counters", "reference"};

	for (const struct setting *setting = settings; setting->path; setting++)
		for (size_t i = 0; i < ARRAY_LENGTH(keys); i++)
			if (setting_is_in(setting, "rules") &&
			    strcmp(setting_key(setting), keys[i]) == 0)
				rule_write_setting(out, keys[i], setting, rule);
}
