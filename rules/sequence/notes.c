/* What the statements of a command leave for the mover to look at. */
#include "rules/sequence/notes.h"

#include "rules/query/statements.h"

must_check bool notes_of_update(const struct update *update, struct mover_note *note)
{
	switch (update->kind) {
	case UPDATE_PLAIN:
		if (!update->appends && !update->long_array)
			return false;
		note->reason = MOVER_APPENDED;
		note->elements = update->elements;
		note->bytes = update->bytes;
		return true;
	case UPDATE_REPLACE:
	case UPDATE_WHOLE:
		note->reason = MOVER_CHANGED;
		return true;
	case UPDATE_EDIT:
	case UPDATE_RESERVED:
	case UPDATE_BROKEN:
		break;
	}
	return false;
}

void notes_identify(struct mover_note *note, struct bytes filter, const struct element *collation)
{
	struct element id;

	if (statement_pinned_id(filter, collation->type != 0, &id)) {
		note->id_type = id.type;
		note->id = id.value;
		return;
	}
	note->filter = filter;
	note->collation =
		collation->type == BSON_BYTE_DOCUMENT ? collation->value : (struct bytes){0};
}

void notes_somewhere(const struct ruled_namespace *namespace,
		     void (*take)(void *context, const struct mover_note *note), void *context)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct mover_note note = {.reason = MOVER_SOMEWHERE,
						.rule = namespace->targets[i].rule,
						.database = bytes_of(namespace->database),
						.collection = bytes_of(namespace->collection)};

		take(context, &note);
	}
}

void notes_begin(struct mover_note *note, const struct sequence *sequence,
		 const struct packet *reply)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;

	*note = (struct mover_note){.rule = namespace->targets[0].rule,
				    .database = bytes_of(namespace->database),
				    .collection = bytes_of(namespace->collection)};
	note->unsettled = !reply || command_has(&sequence->match.command, FIELD_AUTOCOMMIT);
	if (reply)
		note->operation_time = reply->summary.operation_time;
}

must_check bool notes_of_find_and_modify(const struct sequence *sequence,
					 const struct packet *reply, struct mover_note *note)
{
	const struct command *command = &sequence->match.command;
	const struct element *query = &command->fields[FIELD_QUERY];
	const struct element *update = &command->fields[FIELD_UPDATE];
	static const uint8_t empty[] = {5, 0, 0, 0, 0};
	struct element id;
	struct bytes filter = {empty, sizeof(empty)};
	struct update what;

	notes_begin(note, sequence, reply);
	if (query->type == BSON_BYTE_DOCUMENT)
		filter = query->value;
	notes_identify(note, filter, &command->fields[FIELD_COLLATION]);
	if (note->id_type == 0 && reply &&
	    document_find_path(reply->message.body, "value._id", &id)) {
		note->id_type = id.type;
		note->id = id.value;
		note->filter = (struct bytes){0};
	}
	if (update->type != 0) {
		what = update_classify(update, sequence->match.namespace);
		return notes_of_update(&what, note);
	}
	note->reason = MOVER_DELETED;
	return command_has(command, FIELD_REMOVE) && note->id_type != 0;
}
