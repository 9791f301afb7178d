/* Says what a find's projection returns of the ruled arrays, and writes it anew. */
#include "rules/query/projection.h"

#include "protocol/writer.h"
#include "rules/query/projection_leaves.h"
#include "rules/rule/names.h"
#include "rules/query/reads.h"
#include "rules/query/window.h"

/* What becomes of one ruled array; of several, the last in this list. */
enum fate {
	FATE_UNNAMED,
	FATE_INCLUDED,
	FATE_EXCLUDED,
	FATE_COMPUTED, /* something else takes its name */
	FATE_CUT,
};

static enum fate fate_by(const struct leaf *leaf, const struct rule *rule)
{
	enum path_relation relation = name_relate(leaf->path, rule->array);

	if (relation == PATH_APART)
		return FATE_UNNAMED;
	if (relation == PATH_BELOW)
		return FATE_CUT;
	switch (leaf->kind) {
	case LEAF_INCLUDED:
		return FATE_INCLUDED;
	case LEAF_EXCLUDED:
		return FATE_EXCLUDED;
	case LEAF_COMPUTED:
		return FATE_COMPUTED;
	case LEAF_SLICE:
	case LEAF_MATCH:
	case LEAF_META:
		break;
	}
	return FATE_CUT;
}

/* `decider`: the value that decided it, where the fate is not FATE_UNNAMED. */
static enum fate fate_of(struct bytes projection, const struct rule *rule, struct element *decider)
{
	enum fate fate = FATE_UNNAMED;
	struct leaves leaves;
	struct leaf leaf;

	if (leaves_open(&leaves, projection)) {
		while (leaves_next(&leaves, &leaf) == CURSOR_ELEMENT) {
			enum fate by = fate_by(&leaf, rule);

			if (by <= fate)
				continue;
			fate = by;
			*decider = leaf.value;
		}
	}
	leaves_close(&leaves);
	return fate;
}

/* What makes a projection inclusive or exclusive. */
struct shape {
	bool includes, excludes; /* `_id` apart */
	bool includes_id, excludes_id;
	bool matches; /* $elemMatch */
	bool slices;
	size_t ids; /* paths that are `_id` or in it */
};

static void shape_add(struct shape *shape, const struct leaf *leaf)
{
	enum path_relation relation = path_relate(leaf->path, "_id");
	bool id = leaf->top && relation == PATH_SAME;

	shape->ids += relation == PATH_SAME || relation == PATH_BELOW;
	switch (leaf->kind) {
	case LEAF_INCLUDED:
		*(id ? &shape->includes_id : &shape->includes) = true;
		break;
	case LEAF_EXCLUDED:
		*(id ? &shape->excludes_id : &shape->excludes) = true;
		break;
	case LEAF_COMPUTED:
		shape->includes = true;
		break;
	case LEAF_MATCH:
		shape->matches = true;
		break;
	case LEAF_SLICE:
		shape->slices = true;
		break;
	case LEAF_META:
		break;
	}
}

/* Where neither is said, as mongod 6.0.5 decides, whatever the order. */
static bool shape_inclusive(const struct shape *shape)
{
	if (shape->includes || shape->excludes)
		return shape->includes;
	return shape->includes_id || (shape->matches && !shape->slices);
}

static struct shape shape_of(struct bytes projection)
{
	struct shape shape = {0};
	struct leaves leaves;
	struct leaf leaf;

	if (leaves_open(&leaves, projection)) {
		while (leaves_next(&leaves, &leaf) == CURSOR_ELEMENT)
			shape_add(&shape, &leaf);
	}
	leaves_close(&leaves);
	return shape;
}

bool projection_inclusive(struct bytes projection)
{
	struct shape shape = shape_of(projection);

	return shape_inclusive(&shape);
}

bool projection_hides_id(struct bytes projection)
{
	struct shape shape = shape_of(projection);

	return shape.excludes_id;
}

bool projection_mixes(struct bytes projection)
{
	struct shape shape = shape_of(projection);

	return shape.includes && shape.excludes;
}

static bool names_field(const struct leaf *leaf)
{
	return (leaf->kind == LEAF_INCLUDED || leaf->kind == LEAF_EXCLUDED) &&
	       !memchr(leaf->path.data, '$', leaf->path.length);
}

bool projection_names_fields(struct bytes projection)
{
	struct leaves leaves;
	struct leaf leaf;
	enum cursor_step step = CURSOR_INVALID;

	if (leaves_open(&leaves, projection))
		while ((step = leaves_next(&leaves, &leaf)) == CURSOR_ELEMENT)
			if (!names_field(&leaf))
				break;
	leaves_close(&leaves);
	return step == CURSOR_END;
}

/* The gravest that was found, the first of these. */
static void note(struct projection *found, enum projection_kind kind, const struct rule *rule,
		 struct bytes what, const char *otherwise)
{
	if (kind <= found->kind)
		return;
	found->kind = kind;
	if (kind < PROJECTION_REFUSE)
		return;
	found->rule = rule;
	reads_say(found->what, what, otherwise);
}

static void note_expression(struct projection *found, const struct element *value,
			    const struct ruled_namespace *namespace)
{
	static const enum projection_kind kinds[] = {
		[READS_NOTHING] = PROJECTION_NONE,
		[READS_ARRAY] = PROJECTION_REFUSE,
		[READS_RESERVED] = PROJECTION_RESERVED,
		[READS_BROKEN] = PROJECTION_BROKEN,
	};
	struct reads reads = reads_of_expression(value, namespace);

	note(found, kinds[reads.kind], reads.rule, bytes_of(""), reads.what);
}

/* What a leaf says by itself, whatever the shape. */
static void note_leaf(struct projection *found, const struct leaf *leaf,
		      const struct ruled_namespace *namespace)
{
	const char *hidden = name_find_hidden(leaf->path, namespace);
	bool whole = leaf->kind == LEAF_INCLUDED || leaf->kind == LEAF_EXCLUDED;

	if (name_is_state(leaf->path))
		note(found, PROJECTION_RESERVED, NULL, bytes_of(""), NAME_STATE);
	else if (hidden && !whole)
		note(found, PROJECTION_RESERVED, NULL, bytes_of(""), hidden);
	else if (hidden && leaf->kind == LEAF_INCLUDED)
		note(found, PROJECTION_INCLUDE, NULL, bytes_of(""), hidden);
	if (leaf->kind == LEAF_COMPUTED)
		note_expression(found, &leaf->value, namespace);
}

/* False where it is broken or can't be followed. */
static bool note_leaves(struct projection *found, struct bytes projection,
			const struct ruled_namespace *namespace, struct shape *shape)
{
	enum cursor_step step = CURSOR_INVALID;
	struct leaves leaves;
	struct leaf leaf;

	*shape = (struct shape){0};
	if (leaves_open(&leaves, projection))
		step = leaves_next(&leaves, &leaf);
	while (step == CURSOR_ELEMENT) {
		note_leaf(found, &leaf, namespace);
		shape_add(shape, &leaf);
		step = leaves_next(&leaves, &leaf);
	}
	leaves_close(&leaves);
	return step == CURSOR_END;
}

/* What the array's fate means under this shape. */
static enum projection_kind kind_by(enum fate fate, bool inclusive)
{
	if (fate == FATE_CUT || (fate == FATE_COMPUTED && !inclusive))
		return PROJECTION_REFUSE;
	if (!inclusive)
		return PROJECTION_EXCLUDE;
	return fate == FATE_INCLUDED ? PROJECTION_INCLUDE : PROJECTION_FORWARD;
}

bool projection_keeps_id(struct bytes projection)
{
	struct leaves leaves;
	struct leaf leaf;
	bool keeps = true;

	if (leaves_open(&leaves, projection)) {
		while (keeps && leaves_next(&leaves, &leaf) == CURSOR_ELEMENT) {
			enum path_relation relation = path_relate(leaf.path, "_id");

			keeps = relation == PATH_APART ||
				(relation == PATH_SAME &&
				 (leaf.kind == LEAF_INCLUDED || leaf.kind == LEAF_EXCLUDED));
		}
	}
	leaves_close(&leaves);
	return keeps;
}

struct projection projection_classify(struct bytes projection,
				      const struct ruled_namespace *namespace)
{
	struct projection found = {0};
	struct shape shape;

	if (!note_leaves(&found, projection, namespace, &shape))
		note(&found, PROJECTION_BROKEN, NULL, bytes_of(""), "broken or too deep BSON");
	if (projection.length <= 5)
		return found;
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;
		struct element decider = {0};
		enum fate fate = fate_of(projection, rule, &decider);

		note(&found, kind_by(fate, shape_inclusive(&shape)), rule,
		     element_operator(&decider), "a part of the array");
		if (fate == (shape_inclusive(&shape) ? FATE_INCLUDED : FATE_UNNAMED) &&
		    !projection_keeps_id(projection))
			note(&found, PROJECTION_REFUSE, rule, bytes_of(""), "a part of _id");
	}
	return found;
}

/* A projection as it is written. */
struct writing {
	const struct ruled_namespace *namespace;
	struct bytes projection;
	struct shape shape;
	bool inclusive;
	bool windows;    /* of some ruled arrays, and no other part of any */
	size_t returned; /* ruled arrays */
};

static bool returns(const struct writing *writing, size_t target)
{
	struct element decider;
	enum fate fate =
		fate_of(writing->projection, writing->namespace->targets[target].rule, &decider);

	return (writing->windows && fate == FATE_CUT) ||
	       fate == (writing->inclusive ? FATE_INCLUDED : FATE_UNNAMED);
}

static bool client_names(struct bytes projection, const char *path)
{
	struct leaves leaves;
	struct leaf leaf;
	bool found = false;

	if (leaves_open(&leaves, projection)) {
		while (!found && leaves_next(&leaves, &leaf) == CURSOR_ELEMENT)
			found = path_relate(leaf.path, path) != PATH_APART;
	}
	leaves_close(&leaves);
	return found;
}

static void exclude_hidden(struct buffer *out, const struct writing *writing, size_t target)
{
	struct name_hidden hidden = name_hidden(writing->namespace->targets[target].rule);

	for (size_t i = 0; i < NAME_FIELDS; i++) {
		const char *field = hidden.fields[i];

		if (field && !client_names(writing->projection, field))
			writer_int32(out, field, 0);
	}
}

/* Of the rules whose array is returned, or of the others. */
static void write_states(struct buffer *out, const struct writing *writing, bool returned)
{
	for (size_t i = 0; i < writing->namespace->target_count; i++) {
		auto_buffer struct buffer path = {0};

		if (returns(writing, i) != returned)
			continue;
		name_state_path(&path, writing->namespace->targets[i].rule);
		writer_int32(out, (const char *)path.data, writing->inclusive);
	}
}

/* Fields other than `_id` and the arrays, which have no state where they stand twice. */
static bool includes_others(const struct writing *writing)
{
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, writing->projection));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		bool array = element_is(&field, "_id");

		for (size_t i = 0; i < writing->namespace->target_count; i++)
			array = array ||
				element_is(&field, writing->namespace->targets[i].rule->array);
		if (!array)
			return true;
	}
	return false;
}

/* mongod looks for as many fields as are named, and no further: where a name stands twice in a
 * document, it would end before the state, which stands last. */
static void write_spares(struct buffer *out)
{
	char name[] = NAME_STATE "/0";

	for (size_t i = 0; i < PROJECTION_SPARES; i++, name[sizeof(name) - 2]++)
		writer_int32(out, name, 1);
}

void projection_write_state(struct buffer *out)
{
	write_spares(out);
	writer_int32(out, NAME_STATE, 1);
}

/* A lone document's `_spill` also tells of rules that are gone: it is returned whole where it can.
 */
static void write_inclusion(struct buffer *out, const struct writing *writing, bool marks)
{
	if (writing->returned == 0)
		return;
	if (includes_others(writing))
		write_spares(out);
	if (writing->returned == writing->namespace->target_count && !marks)
		writer_int32(out, NAME_STATE, 1);
	else
		write_states(out, writing, true);
}

static void write_exclusion(struct buffer *out, const struct writing *writing)
{
	if (writing->returned > 0) {
		write_states(out, writing, false);
		return;
	}
	writer_int32(out, NAME_STATE, 0);
	for (size_t i = 0; i < writing->namespace->target_count; i++)
		exclude_hidden(out, writing, i);
}

/* A find of a view takes a projection of nothing but the mark for an inclusion, so an exclusion
 * stands beside it. */
static void write_id_mark(struct buffer *out, const struct writing *writing)
{
	size_t start;

	if (!writing->inclusive && !writing->shape.excludes)
		writer_int32(out, NAME_STATE "." NAME_ID_MARK "/no", 0);
	start = writer_open_document(out, NAME_STATE "." NAME_ID_MARK);
	writer_string(out, "$meta", "recordId");
	writer_close(out, start);
}

static struct writing writing_of(struct bytes projection, const struct ruled_namespace *namespace,
				 bool windows)
{
	struct writing writing = {
		.namespace = namespace, .projection = projection, .windows = windows};
	struct projection found = {0};

	require(note_leaves(&found, projection, namespace, &writing.shape)); /* it was classified */
	writing.inclusive = shape_inclusive(&writing.shape);
	for (size_t i = 0; i < namespace->target_count; i++)
		writing.returned += returns(&writing, i);
	return writing;
}

/* Where `_id` stands more than once mongod refuses the projection, as long as all are there. */
static bool hides_id(const struct writing *writing)
{
	return writing->shape.excludes_id && writing->shape.ids == 1 && writing->returned > 0;
}

bool projection_marks(struct bytes projection, const struct ruled_namespace *namespace)
{
	struct writing writing = writing_of(projection, namespace, false);

	return hides_id(&writing);
}

bool projection_mark_found(struct bytes document)
{
	struct element state, mark;

	return document_find(document, NAME_STATE, &state) && state.type == BSON_BYTE_DOCUMENT &&
	       document_find(state.value, NAME_ID_MARK, &mark);
}

static void write_field(struct buffer *out, const struct writing *writing,
			const struct element *field)
{
	struct window window;

	if (writing->windows && window_of(field, writing->namespace, &window))
		window_write_wider(out, &window);
	else
		writer_element(out, field);
}

static void write_projection(struct buffer *out, const char *name, const struct writing *writing)
{
	bool marks = hides_id(writing);
	size_t start = writer_open_document(out, name);
	struct cursor cursor;
	struct element element;

	require(cursor_open(&cursor, writing->projection));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (!marks || !element_is(&element, "_id"))
			write_field(out, writing, &element);
	}
	if (writing->inclusive)
		write_inclusion(out, writing, marks);
	else
		write_exclusion(out, writing);
	if (marks)
		write_id_mark(out, writing);
	writer_close(out, start);
}

void projection_write(struct buffer *out, const char *name, struct bytes projection,
		      const struct ruled_namespace *namespace)
{
	struct writing writing = writing_of(projection, namespace, false);

	write_projection(out, name, &writing);
}

void projection_write_windows(struct buffer *out, const char *name, struct bytes projection,
			      const struct ruled_namespace *namespace)
{
	struct writing writing = writing_of(projection, namespace, true);

	write_projection(out, name, &writing);
}
