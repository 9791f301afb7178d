/* Removes what no edition needs any more, of an array that was edited in place. */
#include "proxy/spill/expired.h"

#include "proxy/upstream/clauses.h"
#include "rules/rule/overflow_document.h"

/* By one transaction: mongod ends one after a minute, and takes no command above 16 MB. */
#define REMOVED_AT_ONCE 1000

void expired_note(struct expired *expired, const struct state *state)
{
	*expired = (struct expired){.any = true,
				    .pending = state->pending.data,
				    .bound = state->bound,
				    .edition = state->edition};
	memcpy(expired->older, state->generation.data, GENERATION_BYTES);
	memcpy(expired->later, state->later.data, GENERATION_BYTES);
	if (state->pending.data)
		memcpy(expired->name, state->pending.data, GENERATION_BYTES);
}

/* One removal. */
struct removing {
	struct link *link;
	const struct mover_target *target;
	const struct element *id;
	const struct expired *expired;
	bool pending;        /* it was not looked yet what an edit has left that died */
	struct buffer found; /* {_id, number, position}, one behind the other */
	size_t count;        /* of these */
};

#define NAMES(removing) \
	fill("overflow", (removing)->target->overflow_collection), \
		fill("collection", (removing)->target->collection), \
		fill("link", (removing)->target->rule->overflow.link), \
		fill("order", overflow_order_path((removing)->target->rule)), \
		fill("key", (removing)->target->rule->key), fill("id", (removing)->id), \
		fill_binary("older", \
			    (struct bytes){(removing)->expired->older, GENERATION_BYTES}), \
		fill_binary("later", \
			    (struct bytes){(removing)->expired->later, GENERATION_BYTES}), \
		fill("bound", (removing)->expired->bound), \
		fill("edition", (removing)->expired->edition)

static void take(void *context, struct bytes document)
{
	struct removing *removing = context;

	buffer_append(&removing->found, document.data, document.length);
	removing->count++;
}

static enum link_result find(struct removing *removing)
{
	return command_find(
		removing->link, removing->target->overflow_database, take, removing,
		"{find: @overflow, filter: {'@link': {$eq: @id}, $or: [{'_spill.g': {$in: [@older, "
		"@later]}, '_spill.u': {$lte: @edition}}, {'_spill.g': @older, '_spill.p': {$gte: "
		"@bound}}]}, projection: {_id: 1, number: '$@order', position: '$_spill.p'}, "
		"limit: @most}",
		NAMES(removing), fill("most", REMOVED_AT_ONCE));
}

static void splice_ids(struct buffer *out, size_t *place, const void *context)
{
	const struct removing *removing = context;
	struct bytes left = buffer_view(&removing->found), document;
	struct element id;
	char name[12];

	while (left.length > 0) {
		document = (struct bytes){left.data, (size_t)load_int32(left.data)};
		left = (struct bytes){left.data + document.length, left.length - document.length};
		if (document_find(document, "_id", &id))
			writer_renamed(out, writer_index(name, (*place)++), &id);
	}
}

static enum link_result remove_found(struct removing *removing)
{
	return command_run(removing->link, removing->target->overflow_database,
			   "{delete: @overflow, deletes: [{q: {_id: {$in: [..@ids]}, '@link': "
			   "{$eq: @id}}, limit: 0}], writeConcern: @write_concern}",
			   NAMES(removing), fill_spliced("ids", splice_ids, removing));
}

/* G3: the youngest copy of what was removed gets its number. */
static enum link_result hand_on(struct removing *removing, struct bytes document)
{
	struct element number, position;
	int64_t value;

	if (!document_find(document, "number", &number) || !element_integer(&number, &value) ||
	    value <= 0 || !document_find(document, "position", &position))
		return LINK_DONE;
	return command_run(
		removing->link, removing->target->overflow_database,
		"{findAndModify: @overflow, query: {'@link': {$eq: @id}, '_spill.g': "
		"@later, '_spill.p': @position, '@order': {$lt: 0}}, sort: {'_spill.e': "
		"-1}, fields: {_id: 1}, update: {$set: {'@order': @number}}, writeConcern: "
		"@write_concern}",
		NAMES(removing), fill("position", &position), fill("number", &number));
}

static enum link_result hand_numbers_on(struct removing *removing)
{
	struct bytes left = buffer_view(&removing->found), document;
	enum link_result result = LINK_DONE;

	while (result == LINK_DONE && left.length > 0) {
		document = (struct bytes){left.data, (size_t)load_int32(left.data)};
		left = (struct bytes){left.data + document.length, left.length - document.length};
		result = hand_on(removing, document);
	}
	return result;
}

/* What an edit has left that died behind X1: as the next edit would. If it goes on yet, it misses
 * its name, and begins anew. `*more`: it was so. */
static enum link_result clean(struct removing *removing, bool *more)
{
	const struct expired *expired = removing->expired;
	enum link_result result = command_run(
		removing->link, removing->target->database,
		"{update: @collection, updates: [{q: {_id: {$eq: @id}, '_spill.@key.e.w': @name, "
		"'_spill.@key.e.v': @edition}, u: {$unset: {'_spill.@key.e.w': ''}}}], "
		"writeConcern: @write_concern}",
		NAMES(removing),
		fill_binary("name", (struct bytes){expired->name, GENERATION_BYTES}));

	*more = result == LINK_DONE && link_reply(removing->link)->n == 1;
	if (!*more)
		return result;
	result = command_run(removing->link, removing->target->overflow_database,
			     "{delete: @overflow, deletes: [{q: {'@link': {$eq: @id}, '_spill.g': "
			     "@later, '_spill.e': {$gt: @edition}}, limit: 0}], writeConcern: "
			     "@write_concern}",
			     NAMES(removing));
	if (result != LINK_DONE)
		return result;
	return command_run(
		removing->link, removing->target->overflow_database,
		"{update: @overflow, updates: [{q: {'@link': {$eq: @id}, '_spill.g': {$in: "
		"[@older, @later]}, '_spill.u': {$gt: @edition}}, u: {$unset: "
		"{'_spill.u': ''}}, multi: true}], writeConcern: @write_concern}",
		NAMES(removing));
}

static enum link_result transact(struct removing *removing, bool *any)
{
	enum link_result result = LINK_DONE;

	*any = false;
	if (removing->pending)
		result = clean(removing, any);
	if (result == LINK_DONE)
		result = find(removing);
	if (result != LINK_DONE || removing->found.length == 0)
		return result;
	*any = true;
	result = remove_found(removing);
	return result == LINK_DONE ? hand_numbers_on(removing) : result;
}

static enum link_result remove_some(struct removing *removing)
{
	enum link_result result = link_begin(removing->link);
	bool any;

	removing->found.length = removing->count = 0;
	if (result != LINK_DONE)
		return result;
	result = transact(removing, &any);
	if (result == LINK_DONE && any)
		return link_commit(removing->link);
	link_abort(removing->link);
	return result;
}

must_check enum link_result expired_remove(struct link *link, const struct mover_target *target,
					   const struct element *id, const struct expired *expired)
{
	struct removing removing = {.link = link,
				    .target = target,
				    .id = id,
				    .expired = expired,
				    .pending = expired->pending};
	enum link_result result = LINK_DONE;

	if (link_standalone(link))
		return LINK_DONE;
	do {
		result = remove_some(&removing);
		removing.pending = false;
	} while (result == LINK_DONE && removing.count == REMOVED_AT_ONCE);
	buffer_fini(&removing.found);
	return result;
}
