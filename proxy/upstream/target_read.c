/* A document under a rule, and its overflow. */
#include "proxy/upstream/target_read.h"

#include "proxy/upstream/clauses.h"
#include "protocol/writer.h"
#include "rules/rule/overflow_document.h"

must_check enum link_result target_read_document(struct link *link,
						 const struct mover_target *target,
						 const struct element *id, uint8_t **image,
						 struct bytes *document)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), filter;
	bool found = false;
	enum link_result result;

	writer_string(&out, "find", target->collection);
	filter = writer_open_document(&out, "filter");
	command_equal(&out, "_id", id->type, id->value);
	writer_close(&out, filter);
	writer_int32(&out, "limit", 1);
	writer_bool(&out, "singleBatch", true);
	command_read_concern(&out, link, link_time(link));
	writer_close(&out, start);
	result = link_find_one(link, target->database, buffer_view(&out), document, &found);
	*image = result == LINK_DONE && found ? link_steal_body(link) : NULL;
	return result;
}

must_check enum link_result target_read_overflow(struct link *link,
						 const struct mover_target *target,
						 const struct element *id, link_document each,
						 void *context)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), part;

	writer_string(&out, "find", target->overflow_collection);
	part = writer_open_document(&out, "filter");
	command_equal(&out, target->rule->overflow.link, id->type, id->value);
	writer_close(&out, part);
	part = writer_open_document(&out, "sort");
	writer_int32(&out, overflow_order_path(target->rule), 1);
	writer_close(&out, part);
	command_read_concern(&out, link, link_time(link));
	writer_close(&out, start);
	return link_find(link, target->overflow_database, buffer_view(&out), each, context);
}
