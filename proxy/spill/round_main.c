/* A round's commands on the main document: M0, M1, M4, and what takes a state away that holds
 * nothing. docs/internals/spill-protocol.md#moving names them. */
#include "proxy/spill/pass.h"

#include "proxy/base/metrics.h"
#include "rules/rule/own_fields.h"

#include <stdio.h>
#include <stdlib.h>

/* mongod notes an update by a pipeline as a replacement, by a document that lacks its tail, where
 * that is shorter than what has changed: change streams would show it. What a first M4 changes
 * comes to less than this beside what it leaves. */
#define SMALL_DOCUMENT 512
#define PADDING 224

struct reading {
	const struct link *link;
	uint64_t after;
};

static void write_read_concern(struct buffer *out, const char *name, const void *context)
{
	const struct reading *reading = context;

	(void)name;
	command_read_concern(out, reading->link, reading->after);
}

must_check enum link_result main_read(struct pass_state *pass, uint64_t after,
				      struct bytes *document)
{
	const struct element id = {.type = pass->round->id_type, .value = pass->round->id};
	const struct reading reading = {pass->link, after};

	return command_find_one(pass->link, pass->target->database, document,
				"{find: @collection, filter: {_id: {$eq: @id}}, limit: 1, "
				"singleBatch: true, readConcern: @read_concern}",
				fill("collection", pass->target->collection), fill("id", &id),
				fill_with("read_concern", write_read_concern, &reading));
}

/* A majority snapshot lags up to 100 ms behind writes that nobody waits for with w: majority, and
 * M0 would wait as long, while more is pushed. A write that matches nothing, with w: majority,
 * waits for all that was written before it, and makes the server hurry. */
must_check enum link_result main_hurry(struct pass_state *pass)
{
	return pass_run(pass, pass->target->database,
			"{update: @collection, updates: [{q: {_id: {$in: []}}, "
			"u: {$unset: {_spill: ''}}}], writeConcern: @write_concern}");
}

static enum link_result send_update(struct pass_state *pass, const struct buffer *statement)
{
	return pass_run(pass, pass->target->database, "{" MAIN_UPDATE "}",
			fill_documents("statements", buffer_view(statement)));
}

/* The state is as it was read. */
#define GENERATION_STANDS "'_spill.@key.g': @generation, '_spill.@key.n': @moved"

/* The same of an array that was edited in place. */
#define EDITION_STANDS \
	"'_spill.@key.e.g': @older, '_spill.@key.e.l': @generation, '_spill.@key.e.v': @edition, " \
	"'_spill.@key.e.n': @moved"

/* The state goes if nothing is in it: as folding back an empty overflow. Only an array has a
 * length; the document's own total is right for just this array. */
enum pass main_undo(struct pass_state *pass)
{
	auto_buffer struct buffer statement = {0};
	const struct element *state = &pass->plan.state;
	bool kept = own_total_is_kept(pass->rule, state);
	const struct own_fields_back back = {
		.rule = pass->rule, .state = state, .total = kept ? pass->plan.length : -1};

	pass_write(pass, &statement,
		   "{q: {_id: {$eq: @id}, " GENERATION_STANDS ", '@array': @counted}, "
		   "u: {$set: @returning, $unset: {'_spill.@key': '', ..@going}}}",
		   command_fill_size("counted", &back.total),
		   fill_with("returning", own_fields_write_returning, &back),
		   fill_spliced("going", own_fields_splice_going, &back));
	return pass_guarded(pass, "undo", send_update(pass, &statement), PASS_AGAIN);
}

enum pass main_tidy(struct pass_state *pass)
{
	auto_buffer struct buffer statement = {0};

	pass_write(pass, &statement,
		   "{q: {_id: {$eq: @id}, _spill: {}}, u: {$unset: {_spill: ''}}}");
	return pass_guarded(pass, "tidy", send_update(pass, &statement), PASS_MOVED);
}

static bool is_small_when_cut(const struct plan *plan)
{
	return plan->size - (size_t)(plan->tail.end - plan->tail.at) < SMALL_DOCUMENT;
}

/* An element that stands there only as long as the array is too long, as far as its length says:
 * behind the threshold, or the last one where the array is too large. Of a rule that empties arrays
 * the first one would say nothing. */
static int64_t last_needed(const struct pass_state *pass)
{
	int64_t threshold = pass->rule->threshold, last = pass->plan.length - 1;

	return last < threshold ? last : threshold;
}

/* A path means elements of arrays, too: {"a.f": {$type: "array"}} matches {a: [{f: []}]}. */
static void splice_parents(struct buffer *out, size_t *place, const void *context)
{
	const char *array = context;

	(void)place;
	for (const char *dot = strchr(array, '.'); dot; dot = strchr(dot + 1, '.')) {
		auto_free char *parent = must_strndup(array, (size_t)(dot - array));

		template_write(out, parent, "{$not: {$type: 'array'}}");
	}
}

#define BIRTH(condition) \
	"{q: {_id: {$eq: @id}, '_spill.@key': {$exists: false}, " condition ", ..@parents}, " \
	"u: {$set: {'_spill.@key': {g: @new, h: @head, n: 0L, pad: @padding}}}}"

void main_write_birth(struct pass_state *pass, struct buffer *statements)
{
	static const uint8_t zeros[PADDING];
	bool small = is_small_when_cut(&pass->plan);
	uint8_t generation[GENERATION_BYTES];
	char last[24];

	target_new_generation(pass->target, generation);
	snprintf(last, sizeof(last), "%lld", (long long)last_needed(pass));
	pass_write(pass, statements,
		   pass->still
			   ? BIRTH("'@array': {$size: @length}")
			   : BIRTH("'@array': {$type: 'array'}, '@array.@last': {$exists: true}"),
		   fill("last", last), fill_spliced("parents", splice_parents, pass->rule->array),
		   fill_binary("new", (struct bytes){generation, sizeof(generation)}),
		   fill_binary("padding", (struct bytes){small ? zeros : NULL, PADDING}));
}

/* M1: a generation is born, with nothing in it. */
enum pass main_give_birth(struct pass_state *pass)
{
	auto_buffer struct buffer statement = {0};
	bool foreign = false;
	enum link_result result = overflow_find_foreign(pass, &foreign);

	if (result != LINK_DONE)
		return pass_failed(pass, "looking for foreign batches", result);
	if (foreign)
		return pass_leaves(pass, "it has overflow documents that Spillway did not write");
	main_write_birth(pass, &statement);
	return pass_guarded(pass, "M1", send_update(pass, &statement), PASS_AGAIN);
}

/* M4: the tail leaves the main document, in the same instant as it begins to count as overflow. */

static struct element element_of(const struct rule_value *value)
{
	return (struct element){.type = value->type, .value = value->value};
}

/* The flag, and in S.a its name if it wasn't there before this generation's first M4, so that
 * folding back takes it away again. */
static void write_flag(const struct pass_state *pass, struct buffer *out)
{
	const struct rule *rule = pass->rule;
	const struct element value = element_of(&rule->flag.value);

	template_write_fields(
		out,
		"{'_spill.@key.a': {$ifNull: ['$_spill.@key.a', {$cond: [{$eq: [{$type: '$@flag'}, "
		"'missing']}, [{$literal: @flag}], []]}]}, '@flag': {$literal: @value}}",
		fill("key", rule->key), fill("flag", rule->flag.field), fill("value", &value));
}

/* Of a document that was split by hand, flag, total and reference belong to the split: the second
 * would grow old in the state, the others mean nothing when the array is whole. A flag that is what
 * we write is not kept: then `otherwise` is what returns. */
static void write_one_before(const struct pass_state *pass, struct buffer *out,
			     enum own_field field)
{
	const char *name = own_field_name(pass->rule, field);
	const struct element flag = element_of(&pass->rule->flag.value);

	if (!name || (pass->adopted && (field == OWN_REFERENCE || field == OWN_FLAG)))
		return;
	if (field == OWN_FLAG)
		template_write(out, own_field_key(field),
			       "{$cond: [{$eq: ['$@name', {$literal: @flag}]}, '$$REMOVE', "
			       "'$@name']}",
			       fill("name", name), fill("flag", &flag));
	else if (pass->adopted && field == OWN_TOTAL)
		template_write(out, OWN_TOTAL_KEPT,
			       "{$cond: [{$eq: [{$type: '$@name'}, 'missing']}, '$$REMOVE', true]}",
			       fill("name", name));
	else
		template_write(out, own_field_key(field), "'$@name'", fill("name", name));
}

static void splice_before(struct buffer *out, size_t *place, const void *context)
{
	(void)place;
	for (enum own_field each = OWN_FLAG; each < OWN_FIELDS; each++)
		write_one_before(context, out, each);
}

static void write_moved(struct buffer *out, const char *name, const void *context)
{
	const struct pass_state *pass = context;

	if (pass->plan.elements <= INT32_MAX)
		writer_int32(out, name, (int32_t)pass->plan.elements);
	else
		writer_int64(out, name, pass->plan.elements);
}

static void write_reference(const struct pass_state *pass, struct buffer *out)
{
	struct bytes head = own_reference_head(pass->rule), tail = own_reference_tail(pass->rule);
	auto_free char *before = must_strndup((const char *)head.data, head.length);

	template_write(out, own_field_name(pass->rule, OWN_REFERENCE),
		       "{$concat: [{$literal: @before}, {$toString: '$_id'}, {$literal: @behind}]}",
		       fill("before", before), fill("behind", (const char *)tail.data));
}

/* The rule's fields, in the same instant as the array is cut: they are right whenever it rests. S.b
 * is what stood there before this generation's first M4, so that folding back restores it. The
 * total is as many as there are when the array is cut, also of those that were pushed since it was
 * read. */
static void splice_fields(struct buffer *out, size_t *place, const void *context)
{
	const struct pass_state *pass = context;
	const struct rule *rule = pass->rule;
	const char *total = own_field_name(rule, OWN_TOTAL);
	const char *documents = own_field_name(rule, OWN_DOCUMENTS);

	(void)place;
	if (rule->flag.field)
		write_flag(pass, out);
	if (own_fields_any(rule))
		template_write_fields(
			out, "{'_spill.@key.b': {$ifNull: ['$_spill.@key.b', {..@before}]}}",
			fill("key", rule->key), fill_spliced("before", splice_before, pass));
	if (total)
		template_write(out, total, "{$add: [{$size: '$@array'}, @moved]}",
			       fill("array", rule->array), fill_with("moved", write_moved, pass));
	if (documents)
		writer_int32(out, documents, (int32_t)pass->open.number);
	if (own_field_name(rule, OWN_REFERENCE) && own_reference_has_text(&pass->plan.id))
		write_reference(pass, out);
}

#define CUT_STATE(head, guard, count) \
	"{q: {_id: {$eq: @id}, " guard "}, u: [{$set: {" \
	"'@array': {$concatArrays: [" head ", {$slice: ['$@array', @rest, 2147483647]}]}, " \
	"'" count "': @count, '_spill.@key.t': '$$NOW', ..@fields}}]}"
#define CUT(head) CUT_STATE(head, GENERATION_STANDS, "_spill.@key.n")
#define CUT_EDITED(head) CUT_STATE(head, EDITION_STANDS, "_spill.@key.e.n")

/* The pipeline: whatever has been pushed since the image was read stays behind the head. mongod
 * refuses a slice of no elements. */
void main_write_cut(struct pass_state *pass, struct buffer *statements)
{
	pass_write(pass, statements,
		   pass->plan.head > 0 ? CUT("{$slice: ['$@array', @head]}") : CUT("[]"),
		   fill("rest", pass->plan.head + pass->stored),
		   fill("count", pass->plan.moved + pass->stored),
		   fill_spliced("fields", splice_fields, pass));
}

static enum link_result send_cut(struct pass_state *pass)
{
	auto_buffer struct buffer statement = {0};

	main_write_cut(pass, &statement);
	return send_update(pass, &statement);
}

/* The state becomes what M1 and M4 leave, and so do the rule's fields. */
must_check enum link_result main_adopt(struct pass_state *pass, const struct element *flag)
{
	auto_buffer struct buffer statement = {0};
	const char *name = pass->rule->flag.field;

	pass_write(pass, &statement,
		   "{q: {_id: {$eq: @id}, '_spill.@key': {$exists: false}, '@array': {$size: "
		   "@head}, '@flag': @as_read}, u: [{$set: {'_spill.@key.g': @generation, "
		   "'_spill.@key.h': @head, '_spill.@key.n': @moved, '_spill.@key.t': '$$NOW', "
		   "..@fields}}]}",
		   fill("flag", name ? name : ""), command_fill_equal("as_read", flag),
		   fill_spliced("fields", splice_fields, pass));
	return send_update(pass, &statement);
}

/* Whoever pushes waits for the transaction then, instead of ending it by a write conflict. */
enum pass main_hold(struct pass_state *pass)
{
	auto_buffer struct buffer statement = {0};

	pass_write(pass, &statement,
		   "{q: {_id: {$eq: @id}, " EDITION_STANDS "}, u: {$currentDate: {'_spill.@key.t': "
		   "true}}}",
		   fill_binary("older", pass->plan.editions.generation),
		   fill("edition", pass->plan.editions.edition));
	return pass_guarded(pass, "M4", send_update(pass, &statement), PASS_AGAIN);
}

enum pass main_cut_edited(struct pass_state *pass)
{
	auto_buffer struct buffer statement = {0};

	pass_write(pass, &statement,
		   pass->plan.head > 0 ? CUT_EDITED("{$slice: ['$@array', @head]}")
				       : CUT_EDITED("[]"),
		   fill("rest", pass->plan.head + pass->stored),
		   fill("count", pass->plan.moved + pass->stored),
		   fill_binary("older", pass->plan.editions.generation),
		   fill("edition", pass->plan.editions.edition),
		   fill_spliced("fields", splice_fields, pass));
	return pass_guarded(pass, "M4", send_update(pass, &statement), PASS_MOVED);
}

void main_count_cut(struct pass_state *pass)
{
	pass->round->elements += pass->stored;
	metric_add_shared(&pass->round->metrics->spills, 1);
	metric_add_shared(&pass->round->metrics->moved_elements, pass->stored);
	atomic_fetch_add(&pass->target->elements, pass->stored);
}

enum pass main_cut(struct pass_state *pass)
{
	enum link_result result = send_cut(pass);

	pass->round->stored_in_vain = result != LINK_DONE || link_reply(pass->link)->n != 1;
	/* Who was faster may have stored the same in another batch. */
	if (pass->round->stored_in_vain)
		pass_overlaps(pass, pass->open.position);
	if (result != LINK_DONE)
		return pass_failed(pass, "M4", result);
	if (pass->round->stored_in_vain)
		return pass_ended(pass, ROUND_RETRY);
	main_count_cut(pass);
	if (pass->plan.moved == 0) {
		metric_add_shared(&pass->round->metrics->outliers, 1);
		atomic_fetch_add(&pass->target->outliers, 1);
	}
	return pass->plan.head + pass->stored < pass->plan.length ? PASS_AGAIN : PASS_MOVED;
}
