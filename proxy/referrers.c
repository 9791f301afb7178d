/* Which collection's documents refer to what lies in an overflow.
 *
 * A generation's name is random, so a state that holds it is the one that counts its elements: an
 * `_id` that equals the link proves nothing. */
#include "proxy/referrers.h"

#include "protocol/cursor.h"
#include "proxy/mover_command.h"

#include <bson/bson.h>
#include <stdio.h>

#define SAMPLE 500            /* overflow documents */
#define LINK_BYTES (4 << 20)  /* of their links in one question */
#define COLLECTIONS_MOST 1000 /* that are asked */

struct asking {
	struct link *link;
	const struct mover_target *target;
	struct buffer links;             /* an array: of the sample */
	uint8_t generations[SAMPLE][16]; /* those that nobody was seen to refer to */
	size_t count;
	bool own;   /* the target's collection is asked */
	bool mine;  /* it refers to some by the target's array */
	bool other; /* somebody does by another */
};

static struct bytes view_of(const bson_t *document)
{
	return (struct bytes){bson_get_data(document), document->len};
}

static bool take_generation(struct bytes document, const char *path, const uint8_t **generation)
{
	struct element element;

	if (!document_find_path(document, path, &element) || element.type != BSON_BYTE_BINARY ||
	    element.value.length != 4 + 1 + 16)
		return false;
	*generation = element.value.data + 5;
	return true;
}

/* What can't be looked at is not empty. */
static enum link_result find_any(struct asking *asking, bool *any)
{
	bson_t *command = BCON_NEW("find", BCON_UTF8(asking->target->overflow_collection), "filter",
				   "{", "_spill.g", "{", "$type", BCON_UTF8("binData"), "}", "}",
				   "limit", BCON_INT32(1), "singleBatch", BCON_BOOL(true));
	enum link_result result =
		link_find_any(asking->link, asking->target->overflow_database, command, any);

	bson_destroy(command);
	if (result != LINK_REFUSED)
		return result;
	*any = true;
	return LINK_DONE;
}

/* Its place; count: not there. */
static size_t find_generation(const struct asking *asking, const uint8_t *generation)
{
	size_t at = 0;

	while (at < asking->count && memcmp(asking->generations[at], generation, 16) != 0)
		at++;
	return at;
}

static void take_link(void *context, struct bytes document)
{
	struct asking *asking = context;
	const uint8_t *generation;
	struct element link;
	char name[12];

	if (asking->count == SAMPLE || !take_generation(document, "_spill.g", &generation) ||
	    !document_find(document, asking->target->rule->overflow.link, &link) ||
	    asking->links.length + link.value.length > LINK_BYTES ||
	    find_generation(asking, generation) < asking->count)
		return;
	writer_renamed(&asking->links, writer_index(name, asking->count), &link);
	memcpy(asking->generations[asking->count++], generation, 16);
}

static enum link_result take_sample(struct asking *asking)
{
	const struct mover_target *target = asking->target;
	size_t start = writer_open(&asking->links);
	bson_t *command = BCON_NEW("aggregate", BCON_UTF8(target->overflow_collection), "pipeline",
				   "[", "{", "$sample", "{", "size", BCON_INT32(SAMPLE), "}", "}",
				   "{", "$project", "{", "_id", BCON_INT32(0),
				   BCON_UTF8(target->rule->overflow.link), BCON_INT32(1),
				   "_spill.g", BCON_INT32(1), "}", "}", "]", "cursor", "{", "}");
	enum link_result result = link_find(asking->link, target->overflow_database,
					    view_of(command), take_link, asking);

	bson_destroy(command);
	writer_close(&asking->links, start);
	return result;
}

static void take_state(struct asking *asking, const struct element *state)
{
	const uint8_t *generation;
	struct bytes own;
	size_t at;

	if (!element_document(state, &own) || !take_generation(own, "g", &generation))
		return;
	at = find_generation(asking, generation);
	if (at == asking->count)
		return;
	if (asking->own && bytes_are(state->name, asking->target->rule->key))
		asking->mine = true;
	else
		asking->other = true;
	memmove(asking->generations[at], asking->generations[--asking->count], 16);
}

/* Each field of `_spill` is the state of one array. */
static void take_main(void *context, struct bytes document)
{
	struct element all, state;
	struct cursor cursor;
	struct bytes states;

	if (!document_find(document, "_spill", &all) || !element_document(&all, &states) ||
	    !cursor_open(&cursor, states))
		return;
	while (cursor_next(&cursor, &state) == CURSOR_ELEMENT)
		take_state(context, &state);
}

/* One that may not be read says nothing. */
static enum link_result ask_collection(struct asking *asking, const char *database,
				       struct bytes collection)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), filter, condition;
	enum link_result result;

	writer_text(&out, "find", collection);
	filter = writer_open_document(&out, "filter");
	condition = writer_open_document(&out, "_id");
	writer_array(&out, "$in", buffer_view(&asking->links));
	writer_close(&out, condition);
	command_exists(&out, "_spill", true);
	writer_close(&out, filter);
	filter = writer_open_document(&out, "projection");
	writer_int32(&out, "_spill", 1);
	writer_close(&out, filter);
	writer_close(&out, start);
	result = link_find(asking->link, database, buffer_view(&out), take_main, asking);
	return result == LINK_REFUSED ? LINK_DONE : result;
}

static void keep_name(void *context, struct bytes entry)
{
	buffer_append(context, entry.data, entry.length);
}

static enum link_result list_collections(struct link *link, const char *database,
					 struct buffer *names)
{
	bson_t *command = BCON_NEW("listCollections", BCON_INT32(1), "filter", "{", "type",
				   BCON_UTF8("collection"), "}", "nameOnly", BCON_BOOL(true),
				   "authorizedCollections", BCON_BOOL(true));
	enum link_result result = link_find(link, database, view_of(command), keep_name, names);

	bson_destroy(command);
	return result == LINK_REFUSED ? LINK_DONE : result;
}

static enum link_result ask_database(struct asking *asking, const char *database, char *other,
				     size_t size)
{
	auto_buffer struct buffer names = {0};
	enum link_result result = list_collections(asking->link, database, &names);
	size_t asked = 0;

	for (size_t at = 0; result == LINK_DONE && at < names.length && !asking->other &&
			    asked++ < COLLECTIONS_MOST;) {
		struct bytes entry = {names.data + at, (size_t)load_int32(names.data + at)}, name;
		struct element element;

		at += entry.length;
		if (!document_find(entry, "name", &element) || !element_string(&element, &name) ||
		    (bytes_are(name, asking->target->collection) &&
		     strcmp(database, asking->target->database) == 0))
			continue;
		result = ask_collection(asking, database, name);
		snprintf(other, size, "%s.%.*s", database, (int)name.length,
			 (const char *)name.data);
	}
	return result;
}

static enum link_result ask_others(struct asking *asking, char *other, size_t size)
{
	const struct mover_target *target = asking->target;
	enum link_result result = ask_database(asking, target->database, other, size);

	if (result == LINK_DONE && !asking->other &&
	    strcmp(target->database, target->overflow_database) != 0)
		result = ask_database(asking, target->overflow_database, other, size);
	return result;
}

static enum link_result ask_all(struct asking *asking, char *other, size_t size)
{
	const struct mover_target *target = asking->target;
	enum link_result result = take_sample(asking);

	if (result != LINK_DONE || asking->count == 0)
		return result == LINK_REFUSED ? LINK_DONE : result;
	asking->own = true;
	result = ask_collection(asking, target->database, bytes_of(target->collection));
	snprintf(other, size, "%s.%s", target->database, target->collection);
	asking->own = false;
	if (result == LINK_DONE && asking->count > 0 && !asking->other)
		result = ask_others(asking, other, size);
	return result;
}

must_check enum link_result referrers_find(struct link *link, const struct mover_target *target,
					   enum referrers *found, char *other, size_t size)
{
	struct asking asking = {.link = link, .target = target};
	bool any = false;
	enum link_result result = find_any(&asking, &any);

	*found = REFERRERS_EMPTY;
	if (result != LINK_DONE || !any)
		return result;
	result = ask_all(&asking, other, size);
	if (asking.other)
		*found = REFERRERS_OTHER;
	else
		*found = asking.mine ? REFERRERS_OWN : REFERRERS_UNKNOWN;
	buffer_fini(&asking.links);
	return result;
}
