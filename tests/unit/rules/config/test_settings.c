/* Tests rules/config/settings.c and settings.def: that the rows of the table fit each other, and
 * numbers with units. */
#include "tests/unit/unit.h"

#include "rules/config/settings.h"

static bool is_number(const struct setting *setting)
{
	return setting->kind == SETTING_COUNT || setting->kind == SETTING_SIZE ||
	       setting->kind == SETTING_DURATION || setting->kind == SETTING_SHARE;
}

static bool is_word(const struct setting *setting)
{
	return setting->kind == SETTING_CHOICE || setting->kind == SETTING_SWITCH ||
	       setting->kind == SETTING_SET;
}

static size_t count_words(const struct setting *setting)
{
	size_t count = 0;

	while (setting->words && setting->words[count])
		count++;
	return count;
}

Test(settings, a_default_is_within_the_bounds)
{
	for (const struct setting *setting = settings; setting->path; setting++) {
		cr_assert_eq(is_number(setting), setting->range.most > 0, "%s", setting->path);
		if (is_number(setting) && !setting->required &&
		    !(setting->off && setting->standard == 0))
			cr_assert(setting->standard >= setting->range.least &&
					  setting->standard <= setting->range.most,
				  "%s", setting->path);
	}
}

Test(settings, only_words_have_words)
{
	for (const struct setting *setting = settings; setting->path; setting++) {
		cr_assert_eq(is_word(setting), count_words(setting) > 0, "%s", setting->path);
		cr_assert(setting->kind != SETTING_SWITCH || count_words(setting) == 2, "%s",
			  setting->path);
		cr_assert(!is_word(setting) || setting->standard < (int64_t)count_words(setting),
			  "%s", setting->path);
	}
}

static bool is_section(const struct setting *setting)
{
	return setting->kind == SETTING_SECTION || setting->kind == SETTING_LIST;
}

static const struct setting *find(const char *path, size_t length)
{
	for (const struct setting *setting = settings; setting->path; setting++)
		if (strlen(setting->path) == length && strncmp(setting->path, path, length) == 0)
			return setting;
	return NULL;
}

Test(settings, each_stands_once_and_behind_its_section)
{
	for (const struct setting *setting = settings; setting->path; setting++) {
		const char *dot = strrchr(setting->path, '.');
		const struct setting *section =
			dot ? find(setting->path, (size_t)(dot - setting->path)) : NULL;

		cr_assert_eq(find(setting->path, strlen(setting->path)), setting, "%s",
			     setting->path);
		cr_assert(!dot || (section && section < setting && is_section(section)), "%s",
			  setting->path);
	}
}

/* A setting that must not change is in the layout of the record, or in its key. The `owner` is in
 * the layout by what it does to `total`. */
Test(settings, what_must_not_change_is_recorded)
{
	static const char *const otherwise[] = {"rules.namespace", "rules.array",
						"rules.counters.owner"};

	for (const struct setting *setting = settings; setting->path; setting++) {
		bool recorded = setting->recorded || setting->kind == SETTING_SECTION;

		for (size_t i = 0; i < ARRAY_LENGTH(otherwise); i++)
			recorded |= strcmp(setting->path, otherwise[i]) == 0;
		cr_assert(setting->change == SETTING_FREE || recorded, "%s", setting->path);
		cr_assert(setting->change != SETTING_FREE || !setting->recorded, "%s",
			  setting->path);
	}
}

Test(settings, sections_and_keys)
{
	const struct setting *size = find("rules.overflow.batch.size", 25);

	cr_assert_str_eq(setting_key(size), "size");
	cr_assert(setting_is_in(size, "rules.overflow.batch"));
	cr_assert_not(setting_is_in(size, "rules.overflow"));
	cr_assert_not(setting_is_in(size, "rules.over"));
	cr_assert(setting_is_in(find("admin", 5), ""));
	cr_assert_not(setting_is_in(size, ""));
}

Test(settings, numbers_with_units)
{
	char text[SETTING_TEXT_MAX];
	int64_t number;

	cr_assert(setting_measure(SETTING_SIZE, "3KB", &number));
	cr_assert_eq(number, 3 << 10);
	cr_assert(setting_measure(SETTING_SIZE, "7", &number));
	cr_assert_eq(number, 7);
	cr_assert(setting_measure(SETTING_SIZE, "99999999999999GB", &number));
	cr_assert_eq(number, INT64_MAX);
	cr_assert_not(setting_measure(SETTING_DURATION, "7", &number));
	cr_assert_not(setting_measure(SETTING_DURATION, "7KB", &number));
	cr_assert_not(setting_measure(SETTING_DURATION, "s", &number));
	cr_assert_str_eq(setting_measure_text(SETTING_SIZE, text, 1 << 20), "1MB");
	cr_assert_str_eq(setting_measure_text(SETTING_SIZE, text, 1000), "1000B");
	cr_assert_str_eq(setting_measure_text(SETTING_DURATION, text, 90000), "90s");
	cr_assert_str_eq(setting_measure_text(SETTING_DURATION, text, 0), "0s");
}
