/* Reads settings: kinds, units and bounds, with messages that say what would be right. */
#include "rules/config/section.h"

#include "rules/config/rules_value.h"
#include "rules/rule/text.h"

#include <inttypes.h>

/* ---- Sections. */

#define KEYS_MAX 24

/* The section's keys, in the order of the table; ends with NULL. */
static void list_keys(const char *path, const char **keys)
{
	size_t count = 0;

	for (const struct setting *setting = settings; setting->path; setting++) {
		if (setting_is_in(setting, path)) {
			require(count < KEYS_MAX);
			keys[count++] = setting_key(setting);
		}
	}
	keys[count] = NULL;
}

static bool is_known(struct bytes key, const char *const *keys)
{
	for (; *keys; keys++) {
		if (bytes_are(key, *keys))
			return true;
	}
	return false;
}

static void check_key(const struct section *section, const struct yaml_node *key,
		      const char *const *keys)
{
	struct text_quote name = text_quote(key->text);

	if (!is_known(key->text, keys)) {
		problem_add(section->problems, key->at, "unknown key '%s'; did you mean '%s'?",
			    name.text, text_nearest(key->text, keys));
		return;
	}
	for (const struct yaml_node *before = section->node->first; before != key;
	     before = before->next->next) {
		if (bytes_equal(before->text, key->text)) {
			problem_add(section->problems, key->at,
				    "'%s' stands here a second time; it is already in line %d",
				    name.text, before->at.line);
			return;
		}
	}
}

must_check bool section_open(struct section *section, struct problems *problems,
			     const struct yaml_node *node, const char *path)
{
	const char *keys[KEYS_MAX + 1];

	*section = (struct section){problems, node, path};
	list_keys(path, keys);
	if (node->kind != YAML_MAPPING) {
		problem_add(problems, node->at, "keys with values must stand here: %s, ...", *keys);
		return false;
	}
	for (const struct yaml_node *key = node->first; key; key = key->next->next)
		check_key(section, key, keys);
	return true;
}

static const struct yaml_node *find_in(const struct yaml_node *mapping, struct bytes key)
{
	if (!mapping || mapping->kind != YAML_MAPPING)
		return NULL;
	for (const struct yaml_node *at = mapping->first; at; at = at->next->next) {
		if (bytes_equal(at->text, key))
			return at->next;
	}
	return NULL;
}

const struct yaml_node *section_find(const struct section *section, const char *key)
{
	return find_in(section->node, bytes_of(key));
}

static struct bytes bytes_to_dot(const char *path)
{
	return (struct bytes){(const uint8_t *)path, strcspn(path, ".")};
}

struct place section_place_below(const struct yaml_node *node, const char *path)
{
	struct place place = node->at;

	while ((node = find_in(node, bytes_to_dot(path)))) {
		place = node->at;
		path += strcspn(path, ".");
		path += *path == '.';
	}
	return place;
}

const struct yaml_node *section_require(const struct section *section, const char *key)
{
	const struct yaml_node *value = section_find(section, key);

	if (!value)
		problem_add(section->problems, section->node->at, "'%s' is missing here", key);
	return value;
}

struct place section_place(const struct section *section, const char *key)
{
	const struct yaml_node *value = section_find(section, key);

	return value ? value->at : section->node->at;
}

const struct yaml_node *section_list(const struct section *section, const char *key)
{
	const struct yaml_node *value = section_find(section, key);

	if (!value || value->kind == YAML_LIST)
		return value;
	problem_add(section->problems, value->at, "'%s' must be a list", key);
	return NULL;
}

/* ---- Texts. */

static bool is_scalar(const struct section *section, const char *key, const struct yaml_node *value)
{
	if (yaml_is_null(value))
		problem_add(section->problems, value->at, "'%s' has no value", key);
	else if (value->kind != YAML_SCALAR)
		problem_add(section->problems, value->at, "'%s' must be a single value", key);
	else
		return true;
	return false;
}

/* The scalar of a key; NULL where there is none, or none with a value. */
static const struct yaml_node *find_scalar(const struct section *section, const char *key)
{
	const struct yaml_node *value = section_find(section, key);

	return value && is_scalar(section, key, value) ? value : NULL;
}

static bool is_text(const struct section *section, const char *key, const struct yaml_node *value)
{
	if (value->text.length == 0) {
		problem_add(section->problems, value->at, "'%s' is empty", key);
		return false;
	}
	for (size_t i = 0; i < value->text.length; i++) {
		if (value->text.data[i] < 0x20 || value->text.data[i] == 0x7f) {
			problem_add(section->problems, value->at,
				    "'%s' must be without control characters", key);
			return false;
		}
	}
	return true;
}

static const struct yaml_node *find_text(const struct section *section, const char *key)
{
	const struct yaml_node *value = find_scalar(section, key);

	return value && is_text(section, key, value) ? value : NULL;
}

static void store(char **target, const struct yaml_node *value)
{
	*target = must_strndup((const char *)value->text.data, value->text.length);
}

void section_text(const struct section *section, const char *key, char **text)
{
	const struct yaml_node *value = find_text(section, key);

	if (value)
		store(text, value);
}

/* Texts of a list; the target is an array that ends with NULL. */
static void read_texts(const struct section *section, const char *key, char ***texts)
{
	const struct yaml_node *list = section_list(section, key);
	size_t count = 0;

	if (!list || list->count == 0 || *texts)
		return;
	*texts = must_calloc(list->count + 1, sizeof(**texts));
	for (const struct yaml_node *item = list->first; item; item = item->next)
		if (is_scalar(section, key, item) && is_text(section, key, item))
			store(&(*texts)[count++], item);
}

static void read_field(const struct section *section, const char *key, char **name)
{
	const struct yaml_node *value = find_text(section, key);
	const char *mistake = NULL;

	if (!value)
		return;
	if (memchr(value->text.data, '.', value->text.length))
		mistake = "must be a field on the top level, without dots";
	else if (memchr(value->text.data, '$', value->text.length))
		mistake = "must be a field's name, without '$'";
	else if (bytes_are(value->text, "_id") || bytes_are(value->text, "_spill"))
		mistake = "must be another field than '_id' and '_spill'";
	if (mistake)
		problem_add(section->problems, value->at, "'%s' %s, not '%s'", key, mistake,
			    text_quote(value->text).text);
	else
		store(name, value);
}

/* A port's digits: 1 to 65535. */
static bool is_port(const char *text)
{
	size_t length = strspn(text, "0123456789");
	int port = 0;

	if (length < 1 || length > 5 || text[length] != '\0')
		return false;
	for (; *text; text++)
		port = 10 * port + (*text - '0');
	return port >= 1 && port <= 65535;
}

must_check bool section_is_address(const char *text)
{
	const char *colon = strrchr(text, ':');
	size_t host;

	if (!colon || !is_port(colon + 1))
		return false;
	if (*text == '[') {
		host = 1 + strspn(text + 1, "0123456789abcdefABCDEF:.");
		return host > 2 && text[host] == ']' && text + host + 1 == colon;
	}
	host = strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_");
	return host > 0 && text + host == colon;
}

static void read_address(const struct section *section, const char *key, char **address)
{
	const struct yaml_node *value = find_text(section, key);
	const char *text, *at;

	if (!value)
		return;
	text = (const char *)value->text.data;
	/* Somebody may put a URI here, with a password. */
	at = strstr(text, "://") ? strrchr(text, '@') : NULL;
	if (section_is_address(text))
		store(address, value);
	else
		problem_add(
			section->problems, value->at,
			"'%s' must be host:port or [IPv6]:port, the port from 1 to 65535, not '%s'",
			key, text_quote(bytes_of(at ? at + 1 : text)).text);
}

/* ---- Numbers. */

static bool within(struct range range, int64_t value)
{
	return value >= range.least && value <= range.most;
}

static const char *or_off(const struct setting *setting)
{
	return setting->off ? ", or off" : "";
}

static void read_count(const struct section *section, const struct setting *setting, int64_t *count)
{
	const struct yaml_node *value = find_scalar(section, setting_key(setting));
	int64_t number;

	if (!value)
		return;
	if (rules_value_integer(value, &number) && within(setting->range, number))
		*count = number;
	else
		problem_add(section->problems, value->at,
			    "'%s' must be a whole number from %" PRId64 " to %" PRId64
			    "%s%s, not '%s'",
			    setting_key(setting), setting->range.least, setting->range.most,
			    value->plain ? "" : ", without quotes", or_off(setting),
			    text_quote(value->text).text);
}

static const char *measure_form(enum setting_kind kind)
{
	if (kind == SETTING_SHARE)
		return "a fraction such as 0.01";
	return kind == SETTING_SIZE ? "a whole number of B, KB, MB or GB, as in 1MB"
				    : "a whole number of ms, s, m or h, as in 10s";
}

/* A size, a duration or a share. */
static void read_measure(const struct section *section, const struct setting *setting,
			 int64_t *number)
{
	const char *key = setting_key(setting);
	const struct yaml_node *value = find_text(section, key);
	char least[SETTING_TEXT_MAX], most[SETTING_TEXT_MAX];
	enum setting_kind kind = setting->kind;
	const char *text;
	int64_t read;

	if (!value)
		return;
	text = (const char *)value->text.data;
	if (kind == SETTING_DURATION && strspn(text, "0123456789") == value->text.length)
		problem_add(section->problems, value->at,
			    "'%s' needs a unit: ms, s, m or h, as in %.20ss", key, text);
	else if (!setting_measure(kind, text, &read))
		problem_add(section->problems, value->at, "'%s' must be %s%s, not '%s'", key,
			    measure_form(kind), or_off(setting), text_quote(value->text).text);
	else if (!within(setting->range, read))
		problem_add(section->problems, value->at, "'%s' must be from %s to %s%s, not '%s'",
			    key, setting_measure_text(kind, least, setting->range.least),
			    setting_measure_text(kind, most, setting->range.most), or_off(setting),
			    text_quote(value->text).text);
	else
		*number = read;
}

/* ---- Words and values. */

static bool is_off(const struct section *section, const char *key)
{
	const struct yaml_node *value = section_find(section, key);

	return value && value->kind == YAML_SCALAR && bytes_are(value->text, "off");
}

static const char *words_text(struct buffer *buffer, const char *const *words)
{
	for (const char *const *word = words; *word; word++)
		text_append(buffer, "%s'%s'", word == words ? "" : word[1] ? ", " : " or ", *word);
	return (const char *)buffer->data;
}

/* False if there is none, or a wrong one; else its place. */
static bool read_word(const struct section *section, const struct setting *setting, int *place)
{
	const char *key = setting_key(setting);
	const struct yaml_node *value = find_scalar(section, key);
	auto_buffer struct buffer choices = {0};

	if (!value)
		return false;
	for (*place = 0; setting->words[*place]; ++*place) {
		if (bytes_are(value->text, setting->words[*place]))
			return true;
	}
	problem_add(section->problems, value->at, "'%s' must be %s, not '%s'", key,
		    words_text(&choices, setting->words), text_quote(value->text).text);
	return false;
}

/* `absent` without quotes is a value of its own: no field at all. */
static void read_value(const struct section *section, const struct setting *setting,
		       struct rule_value *value)
{
	const char *key = setting_key(setting);
	const struct yaml_node *node = section_find(section, key);
	bool absent =
		node && node->kind == YAML_SCALAR && node->plain && bytes_are(node->text, "absent");

	if (!node || (absent && !setting->required))
		return;
	if (node->kind != YAML_SCALAR)
		problem_add(section->problems, node->at, "'%s' must be a single value", key);
	else if (absent)
		problem_add(section->problems, node->at,
			    "'%s' cannot be absent; put it in quotes if you mean the word", key);
	else if (!rules_value_read(node, value))
		problem_add(section->problems, node->at,
			    "'%s' is a number beyond 64 bits; put it in quotes to make it a string",
			    key);
}

/* ---- The settings of a section, by the table. */

/* The kinds that have a value in the struct. */
static void read_at(const struct section *section, const struct setting *setting, void *at)
{
	const char *key = setting_key(setting);
	int word;

	if (setting->kind == SETTING_TEXT)
		section_text(section, key, at);
	else if (setting->kind == SETTING_TEXTS)
		read_texts(section, key, at);
	else if (setting->kind == SETTING_FIELD)
		read_field(section, key, at);
	else if (setting->kind == SETTING_ADDRESS)
		read_address(section, key, at);
	else if (setting->kind == SETTING_COUNT)
		read_count(section, setting, at);
	else if (setting->kind == SETTING_SIZE || setting->kind == SETTING_DURATION ||
		 setting->kind == SETTING_SHARE)
		read_measure(section, setting, at);
	else if (setting->kind == SETTING_VALUE)
		read_value(section, setting, at);
	else if (setting->kind == SETTING_CHOICE && read_word(section, setting, &word))
		*(int *)at = word;
	else if (setting->kind == SETTING_SWITCH && read_word(section, setting, &word))
		*(bool *)at = word == 1;
}

/* One value instead of a section is read like its brief key, under the section's name. */
static void read_section(const struct section *section, const struct setting *setting, void *base)
{
	const struct yaml_node *node = section_find(section, setting_key(setting));
	const struct setting *brief = setting_brief(setting);
	struct setting renamed;
	struct section inner;

	if (node && brief && node->kind != YAML_MAPPING) {
		renamed = *brief;
		renamed.path = setting->path;
		read_at(section, &renamed, setting_at(&renamed, base));
	} else if (node && section_open(&inner, section->problems, node, setting->path)) {
		if (setting->offset != SETTING_NOWHERE)
			*(bool *)setting_at(setting, base) = true;
		section_read(&inner, base);
	}
}

/* A text, or all of a section, is NULL already. */
static void write_off(const struct setting *setting, void *base)
{
	if (setting->kind == SETTING_DURATION)
		*(int64_t *)setting_at(setting, base) = 0;
}

void section_read_setting(const struct section *section, const struct setting *setting, void *base)
{
	if (setting->required)
		(void)section_require(section, setting_key(setting));
	if (setting->off && is_off(section, setting_key(setting)))
		write_off(setting, base);
	else if (setting->kind == SETTING_SECTION)
		read_section(section, setting, base);
	else if (setting->offset != SETTING_NOWHERE)
		read_at(section, setting, setting_at(setting, base));
}

void section_read(const struct section *section, void *base)
{
	for (const struct setting *setting = settings; setting->path; setting++)
		if (setting_is_in(setting, section->path) && !setting->batches)
			section_read_setting(section, setting, base);
}

struct section section_inner(const struct section *section, const char *key)
{
	const struct yaml_node *node = section_find(section, key);

	return (struct section){.problems = section->problems,
				.node = node && node->kind == YAML_MAPPING ? node : NULL};
}
