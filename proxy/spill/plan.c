/* What an image of a main document says is to be done. */
#include "proxy/spill/plan.h"

#include "protocol/repeats.h"
#include "protocol/writer.h"
#include "rules/rule/own_fields.h"
#include "rules/rule/state.h"
#include "rules/query/projection.h"

#define EMPTY_ARRAY 5 /* bytes: its length field and its NUL */

/* The part of a dotted path up to its first dot; `rest` is what follows, NULL at the end. */
static struct bytes first_name(const char *path, const char **rest)
{
	const char *dot = strchr(path, '.');

	*rest = dot ? dot + 1 : NULL;
	return (struct bytes){(const uint8_t *)path, dot ? (size_t)(dot - path) : strlen(path)};
}

static enum plan_path find_name(struct bytes document, struct bytes name, struct element *element)
{
	struct cursor cursor;
	struct element each;
	enum cursor_step step;
	size_t count = 0;

	if (!cursor_open(&cursor, document))
		return PLAN_PATH_BROKEN;
	while ((step = cursor_next(&cursor, &each)) == CURSOR_ELEMENT) {
		if (bytes_equal(each.name, name) && count++ == 0)
			*element = each;
	}
	if (step != CURSOR_END)
		return PLAN_PATH_BROKEN;
	if (count > 1)
		return PLAN_PATH_TWICE;
	return count == 1 ? PLAN_PATH_FOUND : PLAN_PATH_MISSING;
}

enum plan_path plan_find(struct bytes document, const char *path, struct element *element)
{
	struct element each;
	enum plan_path found;
	const char *rest;
	struct bytes name = first_name(path, &rest);

	while ((found = find_name(document, name, &each)) == PLAN_PATH_FOUND && rest) {
		if (each.type != BSON_BYTE_DOCUMENT)
			return PLAN_PATH_BLOCKED;
		document = each.value;
		name = first_name(rest, &rest);
	}
	if (found == PLAN_PATH_FOUND)
		*element = each;
	return found;
}

static struct plan with_reason(struct plan plan, enum plan_kind kind, const char *why)
{
	plan.kind = kind;
	plan.why = why;
	return plan;
}

/* Passes over elements, at most `most` and no more than `size` bytes of them. */
static int64_t pass_over(struct cursor *cursor, int64_t most, size_t size)
{
	struct element element;
	int64_t count;

	for (count = 0; count < most; count++) {
		struct cursor next = *cursor;

		if (cursor_next(&next, &element) != CURSOR_ELEMENT ||
		    element_raw(&element).length > size)
			break;
		size -= element_raw(&element).length;
		*cursor = next;
	}
	return count;
}

/* The head is at most `most` elements, and `size` bytes of them; the rest is the tail. */
static bool measure(struct plan *plan, int64_t most, size_t size)
{
	struct cursor end;
	struct element element;

	if (!cursor_open(&plan->tail, plan->array))
		return false;
	plan->head = pass_over(&plan->tail, most, size);
	end = plan->tail;
	plan->length = plan->head + pass_over(&end, INT64_MAX, SIZE_MAX);
	return cursor_next(&end, &element) == CURSOR_END;
}

static bool tail_repeats_name(struct cursor tail)
{
	struct element element;

	while (cursor_next(&tail, &element) == CURSOR_ELEMENT)
		if ((element.type == BSON_BYTE_DOCUMENT || element.type == BSON_BYTE_ARRAY) &&
		    document_repeats_name(element.value, element.type == BSON_BYTE_ARRAY))
			return true;
	return false;
}

#define COMPARED_MAX 1000 /* fields; where there are more, any repeat is too many */

/* An inclusion would not find the state behind them. */
static bool repeats_too_often(struct bytes document)
{
	struct element element, other;
	struct cursor cursor, behind;
	size_t repeats = 0, fields = 0;
	bool again;

	if (!cursor_open(&cursor, document))
		return false;
	while (repeats <= PROJECTION_SPARES && fields++ <= COMPARED_MAX &&
	       cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		again = false;
		behind = cursor;
		for (size_t i = fields; !again && i <= COMPARED_MAX + 1 &&
					cursor_next(&behind, &other) == CURSOR_ELEMENT;
		     i++)
			again = bytes_equal(element.name, other.name);
		repeats += again;
	}
	return repeats > PROJECTION_SPARES || fields > COMPARED_MAX;
}

/* Why M4 must not write this field of the rule's, or NULL. */
static const char *field_mistake(struct bytes document, const char *name, enum own_field field)
{
	static const char *const twice[OWN_FIELDS] = {
		[OWN_FLAG] = "the flag's name stands twice in it",
		[OWN_TOTAL] = "a counter's name stands twice in it",
		[OWN_DOCUMENTS] = "a counter's name stands twice in it",
		[OWN_REFERENCE] = "the reference's name stands twice in it"};
	struct element element;

	switch (plan_find(document, name, &element)) {
	case PLAN_PATH_TWICE:
		return twice[field];
	case PLAN_PATH_BLOCKED:
		return "a parent of the flag is no document";
	case PLAN_PATH_BROKEN:
		return "it is no BSON";
	case PLAN_PATH_FOUND:
		if (own_field_may_be(field, element.type))
			return NULL;
		return field == OWN_REFERENCE ? "what stands in the reference's place is no text"
					      : "what stands in a counter's place is no number";
	case PLAN_PATH_MISSING:
		return NULL;
	}
	require(!"a way to find a path without a name");
}

/* A pipeline update aborts mongod 6.0 where a name that it writes stands twice, or where it puts
 * one document in the place of another and a name stands twice in one of them: such a document is
 * left alone. So is one whose `_id` mongod would rewrite when it is stored as a link. */
const char *plan_never_moved(const struct rule *rule, struct bytes document,
			     const struct plan *plan)
{
	static const uint8_t nothing[8];
	const char *mistake = NULL;

	if (plan->id.type == BSON_BYTE_TIMESTAMP && memcmp(plan->id.value.data, nothing, 8) == 0)
		return "its _id is the Timestamp (0, 0)";
	if (document_repeats_name(document, false)) {
		if (repeats_too_often(document))
			return "names stand twice in it too often";
		if (tail_repeats_name(plan->tail))
			return "a name stands twice in an element of the array";
	}
	for (enum own_field field = OWN_FLAG; !mistake && field < OWN_FIELDS; field++) {
		const char *name = own_field_name(rule, field);

		mistake = name ? field_mistake(document, name, field) : NULL;
	}
	return mistake;
}

/* S as M1 and M4 write it. Where it is something else: what is damaged; else NULL. */
static const char *take_state(struct plan *plan, const struct element *field)
{
	struct state state;
	const char *damage = state_read_any(field, true, &state);

	plan->generation = state.generation;
	if (state.generation.data)
		plan->state = *field;
	if (damage)
		return damage;
	plan->head = state.head;
	plan->moved = state.moved;
	plan->elements = state_elements(&state);
	if (state.later.data)
		plan->editions = state;
	return NULL;
}

enum standing {
	STATE_ABSENT,
	STATE_EMPTY, /* `_spill: {}` */
	STATE_FOUND,
	STATE_TWICE,
	STATE_BROKEN,
};

static enum standing find_state(const struct rule *rule, struct bytes document,
				struct element *state)
{
	struct element all;
	enum plan_path found = plan_find(document, "_spill", &all);

	if (found == PLAN_PATH_MISSING)
		return STATE_ABSENT;
	if (found == PLAN_PATH_TWICE)
		return STATE_TWICE;
	if (found != PLAN_PATH_FOUND || all.type != BSON_BYTE_DOCUMENT)
		return STATE_BROKEN;
	if (all.value.length == 5)
		return STATE_EMPTY;
	/* The key is one name, whatever stands in it. */
	switch (find_name(all.value, bytes_of(rule->key), state)) {
	case PLAN_PATH_FOUND:
		return STATE_FOUND;
	case PLAN_PATH_MISSING:
		return STATE_ABSENT;
	case PLAN_PATH_TWICE:
		return STATE_TWICE;
	case PLAN_PATH_BLOCKED:
	case PLAN_PATH_BROKEN:
		break;
	}
	return STATE_BROKEN;
}

/* As the rule would have it: false where the array is no BSON. */
static bool measure_by_rule(struct plan *plan, const struct rule *rule)
{
	int64_t most = rule->when_outlier == RULE_EMPTY ? 0 : rule->threshold;
	size_t size = rule->max_bytes > EMPTY_ARRAY ? (size_t)rule->max_bytes - EMPTY_ARRAY : 0;

	return measure(plan, most, size);
}

static bool within_bounds(const struct plan *plan, const struct rule *rule)
{
	return plan->length <= rule->threshold && plan->array.length <= (size_t)rule->max_bytes;
}

bool plan_measure(const struct rule *rule, struct plan *plan)
{
	return measure_by_rule(plan, rule) && !within_bounds(plan, rule);
}

/* Between the look and the birth another array may have come, of which another head is to stay. */
static bool born_wrong(const struct plan *plan, const struct rule *rule)
{
	struct plan fresh = *plan;

	return plan->moved == 0 && measure_by_rule(&fresh, rule) &&
	       (fresh.head != plan->head || within_bounds(&fresh, rule));
}

static struct plan plan_spilled(struct plan plan, const struct rule *rule, struct bytes document)
{
	const char *why;
	int64_t head = plan.head;

	if (!measure(&plan, head, SIZE_MAX))
		return with_reason(plan, PLAN_BROKEN, "the array is no BSON");
	plan.head = head;
	if (plan_is_edited(&plan) && (plan.moved == 0 || rule->overflow.layout != RULE_BATCHES))
		return with_reason(plan, PLAN_LEAVE, "no Spillway edits such an array in place");
	if (born_wrong(&plan, rule))
		return with_reason(plan, PLAN_UNDO, NULL);
	if (plan.length <= head)
		return with_reason(plan, PLAN_REST, NULL);
	why = plan_never_moved(rule, document, &plan);
	return why ? with_reason(plan, PLAN_LEAVE, why) : with_reason(plan, PLAN_MOVE, NULL);
}

static struct plan plan_unspilled(struct plan plan, const struct rule *rule, struct bytes document,
				  enum standing state)
{
	const char *why;

	if (!measure_by_rule(&plan, rule))
		return with_reason(plan, PLAN_BROKEN, "the array is no BSON");
	if (within_bounds(&plan, rule)) {
		plan.kind = state == STATE_EMPTY ? PLAN_TIDY : PLAN_REST;
		return plan;
	}
	why = plan_never_moved(rule, document, &plan);
	return why ? with_reason(plan, PLAN_LEAVE, why) : with_reason(plan, PLAN_BIRTH, NULL);
}

struct plan plan_make(const struct rule *rule, struct bytes document)
{
	struct plan plan = {.kind = PLAN_REST, .size = document.length};
	struct element array, state;
	enum plan_path found;
	enum standing standing = find_state(rule, document, &state);
	const char *damage;

	if (!document_find(document, "_id", &plan.id))
		return with_reason(plan, PLAN_BROKEN, "it has no _id");
	if (standing == STATE_BROKEN)
		return with_reason(plan, PLAN_BROKEN, "_spill is no document");
	found = plan_find(document, rule->array, &array);
	if (found == PLAN_PATH_BROKEN)
		return with_reason(plan, PLAN_BROKEN, "it is no BSON");
	if (found == PLAN_PATH_TWICE || standing == STATE_TWICE)
		return with_reason(plan, PLAN_LEAVE,
				   "a name that a move writes stands twice in it");
	if (found != PLAN_PATH_FOUND || array.type != BSON_BYTE_ARRAY) {
		plan.kind = standing == STATE_EMPTY ? PLAN_TIDY : PLAN_REST;
		return plan;
	}
	plan.array = array.value;
	if (standing != STATE_FOUND)
		return plan_unspilled(plan, rule, document, standing);
	damage = take_state(&plan, &state);
	if (damage)
		return with_reason(plan, PLAN_BROKEN, damage);
	return plan_spilled(plan, rule, document);
}

/* The bytes of the one are the other's first ones, but for the length in front. */
static bool goes_on(struct bytes old, struct bytes document)
{
	return document.length > old.length &&
	       memcmp(old.data + 4, document.data + 4, old.length - 5) == 0;
}

static const uint8_t *moved_by(const uint8_t *at, struct bytes old, struct bytes document)
{
	return document.data + (at - old.data);
}

/* The plan's views into the one become views into the other. */
static void look_into(struct plan *plan, struct bytes old, struct bytes document)
{
	plan->id.name.data = moved_by(plan->id.name.data, old, document);
	plan->id.value.data = moved_by(plan->id.value.data, old, document);
	plan->array.data = moved_by(plan->array.data, old, document);
	plan->tail.at = moved_by(plan->tail.at, old, document);
	plan->tail.end = moved_by(plan->tail.end, old, document);
	plan->size = document.length;
}

must_check bool plan_follow(const struct rule *rule, const struct plan *before, struct bytes old,
			    struct bytes document, struct plan *plan)
{
	struct element all, state;
	int64_t head = before->head;

	*plan = *before;
	if (before->kind != PLAN_BIRTH || !goes_on(old, document) ||
	    find_state(rule, document, &state) != STATE_FOUND ||
	    !document_find(document, "_spill", &all) ||
	    element_raw(&all).data != document.data + old.length - 1 ||
	    all.value.data + all.value.length != document.data + document.length - 1 ||
	    take_state(plan, &state) || plan->head != head || plan->moved != 0)
		return false;
	plan->kind = PLAN_MOVE;
	look_into(plan, old, document);
	return true;
}

int64_t plan_take(struct cursor *tail, int64_t held, int64_t count, int64_t size,
		  struct buffer *out)
{
	struct cursor next = *tail;
	struct element element;
	int64_t taken = 0, used = 0;
	char name[12];

	while (taken < count && cursor_next(&next, &element) == CURSOR_ELEMENT) {
		writer_index(name, (size_t)(held + taken));
		used += (int64_t)(element_raw(&element).length - element.name.length +
				  strlen(name));
		if (used > size && held + taken > 0)
			break;
		writer_renamed(out, name, &element);
		*tail = next;
		taken++;
	}
	return taken;
}
