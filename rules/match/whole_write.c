/* Which ruled arrays have to be whole for a write, and how its filter can be judged. */
#include "rules/match/whole_write.h"

#include "rules/query/filter_split.h"
#include "rules/query/projection.h"
#include "rules/query/statements.h"
#include "rules/query/update_operators.h"
#include "rules/rule/names.h"
#include "rules/rule/own_fields.h"
#include "rules/rule/walk.h"
#include "rules/reassembly/reassemble.h"

bool whole_write_of_statement(struct bytes document, bool deletes, struct whole_write *write)
{
	struct statement statement;
	struct element constants;

	if (!statement_parse(document, &statement))
		return false;
	*write = (struct whole_write){.filter = statement.q,
				      .update = statement.u,
				      .collation = statement.collation,
				      .hint = statement.hint,
				      .sort = statement.sort,
				      .array_filters = statement.array_filters,
				      .upsert = element_truth(&statement.upsert)};
	write->constants =
		document_find(document, "c", &constants) && constants.type == BSON_BYTE_DOCUMENT;
	write->counted = !deletes;
	write->bytes = document.length;
	write->many = element_truth(&statement.multi);
	return !deletes || statement_limit(&statement.limit, &write->many);
}

/* mongod takes null for nothing. */
static struct element field_of(const struct command *command, enum command_field field)
{
	struct element element = command->fields[field];

	if (element_is_nothing(&element))
		element = (struct element){0};
	return element;
}

struct whole_write whole_write_of_command(const struct command *command)
{
	static const uint8_t empty[] = {5, 0, 0, 0, 0};
	struct whole_write write = {.filter = field_of(command, FIELD_QUERY),
				    .collation = field_of(command, FIELD_COLLATION),
				    .hint = command->fields[FIELD_HINT],
				    .sort = field_of(command, FIELD_SORT),
				    .fields = field_of(command, FIELD_FIELDS),
				    .upsert = element_truth(&command->fields[FIELD_UPSERT])};

	if (!document_find(command->body, "arrayFilters", &write.array_filters) ||
	    element_is_nothing(&write.array_filters))
		write.array_filters = (struct element){0};
	if (!element_truth(&command->fields[FIELD_REMOVE]))
		write.update = command->fields[FIELD_UPDATE];
	if (write.filter.type == 0)
		write.filter = (struct element){.type = BSON_BYTE_DOCUMENT,
						.value = {empty, sizeof(empty)}};
	return write;
}

static bool keys_read(const struct whole_write *write, const struct ruled_namespace *namespace)
{
	return (write->sort.type == BSON_BYTE_DOCUMENT &&
		reads_of_sort(write->sort.value, namespace).kind != READS_NOTHING) ||
	       (write->hint.type == BSON_BYTE_DOCUMENT &&
		reads_of_keys(write->hint.value, namespace).kind != READS_NOTHING);
}

static bool filter_reads(const struct whole_write *write, const struct ruled_namespace *namespace)
{
	return reads_of_filter(write->filter.value, namespace).kind != READS_NOTHING ||
	       keys_read(write, namespace);
}

static bool cuts_image(const struct whole_write *write, const struct ruled_namespace *namespace)
{
	return write->fields.type == BSON_BYTE_DOCUMENT &&
	       projection_classify(write->fields.value, namespace).kind == PROJECTION_REFUSE;
}

/* mongod cuts or computes the image, of whole arrays: all that are in it. */
static bool in_cut_image(const struct whole_write *write, const struct ruled_namespace *namespace,
			 const struct ruled_namespace *one)
{
	return cuts_image(write, namespace) &&
	       projection_classify(write->fields.value, one).kind != PROJECTION_FORWARD;
}

static enum update_kind kind_of(const struct whole_write *write,
				const struct ruled_namespace *namespace)
{
	return write->update.type == 0 ? UPDATE_PLAIN
				       : update_classify(&write->update, namespace).kind;
}

/* It sets arrays as a whole, and one of them perhaps to what it is; or a flag is the application's
 * own, and Spillway must not touch it where there is no state. */
static bool may_change_nothing(const struct whole_write *write,
			       const struct ruled_namespace *namespace)
{
	enum update_kind kind;

	if (!update_needs_state(&write->update, namespace) &&
	    (!write->counted || !update_sets_array(&write->update, namespace)))
		return false;
	kind = kind_of(write, namespace);
	return kind == UPDATE_WHOLE || kind == UPDATE_REPLACE;
}

bool whole_write_wanted(const struct whole_write *write, const struct ruled_namespace *namespace)
{
	return write->filter.type == BSON_BYTE_DOCUMENT &&
	       /* mongod refuses an upsert with $expr in its filter, whatever it finds */
	       !(write->upsert && filter_has_expression(write->filter.value)) &&
	       (kind_of(write, namespace) == UPDATE_EDIT || may_change_nothing(write, namespace) ||
		filter_reads(write, namespace) || cuts_image(write, namespace));
}

/* Some path of the update has a `$` of its own, or one of the image ends in it: what it stands for
 * is told by the filter's conditions on arrays. */
static bool is_positional(const struct whole_write *write)
{
	const struct element *update = &write->update, *fields = &write->fields;
	struct changes changes;
	struct change change;

	if (fields->type == BSON_BYTE_DOCUMENT &&
	    memmem(fields->value.data, fields->value.length, ".$", sizeof(".$")))
		return true;
	if (update->type != BSON_BYTE_DOCUMENT || !changes_open(&changes, update->value))
		return false;
	while (changes_next(&changes, &change) == CURSOR_ELEMENT) {
		struct bytes path = change.path;
		const uint8_t *at = memmem(path.data, path.length, ".$", 2);

		for (; at; at = memmem(at + 2, path.length - (size_t)(at + 2 - path.data), ".$", 2))
			if (at + 2 == path.data + path.length || at[2] == '.')
				return true;
	}
	return false;
}

static bool reads_alone(const struct whole_write *write, const struct ruled_namespace *namespace)
{
	auto_buffer struct buffer scratch = {0};
	size_t place = 0;

	return filter_split_write(&scratch, &place, write->filter.value, namespace, FILTER_REST_ALL)
		.alone;
}

/* ---- fields that go with the fold ---- */

static bool own_occurs(struct bytes document, const struct rule *rule)
{
	for (enum own_field field = OWN_FLAG; field < OWN_FIELDS; field++) {
		const char *name = own_field_name(rule, field);

		if (name && name_occurs(document, name))
			return true;
	}
	return false;
}

/* In $or, $nor or $expr, where it can't be left out of a write alone. */
static bool joins_own(struct bytes filter, const struct rule *rule)
{
	struct walk walk;
	struct element conjunct;
	enum cursor_step step;
	struct bytes joint;

	step = filter_first_conjunct(&walk, filter, &conjunct);
	for (; step == CURSOR_ELEMENT; step = filter_next_conjunct(&walk, &conjunct))
		if (bytes_begin_with(conjunct.name, "$") && element_document(&conjunct, &joint) &&
		    own_occurs(joint, rule))
			return true;
	return false;
}

bool whole_write_concerns(const struct whole_write *write, const struct ruled_namespace *namespace,
			  size_t target)
{
	const struct ruled_namespace one = ruled_alone(namespace, target);
	enum update_kind kind = kind_of(write, &one);

	return kind == UPDATE_EDIT || kind == UPDATE_WHOLE ||
	       (kind == UPDATE_REPLACE && write->counted) || filter_reads(write, &one) ||
	       in_cut_image(write, namespace, &one) || write->denied;
}

/* mongod goes by the first, where the filter holds nothing else. */
static bool names_id_twice(struct bytes filter)
{
	struct cursor cursor;
	struct element element;
	size_t count = 0;

	if (!cursor_open(&cursor, filter))
		return false;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		count += element_is(&element, "_id");
	return count > 1;
}

const char *whole_write_unserved(const struct whole_write *write,
				 const struct ruled_namespace *namespace)
{
	static const char *const texts[FILTER_OBSTACLES] = FILTER_OBSTACLE_TEXTS(
		"a filter with ",
		" that reads a ruled array has to name the document by its _id; or ");
	struct element id;

	if (update_computes_names(&write->update) &&
	    update_stage_count(&write->update) >= UPDATE_STAGES_MAX)
		return "an update pipeline with $replaceWith or $replaceRoot gets one more stage, "
		       "and mongod takes 1000; leave one out";
	if (write->constants && filter_has_expression(write->filter.value))
		return "a filter with $expr beside 'c' in a write that needs the array whole: "
		       "name the variables in let";
	if (names_id_twice(write->filter.value))
		return "a filter of a write that needs the array whole may not name _id twice";
	for (size_t i = 0; i < namespace->target_count; i++)
		if (joins_own(write->filter.value, namespace->targets[i].rule) &&
		    whole_write_concerns(write, namespace, i))
			return "a filter of a write that needs the array whole may not name the "
			       "rule's flag, counters or reference inside $or, $nor or $expr";
	if (!filter_reads(write, namespace))
		return NULL;
	if (!reassemble_possible(namespace))
		return "a filter that reads an array whose overflow lies in another database "
		       "can't be judged by this version of Spillway";
	return statement_pinned_id(write->filter.value, write->collation.type != 0, &id)
		       ? NULL
		       : texts[filter_obstacle(write->filter.value, false)];
}

struct whole_write_facts whole_write_judge(const struct whole_write *write,
					   const struct ruled_namespace *namespace)
{
	bool cuts = cuts_image(write, namespace);
	struct whole_write_facts facts = {
		.reads = filter_reads(write, namespace),
		.document = reads_of_filter(write->filter.value, namespace).document,
		.raises = filter_has_expression(write->filter.value),
		.settles = filter_fits_pipeline(write->filter.value),
		.positional = is_positional(write),
		.appends = kind_of(write, namespace) == UPDATE_PLAIN,
		.bare = !cuts && !keys_read(write, namespace),
	};

	facts.sets = !facts.reads && !cuts && may_change_nothing(write, namespace);
	facts.swaps = facts.reads && facts.settles && facts.appends && !cuts && !facts.positional &&
		      reads_alone(write, namespace);
	return facts;
}
