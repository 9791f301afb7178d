/* What a filter reads: the keys of its documents, down through $and, $or and $nor. */
#include "protocol/writer.h"
#include "rules/rule/known_indexes.h"
#include "rules/rule/names.h"
#include "rules/query/reads.h"
#include "rules/rule/walk.h"

static bool is_one_of(struct bytes name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes_are(name, names[i]))
			return true;
	}
	return false;
}
#define IS_ONE_OF(name, names) is_one_of(name, names, ARRAY_LENGTH(names))

static bool names_other(struct bytes index, const char *field,
			const struct ruled_namespace *namespace)
{
	struct cursor cursor;
	struct element names, name;

	if (!document_find(index, field, &names) || names.type != BSON_BYTE_DOCUMENT ||
	    !cursor_open(&cursor, names.value))
		return false;
	while (cursor_next(&cursor, &name) == CURSOR_ELEMENT)
		if (name_is_other(name.name, namespace) || element_is(&name, "$**"))
			return true;
	return false;
}

/* Of a text index. */
static bool is_over_array(const void *context, struct bytes index)
{
	const struct ruled_namespace *namespace = context;
	struct element filter;

	return names_other(index, "weights", namespace) || names_other(index, "key", namespace) ||
	       (document_find(index, "partialFilterExpression", &filter) &&
		filter.type == BSON_BYTE_DOCUMENT &&
		reads_of_stored(filter.value, namespace).kind != READS_NOTHING);
}

/* $text sees what its index is over. Where there is no index mongod says so. */
static void read_text(const struct ruled_namespace *namespace, struct reads *reads)
{
	reads->searches = true;
	switch (known_indexes_judge(namespace->indexes, NULL, is_over_array, namespace)) {
	case INDEX_NOT_KNOWN:
		reads->asks = true;
		break;
	case INDEX_MEANT:
		break;
	case INDEX_MEANT_SO:
		reads_note_document(reads, namespace, bytes_of("$text"));
		break;
	}
}

/* mongod takes $expr, $where and $text on a filter's top level and inside of $and, $or, $nor only:
 * under a field's name nothing looks beyond that field. False where the BSON is broken. */
static bool read_condition(struct walk *walk, const struct element *condition,
			   const struct ruled_namespace *namespace, struct reads *reads)
{
	static const char *const lists[] = {"$and", "$or", "$nor"};
	static const char *const blind[] = {"$comment", "$sampleRate", "$alwaysTrue",
					    "$alwaysFalse"};
	struct bytes name = condition->name;

	if (name.length == 0 || name.data[0] != '$') {
		reads_note_name(reads, namespace, name, element_operator(condition), "a condition");
		return true;
	}
	if (IS_ONE_OF(name, lists))
		return condition->type != BSON_BYTE_ARRAY ||
		       walk_into(walk, condition->type, condition->value);
	if (element_is(condition, "$expr")) {
		struct reads found = reads_of_expression(condition, namespace);

		reads_join(reads, &found);
	} else if (element_is(condition, "$text")) {
		read_text(namespace, reads);
	} else if (!IS_ONE_OF(name, blind)) {
		reads_note_document(reads, namespace, name);
	}
	return true;
}

struct reads reads_of_filter(struct bytes filter, const struct ruled_namespace *namespace)
{
	struct reads reads = {0};
	struct walk walk;
	struct element element;
	enum cursor_step step;

	step = walk_first(&walk, BSON_BYTE_DOCUMENT, filter, &element);
	while (step == CURSOR_ELEMENT) {
		bool sound = true;

		if (!walk_in_array(&walk))
			sound = read_condition(&walk, &element, namespace, &reads);
		else if (element.type == BSON_BYTE_DOCUMENT)
			sound = walk_into(&walk, element.type, element.value);
		step = sound ? walk_next(&walk, &element) : CURSOR_INVALID;
	}
	if (step != CURSOR_END)
		reads_note_broken(&reads);
	return reads;
}

struct reads reads_of_stored(struct bytes filter, const struct ruled_namespace *namespace)
{
	struct reads reads = {0}, found;

	for (size_t i = 0; i < namespace->target_count; i++) {
		struct ruled_namespace one = *namespace;
		struct target target = namespace->targets[i];
		struct rule rule = *target.rule;

		rule_show_all(&rule);
		target.rule = &rule;
		one.targets = &target;
		one.target_count = 1;
		found = reads_of_filter(filter, &one);
		if (found.rule)
			found.rule = namespace->targets[i].rule;
		reads_join(&reads, &found);
	}
	return reads;
}

bool reads_nothing_of(const struct element *condition, const struct ruled_namespace *namespace)
{
	auto_buffer struct buffer alone = {0};
	size_t document = writer_open(&alone);

	writer_element(&alone, condition);
	writer_close(&alone, document);
	return reads_of_filter(buffer_view(&alone), namespace).kind == READS_NOTHING;
}
