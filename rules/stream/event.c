/* Reads an event of a change stream. */
#include "rules/stream/event.h"

static const struct kind_name {
	const char *name;
	enum event_kind kind;
} kind_names[] = {
	{"insert", EVENT_INSERT},     {"update", EVENT_UPDATE}, {"replace", EVENT_REPLACE},
	{"delete", EVENT_DELETE},     {"drop", EVENT_GONE},     {"rename", EVENT_GONE},
	{"dropDatabase", EVENT_GONE},
};

static void read_kind(struct event *event, const struct element *field)
{
	struct bytes text;

	for (size_t i = 0; element_string(field, &text) && i < ARRAY_LENGTH(kind_names); i++)
		if (bytes_are(text, kind_names[i].name))
			event->kind = kind_names[i].kind;
}

static void read_namespace(const struct element *field, struct bytes *database,
			   struct bytes *collection)
{
	if (field->type == BSON_BYTE_DOCUMENT) {
		if (!document_find_string(field->value, "db", database))
			*database = (struct bytes){0};
		if (!document_find_string(field->value, "coll", collection))
			*collection = (struct bytes){0};
	}
}

static void read_field(struct event *event, const struct element *field)
{
	bool document = field->type == BSON_BYTE_DOCUMENT;

	if (element_is(field, "operationType"))
		read_kind(event, field);
	else if (element_is(field, "ns"))
		read_namespace(field, &event->database, &event->collection);
	else if (element_is(field, "to"))
		read_namespace(field, &event->to_database, &event->to_collection);
	else if (element_is(field, "clusterTime") && field->type == BSON_BYTE_TIMESTAMP)
		event->time = *field;
	else if (element_is(field, "txnNumber"))
		event->in_transaction = true;
	else if (element_is(field, "documentKey") && document &&
		 !document_find(field->value, "_id", &event->id))
		event->id.type = 0;
	else if (element_is(field, "fullDocument") && document)
		event->full = field->value;
	else if (element_is(field, "fullDocumentBeforeChange") && document)
		event->before = field->value;
	else if (element_is(field, "updateDescription") && document)
		event->change = field->value;
}

must_check bool event_read(struct bytes whole, struct event *event)
{
	struct element field;
	struct cursor cursor;
	enum cursor_step step;

	*event = (struct event){.whole = whole};
	if (!cursor_open(&cursor, whole))
		return false;
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT)
		read_field(event, &field);
	return step == CURSOR_END;
}
