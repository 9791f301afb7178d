/* Tells which outliers can match a filter by what the overflow says. */
#include "rules/stages/probe.h"

#include "rules/query/filter_split.h"
#include "rules/stages/membership.h"
#include "rules/rule/names.h"
#include "rules/rule/known_indexes.h"
#include "rules/query/reads.h"
#include "rules/reassembly/reassemble.h"

/* How much of a collection a condition is likely to meet. */
enum worth {
	WORTH_NOTHING, /* not one that a single element satisfies */
	WORTH_RANGE,
	WORTH_POINT,
};

/* What a filter asks of documents. */
struct question {
	const struct ruled_namespace *namespace;
	struct probe *probe;
	enum worth worth; /* of the condition that was chosen, the best of them */
	bool indexed;     /* the overflow has an index for it: better than none */
	bool rest;        /* there are conditions on other fields */
	bool whole;       /* it is all that the filter says of the path */
	size_t reading;   /* conditions that read arrays */
	bool pinned;      /* on _id */
};

void probe_fini(struct probe *probe)
{
	buffer_fini(&probe->main);
	buffer_fini(&probe->overflow);
	buffer_fini(&probe->named);
	buffer_fini(&probe->generations);
	*probe = (struct probe){0};
}

/* ---- conditions ---- */

static bool all_points(struct bytes list)
{
	struct cursor cursor;
	struct element value;
	enum cursor_step step = CURSOR_INVALID;

	if (cursor_open(&cursor, list))
		while ((step = cursor_next(&cursor, &value)) == CURSOR_ELEMENT)
			if (!membership_is_scalar(&value) && value.type != BSON_BYTE_REGEX)
				return false;
	return step == CURSOR_END;
}

/* Of what {$all: [...]} wants, one is asked for: {$eq: <scalar>} or {$elemMatch: ...}. */
static enum worth worth_of_all(const struct element *all, struct element *asked)
{
	struct cursor cursor, fields;
	struct element first;

	if (all->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, all->value))
		return WORTH_NOTHING;
	while (cursor_next(&cursor, asked) == CURSOR_ELEMENT) {
		/* Behind another field it is a document's own. */
		if (asked->type == BSON_BYTE_DOCUMENT && cursor_open(&fields, asked->value) &&
		    cursor_next(&fields, &first) == CURSOR_ELEMENT &&
		    element_is(&first, "$elemMatch")) {
			*asked = first;
			return first.type == BSON_BYTE_DOCUMENT ? WORTH_POINT : WORTH_NOTHING;
		}
		asked->name = bytes_of("$eq");
		if (asked->type != BSON_BYTE_DOCUMENT && membership_is_scalar(asked))
			return WORTH_POINT;
	}
	return WORTH_NOTHING;
}

static bool is_bound(const struct element *verb)
{
	return element_is(verb, "$gt") || element_is(verb, "$gte") || element_is(verb, "$lt") ||
	       element_is(verb, "$lte");
}

/* {$eq: <no array, no null>}, {$in: [...]}, {$elemMatch: ...}, {$gt: ...}: one element satisfies
 * it, or none does. `asked`: it, or a part of it. */
static enum worth worth_of_operator(const struct element *verb, struct element *asked)
{
	if (element_is(verb, "$all"))
		return worth_of_all(verb, asked);
	*asked = *verb;
	if (element_is(verb, "$eq"))
		return membership_is_scalar(verb) ? WORTH_POINT : WORTH_NOTHING;
	if (element_is(verb, "$in"))
		return verb->type == BSON_BYTE_ARRAY && all_points(verb->value) ? WORTH_POINT
										: WORTH_NOTHING;
	if (element_is(verb, "$elemMatch"))
		return verb->type == BSON_BYTE_DOCUMENT ? WORTH_POINT : WORTH_NOTHING;
	return is_bound(verb) && membership_is_scalar(verb) ? WORTH_RANGE : WORTH_NOTHING;
}

/* {$regex: ...} with its options, and nothing else. */
static bool is_pattern(struct bytes operators)
{
	struct cursor cursor;
	struct element each;
	enum cursor_step step = CURSOR_INVALID;
	bool found = false;

	if (!cursor_open(&cursor, operators))
		return false;
	while ((step = cursor_next(&cursor, &each)) == CURSOR_ELEMENT) {
		if (!element_is(&each, "$regex") && !element_is(&each, "$options"))
			return false;
		found = found || element_is(&each, "$regex");
	}
	return found && step == CURSOR_END;
}

/* The best of several operators on one path: `verb`. A value that is no operators' document stands
 * for itself: then `verb` has no name. */
static enum worth worth_of_value(const struct element *value, struct element *verb)
{
	enum worth best = WORTH_NOTHING, worth;
	struct cursor cursor;
	struct element each, asked;

	*verb = (struct element){0};
	if (value->type != BSON_BYTE_DOCUMENT)
		return membership_is_scalar(value) || value->type == BSON_BYTE_REGEX
			       ? WORTH_POINT
			       : WORTH_NOTHING;
	if (is_pattern(value->value))
		return WORTH_POINT;
	if (!cursor_open(&cursor, value->value))
		return WORTH_NOTHING;
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT) {
		if (each.name.length == 0 || each.name.data[0] != '$')
			return verb->type == 0 ? WORTH_POINT : WORTH_NOTHING; /* a document */
		worth = worth_of_operator(&each, &asked);
		if (worth > best)
			best = worth;
		if (worth == best && worth != WORTH_NOTHING)
			*verb = asked;
	}
	return best;
}

/* It says nothing else. */
static bool is_only_field(const struct element *document, const struct element *verb)
{
	struct element field;

	return element_only_field(document, &field) && bytes_equal(field.name, verb->name);
}

static void write_condition(struct buffer *out, const char *path, const struct element *value,
			    const struct element *verb)
{
	size_t filter, condition;

	out->length = 0;
	filter = writer_open(out);
	if (verb->type == 0) {
		writer_renamed(out, path, value);
	} else {
		condition = writer_open_document(out, path);
		writer_renamed(out, (const char *)verb->name.data, verb);
		writer_close(out, condition);
	}
	writer_close(out, filter);
}

/* The rule's file names an index of the overflow that begins with the path, or there is one. */
static bool has_index(const struct target *target, const char *path)
{
	struct bytes named = target->rule->overflow.indexes;

	return (named.length > 0 && indexes_begin_with(named, "keys", path)) ||
	       known_indexes_serve(target->overflow_indexes, path);
}

static bool is_better(const struct question *question, enum worth worth, bool indexed)
{
	return worth != WORTH_NOTHING &&
	       (question->worth == WORTH_NOTHING || indexed > question->indexed ||
		(indexed == question->indexed && worth > question->worth));
}

static void judge_on(struct question *question, const struct element *conjunct,
		     const struct target *target)
{
	auto_buffer struct buffer path = {0};
	enum path_relation relation = path_relate(conjunct->name, target->rule->array);
	struct element verb;
	enum worth worth;
	bool indexed;

	if (target->rule->overflow.layout != RULE_BATCHES ||
	    (relation != PATH_SAME && relation != PATH_BELOW) ||
	    !membership_overflow_path(conjunct->name, target->rule, &path))
		return;
	worth = worth_of_value(conjunct, &verb);
	indexed = has_index(target, (const char *)path.data);
	if (!is_better(question, worth, indexed))
		return;
	question->worth = worth;
	question->whole = verb.type == 0 || is_only_field(conjunct, &verb);
	question->indexed = indexed;
	question->probe->target = target;
	write_condition(&question->probe->overflow, (const char *)path.data, conjunct, &verb);
	write_condition(&question->probe->main, (const char *)conjunct->name.data, conjunct, &verb);
}

/* {$gt: ...}, or several of these: it may leave all documents. */
static bool is_range(const struct element *value)
{
	struct cursor cursor;
	struct element verb;
	bool range = value->type == BSON_BYTE_DOCUMENT && cursor_open(&cursor, value->value);

	while (range && cursor_next(&cursor, &verb) == CURSOR_ELEMENT)
		range = is_bound(&verb) || element_is(&verb, "$ne");
	return range;
}

static void judge_one(struct question *question, const struct element *conjunct)
{
	const struct ruled_namespace *namespace = question->namespace;

	if (element_is(conjunct, "_id") && !is_range(conjunct))
		question->pinned = true;
	if (reads_nothing_of(conjunct, namespace))
		question->rest = question->rest || !element_is(conjunct, "$comment");
	else
		question->reading++;
	for (size_t i = 0; i < namespace->target_count; i++)
		judge_on(question, conjunct, &namespace->targets[i]);
}

/* False where the filter can't be gone through. */
static bool judge_all(struct question *question, struct bytes filter,
		      void (*judge)(struct question *question, const struct element *conjunct))
{
	struct walk walk;
	struct element conjunct;
	enum cursor_step step = filter_first_conjunct(&walk, filter, &conjunct);

	for (; step == CURSOR_ELEMENT; step = filter_next_conjunct(&walk, &conjunct)) {
		if (element_is(&conjunct, "$and"))
			return false;
		judge(question, &conjunct);
	}
	return step == CURSOR_END;
}

/* An $or is satisfied by a branch: one that reads no array as it is written, any other by the one
 * condition of it that was chosen. */
struct branches {
	struct probe probe; /* what is asked: lists that are open */
	enum worth worth;   /* the least of them */
	bool indexed, whole;
	size_t main_count, overflow_count;
};

static void add_branch(struct buffer *list, size_t *count, struct bytes branch)
{
	char name[12];

	writer_document(list, writer_index(name, (*count)++), branch);
}

/* False where it is none of these, or of another rule than those before it. */
static bool judge_branch(struct branches *branches, const struct question *question,
			 struct bytes branch)
{
	struct probe probe = {0};
	struct question own = {.namespace = question->namespace, .probe = &probe};
	bool good = judge_all(&own, branch, judge_one) &&
		    (own.reading == 0 ||
		     (own.worth != WORTH_NOTHING &&
		      (branches->overflow_count == 0 || probe.target == branches->probe.target)));

	if (good && own.reading == 0) {
		add_branch(&branches->probe.main, &branches->main_count, branch);
	} else if (good) {
		branches->probe.target = probe.target;
		branches->worth = own.worth < branches->worth ? own.worth : branches->worth;
		branches->indexed = branches->indexed && own.indexed;
		branches->whole = branches->whole && own.whole && own.reading == 1 && !own.rest;
		add_branch(&branches->probe.main, &branches->main_count, buffer_view(&probe.main));
		add_branch(&branches->probe.overflow, &branches->overflow_count,
			   buffer_view(&probe.overflow));
	}
	probe_fini(&probe);
	return good;
}

static bool judge_branches(struct branches *branches, const struct question *question,
			   struct bytes list)
{
	size_t starts[] = {writer_open(&branches->probe.main),
			   writer_open(&branches->probe.overflow)};
	size_t lists[] = {writer_open_array(&branches->probe.main, "$or"),
			  writer_open_array(&branches->probe.overflow, "$or")};
	enum cursor_step step = CURSOR_INVALID;
	struct element branch;
	struct cursor cursor;

	if (cursor_open(&cursor, list))
		while ((step = cursor_next(&cursor, &branch)) == CURSOR_ELEMENT)
			if (branch.type != BSON_BYTE_DOCUMENT ||
			    !judge_branch(branches, question, branch.value))
				return false;
	writer_close(&branches->probe.main, lists[0]);
	writer_close(&branches->probe.overflow, lists[1]);
	writer_close(&branches->probe.main, starts[0]);
	writer_close(&branches->probe.overflow, starts[1]);
	return step == CURSOR_END && branches->overflow_count > 0;
}

static void judge(struct question *question, const struct element *conjunct)
{
	struct branches branches = {.worth = WORTH_POINT, .indexed = true, .whole = true};

	judge_one(question, conjunct);
	if (element_is(conjunct, "$or") && conjunct->type == BSON_BYTE_ARRAY &&
	    judge_branches(&branches, question, conjunct->value) &&
	    is_better(question, branches.worth, branches.indexed)) {
		struct probe former = *question->probe;

		*question->probe = branches.probe;
		branches.probe = former;
		question->worth = branches.worth;
		question->whole = branches.whole;
		question->indexed = branches.indexed;
	}
	probe_fini(&branches.probe);
}

/* No $expr stands in a list, or reads an array. Others are a query's last conditions, and a
 * document that is left out has failed one before. */
static bool expressions_come_last(struct bytes filter, const struct ruled_namespace *namespace)
{
	struct walk walk;
	struct element conjunct;
	enum cursor_step step = filter_first_conjunct(&walk, filter, &conjunct);
	bool last = true;

	for (; last && step == CURSOR_ELEMENT; step = filter_next_conjunct(&walk, &conjunct)) {
		auto_buffer struct buffer alone = {0};
		size_t start = writer_open(&alone);

		writer_element(&alone, &conjunct);
		writer_close(&alone, start);
		last = element_is(&conjunct, "$expr") ? reads_nothing_of(&conjunct, namespace)
						      : !filter_has_expression(buffer_view(&alone));
	}
	return last && step == CURSOR_END;
}

/* Conditions on other fields may name few documents by themselves, and a range many batches: only
 * with an index is the overflow asked first then. */
bool probe_of_filter(struct bytes filter, const struct ruled_namespace *namespace,
		     struct probe *probe)
{
	struct question question = {.namespace = namespace, .probe = probe};

	*probe = (struct probe){0};
	if (expressions_come_last(filter, namespace) && judge_all(&question, filter, judge) &&
	    !question.pinned && question.worth != WORTH_NOTHING &&
	    probe->target->rule->gc_delay_ms > 0 &&
	    (question.indexed || (!question.rest && question.worth == WORTH_POINT))) {
		probe->exact = question.whole && question.reading == 1;
		probe->rest = question.rest;
		return true;
	}
	probe_fini(probe);
	return false;
}

/* ---- stages ---- */

/* Of one that is asked for alone: the state has such a generation. It is sound (with a damaged one
 * the document is asked for once more), and no list of states. */
static const char of_generations[] = "{_spill.@key.g: {$in: @generations}, "
				     "_spill.@key.h: {$gte: 0}, "
				     "_spill.@key.n: {$gte: 0}, "
				     "_spill.0: {$exists: false}}";
/* The same of several. A damaged state raises its error, as it may have named any generation. A
 * document without a state for the array names none. mongod judges an $expr behind other
 * conditions: it meets no document but those that are named. */
static const char of_generations_or_damaged[] =
	"{$expr: {$cond: [@no_state, 0, {$cond: [@damaged, @if_damaged, "
	"{$in: ['$_spill.@key.g', @generations]}]}]}}";

void probe_write_conditions(struct buffer *out, struct bytes filter,
			    const struct ruled_namespace *namespace, const struct probe *probe)
{
	auto_buffer struct buffer conjuncts = {0};
	size_t start = writer_open(&conjuncts), count = 0;

	/* What is matched once more must not be drawn by lot twice. */
	filter_split_write(&conjuncts, &count, filter, namespace,
			   probe->light || probe->alone ? FILTER_REST_ALL : FILTER_REST_QUIET);
	writer_close(&conjuncts, start);
	template_write(out, "$and", "[..@conjuncts, @concerned]",
		       fill_array("conjuncts", buffer_view(&conjuncts)),
		       fill_template("concerned", probe->alone ? "@by_name"
						  : probe->named.length > 0
							  ? "{$or: [@main, @by_name]}"
							  : "{$or: [@main]}"),
		       fill_document("main", buffer_view(&probe->main)),
		       fill_template("by_name", "{_id: {$in: @named}, ..@of_generations}"),
		       fill_array("named", buffer_view(&probe->named)),
		       fill_template("of_generations", probe->alone   ? of_generations
						       : probe->light ? of_generations_or_damaged
								      : "{}"),
		       fill_template("if_damaged", probe->skips ? "{$cond: [" SOUND_EDITED
								  ", @damaged_error, false]}"
								: "@damaged_error"),
		       fill_array("generations", buffer_view(&probe->generations)),
		       REASSEMBLE_FILLS(namespace, probe->target));
}

void probe_write_candidates(struct buffer *out, size_t *place, struct bytes filter,
			    const struct ruled_namespace *namespace, const struct probe *probe)
{
	char name[12];
	size_t stage = writer_open_document(out, writer_index(name, (*place)++));
	size_t match = writer_open_document(out, "$match");

	probe_write_conditions(out, filter, namespace, probe);
	writer_close(out, match);
	writer_close(out, stage);
}

int32_t probe_hits_most(const struct probe *probe)
{
	return probe->many ? PROBE_ROOM : PROBE_HITS_MAX;
}

void probe_write_hits(struct buffer *out, size_t *place, const struct probe *probe)
{
	template_append(out, place,
			"{$unionWith: {coll: @overflow, pipeline: ["
			"{$match: @condition}, "
			"{$limit: @most}, "
			"{$project: {_id: 0, _spill: {id: '$@link', g: '$_spill.g'}}}]}}",
			fill("overflow", probe->target->overflow_collection),
			fill_document("condition", buffer_view(&probe->overflow)),
			fill("most", probe_hits_most(probe) + 1),
			fill("link", probe->target->rule->overflow.link));
}

/* ---- what comes back ---- */

static bool is_hit(const struct element *document, struct element *hit)
{
	struct cursor cursor;

	return document->type == BSON_BYTE_DOCUMENT && cursor_open(&cursor, document->value) &&
	       cursor_next(&cursor, hit) == CURSOR_ELEMENT && element_is(hit, NAME_STATE);
}

static bool same(const struct element *one, const struct element *other)
{
	return one->type == other->type && one->value.length == other->value.length &&
	       memcmp(one->value.data, other->value.data, one->value.length) == 0;
}

static bool is_named(const struct probe *probe, const struct element *id,
		     const struct element *generation)
{
	struct cursor ids, generations;
	struct element other, others;

	if (probe->named.length == 0 || !cursor_open(&ids, buffer_view(&probe->named)) ||
	    !cursor_open(&generations, buffer_view(&probe->generations)))
		return false;
	while (cursor_next(&ids, &other) == CURSOR_ELEMENT &&
	       cursor_next(&generations, &others) == CURSOR_ELEMENT)
		if (same(&other, id) && same(&others, generation))
			return true;
	return false;
}

bool probe_names_one(const struct probe *probe)
{
	struct cursor cursor;
	struct element first, other;

	if (probe->named.length == 0 || !cursor_open(&cursor, buffer_view(&probe->named)) ||
	    cursor_next(&cursor, &first) != CURSOR_ELEMENT)
		return false;
	while (cursor_next(&cursor, &other) == CURSOR_ELEMENT)
		if (!same(&first, &other))
			return false;
	return true;
}

/* The hits of a reply: _ids and generations, side by side. */
struct hits {
	struct buffer ids, generations;
	size_t id_list, generation_list, count;
	bool all_named;
};

static bool take_hit(struct hits *hits, const struct probe *probe, const struct element *hit)
{
	struct element id, generation;
	char name[12];

	if (hit->type != BSON_BYTE_DOCUMENT || !document_find(hit->value, "id", &id) ||
	    !document_find(hit->value, "g", &generation))
		return false;
	hits->all_named = hits->all_named && is_named(probe, &id, &generation);
	writer_renamed(&hits->ids, writer_index(name, hits->count), &id);
	writer_renamed(&hits->generations, writer_index(name, hits->count++), &generation);
	return hits->count <= (size_t)probe_hits_most(probe);
}

static enum probe_found take_hits(struct hits *hits, const struct probe *probe, struct bytes batch,
				  size_t *documents)
{
	struct cursor cursor;
	struct element document, hit;
	enum cursor_step step = CURSOR_INVALID;

	*documents = 0;
	if (cursor_open(&cursor, batch))
		step = cursor_next(&cursor, &document);
	for (; step == CURSOR_ELEMENT; step = cursor_next(&cursor, &document))
		if (!is_hit(&document, &hit))
			++*documents;
		else if (!take_hit(hits, probe, &hit))
			return PROBE_TOO_MANY;
	if (step != CURSOR_END)
		return PROBE_TOO_MANY;
	return hits->all_named ? PROBE_COMPLETE : PROBE_AGAIN;
}

static bool is_late(const struct probe *probe, uint64_t elapsed)
{
	return elapsed / 1000 >= (uint64_t)probe->target->rule->gc_delay_ms;
}

enum probe_found probe_take(struct probe *probe, struct bytes batch, size_t room, uint64_t elapsed,
			    size_t *documents)
{
	struct hits hits = {.all_named = true};
	enum probe_found found;

	hits.id_list = writer_open(&hits.ids);
	hits.generation_list = writer_open(&hits.generations);
	found = take_hits(&hits, probe, batch, documents);
	if (*documents > room || is_late(probe, elapsed))
		found = PROBE_TOO_MANY;
	writer_close(&hits.ids, hits.id_list);
	writer_close(&hits.generations, hits.generation_list);
	if (found == PROBE_AGAIN) {
		struct hits former = {.ids = probe->named, .generations = probe->generations};

		probe->named = hits.ids;
		probe->generations = hits.generations;
		probe->named_count = hits.count;
		hits = former;
	}
	buffer_fini(&hits.ids);
	buffer_fini(&hits.generations);
	return found;
}
