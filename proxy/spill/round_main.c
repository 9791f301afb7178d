/* A round's commands on the main document: M0, M1, M4, and what takes a state away that holds
 * nothing. */
#include "proxy/spill/pass.h"

#include "proxy/base/metrics.h"
#include "rules/rule/own_fields.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

/* mongod notes an update by a pipeline as a replacement, by a document that lacks its tail, where
 * that is shorter than what has changed: change streams would show it. What a first M4 changes
 * comes to less than this beside what it leaves. */
#define SMALL_DOCUMENT 512
#define PADDING 224

/* Readers count on a cut not being older than this; and a client's transaction may hold the
 * document for long. */
#define WRITE_TIME_MS 5000

must_check enum link_result main_read(struct pass_state *pass, uint64_t after,
				      struct bytes *document, bool *found)
{
	struct round *round = pass->round;
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), filter;

	writer_string(&out, "find", pass->target->collection);
	filter = writer_open_document(&out, "filter");
	command_equal(&out, "_id", round->id_type, round->id);
	writer_close(&out, filter);
	writer_int32(&out, "limit", 1);
	writer_bool(&out, "singleBatch", true);
	command_read_concern(&out, pass->link, after);
	writer_close(&out, start);
	return link_find_one(pass->link, pass->target->database, buffer_view(&out), document,
			     found);
}

/* A majority snapshot lags up to 100 ms behind writes that nobody waits for with w: majority, and
 * M0 would wait as long, while more is pushed. A write that matches nothing, with w: majority,
 * waits for all that was written before it, and makes the server hurry. */
must_check enum link_result main_hurry(struct pass_state *pass)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), updates, update, part, nothing;

	writer_string(&out, "update", pass->target->collection);
	updates = writer_open_array(&out, "updates");
	update = writer_open_document(&out, "0");
	part = writer_open_document(&out, "q");
	nothing = writer_open_document(&out, "_id");
	writer_close(&out, writer_open_array(&out, "$in"));
	writer_close(&out, nothing);
	writer_close(&out, part);
	part = writer_open_document(&out, "u");
	nothing = writer_open_document(&out, "$unset");
	writer_string(&out, "_spill", "");
	writer_close(&out, nothing);
	writer_close(&out, part);
	writer_close(&out, update);
	writer_close(&out, updates);
	command_write_concern(&out, pass->link);
	return pass_run(pass, pass->target->database, &out, start);
}

void main_open_update(const struct mover_target *target, struct buffer *out,
		      struct open_update *open)
{
	*open = (struct open_update){.command = writer_open(out)};
	writer_string(out, "update", target->collection);
	open->updates = writer_open_array(out, "updates");
}

/* Opens {q: {_id: d, ...; the caller goes on with q's other conditions. */
static void open_statement(struct pass_state *pass, struct buffer *out, struct open_update *open)
{
	char name[12];

	open->statement = writer_open_document(out, writer_index(name, open->count++));
	open->q = writer_open_document(out, "q");
	command_equal(out, "_id", pass->plan.id.type, pass->plan.id.value);
}

static void close_statement(struct buffer *out, const struct open_update *open)
{
	writer_close(out, open->u);
	writer_close(out, open->statement);
}

void main_close_updates(const struct link *link, struct buffer *out, const struct open_update *open)
{
	writer_close(out, open->updates);
	writer_int32(out, "maxTimeMS", WRITE_TIME_MS);
	command_write_concern(out, link);
}

static void open_update(struct pass_state *pass, struct buffer *out, struct open_update *open)
{
	main_open_update(pass->target, out, open);
	open_statement(pass, out, open);
}

static void guard_generation(struct pass_state *pass, struct buffer *out)
{
	char path[STATE_PATH_MAX];

	command_generation(out, state_path(path, pass->rule, "g"), pass->plan.generation);
	writer_int64(out, state_path(path, pass->rule, "n"), pass->plan.moved);
}

static enum link_result send_update(struct pass_state *pass, struct buffer *out,
				    const struct open_update *open)
{
	main_close_updates(pass->link, out, open);
	return pass_run(pass, pass->target->database, out, open->command);
}

static void write_ends(struct pass_state *pass, struct buffer *out, enum own_field_end wanted)
{
	bool kept = own_total_is_kept(pass->rule, &pass->plan.state);

	for (enum own_field field = OWN_FLAG; field < OWN_FIELDS; field++)
		if (field != OWN_TOTAL || !kept)
			own_field_write(out, pass->rule, field, &pass->plan.state, wanted);
}

/* Only an array has a length. */
static void guard_length(struct pass_state *pass, struct buffer *out)
{
	size_t condition = writer_open_document(out, pass->rule->array);

	writer_int64(out, "$size", pass->plan.length);
	writer_close(out, condition);
}

/* The document's own total is right for just this array. */
static void guard_total(struct pass_state *pass, struct buffer *out)
{
	if (own_total_is_kept(pass->rule, &pass->plan.state))
		guard_length(pass, out);
}

static void write_kept_total(struct pass_state *pass, struct buffer *out)
{
	if (own_total_is_kept(pass->rule, &pass->plan.state))
		writer_int32(out, own_field_name(pass->rule, OWN_TOTAL),
			     (int32_t)pass->plan.length);
}

/* The state goes where nothing is in it: as folding back an empty overflow. */
enum pass main_undo(struct pass_state *pass)
{
	auto_buffer struct buffer out = {0};
	struct open_update open;
	char path[STATE_PATH_MAX];
	size_t part, before, empty;

	open_update(pass, &out, &open);
	guard_generation(pass, &out);
	guard_total(pass, &out);
	writer_close(&out, open.q);
	open.u = writer_open_document(&out, "u");
	before = out.length;
	part = writer_open_document(&out, "$set");
	empty = out.length;
	write_ends(pass, &out, OWN_FIELD_RETURNS);
	write_kept_total(pass, &out);
	if (out.length == empty)
		out.length = before;
	else
		writer_close(&out, part);
	part = writer_open_document(&out, "$unset");
	writer_string(&out, state_path(path, pass->rule, NULL), "");
	write_ends(pass, &out, OWN_FIELD_GOES);
	writer_close(&out, part);
	close_statement(&out, &open);
	return pass_guarded(pass, "undo", send_update(pass, &out, &open), PASS_AGAIN);
}

enum pass main_tidy(struct pass_state *pass)
{
	auto_buffer struct buffer out = {0};
	struct open_update open;
	size_t empty, unset;

	open_update(pass, &out, &open);
	empty = writer_open_document(&out, "_spill");
	writer_close(&out, empty);
	writer_close(&out, open.q);
	open.u = writer_open_document(&out, "u");
	unset = writer_open_document(&out, "$unset");
	writer_string(&out, "_spill", "");
	writer_close(&out, unset);
	close_statement(&out, &open);
	return pass_guarded(pass, "tidy", send_update(pass, &out, &open), PASS_MOVED);
}

static void write_padding(struct buffer *out)
{
	static const uint8_t zeros[PADDING];

	writer_binary(out, "pad", (struct bytes){zeros, sizeof(zeros)});
}

static bool is_small_when_cut(const struct plan *plan)
{
	return plan->size - (size_t)(plan->tail.end - plan->tail.at) < SMALL_DOCUMENT;
}

static void write_new_state(struct pass_state *pass, struct buffer *out)
{
	uint8_t generation[GENERATION_BYTES];
	char path[STATE_PATH_MAX];
	size_t set = writer_open_document(out, "$set"), state;

	target_new_generation(pass->target, generation);
	state = writer_open_document(out, state_path(path, pass->rule, NULL));
	command_generation(out, "g", (struct bytes){generation, sizeof(generation)});
	writer_int64(out, "h", pass->plan.head);
	writer_int64(out, "n", 0);
	if (is_small_when_cut(&pass->plan))
		write_padding(out);
	writer_close(out, state);
	writer_close(out, set);
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
static void guard_parents(const struct pass_state *pass, struct buffer *out)
{
	const char *array = pass->rule->array, *dot = strchr(array, '.');

	for (; dot; dot = strchr(dot + 1, '.')) {
		auto_free char *parent = must_strndup(array, (size_t)(dot - array));
		size_t condition = writer_open_document(out, parent);
		size_t not = writer_open_document(out, "$not");

		writer_string(out, "$type", "array");
		writer_close(out, not );
		writer_close(out, condition);
	}
}

static void guard_too_long(struct pass_state *pass, struct buffer *out)
{
	char path[STATE_PATH_MAX];
	size_t condition = writer_open_document(out, pass->rule->array);

	writer_string(out, "$type", "array");
	writer_close(out, condition);
	snprintf(path, sizeof(path), "%s.%lld", pass->rule->array, (long long)last_needed(pass));
	command_exists(out, path, true);
}

void main_write_birth(struct pass_state *pass, struct buffer *out, struct open_update *open)
{
	char path[STATE_PATH_MAX];

	open_statement(pass, out, open);
	command_exists(out, state_path(path, pass->rule, NULL), false);
	if (pass->still)
		guard_length(pass, out);
	else
		guard_too_long(pass, out);
	guard_parents(pass, out);
	writer_close(out, open->q);
	open->u = writer_open_document(out, "u");
	write_new_state(pass, out);
	close_statement(out, open);
}

/* M1: a generation is born, with nothing in it. */
enum pass main_give_birth(struct pass_state *pass)
{
	auto_buffer struct buffer out = {0};
	struct open_update open;
	bool foreign = false;
	enum link_result result = overflow_find_foreign(pass, &foreign);

	if (result != LINK_DONE)
		return pass_failed(pass, "looking for foreign batches", result);
	if (foreign)
		return pass_leaves(pass, "it has overflow documents that Spillway did not write");
	main_open_update(pass->target, &out, &open);
	main_write_birth(pass, &out, &open);
	return pass_guarded(pass, "M1", send_update(pass, &out, &open), PASS_AGAIN);
}

/* M4: the tail leaves the main document, in the same instant as it begins to count as overflow. */

static void write_slice(struct pass_state *pass, struct buffer *out, const char *name, int64_t from,
			bool to_end)
{
	auto_free char *array = bson_strdup_printf("$%s", pass->rule->array);
	size_t document = writer_open_document(out, name);
	size_t slice = writer_open_array(out, "$slice");

	writer_string(out, "0", array);
	writer_int64(out, "1", from);
	if (to_end)
		writer_int32(out, "2", INT32_MAX);
	writer_close(out, slice);
	writer_close(out, document);
}

static void write_cut(struct pass_state *pass, struct buffer *out)
{
	size_t cut = writer_open_document(out, pass->rule->array);
	size_t parts = writer_open_array(out, "$concatArrays");

	if (pass->plan.head > 0) { /* mongod refuses a slice of no elements */
		write_slice(pass, out, "0", pass->plan.head, false);
	} else {
		size_t empty = writer_open_array(out, "0");

		writer_close(out, empty);
	}
	write_slice(pass, out, "1", pass->plan.head + pass->stored, true);
	writer_close(out, parts);
	writer_close(out, cut);
}

/* S.a: the names that weren't there before this generation's first M4, so that folding back takes
 * them away again. */
static void write_added(struct pass_state *pass, struct buffer *out)
{
	const char *flag = pass->rule->flag.field;
	auto_free char *flag_value = bson_strdup_printf("$%s", flag);
	char path[STATE_PATH_MAX], state[STATE_PATH_MAX + 1] = "$";
	bson_t *added;

	state_path(state + 1, pass->rule, "a");
	added = BCON_NEW("$ifNull", "[", BCON_UTF8(state), "{", "$cond", "[", "{", "$eq", "[", "{",
			 "$type", BCON_UTF8(flag_value), "}", BCON_UTF8("missing"), "]", "}", "[",
			 "{", "$literal", BCON_UTF8(flag), "}", "]", "[", "]", "]", "}", "]");
	writer_document(out, state_path(path, pass->rule, "a"),
			(struct bytes){bson_get_data(added), added->len});
	bson_destroy(added);
}

/* The flag's value. */
static void write_flag(struct pass_state *pass, struct buffer *out, const char *name)
{
	const struct rule_value *value = &pass->rule->flag.value;
	size_t literal = writer_open_document(out, name);

	writer_renamed(out, "$literal",
		       &(struct element){.type = value->type, .value = value->value});
	writer_close(out, literal);
}

static void write_total_kept(struct buffer *out, const char *value)
{
	bson_t *kept = BCON_NEW("$cond", "[", "{", "$eq", "[", "{", "$type", BCON_UTF8(value), "}",
				BCON_UTF8("missing"), "]", "}", BCON_UTF8("$$REMOVE"),
				BCON_BOOL(true), "]");

	writer_document(out, OWN_TOTAL_KEPT, (struct bytes){bson_get_data(kept), kept->len});
	bson_destroy(kept);
}

/* What was there, unless it was what we write: then `otherwise` is what returns. */
static void write_flag_before(struct pass_state *pass, struct buffer *out)
{
	auto_free char *flag = bson_strdup_printf("$%s", pass->rule->flag.field);
	size_t field = writer_open_document(out, own_field_key(OWN_FLAG));
	size_t parts = writer_open_array(out, "$cond"), same = writer_open_document(out, "0");
	size_t both = writer_open_array(out, "$eq");

	writer_string(out, "0", flag);
	write_flag(pass, out, "1");
	writer_close(out, both);
	writer_close(out, same);
	writer_string(out, "1", "$$REMOVE");
	writer_string(out, "2", flag);
	writer_close(out, parts);
	writer_close(out, field);
}

/* Of a document that was split by hand, flag, total and reference belong to the split: the second
 * would grow old in the state, the others mean nothing when the array is whole. */
static void write_one_before(struct pass_state *pass, struct buffer *out, enum own_field field)
{
	const char *name = own_field_name(pass->rule, field);
	auto_free char *value = bson_strdup_printf("$%s", name ? name : "");

	if (!name || (pass->adopted && (field == OWN_REFERENCE || field == OWN_FLAG)))
		return;
	if (field == OWN_FLAG) {
		write_flag_before(pass, out);
		return;
	}
	if (pass->adopted && field == OWN_TOTAL)
		write_total_kept(out, value);
	else
		writer_string(out, own_field_key(field), value);
}

/* What stood there before this generation's first M4, so that folding back restores it. */
static void write_before(struct pass_state *pass, struct buffer *out)
{
	char path[STATE_PATH_MAX], state[STATE_PATH_MAX + 1] = "$";
	size_t field, list, before;

	state_path(state + 1, pass->rule, "b");
	field = writer_open_document(out, state_path(path, pass->rule, "b"));
	list = writer_open_array(out, "$ifNull");
	writer_string(out, "0", state);
	before = writer_open_document(out, "1");
	for (enum own_field each = OWN_FLAG; each < OWN_FIELDS; each++)
		write_one_before(pass, out, each);
	writer_close(out, before);
	writer_close(out, list);
	writer_close(out, field);
}

/* As many as there are when the array is cut, also of those that were pushed since it was read. */
static void write_total(struct pass_state *pass, struct buffer *out)
{
	auto_free char *array = bson_strdup_printf("$%s", pass->rule->array);
	size_t field = writer_open_document(out, own_field_name(pass->rule, OWN_TOTAL));
	size_t sum = writer_open_array(out, "$add"), size = writer_open_document(out, "0");

	writer_string(out, "$size", array);
	writer_close(out, size);
	if (pass->plan.moved <= INT32_MAX)
		writer_int32(out, "1", (int32_t)pass->plan.moved);
	else
		writer_int64(out, "1", pass->plan.moved);
	writer_close(out, sum);
	writer_close(out, field);
}

static void write_literal(struct buffer *out, const char *name, struct bytes text)
{
	size_t literal = writer_open_document(out, name);

	writer_text(out, "$literal", text);
	writer_close(out, literal);
}

static void write_reference(struct pass_state *pass, struct buffer *out)
{
	size_t field = writer_open_document(out, own_field_name(pass->rule, OWN_REFERENCE));
	size_t parts = writer_open_array(out, "$concat"), id;

	write_literal(out, "0", own_reference_head(pass->rule));
	id = writer_open_document(out, "1");
	writer_string(out, "$toString", "$_id");
	writer_close(out, id);
	write_literal(out, "2", own_reference_tail(pass->rule));
	writer_close(out, parts);
	writer_close(out, field);
}

/* The rule's fields, in the same instant as the array is cut: they are right whenever it rests. */
static void write_fields(struct pass_state *pass, struct buffer *out)
{
	const struct rule *rule = pass->rule;
	bool total = own_field_name(rule, OWN_TOTAL), documents, reference;

	documents = own_field_name(rule, OWN_DOCUMENTS);
	reference = own_field_name(rule, OWN_REFERENCE);
	if (rule->flag.field) {
		write_added(pass, out);
		write_flag(pass, out, rule->flag.field);
	}
	if (own_fields_any(rule))
		write_before(pass, out);
	if (total)
		write_total(pass, out);
	if (documents)
		writer_int32(out, own_field_name(rule, OWN_DOCUMENTS), (int32_t)pass->open.number);
	if (reference && own_reference_has_text(&pass->plan.id))
		write_reference(pass, out);
}

/* The pipeline: whatever has been pushed since the image was read stays behind the head. */
void main_write_cut(struct pass_state *pass, struct buffer *out, struct open_update *open)
{
	char path[STATE_PATH_MAX];
	size_t stage, set;

	open_statement(pass, out, open);
	guard_generation(pass, out);
	writer_close(out, open->q);
	open->u = writer_open_array(out, "u");
	stage = writer_open_document(out, "0");
	set = writer_open_document(out, "$set");
	write_cut(pass, out);
	writer_int64(out, state_path(path, pass->rule, "n"), pass->plan.moved + pass->stored);
	writer_string(out, state_path(path, pass->rule, "t"), "$$NOW");
	write_fields(pass, out);
	writer_close(out, set);
	writer_close(out, stage);
	close_statement(out, open);
}

static enum link_result send_cut(struct pass_state *pass)
{
	auto_buffer struct buffer out = {0};
	struct open_update open;

	main_open_update(pass->target, &out, &open);
	main_write_cut(pass, &out, &open);
	return send_update(pass, &out, &open);
}

/* The state as M1 and M4 leave it, and the rule's fields. */
static void write_adopted(struct pass_state *pass, struct buffer *out)
{
	size_t stage = writer_open_document(out, "0"), set = writer_open_document(out, "$set");
	char path[STATE_PATH_MAX];

	command_generation(out, state_path(path, pass->rule, "g"), pass->plan.generation);
	writer_int64(out, state_path(path, pass->rule, "h"), pass->plan.head);
	writer_int64(out, state_path(path, pass->rule, "n"), pass->plan.moved);
	writer_string(out, state_path(path, pass->rule, "t"), "$$NOW");
	write_fields(pass, out);
	writer_close(out, set);
	writer_close(out, stage);
}

must_check enum link_result main_adopt(struct pass_state *pass, const struct element *flag)
{
	auto_buffer struct buffer out = {0};
	struct open_update open;
	char path[STATE_PATH_MAX];
	const char *state = state_path(path, pass->rule, NULL);
	size_t condition;

	open_update(pass, &out, &open);
	command_exists(&out, state, false);
	condition = writer_open_document(&out, pass->rule->array);
	writer_int64(&out, "$size", pass->plan.head);
	writer_close(&out, condition);
	if (flag)
		command_equal(&out, pass->rule->flag.field, flag->type, flag->value);
	writer_close(&out, open.q);
	open.u = writer_open_array(&out, "u");
	write_adopted(pass, &out);
	close_statement(&out, &open);
	return send_update(pass, &out, &open);
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
	pass->round->elements += pass->stored;
	metric_add_shared(&pass->round->metrics->spills, 1);
	metric_add_shared(&pass->round->metrics->moved_elements, pass->stored);
	atomic_fetch_add(&pass->target->elements, pass->stored);
	if (pass->plan.moved == 0) {
		metric_add_shared(&pass->round->metrics->outliers, 1);
		atomic_fetch_add(&pass->target->outliers, 1);
	}
	return pass->plan.head + pass->stored < pass->plan.length ? PASS_AGAIN : PASS_MOVED;
}
