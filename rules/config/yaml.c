/* Reads YAML with libfyaml's events and keeps what the configuration needs of it. */
#include "rules/config/yaml.h"

#include "rules/rule/text.h"

#include <libfyaml.h>
#include <stdlib.h>

#define DEPTH_MAX 32

/* The collections that are open, the outermost first. */
struct builder {
	struct yaml_tree *tree;
	struct problems *problems;
	struct yaml_node *open[DEPTH_MAX];
	size_t depth;
	size_t documents;
	struct place last; /* of the node before: where a value that is not written would stand */
};

static struct place place_of(const struct fy_mark *mark)
{
	return (struct place){mark->line + 1, mark->column + 1, NULL};
}

/* libfyaml's mark of a quoted scalar, an anchor, an alias stands behind its first character. */
static struct place place_before(const struct fy_mark *mark)
{
	return (struct place){mark->line + 1, mark->column, NULL};
}

/* ---- What libfyaml takes without a word: bytes that are no text. */

static struct place place_at(struct bytes text, size_t offset)
{
	struct place place = {1, 1, NULL};

	for (size_t i = 0; i < offset; i++) {
		if (text.data[i] == '\n')
			place = (struct place){place.line + 1, 1, NULL};
		else
			place.column += (text.data[i] & 0xc0) != 0x80;
	}
	return place;
}

/* Control characters, and Unicode's own line ends: libfyaml 0.7 counts the length of texts with
 * those wrong, so that bytes from anywhere would follow (its issues 387 and 398). */
static bool is_unwanted(const uint8_t *at, size_t left)
{
	if (at[0] < 0x20)
		return at[0] != '\t' && at[0] != '\n' && at[0] != '\r';
	if (left >= 2 && memcmp(at, "\xc2\x85", 2) == 0)
		return true;
	return left >= 3 &&
	       (memcmp(at, "\xe2\x80\xa8", 3) == 0 || memcmp(at, "\xe2\x80\xa9", 3) == 0);
}

static bool bytes_are_text(struct bytes text, struct problems *problems)
{
	size_t valid = text_valid_length(text), at = 0;

	while (at < valid && !is_unwanted(text.data + at, valid - at))
		at++;
	if (at == text.length)
		return true;
	problem_add(problems, place_at(text, at),
		    "the byte 0x%02x starts no character of a text file; it must be UTF-8 without "
		    "control characters",
		    text.data[at]);
	return false;
}

/* ---- The tree. */

static struct yaml_node *node_new(struct builder *builder, enum yaml_kind kind, struct place at)
{
	struct yaml_node *node = must_calloc(1, sizeof(*node));
	struct yaml_node *parent = builder->depth > 0 ? builder->open[builder->depth - 1] : NULL;

	node->kind = kind;
	node->at = at;
	node->older = builder->tree->newest;
	builder->tree->newest = node;
	builder->last = at;
	if (!parent && !builder->tree->root)
		builder->tree->root = node;
	if (!parent)
		return node;
	if (parent->last)
		parent->last->next = node;
	else
		parent->first = node;
	parent->last = node;
	parent->count++;
	return node;
}

void yaml_tree_fini(struct yaml_tree *tree)
{
	while (tree->newest) {
		struct yaml_node *node = tree->newest;

		tree->newest = node->older;
		bytes_free(node->text);
		free(node);
	}
	tree->root = NULL;
}

/* Is the next node of the innermost collection a key? */
static bool key_is_due(const struct builder *builder)
{
	const struct yaml_node *parent;

	if (builder->depth == 0)
		return false;
	parent = builder->open[builder->depth - 1];
	return parent->kind == YAML_MAPPING && parent->count % 2 == 0;
}

static void refuse_marks(struct builder *builder, struct fy_token *anchor, struct fy_token *tag)
{
	if (anchor)
		problem_add(
			builder->problems, place_before(fy_token_start_mark(anchor)),
			"anchors ('&') are not allowed; write the value out where it is needed");
	if (tag)
		problem_add(
			builder->problems, place_of(fy_token_start_mark(tag)),
			"tags ('!') are not allowed; put a value in quotes to make it a string");
}

static struct place scalar_place(const struct builder *builder, struct fy_event *event)
{
	const struct fy_mark *mark = fy_event_start_mark(event);

	if (!mark)
		return builder->last;
	switch (fy_scalar_token_get_style(event->scalar.value)) {
	case FYSS_SINGLE_QUOTED:
	case FYSS_DOUBLE_QUOTED:
		return place_before(mark);
	default:
		return place_of(mark);
	}
}

static void add_scalar(struct builder *builder, struct fy_event *event)
{
	struct fy_token *token = event->scalar.value;
	bool key = key_is_due(builder);
	struct yaml_node *node = node_new(builder, YAML_SCALAR, scalar_place(builder, event));
	size_t length = 0;
	const char *text = token ? fy_token_get_text(token, &length) : "";

	refuse_marks(builder, event->scalar.anchor, event->scalar.tag);
	node->plain = !token || fy_scalar_token_get_style(token) == FYSS_PLAIN;
	node->text.data = (uint8_t *)must_strndup(text ? text : "", length);
	node->text.length = length;
	if (key && node->plain && bytes_are(node->text, "<<"))
		problem_add(builder->problems, node->at, "merge keys ('<<') are not allowed");
}

/* False where it would stand too deep. */
static bool open_collection(struct builder *builder, enum yaml_kind kind, struct place at)
{
	if (builder->depth == DEPTH_MAX) {
		problem_add(builder->problems, at, "nested more than %d deep", DEPTH_MAX);
		return false;
	}
	if (key_is_due(builder))
		problem_add(builder->problems, at, "a key must be a single word, not a collection");
	builder->open[builder->depth] = node_new(builder, kind, at);
	builder->depth++;
	return true;
}

static void start_document(struct builder *builder, struct fy_event *event)
{
	const struct fy_version *version =
		fy_document_state_version(event->document_start.document_state);
	const struct fy_mark *mark = fy_event_start_mark(event);
	struct place at = mark ? place_of(mark) : (struct place){1, 1, NULL};

	if (++builder->documents == 2)
		problem_add(builder->problems, at,
			    "a second document starts here; only one is allowed");
	if (version->major != 1 || version->minor != 2)
		problem_add(builder->problems, at, "the file says YAML %d.%d; only 1.2 is read",
			    version->major, version->minor);
}

/* False where nothing after it needs to be read. */
static bool build(struct builder *builder, struct fy_event *event)
{
	const struct fy_mark *mark = fy_event_start_mark(event);
	struct place at = mark ? place_of(mark) : builder->last;

	switch (event->type) {
	case FYET_SCALAR:
		add_scalar(builder, event);
		return true;
	case FYET_ALIAS:
		problem_add(builder->problems, mark ? place_before(mark) : at,
			    "aliases are not allowed; put a name that begins with '*' in quotes");
		node_new(builder, YAML_SCALAR, at);
		return true;
	case FYET_MAPPING_START:
		refuse_marks(builder, event->mapping_start.anchor, event->mapping_start.tag);
		return open_collection(builder, YAML_MAPPING, at);
	case FYET_SEQUENCE_START:
		refuse_marks(builder, event->sequence_start.anchor, event->sequence_start.tag);
		return open_collection(builder, YAML_LIST, at);
	case FYET_MAPPING_END:
	case FYET_SEQUENCE_END:
		builder->depth--;
		return true;
	case FYET_DOCUMENT_START:
		start_document(builder, event);
		return builder->documents == 1;
	case FYET_NONE:
	case FYET_STREAM_START:
	case FYET_STREAM_END:
	case FYET_DOCUMENT_END:
		return true;
	}
	return false;
}

/* ---- Syntax errors. */

/* libfyaml's words for a tab in front of a key don't say so: look for it ourselves. */
static bool indented_by_tab(struct bytes text, struct place *at)
{
	bool indentation = true;

	for (size_t i = 0; i < text.length; i++) {
		if (indentation && text.data[i] == '\t') {
			*at = place_at(text, i);
			return true;
		}
		indentation = text.data[i] == '\n' || (indentation && text.data[i] == ' ');
	}
	return false;
}

static void report_syntax(struct problems *problems, struct bytes text, struct fy_diag *diagnosis)
{
	void *iterator = NULL;
	const struct fy_diag_error *error = fy_diag_errors_iterate(diagnosis, &iterator);
	struct place at = {1, 1, NULL};

	if (indented_by_tab(text, &at))
		problem_add(problems, at, "a tab in the indentation; YAML takes only spaces there");
	else if (!error || error->line < 1)
		problem_add(problems, at, "this is not YAML 1.2");
	else
		problem_add(problems, (struct place){error->line, error->column, NULL},
			    "not valid YAML: %s", text_quote(bytes_of(error->msg)).text);
}

static void read_events(struct builder *builder, struct bytes text, struct fy_diag *diagnosis)
{
	struct fy_parse_cfg configuration = {
		.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_DEFAULT_VERSION_1_2,
		.diag = diagnosis,
	};
	struct fy_parser *parser = fy_parser_create(&configuration);
	struct fy_event *event;
	bool more = true;

	require(parser);
	require(fy_parser_set_string(parser, (const char *)text.data, text.length) == 0);
	while (more && (event = fy_parser_parse(parser))) {
		more = build(builder, event);
		fy_parser_event_free(parser, event);
	}
	if (fy_parser_get_stream_error(parser))
		report_syntax(builder->problems, text, diagnosis);
	fy_parser_destroy(parser);
}

must_check bool yaml_parse(struct yaml_tree *tree, struct bytes text, struct problems *problems)
{
	struct builder builder = {.tree = tree, .problems = problems, .last = {1, 1, NULL}};
	struct fy_diag_cfg configuration;
	struct fy_diag *diagnosis;

	if (text.length == 0)
		return true;
	if (!bytes_are_text(text, problems))
		return false;
	fy_diag_cfg_default(&configuration);
	configuration.fp = NULL;
	diagnosis = fy_diag_create(&configuration);
	require(diagnosis);
	fy_diag_set_collect_errors(diagnosis, true);
	read_events(&builder, text, diagnosis);
	fy_diag_destroy(diagnosis);
	return problems->count == 0;
}

bool yaml_is_null(const struct yaml_node *node)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};

	if (node->kind != YAML_SCALAR || !node->plain)
		return false;
	for (size_t i = 0; i < ARRAY_LENGTH(nulls); i++) {
		if (bytes_are(node->text, nulls[i]))
			return true;
	}
	return false;
}
