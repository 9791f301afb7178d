/* The overflow's own validator: does it let pass what would be moved? mongod tells, by overflow
 * documents put together of main documents that are there. */
#include "proxy/check/check_inner.h"

#include "protocol/template.h"
#include "proxy/base/json_text.h"
#include "rules/match/fitness_judge.h"
#include "rules/rule/generation.h"

#include <bson/bson.h>

#define TRIED_MAX 100
#define TRY_TIME_MS 20000

/* What Spillway writes beside the elements (docs/internals/spill-protocol.md, "Overflow
 * document"). */
static void write_own(struct buffer *out, const struct rule *rule)
{
	static const uint8_t generation[GENERATION_BYTES];
	size_t state;

	template_write_fields(out,
			      "{_id: {$toObjectId: '000000000000000000000001'}, '@link': '$_id'}",
			      fill("link", rule->overflow.link));
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

/* What the overflow would hold of a document's array, beside the fields of its first element. */
static void write_made(struct buffer *out, const char *name, const void *context)
{
	const struct rule *rule = context;
	size_t document = writer_open_document(out, name);

	write_own(out, rule);
	if (rule->overflow.layout == RULE_BATCHES)
		template_write_fields(out, "{'@into': {$slice: ['$@array', @size]}}",
				      fill("into", rule->overflow.array),
				      fill("array", rule->array),
				      fill_int64("size", rule->overflow.batch_size));
	writer_close(out, document);
}

static void write_try(struct buffer *out, const struct check_target *target, struct bytes validator)
{
	const struct rule *rule = target->rule;
	auto_buffer struct buffer first = {0};

	template_write_document(
		&first,
		rule->overflow.layout == RULE_BATCHES
			? "{}"
			: "{$cond: [{$eq: [{$type: {$first: '$@array'}}, 'object']}, "
			  "{$first: '$@array'}, {}]}",
		fill("array", rule->array));
	template_write_document(
		out,
		"{aggregate: @collection, pipeline: [{$match: {'@array': {$type: 'array'}}}, "
		"{$limit: @tried}, {$replaceWith: {$mergeObjects: [@first, @made]}}, "
		"{$match: {$nor: [@validator]}}, {$limit: 1}], cursor: {}, maxTimeMS: @time}",
		fill("collection", target->namespace->collection), fill("array", rule->array),
		fill_int32("tried", TRIED_MAX), fill_document("first", buffer_view(&first)),
		fill_with("made", write_made, rule), fill_document("validator", validator),
		fill_int32("time", TRY_TIME_MS));
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
		findings_add(&check->findings, FINDING_OVERFLOW_REFUSED, target->rule->name,
			     "the validator of '%s.%s' refuses what would be moved there of the "
			     "document %s: such arrays are never moved (error 121)",
			     target->overflow_database, target->overflow_collection, tried.refused);
	else
		findings_add(&check->findings, FINDING_OVERFLOW_VALIDATOR, target->rule->name,
			     "'%s.%s' has a validator of its own: what it refuses is never moved "
			     "(error 121)",
			     target->overflow_database, target->overflow_collection);
	bson_free(tried.refused);
}
