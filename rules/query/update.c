/* Says what an update does to the ruled arrays: operators and replacements. */
#include "rules/query/update.h"

#include "protocol/repeats.h"

#include "rules/query/update_operators.h"
#include "rules/rule/names.h"
#include "rules/query/reads.h"

void update_note(struct update *update, enum update_kind kind, const struct rule *rule,
		 struct bytes what, const char *otherwise)
{
	if (kind <= update->kind)
		return;
	update->kind = kind;
	update->rule = rule;
	reads_say(update->what, what, otherwise);
}

void update_note_reserved(struct update *update, const struct ruled_namespace *namespace,
			  struct bytes path)
{
	const char *name = name_is_state(path) ? NAME_STATE : name_find_reserved(path, namespace);

	if (name)
		update_note(update, UPDATE_RESERVED, NULL, bytes_of(""), name);
}

/* What the operators do to one ruled array. */
struct touched {
	struct update update; /* as if this were the only rule */
	size_t covering;      /* paths that are the array or above it */
	size_t below;
};

/* Elements of an array; adds them up. False where it is broken. */
static bool count_elements(struct bytes array, int64_t *count)
{
	struct cursor cursor;
	struct element element;
	enum cursor_step step = CURSOR_INVALID;

	if (cursor_open(&cursor, array))
		step = cursor_next(&cursor, &element);
	for (; step == CURSOR_ELEMENT; step = cursor_next(&cursor, &element))
		*count += 1;
	return step == CURSOR_END;
}

/* Such an element could reach the array while a mover cuts its tail, which would abort mongod
 * (repeats.h). */
static bool holds_repeated_name(const struct element *value)
{
	return (value->type == BSON_BYTE_DOCUMENT || value->type == BSON_BYTE_ARRAY) &&
	       document_repeats_name(value->value, value->type == BSON_BYTE_ARRAY);
}

/* $push of one value, or of those of $each; with anything beside $each it may land elsewhere than
 * at the end. False where the BSON is broken. */
static bool judge_push(const struct element *value, const struct rule *rule, struct update *update)
{
	struct cursor cursor;
	struct element clause;
	enum cursor_step step;
	int64_t elements = 0;
	bool each = false, others = false;

	update->appends = true;
	update->bytes += (int64_t)value->value.length;
	if (holds_repeated_name(value))
		update_note(update, UPDATE_EDIT, rule, bytes_of(""),
			    "$push of a document in which a name stands twice");
	if (value->type != BSON_BYTE_DOCUMENT) {
		update->elements++;
		return true;
	}
	if (!cursor_open(&cursor, value->value))
		return false;
	while ((step = cursor_next(&cursor, &clause)) == CURSOR_ELEMENT) {
		if (!element_is(&clause, "$each"))
			others = true;
		else if (clause.type == BSON_BYTE_ARRAY && !count_elements(clause.value, &elements))
			return false;
		each = each || element_is(&clause, "$each");
	}
	if (each && others)
		update_note(update, UPDATE_EDIT, rule, bytes_of(""), "$push with modifiers");
	update->elements += each ? elements : 1;
	return step == CURSOR_END;
}

/* True when the value, set at `path`, makes the ruled array a long one. */
static bool sets_long_array(const struct change *change, const struct rule *rule)
{
	struct element array = change->value;
	const char *rest = rule->array + change->path.length;
	struct bytes document;

	if (*rest == '\0')
		return array_is_long(&array, rule);
	return element_document(&change->value, &document) &&
	       document_find_path(document, rest + 1, &array) && array_is_long(&array, rule);
}

/* False where the BSON is broken. */
static bool judge_change(const struct change *change, const struct rule *rule,
			 struct touched *touched)
{
	enum path_relation exact = path_relate(change->path, rule->array);
	bool covers = exact == PATH_SAME || exact == PATH_ABOVE;
	bool on_insert = bytes_are(change->verb, "$setOnInsert");
	bool set = bytes_are(change->verb, "$set");

	if (name_relate(change->path, rule->array) == PATH_APART)
		return true;
	touched->covering += covers;
	touched->below += exact == PATH_BELOW;
	if (covers && (set || on_insert) && sets_long_array(change, rule))
		touched->update.long_array = true;
	if (on_insert && !memmem(change->path.data, change->path.length, ".$", 2))
		return true; /* there is no array then, nor a state; but $[] is always looked up */
	if (exact == PATH_SAME && bytes_are(change->verb, "$push"))
		return judge_push(&change->value, rule, &touched->update);
	update_note(&touched->update,
		    covers && (set || bytes_are(change->verb, "$unset")) ? UPDATE_WHOLE
									 : UPDATE_EDIT,
		    rule, change->verb, "an unknown operator");
	return true;
}

/* False where the BSON is broken. */
static bool judge_operators(struct bytes operators, const struct rule *rule,
			    struct touched *touched)
{
	struct changes changes;
	struct change change;
	enum cursor_step step = CURSOR_INVALID;

	*touched = (struct touched){0};
	if (changes_open(&changes, operators))
		step = changes_next(&changes, &change);
	while (step == CURSOR_ELEMENT) {
		if (!judge_change(&change, rule, touched))
			return false;
		step = changes_next(&changes, &change);
	}
	return step == CURSOR_END;
}

static void note_reserved_paths(struct bytes operators, const struct ruled_namespace *namespace,
				struct update *update)
{
	struct changes changes;
	struct change change;

	if (!changes_open(&changes, operators))
		return;
	while (changes_next(&changes, &change) == CURSOR_ELEMENT)
		update_note_reserved(update, namespace, change.path);
}

static void join(struct update *update, const struct update *other)
{
	bool appends = update->appends || other->appends;
	bool long_array = update->long_array || other->long_array;
	int64_t elements = update->elements + other->elements;
	int64_t bytes = update->bytes + other->bytes;

	if (other->kind > update->kind)
		*update = *other;
	update->appends = appends;
	update->long_array = long_array;
	update->elements = elements;
	update->bytes = bytes;
}

static void classify_operators(struct bytes operators, const struct ruled_namespace *namespace,
			       struct update *update)
{
	struct update sum = {0};
	bool conflict = false;

	for (size_t i = 0; i < namespace->target_count; i++) {
		struct touched touched;

		if (!judge_operators(operators, namespace->targets[i].rule, &touched)) {
			update_note(update, UPDATE_BROKEN, NULL, bytes_of(""), "broken BSON");
			return;
		}
		/* Two of these are a path and its prefix: error 40. */
		conflict =
			conflict || (touched.covering > 0 && touched.covering + touched.below > 1);
		join(&sum, &touched.update);
	}
	if (!conflict)
		*update = sum;
	note_reserved_paths(operators, namespace, update);
}

/* ---- whole documents ---- */

bool array_is_long(const struct element *array, const struct rule *rule)
{
	struct cursor cursor;
	struct element element;
	int64_t count = 0;

	if (array->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, array->value))
		return false;
	if (array->value.length > (size_t)rule->max_bytes)
		return true;
	while (count <= rule->threshold && cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		count++;
	return count > rule->threshold;
}

bool document_is_outlier(struct bytes document, const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;
		struct element array;

		if (document_find_path(document, rule->array, &array) &&
		    array_is_long(&array, rule))
			return true;
	}
	return false;
}

bool document_names_state(struct bytes document)
{
	struct cursor cursor;
	struct element field;

	if (!cursor_open(&cursor, document))
		return false;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (name_is_state(field.name))
			return true;
	return false;
}

static void classify_replacement(struct bytes document, const struct ruled_namespace *namespace,
				 struct update *update)
{
	update->kind = UPDATE_REPLACE;
	update->long_array = document_is_outlier(document, namespace);
	if (document_names_state(document))
		update_note(update, UPDATE_RESERVED, NULL, bytes_of(""), NAME_STATE);
}

struct update update_classify(const struct element *u, const struct ruled_namespace *namespace)
{
	struct update update = {0};
	struct cursor cursor;
	struct element first;
	enum cursor_step step = CURSOR_INVALID;

	if (u->type == BSON_BYTE_ARRAY) {
		update_classify_pipeline(u->value, namespace, &update);
		return update;
	}
	if (u->type != BSON_BYTE_DOCUMENT)
		return update;
	if (cursor_open(&cursor, u->value))
		step = cursor_next(&cursor, &first);
	if (step != CURSOR_ELEMENT && step != CURSOR_END)
		update_note(&update, UPDATE_BROKEN, NULL, bytes_of(""), "broken BSON");
	else if (step == CURSOR_ELEMENT && first.name.length > 0 && first.name.data[0] == '$')
		classify_operators(u->value, namespace, &update);
	else
		classify_replacement(u->value, namespace, &update);
	return update;
}
