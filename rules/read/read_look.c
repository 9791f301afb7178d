/* An array's overflow is short: was the array rewritten meanwhile, or is overflow missing?
 *
 * The overflow of a generation is complete as long as the document's state names it. So main is
 * asked again. If the state is another one now, the array was rewritten, and the read goes on with
 * what main says now. If the state still stood, and the overflow is short once more, the document
 * is damaged: no retry helps. */
#include "rules/read/read_inner.h"

#include "rules/reassembly/raised.h"
#include "rules/rule/id_text.h"
#include "rules/rule/state.h"

#include <stdio.h>

void read_compare_states(struct sequence *sequence, struct bytes now)
{
	struct sequence_read *read = read_of(sequence);

	if (states_stand(sequence->match.namespace,
			 merge_document(read->fetch.merge, read->retry.dead), now))
		read->retry.stood++;
	else
		read->retry.stood = 0;
}

bool read_proves_damage(const struct sequence_read *read)
{
	return read->retry.stood > 0;
}

/* ---- what no find can read again with the client's conditions ---- */

enum sequence_outcome read_ask_look(struct sequence *sequence, const struct sequence_input *input,
				    const struct element *id)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	struct sequence_read *read = read_of(sequence);
	size_t body = sequence_begin_command(sequence);

	template_write_fields(&sequence->buffer,
			      "{find: @collection, filter: {_id: {$eq: @id}}, "
			      "projection: {_id: 1, _spill: 1}, limit: 1, singleBatch: true}",
			      fill("collection", namespace->collection), fill("id", id));
	sequence_write_read_fields(sequence, input, namespace->database, read->fetch.read_concern);
	sequence->step = READ_LOOK_ASKED;
	return sequence_send_command(sequence, body);
}

/* A rewritten array's older overflow can't be had: a getMore does not know the client's conditions.
 * A find begins again. */
enum sequence_outcome read_take_look(struct sequence *sequence, const struct sequence_input *input)
{
	struct sequence_read *read = read_of(sequence);
	struct merge *merge = read->fetch.merge;
	struct bytes before = merge_document(merge, read->retry.dead), batch;
	struct element document, was, is;
	struct cursor cursor;
	int stood = read->retry.stood;

	if (!input->reply->summary.ok) {
		sequence_pass(sequence, input->reply);
		return read_fail_with_output(sequence);
	}
	batch = reply_read_cursor(input->reply->summary.cursor).batch;
	if (batch.data && cursor_open(&cursor, batch) &&
	    cursor_next(&cursor, &document) == CURSOR_ELEMENT &&
	    document.type == BSON_BYTE_DOCUMENT && document_find(document.value, "_id", &is) &&
	    document_find(before, "_id", &was) && bytes_equal(element_raw(&is), element_raw(&was)))
		read_compare_states(sequence, document.value);
	if (read->retry.stood <= stood)
		return read->aggregates && !command_has(&sequence->match.command, FIELD_AUTOCOMMIT)
			       ? read_ask_beyond(sequence, input)
			       : read_lose_overflow(sequence, input);
	if (merge_replace_document(merge, read->retry.dead, before) != MERGE_TAKEN)
		return read_refuse_document(sequence, MERGE_BROKEN, before);
	return read_fetch_on(sequence, input, NULL);
}

/* ---- damage ---- */

/* All rules whose arrays have something in `_spill` say so. */
static bool is_skipped(const struct ruled_namespace *namespace, struct bytes document)
{
	struct element states, state;
	bool any = false;

	if (!document_find(document, NAME_STATE, &states))
		return false;
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;

		if (states.type == BSON_BYTE_DOCUMENT &&
		    !document_find(states.value, rule->key, &state))
			continue;
		if (!rule->skips_damaged)
			return false;
		any = true;
	}
	return any;
}

bool read_skips(struct sequence *sequence, struct bytes document, size_t index)
{
	struct sequence_read *read = read_of(sequence);
	char message[SEQUENCE_MESSAGE];
	struct element id, each;
	struct cursor cursor;
	size_t count = 0;

	if (!is_skipped(sequence->match.namespace, document))
		return false;
	if (!read->retry.gone) {
		require(cursor_open(&cursor, read->batch));
		while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
			count++;
		read->retry.gone = must_calloc(count + 1, sizeof(*read->retry.gone));
	}
	read->retry.gone[index] = true;
	if (document_find(document, "_id", &id))
		snprintf(message, sizeof(message), "the document with %s", id_text(&id).text);
	else
		snprintf(message, sizeof(message), "a document without _id");
	sequence_count_skipped(sequence, message);
	return true;
}

enum sequence_outcome read_take_damage(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct sequence_read *read = read_of(sequence);
	struct bytes document = merge_document(read->fetch.merge, read->retry.dead);
	char message[SEQUENCE_MESSAGE];
	struct element id;

	if (read_skips(sequence, document, read->retry.dead)) {
		read->retry.stood = 0;
		return read_fetch_on(sequence, input, NULL);
	}
	require(document_find(document, "_id", &id));
	snprintf(message, sizeof(message), "the document with %s: %s", id_text(&id).text,
		 RAISED_LOST_WORDS);
	return read_fail(sequence, ERROR_DATA_CORRUPTION, message);
}
