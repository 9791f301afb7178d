/* Names the documents that are never moved, those whose overflow is not all there, and those near
 * 16 MB. */
#include "proxy/check/check_inner.h"

#include "protocol/writer.h"
#include "proxy/base/json_text.h"
#include "proxy/mover/look.h"
#include "proxy/spill/plan.h"
#include "rules/rule/text.h"

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

static void append_where(struct buffer *out, const char *database, const char *collection,
			 const char *name, const struct element *value)
{
	char *text = json_value_text(name, value);

	text_append(out, "document %s of '%s.%s'", text, database, collection);
	bson_free(text);
}

static void take_outlier(void *context, struct bytes document)
{
	struct looking *looking = context;
	const struct check_target *target = looking->target;
	struct plan plan = plan_make(target->rule, document);
	auto_buffer struct buffer what = {0};
	struct element id;

	if ((plan.kind != PLAN_LEAVE && plan.kind != PLAN_BROKEN) ||
	    !document_find(document, "_id", &id) || looking->found++ >= NAMED_MAX)
		return;
	append_where(&what, target->namespace->database, target->namespace->collection, "_id", &id);
	text_append(&what, " is never moved: %s", plan.why);
	findings_add(&looking->check->findings, "left-alone", target->rule->name, text_steal(&what),
		     bson_strdup("change the document so that this is no longer so; until then it "
				 "is served as it is, and grows"));
}

static void take_foreign(void *context, struct bytes document)
{
	struct looking *looking = context;
	const struct check_target *target = looking->target;
	auto_buffer struct buffer what = {0};
	struct element link;

	if (!document_find(document, target->rule->overflow.link, &link) ||
	    looking->found++ >= NAMED_MAX)
		return;
	append_where(&what, target->overflow_database, target->overflow_collection,
		     target->rule->overflow.link, &link);
	text_append(&what, " has overflow that Spillway did not write: the document it belongs to "
			   "is not moved as it is");
	findings_add(&looking->check->findings, "foreign-overflow", target->rule->name,
		     text_steal(&what),
		     bson_strdup("run 'spillway migrate', which adopts what was split by hand in "
				 "the rule's layout, and lists what it can't: of these put the "
				 "elements back into their document and delete this one"));
}

static void take_large(void *context, struct bytes document)
{
	struct looking *looking = context;
	const struct check_target *target = looking->target;
	auto_buffer struct buffer what = {0};
	struct element id, bytes;
	int64_t whole = 0, array = 0;

	if (!document_find(document, "_id", &id) || looking->found++ >= NAMED_MAX)
		return;
	if (document_find(document, "whole", &bytes) && !element_integer(&bytes, &whole))
		whole = 0;
	if (document_find(document, "array", &bytes) && !element_integer(&bytes, &array))
		array = 0;
	append_where(&what, target->namespace->database, target->namespace->collection, "_id", &id);
	text_append(&what, " has %.1f MB, %.1f MB of them in the array: at 16 MB writes fail",
		    (double)whole / (1 << 20), (double)array / (1 << 20));
	findings_add(&looking->check->findings, "large-document", target->rule->name,
		     text_steal(&what),
		     array * 2 > whole
			     ? bson_strdup("let serve run: it moves the array's tail out")
			     : bson_strdup("move other fields of it elsewhere: the rule's array is "
					   "not what makes it large"));
}

static void take_missing(void *context, struct bytes document)
{
	struct looking *looking = context;
	const struct check_target *target = looking->target;
	auto_buffer struct buffer what = {0};
	struct element id, field;
	int64_t linked = 0, stored = 0;

	if (!document_find(document, "_id", &id) || looking->found++ >= NAMED_MAX)
		return;
	if (document_find(document, "linked", &field) && !element_integer(&field, &linked))
		linked = 0;
	if (document_find(document, "stored", &field) && !element_integer(&field, &stored))
		stored = 0;
	append_where(&what, target->namespace->database, target->namespace->collection, "_id", &id);
	text_append(&what,
		    " has %" PRId64 " elements in '%s.%s', of which %" PRId64
		    " are there: reads of the array fail, and conditions on it may miss what is "
		    "gone",
		    linked, target->overflow_database, target->overflow_collection, stored);
	findings_add(&looking->check->findings, "missing-overflow", target->rule->name,
		     text_steal(&what),
		     bson_strdup("bring the overflow documents back from a backup, or set the "
				 "array anew; 'spillway verify' names all such documents"));
}

/* How many more there are than were named; a look that did not get through is told. */
static void end_look(struct looking *looking, enum link_result result, const char *what)
{
	struct check *check = looking->check;
	const struct rule *rule = looking->target->rule;

	if (looking->found > NAMED_MAX)
		findings_note(
			&check->findings, "more", rule->name,
			bson_strdup_printf("and %zu more %s", looking->found - NAMED_MAX, what));
	if (result == LINK_REFUSED)
		findings_note(&check->findings, "unseen", rule->name,
			      bson_strdup_printf("%s could not be looked for: %s", what,
						 link_error(check->link)->message));
	looking->found = 0;
}

static void look_for_outliers(struct looking *looking)
{
	const struct check_target *target = looking->target;
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);

	writer_string(&out, "find", target->namespace->collection);
	look_write_candidates(&out, "filter", target->rule);
	writer_close(&out, start);
	end_look(looking,
		 link_find(looking->check->link, target->namespace->database, buffer_view(&out),
			   take_outlier, looking),
		 "documents that are never moved");
}

static void look_for_foreign(struct looking *looking)
{
	const struct check_target *target = looking->target;
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), filter, missing, projection;

	writer_string(&out, "find", target->overflow_collection);
	filter = writer_open_document(&out, "filter");
	missing = writer_open_document(&out, "_spill");
	writer_bool(&out, "$exists", false);
	writer_close(&out, missing);
	writer_close(&out, filter);
	projection = writer_open_document(&out, "projection");
	writer_int32(&out, target->rule->overflow.link, 1);
	writer_close(&out, projection);
	writer_close(&out, start);
	end_look(looking,
		 link_find(looking->check->link, target->overflow_database, buffer_view(&out),
			   take_foreign, looking),
		 "overflow documents that Spillway did not write");
}

/* {$lookup: {from, localField: "_id", foreignField: link, let, pipeline: [{$match: <generation>},
 * {$group: {_id: null, n: {$sum: <elements>}}}], as: "stored"}} */
static bson_t *make_join(const struct check_target *target, const char *path)
{
	auto_free char *generation = bson_strdup_printf("$%s.g", path);
	auto_free char *array = bson_strdup_printf(
		"$%s", target->rule->overflow.array ? target->rule->overflow.array : "");
	bson_t *elements = target->rule->overflow.layout == RULE_BATCHES
				   ? BCON_NEW("$sum", "{", "$size", BCON_UTF8(array), "}")
				   : BCON_NEW("$sum", BCON_INT32(1));
	bson_t *join = BCON_NEW("from", BCON_UTF8(target->overflow_collection), "localField", "_id",
				"foreignField", BCON_UTF8(target->rule->overflow.link), "let", "{",
				"g", BCON_UTF8(generation), "}", "pipeline", "[", "{", "$match",
				"{", "$expr", "{", "$eq", "[", "$_spill.g", "$$g", "]", "}", "}",
				"}", "{", "$group", "{", "_id", BCON_NULL, "n",
				BCON_DOCUMENT(elements), "}", "}", "]", "as", "stored");

	bson_destroy(elements);
	return join;
}

/* A sum shows what is gone, not which: 'verify' looks at each document. */
static void look_for_missing(struct looking *looking)
{
	const struct check_target *target = looking->target;
	auto_free char *path = bson_strdup_printf("_spill.%s", target->rule->key);
	auto_free char *count = bson_strdup_printf("%s.n", path);
	auto_free char *linked = bson_strdup_printf("$%s", count);
	bson_t *join, *command;

	if (strcmp(target->namespace->database, target->overflow_database) != 0)
		return;
	join = make_join(target, path);
	command = BCON_NEW("aggregate", BCON_UTF8(target->namespace->collection), "pipeline", "[",
			   "{", "$match", "{", BCON_UTF8(count), "{", "$gt", BCON_INT32(0), "}",
			   "}", "}", "{", "$lookup", BCON_DOCUMENT(join), "}", "{", "$project", "{",
			   "linked", BCON_UTF8(linked), "stored", "{", "$sum", "$stored.n", "}",
			   "}", "}", "{", "$match", "{", "$expr", "{", "$lt", "[", "$stored",
			   "$linked", "]", "}", "}", "}", "]", "cursor", "{", "}", "maxTimeMS",
			   BCON_INT32(SCAN_TIME_MS));
	end_look(looking,
		 link_find(looking->check->link, target->namespace->database,
			   (struct bytes){bson_get_data(command), command->len}, take_missing,
			   looking),
		 "documents with missing overflow");
	bson_destroy(command);
	bson_destroy(join);
}

static void look_for_large(struct looking *looking)
{
	const struct check_target *target = looking->target;
	auto_free char *array = bson_strdup_printf("$%s", target->rule->array);
	bson_t *command = BCON_NEW(
		"aggregate", BCON_UTF8(target->namespace->collection), "pipeline", "[", "{",
		"$match", "{", "$expr", "{", "$gte", "[", "{", "$bsonSize", "$$ROOT", "}",
		BCON_INT32(LARGE_BYTES), "]", "}", "}", "}", "{", "$project", "{", "whole", "{",
		"$bsonSize", "$$ROOT", "}", "array", "{", "$bsonSize", "{", "a", BCON_UTF8(array),
		"}", "}", "}", "}", "]", "cursor", "{", "}", "maxTimeMS", BCON_INT32(SCAN_TIME_MS));

	end_look(looking,
		 link_find(looking->check->link, target->namespace->database,
			   (struct bytes){bson_get_data(command), command->len}, take_large,
			   looking),
		 "documents near 16 MB");
	bson_destroy(command);
}

void check_documents(struct check *check, const struct check_target *target)
{
	struct looking looking = {check, target, 0};

	look_for_outliers(&looking);
	look_for_foreign(&looking);
	look_for_missing(&looking);
	look_for_large(&looking);
}
