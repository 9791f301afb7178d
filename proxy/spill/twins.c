/* Overflow documents under one link and one number. */
#include "proxy/spill/twins.h"

#include "proxy/upstream/clauses.h"
#include "rules/rule/overflow_document.h"

/* What comes without a link comes from no mongod. */
static void keep_link(void *context, struct bytes document)
{
	struct element link;

	if (document_find(document, "_id", &link))
		buffer_append(context, document.data, document.length);
}

#define TWINS(foreign) \
	"{aggregate: @overflow, pipeline: [{$group: {_id: {link: {$ifNull: ['$@link', null]}, " \
	"place: {$ifNull: ['$@order', null]}}, count: {$sum: 1}, foreign: {$max: {$eq: [{$type: " \
	"'$_spill.g'}, 'missing']}}}}, {$match: {count: {$gt: 1}" foreign "}}, {$limit: @most}, " \
	"{$project: {_id: '$_id.link'}}], cursor: {}, allowDiskUse: true}"

must_check enum link_result twins_find(struct link *link, const struct mover_target *target,
				       bool foreign, int32_t most, struct buffer *links)
{
	return command_find(link, target->overflow_database, keep_link, links,
			    foreign ? TWINS(", foreign: true") : TWINS(""),
			    fill("overflow", target->overflow_collection),
			    fill("link", target->rule->overflow.link),
			    fill("order", overflow_order_path(target->rule)), fill("most", most));
}
