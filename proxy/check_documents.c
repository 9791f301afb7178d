/* Names the documents that are never moved. */
#include "proxy/check_documents.h"

#include "protocol/writer.h"
#include "proxy/mover_link.h"
#include "proxy/mover_look.h"
#include "proxy/mover_plan.h"

#include <bson/bson.h>
#include <stdio.h>

#define NAMED_MAX 20 /* of one rule and one kind; the rest is counted */

struct looking {
	const struct target *target;
	const struct ruled_namespace *namespace;
	size_t found;
};

/* An `_id` or link as people write it. */
static char *value_as_text(const struct element *value)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);
	bson_t document;

	writer_renamed(&out, "_id", value);
	writer_close(&out, start);
	require(bson_init_static(&document, out.data, out.length));
	return bson_as_relaxed_extended_json(&document, NULL);
}

static void name_document(struct looking *looking, const char *where, const char *name,
			  struct bytes document, const char *why)
{
	struct element value;
	char *text;

	if (looking->found++ >= NAMED_MAX || !document_find(document, name, &value))
		return;
	text = value_as_text(&value);
	printf("rule '%s': %s %s: %s\n", looking->target->rule->name, where, text, why);
	bson_free(text);
}

static void take_outlier(void *context, struct bytes document)
{
	struct looking *looking = context;
	struct plan plan = plan_make(looking->target->rule, document);
	char where[300];

	if (plan.kind != PLAN_LEAVE && plan.kind != PLAN_BROKEN)
		return;
	snprintf(where, sizeof(where), "'%s.%s' document", looking->namespace->database,
		 looking->namespace->collection);
	name_document(looking, where, "_id", document, plan.why);
}

static void take_foreign(void *context, struct bytes document)
{
	struct looking *looking = context;
	char where[300];

	snprintf(where, sizeof(where),
		 "'%s.%s' has overflow that Spillway did not write, for document",
		 looking->target->overflow_database, looking->target->overflow_collection);
	name_document(looking, where, looking->target->rule->overflow.link, document,
		      "the document it belongs to is left as it is");
}

static void say_more(const struct looking *looking)
{
	if (looking->found > NAMED_MAX)
		printf("rule '%s': and %zu more\n", looking->target->rule->name,
		       looking->found - NAMED_MAX);
}

static enum link_result look_for_outliers(struct looking *looking, struct link *link)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);
	enum link_result result;

	writer_string(&out, "find", looking->namespace->collection);
	look_write_candidates(&out, "filter", looking->target->rule);
	writer_close(&out, start);
	looking->found = 0;
	result = link_find(link, looking->namespace->database, buffer_view(&out), take_outlier,
			   looking);
	say_more(looking);
	return result;
}

static enum link_result look_for_foreign(struct looking *looking, struct link *link)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), filter, missing, projection;
	enum link_result result;

	writer_string(&out, "find", looking->target->overflow_collection);
	filter = writer_open_document(&out, "filter");
	missing = writer_open_document(&out, "_spill");
	writer_bool(&out, "$exists", false);
	writer_close(&out, missing);
	writer_close(&out, filter);
	projection = writer_open_document(&out, "projection");
	writer_int32(&out, looking->target->rule->overflow.link, 1);
	writer_close(&out, projection);
	writer_close(&out, start);
	looking->found = 0;
	result = link_find(link, looking->target->overflow_database, buffer_view(&out),
			   take_foreign, looking);
	say_more(looking);
	return result;
}

static size_t check_target(struct link *link, const struct ruled_namespace *namespace,
			   const struct target *target)
{
	struct looking looking = {target, namespace, 0};
	size_t found = 0;
	enum link_result result = look_for_outliers(&looking, link);

	found += looking.found;
	if (result == LINK_DONE) {
		result = look_for_foreign(&looking, link);
		found += looking.found;
	}
	if (result != LINK_DONE)
		fprintf(stderr, "rule '%s': '%s.%s' could not be looked through: %s\n",
			target->rule->name, namespace->database, namespace->collection,
			link_error(link)->message);
	return found;
}

static size_t check_rules(struct link *link, struct rule_set *rules)
{
	struct namespace_cache *namespaces = namespace_cache_new(rules);
	size_t found = 0;

	for (size_t i = 0; i < rule_set_count(rules); i++) {
		const struct rule *rule = rule_set_at(rules, i);
		const struct ruled_namespace *namespace;
		bool full;

		if (strchr(rule->database, '*') || strchr(rule->collection, '*'))
			continue; /* serve looks at what its patterns match */
		namespace = namespace_cache_find(namespaces, bytes_of(rule->database),
						 bytes_of(rule->collection), &full);
		for (size_t t = 0; namespace && t < namespace->target_count; t++)
			if (namespace->targets[t].rule == rule)
				found += check_target(link, namespace, &namespace->targets[t]);
	}
	namespace_cache_free(namespaces);
	return found;
}

size_t check_documents(const struct config *config)
{
	atomic_bool stopping = false;
	bson_error_t error;
	struct link *link = link_open(config->upstream_uri, &stopping, &error);
	size_t found;

	if (!link) {
		fprintf(stderr, "only the file was checked: no server answers: %s\n",
			error.message);
		return 0;
	}
	found = check_rules(link, config->rules);
	link_free(link);
	return found;
}
