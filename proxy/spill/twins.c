/* Overflow documents under one link and one number. */
#include "proxy/spill/twins.h"

#include "rules/rule/overflow_document.h"

#include <bson/bson.h>

static void keep_link(void *context, struct bytes document)
{
	buffer_append(context, document.data, document.length);
}

/* {$group: {_id: {link, place}, count: {$sum: 1}, foreign: {$max: <it has no generation>}}} */
static void append_group(bson_t *pipeline, const struct rule *rule)
{
	auto_free char *link = bson_strdup_printf("$%s", rule->overflow.link);
	auto_free char *place = bson_strdup_printf("$%s", overflow_order_path(rule));

	BCON_APPEND(pipeline, "0", "{", "$group", "{", "_id", "{", "link", "{", "$ifNull", "[",
		    BCON_UTF8(link), BCON_NULL, "]", "}", "place", "{", "$ifNull", "[",
		    BCON_UTF8(place), BCON_NULL, "]", "}", "}", "count", "{", "$sum", BCON_INT32(1),
		    "}", "foreign", "{", "$max", "{", "$eq", "[", "{", "$type",
		    BCON_UTF8("$_spill.g"), "}", BCON_UTF8("missing"), "]", "}", "}", "}", "}");
}

must_check enum link_result twins_find(struct link *link, const struct mover_target *target,
				       bool foreign, int32_t most, struct buffer *links)
{
	bson_t *pipeline = bson_new(), *command;
	enum link_result result;

	append_group(pipeline, target->rule);
	if (foreign)
		BCON_APPEND(pipeline, "1", "{", "$match", "{", "count", "{", "$gt", BCON_INT32(1),
			    "}", "foreign", BCON_BOOL(true), "}", "}");
	else
		BCON_APPEND(pipeline, "1", "{", "$match", "{", "count", "{", "$gt", BCON_INT32(1),
			    "}", "}", "}");
	BCON_APPEND(pipeline, "2", "{", "$limit", BCON_INT32(most), "}", "3", "{", "$project", "{",
		    "_id", BCON_UTF8("$_id.link"), "}", "}");
	command =
		BCON_NEW("aggregate", BCON_UTF8(target->overflow_collection), "pipeline",
			 BCON_ARRAY(pipeline), "cursor", "{", "}", "allowDiskUse", BCON_BOOL(true));
	result = link_find(link, target->overflow_database,
			   (struct bytes){bson_get_data(command), command->len}, keep_link, links);
	bson_destroy(command);
	bson_destroy(pipeline);
	return result;
}
