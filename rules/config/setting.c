/* Reads settings: kinds, units and bounds, with messages that say what would be right. */
#include "rules/config/setting.h"

#include "rules/config/rules_value.h"
#include "rules/rule/text.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Sections. */

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
			     const struct yaml_node *node, const char *const *keys)
{
	*section = (struct section){problems, node};
	if (node->kind != YAML_MAPPING) {
		problem_add(problems, node->at, "keys with values must stand here: %s, ...", *keys);
		return false;
	}
	for (const struct yaml_node *key = node->first; key; key = key->next->next)
		check_key(section, key, keys);
	return true;
}

const struct yaml_node *section_find(const struct section *section, const char *key)
{
	for (const struct yaml_node *at = section->node->first; at; at = at->next->next) {
		if (bytes_are(at->text, key))
			return at->next;
	}
	return NULL;
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

/* The scalar of a key; NULL where there is none, or none with a value. */
static const struct yaml_node *find_scalar(const struct section *section, const char *key)
{
	const struct yaml_node *value = section_find(section, key);

	if (!value)
		return NULL;
	if (yaml_is_null(value))
		problem_add(section->problems, value->at, "'%s' has no value", key);
	else if (value->kind != YAML_SCALAR)
		problem_add(section->problems, value->at, "'%s' must be a single value", key);
	else
		return value;
	return NULL;
}

static const struct yaml_node *find_text(const struct section *section, const char *key)
{
	const struct yaml_node *value = find_scalar(section, key);

	if (!value)
		return NULL;
	if (value->text.length == 0) {
		problem_add(section->problems, value->at, "'%s' is empty", key);
		return NULL;
	}
	for (size_t i = 0; i < value->text.length; i++) {
		if (value->text.data[i] < 0x20 || value->text.data[i] == 0x7f) {
			problem_add(section->problems, value->at,
				    "'%s' must be without control characters", key);
			return NULL;
		}
	}
	return value;
}

static void store(char **target, const struct yaml_node *value)
{
	*target = must_strndup((const char *)value->text.data, value->text.length);
}

void setting_text(const struct section *section, const char *key, char **text)
{
	const struct yaml_node *value = find_text(section, key);

	if (value)
		store(text, value);
}

void setting_field(const struct section *section, const char *key, char **name)
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

static bool is_address(const char *text)
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

void setting_address(const struct section *section, const char *key, char **address)
{
	const struct yaml_node *value = find_text(section, key);
	const char *text, *at;

	if (!value)
		return;
	text = (const char *)value->text.data;
	/* Somebody may put a URI here, with a password. */
	at = strstr(text, "://") ? strrchr(text, '@') : NULL;
	if (is_address(text))
		store(address, value);
	else
		problem_add(
			section->problems, value->at,
			"'%s' must be host:port or [IPv6]:port, the port from 1 to 65535, not '%s'",
			key, text_quote(bytes_of(at ? at + 1 : text)).text);
}

/* ---- Numbers. */

struct unit {
	const char *name;
	int64_t factor;
};

/* The largest last; the empty name is what a number without a unit means. */
static const struct unit sizes[] = {
	{"", 1}, {"B", 1}, {"KB", 1024}, {"MB", 1024 * 1024}, {"GB", 1024 * 1024 * 1024}};
static const struct unit durations[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};

/* A number with a unit. False where it is none; too large for 64 bits is the largest. */
static bool measure(const char *text, const struct unit *units, size_t count, int64_t *value)
{
	size_t digits = strspn(text, "0123456789");
	int64_t number = 0;

	if (digits == 0)
		return false;
	for (size_t i = 0; i < digits; i++) {
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, text[i] - '0', &number))
			number = INT64_MAX;
	}
	for (size_t i = 0; i < count; i++) {
		if (strcmp(text + digits, units[i].name) != 0)
			continue;
		if (__builtin_mul_overflow(number, units[i].factor, value))
			*value = INT64_MAX;
		return true;
	}
	return false;
}

static bool within(struct range range, int64_t value)
{
	return value >= range.least && value <= range.most;
}

void setting_count(const struct section *section, const char *key, struct range range,
		   int64_t *count)
{
	const struct yaml_node *value = find_scalar(section, key);
	int64_t number;

	if (!value)
		return;
	if (rules_value_integer(value, &number) && within(range, number))
		*count = number;
	else
		problem_add(section->problems, value->at,
			    "'%s' must be a whole number from %" PRId64 " to %" PRId64
			    "%s, not '%s'",
			    key, range.least, range.most, value->plain ? "" : ", without quotes",
			    text_quote(value->text).text);
}

void setting_size(const struct section *section, const char *key, struct range range,
		  int64_t *bytes)
{
	const struct yaml_node *value = find_text(section, key);
	char least[SETTING_TEXT_MAX], most[SETTING_TEXT_MAX];
	int64_t size;

	if (!value)
		return;
	if (!measure((const char *)value->text.data, sizes, ARRAY_LENGTH(sizes), &size))
		problem_add(section->problems, value->at,
			    "'%s' must be a whole number of B, KB, MB or GB, as in 1MB, not '%s'",
			    key, text_quote(value->text).text);
	else if (!within(range, size))
		problem_add(section->problems, value->at, "'%s' must be from %s to %s, not '%s'",
			    key, setting_size_text(least, range.least),
			    setting_size_text(most, range.most), text_quote(value->text).text);
	else
		*bytes = size;
}

void setting_duration(const struct section *section, const char *key, struct range range,
		      int64_t *milliseconds)
{
	const struct yaml_node *value = find_text(section, key);
	char least[SETTING_TEXT_MAX], most[SETTING_TEXT_MAX];
	const char *text;
	int64_t duration;

	if (!value)
		return;
	text = (const char *)value->text.data;
	if (strspn(text, "0123456789") == value->text.length)
		problem_add(section->problems, value->at,
			    "'%s' needs a unit: ms, s, m or h, as in %.20ss", key, text);
	else if (!measure(text, durations, ARRAY_LENGTH(durations), &duration))
		problem_add(section->problems, value->at,
			    "'%s' must be a whole number of ms, s, m or h, as in 10s, not '%s'",
			    key, text_quote(value->text).text);
	else if (!within(range, duration))
		problem_add(section->problems, value->at, "'%s' must be from %s to %s, not '%s'",
			    key, setting_duration_text(least, range.least),
			    setting_duration_text(most, range.most), text_quote(value->text).text);
	else
		*milliseconds = duration;
}

static const char *measure_text(char *text, int64_t value, const struct unit *units, size_t count)
{
	size_t best = 0;

	for (size_t i = 0; i < count; i++) {
		if (value % units[i].factor == 0)
			best = i;
	}
	snprintf(text, SETTING_TEXT_MAX, "%" PRId64 "%s", value / units[best].factor,
		 units[best].name);
	return text;
}

const char *setting_size_text(char *text, int64_t bytes)
{
	return measure_text(text, bytes, sizes, ARRAY_LENGTH(sizes));
}

const char *setting_duration_text(char *text, int64_t milliseconds)
{
	if (milliseconds == 0)
		return "0s"; /* and not 0h */
	return measure_text(text, milliseconds, durations, ARRAY_LENGTH(durations));
}

/* ---- Words. */

bool setting_is_off(const struct section *section, const char *key)
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

int setting_choice(const struct section *section, const char *key, const char *const *words)
{
	const struct yaml_node *value = find_scalar(section, key);
	auto_buffer struct buffer choices = {0};

	if (!value)
		return -1;
	for (int i = 0; words[i]; i++) {
		if (bytes_are(value->text, words[i]))
			return i;
	}
	problem_add(section->problems, value->at, "'%s' must be %s, not '%s'", key,
		    words_text(&choices, words), text_quote(value->text).text);
	return -1;
}
