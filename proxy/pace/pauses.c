/* Which rules an operator has paused: read and written. */
#include "proxy/pace/pauses.h"

#include "proxy/upstream/clauses.h"

#define DATABASE "spillway"

must_check enum link_result pauses_each(struct link *link, link_document each, void *context)
{
	return link_unless_unauthorized(
		link, link_lost_or_unauthorized(
			      link, command_find(link, DATABASE, each, context,
						 "{find: 'rules', filter: {'_id.pause': {$exists: "
						 "true}}}")));
}

static void take_one(void *context, struct bytes pause)
{
	bool *paused = context;

	*paused = pause.length > 0;
}

must_check enum link_result pauses_ask(struct link *link, const char *rule, bool *paused)
{
	*paused = false;
	return link_unless_unauthorized(
		link,
		link_lost_or_unauthorized(
			link,
			command_find(link, DATABASE, take_one, paused,
				     "{find: 'rules', filter: {_id: {pause: @rule}}, limit: 1, "
				     "singleBatch: true}",
				     fill("rule", rule))));
}

must_check enum link_result pauses_write(struct link *link, const char *rule, const char *by,
					 bool *changed)
{
	enum link_result result = command_run(
		link, DATABASE,
		"{update: 'rules', updates: [{q: {_id: {pause: @rule}}, u: [{$replaceWith: {$cond: "
		"[{$eq: "
		"[{$type: '$since'}, 'missing']}, {_id: '$_id', since: '$$NOW', by: {$literal: "
		"@by}}, '$$ROOT']}}], upsert: true}], writeConcern: @write_concern}",
		fill("rule", rule), fill("by", by));
	struct element upserted;

	*changed = result == LINK_DONE && document_find(link_body(link), "upserted", &upserted);
	return result;
}

must_check enum link_result pauses_remove(struct link *link, const char *rule, bool *changed)
{
	enum link_result result =
		command_run(link, DATABASE,
			    "{delete: 'rules', deletes: [{q: {_id: {pause: @rule}}, limit: 1}], "
			    "writeConcern: @write_concern}",
			    fill("rule", rule));

	*changed = result == LINK_DONE && link_reply(link)->n == 1;
	return result;
}
