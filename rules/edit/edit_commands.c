/* What an edit sends: filters, and commands of its own. */
#include "rules/edit/edit.h"

#include "protocol/writer.h"
#include "rules/query/exact_id.h"
#include "rules/query/filter_split.h"
#include "rules/rule/names.h"
#include "rules/rule/overflow_document.h"
#include "rules/rule/own_fields.h"
#include "rules/query/reads.h"
#include "rules/reassembly/reassemble.h"
#include "rules/query/update.h"

#define PROBE_ENDS 4 /* of the last overflow documents one reaches the end of what is linked */

/* ---- conditions ---- */

/* An array of conditions that is being written: {$and: [...]}. */
struct conjunction {
	struct buffer *out;
	size_t document, array, place;
};

static struct conjunction open_conjunction(struct buffer *out, const char *name)
{
	struct conjunction open = {.out = out};

	open.document = name ? writer_open_document(out, name) : writer_open(out);
	open.array = writer_open_array(out, "$and");
	return open;
}

static void close_conjunction(struct conjunction *open)
{
	writer_close(open->out, open->array);
	writer_close(open->out, open->document);
}

static const char *next_name(struct conjunction *open, char name[12])
{
	return writer_index(name, open->place++);
}

static void add_filter(struct conjunction *open, struct bytes filter)
{
	char name[12];

	writer_document(open->out, next_name(open, name), filter);
}

bool edit_can_pin(const struct edit *edit, const struct element *id)
{
	return edit->write.collation.type == 0 || exact_id_possible(id);
}

static void add_pin(const struct edit *edit, struct conjunction *open)
{
	char name[12];
	size_t pin = writer_open_document(open->out, next_name(open, name)), value;

	if (edit->write.collation.type != 0) {
		exact_id_write(open->out, &edit->id);
	} else {
		value = writer_open_document(open->out, "_id");
		writer_renamed(open->out, "$eq", &edit->id);
		writer_close(open->out, value);
	}
	writer_close(open->out, pin);
}

static void write_exists(struct buffer *out, const char *path, bool exists)
{
	size_t value = writer_open_document(out, path);

	writer_bool(out, "$exists", exists);
	writer_close(out, value);
}

static void write_state_exists(struct buffer *out, const struct rule *rule, bool exists)
{
	auto_buffer struct buffer path = {0};

	name_state_path(&path, rule);
	write_exists(out, (const char *)path.data, exists);
}

/* No concerned array has a state. */
static void add_guard(const struct edit *edit, struct conjunction *open)
{
	char name[12];
	size_t guard = writer_open_document(open->out, next_name(open, name));

	if (edit->all)
		write_exists(open->out, NAME_STATE, false);
	for (size_t i = 0; !edit->all && i < edit->namespace->target_count; i++)
		if (edit->concerned[i])
			write_state_exists(open->out, edit->namespace->targets[i].rule, false);
	writer_close(open->out, guard);
}

/* Matches nothing: statement histories and malformed updates are looked at nevertheless. */
static void add_never(struct conjunction *open)
{
	char name[12];
	size_t never = writer_open_document(open->out, next_name(open, name));
	size_t value = writer_open_document(open->out, "_id");
	size_t list = writer_open_array(open->out, "$in");

	writer_close(open->out, list);
	writer_close(open->out, value);
	writer_close(open->out, never);
}

/* $and takes no empty array. */
static void add_always(struct conjunction *open)
{
	char name[12];

	writer_close(open->out, writer_open_document(open->out, next_name(open, name)));
}

/* The client's filter, or what is left of it behind a fold. */
static struct bytes filter_left(const struct edit *edit)
{
	return edit->bare.length > 0 ? buffer_view(&edit->bare) : edit->write.filter.value;
}

/* The path is, or leads into, a field of the rule's that the fold takes away or sets back. */
static bool goes_with_fold(struct bytes path, const struct rule *rule, const struct element *state)
{
	struct element value;

	for (enum own_field field = OWN_FLAG; field < OWN_FIELDS; field++) {
		const char *name = own_field_name(rule, field);

		if (name && path_relate(path, name) != PATH_APART &&
		    own_field_end(rule, field, state, &value) != OWN_FIELD_STAYS)
			return true;
	}
	return false;
}

static bool went_with_fold(const struct edit *edit, struct bytes path)
{
	struct element state;

	for (size_t i = 0; i < edit->namespace->target_count; i++)
		if (edit->concerned[i] && edit_state_of(edit, i, &state) &&
		    goes_with_fold(path, edit->namespace->targets[i].rule, &state))
			return true;
	return false;
}

void edit_write_bare(struct edit *edit)
{
	auto_buffer struct buffer left = {0};
	size_t document = writer_open(&left);
	struct element conjunct;
	enum cursor_step step;
	struct walk walk;
	bool less = false;

	step = filter_first_conjunct(&walk, filter_left(edit), &conjunct);
	for (; step == CURSOR_ELEMENT; step = filter_next_conjunct(&walk, &conjunct)) {
		if (went_with_fold(edit, conjunct.name))
			less = true;
		else
			writer_element(&left, &conjunct);
	}
	writer_close(&left, document);
	if (!less)
		return;
	edit->bare.length = 0;
	buffer_append(&edit->bare, left.data, left.length);
}

void edit_write_filter(struct edit *edit)
{
	struct conjunction open;

	edit->filter.length = 0;
	open = open_conjunction(&edit->filter, NULL);
	/* What is inserted has all that the filter says. */
	add_filter(&open,
		   edit->none || edit->upsert ? edit->write.filter.value : filter_left(edit));
	if (edit->none && !edit->upsert)
		add_never(&open);
	else if (!edit->pinned && !edit->none)
		add_pin(edit, &open);
	add_guard(edit, &open);
	close_conjunction(&open);
}

static void add_rest(const struct edit *edit, struct conjunction *open, enum filter_rest wanted)
{
	filter_split_write(open->out, &open->place, filter_left(edit), edit->namespace, wanted);
}

/* The same generation, and as much of it linked: S.g and S.n. */
static void write_state(const struct edit *edit, struct buffer *out, const struct rule *rule)
{
	static const char *const fields[] = {"g", "n"};
	auto_buffer struct buffer path = {0};
	struct element states, state, field;

	require(document_find(buffer_view(&edit->kept), NAME_STATE, &states) &&
		document_find(states.value, rule->key, &state));
	for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
		path.length = 0;
		name_state_path(&path, rule);
		path.data[path.length - 1] = '.';
		buffer_append(&path, fields[i], 2);
		require(document_find(state.value, fields[i], &field));
		writer_renamed(out, (const char *)path.data, &field);
	}
}

/* A spilled array that was read: it stays what it is while these hold. */
static void write_unchanged(const struct edit *edit, struct buffer *out, const struct rule *rule,
			    const struct element *length)
{
	size_t value;

	write_state(edit, out, rule);
	value = writer_open_document(out, rule->array);
	writer_renamed(out, "$size", length);
	writer_close(out, value);
}

void edit_write_swap(struct edit *edit)
{
	struct conjunction open;
	char name[12];
	size_t unchanged;

	edit->filter.length = 0;
	open = open_conjunction(&edit->filter, NULL);
	add_rest(edit, &open, FILTER_REST_ALL);
	add_pin(edit, &open);
	unchanged = writer_open_document(open.out, next_name(&open, name));
	for (size_t i = 0; i < edit->namespace->target_count; i++) {
		struct element length;

		if (!edit->concerned[i])
			continue;
		require(document_find(buffer_view(&edit->kept), writer_index(name, i), &length));
		write_unchanged(edit, open.out, edit->namespace->targets[i].rule, &length);
	}
	writer_close(open.out, unchanged);
	close_conjunction(&open);
}

void edit_write_probed(struct edit *edit)
{
	const struct rule *rule = edit->namespace->targets[edit->target].rule;
	struct conjunction open;
	char name[12];
	size_t unchanged;

	edit->filter.length = 0;
	open = open_conjunction(&edit->filter, NULL);
	add_filter(&open, filter_left(edit));
	add_pin(edit, &open);
	unchanged = writer_open_document(open.out, next_name(&open, name));
	write_state(edit, open.out, rule);
	writer_close(open.out, unchanged);
	close_conjunction(&open);
}

/* The state of target `index` in E1's document. */
must_check bool edit_state_of(const struct edit *edit, size_t index, struct element *state)
{
	struct element states;

	return document_find(buffer_view(&edit->kept), NAME_STATE, &states) &&
	       states.type == BSON_BYTE_DOCUMENT &&
	       document_find(states.value, edit->namespace->targets[index].rule->key, state) &&
	       state->type == BSON_BYTE_DOCUMENT;
}

/* What is done to the rule's fields may hang on whether there is a state, and whether it holds
 * anything. */
static void write_other_states(const struct edit *edit, struct buffer *out)
{
	for (size_t i = 0; i < edit->namespace->target_count; i++) {
		const struct rule *rule = edit->namespace->targets[i].rule;
		struct element state, field;

		if (!edit->concerned[i] || i == edit->target || !own_fields_any(rule))
			continue;
		if (edit_state_of(edit, i, &state) && document_find(state.value, "g", &field) &&
		    document_find(state.value, "n", &field))
			write_state(edit, out, rule);
		else
			write_state_exists(out, rule, edit_state_of(edit, i, &state));
	}
}

void edit_write_whole(struct edit *edit)
{
	const struct ruled_namespace *namespace = edit->namespace;
	struct conjunction open;
	struct element length, states;
	char name[12];
	size_t unchanged, start;

	edit->filter.length = 0;
	open = open_conjunction(&edit->filter, NULL);
	add_filter(&open, filter_left(edit));
	add_pin(edit, &open);
	unchanged = writer_open_document(open.out, next_name(&open, name));
	require(document_find(buffer_view(&edit->kept), writer_index(name, edit->target), &length));
	write_unchanged(edit, open.out, namespace->targets[edit->target].rule, &length);
	write_other_states(edit, open.out);
	writer_close(open.out, unchanged);
	close_conjunction(&open);
	if (update_classify(&edit->write.update, namespace).kind != UPDATE_WHOLE)
		return; /* a replacement leaves no state by itself */
	edit->whole.length = 0;
	start = writer_open(&edit->whole);
	require(document_find(buffer_view(&edit->kept), NAME_STATE, &states));
	update_write_whole(&edit->whole, "u", &edit->write.update, namespace, &states);
	writer_close(&edit->whole, start);
	require(document_find(buffer_view(&edit->whole), "u", &edit->update));
}

/* F, or a concerned array that has a state. */
static void add_filter_or_state(const struct edit *edit, struct conjunction *open)
{
	char name[12];
	size_t either = writer_open_document(open->out, next_name(open, name)), place = 0;
	size_t list = writer_open_array(open->out, "$or"), branch;

	writer_document(open->out, writer_index(name, place++), filter_left(edit));
	for (size_t i = 0; i < (edit->all ? 1 : edit->namespace->target_count); i++) {
		if (!edit->concerned[i])
			continue;
		branch = writer_open_document(open->out, writer_index(name, place++));
		if (edit->all)
			write_exists(open->out, NAME_STATE, true);
		else
			write_state_exists(open->out, edit->namespace->targets[i].rule, true);
		writer_close(open->out, branch);
	}
	writer_close(open->out, list);
	writer_close(open->out, either);
}

/* A superset of what matches: F less its conditions on arrays, for documents with a state. That a
 * value is not in the array holds for main's part of it, too. */
static void add_candidates(const struct edit *edit, struct conjunction *open)
{
	if (!edit->facts.reads || edit->membership.known) {
		add_filter(open, filter_left(edit));
		return;
	}
	add_rest(edit, open, FILTER_REST_ALL);
	add_filter_or_state(edit, open);
}

/* ---- commands ---- */

static void write_option(struct buffer *out, const struct element *element)
{
	if (element->type != 0)
		writer_element(out, element);
}

void edit_write_options(const struct edit *edit, struct sequence *sequence)
{
	write_option(&sequence->buffer, &edit->write.collation);
	write_option(&sequence->buffer, &sequence->match.command.fields[FIELD_LET]);
}

enum edit_outcome edit_send(struct edit *edit, struct sequence *sequence,
			    const struct sequence_input *input, size_t body)
{
	sequence_write_read_fields(sequence, input, edit->namespace->database, (struct bytes){0});
	sequence_send_command(sequence, body);
	return EDIT_SEND;
}

/* A batch is lost where its last document makes the filter fail. */
static void write_batch_size(const struct edit *edit, struct buffer *out)
{
	if (edit->write.many && edit->facts.raises)
		writer_int32(out, "batchSize", 1);
}

static enum edit_outcome send_find(struct edit *edit, struct sequence *sequence,
				   const struct sequence_input *input)
{
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_command(sequence), projection;

	writer_string(out, "find", edit->namespace->collection);
	writer_renamed(out, "filter", &edit->write.filter);
	projection = writer_open_document(out, "projection");
	writer_int32(out, "_id", 1);
	writer_int32(out, NAME_STATE, 1);
	writer_close(out, projection);
	if (edit->write.sort.type != 0)
		writer_renamed(out, "sort", &edit->write.sort);
	write_option(out, &edit->write.hint);
	if (!edit->write.many)
		writer_int32(out, "limit", 1);
	write_batch_size(edit, out);
	edit_write_options(edit, sequence);
	return edit_send(edit, sequence, input, body);
}

static void write_stage(struct buffer *out, size_t *place, const char *verb,
			const struct element *value)
{
	char name[12];
	size_t stage = writer_open_document(out, writer_index(name, (*place)++));

	writer_renamed(out, verb, value);
	writer_close(out, stage);
}

static void write_limit(struct buffer *out, size_t *place)
{
	char name[12];
	size_t stage = writer_open_document(out, writer_index(name, (*place)++));

	writer_int32(out, "$limit", 1);
	writer_close(out, stage);
}

/* {$cond: [{$isArray: "$f"}, {$size: "$f"}, -1]} */
static void write_length(struct buffer *out, const char *name, const char *array)
{
	auto_buffer struct buffer path = {0};
	size_t field = writer_open_document(out, name), list, call;

	buffer_append(&path, "$", 1);
	buffer_append(&path, array, strlen(array) + 1);
	list = writer_open_array(out, "$cond");
	call = writer_open_document(out, "0");
	writer_string(out, "$isArray", (const char *)path.data);
	writer_close(out, call);
	call = writer_open_document(out, "1");
	writer_string(out, "$size", (const char *)path.data);
	writer_close(out, call);
	writer_int32(out, "2", -1);
	writer_close(out, list);
	writer_close(out, field);
}

/* Named by target: of the arrays that are concerned. */
static void write_lengths(const struct edit *edit, struct buffer *out)
{
	char name[12];

	for (size_t i = 0; i < edit->namespace->target_count; i++)
		if (edit->concerned[i])
			write_length(out, writer_index(name, i),
				     edit->namespace->targets[i].rule->array);
}

/* {$project: {_id: 1}}; of a document that may be swapped also its state and, named by target, the
 * lengths of the arrays that were read. */
static void write_last_stage(const struct edit *edit, struct buffer *out, size_t *place, bool state)
{
	char name[12];
	size_t stage = writer_open_document(out, writer_index(name, (*place)++));
	size_t project = writer_open_document(out, "$project");

	writer_int32(out, "_id", 1);
	if (state) {
		writer_int32(out, NAME_STATE, 1);
		write_lengths(edit, out);
	}
	writer_close(out, project);
	writer_close(out, stage);
}

static void write_match(const struct edit *edit, struct buffer *out, size_t *place, bool pinned)
{
	char name[12];
	size_t stage = writer_open_document(out, writer_index(name, (*place)++));
	struct conjunction open = open_conjunction(out, "$match");

	if (pinned) {
		add_pin(edit, &open);
		add_rest(edit, &open, FILTER_REST_ALL);
	} else if (edit->facts.raises) {
		/* mongod judges many documents here before it needs the second */
		add_rest(edit, &open, filter_rest_before_expression(filter_left(edit)));
		add_always(&open);
	} else {
		add_candidates(edit, &open);
	}
	close_conjunction(&open);
	writer_close(out, stage);
}

/* {$natural: 1}: of a pipeline that is a hint. */
static bool sorts_naturally(const struct edit *edit)
{
	struct element order;

	return edit->write.sort.type == BSON_BYTE_DOCUMENT &&
	       document_find(edit->write.sort.value, "$natural", &order);
}

/* Sorted by _id, mongod meets the documents one by one: those behind the first one that matches
 * are not judged. */
static bool sorts_first(const struct edit *edit)
{
	return edit->facts.raises && reads_by_id(&edit->write.sort, &edit->write.collation);
}

static void write_sort(const struct edit *edit, struct buffer *out, size_t *place, bool first)
{
	const struct element *sort = &edit->write.sort;

	if (sort->type == BSON_BYTE_DOCUMENT && sort->value.length > 5 && !sorts_naturally(edit) &&
	    sorts_first(edit) == first)
		write_stage(out, place, "$sort", sort);
}

/* The documents put together by mongod, then the filter on what clients would see. */
static enum edit_outcome send_aggregate(struct edit *edit, struct sequence *sequence,
					const struct sequence_input *input, bool pinned)
{
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_command(sequence), place = 0, pipeline, cursor;
	bool state = pinned && edit->facts.swaps;

	writer_string(out, "aggregate", edit->namespace->collection);
	pipeline = writer_open_array(out, "pipeline");
	write_match(edit, out, &place, pinned);
	if (!pinned)
		write_sort(edit, out, &place, true);
	reassemble_write_stages(
		out, &place, edit->namespace,
		(struct reassembly){
			state ? REASSEMBLE_STATE : REASSEMBLE_VALUES, pinned || edit->pinned,
			.strict =
				element_truth(&sequence->match.command.fields[FIELD_API_STRICT])});
	filter_write_match(out, &place, filter_left(edit), FILTER_AT_START);
	if (!pinned)
		write_sort(edit, out, &place, false);
	if (!pinned && !edit->write.many)
		write_limit(out, &place);
	write_last_stage(edit, out, &place, state);
	writer_close(out, pipeline);
	cursor = writer_open_document(out, "cursor");
	write_batch_size(edit, out);
	writer_close(out, cursor);
	if (!pinned && edit->write.hint.type == 0 && sorts_naturally(edit))
		writer_renamed(out, "hint", &edit->write.sort);
	else if (!pinned)
		write_option(out, &edit->write.hint);
	edit_write_options(edit, sequence);
	return edit_send(edit, sequence, input, body);
}

enum edit_outcome edit_send_search(struct edit *edit, struct sequence *sequence,
				   const struct sequence_input *input)
{
	return edit->facts.reads ? send_aggregate(edit, sequence, input, false)
				 : send_find(edit, sequence, input);
}

enum edit_outcome edit_send_get_more(struct edit *edit, struct sequence *sequence)
{
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_command(sequence);

	writer_int64(out, "getMore", edit->cursor_id);
	writer_string(out, "collection", edit->namespace->collection);
	write_batch_size(edit, out);
	writer_string(out, "$db", edit->namespace->database);
	sequence_write_cursor_fields(sequence);
	sequence_send_command(sequence, body);
	return EDIT_SEND;
}

enum edit_outcome edit_send_look(struct edit *edit, struct sequence *sequence,
				 const struct sequence_input *input)
{
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_command(sequence), projection;
	struct conjunction open;

	writer_string(out, "find", edit->namespace->collection);
	open = open_conjunction(out, "filter");
	add_pin(edit, &open);
	add_candidates(edit, &open);
	close_conjunction(&open);
	projection = writer_open_document(out, "projection");
	writer_int32(out, "_id", 1);
	writer_int32(out, NAME_STATE, 1);
	if (edit->facts.sets)
		write_lengths(edit, out);
	writer_close(out, projection);
	write_option(out, &edit->write.hint); /* an index may lack documents */
	writer_int32(out, "limit", 1);
	edit_write_options(edit, sequence);
	return edit_send(edit, sequence, input, body);
}

/* {$expr: <the link has the bytes of the id>} */
static void write_same_text(struct buffer *out, const char *link, const struct element *id)
{
	auto_text path = text_join("$", link, "");
	size_t expression = writer_open_document(out, "$expr"), let, vars, literal;
	struct call all;

	let = writer_open_document(out, "$let");
	vars = writer_open_document(out, "vars");
	literal = writer_open_document(out, "id");
	writer_renamed(out, "$literal", id);
	writer_close(out, literal);
	writer_close(out, vars);
	all = call_open(out, "in", "$and");
	reassemble_add_same_text(&all, path.bytes, "$$id");
	call_close(&all);
	writer_close(out, let);
	writer_close(out, expression);
}

/* Overflow documents of the generation. */
static size_t open_probe_match(const struct edit *edit, struct buffer *out)
{
	const struct target *target = &edit->namespace->targets[edit->target];
	struct element states, state, generation;
	size_t match;

	require(document_find(buffer_view(&edit->kept), NAME_STATE, &states) &&
		document_find(states.value, target->rule->key, &state) &&
		document_find(state.value, "g", &generation));
	match = writer_open_document(out, "$match");
	if (edit->id.type == BSON_BYTE_STRING) /* a collation may find others to be equal */
		write_same_text(out, target->rule->overflow.link, &edit->id);
	writer_renamed(out, target->rule->overflow.link, &edit->id);
	writer_renamed(out, "_spill.g", &generation);
	return match;
}

/* Of these, the ones that have the value. */
static void write_probe_match(const struct edit *edit, struct buffer *out)
{
	struct bytes conditions = buffer_view(&edit->membership.overflow), condition;
	size_t stage = writer_open_document(out, "0"), match = open_probe_match(edit, out);
	size_t list = writer_open_array(out, "$or"), place = 0;
	char name[12];

	while (message_next_document(&conditions, &condition))
		writer_document(out, writer_index(name, place++), condition);
	writer_close(out, list);
	writer_close(out, match);
	writer_close(out, stage);
}

static void write_probe_lookup(const struct edit *edit, struct buffer *out)
{
	size_t stage = writer_open_document(out, "1"), lookup, pipeline, inner, project, place = 1;

	lookup = writer_open_document(out, "$lookup");
	writer_string(out, "from", edit->namespace->targets[edit->target].overflow_collection);
	pipeline = writer_open_array(out, "pipeline");
	write_probe_match(edit, out);
	write_limit(out, &place);
	inner = writer_open_document(out, "2");
	project = writer_open_document(out, "$project");
	writer_int32(out, "_id", 1);
	writer_close(out, project);
	writer_close(out, inner);
	writer_close(out, pipeline);
	writer_string(out, "as", "0");
	writer_close(out, lookup);
	writer_close(out, stage);
}

/* {$project: {_id: 0, p: "$_spill.p", n: <the array's length>}} */
static void write_probe_places(const struct rule *rule, struct buffer *out, const char *name)
{
	size_t stage = writer_open_document(out, name);
	size_t project = writer_open_document(out, "$project");

	writer_int32(out, "_id", 0);
	writer_string(out, "p", "$_spill.p");
	if (rule->overflow.layout == RULE_BATCHES)
		write_length(out, "n", rule->overflow.array);
	writer_close(out, project);
	writer_close(out, stage);
}

/* Where the overflow ends: its last documents by their numbers, of which two may have come in
 * another order. One seek in the index. */
static void write_probe_end(const struct edit *edit, struct buffer *out)
{
	const struct target *target = &edit->namespace->targets[edit->target];
	size_t stage = writer_open_document(out, "2"), lookup, pipeline, inner, match, sort;

	lookup = writer_open_document(out, "$lookup");
	writer_string(out, "from", target->overflow_collection);
	pipeline = writer_open_array(out, "pipeline");
	inner = writer_open_document(out, "0");
	match = open_probe_match(edit, out);
	writer_close(out, match);
	writer_close(out, inner);
	inner = writer_open_document(out, "1");
	sort = writer_open_document(out, "$sort");
	writer_int32(out, overflow_order_path(target->rule), -1);
	writer_close(out, sort);
	writer_close(out, inner);
	inner = writer_open_document(out, "2");
	writer_int32(out, "$limit", PROBE_ENDS);
	writer_close(out, inner);
	write_probe_places(target->rule, out, "3");
	writer_close(out, pipeline);
	writer_string(out, "as", "1");
	writer_close(out, lookup);
	writer_close(out, stage);
}

static void write_probe_answer(struct buffer *out)
{
	size_t stage = writer_open_document(out, "3");
	size_t project = writer_open_document(out, "$project");

	writer_int32(out, "_id", 0);
	writer_int32(out, "0", 1);
	writer_int32(out, "1", 1);
	writer_close(out, project);
	writer_close(out, stage);
}

/* Is a value in the overflow that the state links? What is stored beyond it is in main, too. Joined
 * to main, so that values compare under main's own collation where the command has none. */
enum edit_outcome edit_send_probe(struct edit *edit, struct sequence *sequence,
				  const struct sequence_input *input)
{
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_command(sequence), pipeline, stage, cursor;
	struct conjunction open;

	writer_string(out, "aggregate", edit->namespace->collection);
	pipeline = writer_open_array(out, "pipeline");
	stage = writer_open_document(out, "0");
	open = open_conjunction(out, "$match");
	add_pin(edit, &open);
	close_conjunction(&open);
	writer_close(out, stage);
	write_probe_lookup(edit, out);
	write_probe_end(edit, out);
	write_probe_answer(out);
	writer_close(out, pipeline);
	cursor = writer_open_document(out, "cursor");
	writer_close(out, cursor);
	write_option(out, &edit->write.collation);
	return edit_send(edit, sequence, input, body);
}

enum edit_outcome edit_send_settle(struct edit *edit, struct sequence *sequence,
				   const struct sequence_input *input)
{
	return send_aggregate(edit, sequence, input, true);
}
