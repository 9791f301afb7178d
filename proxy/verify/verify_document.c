/* One document under a rule, beside its overflow: what is wrong with it. */
#include "proxy/verify/verify_document.h"

#include "proxy/upstream/clauses.h"
#include "rules/rule/counts.h"
#include "rules/rule/hash.h"
#include "rules/rule/own_fields.h"
#include "rules/rule/overflow_document.h"
#include "rules/rule/state.h"

#include <stdio.h>

#define EMPTY_ARRAY 5
#define NUMBER_MOST (INT64_C(1) << 62) /* of what is stored: any more is no number of a batch's */

#define GONE \
	"bring the overflow documents back from a backup (--from FILE), set the array anew " \
	"through Spillway, or keep what is left (--accept-loss)"

const struct job_report_kind verify_kinds[VERIFY_FINDINGS] = {
	[VERIFY_HOLE] = {"V1", REPORT_CORRUPT, "elements are missing between two batches",
			 .name = "elements-missing-between", .remedy = GONE},
	[VERIFY_MISSING] = {"V1", REPORT_CORRUPT, "elements are missing at the overflow's end",
			    .name = "elements-missing-at-end", .remedy = GONE},
	[VERIFY_STATE] = {"V1", REPORT_CORRUPT, "the state (_spill) can't be read",
			  .name = "state-unreadable",
			  .remedy = "restore the document from a backup: somebody wrote to _spill, "
				    "or to the array, straight at mongod"},
	[VERIFY_FLAG] = {"V2", REPORT_UNFINISHED,
			 "the flag stands where no overflow is, or does not stand where one is",
			 .name = "flag-wrong"},
	[VERIFY_FIELDS] = {"fields", REPORT_UNFINISHED,
			   "a counter or the reference is not what the overflow says",
			   .name = "fields-wrong"},
	[VERIFY_GARBAGE] = {"V3", REPORT_GARBAGE, "overflow of an array that was replaced",
			    .name = "garbage-replaced"},
	[VERIFY_ORPHANS] = {"V3", REPORT_GARBAGE, "overflow without a document that it belongs to",
			    .name = "garbage-without-document"},
	[VERIFY_ASTRAY] = {"V1", REPORT_CORRUPT,
			   "overflow of a corrupt document that is linked to another: it stays",
			   .name = "overflow-of-corrupt",
			   .remedy = "mend the corrupt document first"},
	[VERIFY_TAIL] = {"V4", REPORT_CORRUPT,
			 "stored elements that don't count yet differ from the document's",
			 .name = "stored-tail-differs",
			 .remedy = "compare the overflow with the array, and set the array anew "
				   "through Spillway"},
	[VERIFY_OVERLAP] = {"V5", REPORT_CORRUPT, "batches hold different elements for one place",
			    .name = "batches-differ",
			    .remedy = "compare the batches in the exported file, and set the array "
				      "anew through Spillway"},
	[VERIFY_NUMBERS] = {"V6", REPORT_UNFINISHED, "batches are not numbered 1, 2, 3",
			    .name = "batches-misnumbered"},
	[VERIFY_TOO_LONG] = {"V6", REPORT_UNFINISHED, "a batch is longer than the rule says",
			     .name = "batch-too-long"},
	[VERIFY_NOT_MOVED] = {"V7", REPORT_UNFINISHED, "the tail has not been moved yet",
			      .name = "tail-not-moved"},
	[VERIFY_NOT_LINKED] = {"V7", REPORT_UNFINISHED,
			       "batches hold another number of elements than counts as overflow",
			       .name = "batches-not-linked"},
	[VERIFY_HEAD] = {"V7", REPORT_UNFINISHED,
			 "the document keeps another number of elements than the rule says",
			 .name = "head-differs"},
	[VERIFY_TWICE] = {"V7", REPORT_UNFINISHED,
			  "batches overlap: they hold the same elements more than once",
			  .name = "batches-overlap"},
	[VERIFY_NOT_FULL] = {"V7", REPORT_UNFINISHED, "a batch before the last one is not full",
			     .name = "batch-not-full"},
	[VERIFY_INDEX] = {"index", REPORT_UNFINISHED,
			  "an index of the overflow is missing or hidden",
			  .name = "overflow-index-wrong"},
	[VERIFY_NEVER_MOVED] = {"never moved", REPORT_LEFT,
				"outliers that Spillway leaves as they are", .name = "left-alone"},
	[VERIFY_FOREIGN] = {"foreign", REPORT_LEFT, "overflow that Spillway did not write",
			    .name = "foreign-overflow"},
	[VERIFY_BESIDE] =
		{"foreign", REPORT_UNFINISHED,
		 "overflow that Spillway did not write stands beside its own",
		 .name = "foreign-beside",
		 .remedy = "stop the application that writes there, then delete these documents"},
	[VERIFY_BUSY] = {"busy", REPORT_UNFINISHED,
			 "documents that changed each time they were looked at", .name = "busy",
			 .remedy = "run the command again"},
};

bool verify_document_found(const struct verify_document *verify, enum verify_finding finding)
{
	for (size_t i = 0; i < verify->count; i++)
		if (verify->found[i].finding == finding)
			return true;
	return false;
}

bool verify_document_has(const struct verify_document *verify, enum job_report_class class)
{
	for (size_t i = 0; i < verify->count; i++)
		if (verify_kinds[verify->found[i].finding].class == class)
			return true;
	return false;
}

bool verify_document_wants_new_batches(const struct verify_document *verify)
{
	static const enum verify_finding findings[] = {VERIFY_NUMBERS,  VERIFY_TOO_LONG,
						       VERIFY_HEAD,     VERIFY_TWICE,
						       VERIFY_NOT_FULL, VERIFY_FIELDS};

	for (size_t i = 0; i < ARRAY_LENGTH(findings); i++)
		if (verify_document_found(verify, findings[i]))
			return true;
	return false;
}

/* Where the finding's detail is to be written; the first of its kind says enough. */
static char *detail_of(struct verify_document *verify, enum verify_finding finding)
{
	if (verify->count == VERIFY_DETAILS || verify_document_found(verify, finding))
		return verify->spare;
	verify->found[verify->count].finding = finding;
	return verify->found[verify->count++].detail;
}

#define add(verify, finding, ...) \
	((void)snprintf(detail_of((verify), (finding)), VERIFY_DETAIL_SIZE, __VA_ARGS__))

bool batch_is_young(struct bytes batch, int64_t young_from)
{
	struct element id;

	if (!document_find(batch, "_id", &id) || id.type != BSON_BYTE_OBJECT_ID)
		return false;
	return (int64_t)__builtin_bswap32((uint32_t)load_int32(id.value.data)) >= young_from;
}

bool flag_stands(const struct rule *rule, struct bytes main)
{
	struct element flag;

	return rule->flag.field && document_find_path(main, rule->flag.field, &flag) &&
	       flag.type == rule->flag.value.type &&
	       bytes_equal(flag.value, rule->flag.value.value);
}

void verify_document_init_planned(struct verify_document *verify, const struct rule *rule,
				  const struct plan *plan, int64_t young_from)
{
	*verify = (struct verify_document){.rule = rule,
					   .plan = *plan,
					   .judged = plan->generation.data,
					   .beyond = plan->tail,
					   .young_from = young_from};
}

void verify_document_init(struct verify_document *verify, const struct rule *rule,
			  struct bytes main, int64_t young_from)
{
	struct plan plan = plan_make(rule, main);
	struct element state;
	bool has_state = state_find(rule, main, &state);

	verify_document_init_planned(verify, rule, &plan, young_from);
	if (verify->plan.kind == PLAN_BROKEN)
		add(verify, VERIFY_STATE, "%s", verify->plan.why);
	else if (verify->plan.kind == PLAN_LEAVE)
		add(verify, VERIFY_NEVER_MOVED, "%s", verify->plan.why);
	else if (!verify->plan.array.data && has_state)
		add(verify, VERIFY_STATE,
		    "it says that elements are elsewhere, but the array is gone");
	/* Of a state that can't be read nothing follows for flag, batches and tail. */
	verify->judged =
		verify->plan.kind != PLAN_BROKEN && (verify->plan.generation.data || !has_state);
}

static bool same_element(struct cursor *one, struct cursor *other, bool *ended)
{
	struct element first, second;

	*ended = cursor_next(one, &first) != CURSOR_ELEMENT;
	if (*ended)
		return true;
	if (cursor_next(other, &second) != CURSOR_ELEMENT)
		return false;
	return first.type == second.type && bytes_equal(first.value, second.value);
}

static int64_t count_elements(struct bytes array)
{
	struct cursor cursor;
	struct element element;
	int64_t count = 0;

	if (!cursor_open(&cursor, array))
		return -1;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		count++;
	return count;
}

static uint64_t hash_at(const struct verify_document *verify, int64_t position)
{
	uint64_t hash;

	memcpy(&hash, verify->hashes.data + (size_t)position * sizeof(hash), sizeof(hash));
	return hash;
}

/* V5: a position has one value, whichever batches hold it. What is new is remembered. */
static void compare_overlap(struct verify_document *verify, struct bytes array, int64_t position,
			    int64_t number)
{
	struct cursor cursor;
	struct element element;

	if (!cursor_open(&cursor, array))
		return;
	for (; cursor_next(&cursor, &element) == CURSOR_ELEMENT; position++) {
		uint64_t hash = hash_bytes(element.value, element.type);

		if (position == (int64_t)(verify->hashes.length / sizeof(hash)))
			buffer_append(&verify->hashes, &hash, sizeof(hash));
		else if (hash != hash_at(verify, position))
			add(verify, VERIFY_OVERLAP, "batch %lld differs from the ones before it",
			    (long long)number);
	}
}

/* V4: elements at and beyond n against the document's own. */
static void compare_beyond(struct verify_document *verify, struct bytes array, int64_t position,
			   int64_t held, int64_t number)
{
	struct cursor stored;
	struct element element;
	bool ended = false;
	int64_t from = verify->plan.moved > verify->length ? verify->plan.moved : verify->length;

	if (position + held <= from || !cursor_open(&stored, array))
		return;
	for (; position < from; position++)
		if (cursor_next(&stored, &element) != CURSOR_ELEMENT)
			return;
	while (!ended) {
		if (same_element(&stored, &verify->beyond, &ended))
			continue;
		add(verify, VERIFY_TAIL, "batch %lld", (long long)number);
		return;
	}
}

/* V7: the last batch, with one behind it, has no room for the next element. */
static void check_full(struct verify_document *verify, struct bytes array)
{
	struct cursor cursor;
	struct element next;

	if (verify->last_size == 0 || verify->last_held >= verify->rule->overflow.batch_size ||
	    !cursor_open(&cursor, array) || cursor_next(&cursor, &next) != CURSOR_ELEMENT)
		return;
	/* Its name may be a few digits longer where it would stand. */
	if (verify->last_size + (int64_t)element_raw(&next).length + 7 <=
	    verify->rule->overflow.batch_max_bytes)
		add(verify, VERIFY_NOT_FULL, "batch %lld holds %lld", (long long)verify->number,
		    (long long)verify->last_held);
}

static void note_first(struct verify_document *verify, struct bytes array)
{
	struct cursor cursor;
	struct element first;

	if (!verify->first_size && cursor_open(&cursor, array) &&
	    cursor_next(&cursor, &first) == CURSOR_ELEMENT)
		verify->first_size = (int64_t)element_raw(&first).length;
}

/* Behind a hole nothing says which positions are which. */
static void check_place(struct verify_document *verify, struct bytes array, int64_t position,
			int64_t held, int64_t number)
{
	if (position > verify->length)
		add(verify, VERIFY_HOLE, "batch %lld begins at %lld, the ones before end at %lld",
		    (long long)number, (long long)position, (long long)verify->length);
	if (!verify_document_found(verify, VERIFY_HOLE)) {
		compare_overlap(verify, array, position, number);
		compare_beyond(verify, array, position, held, number);
	}
	if (position + held > verify->length)
		verify->length = position + held;
}

/* A batch of the document's own generation. */
static void check_batch(struct verify_document *verify, struct bytes batch, struct bytes array)
{
	int64_t number = 0, position = 0, held = count_elements(array);

	if (!overflow_place(verify->rule, batch, &number, &position) || position < 0 ||
	    position > NUMBER_MOST || held < 0) {
		add(verify, VERIFY_STATE, "a batch has no number or no place");
		return;
	}
	if (number != verify->number + 1)
		add(verify, VERIFY_NUMBERS, "batch %lld comes behind %lld", (long long)number,
		    (long long)verify->number);
	if (held > verify->rule->overflow.batch_size)
		add(verify, VERIFY_TOO_LONG, "batch %lld holds %lld", (long long)number,
		    (long long)held);
	check_place(verify, array, position, held, number);
	check_full(verify, array);
	note_first(verify, array);
	verify->number = number;
	verify->sum += held;
	verify->last_size = (int64_t)array.length;
	verify->last_held = held;
}

/* ---- an array that was edited in place ---- */

static void keep_hashes(struct verify_document *verify, struct bytes array)
{
	struct cursor cursor;
	struct element element;

	if (!cursor_open(&cursor, array))
		return;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		uint64_t hash = hash_bytes(element.value, element.type);

		buffer_append(&verify->hashes, &hash, sizeof(hash));
	}
}

/* The first `count` elements of `second`, where they stand in `first`. */
static bool same_hashes(const struct verify_document *verify, const struct counted *first,
			const struct counted *second, int64_t count)
{
	int64_t skip = second->placed.position - first->placed.position;

	for (int64_t i = 0; i < count; i++)
		if (hash_at(verify, (int64_t)first->index + skip + i) !=
		    hash_at(verify, (int64_t)second->index + i))
			return false;
	return true;
}

/* What an earlier edition needs, or a pending edit has stored, waits for the garbage collection. */
static void take_edited(struct verify_document *verify, struct bytes batch, struct bytes array)
{
	struct counted each = {.held = count_elements(array)};

	if (!placed_find(batch, &each.placed) || each.held < 0) {
		add(verify, VERIFY_STATE, "a batch has no place");
		return;
	}
	if (!placed_counts(&each.placed, &verify->plan.editions)) {
		verify->garbage++;
		verify->young++;
		return;
	}
	if (each.held > verify->rule->overflow.batch_size)
		add(verify, VERIFY_TOO_LONG, "a batch holds %lld", (long long)each.held);
	each.index = verify->hashes.length / sizeof(uint64_t);
	keep_hashes(verify, array);
	buffer_append(&verify->counting, &each, sizeof(each));
}

/* V5, of what counts under one name, by positions: each against the one that has reached furthest
 * so far. A copy shares no position with another batch. */
static void compare_edited(struct verify_document *verify, const struct counted *from,
			   const struct counted *end)
{
	const struct counted *furthest = from;

	for (const struct counted *each = from; each < end; each++) {
		int64_t position = each->placed.position, over;

		over = placed_end(&furthest->placed, &verify->plan.editions, furthest->held) -
		       position;
		if (each == from || over <= 0) {
			furthest = each;
			continue;
		}
		if (each->placed.width >= 0 || furthest->placed.width >= 0 ||
		    !same_hashes(verify, furthest, each, over < each->held ? over : each->held))
			add(verify, VERIFY_OVERLAP,
			    "a batch at %lld differs from the one before it", (long long)position);
		if (each->held > over)
			furthest = each;
	}
}

/* The reading rule finds all positions, and as many elements as the state says. */
static void check_edited(struct verify_document *verify)
{
	const struct plan *plan = &verify->plan;
	enum counts_step step = COUNTS_HOLE;
	const struct counted *of;
	struct counts counts = {0};
	int64_t skip, take;

	if (verify->counting.length > 0) {
		counts_open(&counts, &plan->editions, (void *)verify->counting.data,
			    verify->counting.length / sizeof(struct counted));
		compare_edited(verify, counts.later, counts.split);
		compare_edited(verify, counts.split, counts.end);
		while ((step = counts_next(&counts, &of, &skip, &take)) == COUNTS_PIECE)
			verify->sum += take;
	}
	if (step != COUNTS_END)
		add(verify, VERIFY_HOLE, "nothing that counts is stored at %lld",
		    (long long)counts.reached);
	else if (verify->sum != plan->elements)
		add(verify, VERIFY_MISSING, "%lld of %lld elements are there",
		    (long long)verify->sum, (long long)plan->elements);
	if (plan->length < plan->head)
		add(verify, VERIFY_MISSING, "the document holds %lld of the first %lld",
		    (long long)plan->length, (long long)plan->head);
}

static bool is_own(const struct verify_document *verify, struct bytes generation)
{
	return bytes_equal(generation, verify->plan.generation) ||
	       (plan_is_edited(&verify->plan) &&
		bytes_equal(generation, verify->plan.editions.later));
}

void verify_document_batch(struct verify_document *verify, struct bytes batch)
{
	struct bytes generation = overflow_generation(batch);
	struct bytes array;

	if (!generation.data) {
		verify->foreign = true;
	} else if (!verify->judged) {
		return; /* nothing is known about what is whose */
	} else if (!verify->plan.generation.data || !is_own(verify, generation)) {
		verify->garbage++;
		if (batch_is_young(batch, verify->young_from))
			verify->young++;
	} else if (!overflow_elements(verify->rule, batch, &verify->scratch, &array)) {
		add(verify, VERIFY_HOLE, "a batch has no array");
	} else if (plan_is_edited(&verify->plan)) {
		take_edited(verify, batch, array);
	} else {
		check_batch(verify, batch, array);
	}
}

static void check_work(struct verify_document *verify)
{
	const struct plan *plan = &verify->plan;

	switch (plan->kind) {
	case PLAN_BIRTH:
		if (!verify->foreign)
			add(verify, VERIFY_NOT_MOVED, "%lld elements", (long long)plan->length);
		return;
	case PLAN_MOVE:
		add(verify, VERIFY_NOT_MOVED, "%lld elements wait",
		    (long long)(plan->length - plan->head));
		return;
	case PLAN_UNDO:
	case PLAN_TIDY:
		add(verify, VERIFY_NOT_MOVED, "a state without overflow is left");
		return;
	case PLAN_REST:
	case PLAN_LEAVE:
	case PLAN_BROKEN:
		return;
	}
	require(!"a plan without a name");
}

/* Fat elements alone leave fewer in the document than the rule says. */
static void check_head(struct verify_document *verify)
{
	const struct rule *rule = verify->rule;
	int64_t most = rule->when_outlier == RULE_EMPTY ? 0 : rule->threshold;
	bool fat = (int64_t)verify->plan.array.length + verify->first_size > rule->max_bytes;

	if (verify->plan.moved == 0)
		return; /* the array is what stands in the document */
	if (verify->plan.length < verify->plan.head)
		add(verify, VERIFY_MISSING, "the document holds %lld of the first %lld",
		    (long long)verify->plan.length, (long long)verify->plan.head);
	else if (verify->plan.head > most || (verify->plan.head < most && !fat))
		add(verify, VERIFY_HEAD, "%lld instead of %lld", (long long)verify->plan.head,
		    (long long)most);
}

static void check_counter(struct verify_document *verify, struct bytes main, enum own_field field,
			  int64_t wanted)
{
	const char *name = own_field_name(verify->rule, field);
	struct element element;
	int64_t count;

	if (!name)
		return;
	if (!document_find(main, name, &element) || !element_integer(&element, &count))
		add(verify, VERIFY_FIELDS, "'%s' is no count, and should be %lld", name,
		    (long long)wanted);
	else if (count != wanted)
		add(verify, VERIFY_FIELDS, "'%s' is %lld instead of %lld", name, (long long)count,
		    (long long)wanted);
}

static bool ends_with(struct bytes text, struct bytes end)
{
	return text.length >= end.length &&
	       bytes_equal((struct bytes){text.data + text.length - end.length, end.length}, end);
}

/* What stands between the two parts is looked at where `_id` is a text itself. */
bool is_reference(const struct rule *rule, const struct element *id, struct bytes text)
{
	struct bytes head = own_reference_head(rule), tail = own_reference_tail(rule), own;

	if (text.length < head.length + tail.length ||
	    !bytes_equal((struct bytes){text.data, head.length}, head) || !ends_with(text, tail))
		return false;
	text = (struct bytes){text.data + head.length, text.length - head.length - tail.length};
	return !element_string(id, &own) || bytes_equal(text, own);
}

static void check_reference(struct verify_document *verify, struct bytes main)
{
	const char *name = own_field_name(verify->rule, OWN_REFERENCE);
	struct element element;
	struct bytes text;

	if (!name || !own_reference_has_text(&verify->plan.id))
		return;
	if (!document_find(main, name, &element) || !element_string(&element, &text) ||
	    !is_reference(verify->rule, &verify->plan.id, text))
		add(verify, VERIFY_FIELDS, "'%s' does not name the overflow", name);
}

/* They are written with each move, and so are right when the document rests. */
static void check_fields(struct verify_document *verify, struct bytes main)
{
	if (verify->plan.kind != PLAN_REST || verify->plan.moved == 0 ||
	    verify->sum != verify->plan.elements)
		return;
	check_counter(verify, main, OWN_TOTAL, verify->plan.length + verify->plan.elements);
	if (!plan_is_edited(&verify->plan))
		check_counter(verify, main, OWN_DOCUMENTS, verify->number);
	check_reference(verify, main);
}

static void check_overflow(struct verify_document *verify)
{
	if (verify->length < verify->plan.moved)
		add(verify, VERIFY_MISSING, "%lld of %lld elements are there",
		    (long long)verify->length, (long long)verify->plan.moved);
	else if (verify->plan.kind == PLAN_REST && verify->length != verify->plan.moved)
		add(verify, VERIFY_NOT_LINKED, "%lld instead of %lld", (long long)verify->length,
		    (long long)verify->plan.moved);
	if (verify->sum > verify->length)
		add(verify, VERIFY_TWICE, "%lld of %lld", (long long)(verify->sum - verify->length),
		    (long long)verify->length);
	check_head(verify);
}

void verify_document_end(struct verify_document *verify, struct bytes main)
{
	bool spilled = verify->plan.generation.data && verify->plan.moved > 0;
	bool stands = spilled || (verify->plan.generation.data &&
				  own_fields_stand_already(&verify->plan.state));

	/* A split that somebody made by hand has the flag for its own overflow. */
	if (verify->rule->flag.field && verify->judged && (spilled || !verify->foreign) &&
	    flag_stands(verify->rule, main) != stands)
		add(verify, VERIFY_FLAG, "%s", stands ? "it does not stand" : "it stands");
	if (verify->garbage > verify->young)
		add(verify, VERIFY_GARBAGE, "%lld batches", (long long)verify->garbage);
	if (verify->foreign)
		add(verify, spilled ? VERIFY_BESIDE : VERIFY_FOREIGN, "%s",
		    spilled ? "it doesn't count" : "the document is left as it is");
	check_work(verify);
	if (verify->plan.generation.data && verify->plan.kind != PLAN_BROKEN) {
		(plan_is_edited(&verify->plan) ? check_edited : check_overflow)(verify);
		check_fields(verify, main);
	}
}

void verify_document_fini(struct verify_document *verify)
{
	buffer_fini(&verify->hashes);
	buffer_fini(&verify->scratch);
	buffer_fini(&verify->counting);
}
