/* Judges finds that ask for membership, writes the questions and reads the replies. */
#include "rules/read/member_inner.h"

#include "protocol/template.h"
#include "rules/query/filter_split.h"
#include "rules/query/projection.h"
#include "rules/query/read_options.h"
#include "rules/query/reads.h"
#include "rules/query/statements.h"
#include "rules/reassembly/expressions.h"
#include "rules/rule/names.h"
#include "rules/rule/overflow_document.h"
#include "rules/rule/state.h"

#define COLLATED NAME_STATE "/collated"
#define LIST_MOST (15 << 20) /* bytes */

/* ---- which finds ---- */

/* With any other field mongod puts the array together. Among them are those of transactions, which
 * an error would end, and what asks for more than a document. */
static bool is_known(const struct element *field)
{
	static const char *const known[] = {
		"find",         "filter",          "projection", "limit",
		"singleBatch",  "batchSize",       "$db",        "lsid",
		"readConcern",  "$readPreference", "maxTimeMS",  "comment",
		"$clusterTime", "apiVersion",      "apiStrict",  "apiDeprecationErrors",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(known); i++)
		if (element_is(field, known[i]))
			return true;
	return false;
}

static bool fields_known(const struct command *command)
{
	struct cursor cursor;
	struct element field;
	enum cursor_step step = CURSOR_INVALID;

	if (command->kind == COMMAND_FIND && cursor_open(&cursor, command->body))
		while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT && is_known(&field))
			;
	return step == CURSOR_END && !command->duplicate;
}

/* The cursor ends with the one document, and reads no snapshot that its helpers would have to name.
 */
static bool options_fit(const struct command *command)
{
	const struct element *concern = &command->fields[FIELD_READ_CONCERN];
	struct element level;
	struct bytes word;

	if (options_of_find(command) != OPTIONS_SOUND ||
	    (options_has_number(command, "batchSize") && options_number(command, "batchSize") < 2))
		return false;
	return concern->type != BSON_BYTE_DOCUMENT ||
	       !document_find(concern->value, "level", &level) || !element_string(&level, &word) ||
	       !bytes_are(word, "snapshot");
}

/* The filter's one conjunct that reads arrays. */
static bool find_condition(struct bytes filter, const struct ruled_namespace *namespace,
			   struct element *condition)
{
	struct walk walk;
	struct element conjunct;
	enum cursor_step step = filter_first_conjunct(&walk, filter, &conjunct);
	size_t reading = 0;

	for (; step == CURSOR_ELEMENT; step = filter_next_conjunct(&walk, &conjunct))
		if (!reads_nothing_of(&conjunct, namespace)) {
			*condition = conjunct;
			reading++;
		}
	return step == CURSOR_END && reading == 1;
}

/* The array is a field of the document's own, and the path leads to it or into its elements by
 * names alone. */
static bool path_fits(struct bytes path, const struct rule *rule)
{
	bool dots = memmem(path.data, path.length, "..", 2) || path.data[path.length - 1] == '.';

	return !strchr(rule->array, '.') && !strchr(rule->overflow.array, '.') && !dots;
}

static bool is_operators(const struct element *value, struct element *first)
{
	struct cursor cursor;

	return value->type == BSON_BYTE_DOCUMENT && cursor_open(&cursor, value->value) &&
	       cursor_next(&cursor, first) == CURSOR_ELEMENT && bytes_begin_with(first->name, "$");
}

/* {f: x} -> {$eq: x}, {f: /x/} -> {$in: [/x/]}, {f: {$gt: x}} -> {$gt: x}, {f: {$elemMatch: {x:
 * 1}}}
 * -> {x: 1}, {f.x: 1} -> {x: 1} */
static void write_element(struct buffer *out, const struct element *condition,
			  const struct rule *rule)
{
	size_t array = strlen(rule->array), start;
	struct element first;
	const char *name = (const char *)condition->name.data;

	if (condition->name.length > array) {
		start = writer_open(out);
		writer_renamed(out, name + array + 1, condition);
		writer_close(out, start);
	} else if (!is_operators(condition, &first)) {
		template_write_document(out,
					condition->type == BSON_BYTE_REGEX ? "{$in: [@value]}"
									   : "{$eq: @value}",
					fill("value", condition));
	} else {
		struct bytes whole =
			element_is(&first, "$elemMatch") ? first.value : condition->value;

		buffer_append(out, whole.data, whole.length);
	}
}

static bool may_compare_texts(const struct element *condition)
{
	switch (condition->type) {
	case BSON_BYTE_DOUBLE:
	case BSON_BYTE_BINARY:
	case BSON_BYTE_OBJECT_ID:
	case BSON_BYTE_BOOL:
	case BSON_BYTE_DATE:
	case BSON_BYTE_INT32:
	case BSON_BYTE_TIMESTAMP:
	case BSON_BYTE_INT64:
	case BSON_BYTE_DECIMAL:
		return false;
	default:
		return true;
	}
}

/* Nothing but fields by their names, none of which is the array, and `_id` among them. */
static bool projection_answers(const struct element *projection,
			       const struct ruled_namespace *namespace)
{
	struct element id;

	return projection->type == BSON_BYTE_DOCUMENT &&
	       projection_classify(projection->value, namespace).kind == PROJECTION_FORWARD &&
	       projection_inclusive(projection->value) &&
	       projection_names_fields(projection->value) &&
	       projection_keeps_id(projection->value) &&
	       (!document_find(projection->value, "_id", &id) || element_truth(&id));
}

/* Of the array it returns all or nothing. */
static bool projection_is_plain(const struct element *projection,
				const struct ruled_namespace *namespace)
{
	if (projection->type != BSON_BYTE_DOCUMENT)
		return projection->type == 0;
	switch (projection_classify(projection->value, namespace).kind) {
	case PROJECTION_NONE:
	case PROJECTION_FORWARD:
	case PROJECTION_INCLUDE:
	case PROJECTION_EXCLUDE:
		return true;
	case PROJECTION_REFUSE:
	case PROJECTION_RESERVED:
	case PROJECTION_BROKEN:
		break;
	}
	return false;
}

/* The condition alone is asked of the probe, to which `_id` would say that it is not needed. */
static bool judge_condition(struct member *member, const struct element *condition)
{
	auto_buffer struct buffer alone = {0};
	size_t start = writer_open(&alone);

	writer_element(&alone, condition);
	writer_close(&alone, start);
	if (!probe_of_filter(buffer_view(&alone), member->namespace, &member->probe))
		return false;
	member->target = member->probe.target;
	if (!member->probe.exact ||
	    path_relate(condition->name, member->target->rule->array) == PATH_APART ||
	    !path_fits(condition->name, member->target->rule))
		return false;
	member->texts = may_compare_texts(condition);
	write_element(&member->element, condition, member->target->rule);
	return true;
}

bool member_of_find(const struct command *command, const struct ruled_namespace *namespace,
		    struct member *member)
{
	const struct element *filter = &command->fields[FIELD_FILTER];
	struct element id, condition;

	*member = (struct member){.namespace = namespace};
	if (!fields_known(command) || !options_fit(command) || filter->type != BSON_BYTE_DOCUMENT ||
	    !statement_pinned_id(filter->value, false, &id) ||
	    !find_condition(filter->value, namespace, &condition) ||
	    reads_any_meta(&command->fields[FIELD_PROJECTION]))
		return false;
	if (!judge_condition(member, &condition)) {
		member_fini(member);
		return false;
	}
	member->answers = projection_answers(&command->fields[FIELD_PROJECTION], namespace);
	member->plain = projection_is_plain(&command->fields[FIELD_PROJECTION], namespace);
	return true;
}

void member_fini(struct member *member)
{
	probe_fini(&member->probe);
	buffer_fini(&member->element);
	packet_fini(&member->main);
}

/* ---- what is asked ---- */

/* The client's filter without the condition: its conjuncts, an array. */
static size_t list_rest(struct buffer *list, const struct command *command,
			const struct member *member)
{
	struct bytes filter = command->fields[FIELD_FILTER].value;
	size_t start = writer_open(list), place = 0;

	filter_split_write(list, &place, filter, member->namespace, FILTER_REST_ALL);
	writer_close(list, start);
	return place;
}

/* mongod finds a document fastest by {_id: x} alone. */
static void write_rest(struct buffer *out, const struct command *command,
		       const struct member *member)
{
	auto_buffer struct buffer list = {0};
	struct element only;

	if (list_rest(&list, command, member) == 1 && document_find(buffer_view(&list), "0", &only))
		writer_renamed(out, "filter", &only);
	else
		template_write(out, "filter", "{$and: @rest}",
			       fill_array("rest", buffer_view(&list)));
}

void member_write_generation(struct buffer *out, const struct command *command,
			     const struct member *member)
{
	auto_buffer struct buffer list = {0};

	list_rest(&list, command, member);
	template_write(out, "filter",
		       member_is_edited(member)
			       ? "{$and: [..@rest, {'_spill.@key.e.g': @generation, "
				 "'_spill.@key.e.l': @later, '_spill.@key.e.v': @edition}]}"
			       : "{$and: [..@rest, {'_spill.@key.g': @generation}]}",
		       fill_array("rest", buffer_view(&list)),
		       fill("key", member->target->rule->key),
		       fill_binary("generation", member->generation),
		       fill_binary("later", member->editions.later),
		       fill("edition", member->editions.edition));
}

static void write_projection(struct buffer *out, const struct command *command,
			     const struct member *member)
{
	const struct element *wanted = &command->fields[FIELD_PROJECTION];
	size_t start = writer_open_document(out, "projection");
	struct cursor cursor;
	struct element field;

	if (member->answers && cursor_open(&cursor, wanted->value))
		while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
			writer_element(out, &field);
	else
		writer_int32(out, "_id", 1);
	projection_write_state(out);
	template_write_fields(out,
			      "{@array: {$elemMatch: @element}, "
			      "'" MEMBER_LENGTH
			      "': {$cond: [{$isArray: '$@array'}, {$size: '$@array'}, -1]}}",
			      fill("array", member->target->rule->array),
			      fill_document("element", buffer_view(&member->element)));
	if (member->texts)
		template_write(out, COLLATED, EXPRESSION_IS_COLLATED);
	writer_close(out, start);
}

void member_write_main(struct buffer *out, const struct command *command,
		       const struct member *member, bool timed)
{
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, command->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (element_is(&field, "filter"))
			write_rest(out, command, member);
		else if (!element_is(&field, "projection") &&
			 !(timed && element_is(&field, "maxTimeMS")))
			writer_element(out, &field);
	write_projection(out, command, member);
}

/* What both questions to the overflow say. */
#define OF_GENERATION \
	"'@link': {$eq: @id}, '" NAME_STATE ".g': @generation, '" NAME_STATE ".p': {$lt: @linked}"
#define PLACE "_id: 0, '" NAME_STATE ".p': 1, '" MEMBER_LENGTH "': {$size: '$@array'}"

static void write_question(struct buffer *out, const struct member *member, const char *text)
{
	const struct rule *rule = member->target->rule;

	template_write_fields(out, text, fill("collection", member->target->overflow_collection),
			      fill("link", rule->overflow.link), fill("id", &member->id),
			      fill_binary("generation", member->generation),
			      fill("linked", member->linked), fill("array", rule->overflow.array),
			      fill("order", overflow_order_path(rule)),
			      fill_document("condition", buffer_view(&member->probe.overflow)),
			      fill_document("element", buffer_view(&member->element)));
}

void member_write_hit(struct buffer *out, const struct member *member)
{
	if (member_is_edited(member)) {
		member_edited_write(out, member, MEMBER_EDITED_HIT);
		return;
	}
	write_question(out, member,
		       "{find: @collection, filter: {" OF_GENERATION ", ..@condition}, "
		       "projection: {" PLACE "}, limit: 1, singleBatch: true}");
}

bool member_may_have_one(const struct member *member)
{
	return !member_is_edited(member) &&
	       member->linked <= member->target->rule->overflow.batch_size;
}

void member_write_one(struct buffer *out, const struct member *member)
{
	write_question(out, member,
		       "{find: @collection, filter: {'@link': {$eq: @id}, "
		       "'" NAME_STATE ".g': @generation, '" NAME_STATE ".p': 0, "
		       "'@array': {$size: @linked}}, "
		       "projection: {_id: 0, '" NAME_STATE
		       ".p': 1, @array: {$elemMatch: @element}}, "
		       "limit: 1, singleBatch: true}");
}

void member_write_all(struct buffer *out, const struct member *member)
{
	if (member_is_edited(member)) {
		member_edited_write(out, member, MEMBER_EDITED_ALL);
		return;
	}
	write_question(out, member,
		       "{find: @collection, filter: {" OF_GENERATION "}, sort: {@order: 1}, "
		       "projection: {" PLACE "}, batchSize: 2147483647, singleBatch: true}");
}

/* ---- what comes back ---- */

/* The documents of a reply that brings all of them. */
static bool open_batch(const struct packet *reply, struct cursor *documents)
{
	struct reply_cursor cursor;
	int64_t id;

	if (!reply->summary.ok)
		return false;
	cursor = reply_read_cursor(reply->summary.cursor);
	return cursor.batch.data && element_integer(&cursor.id, &id) && id == 0 &&
	       cursor_open(documents, cursor.batch);
}

/* A list that is all there: mongod ends a single batch at 16 MB without a word. Its documents are
 * short ones. */
static bool open_list(const struct packet *reply, struct cursor *documents)
{
	return open_batch(reply, documents) && (size_t)(documents->end - documents->at) < LIST_MOST;
}

/* mongod's find gives a field once or twice, as its plan is. */
static bool has_twice(struct bytes document)
{
	struct cursor cursor, behind;
	struct element field, other;

	if (!cursor_open(&cursor, document))
		return true;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		behind = cursor;
		if (cursor_find(&behind, field.name, &other))
			return true;
	}
	return false;
}

static bool read_number(struct bytes document, const char *path, int64_t *number)
{
	struct element field;

	return document_find_path(document, path, &field) && element_integer(&field, number) &&
	       *number >= 0;
}

/* False where the state can't be read. Without one, or where none of the overflow counts, `linked`
 * is 0. */
static bool read_state(struct member *member, int64_t length)
{
	struct element states, field;
	struct state state;

	member->linked = 0;
	member->editions = (struct state){0};
	if (!document_find(member->document, NAME_STATE, &states))
		return true;
	if (states.type != BSON_BYTE_DOCUMENT)
		return false;
	if (!state_find(member->target->rule, member->document, &field))
		return true;
	if (state_read_any(&field, true, &state) || !state.generation.data)
		return false;
	if (state.later.data && member->target->rule->overflow.layout != RULE_BATCHES)
		return false;
	member->editions = state;
	member->generation = state.generation;
	member->linked = state.moved;
	return state.moved == 0 || length >= state.head;
}

enum member_found member_take_main(struct member *member, struct packet *reply)
{
	struct element document, found, collated;
	struct cursor documents;
	int64_t length;

	packet_fini(&member->main);
	member->main = packet_steal(reply);
	member->document = (struct bytes){0};
	if (!open_batch(&member->main, &documents))
		return MEMBER_UNSURE;
	if (cursor_next(&documents, &document) != CURSOR_ELEMENT)
		return MEMBER_MISSING;
	if (document.type != BSON_BYTE_DOCUMENT || has_twice(document.value) ||
	    !document_find(document.value, "_id", &member->id) ||
	    !read_number(document.value, MEMBER_LENGTH, &length))
		return MEMBER_UNSURE;
	member->document = document.value;
	if (!read_state(member, length))
		return MEMBER_UNSURE;
	if (document_find(document.value, member->target->rule->array, &found))
		return MEMBER_THERE;
	if (member->linked == 0)
		return MEMBER_MISSING;
	return document_find(document.value, COLLATED, &collated) && element_truth(&collated)
		       ? MEMBER_UNSURE
		       : MEMBER_UNKNOWN;
}

static bool read_place(struct bytes document, int64_t *position, int64_t *end)
{
	int64_t length;

	if (!read_number(document, NAME_STATE ".p", position) ||
	    !read_number(document, MEMBER_LENGTH, &length))
		return false;
	*end = *position + length;
	return true;
}

enum member_found member_take_one(const struct member *member, const struct packet *reply)
{
	struct element document, element;
	struct cursor documents;

	if (!open_batch(reply, &documents))
		return MEMBER_UNSURE;
	if (cursor_next(&documents, &document) != CURSOR_ELEMENT)
		return MEMBER_UNKNOWN;
	return document_find(document.value, member->target->rule->overflow.array, &element)
		       ? MEMBER_THERE
		       : MEMBER_MISSING;
}

/* Of elements at positions that the state did not link some may be newer than the document. */
enum member_found member_take_hit(struct member *member, const struct packet *reply)
{
	struct element document;
	struct cursor documents;
	int64_t position, end;

	if (!open_batch(reply, &documents))
		return MEMBER_UNSURE;
	if (cursor_next(&documents, &document) != CURSOR_ELEMENT)
		return MEMBER_UNKNOWN;
	if (member_is_edited(member))
		return member_edited_take_hit(member, document.value);
	if (!read_place(document.value, &position, &end))
		return MEMBER_UNSURE;
	return end <= member->linked ? MEMBER_THERE : MEMBER_CHANGED;
}

/* What is missing now, or has a hole, may have been so when the overflow was asked for an element.
 */
enum member_found member_take_all(const struct member *member, const struct packet *reply)
{
	struct element document;
	int64_t covered = 0, position, end;
	struct cursor documents;

	if (!open_list(reply, &documents))
		return MEMBER_UNSURE;
	if (member_is_edited(member))
		return member_edited_take_all(member, documents);
	while (cursor_next(&documents, &document) == CURSOR_ELEMENT) {
		if (!read_place(document.value, &position, &end))
			return MEMBER_UNSURE;
		if (position > covered)
			return MEMBER_CHANGED;
		covered = end > covered ? end : covered;
	}
	return covered >= member->linked ? MEMBER_MISSING : MEMBER_CHANGED;
}

void member_write_later(struct buffer *out, const struct member *member)
{
	member_edited_write(out, member, MEMBER_EDITED_LATER);
}

enum member_found member_take_later(const struct member *member, const struct packet *reply)
{
	struct cursor documents;

	return open_list(reply, &documents) ? member_edited_take_later(member, documents)
					    : MEMBER_UNSURE;
}

/* ---- the answer ---- */

static bool is_ours(const struct element *field, const struct rule *rule)
{
	return element_is(field, NAME_STATE) || element_is(field, rule->array) ||
	       name_is_spare(field->name);
}

static void write_document(struct buffer *out, const struct member *member)
{
	size_t start = writer_open_document(out, "0");
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, member->document));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!is_ours(&field, member->target->rule))
			writer_element(out, &field);
	writer_close(out, start);
}

static void write_cursor(struct buffer *out, const struct member *member, bool found)
{
	size_t start = writer_open_document(out, "cursor"), batch;
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, member->main.summary.cursor));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (!element_is(&field, "firstBatch")) {
			writer_element(out, &field);
			continue;
		}
		batch = writer_open_array(out, "firstBatch");
		if (found)
			write_document(out, member);
		writer_close(out, batch);
	}
	writer_close(out, start);
}

void member_write_answer(struct buffer *out, const struct member *member, bool found)
{
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, member->main.message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (element_is(&field, "cursor"))
			write_cursor(out, member, found);
		else
			writer_element(out, &field);
}
