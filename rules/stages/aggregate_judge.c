/* Says whether a client's read can be written as an aggregate, and what the aggregate is about. */
#include "rules/stages/aggregate_judge.h"

#include "rules/query/filter_split.h"
#include "rules/query/projection.h"
#include "rules/query/read_options.h"
#include "rules/query/reads.h"
#include "rules/rule/known_indexes.h"
#include "rules/rule/names.h"
#include "rules/stages/first_match.h"
#include "rules/stages/probe.h"
#include "rules/stages/stage_bounds.h"
#include "rules/stages/stage_distinct.h"
#include "rules/stages/stage_project.h"

/* ---- what can't be written so ---- */

/* A filter that doesn't read arrays is the first stage, and no other. */
const char *aggregate_unserved_filter(const struct element *filter,
				      const struct ruled_namespace *namespace)
{
	static const char *const texts[FILTER_OBSTACLES] =
		FILTER_OBSTACLE_TEXTS("", " can't be asked of arrays that are put together; ");
	bool first;

	if (filter->type != BSON_BYTE_DOCUMENT)
		return NULL;
	first = reads_of_filter(filter->value, namespace).kind == READS_NOTHING;
	return texts[filter_obstacle(filter->value, first)];
}

bool aggregate_sorts_naturally(const struct command *command)
{
	const struct element *sort = &command->fields[FIELD_SORT];
	struct element order;

	return element_only_field(sort, &order) && element_is(&order, "$natural");
}

bool aggregate_has(const struct element *document)
{
	return document->type != 0 &&
	       (document->type != BSON_BYTE_DOCUMENT || document->value.length > 5);
}

/* A sort makes a stage. */
bool aggregate_sorts(const struct command *command)
{
	return aggregate_has(&command->fields[FIELD_SORT]) && !aggregate_sorts_naturally(command);
}

const char *aggregate_unserved_find(const struct command *command,
				    const struct ruled_namespace *namespace)
{
	static const char *const others[] = {"showRecordId", "returnKey",   "tailable",
					     "awaitData",    "oplogReplay", "requestResumeToken"};
	const struct element *filter = &command->fields[FIELD_FILTER],
			     *projection = &command->fields[FIELD_PROJECTION];

	for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
		if (document_truth(command->body, others[i]))
			return "showRecordId, returnKey, tailable and resume tokens can't be had "
			       "where arrays are put together";
	if (options_of_find(command) == OPTIONS_UNSERVED)
		return "decimal numbers of documents, ntoreturn and oplogReplay can't be had "
		       "where arrays are put together";
	if (!bounds_served(command))
		return "min and max can't be had where arrays are put together, unless a hint "
		       "spells out an index of paths, and they name just these";
	if (projection->type == BSON_BYTE_DOCUMENT &&
	    project_judge(projection->value, filter, namespace) != PROJECT_SERVED)
		return "such a projection can't be had where arrays are put together: f.$ needs "
		       "conditions on the array that single elements satisfy, or none, $elemMatch "
		       "none "
		       "beside it that sees the whole document, and $slice no decimal numbers";
	if (projection->type == BSON_BYTE_DOCUMENT && options_number(command, "limit") == 0 &&
	    aggregate_sorts(command) && project_may_miss(projection->value, filter, namespace))
		return "f.$ without a condition on the array, beside a sort without a limit: "
		       "mongod fails before the first document or behind some, as its plan is; "
		       "add a limit, or a condition on the array";
	return aggregate_unserved_filter(filter, namespace);
}

const char *aggregate_unserved_key(struct bytes key)
{
	return distinct_served(key) ? NULL : "such a path can't be followed in whole arrays";
}

/* ---- what it is about ---- */

bool aggregate_is_one(const struct command *command)
{
	return command->kind == COMMAND_AGGREGATE;
}

bool aggregate_sorts_by_arrays(const struct command *command,
			       const struct ruled_namespace *namespace)
{
	const struct element *sort = &command->fields[FIELD_SORT];

	return sort->type == BSON_BYTE_DOCUMENT &&
	       reads_of_sort(sort->value, namespace).kind != READS_NOTHING;
}

/* How many documents a find returns at most; 0: all. */
int64_t aggregate_limit(const struct command *command)
{
	int64_t limit = options_number(command, "limit"), batch = AGGREGATE_FIRST_BATCH;

	if (!options_single_batch(command))
		return limit;
	if (options_has_number(command, "batchSize"))
		batch = options_number(command, "batchSize");
	return limit > 0 && limit < batch ? limit : batch;
}

struct element aggregate_filter(const struct command *command, size_t at, struct buffer *joined)
{
	struct element filter = {0};

	if (!aggregate_is_one(command))
		return command->fields[command->kind == COMMAND_FIND ? FIELD_FILTER : FIELD_QUERY];
	return at < first_match(command, joined, &filter) ? filter : (struct element){0};
}

int64_t aggregate_room(const struct command *command)
{
	int64_t size = AGGREGATE_FIRST_BATCH, limit;

	if (command->kind != COMMAND_FIND && !aggregate_is_one(command))
		return 1;
	if (aggregate_is_one(command))
		size = first_match_batch(command, AGGREGATE_FIRST_BATCH);
	else if (options_has_number(command, "batchSize"))
		size = options_number(command, "batchSize");
	if (size > PROBE_ROOM)
		size = PROBE_ROOM;
	limit = aggregate_is_one(command) ? 0 : aggregate_limit(command);
	return limit > 0 && limit <= size ? limit : size - 1;
}

enum aggregate_need aggregate_need(const struct command *command,
				   const struct ruled_namespace *namespace)
{
	const struct element *projection = &command->fields[FIELD_PROJECTION];
	struct bytes key;

	if (aggregate_is_one(command))
		return first_match_suffices(command, namespace) ? AGGREGATE_NEEDS_NOTHING
								: AGGREGATE_NEEDS_DOCUMENTS;
	if (element_string(&command->fields[FIELD_KEY], &key))
		return name_rule(key, namespace) || name_find_hidden(key, namespace)
			       ? AGGREGATE_NEEDS_ORDER
			       : AGGREGATE_NEEDS_NOTHING;
	if (command->kind != COMMAND_FIND)
		return AGGREGATE_NEEDS_NOTHING;
	if (aggregate_sorts_by_arrays(command, namespace))
		return AGGREGATE_NEEDS_ORDER;
	return projection->type == BSON_BYTE_DOCUMENT &&
			       projection_classify(projection->value, namespace).kind ==
				       PROJECTION_FORWARD
		       ? AGGREGATE_NEEDS_NOTHING
		       : AGGREGATE_NEEDS_DOCUMENTS;
}

static bool keys_read(const struct element *keys, const struct ruled_namespace *namespace)
{
	return keys->type == BSON_BYTE_DOCUMENT &&
	       reads_of_keys(keys->value, namespace).kind != READS_NOTHING;
}

/* A find, count or distinct. */
static bool query_concerns(const struct command *command, const struct ruled_namespace *one)
{
	const struct element filter = aggregate_filter(command, 0, NULL);

	return aggregate_need(command, one) != AGGREGATE_NEEDS_NOTHING ||
	       (filter.type == BSON_BYTE_DOCUMENT &&
		reads_of_filter(filter.value, one).kind != READS_NOTHING) ||
	       keys_read(&command->fields[FIELD_MIN], one) ||
	       keys_read(&command->fields[FIELD_MAX], one);
}

static bool concerns(const struct command *command, const struct ruled_namespace *namespace,
		     size_t target)
{
	const struct ruled_namespace one = ruled_alone(namespace, target);

	if (keys_read(&command->fields[FIELD_HINT], &one))
		return true;
	return aggregate_is_one(command)
		       ? !stages_suffice(command->fields[FIELD_PIPELINE].value, &one)
		       : query_concerns(command, &one);
}

bool *aggregate_list_concerned(const struct command *command,
			       const struct ruled_namespace *namespace)
{
	bool *concerned = must_calloc(namespace->target_count, sizeof(*concerned));

	for (size_t i = 0; i < namespace->target_count; i++)
		concerned[i] = concerns(command, namespace, i);
	return concerned;
}

/* ---- fields ---- */

/* mongod takes few hints beside a $natural sort, and no other field in it. */
static bool sorts_oddly(const struct command *command)
{
	const struct element *sort = &command->fields[FIELD_SORT];
	struct element natural;

	return sort->type == BSON_BYTE_DOCUMENT &&
	       document_find(sort->value, "$natural", &natural) &&
	       (command_has(command, FIELD_HINT) || !aggregate_sorts_naturally(command));
}

/* A find's $elemMatch takes no $jsonSchema, and the $match by which it is written does. */
static bool projects_by_schema(const struct command *command)
{
	static const char schema[] = "$jsonSchema";
	const struct element *projection = &command->fields[FIELD_PROJECTION];

	return projection->type == BSON_BYTE_DOCUMENT &&
	       memmem(projection->value.data, projection->value.length, schema, sizeof(schema));
}

bool aggregate_is_unsure(const struct command *command)
{
	return command->kind != COMMAND_AGGREGATE &&
	       (!options_are_usual(command) || sorts_oddly(command) || projects_by_schema(command));
}

bool aggregate_replaces(const struct element *field)
{
	static const char *const replaced[] = {
		"find", "count", "distinct", "aggregate", "filter", "query", "sort", "skip",
		"limit", "projection", "batchSize", "pipeline", "singleBatch", "noCursorTimeout",
		"key", "ntoreturn", "tailable", "awaitData", "oplogReplay", "allowPartialResults",
		"returnKey", "fields", "showRecordId", "min", "max",
		/* what servers say to each other, which changes no answer */
		"readOnce", "mirrored", "term", "allowSpeculativeMajorityRead", "resumeAfter",
		"requestResumeToken"};

	for (size_t i = 0; i < ARRAY_LENGTH(replaced); i++)
		if (element_is(field, replaced[i]))
			return true;
	return false;
}

static bool is_over_array(const void *context, struct bytes index)
{
	struct element key;

	return document_find(index, "key", &key) && key.type == BSON_BYTE_DOCUMENT &&
	       reads_of_keys(key.value, context).kind != READS_NOTHING;
}

bool aggregate_drops_hint(const struct command *command, const struct ruled_namespace *namespace,
			  const struct probe *probe)
{
	const struct element *hint = &command->fields[FIELD_HINT];

	if (!probe || probe->named.length == 0)
		return false;
	if (hint->type == BSON_BYTE_DOCUMENT)
		return reads_of_keys(hint->value, namespace).kind != READS_NOTHING;
	return hint->type == BSON_BYTE_STRING &&
	       known_indexes_judge(namespace->indexes, hint, is_over_array, namespace) ==
		       INDEX_MEANT_SO;
}
