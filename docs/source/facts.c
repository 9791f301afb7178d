/* Prints the tables of settings, commands and options as JSON, for docs/source/write. */
#include "protocol/writer.h"
#include "proxy/base/command_line.h"
#include "proxy/base/json_text.h"
#include "rules/config/settings.h"

#include <inttypes.h>

static const char *const kinds[] = {
	[SETTING_SECTION] = "section",   [SETTING_LIST] = "list",
	[SETTING_TEXT] = "text",         [SETTING_FIELD] = "field",
	[SETTING_ADDRESS] = "address",   [SETTING_NAMESPACE] = "namespace",
	[SETTING_COUNT] = "count",       [SETTING_SIZE] = "size",
	[SETTING_SHARE] = "share",       [SETTING_DURATION] = "duration", [SETTING_CHOICE] = "word",
	[SETTING_SWITCH] = "word",       [SETTING_SET] = "set",
	[SETTING_VALUE] = "value",       [SETTING_KEYS] = "keys",
	[SETTING_TEXTS] = "texts",
};

static const char *const changes[] = {
	[SETTING_FREE] = "free",
	[SETTING_ADAPTED] = "adapted",
	[SETTING_UNDO] = "undo",
};

static void write_number(struct buffer *out, const char *name, const struct setting *setting,
			 int64_t number)
{
	char text[SETTING_TEXT_MAX];

	snprintf(text, sizeof(text), "%" PRId64, number);
	if (setting->kind == SETTING_COUNT)
		writer_string(out, name, text);
	else
		writer_string(out, name, setting_measure_text(setting->kind, text, number));
}

static void write_words(struct buffer *out, const char *const *words)
{
	size_t array = writer_open_array(out, "words");
	char name[12];

	for (size_t i = 0; words[i]; i++)
		writer_string(out, writer_index(name, i), words[i]);
	writer_close(out, array);
}

static void write_setting(struct buffer *out, const struct setting *setting)
{
	writer_string(out, "key", setting->path);
	writer_string(out, "kind", kinds[setting->kind]);
	writer_string(out, "change", changes[setting->change]);
	writer_bool(out, "required", setting->required);
	writer_bool(out, "restart", setting->restart);
	writer_bool(out, "off", setting->off);
	if (setting->words)
		write_words(out, setting->words);
	if (setting->range.most > 0) {
		write_number(out, "least", setting, setting->range.least);
		write_number(out, "most", setting, setting->range.most);
	}
	if (setting->required)
		return;
	if (setting->range.most > 0 && !(setting->off && setting->standard == 0))
		write_number(out, "default", setting, setting->standard);
	else if (setting->kind == SETTING_CHOICE || setting->kind == SETTING_SWITCH)
		writer_string(out, "default", setting->words[setting->standard]);
	else if (setting->off)
		writer_string(out, "default", "off");
}

static void write_option(struct buffer *out, const struct program_option_row *option)
{
	char letter[2] = {option->letter, '\0'};

	writer_string(out, "name", option->name);
	writer_string(out, "letter", letter);
	writer_string(out, "value", option->value ? option->value : "");
	writer_bool(out, "required", option->required);
	writer_string(out, "text", option->text);
}

static void write_command(struct buffer *out, const struct program_command_row *command)
{
	size_t array;
	char name[12];

	writer_string(out, "name", command->name);
	writer_string(out, "arguments", command->arguments);
	writer_string(out, "summary", command->summary);
	writer_string(out, "text", command->text);
	array = writer_open_document(out, "codes");
	for (size_t i = 0; i < EXIT_CODES; i++)
		writer_string(out, writer_index(name, (size_t)program_exit_codes[i]),
			      command->codes[i] ? command->codes[i] : "");
	writer_close(out, array);
	array = writer_open_array(out, "options");
	for (size_t i = 0, index = 0; i < OPTIONS; i++) {
		size_t document;

		if (!(command->options & 1U << i))
			continue;
		document = writer_open_document(out, writer_index(name, index++));
		write_option(out, &program_options[i]);
		writer_close(out, document);
	}
	writer_close(out, array);
}

int main(void)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), array, document, index = 0;
	char name[12];

	array = writer_open_array(&out, "settings");
	for (const struct setting *setting = settings; setting->path; setting++) {
		document = writer_open_document(&out, writer_index(name, index++));
		write_setting(&out, setting);
		writer_close(&out, document);
	}
	writer_close(&out, array);
	array = writer_open_array(&out, "commands");
	for (size_t i = 0; i < PROGRAM_COMMANDS; i++) {
		document = writer_open_document(&out, writer_index(name, i));
		write_command(&out, &program_commands[i]);
		writer_close(&out, document);
	}
	writer_close(&out, array);
	writer_close(&out, start);
	json_print(buffer_view(&out));
	return 0;
}
