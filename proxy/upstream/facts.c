/* What a server says of a namespace: the options and indexes of a collection and of its overflow.
 */
#include "proxy/upstream/facts.h"

#include "protocol/cursor.h"
#include "proxy/upstream/clauses.h"

#include <stdlib.h>

#define NAMESPACE_NOT_FOUND 26
#define UUID_HEAD 5 /* length and subtype */
#define UUID_BYTES 16

void copies_fini(struct copies *copies)
{
	for (size_t i = 0; i < copies->count; i++)
		bytes_free(copies->list[i]);
	free(copies->list);
	*copies = (struct copies){0};
}

void copies_take(void *context, struct bytes document)
{
	struct copies *copies = context;

	if (copies->count == copies->capacity) {
		copies->capacity = copies->capacity ? 2 * copies->capacity : 16;
		copies->list = must_realloc(copies->list, copies->capacity * sizeof(*copies->list));
	}
	copies->list[copies->count++] = bytes_copy(document);
}

void facts_fini(struct collection_facts *facts)
{
	copies_fini(&facts->entry);
	copies_fini(&facts->indexes);
}

must_check enum link_result facts_read_entry(struct link *link, const char *database,
					     const char *collection, struct collection_facts *facts)
{
	copies_fini(&facts->entry);
	return command_find(link, database, copies_take, &facts->entry,
			    "{listCollections: 1, filter: {name: {$eq: @name}}}",
			    fill("name", collection));
}

must_check enum link_result facts_read_indexes(struct link *link, const char *database,
					       const char *collection,
					       struct collection_facts *facts)
{
	enum link_result result;

	copies_fini(&facts->indexes);
	result = command_find(link, database, copies_take, &facts->indexes, "{listIndexes: @name}",
			      fill("name", collection));
	facts->absent = result == LINK_REFUSED && link_error(link)->code == NAMESPACE_NOT_FOUND;
	return facts->absent ? LINK_DONE : result;
}

void facts_uuid(const struct collection_facts *facts, uint64_t halves[2])
{
	struct element uuid;

	memset(halves, 0, UUID_BYTES);
	if (facts->entry.count > 0 &&
	    document_find_path(facts->entry.list[0], "info.uuid", &uuid) &&
	    uuid.type == BSON_BYTE_BINARY && uuid.value.length == UUID_HEAD + UUID_BYTES)
		memcpy(halves, uuid.value.data + UUID_HEAD, UUID_BYTES);
}

bool facts_tell_view(const struct collection_facts *facts)
{
	struct bytes type;

	return facts->entry.count > 0 &&
	       document_find_string(facts->entry.list[0], "type", &type) && bytes_are(type, "view");
}
