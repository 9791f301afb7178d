/* Tests rules/read/sequence_read.c and edit.c against a model: a server of two collections, on
 * which pushes, the mover, edits and the garbage collector take steps between any two commands of a
 * read or of an edit. What is read must be the array as it was when its main document was read; an
 * edit happens once, on the whole array. */
#include "tests/unit/play.h"

#include "protocol/writer.h"

#define DOCUMENTS 3
#define BATCHES 64
#define ELEMENTS 40 /* of an array, at most */
#define THRESHOLD 2
#define BATCH_SIZE 3

struct array {
	int32_t elements[ELEMENTS];
	int count;
};

/* A main document, with the array as it should be read. */
struct main_document {
	bool there;
	struct array f;
	bool spilled;
	uint8_t generation;
	int head, linked; /* h and n */
	struct array whole;
	struct array seen; /* `whole` when a read last looked at the document */
};

struct batch {
	bool there;
	int document;
	uint8_t generation;
	int number, position;
	struct array elements;
};

struct model {
	struct main_document documents[DOCUMENTS];
	struct batch batches[BATCHES]; /* by document and number */
	uint8_t generations;
	int32_t next_element;
	uint64_t random;
	size_t missed; /* documents that were gone when they were read again */
	/* the cursor in the overflow */
	bool open;
	bool failing; /* a command has failed */
	struct bytes query;
	int cursor_document, cursor_number;
};

static struct model model;
static struct play play;
static struct { /* that all of it happened */
	int merged, repeats, gone, gave_up, failed, continued;
} covered;

static unsigned pick(unsigned below)
{
	model.random ^= model.random << 13;
	model.random ^= model.random >> 7;
	model.random ^= model.random << 17;
	return (unsigned)(model.random >> 33) % below;
}

/* ---- arrays ---- */

static void append(struct array *array, int32_t element)
{
	cr_assert(array->count < ELEMENTS);
	array->elements[array->count++] = element;
}

static void append_part(struct array *array, const struct array *from, int first, int end)
{
	for (int i = first; i < end; i++)
		append(array, from->elements[i]);
}

static bool same(const struct array *a, const struct array *b)
{
	return a->count == b->count &&
	       memcmp(a->elements, b->elements, (size_t)a->count * sizeof(a->elements[0])) == 0;
}

/* ---- steps of others, each one atomic command ---- */

/* How many positions of its generation are stored. */
static int stored_end(int document)
{
	int end = 0;

	for (int i = 0; i < BATCHES; i++) {
		const struct batch *batch = &model.batches[i];

		if (batch->there && batch->document == document &&
		    batch->generation == model.documents[document].generation)
			end = batch->position + batch->elements.count;
	}
	return end;
}

static void step_push(int document)
{
	struct main_document *main = &model.documents[document];

	if (!main->there || main->whole.count == ELEMENTS)
		return;
	append(&main->f, ++model.next_element);
	append(&main->whole, model.next_element);
}

/* M1 */
static void step_bear(int document)
{
	struct main_document *main = &model.documents[document];

	if (!main->there || main->spilled || main->f.count <= THRESHOLD)
		return;
	main->spilled = true;
	main->generation = ++model.generations;
	main->head = THRESHOLD;
	main->linked = 0;
}

static struct batch *free_batch(void)
{
	for (int i = 0; i < BATCHES; i++)
		if (!model.batches[i].there)
			return &model.batches[i];
	return NULL;
}

static int compare_batches(const void *a, const void *b)
{
	const struct batch *one = a, *other = b;

	if (one->document != other->document)
		return one->document - other->document;
	return one->number - other->number;
}

/* M2: the next batch; it is not linked yet. */
static void step_store(int document)
{
	struct main_document *main = &model.documents[document];
	struct batch *batch = free_batch();
	int end, first, last;

	if (!main->there || !main->spilled || !batch)
		return;
	end = stored_end(document);
	first = main->head + end - main->linked;
	last = first + 1 + (int)pick(BATCH_SIZE);
	if (first >= main->f.count)
		return;
	*batch = (struct batch){.there = true,
				.document = document,
				.generation = main->generation,
				.number = main->generation * 100 + end,
				.position = end};
	append_part(&batch->elements, &main->f, first, last < main->f.count ? last : main->f.count);
	qsort(model.batches, BATCHES, sizeof(model.batches[0]), compare_batches);
}

/* M4 */
static void step_link(int document)
{
	struct main_document *main = &model.documents[document];
	struct array f = {0};
	int stored = stored_end(document) - main->linked;

	if (!main->there || !main->spilled || stored <= 0)
		return;
	append_part(&f, &main->f, 0, main->head);
	append_part(&f, &main->f, main->head + stored, main->f.count);
	main->f = f;
	main->linked += stored;
}

/* I2 */
static void step_inflate(int document)
{
	struct main_document *main = &model.documents[document];

	if (!main->there || !main->spilled)
		return;
	main->f = main->whole;
	main->spilled = false;
}

/* A whole-array write. */
static void step_set(int document)
{
	struct main_document *main = &model.documents[document];

	if (main->there && pick(3) > 0)
		return;
	main->there = true;
	main->spilled = false;
	main->f = (struct array){0};
	append(&main->f, ++model.next_element);
	main->whole = main->f;
}

static void step_delete(int document)
{
	if (pick(8) == 0)
		model.documents[document].there = false;
}

/* G2, with T_gc of 0: generations die under readers. */
static void step_collect(int document)
{
	const struct main_document *main = &model.documents[document];

	for (int i = 0; i < BATCHES; i++) {
		struct batch *batch = &model.batches[i];

		if (batch->document == document &&
		    !(main->there && main->spilled && batch->generation == main->generation))
			batch->there = false;
	}
}

/* All of a generation's life at once, after its predecessor's end: between any two commands of a
 * slow read. */
static void step_rewrite(int document)
{
	step_inflate(document);
	step_collect(document);
	step_bear(document);
	for (int i = 0; i < 5; i++)
		step_store(document);
	step_link(document);
}

static void others_step(void)
{
	static void (*const steps[])(int document) = {
		step_push,    step_push, step_push,   step_push,    step_push,
		step_bear,    step_bear, step_store,  step_store,   step_store,
		step_link,    step_link, step_link,   step_inflate, step_rewrite,
		step_rewrite, step_set,  step_delete, step_collect, step_collect,
	};

	steps[pick(ARRAY_LENGTH(steps))]((int)pick(DOCUMENTS));
}

static void others_steps(unsigned most)
{
	for (unsigned i = pick(most + 1); i > 0; i--)
		others_step();
}

/* ---- the server's replies ---- */

static void write_elements(struct buffer *out, const char *name, const struct array *array)
{
	size_t start = writer_open_array(out, name);
	char index[12];

	for (int i = 0; i < array->count; i++)
		writer_int32(out, writer_index(index, (size_t)i), array->elements[i]);
	writer_close(out, start);
}

static void write_generation(struct buffer *out, uint8_t generation)
{
	uint8_t bytes[16];

	memset(bytes, generation, sizeof(bytes));
	writer_binary(out, "g", (struct bytes){bytes, sizeof(bytes)});
}

static void write_main(struct buffer *out, const char *name, int document)
{
	struct main_document *main = &model.documents[document];
	size_t start = writer_open_document(out, name), state, f;

	writer_int32(out, "_id", document);
	write_elements(out, "f", &main->f);
	if (main->spilled) {
		state = writer_open_document(out, "_spill");
		f = writer_open_document(out, "f");
		write_generation(out, main->generation);
		writer_int32(out, "h", main->head);
		writer_int32(out, "n", main->linked);
		writer_close(out, f);
		writer_close(out, state);
	}
	writer_close(out, start);
	main->seen = main->whole;
}

static void write_batch(struct buffer *out, const char *name, const struct batch *batch)
{
	size_t start = writer_open_document(out, name), state;

	writer_int32(out, "book", batch->document);
	state = writer_open_document(out, "_spill");
	write_generation(out, batch->generation);
	writer_int32(out, "p", batch->position);
	writer_int32(out, "i", batch->number);
	writer_close(out, state);
	write_elements(out, "more", &batch->elements);
	writer_close(out, start);
}

/* Whether the query's `$in` at `path` has this value. */
static bool query_asks(const char *path, struct bytes value)
{
	struct element field;
	struct cursor cursor;

	cr_assert(document_find(model.query, path, &field));
	cr_assert(document_find(field.value, "$in", &field));
	cr_assert(cursor_open(&cursor, field.value));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (bytes_equal(field.value, value))
			return true;
	return false;
}

static bool query_matches(const struct batch *batch)
{
	uint8_t generation[21] = {16}; /* length, subtype, bytes */

	memset(generation + 5, batch->generation, 16);
	return batch->there &&
	       query_asks("book", (struct bytes){(const uint8_t *)&batch->document, 4}) &&
	       query_asks("_spill.g", (struct bytes){generation, sizeof(generation)});
}

static bool behind_cursor(const struct batch *batch)
{
	return batch->document > model.cursor_document ||
	       (batch->document == model.cursor_document && batch->number > model.cursor_number);
}

/* The cursor goes on over what is there by now. */
static bool write_batches(struct buffer *out, const char *name)
{
	size_t start = writer_open_array(out, name), count = 0;
	unsigned most = 1 + pick(4);
	char index[12];

	for (int i = 0; i < BATCHES && count < most; i++) {
		const struct batch *batch = &model.batches[i];

		if (!query_matches(batch) || !behind_cursor(batch))
			continue;
		write_batch(out, writer_index(index, count++), batch);
		model.cursor_document = batch->document;
		model.cursor_number = batch->number;
	}
	writer_close(out, start);
	return count == most;
}

static void write_mains(struct buffer *out, int only)
{
	size_t start = writer_open_array(out, "firstBatch"), count = 0;
	char index[12];

	model.missed += only >= 0 && !model.documents[only].there;
	for (int i = 0; i < DOCUMENTS; i++)
		if (model.documents[i].there && (only < 0 || only == i))
			write_main(out, writer_index(index, count++), i);
	writer_close(out, start);
}

/* Which document {$and: [{_id: ...}]} asks for; -1: all. */
static int asked_again(struct bytes body)
{
	struct element element;
	int64_t id;

	if (!document_find_path(body, "filter.$and", &element))
		return -1;
	cr_assert(document_find(element.value, "0", &element));
	cr_assert(document_find(element.value, "_id", &element) && element_integer(&element, &id));
	return (int)id;
}

static void write_cursor(struct buffer *out, struct bytes body)
{
	struct element name, filter;
	bool more = false, first;

	if (document_find(body, "killCursors", &name)) {
		model.open = false;
		return;
	}
	cr_assert(document_find(body, "find", &name) || document_find(body, "getMore", &name));
	first = element_is(&name, "find");
	if (first && name.value.length == 4 + sizeof("books")) {
		write_mains(out, asked_again(body));
	} else {
		if (first) {
			cr_assert(document_find(body, "filter", &filter));
			model.query = made_copy(filter.value);
			model.cursor_document = -1;
		}
		covered.continued += !first;
		more = write_batches(out, first ? "firstBatch" : "nextBatch");
	}
	model.open = more;
	writer_int64(out, "id", more ? 5 : 0);
}

/* The server runs the command that the sequence has sent, now and then not. */
static void serve(void)
{
	struct message message = play_message(&play);
	struct buffer frame = {0};
	struct packet packet;
	size_t body, cursor;
	bool fails = !model.failing && pick(150) == 0;

	message_begin(&frame, 4000, message.header.request_id, 0);
	message_begin_body(&frame);
	body = writer_open(&frame);
	model.failing = model.failing || fails;
	model.open = model.open && !fails; /* a getMore that fails ends its cursor */
	if (!fails) {
		cursor = writer_open_document(&frame, "cursor");
		write_cursor(&frame, message.body);
		writer_close(&frame, cursor);
	}
	writer_double(&frame, "ok", !fails);
	writer_close(&frame, body);
	message_end(&frame, 0);
	packet = made_packet(frame);
	play_resume(&play, &packet, false);
	packet_fini(&packet);
}

/* ---- what must come out ---- */

static void expect_document(struct bytes document, uint64_t seed)
{
	struct array got = {0};
	struct element id, f, element;
	struct cursor cursor;
	int64_t number;

	cr_assert(document_find(document, "_id", &id) && element_integer(&id, &number));
	cr_assert(document_find(document, "f", &f) && cursor_open(&cursor, f.value));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		append(&got, load_int32(element.value.data));
	cr_assert_not(document_find(document, "_spill", &element));
	cr_assert(same(&got, &model.documents[number].seen), "seed %llu: document %d: %s",
		  (unsigned long long)seed, (int)number, made_json(document));
}

static void expect_outcome(uint64_t seed, size_t before)
{
	struct bytes body = play_message(&play).body;
	struct element batch, ok;
	struct cursor cursor;
	size_t count = 0;

	cr_assert(document_find(body, "ok", &ok));
	if (!element_truth(&ok)) {
		covered.gave_up += document_find(body, "errmsg", &ok);
		covered.failed++;
		return;
	}
	cr_assert(document_find_path(body, "cursor.firstBatch", &batch));
	cr_assert(cursor_open(&cursor, batch.value));
	while (cursor_next(&cursor, &batch) == CURSOR_ELEMENT) {
		expect_document(batch.value, seed);
		count++;
	}
	cr_assert_eq(count + model.missed, before, "seed %llu", (unsigned long long)seed);
	covered.gone += model.missed > 0;
	covered.merged += play.sequence->counts.merged > 0;
	covered.repeats += play.sequence->counts.repeats > 0;
}

static void play_episode(uint64_t seed)
{
	size_t there = 0;

	model = (struct model){.random = seed * 0x9e3779b97f4a7c15u + 1};
	for (int i = 0; i < DOCUMENTS; i++)
		step_set(i);
	for (int i = 0; i < 60; i++)
		others_step();
	play_command(&play, "{'find': 'books', '$db': 'shop'}", VERDICT_READ);
	for (int i = 0; i < DOCUMENTS; i++)
		there += model.documents[i].there;
	while (play.outcome == SEQUENCE_SEND) {
		serve();
		others_steps(20);
	}
	expect_outcome(seed, there);
	cr_assert_not(model.open);
	play_close(&play);
}

Test(sequence_model, a_read_is_never_torn_whatever_others_do_meanwhile)
{
	for (uint64_t seed = 1; seed <= 4000; seed++)
		play_episode(seed);
	cr_assert(covered.merged > 2000, "%d", covered.merged);
	cr_assert(covered.repeats > 1000, "%d", covered.repeats);
	cr_assert(covered.continued > 2000, "%d", covered.continued);
	cr_assert(covered.gone > 60, "%d", covered.gone);
	cr_assert(covered.failed > 40, "%d", covered.failed);
	cr_assert(covered.gave_up > 0, "%d", covered.gave_up);
}

/* ---- edits ---- */

/* Between any two commands of an edit, and in its pauses, others take a step or none: all ways to
 * place at most `budget` steps are gone through. The sanitizers see the same code in fewer. */
#ifdef __SANITIZE_ADDRESS__
#define MOST_STEPS 1
#else
#define MOST_STEPS 2
#endif
#define POINTS 64
#define STATES_LAST 7 /* of the mover, when the edit begins */

static struct {
	int at, depth, spent;
	int taken[POINTS], of[POINTS];
} choices;

static int budget;

static int choose(int of)
{
	if (choices.spent == budget)
		return 0;
	cr_assert(choices.at < POINTS);
	if (choices.at == choices.depth) {
		choices.taken[choices.depth] = 0;
		choices.of[choices.depth++] = of;
	}
	choices.spent += choices.taken[choices.at] > 0;
	return choices.taken[choices.at++];
}

static bool choose_otherwise(void)
{
	choices.at = choices.spent = 0;
	while (choices.depth > 0 &&
	       choices.taken[choices.depth - 1] + 1 == choices.of[choices.depth - 1])
		choices.depth--;
	if (choices.depth > 0)
		choices.taken[choices.depth - 1]++;
	return choices.depth > 0;
}

enum edit_form {
	EDIT_PULL, /* element 4 */
	EDIT_SET,  /* f.1 */
	EDIT_POP,
	EDIT_FORMS,
};

static struct {
	enum edit_form form;
	int applied;
	bool missed; /* the document was not there when it was looked for */
} edit;

static struct { /* that all of it happened */
	int plain, folded, lost, missed, gave_up;
} edits;

static void apply_form(struct array *array, enum edit_form form)
{
	struct array kept = {0};

	if (form == EDIT_SET && array->count > 1)
		array->elements[1] = 1000;
	if (form == EDIT_POP && array->count > 0)
		array->count--;
	if (form != EDIT_PULL)
		return;
	for (int i = 0; i < array->count; i++)
		if (array->elements[i] != 4)
			append(&kept, array->elements[i]);
	*array = kept;
}

static void apply_whole(enum edit_form form)
{
	struct main_document *main = &model.documents[0];

	cr_assert(same(&main->f, &main->whole), "it isn't whole");
	apply_form(&main->f, form);
	main->whole = main->f;
}

/* What readers put together, from what is stored. */
static void expect_sound(void)
{
	struct main_document *main = &model.documents[0];
	struct array read = {0};

	if (!main->there)
		return;
	append_part(&read, &main->f, 0, main->spilled ? main->head : main->f.count);
	for (int i = 0; main->spilled && i < BATCHES; i++) {
		const struct batch *batch = &model.batches[i];

		if (batch->there && batch->document == 0 && batch->generation == main->generation &&
		    batch->position < main->linked)
			append_part(&read, &batch->elements, 0, batch->elements.count);
	}
	if (main->spilled)
		append_part(&read, &main->f, main->head, main->f.count);
	cr_assert(same(&read, &main->whole), "%d elements of %d", read.count, main->whole.count);
}

static void step_gone(int document)
{
	model.documents[document].there = false;
}

static void step_replace(int document)
{
	struct main_document *main = &model.documents[document];

	*main = (struct main_document){.there = true};
	for (int i = 0; i < 3; i++)
		step_push(document);
}

static void step_other_edit(int document)
{
	step_inflate(document);
	if (model.documents[document].there)
		apply_whole(EDIT_POP);
}

static void between_commands(void)
{
	static void (*const steps[])(int document) = {
		step_push,    step_bear,    step_store,   step_link, step_inflate,
		step_collect, step_rewrite, step_replace, step_gone, step_other_edit,
	};
	int choice = choose(ARRAY_LENGTH(steps) + 1);

	if (choice > 0)
		steps[choice - 1](0);
	expect_sound();
}

/* E0: {$and: [{_id: 0}, {_spill: {$exists: false}}]}; where nothing was found, with a condition
 * that nothing meets. */
static int serve_write(struct bytes q)
{
	struct main_document *main = &model.documents[0];

	if (memmem(q.data, q.length, "$in", sizeof("$in"))) {
		made_expect(q, "{'$and': [{'_id': 0}, {'_id': {'$in': []}}, {'_spill': {'$exists': "
			       "false}}]}");
		return 0;
	}
	made_expect(q, "{'$and': [{'_id': 0}, {'_spill': {'$exists': false}}]}");
	if (!main->there || main->spilled)
		return 0;
	apply_whole(edit.form);
	edit.applied++;
	return 1;
}

static bool state_is(struct bytes state)
{
	struct main_document *main = &model.documents[0];
	auto_buffer struct buffer now = {0};
	size_t start = writer_open(&now);
	struct element states;

	if (!main->there || !main->spilled)
		return false;
	write_main(&now, "main", 0);
	writer_close(&now, start);
	cr_assert(document_find_path(buffer_view(&now), "main._spill", &states));
	return bytes_equal(states.value, state);
}

/* I2, as mongod does it: $push with $each and $position into what is there now. */
static int serve_fold(struct bytes state, struct bytes statement)
{
	struct main_document *main = &model.documents[0];
	struct element each, position, one;
	struct cursor cursor;
	struct array f = {0};
	int64_t at;

	if (!state_is(state))
		return 0;
	cr_assert(document_find_path(statement, "u.$unset._spill", &one));
	cr_assert(document_find_path(statement, "u.$push.f.$each", &each));
	cr_assert(document_find_path(statement, "u.$push.f.$position", &position));
	cr_assert(element_integer(&position, &at) && cursor_open(&cursor, each.value));
	if (at > main->f.count)
		at = main->f.count;
	append_part(&f, &main->f, 0, (int)at);
	while (cursor_next(&cursor, &one) == CURSOR_ELEMENT)
		append(&f, load_int32(one.value.data));
	append_part(&f, &main->f, (int)at, main->f.count);
	main->f = f;
	main->spilled = false;
	edits.folded++;
	return 1;
}

static void write_update_result(struct buffer *out, struct bytes body)
{
	struct element updates, statement, state, q;
	int n;

	cr_assert(document_find(body, "updates", &updates));
	cr_assert(document_find(updates.value, "0", &statement));
	cr_assert(document_find(statement.value, "q", &q));
	if (document_find_path(q.value, "_spill.$eq", &state)) {
		n = serve_fold(state.value, statement.value);
		edits.lost += n == 0;
	} else {
		n = serve_write(q.value);
	}
	writer_int32(out, "n", n);
	writer_int32(out, "nModified", n);
}

static void write_found(struct buffer *out, struct bytes body)
{
	struct element find;
	size_t cursor = writer_open_document(out, "cursor");

	if (document_find(body, "find", &find) && find.value.length == 4 + sizeof("books")) {
		edit.missed = edit.missed || !model.documents[0].there;
		write_mains(out, 0);
		writer_int64(out, "id", 0);
	} else {
		write_cursor(out, body);
	}
	writer_close(out, cursor);
}

static void serve_edit(void)
{
	struct message message = play_message(&play);
	struct buffer frame = {0};
	struct packet packet;
	struct element update;
	size_t body;

	message_begin(&frame, 4000, message.header.request_id, 0);
	message_begin_body(&frame);
	body = writer_open(&frame);
	if (document_find(message.body, "update", &update))
		write_update_result(&frame, message.body);
	else
		write_found(&frame, message.body);
	writer_double(&frame, "ok", 1);
	writer_close(&frame, body);
	message_end(&frame, 0);
	expect_sound();
	packet = made_packet(frame);
	play_resume(&play, &packet, false);
	packet_fini(&packet);
}

static void expect_edited(void)
{
	struct bytes body = play_message(&play).body;
	struct reply_summary summary;

	summary = reply_summarise(body);
	cr_assert(summary.readable);
	cr_assert(edit.applied <= 1, "applied %d times", edit.applied);
	if (!summary.ok) {
		cr_assert_eq(summary.code, 112, "%s", made_json(body));
		cr_assert_eq(edit.applied, 0);
		edits.gave_up++;
		return;
	}
	cr_assert_eq(summary.n, edit.applied, "%s", made_json(body));
	cr_assert(edit.applied || edit.missed, "the document was there all the time");
	edits.plain += edit.applied;
	edits.missed += !edit.applied;
}

/* How far the mover has come with the array when the edit begins. */
static void prepare(int state)
{
	static void (*const steps[])(int document) = {
		step_bear, step_store, step_link, step_store, step_store, step_link, step_store,
	};

	step_replace(0);
	step_push(0);
	step_push(0);
	step_push(0);
	for (int i = 0; i < state; i++)
		steps[i](0);
}

static void play_edit(int state)
{
	static const char *const updates[EDIT_FORMS] = {
		"{'$pull': {'f': 4}}", "{'$set': {'f.1': 1000}}", "{'$pop': {'f': 1}}"};

	model = (struct model){.random = 0x9e3779b97f4a7c15u};
	edit.applied = 0;
	edit.missed = false;
	prepare(state);
	play_command(&play,
		     made_text("{'update': 'books', 'updates': [{'q': {'_id': 0}, 'u': %s}], "
			       "'$db': 'shop'}",
			       updates[edit.form]),
		     VERDICT_WRITE);
	while (play.outcome == SEQUENCE_SEND || play.outcome == SEQUENCE_PAUSE) {
		between_commands();
		if (play.outcome == SEQUENCE_PAUSE)
			play_resume(&play, NULL, false);
		else
			serve_edit();
	}
	expect_edited();
	play_close(&play);
}

/* In a share every other state of the mover, by turns, has one step instead of two. */
static int steps_of(int state)
{
	return unit_is_share() && (state + (int)edit.form) % 2 ? 1 : MOST_STEPS;
}

static void tell_steps(void)
{
	size_t all = (size_t)EDIT_FORMS * (STATES_LAST + 1);

	if (unit_is_share() && MOST_STEPS > 1)
		unit_tell(all / 2, all);
}

Test(sequence_model, an_edit_happens_once_on_the_whole_array_whatever_others_do_meanwhile)
{
	int played = 0;

	for (edit.form = EDIT_PULL; edit.form < EDIT_FORMS; edit.form++)
		for (int state = 0; state <= STATES_LAST; state++) {
			budget = steps_of(state);
			choices.depth = choices.at = choices.spent = 0;
			do {
				play_edit(state);
				played++;
			} while (choose_otherwise());
		}
	printf("%d edits: %d applied, %d folded, %d folds lost, %d missed, %d gave up\n", played,
	       edits.plain, edits.folded, edits.lost, edits.missed, edits.gave_up);
	tell_steps();
	cr_assert(edits.folded > (MOST_STEPS == 1 ? 100 : 1000), "%d", edits.folded);
	cr_assert(edits.lost > (MOST_STEPS == 1 ? 10 : 100), "%d", edits.lost);
	cr_assert(edits.missed > (MOST_STEPS == 1 ? 10 : 100), "%d", edits.missed);
}
