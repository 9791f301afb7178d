/* Knows the settings and where their values are kept. */
#include "rules/config/settings.h"

#include "rules/config/config.h"
#include "rules/rule/text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#define WORKERS_MAX CONFIG_WORKERS_MAX
#define SECOND ((int64_t)1000)
#define HOUR (3600 * SECOND)
#define KB ((int64_t)1024)
#define MB (1024 * KB)
#define GB (1024 * MB)
#define SHARE_DIGITS 6
#define MILLION 1000000 /* SHARE_DIGITS digits */

#define NOWHERE SETTING_NOWHERE
#define IN_LISTEN(member) offsetof(struct config_listen, member)
#define IN_FILE(member) offsetof(struct config, member)
#define IN_RULE(member) offsetof(struct rule, member)

#define REQUIRED .required = true
#define OR_OFF .off = true
#define BRIEF(key) .brief = (key)
#define BATCHES .batches = true
#define DEFAULT(value) .standard = (value)
#define RANGE(least, most) .range = {least, most}
#define WORDS(...) \
	.words = (const char *const[]) \
	{ \
		__VA_ARGS__, NULL \
	}
#define RECORDED(name) .recorded = (name)
#define RESTART .restart = true

const struct setting settings[] = {
#define SETTING(name, which, where, changes, ...) \
	{.path = (name), \
	 .kind = SETTING_##which, \
	 .offset = (where), \
	 .change = SETTING_##changes, \
	 __VA_ARGS__},
#include "rules/config/settings.def"
#undef SETTING
	{0},
};

/* Enums are read and written as int, namespaces as two pointers, sets as bools in a row. */
_Static_assert(sizeof(enum rule_outlier) == sizeof(int), "");
_Static_assert(sizeof(enum rule_layout) == sizeof(int), "");
_Static_assert(sizeof(enum config_log_level) == sizeof(int), "");
_Static_assert(sizeof(enum config_client_cert) == sizeof(int), "");
_Static_assert(sizeof(enum config_tls_version) == sizeof(int), "");
_Static_assert(IN_RULE(collection) == IN_RULE(database) + sizeof(char *), "");
_Static_assert(IN_RULE(overflow.collection) == IN_RULE(overflow.database) + sizeof(char *), "");
_Static_assert(IN_RULE(expose.counters) == IN_RULE(expose.flag) + 1, "");
_Static_assert(IN_RULE(expose.reference) == IN_RULE(expose.flag) + 2, "");

const char *setting_key(const struct setting *setting)
{
	const char *dot = strrchr(setting->path, '.');

	return dot ? dot + 1 : setting->path;
}

static bool is_below(const struct setting *setting, const char *path)
{
	size_t length = strlen(path);

	return length == 0 ||
	       (strncmp(setting->path, path, length) == 0 && setting->path[length] == '.');
}

bool setting_is_in(const struct setting *setting, const char *path)
{
	size_t length = strlen(path);

	return is_below(setting, path) && !strchr(setting->path + length + (length > 0), '.');
}

const struct setting *setting_brief(const struct setting *section)
{
	for (const struct setting *inner = section + 1; section->brief && inner->path; inner++)
		if (setting_is_in(inner, section->path) &&
		    strcmp(setting_key(inner), section->brief) == 0)
			return inner;
	return NULL;
}

void settings_fill(const char *path, void *base)
{
	const struct setting *list = NULL; /* what is below one is kept in another struct */

	for (const struct setting *setting = settings; setting->path; setting++) {
		if (!is_below(setting, path) || (list && is_below(setting, list->path)))
			continue;
		if (setting->kind == SETTING_LIST)
			list = setting;
		else if (setting->standard != 0 && setting->kind == SETTING_CHOICE)
			*(int *)setting_at(setting, base) = (int)setting->standard;
		else if (setting->standard != 0)
			*(int64_t *)setting_at(setting, base) = setting->standard;
	}
}

/* ---- Numbers with units. */

struct unit {
	const char *name;
	int64_t factor;
};

/* The largest last; the empty name is what a number without a unit means. */
static const struct unit sizes[] = {{"", 1}, {"B", 1}, {"KB", KB}, {"MB", MB}, {"GB", GB}, {0}};
static const struct unit durations[] = {{"ms", 1}, {"s", SECOND}, {"m", 60000}, {"h", HOUR}, {0}};

static const struct unit *units_of(enum setting_kind kind)
{
	return kind == SETTING_SIZE ? sizes : durations;
}

/* A fraction of one, with six digits behind the point at most. */
static bool measure_share(const char *text, int64_t *number)
{
	size_t whole = strspn(text, "0123456789"), digits = 0;
	const char *point = text + whole;

	if (*point == '.')
		digits = strspn(point + 1, "0123456789");
	if (whole != 1 || digits > SHARE_DIGITS || point[digits + (*point == '.')] != '\0' ||
	    (*point == '.' && digits == 0))
		return false;
	*number = text[0] - '0';
	for (size_t i = 1; i <= SHARE_DIGITS; i++)
		*number = *number * 10 + (i <= digits ? point[i] - '0' : 0);
	return true;
}

must_check bool setting_measure(enum setting_kind kind, const char *text, int64_t *number)
{
	size_t digits = strspn(text, "0123456789");
	int64_t read = 0;

	if (kind == SETTING_SHARE)
		return measure_share(text, number);
	if (digits == 0)
		return false;
	for (size_t i = 0; i < digits; i++) {
		if (__builtin_mul_overflow(read, 10, &read) ||
		    __builtin_add_overflow(read, text[i] - '0', &read))
			read = INT64_MAX;
	}
	for (const struct unit *unit = units_of(kind); unit->name; unit++) {
		if (strcmp(text + digits, unit->name) != 0)
			continue;
		if (__builtin_mul_overflow(read, unit->factor, number))
			*number = INT64_MAX;
		return true;
	}
	return false;
}

/* Without zeros at its end. */
static const char *share_text(char *text, int64_t number)
{
	size_t length;

	snprintf(text, SETTING_TEXT_MAX, "%" PRId64 ".%06" PRId64, number / MILLION,
		 number % MILLION);
	for (length = strlen(text); text[length - 1] == '0'; length--)
		;
	text[length - (text[length - 1] == '.')] = '\0';
	return text;
}

const char *setting_measure_text(enum setting_kind kind, char *text, int64_t number)
{
	const struct unit *best = units_of(kind);

	if (kind == SETTING_SHARE)
		return share_text(text, number);
	if (kind == SETTING_DURATION && number == 0)
		return "0s"; /* and not 0h */
	for (const struct unit *unit = best; unit->name; unit++) {
		if (number % unit->factor == 0)
			best = unit;
	}
	snprintf(text, SETTING_TEXT_MAX, "%" PRId64 "%s", number / best->factor, best->name);
	return text;
}

/* ---- Values. */

/* A section is there if one of its texts or numbers is. */
static bool section_is_set(const struct setting *section, const void *base)
{
	bool set = false;

	for (const struct setting *inner = section + 1; inner->path; inner++)
		if (setting_is_in(inner, section->path) && inner->kind != SETTING_SWITCH &&
		    inner->kind != SETTING_VALUE)
			set |= setting_is_set(inner, base);
	return set;
}

bool setting_is_set(const struct setting *setting, const void *base)
{
	if (setting->batches && ((const struct rule *)base)->overflow.layout != RULE_BATCHES)
		return false;
	if (setting->kind == SETTING_SECTION && setting->offset == SETTING_NOWHERE)
		return section_is_set(setting, base);
	if (setting->offset == SETTING_NOWHERE)
		return false;
	if (setting->kind == SETTING_SECTION)
		return *(const bool *)setting_in(setting, base);
	if (setting->kind == SETTING_LIST)
		return ((const struct bytes *)setting_in(setting, base))->length > 0;
	if (setting->kind == SETTING_TEXTS)
		return *(char **const *)setting_in(setting, base);
	if (setting->kind == SETTING_TEXT || setting->kind == SETTING_FIELD)
		return *(char *const *)setting_in(setting, base);
	return true;
}

static const char *namespace_text(char *const *parts, struct buffer *scratch)
{
	text_append(scratch, "%s%s%s", parts[0] ? parts[0] : "", parts[0] ? "." : "", parts[1]);
	buffer_append(scratch, "", 1);
	return (const char *)scratch->data;
}

static const char *number_text(const struct setting *setting, int64_t number,
			       struct buffer *scratch)
{
	char *text;

	buffer_reserve(scratch, SETTING_TEXT_MAX);
	text = (char *)scratch->data;
	if (setting->off && number == 0)
		return "off";
	if (setting->kind != SETTING_COUNT)
		return setting_measure_text(setting->kind, text, number);
	snprintf(text, SETTING_TEXT_MAX, "%" PRId64, number);
	return text;
}

const char *setting_text(const struct setting *setting, const void *base, struct buffer *scratch)
{
	const void *at = setting_in(setting, base);

	switch (setting->kind) {
	case SETTING_TEXT:
	case SETTING_FIELD:
	case SETTING_ADDRESS:
		return *(char *const *)at ? *(char *const *)at : "off";
	case SETTING_NAMESPACE:
		return namespace_text(at, scratch);
	case SETTING_COUNT:
	case SETTING_SIZE:
	case SETTING_DURATION:
	case SETTING_SHARE:
		return number_text(setting, *(const int64_t *)at, scratch);
	case SETTING_CHOICE:
		return setting->words[*(const int *)at];
	case SETTING_SWITCH:
		return setting->words[*(const bool *)at];
	case SETTING_SECTION:
	case SETTING_LIST:
	case SETTING_TEXTS:
	case SETTING_SET:
	case SETTING_VALUE:
	case SETTING_KEYS:
		break;
	}
	require(!"a setting of one text, number or word");
	return NULL;
}
