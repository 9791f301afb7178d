/* Reads the section `overflow` of a rule: the collection's name, the layout, the indexes. */
#include "rules/config/overflow_section.h"

#include "protocol/writer.h"
#include "rules/config/rules_file.h"
#include "rules/config/rules_value.h"
#include "rules/rule/text.h"

#include <stdlib.h>

/* ---- The collection. */

/* What is wrong with a collection's name as the file gives it, or NULL. */
static const char *form_mistake(const char *form)
{
	const char *mark = strstr(form, RULE_COLLECTION_MARK);
	const char *dot = strchr(form, '.');
	size_t marked = mark ? strlen(RULE_COLLECTION_MARK) : 0;

	if (strchr(form, '*'))
		return "has a '*'; write " RULE_COLLECTION_MARK " where the main collection's name "
		       "must stand";
	if (mark && dot && mark < dot)
		return "has " RULE_COLLECTION_MARK " in the database's part";
	if (mark && strstr(mark + marked, RULE_COLLECTION_MARK))
		return "has " RULE_COLLECTION_MARK " twice";
	if (strcspn(form, "{}") < (mark ? (size_t)(mark - form) : strlen(form)) ||
	    (mark && strpbrk(mark + marked, "{}")))
		return "has braces; only " RULE_COLLECTION_MARK " is known";
	return NULL;
}

static void set_collection(struct rule *rule, const char *form)
{
	if (strchr(form, '.'))
		rules_file_split(form, &rule->overflow.database, &rule->overflow.collection);
	else
		rule->overflow.collection = must_strndup(form, strlen(form));
}

/* The database's name only matters where the overflow collection has one of its own. */
static const char *overflow_mistake(const struct rule *rule)
{
	const char *database = rule->overflow.database ? rule->overflow.database : "any";

	return rules_file_namespace_mistake(database, rule->overflow.collection);
}

/* The array's name may have characters that mean something else in a collection's. */
static void default_collection(const struct section *section, struct rule *rule, struct place at)
{
	auto_buffer struct buffer name = {0};
	auto_free char *path = NULL;
	const char *mistake;

	if (!rule->array)
		return;
	path = rules_file_replaced(rule->array, '.', '_');
	text_append(&name, "%s_%s_overflow", RULE_COLLECTION_MARK, path);
	rule->overflow.collection = text_steal(&name);
	mistake = form_mistake(rule->overflow.collection);
	if (mistake)
		problem_add(section->problems, at,
			    "'collection' has to be given: '%s', which it is called without, %s",
			    text_quote(bytes_of(rule->overflow.collection)).text, mistake);
}

static void read_collection(const struct section *section, struct rule *rule)
{
	struct place at = section_place(section, "collection");
	auto_free char *form = NULL;
	const char *mistake;

	if (!section_find(section, "collection"))
		default_collection(section, rule, at);
	section_text(section, "collection", &form);
	if (!form)
		return;
	mistake = form_mistake(form);
	if (!mistake) {
		set_collection(rule, form);
		mistake = overflow_mistake(rule);
	}
	if (mistake)
		problem_add(section->problems, at, "'collection' '%s' %s",
			    text_quote(bytes_of(form)).text, mistake);
}

/* What only batches have. */
static void read_batches(const struct section *section, struct rule *rule)
{
	bool batches = rule->overflow.layout == RULE_BATCHES;

	for (const struct setting *setting = settings; setting->path; setting++) {
		const char *key = setting_key(setting);

		if (!setting->batches)
			continue;
		if (batches)
			section_read_setting(section, setting, rule);
		else if (section_find(section, key))
			problem_add(section->problems, section_place(section, key),
				    "'%s' goes with 'layout: batches'", key);
	}
	if (batches)
		return;
	rule->overflow.batch_size = 1;
	rule->overflow.batch_max_bytes = 0;
}

/* ---- Indexes. */

#define INDEX_FIELDS_MAX 32 /* mongod's limit */

static const char *index_key_mistake(const struct yaml_node *keys, const struct yaml_node *key)
{
	if (key->text.length == 0 || memchr(key->text.data, '\0', key->text.length))
		return "is no field's name";
	if (key->text.data[0] == '$')
		return "begins with '$'";
	if (key->text.data[0] == '.' || key->text.data[key->text.length - 1] == '.' ||
	    memmem(key->text.data, key->text.length, "..", 2))
		return "has an empty part";
	for (const struct yaml_node *before = keys->first; before != key;
	     before = before->next->next) {
		if (bytes_equal(before->text, key->text))
			return "stands here a second time";
	}
	return NULL;
}

/* 1, -1 or the name of a special kind of index. */
static bool write_index_kind(struct buffer *out, const struct yaml_node *key)
{
	static const char *const kinds[] = {"text", "2d", "2dsphere", "hashed"};
	const char *name = (const char *)key->text.data;
	const struct yaml_node *kind = key->next;
	int64_t direction;

	if (rules_value_integer(kind, &direction) && (direction == 1 || direction == -1)) {
		writer_int32(out, name, (int32_t)direction);
		return true;
	}
	for (size_t i = 0; kind->kind == YAML_SCALAR && i < ARRAY_LENGTH(kinds); i++) {
		if (bytes_are(kind->text, kinds[i])) {
			writer_string(out, name, kinds[i]);
			return true;
		}
	}
	return false;
}

/* mongod would refuse each batch: such an index holds no arrays. */
static bool hashes_array(const struct yaml_node *key, const char *array)
{
	size_t length = array ? strlen(array) : 0;

	return array && key->next->kind == YAML_SCALAR && bytes_are(key->next->text, "hashed") &&
	       bytes_begin_with(key->text, array) &&
	       (key->text.length == length || key->text.data[length] == '.');
}

/* `array`: what the overflow's array is called, or NULL. */
static void write_index_keys(struct problems *problems, const struct yaml_node *keys,
			     const char *array, struct buffer *out)
{
	if (keys->kind != YAML_MAPPING || keys->count == 0 || keys->count > 2 * INDEX_FIELDS_MAX) {
		problem_add(problems, keys->at,
			    "'keys' must be 1 to %d fields, each with the kind of its index",
			    INDEX_FIELDS_MAX);
		return;
	}
	for (const struct yaml_node *key = keys->first; key; key = key->next->next) {
		const char *mistake = index_key_mistake(keys, key);

		if (mistake)
			problem_add(problems, key->at, "the index's field '%s' %s",
				    text_quote(key->text).text, mistake);
		else if (hashes_array(key, array))
			problem_add(problems, key->next->at,
				    "the index's field '%s' can't be hashed: it is the overflow's "
				    "array, which such an index can't hold",
				    text_quote(key->text).text);
		else if (!write_index_kind(out, key))
			problem_add(problems, key->next->at,
				    "the index's field '%s' must be 1, -1, text, 2d, 2dsphere or "
				    "hashed",
				    text_quote(key->text).text);
	}
}

static void write_index(struct problems *problems, const struct yaml_node *node, const char *array,
			struct buffer *out, size_t index)
{
	const struct yaml_node *keys;
	struct section section;
	size_t start, keys_start;
	char name[12];

	if (!section_open(&section, problems, node, "rules.overflow.indexes"))
		return;
	keys = section_require(&section, "keys");
	if (!keys)
		return;
	start = writer_open_document(out, writer_index(name, index));
	keys_start = writer_open_document(out, "keys");
	write_index_keys(problems, keys, array, out);
	writer_close(out, keys_start);
	writer_close(out, start);
}

static void read_indexes(const struct section *section, struct rule *rule)
{
	const struct yaml_node *list = section_list(section, "indexes");
	auto_buffer struct buffer out = {0};
	size_t start, index = 0;

	if (!list || list->count == 0)
		return;
	start = writer_open(&out);
	for (const struct yaml_node *item = list->first; item; item = item->next)
		write_index(section->problems, item, rule->overflow.array, &out, index++);
	writer_close(&out, start);
	rule->overflow.indexes.length = out.length;
	rule->overflow.indexes.data = buffer_steal(&out).data;
}

/* No two of an overflow document's fields may be one. */
static void check_fields(const struct section *section, const struct rule *rule)
{
	const struct {
		const char *key;
		const char *field;
	} fields[] = {{"link", rule->overflow.link},
		      {"array", rule->overflow.array},
		      {"created", rule->overflow.created},
		      {"batch", rule->overflow.batch_field}};

	for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
		for (size_t j = 0; j < i; j++) {
			if (fields[i].field && fields[j].field &&
			    strcmp(fields[i].field, fields[j].field) == 0)
				problem_add(
					section->problems, section_place(section, fields[i].key),
					"'%s' and '%s' are the same field, '%s'", fields[j].key,
					fields[i].key, text_quote(bytes_of(fields[i].field)).text);
		}
	}
}

void overflow_section_read(const struct section *section, struct rule *rule)
{
	struct section overflow = section_inner(section, "overflow");

	if (!overflow.node)
		return;
	read_collection(&overflow, rule);
	read_batches(&overflow, rule);
	read_indexes(&overflow, rule);
	check_fields(&overflow, rule);
}
