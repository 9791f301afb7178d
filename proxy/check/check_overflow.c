/* The overflow's own validator: whether it lets pass what would be moved. mongod tells, by batches
 * put together of documents that are there. */
#include "proxy/check/check_inner.h"

#include "proxy/base/json_text.h"
#include "proxy/upstream/target.h"
#include "rules/match/fitness_judge.h"

#include <bson/bson.h>
#include <stdlib.h>

#define TRIED_MAX 100
#define TRY_TIME_MS 20000

static size_t open_stage(struct buffer *out, size_t *count, const char *operator, size_t * stage)
{
	char name[12];

	*stage = writer_open_document(out, writer_index(name, (*count)++));
	return writer_open_document(out, operator);
}

static void write_found(struct buffer *out, size_t *count, const char *array)
{
	size_t stage, match = open_stage(out, count, "$match", &stage), condition;
	char name[12];

	condition = writer_open_document(out, array);
	writer_string(out, "$type", "array");
	writer_close(out, condition);
	writer_close(out, match);
	writer_close(out, stage);
	stage = writer_open_document(out, writer_index(name, (*count)++));
	writer_int32(out, "$limit", TRIED_MAX);
	writer_close(out, stage);
}

/* {$slice: ["$list", m]} */
static void write_elements(struct buffer *out, const struct rule *rule, const char *array)
{
	size_t slice = writer_open_document(out, rule->overflow.array), list;

	list = writer_open_array(out, "$slice");
	writer_string(out, "0", array);
	writer_int64(out, "1", rule->overflow.batch_size);
	writer_close(out, list);
	writer_close(out, slice);
}

/* The fields of the first element, where it is a document. */
static void write_first(struct buffer *out, const char *name, const char *array)
{
	bson_t *built = BCON_NEW("$cond", "[", "{", "$eq", "[", "{", "$type", "{", "$first",
				 BCON_UTF8(array), "}", "}", BCON_UTF8("object"), "]", "}", "{",
				 "$first", BCON_UTF8(array), "}", "{", "}", "]");

	writer_document(out, name, (struct bytes){bson_get_data(built), built->len});
	bson_destroy(built);
}

/* Beside the elements. */
static void write_own(struct buffer *out, const struct rule *rule)
{
	static const uint8_t generation[GENERATION_BYTES];
	size_t state;
	bson_t *id = BCON_NEW("$toObjectId", BCON_UTF8("000000000000000000000001"));

	writer_document(out, "_id", (struct bytes){bson_get_data(id), id->len});
	bson_destroy(id);
	writer_string(out, rule->overflow.link, "$_id");
	if (rule->overflow.batch_field)
		writer_int32(out, rule->overflow.batch_field, 1);
	if (rule->overflow.created)
		writer_string(out, rule->overflow.created, "$$NOW");
	state = writer_open_document(out, "_spill");
	writer_binary(out, "g", (struct bytes){generation, sizeof(generation)});
	writer_int64(out, "p", 0);
	if (rule->overflow.layout == RULE_BATCHES && !rule->overflow.batch_field)
		writer_int32(out, "i", 1);
	writer_close(out, state);
}

/* What the overflow would hold of each document's array. */
static void write_made(struct buffer *out, size_t *count, const struct rule *rule)
{
	auto_free char *array = bson_strdup_printf("$%s", rule->array);
	size_t stage, made = open_stage(out, count, "$replaceWith", &stage), list, document;

	list = writer_open_array(out, "$mergeObjects");
	if (rule->overflow.layout == RULE_ELEMENTS)
		write_first(out, "0", array);
	document = writer_open_document(out, "1");
	write_own(out, rule);
	if (rule->overflow.layout == RULE_BATCHES)
		write_elements(out, rule, array);
	writer_close(out, document);
	writer_close(out, list);
	writer_close(out, made);
	writer_close(out, stage);
}

static void write_refused(struct buffer *out, size_t *count, struct bytes validator)
{
	size_t stage, match = open_stage(out, count, "$match", &stage), nor;
	char name[12];

	nor = writer_open_array(out, "$nor");
	writer_document(out, "0", validator);
	writer_close(out, nor);
	writer_close(out, match);
	writer_close(out, stage);
	stage = writer_open_document(out, writer_index(name, (*count)++));
	writer_int32(out, "$limit", 1);
	writer_close(out, stage);
}

static void write_try(struct buffer *out, const struct check_target *target, struct bytes validator)
{
	size_t start = writer_open(out), pipeline, count = 0, cursor;

	writer_string(out, "aggregate", target->namespace->collection);
	pipeline = writer_open_array(out, "pipeline");
	write_found(out, &count, target->rule->array);
	write_made(out, &count, target->rule);
	write_refused(out, &count, validator);
	writer_close(out, pipeline);
	cursor = writer_open_document(out, "cursor");
	writer_close(out, cursor);
	writer_int32(out, "maxTimeMS", TRY_TIME_MS);
	writer_close(out, start);
}

struct tried {
	const struct check_target *target;
	char *refused; /* the link of one that the validator refuses; NULL: none */
};

static void take_refused(void *context, struct bytes document)
{
	struct tried *tried = context;
	struct element link;

	if (!tried->refused && document_find(document, tried->target->rule->overflow.link, &link))
		tried->refused = json_value_text("_id", &link);
}

void check_overflow_validator(struct check *check, const struct check_target *target,
			      struct bytes entry)
{
	auto_buffer struct buffer command = {0};
	struct tried tried = {.target = target};
	struct bytes validator;

	if (!judge_has_validator(entry, &validator))
		return;
	write_try(&command, target, validator);
	(void)!link_find(check->link, target->namespace->database, buffer_view(&command),
			 take_refused, &tried);
	if (tried.refused)
		findings_add(&check->findings, "validator", target->rule->name,
			     bson_strdup_printf("the validator of '%s.%s' refuses what would be "
						"moved there of the document %s: such arrays are "
						"never moved (error 121)",
						target->overflow_database,
						target->overflow_collection, tried.refused),
			     bson_strdup("change the validator by collMod: it must let overflow "
					 "documents pass"));
	else
		findings_note(&check->findings, "validator", target->rule->name,
			      bson_strdup_printf("'%s.%s' has a validator of its own: what it "
						 "refuses is never moved (error 121)",
						 target->overflow_database,
						 target->overflow_collection));
	bson_free(tried.refused);
}
