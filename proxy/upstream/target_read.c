/* A document under a rule, and its overflow. */
#include "proxy/upstream/target_read.h"

#include "proxy/upstream/clauses.h"
#include "protocol/writer.h"
#include "rules/rule/overflow_document.h"

bool target_may_be_id(const struct element *value)
{
	return value->type != BSON_BYTE_UNDEFINED && value->type != BSON_BYTE_REGEX &&
	       value->type != BSON_BYTE_ARRAY &&
	       !(value->type == BSON_BYTE_DOCUMENT && document_begins_with_operator(value->value));
}

/* Who gets the documents. */
struct sink {
	link_document each;
	void *context;
};

must_check enum link_result target_read_document(struct link *link,
						 const struct mover_target *target,
						 const struct element *id, uint8_t **image,
						 struct bytes *document)
{
	enum link_result result;

	*image = NULL;
	if (!target_may_be_id(id))
		return LINK_DONE;
	result = command_find_one(
		link, target->database, document,
		"{find: @collection, filter: {_id: {$eq: @id}}, limit: 1, singleBatch: true, "
		"readConcern: @read_concern}",
		fill("collection", target->collection), fill("id", id));
	*image = result == LINK_DONE && document->data ? link_steal_body(link) : NULL;
	return result;
}

#define ORDERED(condition) \
	"{find: @overflow, filter: {'@link': " condition "}, sort: {'@order': 1}, readConcern: " \
	"@read_concern}"

static enum link_result read_ordered(struct link *link, const struct mover_target *target,
				     const struct element *id, const char *order, struct sink sink)
{
	return command_find(link, target->overflow_database, sink.each, sink.context,
			    id->type == BSON_BYTE_UNDEFINED ? ORDERED("{$type: 'undefined'}")
							    : ORDERED("{$eq: @id}"),
			    fill("overflow", target->overflow_collection),
			    fill("link", target->rule->overflow.link), fill("id", id),
			    fill("order", order));
}

must_check enum link_result target_read_overflow(struct link *link,
						 const struct mover_target *target,
						 const struct element *id, link_document each,
						 void *context)
{
	return read_ordered(link, target, id, overflow_order_path(target->rule),
			    (struct sink){each, context});
}

must_check enum link_result target_read_places(struct link *link, const struct mover_target *target,
					       const struct element *id, link_document each,
					       void *context)
{
	return read_ordered(link, target, id, "_spill.p", (struct sink){each, context});
}
