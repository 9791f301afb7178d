/* The stages by which `spillway analyze` asks the server. */
#include "proxy/analyze/analyze_pipeline.h"

#include "protocol/message.h"
#include "protocol/template.h"
#include "protocol/writer.h"
#include "rules/rule/text.h"

#include <bson/bson.h>

static size_t open_stage(struct buffer *out, size_t *index, const char *name, size_t *stage)
{
	char text[12];

	*stage = writer_open_document(out, writer_index(text, (*index)++));
	return writer_open_document(out, name);
}

static void close_stage(struct buffer *out, size_t content, size_t stage)
{
	writer_close(out, content);
	writer_close(out, stage);
}

static void write_json(struct buffer *out, const char *name, const char *path, const char *format)
{
	auto_buffer struct buffer text = {0}, quoted = {0};
	bson_error_t error;
	bson_t *value;

	/* The path is the user's: as a JSON string's content. */
	for (; *path; path++)
		text_append(&quoted,
			    *path > 0 && *path < ' '        ? "\\u%04x"
			    : *path == '"' || *path == '\\' ? "\\%c"
							    : "%c",
			    *path);
	buffer_append(&quoted, "", 1);
	for (; *format; format++)
		text_append(&text, *format == '@' ? "%s" : "%.1s",
			    *format == '@' ? (const char *)quoted.data : format);
	value = bson_new_from_json(text.data, (ssize_t)text.length, &error);
	require(value);
	writer_document(out, name, (struct bytes){bson_get_data(value), value->len});
	bson_destroy(value);
}

/* {$or: [false, {$isArray: <each parent>}]}: the path would go through an array. */
static void write_parents(struct buffer *out, const char *name, const char *path)
{
	size_t document = writer_open_document(out, name), or = writer_open_array(out, "$or");
	size_t index = 1, is_array;
	char text[12];

	writer_bool(out, "0", false);
	for (const char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.')) {
		auto_free char *parent = bson_strdup_printf("$%.*s", (int)(dot - path), path);

		is_array = writer_open_document(out, writer_index(text, index++));
		writer_string(out, "$isArray", parent);
		writer_close(out, is_array);
	}
	writer_close(out, or);
	writer_close(out, document);
}

/* The length: {$cond: [<is an array>, {$size: ...}, -2 or -1]}. */
static void write_length(struct buffer *out, const char *name, const char *path)
{
	size_t document = writer_open_document(out, name), cond = writer_open_array(out, "$cond");
	size_t guarded, inner;

	if (!strchr(path, '.')) {
		write_json(out, "0", path, "{\"$isArray\": \"$@\"}");
		write_json(out, "1", path, "{\"$size\": \"$@\"}");
	} else {
		write_parents(out, "0", path);
		writer_int32(out, "1", LENGTH_OTHER);
	}
	if (!strchr(path, '.')) {
		write_json(out, "2", path, "{\"$cond\": [{\"$gt\": [\"$@\", null]}, -2, -1]}");
	} else {
		guarded = writer_open_document(out, "2");
		inner = writer_open_array(out, "$cond");
		write_json(out, "0", path, "{\"$isArray\": \"$@\"}");
		write_json(out, "1", path, "{\"$size\": \"$@\"}");
		write_json(out, "2", path, "{\"$cond\": [{\"$gt\": [\"$@\", null]}, -2, -1]}");
		writer_close(out, inner);
		writer_close(out, guarded);
	}
	writer_close(out, cond);
	writer_close(out, document);
}

#define DOCUMENT_BYTES "{\"$bsonSize\": \"$$ROOT\"}"
#define DOCUMENT_SPLIT "{\"$cond\": [{\"$gt\": [\"$_spill\", null]}, 1, 0]}"
#define ARRAY_BYTES "{\"$bsonSize\": {\"a\": \"$@\"}}"

/* One array: all is worked out in the group itself, which is a quarter faster than a stage before
 * it. */
static void write_direct_group(struct buffer *out, size_t *index, const char *path, bool whole)
{
	size_t stage, group = open_stage(out, index, "$group", &stage), id;

	id = writer_open_document(out, "_id");
	write_json(out, "a", "", "{\"$literal\": 0}");
	write_length(out, "n", path);
	write_json(out, "c", path, "{\"$ceil\": {\"$log\": [" ARRAY_BYTES ", 2]}}");
	writer_close(out, id);
	write_json(out, "d", "", "{\"$sum\": 1}");
	write_json(out, "b", path, "{\"$sum\": " ARRAY_BYTES "}");
	write_json(out, "m", path, "{\"$max\": " ARRAY_BYTES "}");
	write_json(out, "r", "", "{\"$sum\": " DOCUMENT_BYTES "}");
	write_json(out, "l", "", "{\"$max\": " DOCUMENT_BYTES "}");
	if (!whole)
		write_json(out, "s", "", "{\"$sum\": " DOCUMENT_SPLIT "}");
	close_stage(out, group, stage);
}

/* Several: what is wanted of each document, its arrays' numbers, lengths and bytes, once for each
 * array. */
static void write_project(struct buffer *out, size_t *index, const struct analyze_report *report,
			  bool whole)
{
	size_t stage, project = open_stage(out, index, "$project", &stage), arrays, array;
	char name[12];

	writer_int32(out, "_id", 0);
	arrays = writer_open_array(out, "a");
	for (size_t i = 0; i < report->array_count; i++) {
		array = writer_open_document(out, writer_index(name, i));
		writer_int32(out, "a", (int32_t)i);
		write_length(out, "n", report->arrays[i].path);
		write_json(out, "b", report->arrays[i].path, ARRAY_BYTES);
		writer_close(out, array);
	}
	writer_close(out, arrays);
	write_json(out, "r", "", DOCUMENT_BYTES);
	if (!whole)
		write_json(out, "s", "", DOCUMENT_SPLIT);
	close_stage(out, project, stage);
	stage = writer_open_document(out, writer_index(name, (*index)++));
	writer_string(out, "$unwind", "$a");
	writer_close(out, stage);
}

static void write_group(struct buffer *out, size_t *index)
{
	size_t stage, group = open_stage(out, index, "$group", &stage);

	write_json(out, "_id", "",
		   "{\"a\": \"$a.a\", \"n\": \"$a.n\","
		   " \"c\": {\"$ceil\": {\"$log\": [\"$a.b\", 2]}}}");
	write_json(out, "d", "", "{\"$sum\": 1}");
	write_json(out, "b", "", "{\"$sum\": \"$a.b\"}");
	write_json(out, "m", "", "{\"$max\": \"$a.b\"}");
	write_json(out, "r", "", "{\"$sum\": \"$r\"}");
	write_json(out, "l", "", "{\"$max\": \"$r\"}");
	write_json(out, "s", "", "{\"$sum\": \"$s\"}");
	close_stage(out, group, stage);
}

void pipeline_count(struct buffer *out, size_t *index, const struct analyze_report *report,
		    bool whole)
{
	if (report->array_count == 1) {
		write_direct_group(out, index, report->arrays[0].path, whole);
	} else {
		write_project(out, index, report, whole);
		write_group(out, index);
	}
}

/* A filter compares values of one type alone, so that nothing between two of other types would be
 * found; and with a NaN it finds nothing else. Else it takes less time than $expr. */
static bool is_filter_enough(const struct portion *portion)
{
	uint8_t type = portion->from.type;

	return type == portion->to.type &&
	       (type == BSON_BYTE_OBJECT_ID || type == BSON_BYTE_INT32 || type == BSON_BYTE_INT64 ||
		type == BSON_BYTE_STRING || type == BSON_BYTE_BINARY || type == BSON_BYTE_DATE);
}

#define FROM "{$gte: ['$_id', {$literal: @from}]}"
#define BELOW "{$lt: ['$_id', {$literal: @to}]}"

void pipeline_within(struct buffer *out, size_t *index, const struct portion *portion)
{
	const char *range = "{$expr: {$and: [" FROM ", " BELOW "]}}";

	/* No `true` for an open end: mongod would find no bounds. */
	if (!portion->from.type)
		range = "{$expr: " BELOW "}";
	else if (!portion->to.type)
		range = "{$expr: " FROM "}";
	else if (is_filter_enough(portion))
		range = "{_id: {$gte: @from, $lt: @to}}";
	template_append(out, index, "{$match: @range}", fill_template("range", range),
			fill("from", &portion->from), fill("to", &portion->to));
}

void pipeline_sample(struct buffer *out, size_t *index, int64_t size)
{
	template_append(out, index, "{$sample: {size: @size}}", fill("size", size));
}

void pipeline_only_id(struct buffer *out, size_t *index)
{
	template_append(out, index, "{$project: {_id: 1}}");
}

void pipeline_draw(struct buffer *out, size_t *index, const char *collection, double chance)
{
	size_t stage, content, less;

	pipeline_only_id(out, index);
	template_append(out, index, "{$addFields: {r: {$rand: {}}}}");
	content = open_stage(out, index, "$match", &stage);
	less = writer_open_document(out, "r");
	writer_double(out, "$lt", chance);
	writer_close(out, less);
	close_stage(out, content, stage);
	template_append(out, index,
			"{$lookup: {from: @from, localField: '_id', foreignField: '_id', as: 'd'}}",
			fill("from", collection));
	template_append(out, index, "{$replaceWith: {$ifNull: [{$first: '$d'}, {}]}}");
}

static void splice_ids(struct buffer *out, size_t *place, const void *context)
{
	struct bytes documents = *(const struct bytes *)context, document;
	struct element id;
	char name[12];

	while (message_next_document(&documents, &document))
		if (document_find(document, "_id", &id))
			writer_renamed(out, writer_index(name, (*place)++), &id);
}

void pipeline_filter_ids(struct buffer *out, struct bytes documents)
{
	template_write_document(out, "{_id: {$in: [..@ids]}}",
				fill_spliced("ids", splice_ids, &documents));
}
