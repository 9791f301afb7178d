/* Which collection's documents refer to what lies in an overflow.
 *
 * A generation's name is random, so a state that holds it is the one that counts its elements: an
 * `_id` that equals the link proves nothing. Its first half says for which array it was born; that
 * collection may have been renamed since. */
#include "proxy/ownership/referrers.h"

#include "protocol/cursor.h"
#include "proxy/upstream/clauses.h"
#include "rules/rule/state.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

#define SAMPLE 500            /* overflow documents, of the first ones and of all each */
#define LOOK_MS 15000         /* for one of the two: serve does not listen meanwhile */
#define LINK_BYTES (4 << 20)  /* of their links in one question */
#define COLLECTIONS_MOST 1000 /* that are asked */
#define TIME_IS_UP 50         /* MaxTimeMSExpired */

/* Who is asked about some links. */
struct asking {
	struct link *link;
	const struct mover_target *target;
	struct bytes links; /* an array */
	link_document each; /* for a document with states */
	void *context;
	bool own;    /* the target's collection is asked */
	bool ended;  /* no more has to be asked */
	bool passed; /* some could not be */
};

struct sample {
	const struct mover_target *target;
	struct asking *asking;
	struct buffer links;                 /* an array: of the sample */
	uint8_t generations[2 * SAMPLE][16]; /* those that nobody was seen to refer to */
	size_t count;
	size_t seen; /* documents, by one query */
	bool named;  /* some were born for the target */
	bool mine;   /* the target's collection refers to some by the target's array */
	bool other;  /* somebody does by another */
};

/* Its place; count: not there. */
static size_t find_generation(const struct sample *sample, const uint8_t *generation)
{
	size_t at = 0;

	while (at < sample->count && memcmp(sample->generations[at], generation, 16) != 0)
		at++;
	return at;
}

static void take_link(void *context, struct bytes document)
{
	struct sample *sample = context;
	struct bytes generation;
	struct element link;
	char name[12];

	sample->seen++;
	if (sample->count == 2 * SAMPLE || !generation_find(document, "_spill.g", &generation) ||
	    !document_find(document, sample->target->rule->overflow.link, &link) ||
	    sample->links.length + link.value.length > LINK_BYTES ||
	    find_generation(sample, generation.data) < sample->count)
		return;
	sample->named |= target_named(sample->target, generation.data);
	writer_renamed(&sample->links, writer_index(name, sample->count), &link);
	memcpy(sample->generations[sample->count++], generation.data, 16);
}

/* The first ones that Spillway wrote. Where many others lie before them no index helps. */
static const char first_command[] =
	"{find: @overflow, filter: {'_spill.g': {$type: 'binData'}}, projection: {_id: 0, '@link': "
	"1, '_spill.g': 1}, limit: @count, maxTimeMS: @most}";
static const char sample_command[] =
	"{aggregate: @overflow, pipeline: [{$sample: {size: @count}}, {$project: {_id: 0, '@link': "
	"1, '_spill.g': 1}}], cursor: {}, maxTimeMS: @most}";

/* `looked`: the server did not refuse it, by the time it takes or otherwise. */
static enum link_result look(struct sample *sample, struct link *link, const char *command,
			     bool *looked)
{
	const struct mover_target *target = sample->target;
	enum link_result result;

	sample->seen = 0;
	result = command_find(link, target->overflow_database, take_link, sample, command,
			      fill("overflow", target->overflow_collection),
			      fill("link", target->rule->overflow.link), fill("count", SAMPLE),
			      fill("most", LOOK_MS));
	*looked = result == LINK_DONE;
	if (result == LINK_REFUSED && link_error(link)->code != TIME_IS_UP)
		result = link_lost_in_passing(link, result);
	return result == LINK_REFUSED ? LINK_DONE : result;
}

/* What is judged already where no document has to be asked; else UNKNOWN. */
static enum link_result take_sample(struct sample *sample, struct link *link, enum referrers *found)
{
	bool all, some;
	enum link_result result = look(sample, link, first_command, &all);

	*found = all && sample->seen == 0 ? REFERRERS_EMPTY : REFERRERS_UNKNOWN;
	if (result != LINK_DONE || (all && sample->seen < SAMPLE))
		return result;
	result = look(sample, link, sample_command, &some);
	if (!all && some && sample->seen > 0 && sample->count == 0)
		*found = REFERRERS_HANDS;
	return result;
}

static void take_name(struct sample *sample, const struct element *state, struct bytes generation)
{
	size_t at = find_generation(sample, generation.data);

	if (at == sample->count)
		return;
	if (sample->asking->own && bytes_are(state->name, sample->target->rule->key))
		sample->mine = true;
	else
		sample->other = true;
	memmove(sample->generations[at], sample->generations[--sample->count], 16);
	sample->asking->ended = sample->other || sample->count == 0;
}

static void take_state(struct sample *sample, const struct element *state)
{
	struct bytes names[STATE_NAMES];

	for (size_t i = state_names(state, names); i-- > 0;)
		take_name(sample, state, names[i]);
}

/* Each field of `_spill` is the state of one array. */
static void take_main(void *context, struct bytes document)
{
	struct element state;
	struct cursor cursor;
	struct bytes states;

	if (!document_find_document(document, "_spill", &states) || !cursor_open(&cursor, states))
		return;
	while (cursor_next(&cursor, &state) == CURSOR_ELEMENT)
		take_state(context, &state);
}

/* One that may not be read says nothing. */
static enum link_result ask_collection(struct asking *asking, const char *database,
				       struct bytes collection)
{
	auto_free char *name = must_strndup((const char *)collection.data, collection.length);
	enum link_result result = link_lost_in_passing(
		asking->link,
		command_find(asking->link, database, asking->each, asking->context,
			     "{find: @collection, filter: {_id: {$in: @links}, _spill: {$exists: "
			     "true}}, projection: {_spill: 1}}",
			     fill("collection", name), fill_array("links", asking->links)));

	asking->passed |= result == LINK_REFUSED;
	return result == LINK_REFUSED ? LINK_DONE : result;
}

static void keep_name(void *context, struct bytes entry)
{
	buffer_append(context, entry.data, entry.length);
}

static enum link_result list_collections(struct asking *asking, const char *database,
					 struct buffer *names)
{
	enum link_result result = link_lost_in_passing(
		asking->link,
		command_find(asking->link, database, keep_name, names,
			     "{listCollections: 1, filter: {type: 'collection'}, nameOnly: true, "
			     "authorizedCollections: true}"));

	asking->passed |= result == LINK_REFUSED;
	return result == LINK_REFUSED ? LINK_DONE : result;
}

static enum link_result ask_database(struct asking *asking, const char *database, char *other,
				     size_t size)
{
	auto_buffer struct buffer names = {0};
	enum link_result result = list_collections(asking, database, &names);
	size_t asked = 0;

	for (size_t at = 0; result == LINK_DONE && at < names.length && !asking->ended;) {
		struct bytes entry = {names.data + at, (size_t)load_int32(names.data + at)}, name;

		at += entry.length;
		if (!document_find_string(entry, "name", &name) ||
		    bytes_begin_with(name, "system.") ||
		    (bytes_are(name, asking->target->collection) &&
		     strcmp(database, asking->target->database) == 0))
			continue;
		if (asked++ == COLLECTIONS_MOST) {
			asking->passed = true;
			break;
		}
		snprintf(other, size, "%s.%.*s", database, (int)name.length,
			 (const char *)name.data);
		result = ask_collection(asking, database, name);
	}
	return result;
}

/* The target's collection, and then all the others; `other` gets the name of the last. */
static enum link_result ask_all(struct asking *asking, char *other, size_t size)
{
	const struct mover_target *target = asking->target;
	enum link_result result;

	snprintf(other, size, "%s.%s", target->database, target->collection);
	asking->own = true;
	result = ask_collection(asking, target->database, bytes_of(target->collection));
	asking->own = false;
	if (result == LINK_DONE && !asking->ended)
		result = ask_database(asking, target->database, other, size);
	if (result == LINK_DONE && !asking->ended &&
	    strcmp(target->database, target->overflow_database) != 0)
		result = ask_database(asking, target->overflow_database, other, size);
	return result;
}

must_check enum link_result referrers_each(struct link *link, const struct mover_target *target,
					   struct bytes links, link_document each, void *context,
					   bool *all)
{
	struct asking asking = {.link = link, .target = target, .links = links, .each = each};
	char other[1];
	enum link_result result;

	asking.context = context;
	result = ask_all(&asking, other, sizeof(other));
	*all = !asking.passed;
	return result;
}

must_check enum link_result referrers_find(struct link *link, const struct mover_target *target,
					   enum referrers *found, char *other, size_t size)
{
	struct asking asking = {.link = link, .target = target, .each = take_main};
	struct sample *sample = must_calloc(1, sizeof(*sample));
	size_t start = writer_open(&sample->links);
	enum link_result result;

	sample->target = target;
	sample->asking = &asking;
	result = take_sample(sample, link, found);
	writer_close(&sample->links, start);
	asking.links = buffer_view(&sample->links);
	asking.context = sample;
	if (result == LINK_DONE && sample->count > 0)
		result = ask_all(&asking, other, size);
	if (sample->other)
		*found = REFERRERS_OTHER;
	else if (sample->mine)
		*found = REFERRERS_OWN;
	else if (sample->named)
		*found = REFERRERS_NAMED;
	buffer_fini(&sample->links);
	free(sample);
	return result;
}
