/* Which indexes the overflow has because the main collection has them. */
#include "proxy/fitness/mirror.h"

#include "rules/rule/known_indexes.h"
#include "rules/rule/overflow_document.h"

/* A key's field that looks into the array: written under the name that it has in the overflow.
 * False where it has none. */
static bool write_key(const struct rule *rule, const struct element *field, struct buffer *out)
{
	auto_buffer struct buffer name = {0};

	if (!overflow_path(rule, (const char *)field->name.data + strlen(rule->array), &name))
		return false;
	writer_renamed(out, (const char *)name.data, field);
	return true;
}

/* False where the index as a whole has no like. */
static bool write_keys(const struct rule *rule, struct bytes keys, struct buffer *out)
{
	size_t start = writer_open_document(out, "key"), found = 0;
	struct cursor cursor;
	struct element field;
	int64_t way;

	if (!cursor_open(&cursor, keys))
		return false;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		enum path_relation relation = path_relate(field.name, rule->array);

		if (relation != PATH_SAME && relation != PATH_BELOW)
			continue;
		if (!element_integer(&field, &way))
			return false;
		found += write_key(rule, &field, out);
	}
	writer_close(out, start);
	return found > 0;
}

must_check bool mirror_write(const struct rule *rule, struct bytes index, const char *name,
			     struct buffer *out)
{
	size_t before = out->length, start = writer_open_document(out, name);
	auto_buffer struct buffer own = {0};
	struct element keys, option;
	struct bytes text;

	if (!document_find(index, "key", &keys) || keys.type != BSON_BYTE_DOCUMENT ||
	    !document_find(index, "name", &option) || !element_string(&option, &text) ||
	    !write_keys(rule, keys.value, out)) {
		out->length = before;
		return false;
	}
	buffer_append(&own, MIRROR_NAME, strlen(MIRROR_NAME));
	buffer_append(&own, text.data, text.length);
	writer_text(out, "name", buffer_view(&own));
	if (document_truth(index, "sparse"))
		writer_bool(out, "sparse", true);
	if (document_truth(index, "hidden"))
		writer_bool(out, "hidden", true);
	if (document_find(index, "collation", &option))
		writer_element(out, &option);
	writer_close(out, start);
	return true;
}

static bool same_option(struct bytes one, struct bytes other, const char *option)
{
	struct element first, second;
	bool has = document_find(one, option, &first);

	if (has != document_find(other, option, &second))
		return false;
	return !has || bytes_equal(first.value, second.value);
}

bool mirror_same(struct bytes one, struct bytes other)
{
	struct element keys, others;

	return document_find(one, "key", &keys) && document_find(other, "key", &others) &&
	       index_keys_same(keys.value, others.value) &&
	       document_truth(one, "sparse") == document_truth(other, "sparse") &&
	       document_truth(one, "hidden") == document_truth(other, "hidden") &&
	       same_option(one, other, "collation") &&
	       same_option(one, other, "partialFilterExpression");
}

struct bytes mirror_name(struct bytes index)
{
	struct bytes name = {0};
	struct element element;

	if (document_find(index, "name", &element) && !element_string(&element, &name))
		return (struct bytes){0};
	return name;
}

bool mirror_is_ours(struct bytes index)
{
	struct bytes name = mirror_name(index);

	return name.length > strlen(MIRROR_NAME) && bytes_begin_with(name, MIRROR_NAME);
}
