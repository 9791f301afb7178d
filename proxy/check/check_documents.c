/* Names the documents that are never moved, those whose overflow is not all there, and those near
 * 16 MB. */
#include "proxy/check/check_inner.h"

#include "protocol/template.h"
#include "proxy/base/json_text.h"
#include "proxy/mover/look.h"
#include "proxy/spill/plan.h"

#include <bson/bson.h>
#include <inttypes.h>

#define NAMED_MAX 20 /* of one rule and one kind; the rest is counted */

#define LARGE_BYTES (12 << 20) /* from here on a document is near 16 MB */
#define SCAN_TIME_MS 50000

struct looking {
	struct check *check;
	const struct check_target *target;
	size_t found;
};

/* The document as people write it, freed with bson_free; NULL if enough have been named. */
static char *name_next(struct looking *looking, const char *field, struct bytes document)
{
	struct element value;

	if (!document_find(document, field, &value) || looking->found++ >= NAMED_MAX)
		return NULL;
	return json_value_text(field, &value);
}

static int64_t number_at(struct bytes document, const char *name)
{
	struct element element;
	int64_t number = 0;

	return document_find(document, name, &element) && element_integer(&element, &number)
		       ? number
		       : 0;
}

static void take_outlier(void *context, struct bytes document)
{
	struct looking *looking = context;
	const struct check_target *target = looking->target;
	struct plan plan = plan_make(target->rule, document);
	char *id;

	if (plan.kind != PLAN_LEAVE && plan.kind != PLAN_BROKEN)
		return;
	id = name_next(looking, "_id", document);
	if (id)
		findings_add(&looking->check->findings, FINDING_LEFT_ALONE, target->rule->name,
			     "document %s of '%s.%s' is never moved: %s", id,
			     target->namespace->database, target->namespace->collection, plan.why);
	bson_free(id);
}

static void take_foreign(void *context, struct bytes document)
{
	struct looking *looking = context;
	const struct check_target *target = looking->target;
	char *link = name_next(looking, target->rule->overflow.link, document);

	if (link)
		findings_add(&looking->check->findings, FINDING_FOREIGN_OVERFLOW,
			     target->rule->name,
			     "document %s of '%s.%s' has overflow that Spillway did not write: the "
			     "document it belongs to is not moved as it is",
			     link, target->overflow_database, target->overflow_collection);
	bson_free(link);
}

static void take_large(void *context, struct bytes document)
{
	struct looking *looking = context;
	const struct check_target *target = looking->target;
	struct findings *findings = &looking->check->findings;
	int64_t whole = number_at(document, "whole"), array = number_at(document, "array");
	char *id = name_next(looking, "_id", document);

	if (!id)
		return;
	findings_add(findings, FINDING_LARGE_DOCUMENT, target->rule->name,
		     "document %s of '%s.%s' has %.1f MB, %.1f MB of them in the array: at 16 MB "
		     "writes fail",
		     id, target->namespace->database, target->namespace->collection,
		     (double)whole / (1 << 20), (double)array / (1 << 20));
	if (array * 2 <= whole)
		findings_remedy(findings, "move other fields of it elsewhere: the rule's array is "
					  "not what makes it large");
	bson_free(id);
}

static void take_missing(void *context, struct bytes document)
{
	struct looking *looking = context;
	const struct check_target *target = looking->target;
	char *id = name_next(looking, "_id", document);

	if (id)
		findings_add(&looking->check->findings, FINDING_MISSING_OVERFLOW,
			     target->rule->name,
			     "document %s of '%s.%s' has %" PRId64
			     " elements in '%s.%s', of which %" PRId64
			     " are there: reads of the array fail, and conditions on it may miss "
			     "what is gone",
			     id, target->namespace->database, target->namespace->collection,
			     number_at(document, "linked"), target->overflow_database,
			     target->overflow_collection, number_at(document, "stored"));
	bson_free(id);
}

/* Runs the command, counts the documents that were not named, and says what could not be seen. */
static void look_for(struct looking *looking, const char *database, const struct buffer *command,
		     link_document take, const char *what)
{
	struct check *check = looking->check;
	const char *rule = looking->target->rule->name;
	enum link_result result;

	looking->found = 0;
	result = link_find(check->link, database, buffer_view(command), take, looking);
	if (looking->found > NAMED_MAX)
		findings_add(&check->findings, FINDING_MORE_DOCUMENTS, rule, "and %zu more %s",
			     looking->found - NAMED_MAX, what);
	if (result == LINK_REFUSED)
		findings_add(&check->findings, FINDING_DOCUMENTS_UNSEEN, rule,
			     "%s could not be looked for: %s", what,
			     link_error(check->link)->message);
}

static void look_for_outliers(struct looking *looking)
{
	const struct check_target *target = looking->target;
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);

	writer_string(&out, "find", target->namespace->collection);
	look_write_candidates(&out, "filter", target->rule);
	writer_close(&out, start);
	look_for(looking, target->namespace->database, &out, take_outlier,
		 "documents that are never moved");
}

static void look_for_foreign(struct looking *looking)
{
	const struct check_target *target = looking->target;
	auto_buffer struct buffer out = {0};

	template_write_document(&out,
				"{find: @overflow, filter: {_spill: {$exists: false}}, "
				"projection: {'@link': 1}}",
				fill("overflow", target->overflow_collection),
				fill("link", target->rule->overflow.link));
	look_for(looking, target->overflow_database, &out, take_foreign,
		 "overflow documents that Spillway did not write");
}

/* In an array that was edited in place, as placed_counts has it. */
#define COUNTS \
	"{$and: [{$in: ['$_spill.g', ['$$s.e.g', '$$s.e.l']]}, {$lt: ['$_spill.p', {$cond: " \
	"[{$eq: " \
	"['$_spill.g', '$$s.e.g']}, '$$s.e.b', '$$s.e.n']}]}, {$lte: [{$ifNull: ['$_spill.e', " \
	"0]}, '$$s.e.v']}, {$or: [{$eq: [{$type: '$_spill.u'}, 'missing']}, {$lt: ['$$s.e.v', " \
	"'$_spill.u']}]}]}"

/* A sum shows what is gone, not which: 'verify' looks at each document. */
static void look_for_missing(struct looking *looking)
{
	const struct check_target *target = looking->target;
	const struct rule *rule = target->rule;
	auto_buffer struct buffer out = {0}, size = {0};
	struct fill elements = fill_int32("elements", 1); /* of one overflow document */

	if (strcmp(target->namespace->database, target->overflow_database) != 0)
		return;
	if (rule->overflow.layout == RULE_BATCHES) {
		template_write_document(&size,
					"{$cond: [{$isArray: '$@array'}, {$size: '$@array'}, 0]}",
					fill("array", rule->overflow.array));
		elements = fill_document("elements", buffer_view(&size));
	}
	template_write_document(
		&out,
		"{aggregate: @collection, pipeline: ["
		"{$match: {$or: [{'_spill.@key.n': {$gt: 0}}, {'_spill.@key.e.n': {$gt: 0}, "
		" '_spill.@key.e.r': {$type: 'number'}}]}},"
		"{$lookup: {from: @overflow, localField: '_id', foreignField: @link, "
		" let: {s: '$_spill.@key'}, pipeline: ["
		"  {$match: {$expr: {$cond: [{$eq: [{$type: '$$s.e'}, 'object']}, " COUNTS ", "
		"   {$eq: ['$_spill.g', '$$s.g']}]}}},"
		"  {$group: {_id: null, n: {$sum: @elements}}}], as: 'stored'}},"
		"{$project: {linked: {$ifNull: ['$_spill.@key.n', {$subtract: "
		" ['$_spill.@key.e.n', '$_spill.@key.e.r']}]}, stored: {$sum: '$stored.n'}}},"
		"{$match: {$expr: {$lt: ['$stored', '$linked']}}}], cursor: {}, maxTimeMS: @time}",
		fill("collection", target->namespace->collection), fill("key", rule->key),
		fill("overflow", target->overflow_collection), fill("link", rule->overflow.link),
		elements, fill_int32("time", SCAN_TIME_MS));
	look_for(looking, target->namespace->database, &out, take_missing,
		 "documents with missing overflow");
}

static void look_for_large(struct looking *looking)
{
	const struct check_target *target = looking->target;
	auto_buffer struct buffer out = {0};

	template_write_document(
		&out,
		"{aggregate: @collection, pipeline: ["
		"{$match: {$expr: {$gte: [{$bsonSize: '$$ROOT'}, @large]}}},"
		"{$project: {whole: {$bsonSize: '$$ROOT'}, array: {$bsonSize: {a: '$@array'}}}}],"
		"cursor: {}, maxTimeMS: @time}",
		fill("collection", target->namespace->collection),
		fill("array", target->rule->array), fill_int32("large", LARGE_BYTES),
		fill_int32("time", SCAN_TIME_MS));
	look_for(looking, target->namespace->database, &out, take_large, "documents near 16 MB");
}

void check_documents(struct check *check, const struct check_target *target)
{
	struct looking looking = {check, target, 0};

	look_for_outliers(&looking);
	look_for_foreign(&looking);
	look_for_missing(&looking);
	look_for_large(&looking);
}
