/* Writes the stages that put whole documents together.
 *
 * The join is a $graphLookup of one step: it starts from the _ids of an array, and where that is
 * empty it asks nothing, while a $lookup plans and runs its query for every document. What comes is
 * in no order and may be of other generations. Those are told apart by their binary marks: exact
 * under any collation. */
#include "rules/reassembly/reassemble.h"

#include "rules/query/filter_split.h"
#include "rules/reassembly/joined.h"
#include "rules/reassembly/raised.h"
#include "rules/reassembly/sound.h"
#include "rules/rule/names.h"

#include <stdio.h>
#include <stdlib.h>

/* What was joined, by the number of the target. No rule's key begins with a slash. */
#define JOINED_IN "_spill./joined"

/* Of more arrays than these, mongod would take longer to read the guards than to run them. */
#define GUARDED_ALONE 4

/* ---- one target's array ---- */

/* What is put together of a target, and how. */
struct part {
	const struct ruled_namespace *namespace;
	const struct target *target;
	struct reassembly how;
	bool first;      /* no join before it has written to `_spill` */
	bool single;     /* one document with many of one element each: its overflow comes sorted */
	char joined[40]; /* the path of what was joined */
	char again[48];  /* and of what main says now */
};

/* Appends the tests, one document each: mongod would lose a field of the document, or of one that a
 * ruled path goes through. */
static void write_repeats(struct buffer *tests, const struct ruled_namespace *namespace)
{
	static const char test[] =
		"{$and: ["
		"{$eq: [{$type: '$@path'}, 'object']}, "
		"{$ne: [{$bsonSize: '$@path'}, {$bsonSize: {$mergeObjects: ['$@path', {}]}}]}]}";

	template_write_document(tests, test, fill("path", "$ROOT"));
	for (size_t i = 0; i < namespace->target_count; i++) {
		const char *array = namespace->targets[i].rule->array, *dot = array;

		for (; (dot = strchr(dot, '.')); dot++)
			template_write_document(
				tests, test,
				fill("path", ((struct bytes){(const uint8_t *)array,
							     (size_t)(dot - array)})));
	}
}

/* By what the overflow is asked: by nothing for ordinary documents, for others by what is wanted. A
 * document that can't be put together raises its error. The first join tells by `_spill`, which
 * later ones find changed. */
static const char question[] = "{$cond: [@ordinary, @nothing, "
			       "{$cond: [@damaged, @damaged_error, @unless_repeated]}]}";
static const char unless_repeated[] =
	"{$cond: [{$and: ['$_spill', {$or: [..@repeats]}]}, @repeated_error, @wanted]}";

/* A $graphLookup takes time by the square of what it finds, and sorting that takes as long: seconds
 * for 10^5 documents of an element each. So a $lookup finds those of a single document, in order.
 */
static const char single_join[] =
	"{$lookup: {"
	"from: '@overflow', localField: '_id', foreignField: '@link', "
	"let: {g: @question, id: '$_id'}, "
	"pipeline: ["
	"{$match: {$expr: {$and: [{$eq: ['$_spill.g', '$$g']}, @same_text]}}}, "
	"{$sort: {_spill.p: 1}}], "
	"as: '@joined'}}";

static void write_join(struct buffer *out, size_t *place, const struct part *part)
{
	bool whole = part->first && part->how.use == REASSEMBLE_WHOLE;
	auto_buffer struct buffer repeats = {0};

	if (whole)
		write_repeats(&repeats, part->namespace);
	template_append(
		out, place, part->single ? single_join : JOINED_STAGE("@question", "@joined"),
		REASSEMBLE_FILLS(part->namespace, part->target), fill("joined", part->joined),
		fill_template("question", question),
		fill_template("ordinary", part->first ? SOUND_NO_STATE : SOUND_NO_STATE_OF_RULE),
		fill_template("nothing", part->single ? "null" : "[]"),
		fill_template("wanted", part->single ? "'$_spill.@key.g'"
						     : "{$cond: ['$_spill.@key.n', ['$_id'], []]}"),
		fill_template("unless_repeated", whole ? unless_repeated : "@wanted"),
		fill_documents("repeats", buffer_view(&repeats)),
		fill_template("repeated_error", RAISE(RAISED_REPEATED)),
		fill_template("same_text", EXPRESSION_SAME_TEXT("$@link", "$$id")));
}

/* The overflow's elements in order; null if they do not run on. */
static const char overflow_elements_of[] = "{$let: {vars: {stored: @stored}, in: @elements}}";

/* f[0:h] ++ overflow[0:n] ++ f[h:], if the overflow has enough. */
static const char whole_array[] =
	"{$let: {"
	"vars: {overflow: @overflow_elements}, "
	"in: {$cond: ["
	"{$gte: [{$size: [{$ifNull: ['$$overflow', []]}]}, '$_spill.@key.n']}, "
	"{$concatArrays: ["
	"{$cond: [{$gt: ['$_spill.@key.h', 0]}, {$slice: ['$@array', '$_spill.@key.h']}, []]}, "
	"{$slice: ['$$overflow', '$_spill.@key.n']}, "
	"{$slice: ['$@array', '$_spill.@key.h', 2147483647]}]}, "
	"@short_error]}}}";

/* ---- a second look ---- */

/* By what main is asked again: by the document's `_id` if its overflow is short. */
static const char again_start[] =
	"{$cond: [{$and: [{$gt: ['$_spill.@key.n', 0]}, "
	"{$lt: [{$size: [{$ifNull: [@overflow_elements, []]}]}, '$_spill.@key.n']}]}, "
	"['$_id'], []]}";

/* The state still stood behind the look at the overflow. Each state's overflow is complete as long
 * as the state stands. */
static const char is_lost[] =
	"{$anyElementTrue: [{$map: {input: '$@again', in: {$and: ["
	"{$eq: ['$$this._spill.@key.g', '$_spill.@key.g']}, " EXPRESSION_SAME_TEXT("$$this._id",
										   "$_id") "]}}}]}";

#define ELEMENTS_FILLS(part) \
	fill_template("overflow_elements", overflow_elements_of), \
		fill_template("stored", \
			      (part)->single ? "'$@joined'" : JOINED_BATCHES("$@joined")), \
		fill_template("has_array", JOINED_HAS_ARRAY((part)->target->rule, "$$this")), \
		fill_template("elements", (part)->target->rule->overflow.layout == RULE_ELEMENTS \
						  ? JOINED_ELEMENTS("$$stored", "0", "") \
						  : JOINED_RUNS("$$stored")), \
		JOINED_ELEMENT_FILLS((part)->target->rule, (part)->how.strict)

static bool part_skips(const struct part *part)
{
	return part->how.damage == REASSEMBLE_SKIPS && part->target->rule->skips_damaged;
}

/* Leaves out documents whose state is damaged. One that was edited in place is not: it fails. */
static void write_sound_only(struct buffer *out, size_t *place, const struct part *part)
{
	template_append(out, place,
			"{$match: {$expr: {$or: [@no_state, {$not: [@damaged]}, " SOUND_EDITED
			"]}}}",
			REASSEMBLE_FILLS(part->namespace, part->target));
}

static void write_look(struct buffer *out, size_t *place, const struct part *part)
{
	template_append(out, place,
			"{$graphLookup: {from: '@collection', startWith: @start, "
			"connectFromField: '_spill./none', connectToField: '_id', maxDepth: 0, "
			"as: '@again'}}",
			REASSEMBLE_FILLS(part->namespace, part->target),
			fill_template("start", again_start), fill("joined", part->joined),
			fill("again", part->again), ELEMENTS_FILLS(part));
	if (part_skips(part))
		template_append(out, place, "{$match: {$expr: {$not: [@lost]}}}",
				REASSEMBLE_FILLS(part->namespace, part->target),
				fill_template("lost", is_lost), fill("again", part->again));
}

/* ---- the whole ---- */

/* Writes the document {f: <the whole array>}. Of a path, each part stays at its place: {a:
 * {$mergeObjects: ["$a", {b: <the whole array>}]}}. */
static void write_whole(struct buffer *out, const struct part *part)
{
	const struct rule *rule = part->target->rule;
	auto_free char *path = must_strndup(rule->array, strlen(rule->array));
	char *dot = strrchr(path, '.');

	template_write_document(
		out, "{@name: @whole_array}", fill("name", dot ? dot + 1 : path),
		fill_template("whole_array", whole_array),
		REASSEMBLE_FILLS(part->namespace, part->target), fill("joined", part->joined),
		fill_template("short_error", part->how.damage != REASSEMBLE_RAISES
						     ? "{$cond: [@lost, @lost_error, @dead_error]}"
						     : "@dead_error"),
		fill_template("lost", is_lost), fill("again", part->again), ELEMENTS_FILLS(part));
	while (dot) {
		auto_buffer struct buffer inner = buffer_steal(out);

		*dot = '\0';
		dot = strrchr(path, '.');
		template_write_document(out, "{@name: {$mergeObjects: ['$@path', @inner]}}",
					fill("name", dot ? dot + 1 : path), fill("path", path),
					fill_document("inner", buffer_view(&inner)));
	}
}

static void write_replace(struct buffer *out, size_t *place, const struct part *part)
{
	auto_buffer struct buffer whole = {0};

	write_whole(&whole, part);
	template_append(out, place,
			"{$replaceWith: {$cond: [{$gt: ['$_spill.@key.n', 0]}, "
			"{$mergeObjects: ['$$ROOT', @whole]}, '$$ROOT']}}",
			fill("key", part->target->rule->key),
			fill_document("whole", buffer_view(&whole)));
}

/* ---- all of a document's ---- */

/* mongod keeps the place of a removed field for the next one of its name, and a new document has no
 * such places. Only of a document with hidden fields one is made: where a name stands twice, mongod
 * would lose a field. The rule's fields may stand without a state. */
static const char without_places[] =
	"{$replaceWith: {$cond: ["
	"{$and: [{$or: [..@present]}, {$eq: ["
	"{$size: {$objectToArray: '$$ROOT'}}, "
	"{$size: {$objectToArray: {$mergeObjects: ['$$ROOT']}}}]}]}, " EXPRESSION_FIELDS_BUT(
		"$$ROOT", "..@hidden") ", '$$ROOT']}}";

static void write_without_places(struct buffer *out, size_t *place,
				 const struct ruled_namespace *namespace)
{
	auto_buffer struct buffer present = {0}, hidden = {0};

	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct name_hidden names = name_hidden(namespace->targets[i].rule);

		for (size_t j = 0; j < NAME_FIELDS; j++) {
			const char *name = names.fields[j];

			if (!name)
				continue;
			template_write_document(&present, "{$ne: [{$type: '$@name'}, 'missing']}",
						fill("name", name));
			template_write_document(
				&hidden, EXPRESSION_IS_NAME("$$e.k", "@name", "@length"),
				fill("name", name), fill("length", (int32_t)strlen(name)));
		}
	}
	template_append(out, place, without_places,
			fill_documents("present", buffer_view(&present)),
			fill_documents("hidden", buffer_view(&hidden)));
}

void reassemble_write_unset(struct buffer *out, size_t *place,
			    const struct ruled_namespace *namespace, struct reassembly how)
{
	bool keep_state = how.use == REASSEMBLE_STATE;
	size_t stage, list, count = 0;

	if (how.sets_hidden)
		write_without_places(out, place, namespace);
	stage = writer_open_document(out, writer_index((char[12]){0}, (*place)++));
	list = writer_open_array(out, "$unset");
	template_append(out, &count, keep_state ? "'" JOINED_IN "'" : "'_spill'");
	for (size_t i = 0; i < namespace->target_count; i++) {
		struct name_hidden hidden = name_hidden(namespace->targets[i].rule);

		for (size_t j = 0; j < NAME_FIELDS; j++)
			template_append(out, &count, "@name", fill("name", hidden.fields[j]));
	}
	writer_close(out, list);
	writer_close(out, stage);
}

void reassemble_write_stages(struct buffer *out, size_t *place,
			     const struct ruled_namespace *namespace, struct reassembly how)
{
	bool first = true;

	for (size_t i = 0; i < namespace->target_count; i++) {
		struct part part = {.namespace = namespace,
				    .target = &namespace->targets[i],
				    .how = how,
				    .first = first};

		if (how.only && !how.only[i])
			continue;
		first = false;
		part.single = how.single && part.target->rule->overflow.layout == RULE_ELEMENTS;
		snprintf(part.joined, sizeof(part.joined), JOINED_IN ".%zu", i);
		snprintf(part.again, sizeof(part.again), JOINED_IN ".again%zu", i);
		if (part_skips(&part))
			write_sound_only(out, place, &part);
		write_join(out, place, &part);
		if (how.damage != REASSEMBLE_RAISES)
			write_look(out, place, &part);
		write_replace(out, place, &part);
	}
	reassemble_write_unset(out, place, namespace, how);
}

void reassemble_write_sound(struct buffer *out, size_t *place,
			    const struct ruled_namespace *namespace, const struct target *target)
{
	template_append(out, place,
			"{$replaceWith: {$cond: [@no_state, '$$ROOT', "
			"{$cond: [@damaged, @damaged_error, '$$ROOT']}]}}",
			REASSEMBLE_FILLS(namespace, target));
}

/* Nothing of the array is elsewhere if there is no state, none for this array, or none that counts
 * yet. Of a damaged state that is not known. For many arrays it is asked at once: no state. */
void reassemble_write_guards(struct buffer *out, size_t *place,
			     const struct ruled_namespace *namespace)
{
	if (namespace->target_count > GUARDED_ALONE) {
		template_append(out, place,
				"{$replaceWith: {$cond: [@no_state, '$$ROOT', @dead_error]}}",
				REASSEMBLE_FILLS(namespace, &namespace->targets[0]));
		return;
	}
	for (size_t i = 0; i < namespace->target_count; i++)
		template_append(out, place,
				"{$replaceWith: {$cond: ["
				"{$or: [@no_state, {$and: ["
				"{$eq: [{$type: '$_spill'}, 'object']}, "
				"{$or: [@no_state_of_rule, {$eq: ['$_spill.@key.n', 0]}]}]}]}, "
				"'$$ROOT', @dead_error]}}",
				REASSEMBLE_FILLS(namespace, &namespace->targets[i]));
}

/* ---- candidates ---- */

bool reassemble_possible(const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct target *target = &namespace->targets[i];

		if (strcmp(target->overflow_database, namespace->database) != 0)
			return false;
	}
	return true;
}

/* It depends on what is hidden, as any schema may that does not name it: no document as it is
 * stored tells. */
static bool reads_hidden(struct bytes filter, const struct ruled_namespace *namespace)
{
	static const char schema[] = "$jsonSchema";
	bool any = memmem(filter.data, filter.length, schema, sizeof(schema));

	for (size_t i = 0; i < namespace->target_count; i++) {
		struct name_hidden hidden = name_hidden(namespace->targets[i].rule);

		for (size_t j = 0; j < NAME_FIELDS; j++)
			if (hidden.fields[j] && (any || name_occurs(filter, hidden.fields[j])))
				return true;
	}
	return false;
}

/* Besides, the filter or a state: unless mongod might judge documents that a reader who stops at
 * the first never meets, and fail. */
void reassemble_write_candidates(struct buffer *out, size_t *place, struct bytes filter,
				 const struct ruled_namespace *namespace)
{
	bool quiet = !filter_has_expression(filter) && !reads_hidden(filter, namespace);
	auto_buffer struct buffer conjuncts = {0}, scratch = {0};
	size_t start = writer_open(&conjuncts), count = 0;

	filter = filter_readable(&scratch, filter);
	filter_split_write(&conjuncts, &count, filter, namespace,
			   filter_rest_before_expression(filter));
	writer_close(&conjuncts, start);
	template_append(out, place, "{$match: {$and: [..@conjuncts, @besides]}}",
			fill_array("conjuncts", buffer_view(&conjuncts)),
			fill_template("besides",
				      quiet ? "{$or: [@filter, {_spill: {$exists: true}}]}" : "{}"),
			fill_document("filter", filter));
}
