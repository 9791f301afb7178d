/* A round's commands on the overflow: M2 and M3. */
#include "proxy/spill/pass.h"
#include "proxy/base/clock.h"
#include "rules/rule/names.h"
#include "rules/rule/overflow_document.h"

#include <bson/bson.h>

#define INSERT_BYTES_MAX (12 << 20)  /* of one insert: a command's body may be 16 MB */
#define INSERT_BYTES_MOST (14 << 20) /* with the last batch, if it isn't alone */
#define INSERT_COUNT_MAX 5000
#define EMPTY_ARRAY 5   /* bytes of [] */
#define WRAPPED_ARRAY 8 /* what {a: <array>} has more than the array */

static void note_any(void *context, struct bytes document)
{
	(void)document;
	*(bool *)context = true;
}

/* Splits that somebody made by hand, or restored, have no `_spill` of ours. */
must_check enum link_result overflow_find_foreign(struct pass_state *pass, bool *found)
{
	*found = false;
	return pass_find(
		pass, note_any, found,
		"{find: @overflow, filter: {'@link': {$eq: @id}, '_spill.g': {$not: {$type: "
		"'binData'}}}, projection: {_id: 1}, limit: 1, singleBatch: true, "
		"readConcern: @read_concern}");
}

static bool take_batch(const struct rule *rule, struct bytes document, struct batch *batch)
{
	if (rule->overflow.layout == RULE_ELEMENTS) {
		*batch = (struct batch){.held = 1};
		if (!document_find_integer(document, "position", &batch->position))
			return false;
		batch->number = batch->position + 1;
		return true;
	}
	return document_find_integer(document, "number", &batch->number) &&
	       document_find_integer(document, "position", &batch->position) &&
	       document_find_integer(document, "held", &batch->held) &&
	       document_find_integer(document, "size", &batch->size);
}

/* The batches that begin at or before n, the last one first. Of an element's own document its place
 * says all. */
static enum link_result find_opening(struct pass_state *pass, const char *limit, link_document each,
				     void *context)
{
	auto_buffer struct buffer projection = {0}, limits = {0};

	pass_write(pass, &projection,
		   pass->rule->overflow.layout == RULE_ELEMENTS
			   ? "{_id: 1, position: '$_spill.p'}"
			   : "{_id: 1, number: '$@order', position: '$_spill.p', held: {$size: "
			     "'$@batch'}, size: {$bsonSize: {a: '$@batch'}}}");
	template_write_document(&limits, limit);
	return pass_find(pass, each, context,
			 "{find: @overflow, filter: {'@link': {$eq: @id}, '_spill.g': @generation, "
			 "'_spill.p': {$lte: @moved}}, sort: {'@order': -1}, projection: "
			 "@projection, ..@limit, readConcern: @read_concern}",
			 fill_document("projection", buffer_view(&projection)),
			 fill_document("limit", buffer_view(&limits)));
}

/* The open batch, and the one before it, which must end where that one begins. */
struct opening {
	struct pass_state *pass;
	int count;
	bool broken;
};

static void take_open(void *context, struct bytes document)
{
	struct opening *opening = context;
	struct pass_state *pass = opening->pass;
	struct batch batch;

	if (!take_batch(pass->rule, document, &batch))
		opening->broken = true;
	else if (opening->count++ == 0)
		pass->open = batch;
	else if (batch.position + batch.held != pass->open.position)
		pass_overlaps(pass, 0);
}

/* M2: the open batch, the last that begins at or before n. */
must_check enum link_result overflow_find_open(struct pass_state *pass, bool *found)
{
	struct opening opening = {.pass = pass};
	enum link_result result =
		find_opening(pass, "{limit: 2, singleBatch: true}", take_open, &opening);

	*found = opening.count > 0;
	return result == LINK_DONE && opening.broken ? LINK_REFUSED : result;
}

/* The batch that reaches furthest, under the greatest number. */
static void take_furthest(void *context, struct bytes document)
{
	struct pass_state *pass = context;
	struct batch batch;

	if (!take_batch(pass->rule, document, &batch))
		return;
	if (batch.number > pass->open.number)
		pass->open.number = batch.number;
	batch.number = pass->open.number;
	if (batch.position + batch.held > pass->open.position + pass->open.held)
		pass->open = batch;
}

must_check enum link_result overflow_find_furthest(struct pass_state *pass)
{
	return find_opening(pass, "{}", take_furthest, pass);
}

static void take_number(void *context, struct bytes document)
{
	int64_t *last = context;

	if (!document_find_integer(document, "number", last) || *last < 0)
		*last = 0;
}

static void take_last(void *context, struct bytes document)
{
	struct opening *opening = context;

	opening->broken |= !take_batch(opening->pass->rule, document, &opening->pass->open);
	opening->count++;
}

/* A copy stands for other positions than it has elements: nothing is ever appended to it. */
must_check enum link_result overflow_find_open_edited(struct pass_state *pass, bool *found,
						      int64_t *last)
{
	struct opening opening = {.pass = pass};
	enum link_result result;

	*last = 0;
	result = pass_find(pass, take_number, last,
			   "{find: @overflow, filter: {'@link': {$eq: @id}}, sort: {'@order': -1}, "
			   "projection: {_id: 1, number: '$@order'}, limit: 1, singleBatch: true}");
	if (result == LINK_DONE)
		result = pass_find(
			pass, take_last, &opening,
			"{find: @overflow, filter: {'@link': {$eq: @id}, '_spill.g': @generation, "
			"'_spill.w': {$exists: false}, '_spill.u': {$exists: false}}, sort: "
			"{'@order': -1}, projection: {_id: 1, number: '$@order', position: "
			"'$_spill.p', held: {$size: '$@batch'}, size: {$bsonSize: {a: "
			"'$@batch'}}}, "
			"limit: 1, singleBatch: true}");
	*found = opening.count > 0 && !opening.broken &&
		 pass->open.position + pass->open.held == pass->plan.moved;
	return result;
}

/* Without its unique index another batch may have its number, and be as long: so its place is
 * named. */
enum pass overflow_fill(struct pass_state *pass, bool *filled)
{
	auto_buffer struct buffer each = {0};
	size_t start = writer_open(&each);
	enum link_result result;

	pass->stored = plan_take(
		&pass->plan.tail, pass->open.held,
		pass->rule->overflow.batch_size - pass->open.held,
		pass->rule->overflow.batch_max_bytes - (pass->open.size - WRAPPED_ARRAY), &each);
	writer_close(&each, start);
	*filled = pass->stored > 0;
	if (!*filled)
		return PASS_AGAIN;
	result = pass_run(pass, pass->target->overflow_database,
			  "{update: @overflow, updates: [{q: {'@link': {$eq: @id}, '@order': "
			  "@number, '_spill.g': @generation, '_spill.p': @position, '@batch': "
			  "{$size: @held}}, u: {$push: {'@batch': {$each: @each}}}}], "
			  "collectionUUID: @uuid, writeConcern: @write_concern}",
			  fill("number", pass->open.number), fill("position", pass->open.position),
			  fill("held", pass->open.held), fill_array("each", buffer_view(&each)));
	return pass_guarded(pass, "M3b", result, PASS_AGAIN);
}

static void write_now(struct buffer *out, const char *name)
{
	int64_t milliseconds = clock_wall();

	writer_renamed(out, name,
		       &(struct element){.type = BSON_BYTE_DATE,
					 .value = {(const uint8_t *)&milliseconds, 8}});
}

static size_t open_state(const struct pass_state *pass, struct buffer *out, int64_t position)
{
	size_t state = writer_open_document(out, NAME_STATE);

	writer_binary(out, "g", pass->plan.generation);
	writer_int64(out, "p", position);
	if (plan_is_edited(&pass->plan))
		writer_int32(out, "e", (int32_t)pass->plan.editions.edition);
	return state;
}

/* Appends the next batch to the documents of an insert: from `position`, numbered after the last.
 * Returns its elements, 0 at the tail's end. */
static int64_t write_batch(struct pass_state *pass, struct buffer *out, const char *name,
			   int64_t position)
{
	const struct rule *rule = pass->rule;
	size_t before = out->length, document = writer_open_document(out, name), array, state;
	int32_t number = (int32_t)pass->open.number + 1;
	int64_t taken;

	writer_renamed(out, rule->overflow.link, &pass->plan.id);
	if (rule->overflow.batch_field)
		writer_int32(out, rule->overflow.batch_field, number);
	array = writer_open_array(out, rule->overflow.array);
	taken = plan_take(&pass->plan.tail, 0, rule->overflow.batch_size,
			  rule->overflow.batch_max_bytes - EMPTY_ARRAY, out);
	writer_close(out, array);
	if (taken == 0) {
		out->length = before;
		return 0;
	}
	if (rule->overflow.created)
		write_now(out, rule->overflow.created);
	state = open_state(pass, out, position);
	if (!rule->overflow.batch_field)
		writer_int32(out, "i", number);
	writer_close(out, state);
	writer_close(out, document);
	pass->open.number = number;
	return taken;
}

/* The same of the tail's next element, in a document of its own. */
static int64_t write_element(struct pass_state *pass, struct buffer *out, const char *name,
			     int64_t position)
{
	const struct rule *rule = pass->rule;
	struct cursor next = pass->plan.tail;
	struct element element;
	size_t document, state;
	bool whole;

	if (cursor_next(&next, &element) != CURSOR_ELEMENT)
		return 0;
	document = writer_open_document(out, name);
	writer_renamed(out, rule->overflow.link, &pass->plan.id);
	whole = overflow_write_fields(rule, &element, out);
	state = open_state(pass, out, position);
	if (whole)
		writer_renamed(out, "v", &element);
	writer_close(out, state);
	writer_close(out, document);
	pass->plan.tail = next;
	pass->open.number = position + 1;
	return 1;
}

static int64_t write_next(struct pass_state *pass, struct buffer *out, const char *name,
			  int64_t position)
{
	if (pass->rule->overflow.layout == RULE_ELEMENTS)
		return write_element(pass, out, name, position);
	return write_batch(pass, out, name, position);
}

/* A batch of an insert: whose it is, and how many elements it holds. */
struct inserted {
	struct pass_state *pass;
	int64_t held;
};

/* Appends a document's next batches, as many as there is room for. */
static size_t write_batches(struct pass_state *pass, struct buffer *out, struct inserted *all,
			    size_t count)
{
	int64_t position = pass->plan.moved + pass->stored;
	struct pass_state before;
	char name[12];

	while (count < INSERT_COUNT_MAX && out->length < INSERT_BYTES_MAX) {
		size_t length = out->length;
		int64_t held;

		before = *pass;
		held = write_next(pass, out, writer_index(name, count), position);
		if (held == 0)
			break;
		if (out->length > INSERT_BYTES_MOST && count > 0) { /* the next command's */
			*pass = before;
			out->length = length;
			break;
		}
		position += held;
		all[count++] = (struct inserted){pass, held};
	}
	return count;
}

/* Of all that were sent, how many are stored. */
static size_t count_stored(const struct pass_state *pass, enum link_result result, size_t count)
{
	const struct link_error *error = link_error(pass->link);

	if (result == LINK_LOST)
		return 0;
	if (result == LINK_REFUSED && (size_t)error->done < count && !error->write_concern)
		return (size_t)error->done;
	return count;
}

must_check enum link_result overflow_insert(struct pass_state *const *passes, size_t count,
					    size_t *sent)
{
	auto_buffer struct buffer out = {0};
	struct inserted all[INSERT_COUNT_MAX];
	size_t start = writer_open(&out), documents, stored;
	enum link_result result;

	*sent = 0;
	writer_string(&out, "insert", passes[0]->target->overflow_collection);
	documents = writer_open_array(&out, "documents");
	for (size_t i = 0; i < count; i++)
		*sent = write_batches(passes[i], &out, all, *sent);
	writer_close(&out, documents);
	if (*sent == 0)
		return LINK_DONE;
	command_overflow_uuid(&out, passes[0]->target);
	command_write_concern(&out, passes[0]->link);
	writer_close(&out, start);
	result = pass_send(passes[0], passes[0]->target->overflow_database, buffer_view(&out));
	stored = count_stored(passes[0], result, *sent);
	for (size_t i = 0; i < stored; i++)
		all[i].pass->stored += all[i].held;
	for (size_t i = stored; i < *sent; i++)
		all[i].pass->open.number--; /* it is the last one that is stored */
	return result;
}

/* An index is over link and place, be it in the other order. */
static bool is_over_places(const struct rule *rule, struct bytes keys)
{
	struct cursor cursor;
	struct element key;
	size_t count = 0;

	if (!cursor_open(&cursor, keys))
		return false;
	while (cursor_next(&cursor, &key) == CURSOR_ELEMENT) {
		if (!element_is(&key, rule->overflow.link) &&
		    !element_is(&key, overflow_order_path(rule)))
			return false;
		count++;
	}
	return count == 2;
}

/* The place is taken. Of an index that somebody else has made a key may be there twice, too: that
 * one is in the way until it is gone. */
static bool meets_duplicate(const struct pass_state *pass)
{
	struct cursor cursor;
	struct element error, keys;

	if (link_error(pass->link)->code != ERROR_DUPLICATE_KEY)
		return false;
	return !cursor_open(&cursor, link_reply(pass->link)->write_errors) ||
	       cursor_next(&cursor, &error) != CURSOR_ELEMENT ||
	       !document_find(error.value, "keyPattern", &keys) ||
	       keys.type != BSON_BYTE_DOCUMENT || is_over_places(pass->rule, keys.value);
}

/* Batches of dead generations hold the numbers, or batches that Spillway didn't write. */
static enum pass meet_duplicate(struct pass_state *pass)
{
	bool foreign = false;
	enum link_result result = overflow_find_foreign(pass, &foreign);

	if (result != LINK_DONE)
		return pass_failed(pass, "looking for foreign batches", result);
	if (foreign)
		return pass_leaves(pass, "it has overflow documents that Spillway did not write");
	return pass_ended(pass, ROUND_GARBAGE);
}

bool overflow_stands(const struct link *link, enum link_result result)
{
	return result == LINK_DONE ||
	       (result == LINK_REFUSED && !link_error(link)->unacknowledged &&
		link_error(link)->code != ERROR_COLLECTION_UUID_MISMATCH);
}

/* M3c: the rest of the tail, all batches first, then one M4. */
static enum pass store_rest(struct pass_state *pass)
{
	enum link_result result;
	bool duplicate;
	size_t sent;

	do {
		result = overflow_insert(&pass, 1, &sent);
	} while (result == LINK_DONE && sent > 0);
	if (result == LINK_DONE)
		return main_cut(pass);
	duplicate = result == LINK_REFUSED && meets_duplicate(pass);
	if (!overflow_stands(pass->link, result))
		return pass_failed(pass, "M3c", result);
	if (pass->stored > 0)
		return main_cut(pass);
	return duplicate ? meet_duplicate(pass) : pass_failed(pass, "M3c", result);
}

/* The open batch is filled, then come new ones. */
enum pass overflow_store(struct pass_state *pass, bool found)
{
	bool filled = false;
	enum pass filling;

	if (found && !pass->overlapped && pass->open.held < pass->rule->overflow.batch_size) {
		filling = overflow_fill(pass, &filled);
		if (filled && filling == PASS_ENDED)
			return filling;
	}
	return store_rest(pass);
}

/* What is stored beyond n, beside the document's own elements behind its head. */
struct linking {
	struct pass_state *pass;
	struct cursor tail; /* at the element for position n + stored */
	struct buffer scratch;
	bool ended; /* the row, or the image: others may have stored what was pushed since */
	bool differs;
};

/* Goes on while they are the same. */
static void compare_stored(struct linking *linking, struct cursor stored)
{
	struct element element, own;

	while (!linking->ended && cursor_next(&stored, &element) == CURSOR_ELEMENT) {
		struct cursor next = linking->tail;

		linking->ended = cursor_next(&next, &own) != CURSOR_ELEMENT;
		if (linking->ended)
			return;
		linking->differs =
			own.type != element.type || !bytes_equal(own.value, element.value);
		linking->ended = linking->differs;
		if (linking->differs)
			return;
		linking->tail = next;
		linking->pass->stored++;
	}
}

/* Adds to the row what a batch holds behind its end. */
static void link_batch(void *context, struct bytes document)
{
	struct linking *linking = context;
	struct pass_state *pass = linking->pass;
	int64_t end = pass->plan.moved + pass->stored, before = pass->stored;
	struct cursor stored;
	struct element element;
	struct batch batch = {0};
	struct bytes array;

	linking->ended = linking->ended ||
			 !overflow_place(pass->rule, document, &batch.number, &batch.position) ||
			 !overflow_elements(pass->rule, document, &linking->scratch, &array) ||
			 !cursor_open(&stored, array) || batch.position > end;
	if (linking->ended)
		return;
	for (int64_t i = batch.position; i < end; i++)
		if (cursor_next(&stored, &element) != CURSOR_ELEMENT)
			return; /* it holds nothing new */
	compare_stored(linking, stored);
	if (pass->stored > before && batch.number > pass->open.number)
		pass->open.number = batch.number;
}

/* M2a: stored by someone, not linked yet. More batches may follow the open one, from a mover that
 * died before its M4. Only what is the document's own is cut from it: whatever else stands there
 * was written by somebody who is no mover. Whole documents of this generation are asked for, from
 * the open batch on, by their places: their numbers may not run with these where batches overlap.
 */
enum pass overflow_link_stored(struct pass_state *pass)
{
	struct linking linking = {.pass = pass, .tail = pass->plan.tail};
	enum link_result result = pass_find(
		pass, link_batch, &linking,
		"{find: @overflow, filter: {'@link': {$eq: @id}, '_spill.g': @generation, "
		"'_spill.p': {$gte: @position}}, sort: {'_spill.p': 1}, readConcern: "
		"@read_concern}",
		fill("position", pass->open.position));

	buffer_fini(&linking.scratch);
	if (result != LINK_DONE)
		return pass_failed(pass, "M2", result);
	if (linking.differs)
		return pass_leaves(pass, "its overflow holds elements that are not the document's: "
					 "somebody else writes there");
	return pass->stored > 0 ? main_cut(pass) : pass_ended(pass, ROUND_RETRY);
}
