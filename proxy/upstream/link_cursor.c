/* Commands that return a cursor. */
#include "proxy/upstream/link_inner.h"

#include "protocol/template.h"
#include "protocol/writer.h"
#include "rules/rule/names.h"

#include <stdlib.h>

/* One batch of a cursor: its documents to `each`, then what getMore needs. */
static bool take_batch(struct link *link, link_document each, void *context, int64_t *id,
		       char **collection)
{
	struct cursor cursor;
	struct element batch, element;
	struct bytes documents, document, name, database;

	if (!document_find(link->reply.cursor, "firstBatch", &batch) &&
	    !document_find(link->reply.cursor, "nextBatch", &batch))
		return false;
	if (!element_document(&batch, &documents) || !cursor_open(&cursor, documents))
		return false;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (element_document(&element, &document))
			each(context, document);
	}
	if (!document_find_integer(link->reply.cursor, "id", id))
		return false;
	if (*id == 0 || *collection)
		return true;
	if (!document_find_string(link->reply.cursor, "ns", &name))
		return false;
	if (!name_split(name, &database, &name))
		return false;
	*collection = must_strndup((const char *)name.data, name.length);
	return true;
}

static enum link_result get_more(struct link *link, const char *database, int64_t id,
				 const char *collection)
{
	auto_buffer struct buffer command = {0};

	template_write_document(&command, "{getMore: @id, collection: @collection}", fill("id", id),
				fill("collection", collection));
	return link_run(link, database, buffer_view(&command));
}

/* Who stops, or has lost the link, asks for no more of it. The server would keep it for ten
 * minutes, and a new rule would wait for its end (open_reads.h). That of a transaction ends with
 * that. */
static void kill_cursor(struct link *link, const char *database, int64_t id, const char *collection)
{
	auto_buffer struct buffer command = {0};

	if (link->session)
		return;
	template_write_document(&command, "{killCursors: @collection, cursors: [@id]}",
				fill("collection", collection), fill("id", id));
	link_tell(link, database, buffer_view(&command));
}

static void keep_body(struct link *link, struct replies *replies)
{
	replies->bodies =
		must_realloc(replies->bodies, (replies->count + 1) * sizeof(*replies->bodies));
	replies->bodies[replies->count++] = link_steal_body(link);
}

void replies_free(struct replies *replies)
{
	for (size_t i = 0; i < replies->count; i++)
		bson_free(replies->bodies[i]);
	free(replies->bodies);
	*replies = (struct replies){0};
}

/* What becomes of the replies. All zeros: each goes with the next. */
struct keeping {
	struct replies *replies; /* NULL: none is kept */
	const bool *enough;      /* once true, no more is asked for, and the reply stays. NULL: all
				    is */
};

/* All of it is wanted, so a find asks for as much as fits into a reply. Most have an end in the
 * first one: if this process is killed before it asks for more, no cursor stays at the server,
 * which would keep it for half an hour. */
static struct bytes in_few_replies(struct buffer *out, struct bytes command)
{
	struct element first, size;
	size_t start;

	if (!document_first(command, &first) || !element_is(&first, "find") ||
	    document_find(command, "batchSize", &size))
		return command;
	start = writer_open(out);
	buffer_append(out, command.data + 4, command.length - 5);
	writer_int32(out, "batchSize", INT32_MAX);
	writer_close(out, start);
	return buffer_view(out);
}

static enum link_result find_all(struct link *link, const char *database, struct bytes command,
				 link_document each, void *context, const struct keeping *keeping)
{
	auto_buffer struct buffer scratch = {0};
	auto_free char *collection = NULL;
	enum link_result result = link_run(link, database, in_few_replies(&scratch, command));
	int64_t id = 0;

	while (result == LINK_DONE) {
		if (!take_batch(link, each, context, &id, &collection)) {
			link_fail(link, 0, "the server's cursor can't be read");
			link->dead = true;
			return LINK_LOST;
		}
		if (keeping->replies)
			keep_body(link, keeping->replies);
		if (id == 0)
			break;
		if (keeping->enough && *keeping->enough) {
			kill_cursor(link, database, id, collection);
			break;
		}
		result = get_more(link, database, id, collection);
		if (result == LINK_LOST)
			kill_cursor(link, database, id, collection);
	}
	return result;
}

must_check enum link_result link_find(struct link *link, const char *database, struct bytes command,
				      link_document each, void *context)
{
	return find_all(link, database, command, each, context, &(struct keeping){0});
}

must_check enum link_result link_find_kept(struct link *link, const char *database,
					   struct bytes command, link_document each, void *context,
					   struct replies *replies)
{
	return find_all(link, database, command, each, context,
			&(struct keeping){.replies = replies});
}

struct first {
	struct bytes document;
	bool found;
};

static void keep_first(void *context, struct bytes document)
{
	struct first *first = context;

	if (!first->found)
		*first = (struct first){document, true};
}

must_check enum link_result link_find_one(struct link *link, const char *database,
					  struct bytes command, struct bytes *document, bool *found)
{
	struct first first = {0};
	const struct keeping keeping = {.enough = &first.found};
	enum link_result result = find_all(link, database, command, keep_first, &first, &keeping);

	if (result != LINK_DONE)
		return result;
	*found = first.found;
	if (first.found)
		*document = first.document;
	return result;
}
