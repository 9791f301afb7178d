/* What a filter reads: the keys of its documents, down through $and, $or and $nor. */
#include "protocol/writer.h"
#include "rules/names.h"
#include "rules/reads.h"
#include "rules/walk.h"

static bool is_one_of(struct bytes name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes_are(name, names[i]))
			return true;
	}
	return false;
}
#define IS_ONE_OF(name, names) is_one_of(name, names, ARRAY_LENGTH(names))

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
