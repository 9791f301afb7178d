/* The two edits of a handshake: each copies a body element by element and changes names on its way.
 */
#include "protocol/hello.h"

#include "protocol/compressed.h"
#include "protocol/cursor.h"
#include "protocol/writer.h"

/* Writes one element as it is or edited; true when it is not what it was. */
typedef bool (*edit_element)(void *context, const struct element *element, struct buffer *out);

/* True when something changed; else, and where the document is broken, nothing is appended. */
static bool edit_document(struct bytes document, edit_element edit, void *context,
			  struct buffer *out)
{
	size_t start = out->length;
	struct cursor cursor;
	struct element element;
	enum cursor_step step;
	bool changed = false;

	if (!cursor_open(&cursor, document))
		return false;
	(void)writer_open(out);
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT)
		changed |= edit(context, &element, out);
	if (step == CURSOR_END && changed) {
		writer_close(out, start);
		return true;
	}
	out->length = start;
	return false;
}

enum fate {
	FATE_KEEP,
	FATE_RENAME,
	FATE_DROP,
};

/* Decides about one name; `other` is written where it is to be renamed. */
typedef enum fate (*judge_name)(const void *context, struct bytes name, struct bytes *other);

/* A judge at work on a list; `kept` numbers what stays. */
struct list_edit {
	judge_name judge;
	const void *context;
	size_t kept;
};

static bool edit_list_element(void *context, const struct element *element, struct buffer *out)
{
	struct list_edit *list = context;
	enum fate fate = FATE_KEEP;
	struct bytes name, other;
	char index[12];

	if (element_string(element, &name))
		fate = list->judge(list->context, name, &other);
	if (fate == FATE_DROP)
		return true;
	writer_index(index, list->kept++);
	if (fate == FATE_RENAME)
		writer_text(out, index, other);
	else
		writer_renamed(out, index, element);
	return fate == FATE_RENAME;
}

static bool edit_list(const struct element *element, judge_name judge, const void *context,
		      struct buffer *out)
{
	struct list_edit list = {judge, context, 0};
	struct bytes head = element_head(element);
	size_t start = out->length;

	buffer_append(out, head.data, head.length);
	if (edit_document(element->value, edit_list_element, &list, out))
		return true;
	out->length = start;
	writer_element(out, element);
	return false;
}

static bool edit_name(const struct element *element, judge_name judge, const void *context,
		      struct buffer *out)
{
	struct bytes name, other;
	enum fate fate = FATE_KEEP;

	if (element_string(element, &name))
		fate = judge(context, name, &other);
	if (fate == FATE_RENAME)
		writer_text(out, (const char *)element->name.data, other);
	else if (fate == FATE_KEEP)
		writer_element(out, element);
	return fate != FATE_KEEP;
}

static enum fate judge_compressor(const void *context, struct bytes name, struct bytes *other)
{
	(void)context;
	(void)other;
	return compressor_readable(name) ? FATE_KEEP : FATE_DROP;
}

/* Of the commands that may stand there, saslStart has mechanisms of its own. */
static bool signs_in_certified(const struct element *element)
{
	struct element sasl;
	struct bytes attempt, mechanism;

	if (!element_is(element, "speculativeAuthenticate"))
		return false;
	return !element_document(element, &attempt) ||
	       !document_find(attempt, "saslStart", &sasl) ||
	       document_find(attempt, "authenticate", &sasl) ||
	       !document_find_string(attempt, "mechanism", &mechanism) ||
	       bytes_are(mechanism, "MONGODB-X509");
}

static bool edit_request_element(void *context, const struct element *element, struct buffer *out)
{
	const bool *certified = context;

	if (element->type == BSON_BYTE_ARRAY && element_is(element, "compression"))
		return edit_list(element, judge_compressor, NULL, out);
	if (!*certified && signs_in_certified(element))
		return true;
	writer_element(out, element);
	return false;
}

must_check bool hello_edit_request(struct bytes body, bool certified, struct buffer *out)
{
	return edit_document(body, edit_request_element, &certified, out);
}

static enum fate judge_member(const void *context, struct bytes name, struct bytes *other)
{
	const struct hello_map *map = context;

	if (!map->find(map->context, name, other))
		return FATE_DROP;
	return bytes_equal(name, *other) ? FATE_KEEP : FATE_RENAME;
}

static bool names_members(const struct element *element)
{
	return element_is(element, "hosts") || element_is(element, "passives") ||
	       element_is(element, "arbiters");
}

static bool edit_reply_element(void *context, const struct element *element, struct buffer *out)
{
	if (element->type == BSON_BYTE_ARRAY && names_members(element))
		return edit_list(element, judge_member, context, out);
	if (element_is(element, "primary") || element_is(element, "me"))
		return edit_name(element, judge_member, context, out);
	writer_element(out, element);
	return false;
}

must_check bool hello_edit_reply(struct bytes body, const struct hello_map *map, struct buffer *out)
{
	struct hello_map context = *map;

	return edit_document(body, edit_reply_element, &context, out);
}

must_check bool hello_own_name(struct bytes body, struct bytes *name)
{
	struct element me;

	return document_find(body, "me", &me) && element_string(&me, name);
}

/* SCRAM and others say `done`; X.509 names the user. */
static bool tells_success(struct bytes answer)
{
	struct element element;

	if (document_find(answer, "done", &element))
		return element_truth(&element);
	return document_find(answer, "user", &element);
}

must_check bool hello_signs_in(struct bytes answer)
{
	struct element element;

	return document_find(answer, "done", &element) || document_find(answer, "user", &element);
}

must_check bool hello_signed_in(struct bytes body)
{
	struct bytes speculation;

	if (!document_truth(body, "ok"))
		return false;
	return tells_success(document_find_document(body, "speculativeAuthenticate", &speculation)
				     ? speculation
				     : body);
}

uint8_t hello_compressors(struct bytes body)
{
	struct element list, element;
	struct cursor cursor;
	struct bytes name;
	uint8_t bits = 0;

	if (!document_find(body, "compression", &list) || list.type != BSON_BYTE_ARRAY ||
	    !cursor_open(&cursor, list.value))
		return 0;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		if (element_string(&element, &name))
			bits |= compressor_bit(name);
	return bits;
}
