/* What a changed configuration file changes. */
#include "rules/config/config_change.h"

#include "rules/config/uri.h"
#include "rules/rule/text.h"

#include <stdlib.h>

static void add(struct config_changes *changes, struct config_change change)
{
	changes->list = must_realloc(changes->list, (changes->count + 1) * sizeof(*changes->list));
	changes->list[changes->count++] = change;
}

/* NULL where it is not set. */
static char *value_of(const struct setting *setting, const void *base)
{
	auto_buffer struct buffer text = {0};

	if (!setting_is_set(setting, base))
		return NULL;
	if (setting->kind == SETTING_SECTION)
		return must_strndup("on", 2);
	config_print_value(&text, setting, base);
	return text_steal(&text);
}

static bool same(const char *one, const char *other)
{
	return one && other ? strcmp(one, other) == 0 : one == other;
}

static bool differs(const struct setting *setting, const void *one, const void *other)
{
	auto_free char *before = value_of(setting, one), *after = value_of(setting, other);

	return !same(before, after);
}

/* `entry` stands for what is between the list's name and the setting's: `.sales`; or "". */
static char *name_of(const struct setting *setting, const char *list, const char *entry)
{
	auto_buffer struct buffer text = {0};

	text_append(&text, "%s%s%s", list, entry, setting->path + strlen(list));
	return text_steal(&text);
}

struct pair {
	const void *before, *after;
	const char *list;  /* "listen", "rules" or "" */
	const char *entry; /* as name_of wants it */
};

static void compare_setting(struct config_changes *changes, const struct setting *setting,
			    const struct pair *pair)
{
	struct config_change change = {.setting = setting};

	change.before = value_of(setting, pair->before);
	change.after = value_of(setting, pair->after);
	if (same(change.before, change.after)) {
		free(change.before);
		free(change.after);
		return;
	}
	change.name = name_of(setting, pair->list, pair->entry);
	add(changes, change);
}

static bool is_in_list(const struct setting *setting)
{
	return strncmp(setting->path, "listen.", 7) == 0 ||
	       strncmp(setting->path, "rules.", 6) == 0;
}

static bool stands_in(const struct setting *setting, const char *list)
{
	size_t length = strlen(list);

	if (length == 0)
		return !is_in_list(setting);
	return strncmp(setting->path, list, length) == 0 && setting->path[length] == '.';
}

static bool has_value(const struct setting *setting)
{
	return setting->offset != SETTING_NOWHERE;
}

static void compare_settings(struct config_changes *changes, const struct pair *pair)
{
	for (const struct setting *setting = settings; setting->path; setting++)
		if (stands_in(setting, pair->list) && has_value(setting) &&
		    strcmp(setting->path, "upstream.uri") != 0)
			compare_setting(changes, setting, pair);
}

static const struct setting *setting_named(const char *path)
{
	const struct setting *setting = settings;

	while (strcmp(setting->path, path) != 0)
		setting++;
	return setting;
}

/* A password is no text to be shown, be it another one. */
static void compare_account(struct config_changes *changes, const struct config *before,
			    const struct config *after)
{
	if (strcmp(before->upstream_uri, after->upstream_uri) == 0)
		return;
	add(changes, (struct config_change){.setting = setting_named("upstream.uri"),
					    .name = must_strndup("upstream.uri", 12),
					    .before = uri_masked(before->upstream_uri),
					    .after = uri_masked(after->upstream_uri)});
}

static char *copy(const char *text)
{
	return text ? must_strndup(text, strlen(text)) : NULL;
}

static void add_entry(struct config_changes *changes, const char *list, const char *before,
		      const char *after)
{
	add(changes, (struct config_change){.setting = setting_named(list),
					    .name = copy(list),
					    .before = copy(before),
					    .after = copy(after)});
}

static void compare_entry(struct config_changes *changes, const char *list, const char *name,
			  const void *before, const void *after)
{
	auto_buffer struct buffer entry = {0};

	text_append(&entry, ".%s", name);
	buffer_append(&entry, "", 1);
	compare_settings(changes, &(struct pair){before, after, list, (const char *)entry.data});
}

static const struct config_listen *listener_at(const struct config *config, const char *address)
{
	for (size_t i = 0; i < config->listen_count; i++)
		if (config->listen[i].open && strcmp(config->listen[i].address, address) == 0)
			return &config->listen[i];
	return NULL;
}

static void compare_listeners(struct config_changes *changes, const struct config *before,
			      const struct config *after)
{
	for (size_t i = 0; i < before->listen_count; i++) {
		const struct config_listen *listener = &before->listen[i];
		const struct config_listen *other;

		if (!listener->open)
			continue;
		other = listener_at(after, listener->address);
		if (other)
			compare_entry(changes, "listen", listener->address, listener, other);
		else
			add_entry(changes, "listen", listener->address, NULL);
	}
	for (size_t i = 0; i < after->listen_count; i++)
		if (!listener_at(before, after->listen[i].address))
			add_entry(changes, "listen", NULL, after->listen[i].address);
}

static const struct rule *rule_named(const struct rule_set *rules, const char *name)
{
	for (size_t i = 0; i < rule_set_count(rules); i++)
		if (strcmp(rule_set_at(rules, i)->name, name) == 0)
			return rule_set_at(rules, i);
	return NULL;
}

static void compare_rules(struct config_changes *changes, const struct rule_set *before,
			  const struct rule_set *after)
{
	for (size_t i = 0; i < rule_set_count(before); i++) {
		const struct rule *rule = rule_set_at(before, i);
		const struct rule *other = rule_named(after, rule->name);

		if (other)
			compare_entry(changes, "rules", rule->name, rule, other);
		else
			add_entry(changes, "rules", rule->name, NULL);
	}
	for (size_t i = 0; i < rule_set_count(after); i++)
		if (!rule_named(before, rule_set_at(after, i)->name))
			add_entry(changes, "rules", NULL, rule_set_at(after, i)->name);
}

void config_compare(const struct config *before, const struct config *after,
		    struct config_changes *changes)
{
	/* Of a replica set, listeners follow from other settings. */
	if (!before->replica_set.on && !after->replica_set.on)
		compare_listeners(changes, before, after);
	compare_account(changes, before, after);
	compare_settings(changes, &(struct pair){before, after, "", ""});
	compare_rules(changes, before->rules, after->rules);
}

void config_changes_fini(struct config_changes *changes)
{
	for (size_t i = 0; i < changes->count; i++) {
		free(changes->list[i].name);
		free(changes->list[i].before);
		free(changes->list[i].after);
	}
	free(changes->list);
	*changes = (struct config_changes){0};
}

bool config_listen_equals(const struct config_listen *one, const struct config_listen *other)
{
	for (const struct setting *setting = settings; setting->path; setting++)
		if (stands_in(setting, "listen") && has_value(setting) &&
		    differs(setting, one, other))
			return false;
	return true;
}

static bool rules_agree(const struct rule *one, const struct rule *other, bool all)
{
	for (const struct setting *setting = settings; setting->path; setting++)
		if (stands_in(setting, "rules") && has_value(setting) &&
		    strcmp(setting->path, "rules.name") != 0 &&
		    (all || setting->change == SETTING_UNDO) && differs(setting, one, other))
			return false;
	return true;
}

bool config_rule_finds(const struct rule *one, const struct rule *other)
{
	return rules_agree(one, other, false);
}

bool config_rule_equals(const struct rule *one, const struct rule *other)
{
	return rules_agree(one, other, true);
}
