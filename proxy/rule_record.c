/* What a collection's documents were spilled under. */
#include "proxy/rule_record.h"

#include "proxy/log.h"
#include "proxy/mover_command.h"
#include "proxy/neighbours.h"
#include "proxy/referrers.h"
#include "rules/own_fields.h"
#include "rules/rule_write.h"
#include "rules/text.h"

#include <bson/bson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#define FORMAT 1

static void write_namespace(struct buffer *out, const char *name, const char *database,
			    const char *collection)
{
	auto_free char *text = bson_strdup_printf("%s.%s", database, collection);

	writer_string(out, name, text);
}

static void write_key(struct buffer *out, const struct mover_target *target)
{
	size_t key = writer_open_document(out, "_id");

	write_namespace(out, "namespace", target->database, target->collection);
	writer_string(out, "array", target->rule->array);
	writer_close(out, key);
}

static void write_layout(struct buffer *out, const struct mover_target *target)
{
	static const char *const keys[OWN_FIELDS] = {[OWN_FLAG] = "flag",
						     [OWN_TOTAL] = "total",
						     [OWN_DOCUMENTS] = "documents",
						     [OWN_REFERENCE] = "reference"};
	const struct rule *rule = target->rule;
	size_t layout = writer_open_document(out, "layout");

	write_namespace(out, "overflow", target->overflow_database, target->overflow_collection);
	writer_string(out, "kind", rule->overflow.layout == RULE_BATCHES ? "batches" : "elements");
	writer_string(out, "link", rule->overflow.link);
	if (rule->overflow.array)
		writer_string(out, "array", rule->overflow.array);
	if (rule->overflow.batch_field)
		writer_string(out, "batch", rule->overflow.batch_field);
	for (enum own_field field = OWN_FLAG; field < OWN_FIELDS; field++)
		if (own_field_name(rule, field))
			writer_string(out, keys[field], own_field_name(rule, field));
	if (rule->reference.format)
		writer_string(out, "format", rule->reference.format);
	writer_close(out, layout);
}

static void write_limits(struct buffer *out, const struct rule *rule)
{
	size_t limits = writer_open_document(out, "limits");

	writer_int64(out, "threshold", rule->threshold);
	writer_int64(out, "max_bytes", rule->max_bytes);
	writer_string(out, "when_outlier", rule->when_outlier == RULE_KEEP ? "keep" : "empty");
	writer_int64(out, "size", rule->overflow.batch_size);
	writer_int64(out, "batch_bytes", rule->overflow.batch_max_bytes);
	writer_close(out, limits);
}

static void write_resolved(struct buffer *out, const struct rule *rule)
{
	size_t resolved = writer_open_document(out, "resolved");

	rule_write(out, rule);
	writer_close(out, resolved);
}

static void write_hash(struct buffer *out, const struct mover_target *target)
{
	static const char digits[] = "0123456789abcdef";
	const struct rule *rule = target->rule;
	auto_buffer struct buffer stored = {0};
	size_t start = writer_open(&stored);
	uint8_t hash[EVP_MAX_MD_SIZE];
	char text[2 * sizeof(hash) + 1] = "";
	unsigned length;

	write_layout(&stored, target);
	write_limits(&stored, rule);
	rule_write_own_fields(&stored, rule);
	if (rule->overflow.created)
		writer_string(&stored, "created", rule->overflow.created);
	writer_close(&stored, start);
	require(EVP_Digest(stored.data, stored.length, hash, &length, EVP_sha256(), NULL) == 1);
	for (size_t i = 0; i < length; i++) {
		text[2 * i] = digits[hash[i] >> 4];
		text[2 * i + 1] = digits[hash[i] & 15];
	}
	writer_string(out, "hash", text);
}

/* All that a record says of the rule. */
static void write_rule(struct buffer *out, const struct mover_target *target)
{
	writer_string(out, "rule", target->rule->name);
	write_layout(out, target);
	write_limits(out, target->rule);
	write_resolved(out, target->rule);
	write_hash(out, target);
}

/* True where what the record has at `path` is what the rule would write now. */
static bool same_part(struct bytes record, const char *path, struct bytes now, const char *name)
{
	struct element was, is;

	return document_find_path(record, path, &was) && document_find(now, name, &is) &&
	       was.type == is.type && bytes_equal(was.value, is.value);
}

/* `limits`: the path of those that are compared. */
static enum rule_record compare(struct bytes record, const struct mover_target *target,
				const char *limits)
{
	auto_buffer struct buffer written = {0};
	size_t start = writer_open(&written);
	struct bytes now;

	write_rule(&written, target);
	writer_close(&written, start);
	now = buffer_view(&written);
	if (!same_part(record, "layout", now, "layout"))
		return RULE_RECORD_OTHER;
	if (!same_part(record, limits, now, "limits"))
		return RULE_RECORD_LIMITS;
	if (!same_part(record, "rule", now, "rule") ||
	    !same_part(record, "resolved", now, "resolved") ||
	    !same_part(record, "hash", now, "hash"))
		return RULE_RECORD_OLDER;
	return RULE_RECORD_SAME;
}

/* No data: it is not there. */
static struct bytes layout_text(struct bytes record, const char *path)
{
	struct bytes text = {0};
	struct element element;

	if (document_find_path(record, path, &element))
		(void)!element_string(&element, &text);
	return text;
}

static void append_text(struct buffer *out, const char *words, struct bytes text)
{
	if (text.data)
		text_append(out, " %s '%s'", words, text_quote(text).text);
	else
		text_append(out, " %s not set", words);
}

/* Says in what the layouts differ, by the configuration file's keys. */
static void tell_difference(struct buffer *out, struct bytes record,
			    const struct mover_target *target)
{
	static const struct {
		const char *path; /* in a record */
		const char *key;  /* in the file */
	} parts[] = {
		{"layout.overflow", "overflow.collection"},
		{"layout.kind", "overflow.layout"},
		{"layout.link", "overflow.link"},
		{"layout.array", "overflow.array"},
		{"layout.batch", "overflow.batch.field"},
		{"layout.flag", "flag.field"},
		{"layout.total", "counters.total"},
		{"layout.documents", "counters.documents"},
		{"layout.reference", "reference.field"},
		{"layout.format", "reference.format"},
	};
	auto_buffer struct buffer now = {0};
	size_t start = writer_open(&now);
	const char *before = ":";

	write_layout(&now, target);
	writer_close(&now, start);
	for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
		struct bytes was = layout_text(record, parts[i].path);
		struct bytes is = layout_text(buffer_view(&now), parts[i].path);

		if (bytes_equal(was, is))
			continue;
		text_append(out, "%s '%s'", before, parts[i].key);
		append_text(out, "was", was);
		append_text(out, "and is", is);
		text_append(out, " in the file");
		before = ",";
	}
}

/* Hands the record over, which is a view until the link's next command. */
static enum link_result find_record(struct link *link, const struct mover_target *target,
				    struct bytes *record, bool *found)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), filter;

	writer_string(&out, "find", RULE_RECORD_COLLECTION);
	filter = writer_open_document(&out, "filter");
	write_key(&out, target);
	writer_close(&out, filter);
	writer_int32(&out, "limit", 1);
	writer_bool(&out, "singleBatch", true);
	command_read_concern(&out, link, link_time(link));
	writer_close(&out, start);
	*found = false;
	return link_find_one(link, RULE_RECORD_DATABASE, buffer_view(&out), record, found);
}

must_check enum link_result rule_record_read(struct link *link, const struct mover_target *target,
					     enum rule_record *record, struct place *place)
{
	struct bytes document;
	struct element from, limits;
	bool found, stopped;
	enum link_result result = find_record(link, target, &document, &found);

	*record = RULE_RECORD_NONE;
	if (result != LINK_DONE || !found)
		return result;
	stopped = place && document_find_path(document, "checkpoint.limits", &limits);
	*record = compare(document, target, stopped ? "checkpoint.limits" : "limits");
	if (place && document_find_path(document, "checkpoint.from", &from))
		place_set(place, from.type, from.value);
	return LINK_DONE;
}

/* One update of the target's record; the caller has written `update`: {u: ...}. */
static enum link_result send_update(struct link *link, const struct mover_target *target,
				    const struct buffer *update, bool upsert)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), updates, statement, q;
	struct element u;

	require(document_find(buffer_view(update), "u", &u));
	writer_string(&out, "update", RULE_RECORD_COLLECTION);
	updates = writer_open_array(&out, "updates");
	statement = writer_open_document(&out, "0");
	q = writer_open_document(&out, "q");
	write_key(&out, target);
	writer_close(&out, q);
	writer_element(&out, &u);
	writer_bool(&out, "upsert", upsert);
	writer_close(&out, statement);
	writer_close(&out, updates);
	command_write_concern(&out, link);
	writer_close(&out, start);
	return link_run(link, RULE_RECORD_DATABASE, buffer_view(&out));
}

static enum link_result write_record(struct link *link, const struct mover_target *target,
				     bool sampled)
{
	auto_buffer struct buffer update = {0};
	size_t start = writer_open(&update), u = writer_open_document(&update, "u");
	size_t set = writer_open_document(&update, "$set");
	enum link_result result;

	writer_int32(&update, "format", FORMAT);
	write_rule(&update, target);
	if (sampled)
		writer_string(&update, "claimed", "sample");
	writer_close(&update, set);
	writer_close(&update, u);
	writer_close(&update, start);
	result = send_update(link, target, &update, true);
	if (result == LINK_REFUSED && link_error(link)->code == ERROR_DUPLICATE_KEY)
		result = send_update(link, target, &update, true); /* another was first */
	return result;
}

must_check enum link_result rule_record_place(struct link *link, const struct mover_target *target,
					      const struct place *place)
{
	auto_buffer struct buffer update = {0};
	size_t start = writer_open(&update), u = writer_open_document(&update, "u");
	size_t part = writer_open_document(&update, place ? "$set" : "$unset");

	if (place) {
		size_t checkpoint = writer_open_document(&update, "checkpoint");

		writer_renamed(&update, "from",
			       &(struct element){.type = place->type, .value = place->value});
		write_limits(&update, target->rule);
		writer_close(&update, checkpoint);
	} else {
		writer_string(&update, "checkpoint", "");
	}
	writer_close(&update, part);
	writer_close(&update, u);
	writer_close(&update, start);
	return send_update(link, target, &update, false);
}

/* The record with this key, {_id}. */
static enum link_result remove_record(struct link *link, struct bytes key)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), deletes, statement;

	writer_string(&out, "delete", RULE_RECORD_COLLECTION);
	deletes = writer_open_array(&out, "deletes");
	statement = writer_open_document(&out, "0");
	writer_document(&out, "q", key);
	writer_int32(&out, "limit", 1);
	writer_close(&out, statement);
	writer_close(&out, deletes);
	command_write_concern(&out, link);
	writer_close(&out, start);
	return link_run(link, RULE_RECORD_DATABASE, buffer_view(&out));
}

must_check enum link_result rule_record_remove(struct link *link, const struct mover_target *target)
{
	auto_buffer struct buffer key = {0};
	size_t start = writer_open(&key);

	write_key(&key, target);
	writer_close(&key, start);
	return remove_record(link, buffer_view(&key));
}

/* Rules that are gone. */

/* One record whose array no rule of the file names; the others are passed over. */
struct gone {
	struct namespace_cache *namespaces;
	struct buffer records; /* one behind the other */
};

static bool split(struct bytes namespace, struct bytes *database, struct bytes *collection)
{
	const uint8_t *dot = memchr(namespace.data, '.', namespace.length);

	if (!dot)
		return false;
	*database = (struct bytes){namespace.data, (size_t)(dot - namespace.data)};
	*collection = (struct bytes){dot + 1, namespace.length - database->length - 1};
	return true;
}

static bool is_ruled(struct gone *gone, struct bytes namespace, struct bytes array)
{
	const struct ruled_namespace *ruled;
	struct bytes database, collection;
	bool full;

	if (!split(namespace, &database, &collection))
		return true; /* nothing that we wrote */
	ruled = namespace_cache_find(gone->namespaces, database, collection, &full);
	for (size_t i = 0; ruled && i < ruled->target_count; i++)
		if (bytes_are(array, ruled->targets[i].rule->array))
			return true;
	return full;
}

static void take_record(void *context, struct bytes record)
{
	struct gone *gone = context;
	struct element element;
	struct bytes namespace, array;

	if (document_find_path(record, "_id.namespace", &element) &&
	    element_string(&element, &namespace) &&
	    document_find_path(record, "_id.array", &element) && element_string(&element, &array) &&
	    !is_ruled(gone, namespace, array))
		buffer_append(&gone->records, record.data, record.length);
}

/* Where overflow is left, or can't be looked at, documents are spilled. */
static enum link_result find_overflow(struct link *link, struct bytes record, bool *found)
{
	auto_free char *database_name = NULL, *collection_name = NULL;
	struct bytes namespace, database, collection;
	struct element element;
	enum link_result result;
	bson_t *command;

	if (!document_find_path(record, "layout.overflow", &element) ||
	    !element_string(&element, &namespace) || !split(namespace, &database, &collection))
		return LINK_DONE;
	database_name = must_strndup((const char *)database.data, database.length);
	collection_name = must_strndup((const char *)collection.data, collection.length);
	command = BCON_NEW("find", BCON_UTF8(collection_name), "filter", "{", "_spill", "{",
			   "$exists", BCON_BOOL(true), "}", "}", "limit", BCON_INT32(1),
			   "singleBatch", BCON_BOOL(true));
	result = link_find_any(link, database_name, command, found);
	bson_destroy(command);
	if (result != LINK_REFUSED)
		return result;
	*found = true;
	return LINK_DONE;
}

/* The file's rule of this name, if it has one: it was edited. */
static void tell_edited(struct rule_set *rules, struct bytes name, char *text, size_t size)
{
	text[0] = '\0';
	for (size_t i = 0; i < rule_set_count(rules); i++) {
		const struct rule *rule = rule_set_at(rules, i);

		if (bytes_are(name, rule->name))
			snprintf(text, size,
				 " (the file's rule '%s' is on the array '%s' of '%.64s.%.200s')",
				 rule->name, text_quote(bytes_of(rule->array)).text, rule->database,
				 rule->collection);
	}
}

static void give_reason(struct rule_set *rules, struct bytes record, char *reason, size_t size)
{
	struct element element;
	struct bytes namespace = {0}, array = {0}, rule = {0};
	char edited[512];

	if (document_find_path(record, "_id.namespace", &element))
		(void)!element_string(&element, &namespace);
	if (document_find_path(record, "_id.array", &element))
		(void)!element_string(&element, &array);
	if (document_find(record, "rule", &element))
		(void)!element_string(&element, &rule);
	tell_edited(rules, rule, edited, sizeof(edited));
	snprintf(reason, size,
		 "the array '%s' of '%.*s' was spilled under rule '%s', which is gone%s: clients "
		 "would see short arrays; bring the rule back (with 'access: read-only' where "
		 "nothing is to be written or moved any more), or fold all back with 'spillway "
		 "undo' and the file that has it",
		 text_quote(array).text, (int)namespace.length, (const char *)namespace.data,
		 text_quote(rule).text, edited);
}

struct finding {
	struct namespace_cache *namespaces;
	struct target_set *targets;
	const struct rule *rule;
};

static void take_target(void *context, struct bytes record)
{
	struct finding *finding = context;
	const struct ruled_namespace *ruled;
	struct bytes namespace, array, database, collection;
	struct element element;
	bool full;

	if (!document_find_path(record, "_id.array", &element) ||
	    !element_string(&element, &array) || !bytes_are(array, finding->rule->array) ||
	    !document_find_path(record, "_id.namespace", &element) ||
	    !element_string(&element, &namespace) || !split(namespace, &database, &collection))
		return;
	ruled = namespace_cache_find(finding->namespaces, database, collection, &full);
	for (size_t i = 0; ruled && i < ruled->target_count; i++)
		if (ruled->targets[i].rule == finding->rule)
			(void)!target_get(finding->targets, finding->rule, database, collection);
}

must_check enum link_result rule_record_find_targets(struct link *link, struct target_set *targets,
						     struct rule_set *rules,
						     const struct rule *rule)
{
	struct finding finding = {namespace_cache_new(rules), targets, rule};
	bson_t *command = BCON_NEW("find", BCON_UTF8(RULE_RECORD_COLLECTION));
	enum link_result result = link_find(link, RULE_RECORD_DATABASE,
					    (struct bytes){bson_get_data(command), command->len},
					    take_target, &finding);

	bson_destroy(command);
	namespace_cache_free(finding.namespaces);
	return result == LINK_REFUSED ? LINK_DONE : result; /* then nothing is recorded */
}

/* The rule's array was edited: the file has another for the same overflow. */
static bool is_edited(struct gone *gone, struct bytes record)
{
	const struct ruled_namespace *ruled;
	struct bytes namespace, overflow, database, collection;
	struct element element;
	bool full;

	if (!document_find_path(record, "_id.namespace", &element) ||
	    !element_string(&element, &namespace) || !split(namespace, &database, &collection) ||
	    !document_find_path(record, "layout.overflow", &element) ||
	    !element_string(&element, &overflow))
		return false;
	ruled = namespace_cache_find(gone->namespaces, database, collection, &full);
	for (size_t i = 0; ruled && i < ruled->target_count; i++) {
		auto_free char *name =
			bson_strdup_printf("%s.%s", ruled->targets[i].overflow_database,
					   ruled->targets[i].overflow_collection);
		if (bytes_are(overflow, name))
			return true;
	}
	return false;
}

/* One that can't be removed stays, and is told where it is in the way. */
static enum link_result remove_named(struct link *link, struct bytes record)
{
	auto_buffer struct buffer key = {0};
	size_t start = writer_open(&key);
	struct element id;

	if (!document_find(record, "_id", &id))
		return LINK_DONE;
	writer_element(&key, &id);
	writer_close(&key, start);
	return remove_record(link, buffer_view(&key));
}

must_check enum link_result rule_record_remove_edited(struct link *link, struct bytes edited)
{
	bool others = false;
	enum link_result result = edited.length > 0 ? neighbours_find(link, &others) : LINK_DONE;

	for (size_t at = 0; result == LINK_DONE && !others && at < edited.length;) {
		struct bytes record = {edited.data + at, (size_t)load_int32(edited.data + at)};

		at += record.length;
		result = remove_named(link, record);
		if (result == LINK_REFUSED)
			return LINK_DONE;
	}
	return result;
}

/* `edited` gets those that nothing lies under. */
static enum link_result judge_gone(struct link *link, struct gone *gone, struct buffer *edited,
				   char *reason, size_t size)
{
	enum link_result result = LINK_DONE;

	for (size_t at = 0; result == LINK_DONE && !reason[0] && at < gone->records.length;) {
		struct bytes record = {gone->records.data + at,
				       (size_t)load_int32(gone->records.data + at)};
		bool found = false;

		require(record.length > 0);
		at += record.length;
		result = find_overflow(link, record, &found);
		if (result == LINK_DONE && found)
			give_reason(namespace_cache_rules(gone->namespaces), record, reason, size);
		else if (result == LINK_DONE && is_edited(gone, record))
			buffer_append(edited, record.data, record.length);
	}
	return result;
}

must_check enum link_result rule_record_find_gone(struct link *link, struct rule_set *rules,
						  struct buffer *edited, char *reason, size_t size)
{
	struct gone gone = {.namespaces = namespace_cache_new(rules)};
	bson_t *command = BCON_NEW("find", BCON_UTF8(RULE_RECORD_COLLECTION));
	enum link_result result =
		link_find(link, RULE_RECORD_DATABASE,
			  (struct bytes){bson_get_data(command), command->len}, take_record, &gone);

	reason[0] = '\0';
	if (result == LINK_DONE)
		result = judge_gone(link, &gone, edited, reason, size);
	bson_destroy(command);
	buffer_fini(&gone.records);
	namespace_cache_free(gone.namespaces);
	return result;
}

/* Another layout: is anything left of it? */
static enum link_result judge_other(struct link *link, const struct mover_target *target,
				    struct bytes record, char *reason, size_t size)
{
	auto_buffer struct buffer difference = {0};
	bool found = false;
	enum link_result result = find_overflow(link, record, &found);

	tell_difference(&difference, record, target);
	if (result == LINK_DONE && found)
		snprintf(reason, size,
			 "its documents were spilled under another layout%.*s; bring that back, or "
			 "fold them back with 'spillway undo' and the file that has it",
			 difference.length < 400 ? (int)difference.length : 400,
			 (const char *)difference.data);
	return result;
}

/* Whose the overflow is. */

struct owners {
	struct buffer key;         /* {_id}: this target's */
	struct bytes name;         /* the overflow's */
	struct buffer other;       /* a record of another's that names it; empty: none */
	bool own;                  /* this target's record names it */
	bool sampled;              /* by what a sample of documents said, then or now */
	bool unsure;               /* nothing is recorded of it */
	bool readable;             /* the records are */
	enum overflow_owner owner; /* what follows */
};

static void take_owner(void *context, struct bytes record)
{
	struct owners *owners = context;
	struct element id, mine, overflow, claimed;
	struct bytes name;

	if (!document_find_path(record, "layout.overflow", &overflow) ||
	    !element_string(&overflow, &name) || !bytes_equal(name, owners->name))
		return;
	require(document_find(buffer_view(&owners->key), "_id", &mine));
	if (document_find(record, "_id", &id) && id.type == mine.type &&
	    bytes_equal(id.value, mine.value)) {
		owners->own = true;
		owners->sampled = document_find(record, "claimed", &claimed);
	} else if (owners->other.length == 0) {
		buffer_append(&owners->other, record.data, record.length);
	}
}

/* LINK_REFUSED: the records may not be read. */
static enum link_result find_owners(struct link *link, const struct mover_target *target,
				    struct owners *owners)
{
	auto_free char *name =
		bson_strdup_printf("%s.%s", target->overflow_database, target->overflow_collection);
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&owners->key), filter;

	write_key(&owners->key, target);
	writer_close(&owners->key, start);
	owners->name = bytes_of(name);
	start = writer_open(&out);
	writer_string(&out, "find", RULE_RECORD_COLLECTION);
	filter = writer_open_document(&out, "filter");
	writer_string(&out, "layout.overflow", name);
	writer_close(&out, filter);
	command_read_concern(&out, link, link_time(link));
	writer_close(&out, start);
	return link_find(link, RULE_RECORD_DATABASE, buffer_view(&out), take_owner, owners);
}

static void owners_fini(struct owners *owners)
{
	buffer_fini(&owners->key);
	buffer_fini(&owners->other);
}

static void say_other(const struct mover_target *target, struct bytes record, const char *remedy,
		      char *reason, size_t size)
{
	struct element element;
	struct bytes namespace = {0}, array = {0};

	if (document_find_path(record, "_id.namespace", &element))
		(void)!element_string(&element, &namespace);
	if (document_find_path(record, "_id.array", &element))
		(void)!element_string(&element, &array);
	snprintf(reason, size,
		 "its overflow '%.40s.%.60s' is recorded as that of the array '%.*s' of '%.*s'%s",
		 target->overflow_database, target->overflow_collection,
		 array.length < 40 ? (int)array.length : 40, (const char *)array.data,
		 namespace.length < 70 ? (int)namespace.length : 70, (const char *)namespace.data,
		 remedy);
}

static enum link_result main_exists(struct link *link, const struct mover_target *target,
				    bool *found)
{
	bson_t *command =
		BCON_NEW("listCollections", BCON_INT32(1), "filter", "{", "name", "{", "$eq",
			 BCON_UTF8(target->collection), "}", "}", "nameOnly", BCON_BOOL(true));
	enum link_result result = link_find_any(link, target->database, command, found);

	bson_destroy(command);
	return result;
}

/* Nothing is recorded, or may be read: then documents tell, whose states name what lies there. What
 * no document refers to may be anybody's: one that is being restored, too. */
static enum link_result judge_unrecorded(struct link *link, const struct mover_target *target,
					 struct owners *owners, char *reason, size_t size)
{
	enum overflow_owner before = target->owner;
	enum referrers found;
	char other[100];
	enum link_result result;

	owners->owner = OWNER_LIKELY;
	owners->sampled = before != OWNER_THIS;
	if (owner_is_known(before) || (before == OWNER_LIKELY && !owners->readable))
		return LINK_DONE; /* it was known before; somebody took the record away */
	result = referrers_find(link, target, &found, other, sizeof(other));
	if (found == REFERRERS_UNKNOWN && before != OWNER_LIKELY)
		owners->owner = OWNER_OPEN;
	owners->sampled = found != REFERRERS_EMPTY;
	owners->unsure = found == REFERRERS_UNKNOWN || found == REFERRERS_NAMED;
	if (result == LINK_DONE && found == REFERRERS_OTHER)
		snprintf(reason, size,
			 "documents of '%.60s' refer to its overflow '%.40s.%.50s', and no record "
			 "says that this is the rule's: correct the namespace, the array or the "
			 "overflow in the file",
			 other, target->overflow_database, target->overflow_collection);
	return result;
}

/* Of an empty overflow another's record takes nothing away. */
static enum link_result judge_recorded_other(struct link *link, const struct mover_target *target,
					     const struct owners *owners, char *reason, size_t size)
{
	bool overflow = false;
	enum link_result result = find_overflow(link, buffer_view(&owners->other), &overflow);

	if (result == LINK_DONE && overflow)
		say_other(target, buffer_view(&owners->other),
			  ", whose elements would be taken for garbage: correct the namespace, the "
			  "array or the overflow in the file",
			  reason, size);
	return result;
}

static void warn_of_rights(struct link *link)
{
	static atomic_bool warned;

	if (!atomic_exchange(&warned, true))
		log_warning("what rules move is not recorded, so that a rule that is taken away is "
			    "not missed, overflow of documents that are gone is not collected, and "
			    "after a start nothing is moved where the overflow holds but what an "
			    "older version left there: give the upstream account the role "
			    "readWrite on the database '%s' (%s)",
			    RULE_RECORD_DATABASE, link_error(link)->message);
}

static enum link_result judge_owner(struct link *link, const struct mover_target *target,
				    struct owners *owners, char *reason, size_t size)
{
	enum link_result result = find_owners(link, target, owners);

	reason[0] = '\0';
	owners->readable = result == LINK_DONE;
	owners->owner = OWNER_OPEN;
	if (owners->own)
		owners->owner = owners->sampled ? OWNER_CLAIMED : OWNER_THIS;
	if (result == LINK_REFUSED)
		warn_of_rights(link);
	if (result == LINK_LOST)
		return result;
	if (owners->other.length > 0)
		return judge_recorded_other(link, target, owners, reason, size);
	return owners->own ? LINK_DONE : judge_unrecorded(link, target, owners, reason, size);
}

must_check enum link_result rule_record_own(struct link *link, struct mover_target *target,
					    char *reason, size_t size)
{
	struct owners owners = {0};
	enum overflow_owner before = target->owner;
	enum link_result result = judge_owner(link, target, &owners, reason, size);

	/* Another thread may have recorded it meanwhile. */
	if (result == LINK_DONE)
		(void)atomic_compare_exchange_strong(&target->owner, &before,
						     reason[0] ? OWNER_OTHER : owners.owner);
	owners_fini(&owners);
	return result;
}

bool rule_record_open(const struct mover_target *target, char *reason, size_t size)
{
	if (target->owner != OWNER_OPEN)
		return false;
	snprintf(reason, size,
		 "the overflow '%.64s.%.200s' holds what no document of '%.64s.%.200s' is seen to "
		 "refer to, and no record says whose it is: nothing is moved there, and nothing of "
		 "it removed; correct the file, or remove what nobody needs",
		 target->overflow_database, target->overflow_collection, target->database,
		 target->collection);
	return true;
}

must_check enum link_result rule_record_renamed(struct link *link,
						const struct mover_target *target, char *reason,
						size_t size)
{
	enum referrers found = REFERRERS_EMPTY;
	char other[100];
	bool there;
	enum link_result result = main_exists(link, target, &there);

	reason[0] = '\0';
	if (result == LINK_REFUSED)
		return LINK_DONE;
	if (result == LINK_DONE && !there)
		result = referrers_find(link, target, &found, other, sizeof(other));
	if (result == LINK_DONE && found == REFERRERS_OTHER)
		snprintf(reason, size,
			 "the collection is gone, and documents of '%.80s' refer to its overflow: "
			 "give it its name back, or remove the overflow where nobody needs it",
			 other);
	return result;
}

must_check enum link_result rule_record_collects(struct link *link, struct mover_target *target,
						 bool *collects)
{
	*collects = false;
	return owner_is_known(target->owner) ? main_exists(link, target, collects) : LINK_DONE;
}

/* An empty overflow that another's record names: a rule that was edited before it moved anything,
 * or one that another Spillway is about to fill. */
static enum link_result take_over(struct link *link, const struct mover_target *target,
				  struct owners *owners, char *reason, size_t size)
{
	bool others;
	enum link_result result = neighbours_find(link, &others);

	if (result == LINK_DONE && !others)
		result = remove_named(link, buffer_view(&owners->other));
	owners->owner = OWNER_LIKELY;
	if (result == LINK_LOST || (result == LINK_DONE && !others))
		return result;
	say_other(target, buffer_view(&owners->other),
		  others ? "; it is empty, but another Spillway is connected or that can't be "
			   "asked: stop it, or name another overflow"
			 : "; it is empty, but the account may not remove that record",
		  reason, size);
	return LINK_DONE;
}

/* Two that began at the same time both see the other's record: neither holds. */
static enum link_result look_again(struct link *link, const struct mover_target *target,
				   char *reason, size_t size)
{
	struct owners owners = {0};
	enum link_result result = find_owners(link, target, &owners);

	if (result == LINK_DONE && owners.other.length > 0) {
		say_other(target, buffer_view(&owners.other), ", just now", reason, size);
		result = rule_record_remove(link, target);
	}
	owners_fini(&owners);
	return result;
}

/* What finds an overflow's records. Once; on a replica set no secondary that is down is waited for.
 */
static enum link_result make_index(struct link *link)
{
	static atomic_bool made;
	bson_t *command;
	enum link_result result;

	if (atomic_load(&made))
		return LINK_DONE;
	command = BCON_NEW("createIndexes", BCON_UTF8(RULE_RECORD_COLLECTION), "indexes", "[", "{",
			   "key", "{", "layout.overflow", BCON_INT32(1), "}", "name",
			   BCON_UTF8("layout.overflow_1"), "}", "]");
	if (!link_standalone(link))
		BCON_APPEND(command, "commitQuorum", BCON_INT32(1));
	result = link_run(link, RULE_RECORD_DATABASE,
			  (struct bytes){bson_get_data(command), command->len});
	bson_destroy(command);
	atomic_store(&made, result != LINK_LOST);
	return result;
}

/* As it is now; what nobody knows to be the rule's is not claimed by a record. */
static enum link_result write_down(struct link *link, const struct mover_target *target,
				   enum rule_record compared, struct owners *owners, char *reason,
				   size_t size)
{
	bool known = owner_is_known(owners->owner);
	enum link_result result = LINK_DONE;

	if (!owners->readable || owners->owner == OWNER_OPEN || owners->unsure)
		return LINK_DONE;
	if (!known || compared != RULE_RECORD_SAME)
		result = write_record(link, target, owners->sampled);
	if (result == LINK_REFUSED)
		warn_of_rights(link);
	if (result == LINK_DONE)
		owners->owner = owners->sampled ? OWNER_CLAIMED : OWNER_THIS;
	if (result == LINK_DONE && compared == RULE_RECORD_NONE)
		result = look_again(link, target, reason, size);
	if (result == LINK_DONE && !reason[0])
		result = make_index(link);
	return result;
}

static void tell_open(struct mover_target *target)
{
	char reason[sizeof(target->reason)];

	if (rule_record_open(target, reason, sizeof(reason)) &&
	    !atomic_exchange(&target->left_logged, true))
		log_warning("mover: %s", reason);
}

/* Nobody else's documents lie in the overflow, and the record says whose it is. `reason` where they
 * may. */
static enum link_result record(struct link *link, struct mover_target *target,
			       enum rule_record compared, char *reason, size_t size)
{
	struct owners owners = {0};
	enum link_result result = judge_owner(link, target, &owners, reason, size);

	if (result == LINK_DONE && !reason[0] && owners.other.length > 0)
		result = take_over(link, target, &owners, reason, size);
	if (result == LINK_DONE && !reason[0])
		result = write_down(link, target, compared, &owners, reason, size);
	if (result != LINK_LOST)
		atomic_store(&target->owner, reason[0] ? OWNER_OTHER : owners.owner);
	tell_open(target);
	owners_fini(&owners);
	return result == LINK_LOST ? result : LINK_DONE;
}

static enum link_result compare_record(struct link *link, const struct mover_target *target,
				       enum rule_record *compared, char *reason, size_t size)
{
	struct bytes document;
	uint8_t *body = NULL;
	bool found;
	enum link_result result = find_record(link, target, &document, &found);

	*compared = RULE_RECORD_NONE;
	reason[0] = '\0';
	if (result == LINK_REFUSED) {
		warn_of_rights(link);
		return LINK_DONE;
	}
	if (result != LINK_DONE || !found)
		return result;
	body = link_steal_body(link);
	*compared = compare(document, target, "limits");
	if (*compared == RULE_RECORD_OTHER)
		result = judge_other(link, target, document, reason, size);
	bson_free(body);
	return result;
}

must_check enum link_result rule_record_compare(struct link *link,
						const struct mover_target *target, char *reason,
						size_t size)
{
	enum rule_record compared;

	return compare_record(link, target, &compared, reason, size);
}

must_check enum link_result rule_record_hold(struct link *link, struct mover_target *target,
					     char *reason, size_t size)
{
	enum rule_record compared;
	enum link_result result = compare_record(link, target, &compared, reason, size);

	if (result == LINK_DONE && !reason[0] && !target->read_only)
		result = record(link, target, compared, reason, size);
	return result;
}
