/* Writes the stages that put whole documents together.
 *
 * The join is a $graphLookup of one step: it starts from the _ids of an array, and where that is
 * empty it asks nothing, while a $lookup plans and runs its query for every document. What comes is
 * in no order and may be of other generations. Those are told apart by their binary marks: exact
 * under any collation.
 *
 * Batches are appended in runs of RUN, since appending batch by batch to one array takes time by
 * the square of their number. */
#include "rules/reassembly/reassemble.h"

#include "rules/reassembly/call_writer.h"
#include "rules/query/filter_split.h"
#include "rules/rule/names.h"
#include "rules/reassembly/sound.h"
#include "rules/reassembly/tiling.h"

#include <stdio.h>
#include <stdlib.h>

#define RUN 32
#define DEAD REASSEMBLE_MARK "the generation ended"
/* Told as it is by a getMore on a collection that no rule is about. */
#define TRY_AGAIN ", as an array was rewritten while it was read; try again: "
#define UNCLEAR REASSEMBLE_MARK "a positional projection"
#define MISSED REASSEMBLE_MARK "no matching element"
#define UNSAFE REASSEMBLE_MARK "a merged document"
#define SEVERAL REASSEMBLE_MARK "several keys"
#define MIXED REASSEMBLE_MARK "an included path"
#define NUMBERED REASSEMBLE_MARK "an array position"
#define DOTTED REASSEMBLE_MARK "a dotted name"
#define SHARED REASSEMBLE_MARK "a shared key"
#define TIED REASSEMBLE_MARK "a tie of several types"
#define CHANGED REASSEMBLE_MARK "a changed value"
#define UNMERGED REASSEMBLE_MARK "no document to merge"
#define REPEATED REASSEMBLE_MARK "a repeated name"
#define UNDEFINED REASSEMBLE_MARK "a joined undefined"
#define FORGED REASSEMBLE_MARK "a computed name"
#define DAMAGED REASSEMBLE_MARK "a damaged state"
/* Behind it stands which document it was; mongod's text goes on with the second. */
#define DOCUMENT "; the document "
#define DOCUMENT_ENDS "' in $convert with"
#define ID_LENGTH 100 /* characters of an _id that are told */
/* No rule's key begins with a slash. */
#define JOINED "_spill./joined"
#define NOWHERE "_spill./none" /* no batch has it */

static bool raised(struct bytes body, const struct reply_summary *summary, const char *what)
{
	struct element message;
	struct bytes text;

	/* The text alone may be a quotation of the pipeline. */
	return !summary->ok && summary->code == ERROR_CONVERSION_FAILURE &&
	       document_find(body, "errmsg", &message) && element_string(&message, &text) &&
	       memmem(text.data, text.length, what, strlen(what));
}

bool reassemble_died(struct bytes body, const struct reply_summary *summary)
{
	return raised(body, summary, DEAD);
}

bool reassemble_missed(struct bytes body, const struct reply_summary *summary)
{
	return raised(body, summary, MISSED);
}

bool reassemble_forged(int64_t code, struct bytes message)
{
	return code == ERROR_CONVERSION_FAILURE &&
	       memmem(message.data, message.length, FORGED, strlen(FORGED));
}

/* The last place where `what` stands in the text. */
static const uint8_t *find_last(struct bytes text, const char *what)
{
	const uint8_t *found = NULL, *at = text.data, *end = text.data + text.length;

	while ((at = memmem(at, (size_t)(end - at), what, strlen(what))))
		found = at++;
	return found;
}

/* "of 'shop.books' (rule 'books') with _id 'x' (string)", out of mongod's text. */
static bool find_document(struct bytes body, struct bytes *document)
{
	struct element message;
	struct bytes text;
	const uint8_t *start, *end;

	if (!document_find(body, "errmsg", &message) || !element_string(&message, &text))
		return false;
	start = memmem(text.data, text.length, DOCUMENT, strlen(DOCUMENT));
	end = find_last(text, DOCUMENT_ENDS);
	if (!start || !end || end <= start)
		return false;
	start += strlen(DOCUMENT);
	*document = (struct bytes){start, (size_t)(end - start)};
	return true;
}

bool reassemble_tell(struct bytes body, const struct reply_summary *summary,
		     char message[REASSEMBLE_MESSAGE], enum error_code *code)
{
	bool died = reassemble_died(body, summary);
	const char *why = died ? REASSEMBLE_DIED : REASSEMBLE_STATE_DAMAGED;
	struct bytes document;

	if (!died && !raised(body, summary, DAMAGED))
		return false;
	*code = died ? ERROR_READ_CONCERN_NOT_AVAILABLE_YET : ERROR_COMMAND_NOT_SUPPORTED;
	if (find_document(body, &document))
		snprintf(message, REASSEMBLE_MESSAGE, "the document %.*s: %s", (int)document.length,
			 (const char *)document.data, why);
	else
		snprintf(message, REASSEMBLE_MESSAGE, "a document: %s", why);
	return true;
}

bool reassemble_met_no_array(struct bytes body, const struct reply_summary *summary)
{
	static const char *const texts[] = {"First argument to $slice must be an array",
					    "$concatArrays only supports arrays",
					    "The argument to $size must be an array"};
	struct element message;
	struct bytes text;

	if (summary->ok || !document_find(body, "errmsg", &message) ||
	    !element_string(&message, &text))
		return false;
	for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
		if (memmem(text.data, text.length, texts[i], strlen(texts[i])))
			return true;
	return false;
}

const char *reassemble_outgrown(struct bytes body, const struct reply_summary *summary)
{
	static const char first[] = "First element: aggregate: ";
	struct element message;
	struct bytes text;

	if (summary->ok || summary->code != ERROR_OBJECT_TOO_LARGE ||
	    !document_find(body, "errmsg", &message) || !element_string(&message, &text) ||
	    !bytes_begin_with(text, "BSONObj size: ") ||
	    !memmem(text.data, text.length, first, strlen(first)))
		return NULL;
	return "a condition on the ruled array stands twice in what mongod is asked, which passes "
	       "16 MB; ask with a shorter list of values";
}

static const char *const refusals[][2] = {
	{UNCLEAR, "a document doesn't tell which element the positional projection means: "
		  "another condition of the filter has met an array, or not every "
		  "condition means the same element"},
	{MISSED, "an explain that runs a find whose positional projection finds no element"},
	{UNSAFE, "$merge has met a document with a field '_spill' or a dot in a name, or one with "
		 "the ruled array "
		 "(or what goes with it) that would be merged field by field; use whenMatched: "
		 "replace"},
	{SEVERAL,
	 "min or max beside what reads the ruled array, and a document has an array in the "
	 "hinted index: which of its keys lie within them can't be told there"},
	{MIXED, "a projection ($project, or mongod's own where later stages want some fields "
		"only) includes a path below the ruled array, which has elements that are no "
		"documents, beside a sort or other stages: what they see depends on mongod's "
		"plan"},
	{NUMBERED, "a sort, window or $lookup goes by a position in the ruled array (f.0), and "
		   "other stages want some fields only: mongod takes the position for a field's "
		   "name there; compute the element first ($arrayElemAt)"},
	{UNDEFINED,
	 "a $lookup has met 'undefined' in the field that it joins by, which is equal to "
	 "null or not as mongod's plan is; give it a pipeline ([] will do), or store "
	 "null instead"},
	{DOTTED, "a distinct has met a field whose own name has a dot and is like its key, or the "
		 "rest of it; mongod takes such a field first"},
	{SHARED, "a distinct without a query has met null or undefined under a collation that an "
		 "index on the path has; mongod returns them or not, as the first document with "
		 "that index key has them; add a query"},
	{TIED, "a $min or $max in a group has met values that are equal and not the same (of "
	       "several types, or as arrays, documents, or texts under a collation): which of "
	       "them mongod returns depends on the engine that it runs the group in; convert "
	       "the values first ($toDouble, $toLower), or put a $set before the group"},
	{CHANGED, "a group has met a Code, a Symbol, MinKey or MaxKey, which mongod changes or not "
		  "as the engine is that it runs the group in; put a $set before the group"},
	{REPEATED, "a spilled document has a field name twice, and mongod would lose one of them "
		   "when it puts the array together; read it by a filter that doesn't look into "
		   "the array, or remove one of the fields"},
};

const char *reassemble_refusal(struct bytes body, const struct reply_summary *summary,
			       enum error_code *code)
{
	const char *outgrown = reassemble_outgrown(body, summary);

	*code = ERROR_COMMAND_NOT_SUPPORTED;
	for (size_t i = 0; i < ARRAY_LENGTH(refusals); i++)
		if (raised(body, summary, refusals[i][0]))
			return refusals[i][1];
	*code = ERROR_OBJECT_TOO_LARGE;
	if (outgrown)
		return outgrown;
	return !summary->ok && summary->code == ERROR_OBJECT_TOO_LARGE
		       ? "a document that this read looks into passes 16 MB once its array is put "
			 "together, and mongod can't hold it whole; keep it out by conditions on "
			 "other fields, and read it by its _id, which gives it whole, or in parts "
			 "($slice)"
		       : NULL;
}

const char *reassemble_failure(struct bytes body, char message[REASSEMBLE_MESSAGE],
			       enum error_code *code)
{
	struct reply_summary summary;
	const char *refusal;

	if (!reply_summarise(body, &summary) || summary.code != ERROR_CONVERSION_FAILURE)
		return NULL;
	refusal = reassemble_refusal(body, &summary, code);
	return refusal || !reassemble_tell(body, &summary, message, code) ? refusal : message;
}

void reassemble_write_runs(struct buffer *out, const char *name, const struct runs *runs)
{
	size_t document = writer_open_document(out, name), reduce, nothing;
	struct call choice, inner, condition, sum;

	reduce = writer_open_document(out, "$reduce");
	writer_string(out, "input", runs->input);
	nothing = writer_open_array(out, "initialValue");
	writer_close(out, nothing);
	choice = call_open(out, "in", "$cond");
	call_unary(&choice, "$isArray", "$$value");
	inner = call_call(&choice, "$cond");
	condition = call_call(&inner, "$eq");
	call_text(&condition, runs->position);
	sum = call_call(&condition, "$add");
	if (runs->first)
		call_text(&sum, runs->first);
	call_unary(&sum, "$size", "$$value");
	call_close(&sum);
	call_close(&condition);
	condition = call_call(&inner, "$concatArrays");
	call_text(&condition, "$$value");
	call_text(&condition, runs->array);
	call_close(&condition);
	call_null(&inner);
	call_close(&inner);
	call_null(&choice);
	call_close(&choice);
	writer_close(out, reduce);
	writer_close(out, document);
}

/* {$eq: [<their positions>, {$range: [first, {$add: [first, <how many>]}]}]} */
static void add_runs_on(struct call *call, const char *input, const char *first)
{
	auto_text positions = text_join(input, "._spill.p", "");
	struct call test = call_call(call, "$eq"), range, sum;

	call_text(&test, positions.bytes);
	range = call_call(&test, "$range");
	if (first)
		call_text(&range, first);
	else
		call_number(&range, 0);
	sum = call_call(&range, "$add");
	if (first)
		call_text(&sum, first);
	call_unary(&sum, "$size", input);
	call_close(&sum);
	call_close(&range);
	call_close(&test);
}

/* {$unsetField: {field, input: {$unsetField: ... "$$this"}}}, which keeps the order of fields */
static void add_unset_ours(struct call *call, const struct rule *rule)
{
	const char *ours[] = {"_id", NAME_STATE, rule->overflow.link};
	size_t documents[ARRAY_LENGTH(ours)], unsets[ARRAY_LENGTH(ours)], i;
	struct buffer *out = call->out;
	char name[12];

	writer_index(name, call->place++);
	for (i = 0; i < ARRAY_LENGTH(ours); i++) {
		documents[i] = writer_open_document(out, i == 0 ? name : "input");
		unsets[i] = writer_open_document(out, "$unsetField");
		writer_string(out, "field", ours[i]);
	}
	writer_string(out, "input", "$$this");
	while (i-- > 0) {
		writer_close(out, unsets[i]);
		writer_close(out, documents[i]);
	}
}

static void add_index_of(struct call *call, const char *text, const char *part)
{
	struct call index = call_call(call, "$indexOfBytes");

	call_text(&index, text);
	call_text(&index, part);
	call_close(&index);
}

/* By its bytes, as add_name_is. */
static void add_name_begins(struct call *call, const char *key, const char *with)
{
	struct call equal = call_call(call, "$eq");

	add_index_of(&equal, key, with);
	call_number(&equal, 0);
	call_close(&equal);
}

/* By its bytes: a collation may take another name for this one. */
static void add_name_is(struct call *call, const char *key, const char *name)
{
	struct call both = call_call(call, "$and"), equal = call_call(&both, "$eq");

	call_unary(&equal, "$strLenBytes", key);
	call_number(&equal, (int32_t)strlen(name));
	call_close(&equal);
	add_name_begins(&both, key, name);
	call_close(&both);
}

void reassemble_add_reserved(struct call *call)
{
	struct buffer *out = call->out;
	struct call any = call_call(call, "$anyElementTrue"), either;
	char name[12];
	size_t operand = writer_open_document(out, writer_index(name, any.place++));
	size_t map = writer_open_document(out, "$map"), input;

	input = writer_open_document(out, "input");
	writer_string(out, "$objectToArray", "$$ROOT");
	writer_close(out, input);
	either = call_open(out, "in", "$or");
	add_name_is(&either, "$$this.k", NAME_STATE);
	add_name_begins(&either, "$$this.k", NAME_STATE "/");
	add_name_begins(&either, "$$this.k", NAME_STATE ".");
	call_close(&either);
	writer_close(out, map);
	writer_close(out, operand);
	call_close(&any);
}

/* {$arrayToObject: {$filter: {input: {$objectToArray: document}, as: "e", cond: <none of these>}}}:
 * names that are NULL aside. */
static void add_fields_but(struct call *call, const char *document, const char *const *names,
			   size_t count)
{
	struct buffer *out = call->out;
	struct call object = call_call(call, "$arrayToObject"), test, either;
	char index[12];
	size_t filter, operand = writer_open_document(out, writer_index(index, object.place++));

	filter = writer_open_document(out, "$filter");
	test = call_open(out, "input", "$objectToArray");
	call_text(&test, document);
	call_close(&test);
	writer_string(out, "as", "e");
	test = call_open(out, "cond", "$not");
	either = call_call(&test, "$or");
	for (size_t i = 0; i < count; i++)
		if (names[i])
			add_name_is(&either, "$$e.k", names[i]);
	call_close(&either);
	call_close(&test);
	writer_close(out, filter);
	writer_close(out, operand);
	call_close(&object);
}

/* The same as add_unset_ours by what the Stable API has. No name stands twice in such an element,
 * nor is one that these operators refuse: it would be in `_spill.v`. */
static void add_other_fields(struct call *call, const struct rule *rule)
{
	const char *const ours[] = {"_id", NAME_STATE, rule->overflow.link};

	add_fields_but(call, "$$this", ours, ARRAY_LENGTH(ours));
}

/* The elements of documents of which each has a position of its own. */
static void write_each(struct buffer *out, const char *name, const struct rule *rule,
		       const char *input, const char *first, bool strict)
{
	struct call choice = call_open(out, name, "$cond"), inner, test;
	size_t mapped, map;
	char index[12];

	add_runs_on(&choice, input, first);
	mapped = writer_open_document(out, writer_index(index, choice.place++));
	map = writer_open_document(out, "$map");
	writer_string(out, "input", input);
	inner = call_open(out, "in", "$cond");
	test = call_call(&inner, "$eq");
	call_unary(&test, "$type", "$$this._spill.v");
	call_text(&test, "missing");
	call_close(&test);
	if (strict)
		add_other_fields(&inner, rule);
	else
		add_unset_ours(&inner, rule);
	call_text(&inner, "$$this._spill.v");
	call_close(&inner);
	writer_close(out, map);
	writer_close(out, mapped);
	call_null(&choice);
	call_close(&choice);
}

void reassemble_write_elements(struct buffer *out, const char *name, const struct rule *rule,
			       const char *input, const char *first, bool strict)
{
	size_t document = writer_open_document(out, name), let = writer_open_document(out, "$let");
	size_t vars = writer_open_document(out, "vars");

	tiling_write_elements(out, "each", input, first);
	writer_close(out, vars);
	write_each(out, "in", rule, "$$each", first, strict);
	writer_close(out, let);
	writer_close(out, document);
}

/* Not a constant, which mongod would evaluate before it has seen any document. */
static void write_error(struct buffer *out, const char *name, const char *says, const char *verb,
			const char *path)
{
	size_t document = writer_open_document(out, name);
	struct call text = call_open(out, "$toObjectId", "$concat");

	call_text(&text, says);
	call_unary(&text, verb, path);
	call_close(&text);
	writer_close(out, document);
}

static void add_error(struct call *call, const char *says, const char *verb, const char *path)
{
	char name[12];

	write_error(call->out, writer_index(name, call->place++), says, verb, path);
}

/* {$and: [<it is a document>, {$ne: [{$bsonSize: path}, {$bsonSize: {$mergeObjects: [path,
 * {}]}}]}]}
 */
static void add_repeats(struct call *call, const char *path)
{
	struct call both = call_call(call, "$and"), test = call_call(&both, "$eq"), merge;
	char name[12];
	size_t size, empty;

	call_unary(&test, "$type", path);
	call_text(&test, "object");
	call_close(&test);
	test = call_call(&both, "$ne");
	call_unary(&test, "$bsonSize", path);
	size = writer_open_document(call->out, writer_index(name, test.place++));
	merge = call_open(call->out, "$bsonSize", "$mergeObjects");
	call_text(&merge, path);
	empty = writer_open_document(call->out, writer_index(name, merge.place++));
	writer_close(call->out, empty);
	call_close(&merge);
	writer_close(call->out, size);
	call_close(&test);
	call_close(&both);
}

/* Of the document, or of one that a ruled path goes through, mongod would lose a field. */
static void add_any_repeats(struct call *call, const struct ruled_namespace *namespace)
{
	struct call either = call_call(call, "$or");

	add_repeats(&either, "$$ROOT");
	for (size_t i = 0; i < namespace->target_count; i++) {
		const char *array = namespace->targets[i].rule->array, *dot = array;

		while ((dot = strchr(dot, '.'))) {
			auto_free char *parent = must_strndup(array, (size_t)(dot++ - array));
			auto_text path = text_join("$", parent, "");

			add_repeats(&either, path.bytes);
		}
	}
	call_close(&either);
}

/* ---- a document that can't be put together is named ---- */

void reassemble_name(struct naming *naming, const char *database, const char *collection,
		     const struct rule *rule)
{
	snprintf(naming->text, sizeof(naming->text), DOCUMENT "of '%s.%s' (rule '%s') with _id '",
		 database, collection, rule->name);
}

/* {$substrCP: [{$convert: {input: "$_id", to: "string", onError: "?", onNull: "null"}}, 0, n]} */
static void add_id_text(struct call *call)
{
	struct call cut = call_call(call, "$substrCP");
	char name[12];
	size_t operand = writer_open_document(call->out, writer_index(name, cut.place++));
	size_t convert = writer_open_document(call->out, "$convert");

	writer_string(call->out, "input", "$_id");
	writer_string(call->out, "to", "string");
	writer_string(call->out, "onError", "?");
	writer_string(call->out, "onNull", "null");
	writer_close(call->out, convert);
	writer_close(call->out, operand);
	call_number(&cut, 0);
	call_number(&cut, ID_LENGTH);
	call_close(&cut);
}

/* {$toObjectId: {$concat: [says, <whose>, <_id>, "' (", {$type: "$_id"}, ")"]}} */
static void add_named_error(struct call *call, const char *says, const struct naming *naming)
{
	char name[12];
	size_t document = writer_open_document(call->out, writer_index(name, call->place++));
	struct call text = call_open(call->out, "$toObjectId", "$concat");

	call_text(&text, says);
	call_text(&text, naming->text);
	add_id_text(&text);
	call_text(&text, "' (");
	call_unary(&text, "$type", "$_id");
	call_text(&text, ")");
	call_close(&text);
	writer_close(call->out, document);
}

void reassemble_add_death(struct call *call, const struct naming *naming)
{
	add_named_error(call, DEAD TRY_AGAIN, naming);
}

void reassemble_write_sound(struct buffer *out, const char *name, const struct rule *rule,
			    const struct naming *naming)
{
	size_t stage = writer_open_document(out, name);
	struct call choice = call_open(out, "$replaceWith", "$cond"), inner;

	call_type_is(&choice, "$" NAME_STATE, "missing");
	call_text(&choice, "$$ROOT");
	inner = call_call(&choice, "$cond");
	sound_add_damaged(&inner, rule);
	add_named_error(&inner, DAMAGED, naming);
	call_text(&inner, "$$ROOT");
	call_close(&inner);
	call_close(&choice);
	writer_close(out, stage);
}

void reassemble_write_names(struct buffer *out, const struct ruled_namespace *namespace,
			    const struct rule *rule, struct bytes generations)
{
	auto_text generation = text_join("$_spill.", rule->key, ".g");
	struct call choice = call_open(out, "$expr", "$cond"), inner, test;
	struct naming naming;
	char name[12];

	reassemble_name(&naming, namespace->database, namespace->collection, rule);
	call_type_is(&choice, "$" NAME_STATE, "missing");
	call_number(&choice, 0);
	inner = call_call(&choice, "$cond");
	sound_add_damaged(&inner, rule);
	add_named_error(&inner, DAMAGED, &naming);
	test = call_call(&inner, "$in");
	call_text(&test, generation.bytes);
	writer_array(out, writer_index(name, test.place++), generations);
	call_close(&test);
	call_close(&inner);
	call_close(&choice);
}

/* {$cond: [{$eq: [{$type: id}, "string"]}, id, ""]}: mongod evaluates what is constant in a joined
 * pipeline before it looks at the conditions around it. */
static void add_text_of(struct call *call, const char *id)
{
	struct call choice = call_call(call, "$cond");

	call_type_is(&choice, id, "string");
	call_text(&choice, id);
	call_text(&choice, "");
	call_close(&choice);
}

void reassemble_add_same_text(struct call *call, const char *link, const char *id)
{
	struct call either = call_call(call, "$or"), test = call_call(&either, "$ne"), both, part;

	call_unary(&test, "$type", id);
	call_text(&test, "string");
	call_close(&test);
	both = call_call(&either, "$and");
	call_type_is(&both, link, "string"); /* mongod may judge this before the join's condition */
	test = call_call(&both, "$eq");
	part = call_call(&test, "$strLenBytes");
	add_text_of(&part, link);
	call_close(&part);
	part = call_call(&test, "$strLenBytes");
	add_text_of(&part, id);
	call_close(&part);
	call_close(&test);
	test = call_call(&both, "$eq");
	part = call_call(&test, "$indexOfBytes");
	add_text_of(&part, link);
	add_text_of(&part, id);
	call_close(&part);
	call_number(&test, 0);
	call_close(&test);
	call_close(&both);
	call_close(&either);
}

/* What a join is written for. */
struct joining {
	const struct target *target;
	const struct naming *naming;
	bool first;                          /* no join before it has written to `_spill` */
	const struct ruled_namespace *whole; /* see REASSEMBLE_WHOLE; NULL: of another use */
};

/* Where a document with a state would lose a field, instead an error. */
static void add_loss(struct call *choice, const struct ruled_namespace *whole)
{
	struct call both = call_call(choice, "$and");

	call_text(&both, "$" NAME_STATE);
	add_any_repeats(&both, whole);
	call_close(&both);
	add_error(choice, REPEATED " ", "$type", "$_id");
}

/* Continues {$cond: [<no state>, <this>: ordinary, ...]}: of a document with a state that can't be
 * put together an error, of another one `wanted`; closes it. */
static void finish_choice(struct call *choice, const struct joining *joining,
			  void (*add_wanted)(struct call *call, const struct rule *rule))
{
	struct call sound = call_call(choice, "$cond"), whole;

	sound_add_damaged(&sound, joining->target->rule);
	add_named_error(&sound, DAMAGED, joining->naming);
	if (joining->whole) {
		whole = call_call(&sound, "$cond");
		add_loss(&whole, joining->whole);
		add_wanted(&whole, joining->target->rule);
		call_close(&whole);
	} else {
		add_wanted(&sound, joining->target->rule);
	}
	call_close(&sound);
	call_close(choice);
}

/* {$cond: [n, ["$_id"], []]} */
static void add_ids(struct call *call, const struct rule *rule)
{
	auto_text count = text_join("$_spill.", rule->key, ".n");
	struct call choice = call_call(call, "$cond");
	char name[12];
	size_t ids;

	call_text(&choice, count.bytes);
	ids = writer_open_array(choice.out, writer_index(name, choice.place++));
	writer_string(choice.out, "0", "$_id");
	writer_close(choice.out, ids);
	call_nothing(&choice);
	call_close(&choice);
}

/* No state: the join that comes first tells by `_spill`, which later ones find changed. */
static void add_stateless(struct call *choice, const struct joining *joining)
{
	auto_text state = text_join("$_spill.", joining->target->rule->key, "");

	call_type_is(choice, joining->first ? "$" NAME_STATE : state.bytes, "missing");
}

/* From nowhere in ordinary documents. */
static void write_start(struct buffer *out, const struct joining *joining)
{
	struct call choice = call_open(out, "startWith", "$cond");

	add_stateless(&choice, joining);
	call_nothing(&choice);
	finish_choice(&choice, joining, add_ids);
}

static void add_generation(struct call *call, const struct rule *rule)
{
	auto_text generation = text_join("$_spill.", rule->key, ".g");

	call_text(call, generation.bytes);
}

/* {let: {g: <the document's generation>}} */
static void write_let(struct buffer *out, const struct joining *joining)
{
	size_t let = writer_open_document(out, "let");
	struct call choice = call_open(out, "g", "$cond");

	add_stateless(&choice, joining);
	call_null(&choice);
	finish_choice(&choice, joining, add_generation);
	writer_string(out, "id", "$_id");
	writer_close(out, let);
}

/* Of one document, in order. A $graphLookup takes time by the square of what it finds, and sorting
 * that takes as long: seconds for 10^5 documents of an element each. */
static void write_single_join(struct buffer *out, const char *name, const struct joining *joining,
			      const char *joined)
{
	const struct target *target = joining->target;
	size_t stage = writer_open_document(out, name), inner, match, sort;
	size_t join = writer_open_document(out, "$lookup"), pipeline;
	auto_text link = text_join("$", target->rule->overflow.link, "");
	struct call all, test;

	writer_string(out, "from", target->overflow_collection);
	writer_string(out, "localField", "_id");
	writer_string(out, "foreignField", target->rule->overflow.link);
	write_let(out, joining);
	pipeline = writer_open_array(out, "pipeline");
	inner = writer_open_document(out, "0");
	match = writer_open_document(out, "$match");
	all = call_open(out, "$expr", "$and");
	test = call_call(&all, "$eq");
	call_text(&test, "$_spill.g");
	call_text(&test, "$$g");
	call_close(&test);
	reassemble_add_same_text(&all, link.bytes, "$$id");
	call_close(&all);
	writer_close(out, match);
	writer_close(out, inner);
	inner = writer_open_document(out, "1");
	sort = writer_open_document(out, "$sort");
	writer_int32(out, "_spill.p", 1);
	writer_close(out, sort);
	writer_close(out, inner);
	writer_close(out, pipeline);
	writer_string(out, "as", joined);
	writer_close(out, join);
	writer_close(out, stage);
}

void reassemble_write_join(struct buffer *out, const char *name, const struct target *target,
			   const char *joined, struct bytes start)
{
	size_t stage = writer_open_document(out, name);
	size_t join = writer_open_document(out, "$graphLookup");

	writer_string(out, "from", target->overflow_collection);
	if (!writer_full(out))
		buffer_append(out, start.data, start.length);
	writer_string(out, "connectFromField", NOWHERE);
	writer_string(out, "connectToField", target->rule->overflow.link);
	writer_int32(out, "maxDepth", 0);
	writer_string(out, "as", joined);
	writer_close(out, join);
	writer_close(out, stage);
}

/* {$sortArray: {input: {$filter: {input: <joined>, cond: <g is ours>}}, sortBy: {p: 1}}} */
void reassemble_write_batches(struct buffer *out, const char *name, const struct rule *rule,
			      const char *joined)
{
	auto_text generation = text_join("$_spill.", rule->key, ".g"),
		  input = text_join("$", joined, ""),
		  link = text_join("$$this.", rule->overflow.link, "");
	size_t batches = writer_open_document(out, name);
	size_t sorted = writer_open_document(out, "$sortArray"), document, filter, by;
	struct call condition, test;

	document = writer_open_document(out, "input");
	filter = writer_open_document(out, "$filter");
	writer_string(out, "input", input.bytes);
	condition = call_open(out, "cond", "$and");
	test = call_call(&condition, "$eq");
	call_text(&test, "$$this._spill.g");
	call_text(&test, generation.bytes);
	call_close(&test);
	reassemble_add_same_text(&condition, link.bytes, "$_id");
	call_close(&condition);
	writer_close(out, filter);
	writer_close(out, document);
	by = writer_open_document(out, "sortBy");
	writer_int32(out, "_spill.p", 1);
	writer_close(out, by);
	writer_close(out, sorted);
	writer_close(out, batches);
}

/* {input: {$range: [0, <batches>, RUN]}} */
static void write_starts(struct buffer *out)
{
	struct call range = call_open(out, "input", "$range");

	call_number(&range, 0);
	call_unary(&range, "$size", "$$batches");
	call_number(&range, RUN);
	call_close(&range);
}

/* {run: <RUN batches from $$this on>, first: {$arrayElemAt: [<batches>, $$this]}} */
static void write_run_variables(struct buffer *out)
{
	size_t vars = writer_open_document(out, "vars");
	struct call part = call_open(out, "run", "$slice");

	call_text(&part, "$$batches");
	call_text(&part, "$$this");
	call_number(&part, RUN);
	call_close(&part);
	part = call_open(out, "first", "$arrayElemAt");
	call_text(&part, "$$batches");
	call_text(&part, "$$this");
	call_close(&part);
	writer_close(out, vars);
}

/* {runs: {$map: {input: <starts>, in: {p: <where it begins>, a: <RUN batches as one array>}}}} */
static void write_run_list(struct buffer *out, const struct rule *rule)
{
	auto_text array = text_join("$$this.", rule->overflow.array, "");
	const struct runs batches = {"$$run", "$$this._spill.p", array.bytes, "$$first._spill.p"};
	size_t runs = writer_open_document(out, "runs"), map = writer_open_document(out, "$map");
	size_t in, let, run;

	write_starts(out);
	in = writer_open_document(out, "in");
	let = writer_open_document(out, "$let");
	write_run_variables(out);
	run = writer_open_document(out, "in");
	writer_string(out, "p", batches.first);
	reassemble_write_runs(out, "a", &batches);
	writer_close(out, run);
	writer_close(out, let);
	writer_close(out, in);
	writer_close(out, map);
	writer_close(out, runs);
}

/* {$let: {vars: {batches: <what is stored, each position once>}, in: <their runs as one array>}} */
static void write_all_runs(struct buffer *out, const struct rule *rule)
{
	static const struct runs runs = {"$$runs", "$$this.p", "$$this.a", NULL};
	const struct tiling tiling = {"$$stored", rule->overflow.array, NULL};
	size_t in = writer_open_document(out, "in"), outer = writer_open_document(out, "$let");
	size_t vars = writer_open_document(out, "vars"), document, inner;

	tiling_write(out, "batches", &tiling);
	writer_close(out, vars);
	document = writer_open_document(out, "in");
	inner = writer_open_document(out, "$let");
	vars = writer_open_document(out, "vars");
	write_run_list(out, rule);
	writer_close(out, vars);
	reassemble_write_runs(out, "in", &runs);
	writer_close(out, inner);
	writer_close(out, document);
	writer_close(out, outer);
	writer_close(out, in);
}

/* What a join left in the document. */
struct joined {
	const struct naming *naming;
	const char *path;
	bool ready;               /* the generation's own, in order */
	bool strict, sets_hidden; /* see struct reassembly */
};

/* {overflow: <what was joined, as one array; null where it doesn't run on>} */
static void write_overflow(struct buffer *out, const struct rule *rule, const struct joined *joined)
{
	auto_text input = text_join("$", joined->path, "");
	size_t overflow = writer_open_document(out, "overflow"), outer, vars;

	outer = writer_open_document(out, "$let");
	vars = writer_open_document(out, "vars");
	if (joined->ready)
		writer_string(out, "stored", input.bytes);
	else
		reassemble_write_batches(out, "stored", rule, joined->path);
	writer_close(out, vars);
	if (rule->overflow.layout == RULE_ELEMENTS)
		reassemble_write_elements(out, "in", rule, "$$stored", NULL, joined->strict);
	else
		write_all_runs(out, rule);
	writer_close(out, outer);
	writer_close(out, overflow);
}

void reassemble_add_unclear(struct call *call)
{
	add_error(call, UNCLEAR " ", "$type", "$_id");
}

void reassemble_add_missed(struct call *call)
{
	add_error(call, MISSED " ", "$type", "$_id");
}

void reassemble_add_unsafe(struct call *call)
{
	add_error(call, UNSAFE " ", "$type", "$_id");
}

void reassemble_add_forged(struct call *call)
{
	add_error(call, FORGED " ", "$type", "$_id");
}

void reassemble_add_several(struct call *call)
{
	add_error(call, SEVERAL " ", "$type", "$_id");
}

void reassemble_add_mixed(struct call *call)
{
	add_error(call, MIXED " ", "$type", "$_id");
}

void reassemble_add_dotted(struct call *call)
{
	add_error(call, DOTTED " ", "$type", "$_id");
}

void reassemble_add_numbered(struct call *call)
{
	add_error(call, NUMBERED " ", "$type", "$_id");
}

void reassemble_add_shared(struct call *call)
{
	add_error(call, SHARED " ", "$type", "$_id");
}

void reassemble_add_tied(struct call *call)
{
	add_error(call, TIED " ", "$type", "$_id");
}

void reassemble_add_changed(struct call *call)
{
	add_error(call, CHANGED " ", "$type", "$_id");
}

void reassemble_add_unmerged(struct call *call)
{
	add_error(call, UNMERGED " ", "$type", "$_id");
}

bool reassemble_unmerged(struct bytes body, const struct reply_summary *summary)
{
	return raised(body, summary, UNMERGED);
}

void reassemble_write_undefined(struct buffer *out, const char *name)
{
	write_error(out, name, UNDEFINED " ", "$type", "$_id");
}

/* f[0:h] ++ overflow[0:n] ++ f[h:] */
static void add_whole(struct call *call, const char *array, const char *head, const char *count)
{
	struct call parts = call_call(call, "$concatArrays"), slice, choice, test;

	choice = call_call(&parts, "$cond");
	test = call_call(&choice, "$gt");
	call_text(&test, head);
	call_number(&test, 0);
	call_close(&test);
	slice = call_call(&choice, "$slice");
	call_text(&slice, array);
	call_text(&slice, head);
	call_close(&slice);
	call_nothing(&choice);
	call_close(&choice);
	slice = call_call(&parts, "$slice");
	call_text(&slice, "$$overflow");
	call_text(&slice, count);
	call_close(&slice);
	slice = call_call(&parts, "$slice");
	call_text(&slice, array);
	call_text(&slice, head);
	call_number(&slice, INT32_MAX);
	call_close(&slice);
	call_close(&parts);
}

/* {$let: {vars: {overflow: ...}, in: {$cond: [enough of it, whole, error]}}} */
static void write_array(struct buffer *out, const char *name, const struct rule *rule,
			const struct joined *joined)
{
	auto_text array = text_join("$", rule->array, ""),
		  head = text_join("$_spill.", rule->key, ".h"),
		  count = text_join("$_spill.", rule->key, ".n");
	size_t document = writer_open_document(out, name), let, vars;
	struct call choice, test, size, or_nothing;

	let = writer_open_document(out, "$let");
	vars = writer_open_document(out, "vars");
	write_overflow(out, rule, joined);
	writer_close(out, vars);
	choice = call_open(out, "in", "$cond");
	test = call_call(&choice, "$gte");
	size = call_call(&test, "$size");
	or_nothing = call_call(&size, "$ifNull");
	call_text(&or_nothing, "$$overflow");
	call_nothing(&or_nothing);
	call_close(&or_nothing);
	call_close(&size);
	call_text(&test, count.bytes);
	call_close(&test);
	add_whole(&choice, array.bytes, head.bytes, count.bytes);
	reassemble_add_death(&choice, joined->naming);
	call_close(&choice);
	writer_close(out, let);
	writer_close(out, document);
}

/* {a: {$mergeObjects: ["$a", {b: <array>}]}}: each part of the path stays at its place. */
static void write_at_path(struct buffer *out, const struct rule *rule, const struct joined *joined)
{
	size_t opened[2 * CURSOR_MAX_DEPTH], depth = 0;
	const char *part = rule->array, *dot;

	while ((dot = strchr(part, '.')) && depth + 3 < ARRAY_LENGTH(opened)) {
		auto_free char *name = must_strndup(part, (size_t)(dot - part));
		auto_free char *path = must_strndup(rule->array, (size_t)(dot - rule->array));
		auto_text field = text_join("$", path, "");

		opened[depth++] = writer_open_document(out, name);
		opened[depth++] = writer_open_array(out, "$mergeObjects");
		writer_string(out, "0", field.bytes);
		opened[depth++] = writer_open_document(out, "1");
		part = dot + 1;
	}
	write_array(out, part, rule, joined);
	while (depth > 0)
		writer_close(out, opened[--depth]);
}

/* {$mergeObjects: ["$$ROOT", {f: <array>}]} */
static void add_merged(struct call *choice, const struct rule *rule, const struct joined *joined)
{
	struct buffer *out = choice->out;
	struct call merge = call_call(choice, "$mergeObjects");
	struct name_hidden hidden = name_hidden(rule);
	char index[12];
	size_t document;

	if (joined->sets_hidden)
		add_fields_but(&merge, "$$ROOT", hidden.fields, NAME_FIELDS);
	else
		call_text(&merge, "$$ROOT");
	document = writer_open_document(out, writer_index(index, merge.place++));
	write_at_path(out, rule, joined);
	writer_close(out, document);
	call_close(&merge);
}

/* {$replaceWith: {$cond: [n > 0, <merged>, "$$ROOT"]}} */
static void write_replace(struct buffer *out, const char *name, const struct rule *rule,
			  const struct joined *joined)
{
	auto_text count = text_join("$_spill.", rule->key, ".n");
	size_t stage = writer_open_document(out, name);
	struct call choice = call_open(out, "$replaceWith", "$cond"), test;

	test = call_call(&choice, "$gt");
	call_text(&test, count.bytes);
	call_number(&test, 0);
	call_close(&test);
	add_merged(&choice, rule, joined);
	call_text(&choice, "$$ROOT");
	call_close(&choice);
	writer_close(out, stage);
}

void reassemble_write_unset(struct buffer *out, size_t *stage_place,
			    const struct ruled_namespace *namespace, bool keep_state)
{
	char name[12];
	size_t stage = writer_open_document(out, writer_index(name, (*stage_place)++)), place = 0;
	size_t list = writer_open_array(out, "$unset");
	char index[12];

	writer_string(out, writer_index(index, place++), keep_state ? JOINED : NAME_STATE);
	for (size_t i = 0; i < namespace->target_count; i++) {
		struct name_hidden hidden = name_hidden(namespace->targets[i].rule);

		for (size_t j = 0; j < NAME_FIELDS; j++)
			if (hidden.fields[j])
				writer_string(out, writer_index(index, place++), hidden.fields[j]);
	}
	writer_close(out, list);
	writer_close(out, stage);
}

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

/* {$or: [F, {_spill: {$exists: true}}]}; nothing where mongod might judge documents that a reader
 * who stops at the first never meets, and fail. */
static void write_filter_or_state(struct buffer *out, struct bytes filter,
				  const struct ruled_namespace *namespace)
{
	size_t either, branch, exists;

	if (filter_has_expression(filter) || reads_hidden(filter, namespace))
		return;
	either = writer_open_array(out, "$or");
	writer_document(out, "0", filter);
	branch = writer_open_document(out, "1");
	exists = writer_open_document(out, NAME_STATE);
	writer_bool(out, "$exists", true);
	writer_close(out, exists);
	writer_close(out, branch);
	writer_close(out, either);
}

void reassemble_write_candidates(struct buffer *out, size_t *place, struct bytes filter,
				 const struct ruled_namespace *namespace)
{
	char name[12];
	size_t stage = writer_open_document(out, writer_index(name, (*place)++));
	size_t match = writer_open_document(out, "$match");
	size_t list = writer_open_array(out, "$and"), conjunct = 0, last;

	filter_split_write(out, &conjunct, filter, namespace,
			   filter_rest_before_expression(filter));
	last = writer_open_document(out, writer_index(name, conjunct));
	write_filter_or_state(out, filter, namespace);
	writer_close(out, last);
	writer_close(out, list);
	writer_close(out, match);
	writer_close(out, stage);
}

void reassemble_write_stages(struct buffer *out, size_t *place,
			     const struct ruled_namespace *namespace, struct reassembly how)
{
	char name[12], number[12];

	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct target *target = &namespace->targets[i];
		auto_text path = text_join(JOINED, ".", writer_index(number, i));
		auto_buffer struct buffer start = {0};

		struct naming naming;
		/* The first join sees documents as they are stored. */
		const struct joining joining = {target, &naming, i == 0,
						i == 0 && how.use == REASSEMBLE_WHOLE ? namespace
										      : NULL};
		const struct joined joined = {&naming, path.bytes,
					      how.single && target->rule->overflow.layout ==
								    RULE_ELEMENTS,
					      how.strict, how.sets_hidden};

		reassemble_name(&naming, namespace->database, namespace->collection, target->rule);
		writer_index(name, (*place)++);
		if (joined.ready) {
			write_single_join(out, name, &joining, joined.path);
		} else {
			write_start(&start, &joining);
			reassemble_write_join(out, name, target, joined.path, buffer_view(&start));
		}
		write_replace(out, writer_index(name, (*place)++), target->rule, &joined);
	}
	reassemble_write_unset(out, place, namespace, how.use == REASSEMBLE_STATE);
}

/* Nothing of the array is elsewhere: there is no state, none for this array, or none counts yet. Of
 * a damaged state that is not known. */
static void add_whole_as_it_is(struct call *call, const struct rule *rule)
{
	auto_text state = text_join("$_spill.", rule->key, ""),
		  count = text_join("$_spill.", rule->key, ".n");
	struct call either = call_call(call, "$or"), both, inner, test;

	call_type_is(&either, "$" NAME_STATE, "missing");
	both = call_call(&either, "$and");
	call_type_is(&both, "$" NAME_STATE, "object");
	inner = call_call(&both, "$or");
	call_type_is(&inner, state.bytes, "missing");
	test = call_call(&inner, "$eq");
	call_text(&test, count.bytes);
	call_number(&test, 0);
	call_close(&test);
	call_close(&inner);
	call_close(&both);
	call_close(&either);
}

void reassemble_write_guards(struct buffer *out, size_t *place,
			     const struct ruled_namespace *namespace)
{
	char name[12];

	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;
		struct naming naming;
		size_t stage = writer_open_document(out, writer_index(name, (*place)++));
		struct call choice = call_open(out, "$replaceWith", "$cond");

		reassemble_name(&naming, namespace->database, namespace->collection, rule);
		add_whole_as_it_is(&choice, rule);
		call_text(&choice, "$$ROOT");
		reassemble_add_death(&choice, &naming);
		call_close(&choice);
		writer_close(out, stage);
	}
}
