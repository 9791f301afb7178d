/* Reads the rules of the configuration file and fills their defaults in. */
#include "rules/config/rules_file.h"

#include "protocol/writer.h"
#include "rules/rule/own_fields.h"
#include "rules/config/rules_value.h"
#include "rules/config/setting.h"
#include "rules/rule/text.h"

#include <stdlib.h>

#define MINUTE ((int64_t)60 * 1000)
#define HOUR (60 * MINUTE)
#define KILOBYTE ((int64_t)1024)
#define MEGABYTE (1024 * KILOBYTE)

#define DATABASE_MAX 63 /* mongod's limit */

/* ---- Namespaces. */

/* What is wrong with a namespace, or NULL. */
static const char *namespace_mistake(const char *database, const char *collection)
{
	if (*database == '\0' || *collection == '\0')
		return "has an empty part";
	if (strpbrk(database, "/\\ \"$") || strchr(collection, '$'))
		return "has a character that such names cannot have";
	if (rule_spares_database(bytes_of(database)))
		return "is in a database of the server's or of Spillway's own";
	if (rule_spares_collection(bytes_of(collection)))
		return "is one of the server's own collections";
	if (strlen(database) > DATABASE_MAX ||
	    strlen(database) + 1 + strlen(collection) > RULE_NAMESPACE_MAX)
		return "is longer than the server allows";
	return NULL;
}

/* Splits at the first dot. */
static void split(const char *text, char **database, char **collection)
{
	const char *dot = strchr(text, '.');

	*database = must_strndup(text, (size_t)(dot - text));
	*collection = must_strndup(dot + 1, strlen(dot + 1));
}

static void read_namespace(struct section *section, struct rule_draft *draft)
{
	auto_free char *text = NULL;
	struct rule *rule = &draft->rule;
	const char *mistake;

	draft->namespace = section_place(section, "namespace");
	if (!section_require(section, "namespace"))
		return;
	setting_text(section, "namespace", &text);
	if (!text)
		return;
	if (!strchr(text, '.')) {
		problem_add(section->problems, draft->namespace,
			    "'namespace' must be database.collection, not '%s'",
			    text_quote(bytes_of(text)).text);
		return;
	}
	split(text, &rule->database, &rule->collection);
	mistake = namespace_mistake(rule->database, rule->collection);
	if (mistake)
		problem_add(section->problems, draft->namespace, "'namespace' '%s' %s",
			    text_quote(bytes_of(text)).text, mistake);
}

/* ---- The array's path. */

static const char *part_mistake(struct bytes part, bool first)
{
	size_t digits = 0;

	while (digits < part.length && part.data[digits] >= '0' && part.data[digits] <= '9')
		digits++;
	if (part.length == 0)
		return "has an empty part";
	if (memchr(part.data, '$', part.length))
		return "has a '$' in it; a path through documents is needed";
	if (digits == part.length)
		return "has a number as a part: a path through an array cannot be ruled";
	if (first && bytes_are(part, "_id"))
		return "is in '_id', which cannot change";
	if (first && bytes_are(part, "_spill"))
		return "is in '_spill', which is Spillway's own";
	return NULL;
}

static const char *path_mistake(const char *path)
{
	const char *mistake = NULL;

	for (const char *part = path; !mistake; part++) {
		size_t length = strcspn(part, ".");

		mistake = part_mistake((struct bytes){(const uint8_t *)part, length}, part == path);
		part += length;
		if (*part == '\0')
			break;
	}
	return mistake;
}

static char *replaced(const char *text, char from, char to)
{
	char *copy = must_strndup(text, strlen(text));

	for (char *at = copy; *at; at++) {
		if (*at == from)
			*at = to;
	}
	return copy;
}

static void read_array(struct section *section, struct rule_draft *draft)
{
	struct rule *rule = &draft->rule;
	const char *mistake;

	draft->array = section_place(section, "array");
	if (!section_require(section, "array"))
		return;
	setting_text(section, "array", &rule->array);
	if (!rule->array)
		return;
	rule->key = replaced(rule->array, '.', '/');
	mistake = path_mistake(rule->array);
	if (mistake)
		problem_add(section->problems, draft->array, "'array' '%s' %s",
			    text_quote(bytes_of(rule->array)).text, mistake);
	else if (strlen(rule->array) > RULE_ARRAY_MAX)
		problem_add(section->problems, draft->array,
			    "'array' is a path of %zu bytes, %d are the most", strlen(rule->array),
			    RULE_ARRAY_MAX);
}

/* ---- When an array spills. */

static void read_bounds(struct section *section, struct rule *rule)
{
	static const char *const outliers[] = {"keep", "empty", NULL};
	static const char *const accesses[] = {"full", "read-only", NULL};
	static const char *const streams[] = {"refuse", "as_stored", NULL};

	rule->max_bytes = MEGABYTE;
	rule->settle_ms = 1000;
	rule->gather = 100;
	rule->quiet_ms = 1000;
	rule->gc_delay_ms = MINUTE;
	rule->sweep_ms = HOUR;
	if (section_require(section, "threshold"))
		setting_count(section, "threshold", (struct range){0, 1000000000},
			      &rule->threshold);
	setting_size(section, "max_bytes", (struct range){1, 15 * MEGABYTE}, &rule->max_bytes);
	if (setting_choice(section, "when_outlier", outliers) == 1)
		rule->when_outlier = RULE_EMPTY;
	setting_duration(section, "settle", (struct range){0, HOUR}, &rule->settle_ms);
	setting_count(section, "gather", (struct range){1, 1000000}, &rule->gather);
	setting_duration(section, "quiet", (struct range){0, HOUR}, &rule->quiet_ms);
	setting_duration(section, "gc_delay", (struct range){0, 24 * HOUR}, &rule->gc_delay_ms);
	if (setting_is_off(section, "sweep"))
		rule->sweep_ms = 0;
	else
		setting_duration(section, "sweep", (struct range){1, 720 * HOUR}, &rule->sweep_ms);
	rule->read_only = setting_choice(section, "access", accesses) == 1;
	rule->streams_as_stored = setting_choice(section, "change_streams", streams) == 1;
}

/* ---- The flag, counters, reference, and what of them clients see. */

static bool values_equal(const struct rule_value *one, const struct rule_value *other)
{
	return one->type == other->type && bytes_equal(one->value, other->value);
}

/* `absent` without quotes is a value of its own: no field at all. */
static void read_flag_value(struct section *section, const char *key, bool absent_allowed,
			    struct rule_value *value)
{
	const struct yaml_node *node = section_find(section, key);
	bool absent =
		node && node->kind == YAML_SCALAR && node->plain && bytes_are(node->text, "absent");

	if (!node || (absent && absent_allowed))
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

static void read_flag(struct section *section, struct rule_draft *draft)
{
	static const char *const keys[] = {"field", "value", "otherwise", NULL};
	const struct yaml_node *node = section_find(section, "flag");
	struct rule *rule = &draft->rule;
	struct section flag;

	if (!node || !section_open(&flag, section->problems, node, keys))
		return;
	draft->flag = section_place(&flag, "field");
	if (section_require(&flag, "field"))
		setting_field(&flag, "field", &rule->flag.field);
	if (section_require(&flag, "value"))
		read_flag_value(&flag, "value", false, &rule->flag.value);
	read_flag_value(&flag, "otherwise", true, &rule->flag.otherwise);
	if (rule->flag.value.type && values_equal(&rule->flag.value, &rule->flag.otherwise))
		problem_add(section->problems, section_place(&flag, "otherwise"),
			    "'otherwise' must differ from 'value', or the flag tells nothing");
}

static void read_counters(struct section *section, struct rule_draft *draft)
{
	static const char *const keys[] = {"total", "documents", "owner", NULL};
	static const char *const owners[] = {"spillway", "app", NULL};
	const struct yaml_node *node = section_find(section, "counters");
	struct rule *rule = &draft->rule;
	struct section counters;

	if (!node || !section_open(&counters, section->problems, node, keys))
		return;
	draft->total = section_place(&counters, "total");
	draft->documents = section_place(&counters, "documents");
	setting_field(&counters, "total", &rule->counters.total);
	setting_field(&counters, "documents", &rule->counters.documents);
	rule->counters.owned_by_app = setting_choice(&counters, "owner", owners) == 1;
	if (!section_find(&counters, "total") && !section_find(&counters, "documents"))
		problem_add(section->problems, node->at,
			    "'counters' must name 'total', 'documents' or both");
	else if (rule->counters.owned_by_app && !section_find(&counters, "total"))
		problem_add(section->problems, section_place(&counters, "owner"),
			    "'owner' says who keeps 'total', which is missing here");
}

static bool is_format(const char *format)
{
	const char *mark = strstr(format, RULE_ID_MARK);

	return mark && strcspn(format, "{}") == (size_t)(mark - format) &&
	       !strpbrk(mark + strlen(RULE_ID_MARK), "{}");
}

static void read_reference(struct section *section, struct rule_draft *draft)
{
	static const char *const keys[] = {"field", "format", NULL};
	const struct yaml_node *node = section_find(section, "reference");
	struct rule *rule = &draft->rule;
	struct section reference;

	if (!node || !section_open(&reference, section->problems, node, keys))
		return;
	draft->reference = section_place(&reference, "field");
	if (section_require(&reference, "field"))
		setting_field(&reference, "field", &rule->reference.field);
	if (section_require(&reference, "format"))
		setting_text(&reference, "format", &rule->reference.format);
	if (rule->reference.format && !is_format(rule->reference.format))
		problem_add(section->problems, section_place(&reference, "format"),
			    "'format' must hold " RULE_ID_MARK " once, and no other braces, not "
			    "'%s'",
			    text_quote(bytes_of(rule->reference.format)).text);
}

static void read_exposed(struct section *section, const struct yaml_node *item, struct rule *rule)
{
	static const char *const names[] = {"flag", "counters", "reference", NULL};
	static const char *const words = "'flag', 'counters' or 'reference'";
	bool scalar = item->kind == YAML_SCALAR;

	for (size_t i = 0; scalar && names[i]; i++) {
		if (!bytes_are(item->text, names[i]))
			continue;
		if (!section_find(section, names[i]))
			problem_add(section->problems, item->at,
				    "'expose' names '%s', which the rule does not have", names[i]);
		rule->expose.flag |= i == 0;
		rule->expose.counters |= i == 1;
		rule->expose.reference |= i == 2;
		return;
	}
	problem_add(section->problems, item->at, "'expose' must name %s%s%s%s", words,
		    scalar ? ", not '" : "", scalar ? text_quote(item->text).text : "",
		    scalar ? "'" : "");
}

static void read_expose(struct section *section, struct rule *rule)
{
	const struct yaml_node *list = section_list(section, "expose");

	for (const struct yaml_node *item = list ? list->first : NULL; item; item = item->next)
		read_exposed(section, item, rule);
}

/* ---- The overflow collection. */

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
		split(form, &rule->overflow.database, &rule->overflow.collection);
	else
		rule->overflow.collection = must_strndup(form, strlen(form));
}

/* The database's name only matters where the overflow collection has one of its own. */
static const char *overflow_mistake(const struct rule *rule)
{
	const char *database = rule->overflow.database ? rule->overflow.database : "any";

	return namespace_mistake(database, rule->overflow.collection);
}

/* The array's name may have characters that mean something else in a collection's. */
static void default_collection(struct section *section, struct rule *rule, struct place at)
{
	auto_buffer struct buffer name = {0};
	auto_free char *path = NULL;
	const char *mistake;

	if (!rule->array)
		return;
	path = replaced(rule->array, '.', '_');
	text_append(&name, "%s_%s_overflow", RULE_COLLECTION_MARK, path);
	rule->overflow.collection = text_steal(&name);
	mistake = form_mistake(rule->overflow.collection);
	if (mistake)
		problem_add(section->problems, at,
			    "'collection' has to be given: '%s', which it is called without, %s",
			    text_quote(bytes_of(rule->overflow.collection)).text, mistake);
}

static void read_collection(struct section *section, struct rule_draft *draft)
{
	auto_free char *form = NULL;
	struct rule *rule = &draft->rule;
	const char *mistake;

	draft->overflow = section_place(section, "collection");
	if (!section_find(section, "collection"))
		default_collection(section, rule, draft->overflow);
	setting_text(section, "collection", &form);
	if (!form)
		return;
	mistake = form_mistake(form);
	if (!mistake) {
		set_collection(rule, form);
		mistake = overflow_mistake(rule);
	}
	if (mistake)
		problem_add(section->problems, draft->overflow, "'collection' '%s' %s",
			    text_quote(bytes_of(form)).text, mistake);
}

static void read_layout(struct section *section, struct rule *rule)
{
	static const char *const layouts[] = {"batches", "elements", NULL};

	if (setting_choice(section, "layout", layouts) != 1)
		return;
	rule->overflow.layout = RULE_ELEMENTS;
}

/* What only batches have. */
static void refuse_batches(struct section *section, struct rule *rule)
{
	static const char *const keys[] = {"array", "batch"};

	for (size_t i = 0; i < ARRAY_LENGTH(keys); i++)
		if (section_find(section, keys[i]))
			problem_add(section->problems, section_place(section, keys[i]),
				    "'%s' goes with 'layout: batches'", keys[i]);
	rule->overflow.batch_size = 1;
}

static void read_batch(struct section *section, struct rule *rule)
{
	static const char *const keys[] = {"field", "size", "max_bytes", NULL};
	const struct yaml_node *node = section_find(section, "batch");
	struct section batch;

	rule->overflow.batch_size = 1000;
	rule->overflow.batch_max_bytes = 256 * KILOBYTE;
	if (!node || !section_open(&batch, section->problems, node, keys))
		return;
	setting_field(&batch, "field", &rule->overflow.batch_field);
	setting_count(&batch, "size", (struct range){1, 100000}, &rule->overflow.batch_size);
	setting_size(&batch, "max_bytes", (struct range){1, 8 * MEGABYTE},
		     &rule->overflow.batch_max_bytes);
}

static void read_batches(struct section *section, struct rule *rule)
{
	if (section_require(section, "array"))
		setting_field(section, "array", &rule->overflow.array);
	read_batch(section, rule);
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
		problem_add(problems, keys->at, "'keys' must be 1 to %d fields with 1 or -1",
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
	static const char *const names[] = {"keys", NULL};
	const struct yaml_node *keys;
	struct section section;
	size_t start, keys_start;
	char name[12];

	if (!section_open(&section, problems, node, names))
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

static void read_indexes(struct section *section, struct rule *rule)
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
static void check_fields(struct section *section, const struct rule *rule)
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

static void read_overflow(struct section *section, struct rule_draft *draft)
{
	static const char *const keys[] = {"collection", "layout",  "link",    "array",
					   "batch",      "created", "indexes", NULL};
	const struct yaml_node *node = section_require(section, "overflow");
	struct rule *rule = &draft->rule;
	struct section overflow;

	if (!node || !section_open(&overflow, section->problems, node, keys))
		return;
	read_collection(&overflow, draft);
	read_layout(&overflow, rule);
	if (section_require(&overflow, "link"))
		setting_field(&overflow, "link", &rule->overflow.link);
	if (rule->overflow.layout == RULE_BATCHES)
		read_batches(&overflow, rule);
	else
		refuse_batches(&overflow, rule);
	setting_field(&overflow, "created", &rule->overflow.created);
	read_indexes(&overflow, rule);
	check_fields(&overflow, rule);
}

/* ---- A rule, and all of them. */

#define RULE_NAME_MAX 64

static void read_name(struct section *section, struct rule_draft *draft)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	struct rule *rule = &draft->rule;

	draft->name = section_place(section, "name");
	if (!section_require(section, "name"))
		return;
	setting_text(section, "name", &rule->name);
	if (!rule->name)
		return;
	if (strspn(rule->name, allowed) < strlen(rule->name) || strlen(rule->name) > RULE_NAME_MAX)
		problem_add(section->problems, draft->name,
			    "'name' must be up to %d letters, digits, '.', '_' and '-', not '%s'",
			    RULE_NAME_MAX, text_quote(bytes_of(rule->name)).text);
}

static void read_rule(struct rule_draft *draft, const struct yaml_node *node,
		      struct problems *problems)
{
	static const char *const keys[] = {"name",         "namespace",      "array",  "threshold",
					   "max_bytes",    "settle",         "gather", "quiet",
					   "when_outlier", "gc_delay",       "sweep",  "flag",
					   "counters",     "reference",      "expose", "overflow",
					   "access",       "change_streams", NULL};
	struct section section;

	draft->at = node->at;
	if (!section_open(&section, problems, node, keys))
		return;
	read_name(&section, draft);
	read_namespace(&section, draft);
	read_array(&section, draft);
	read_bounds(&section, &draft->rule);
	read_flag(&section, draft);
	read_counters(&section, draft);
	read_reference(&section, draft);
	read_expose(&section, &draft->rule);
	read_overflow(&section, draft);
}

static struct rule_set *set_of(struct rule_draft *drafts, size_t count)
{
	struct rule *rules = must_calloc(count, sizeof(*rules));

	for (size_t i = 0; i < count; i++)
		rules[i] = drafts[i].rule;
	return rule_set_new(rules, count);
}

struct rule_set *rules_file_read(const struct yaml_node *list, struct problems *problems)
{
	auto_free struct rule_draft *drafts = must_calloc(list->count, sizeof(*drafts));
	size_t count = 0;

	for (const struct yaml_node *item = list->first; item; item = item->next)
		read_rule(&drafts[count++], item, problems);
	rules_check(drafts, count, problems);
	if (problems->count == 0)
		return set_of(drafts, count);
	for (size_t i = 0; i < count; i++)
		rule_fini(&drafts[i].rule);
	return NULL;
}
