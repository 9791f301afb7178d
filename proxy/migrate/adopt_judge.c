/* A document that was split by hand, beside its overflow: may it be taken over as it is? */
#include "proxy/migrate/adopt_judge.h"

#include "protocol/repeats.h"
#include "proxy/verify/verify_document.h"
#include "rules/rule/hash.h"
#include "rules/rule/overflow_document.h"
#include "rules/rule/own_fields.h"
#include "rules/rule/state.h"

#include <stdio.h>

/* The first reason is the one that is told. */
#define refuse(split, ...) \
	((void)((split)->why[0] || snprintf((split)->why, ADOPT_WHY_SIZE, __VA_ARGS__)))

static bool is_true(uint8_t type, struct bytes value)
{
	static const uint8_t word[] = {5, 0, 0, 0, 't', 'r', 'u', 'e', 0};

	if (type == BSON_BYTE_BOOL)
		return value.data[0] == 1;
	return type == BSON_BYTE_STRING && bytes_equal(value, (struct bytes){word, sizeof(word)});
}

bool adopt_flag_stands(const struct rule *rule, struct bytes main, struct element *flag)
{
	const struct rule_value *value = &rule->flag.value;

	if (!rule->flag.field || !document_find_path(main, rule->flag.field, flag))
		return false;
	if (is_true(value->type, value->value))
		return is_true(flag->type, flag->value);
	return flag->type == value->type && bytes_equal(flag->value, value->value);
}

/* Neither more nor fewer than a move would leave there: else elements have come or gone since it
 * was split. Fat elements alone leave fewer. */
static void judge_length(struct adopt_split *split)
{
	const struct rule *rule = split->rule;
	const struct plan *plan = &split->plan;
	int64_t most = rule->when_outlier == RULE_EMPTY ? 0 : rule->threshold;
	bool fat = (int64_t)plan->array.length + split->first_size > rule->max_bytes;

	if (plan->length > most || (plan->length < most && !fat))
		refuse(split,
		       "the document holds %lld elements, the rule leaves it %lld: whether some "
		       "came or went since it was split can't be told",
		       (long long)plan->length, (long long)most);
}

/* Its overflow may be called otherwise. */
static void judge_reference(struct adopt_split *split)
{
	const char *name = own_field_name(split->rule, OWN_REFERENCE);
	struct element element;
	struct bytes text;

	if (name && document_find_path(split->main, name, &element) &&
	    own_reference_has_text(&split->plan.id) &&
	    (!element_string(&element, &text) || !is_reference(split->rule, &split->plan.id, text)))
		refuse(split, "'%s' is not what the rule says: its elements may stand elsewhere",
		       name);
}

static void judge_main(struct adopt_split *split)
{
	const struct rule *rule = split->rule;
	const char *never = NULL;
	struct element state;

	if (state_find(rule, split->main, &state))
		refuse(split, "the document has a state of Spillway's");
	if (split->plan.kind == PLAN_LEAVE || split->plan.kind == PLAN_BROKEN)
		refuse(split, "%s", split->plan.why);
	if (!split->plan.array.data) {
		refuse(split, "the document has no array '%s'", rule->array);
		return;
	}
	never = plan_never_moved(rule, split->main, &split->plan);
	if (never)
		refuse(split, "%s", never);
	if (rule->flag.field && !adopt_flag_stands(rule, split->main, &split->flag))
		refuse(split,
		       "its flag does not stand: the overflow may be copies of what it holds");
	judge_reference(split);
}

void adopt_split_init(struct adopt_split *split, const struct rule *rule, struct bytes main)
{
	*split = (struct adopt_split){.rule = rule, .main = main, .plan = plan_make(rule, main)};
	split->bytes = (int64_t)main.length;
	split->order.by_time = rule->overflow.created;
	adopt_copies_init(&split->copies, split->plan.array);
	judge_main(split);
}

/* The fields that the layout knows, of one overflow document. */
enum field { FIELD_ID, FIELD_LINK, FIELD_ARRAY, FIELD_NUMBER, FIELD_CREATED, FIELDS };
struct fields {
	struct element all[FIELDS]; /* type 0: not there */
};

static enum field field_of(const struct rule *rule, const struct element *element)
{
	const char *const names[FIELDS] = {"_id", rule->overflow.link, rule->overflow.array,
					   rule->overflow.batch_field, rule->overflow.created};

	for (enum field field = FIELD_ID; field < FIELDS; field++)
		if (names[field] && element_is(element, names[field]))
			return field;
	return FIELDS;
}

/* What an application keeps there beside them would be lost when the array goes back. */
static bool take_fields(struct adopt_split *split, struct bytes batch, struct fields *fields)
{
	struct cursor cursor;
	struct element element;
	enum cursor_step step = CURSOR_INVALID;

	if (cursor_open(&cursor, batch))
		while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT) {
			enum field field = field_of(split->rule, &element);
			bool known = field < FIELDS;

			if (known && !fields->all[field].type) {
				fields->all[field] = element;
				continue;
			}
			refuse(split,
			       known ? "'%.*s' stands twice in an overflow document"
				     : "an overflow document has a field '%.*s', which the rule "
				       "does not name",
			       (int)(element.name.length < 60 ? element.name.length : 60),
			       (const char *)element.name.data);
			return false;
		}
	if (step != CURSOR_END)
		refuse(split, "an overflow document is no BSON");
	return step == CURSOR_END;
}

/* -1: it is none. */
static int64_t count_elements(struct adopt_split *split, const struct element *array)
{
	struct cursor cursor;
	struct element element;
	enum cursor_step step;
	int64_t count = 0;

	if (array->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, array->value))
		return -1;
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT)
		if (count++ == 0 && split->first_size == 0)
			split->first_size = (int64_t)element_raw(&element).length;
	adopt_copies_add(&split->copies, array->value);
	split->bytes += (int64_t)array->value.length;
	return step == CURSOR_END ? count : -1;
}

static void judge_number(struct adopt_split *split, const struct element *number)
{
	int64_t value;

	if (!split->rule->overflow.batch_field) {
		if (split->count > 0)
			refuse(split, "it has several overflow documents, and the rule names no "
				      "field (batch.field) that tells their order");
	} else if (!number->type || !element_integer(number, &value)) {
		refuse(split, "an overflow document has no number '%s'",
		       split->rule->overflow.batch_field);
	} else if (value != split->count + 1) {
		refuse(split,
		       "its overflow documents are not numbered 1, 2, 3: %lld stands in the place "
		       "of %lld",
		       (long long)value, (long long)split->count + 1);
	}
}

static void judge_array(struct adopt_split *split, int64_t held)
{
	int64_t most = split->rule->overflow.batch_size;

	if (held < 0)
		refuse(split, "an overflow document has no array '%s'",
		       split->rule->overflow.array);
	else if (held == 0)
		refuse(split, "an overflow document is empty");
	else if (held > most)
		refuse(split,
		       "an overflow document holds %lld elements, the rule allows %lld "
		       "(batch.size)",
		       (long long)held, (long long)most);
}

static void keep_batch(struct adopt_split *split, const struct fields *fields, int64_t held)
{
	size_t start = writer_open(&split->batches);

	writer_renamed(&split->batches, "_id", &fields->all[FIELD_ID]);
	if (fields->all[FIELD_NUMBER].type)
		writer_renamed(&split->batches, "number", &fields->all[FIELD_NUMBER]);
	writer_int64(&split->batches, "held", held);
	writer_close(&split->batches, start);
	split->elements += held;
}

static void judge_link(struct adopt_split *split, const struct element *link)
{
	const struct element *id = &split->plan.id;

	if (link->type != id->type || !bytes_equal(link->value, id->value))
		refuse(split,
		       "an overflow document's '%s' is equal to its _id, but of another type",
		       split->rule->overflow.link);
}

static void take_whole_batch(struct adopt_split *split, struct bytes batch)
{
	struct fields fields = {0};
	int64_t held;

	if (!take_fields(split, batch, &fields))
		return;
	held = count_elements(split, &fields.all[FIELD_ARRAY]);
	judge_link(split, &fields.all[FIELD_LINK]);
	judge_number(split, &fields.all[FIELD_NUMBER]);
	judge_array(split, held);
	if (!split->why[0])
		keep_batch(split, &fields, held);
}

/* Whether an element can be read from its fields as they stand: Spillway would have to keep others
 * whole beside them. */
static void judge_fields(struct adopt_split *split, struct bytes batch,
			 const struct element *element)
{
	auto_buffer struct buffer fields = {0};

	if (overflow_write_fields(split->rule, element, &fields))
		refuse(split, "an overflow document has a field without a name, with a '.' or a "
			      "'$' in front, or a Timestamp(0, 0)");
	else if (document_repeats_name(batch, false))
		refuse(split, "a name stands twice in an overflow document");
}

/* Where it stood. Its `_id` is the overflow document's own, as in those that Spillway writes: one
 * that an application made up says something that would be lost. */
static bool take_place(struct adopt_split *split, struct bytes batch, struct adopt_place *place)
{
	const char *created = split->rule->overflow.created;
	struct element id, time;

	if (!document_find(batch, "_id", &id) || id.type != BSON_BYTE_OBJECT_ID) {
		refuse(split, "an overflow document's _id is no ObjectId: it is the application's "
			      "own, and would be lost");
		return false;
	}
	memcpy(place->id, id.value.data, sizeof(place->id));
	if (!created)
		return true;
	if (!document_find(batch, created, &time) || time.type != BSON_BYTE_DATE) {
		refuse(split, "an overflow document has no time '%s'", created);
		return false;
	}
	place->time = load_int64(time.value.data);
	return true;
}

/* A document of one element: all but its `_id` and link is the element. */
static void take_element(struct adopt_split *split, struct bytes batch)
{
	struct element link = {0}, state, element;
	struct adopt_place place = {0};
	struct bytes array;
	struct cursor cursor;

	if (document_find(batch, "_spill", &state)) {
		refuse(split, "an overflow document has a field '_spill'");
		return;
	}
	if (!overflow_elements(split->rule, batch, &split->scratch, &array) ||
	    !cursor_open(&cursor, array) || cursor_next(&cursor, &element) != CURSOR_ELEMENT) {
		refuse(split, "an overflow document is no BSON");
		return;
	}
	(void)!document_find(batch, split->rule->overflow.link, &link);
	judge_link(split, &link);
	judge_fields(split, batch, &element);
	if (!take_place(split, batch, &place))
		return;
	place.size = (int32_t)element_raw(&element).length;
	adopt_order_add(&split->order, &place);
	adopt_copies_add(&split->copies, array);
	split->bytes += (int64_t)element.value.length;
	split->elements++;
}

uint64_t adopt_seal(struct bytes batch)
{
	return hash_bytes(batch, 0);
}

void adopt_split_batch(struct adopt_split *split, struct bytes batch)
{
	bool elements = split->rule->overflow.layout == RULE_ELEMENTS;
	int most = elements ? ADOPT_ELEMENTS_MAX : ADOPT_BATCHES_MAX;

	if (overflow_generation(batch).data) {
		split->others++;
		return;
	}
	split->seal += adopt_seal(batch);
	if (!split->why[0] && elements)
		take_element(split, batch);
	else if (!split->why[0])
		take_whole_batch(split, batch);
	if (++split->count > most)
		refuse(split, "it has more than %d overflow documents", most);
}

/* The application's own count, where there is one. */
static void judge_counter(struct adopt_split *split, const char *name, int64_t counted)
{
	struct element element;
	int64_t value = -1;

	if (!name || split->why[0] || !document_find_path(split->main, name, &element))
		return;
	split->counted = element_integer(&element, &value) && value == counted;
	if (!split->counted)
		refuse(split, "'%s' is not %lld, which is what is there: something may be missing",
		       name, (long long)counted);
}

/* Nothing may speak against the overflow being the array's rest, and something must speak for it.
 */
static void judge_copies(struct adopt_split *split)
{
	if (!split->totalled && adopt_copies_found(&split->copies))
		refuse(split, "all elements that the document holds stand in the overflow, too: "
			      "they are copies");
	if (!split->rule->flag.field && !split->counted)
		refuse(split, "the rule names no flag, and the document has no counter: nothing "
			      "tells that the overflow belongs to its array");
	if (split->bytes > ADOPT_BYTES_MAX)
		refuse(split, "it comes to %lld bytes: no reply could carry it whole",
		       (long long)split->bytes);
}

/* The time of the last element that the document holds itself, where it has one. */
static bool last_time(const struct adopt_split *split, int64_t *time)
{
	struct element element, last = {0}, created;
	struct cursor cursor;
	struct bytes document;

	if (!cursor_open(&cursor, split->plan.array))
		return false;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		last = element;
	if (!element_document(&last, &document) ||
	    !document_find(document, split->rule->overflow.created, &created) ||
	    created.type != BSON_BYTE_DATE)
		return false;
	*time = load_int64(created.value.data);
	return true;
}

/* Of documents of one element each. */
static void judge_order(struct adopt_split *split)
{
	const char *doubt = adopt_order_find(&split->order);
	int64_t time;

	if (doubt)
		refuse(split, "%s", doubt);
	if (split->order.by_time && adopt_order_count(&split->order) > 0 &&
	    last_time(split, &time) && time > adopt_order_at(&split->order, 0)->time)
		refuse(split, "the document's own elements would come first, and its last one is "
			      "later than the overflow's first: it seems to keep the newest");
	if (adopt_order_count(&split->order) > 0)
		split->first_size = adopt_order_at(&split->order, 0)->size;
}

void adopt_split_end(struct adopt_split *split)
{
	if (split->count == 0)
		return;
	if (split->others > 0)
		refuse(split, "overflow documents of Spillway's stand beside those made by hand");
	judge_order(split);
	if (!split->why[0])
		judge_length(split);
	judge_counter(split, split->rule->counters.total, split->plan.length + split->elements);
	split->totalled = split->counted;
	judge_counter(split, split->rule->counters.documents, split->count);
	judge_copies(split);
}

void adopt_split_fini(struct adopt_split *split)
{
	buffer_fini(&split->batches);
	buffer_fini(&split->scratch);
	adopt_order_fini(&split->order);
	adopt_copies_fini(&split->copies);
}
