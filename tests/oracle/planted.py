"""Ways to break Spillway that the oracle must catch: what stands in a folder, and what is put there.

A text that does not stand there exactly once ends the run: the list has to follow the source.
"""

import collections

# `reads`: it is looked for by episodes that mostly read. `test`: by this file below tests/, because the oracle's
# operations do at mongod what they do through Spillway, and so never forge what Spillway stores.
Bug = collections.namedtuple("Bug", "name folder old new reads test", defaults=(False, None))

BUGS = [
    # Moving
    Bug("the cut has no guard", "proxy",
        '''	guard_generation(pass, out);
	writer_close(out, open->q);
	open->u = writer_open_array(out, "u");
''', '''	writer_close(out, open->q);
	open->u = writer_open_array(out, "u");
'''),
    Bug("a cut forgets what was pushed meanwhile", "proxy",
        '	write_slice(pass, out, "1", pass->plan.head + pass->stored, true);\n', ""),
    Bug("a generation is born over another", "proxy",
        "	command_exists(out, state_path(path, pass->rule, NULL), false);\n	if (pass->still)", "	if (pass->still)"),
    Bug("a batch is filled without its guard", "proxy",
        'writer_int64(&out, "$size", pass->open.held);', 'writer_bool(&out, "$exists", true);'),
    Bug("an outlier keeps one element too few", "proxy",
        "int64_t most = rule->when_outlier == RULE_EMPTY ? 0 : rule->threshold;\n	size_t",
        "int64_t most = rule->when_outlier == RULE_EMPTY || rule->threshold == 0 ? 0 "
        ": rule->threshold - 1;\n	size_t"),
    Bug("an outlier is not emptied", "proxy",
        "rule->when_outlier == RULE_EMPTY ? 0 : rule->threshold;\n	size_t", "rule->threshold;\n	size_t"),
    Bug("a batch takes one element too many", "proxy",
        "taken = plan_take(&pass->plan.tail, 0, rule->overflow.batch_size,",
        "taken = plan_take(&pass->plan.tail, 0, rule->overflow.batch_size + 1,"),
    Bug("a mover leaves alone what another batch reaches beyond", "proxy",
        "	result = overflow_find_furthest(pass);\n", "	(void)overflow_find_furthest;\n"),
    Bug("batches that overlap are not put in a row", "rules",
        "	tiling_write_trimmed(out, writer_index(index, choice.place++), tiling);\n",
        "	call_text(&choice, tiling->input);\n"),
    Bug("batches that overlap stay", "proxy",
        "	if (end == ROUND_REST && work->overlapped)\n", "	(void)mend_overlap;\n	if (false)\n"),
    Bug("the flag is not set", "proxy", "		write_flag(pass, out, rule->flag.field);\n", ""),
    # Garbage
    Bug("garbage stays", "proxy",
        "	if (dead->count == 0 || gc->count == WAITING_MAX) {\n", "	if (dead->count < 1000) {\n"),
    Bug("what is alive is taken for garbage", "proxy",
        "		if (!holds(looking->alive, looking->alive_count, dead->generations[i]))\n", ""),
    # Writing
    Bug("setting the array leaves its state", "rules",
        "		add_state_reset(resets, rule);\n", ""),
    Bug("setting the array leaves the flag", "rules",
        "		if (name && !client_names(u, name))\n", "		if (name && field != OWN_FLAG && !client_names(u, name))\n"),
    Bug("setting a parent is not seen", "rules",
        "	return relation == PATH_SAME || relation == PATH_ABOVE;\n",
        "	return relation == PATH_SAME;\n"),
    Bug("a document sequence is sent as it is", "rules",
        "			write_statement(sequence, out, next_form(command, &filters),\n"
        "					command->documents[j]);\n		message_end_sequence",
        "			buffer_append(out, command->documents[j].data, command->documents[j].length);\n"
        "		message_end_sequence"),
    Bug("edits that went together are taken for done", "rules",
        "	    (summary.n != (int64_t)write->sending || summary.write_errors.length > 0)) {\n",
        "	    summary.write_errors.length > 0) {\n"),
    Bug("findAndModify leaves the state", "rules",
        '	if (element_is(field, "update") && update_resets_state(sequence)) {\n', "	if (false) {\n"),
    Bug("an insert leaves no note", "rules",
        "	if (write_statements_field(sequence) == FIELD_DOCUMENTS)\n		return note_insert",
        "	if (write_statements_field(sequence) == FIELD_DOCUMENTS)\n"
        "		return false && note_insert"),
    Bug("a transaction's notes are taken for settled", "rules",
        "!reply || command_has(&sequence->match.command, FIELD_AUTOCOMMIT);", "!reply;"),
    # Editing
    Bug("an edit has no guard", "rules",
        "		add_pin(edit, &open);\n	add_guard(edit, &open);\n	close_conjunction(&open);\n",
        "		add_pin(edit, &open);\n	(void)add_guard;\n	close_conjunction(&open);\n"),
    Bug("the overflow is folded back at the end", "rules",
        '		writer_renamed(out, "$position", &head);\n', ""),
    Bug("folding back leaves the flag", "rules",
        "	write_fields(edit, out, false);\n	writer_close(out, unset);\n", "	writer_close(out, unset);\n"),
    Bug("a value found in the overflow is pushed again", "rules",
        "	if (found && edit->facts.reads)\n", "	if (false)\n"),
    Bug("a value found in the overflow is added to the set", "rules",
        "	if (found)\n		require(document_find(buffer_view(&edit->membership.without)",
        "	if (false)\n		require(document_find(buffer_view(&edit->membership.without)"),
    Bug("the filter is not judged on the whole document", "rules",
        "	filter_write_match(out, &place, filter_left(edit), FILTER_AT_START);\n", ""),
    Bug("an edit of many stops at the first", "rules",
        "	edit->listed = edit->write.many;\n", "	edit->listed = false;\n"),
    Bug("an edit never inserts", "rules",
        "	edit->upsert = edit->write.upsert;\n", "	edit->upsert = false;\n"),
    Bug("an edit leaves no note", "rules",
        "		note_document(write, &id, reason);\n", "		(void)reason;\n"),
    Bug("a transaction is started twice", "rules",
        "	       (sequence->begun &&\n		(element_is(field, \"startTransaction\")",
        "	       (false &&\n		(element_is(field, \"startTransaction\")"),
    Bug("an ordered command goes on behind an edit's error", "rules",
        "	return write->next == write->count ||\n	       (is_ordered(sequence) && write->result.errors.count > 0);\n",
        "	return write->next == write->count;\n"),
    Bug("a positional edit takes the short way", "rules",
        "		      !is_positional(write) && reads_alone(", "		      reads_alone("),
    Bug("the head is lost when a document is put together", "rules",
        "	call_text(&slice, array);\n	call_text(&slice, head);\n	call_close(&slice);\n	call_nothing(&choice);\n",
        "	call_text(&slice, array);\n	call_number(&slice, 1);\n	call_close(&slice);\n	call_nothing(&choice);\n"),
    # Reading
    Bug("a find's reply passes without a look", "rules",
        "batch.type == BSON_BYTE_ARRAY && merge_untouched(namespace, batch.value);", "batch.type == BSON_BYTE_ARRAY;"),
    Bug("a getMore is not merged", "rules",
        '	if (bytes_are(name, "getMore"))\n		match_get_more(matching);\n	else if',
        '	(void)match_get_more;\n	if (bytes_are(name, "getMore"))\n		return;\n	else if'),
    Bug("the state is shown", "rules", "	hide(merge, NAME_STATE);\n", ""),
    Bug("the flag is shown", "rules",
        "		hide(merge, hidden.fields[i]);\n", "		hide(merge, NULL);\n"),
    Bug("batches come in any order", "rules",
        "	writer_int32(out, overflow_order_path(rule), 1);\n", "	writer_int32(out, overflow_order_path(rule), -1);\n"),
    Bug("an inclusion forgets the state", "rules",
        "	if (writing->returned == 0)\n		return;\n",
        "	if (writing->returned < 3)\n		return;\n"),
    Bug("a hidden _id is shown", "rules", "			survey->loses_id = true;\n",
        "			survey->loses_id = false;\n"),
    Bug("images are not merged", "rules",
        "	if (!merge_clean(modify->fetch.merge))\n", "	if (false)\n"),
]

_OF_READS = [
    # Arrays in part
    Bug("a window from the back asks for less than it may take", "rules",
        "	asks = start < 0 ? window->target->rule->threshold - start : start + window_length(window);\n",
        "	asks = start < 0 ? -start : start + window_length(window);\n"),
    Bug("a window's part of the overflow is counted from the front", "rules",
        "	cut->first = (size_t)clamp(from - head, 0, count);\n", "	cut->first = (size_t)clamp(from, 0, count);\n"),
    Bug("a window among others misses what was pushed behind the overflow", "rules",
        '	add_cut(&parts, paths->array.bytes, "$$tailed", "$$tails");\n', ""),
    Bug("an $elemMatch that finds nothing is null", "rules",
        '	call_number(&first, 0);\n	call_close(&first);\n	call_text(&choice, "$$REMOVE");\n',
        '	call_number(&first, 0);\n	call_close(&first);\n	call_null(&choice);\n'),
    Bug("a cut in documents of an array takes the first of them", "rules",
        '	call_unary(&choice, "$isArray", value);\n	call_text(&choice, "$$m");\n',
        '	call_unary(&choice, "$isArray", value);\n'
        '	test = call_call(&choice, "$arrayElemAt");\n	call_text(&test, "$$m");\n	call_number(&test, 0);\n'
        '	call_close(&test);\n'),
    Bug("conditions may mean several elements", "rules",
        "		add_others_number(&either, found, i);\n", "		(void)add_others_number;\n"),
    Bug("another array that a condition looked into is forgotten", "rules",
        "	add_others(&either, filter, bytes_of(path));\n", "	(void)add_others;\n	(void)filter;\n"),
    # Conditions on arrays
    Bug("one condition of several is asked of the overflow, and believed", "rules",
        "		probe->exact = question.whole && question.reading == 1;\n", "		probe->exact = question.whole;\n"),
    Bug("one operator of several is asked of the overflow, and believed", "rules",
        "		probe->exact = question.whole && question.reading == 1;\n",
        "		probe->exact = question.reading == 1;\n"),
    Bug("an array that is gone from the overflow's document still matches", "rules",
        "	if (probe->alone)\n		write_generations(out, probe);\n	else if (probe->light)\n",
        "	(void)write_generations;\n	if (false)\n"),
    Bug("outliers that the overflow names are not asked for", "rules",
        "	if (found == PROBE_COMPLETE && (documents > 0 || !aggregate->probe.alone))\n",
        "	if (found != PROBE_TOO_MANY)\n"),
    Bug("outliers that the overflow names are not looked at by a write", "rules",
        "	if (found == PROBE_COMPLETE)\n		return EDIT_HITS_FOUND;\n",
        "	if (found != PROBE_TOO_MANY)\n		return EDIT_HITS_FOUND;\n"),
    Bug("max has a part in the range", "rules",
        "	writer_bool(call->out, writer_index(index, choices[count].place++), behind);\n",
        "	writer_bool(call->out, writer_index(index, choices[count].place++), true);\n"),
    Bug("an error of a find is an aggregate's", "rules",
        '		return "Executor error during find command :: caused by :: ";\n', '		return "";\n'),
    # Pipelines
    Bug("a $group behind a condition counts elements as they are stored", "rules",
        "		return reads_of_expression(stage, namespace).kind == READS_NOTHING ? THEN_OTHER\n"
        "										   : THEN_ARRAY;\n",
        "		return THEN_OTHER;\n"),
    Bug("a union is not put together", "rules", "	write_documents(writing, &place, &join);\n", ""),
    Bug("a join goes by arrays as they are stored", "rules",
        "	if (join->namespace && name_is_other(join->field, join->namespace)) {\n", "	if (false) {\n"),
    Bug("a join's $match sees arrays as they are stored", "rules",
        "	if (matches && reads_of_filter(filter.value, pipeline->namespace).kind == READS_NOTHING &&\n",
        "	if (matches &&\n"),
    Bug("what a $graphLookup has found is as it is stored", "rules",
        "	write_whole(out, place, &graph, foreign->strict);\n", "	(void)write_whole;\n"),
    Bug("a $graphLookup may search by the array", "rules",
        "	     reads_of_filter(filter->value, graph->namespace).kind != READS_NOTHING))\n", "	     false))\n"),
    Bug("a distinct looks into arrays in arrays", "rules",
        "		write_unwind(out, place);\n		write_no_array(out, place);\n",
        "		write_unwind(out, place);\n		(void)write_no_array;\n"),
    Bug("a distinct takes an index for a name", "rules",
        "	bool is_index = !first && is_number(part);\n", "	bool is_index = false && is_number(part);\n"),
    Bug("a field that a pipeline made under the flag's name is hidden", "rules",
        '	{"$set", EFFECT_ADDS},\n', '	{"$set", EFFECT_NONE},\n'),
    Bug("documents that a pipeline put in others' places have no hidden names", "rules",
        "	return EFFECT_ANY; /* of a document", "	return EFFECT_SETS; /* of a document"),
    # Bit tests with a binary mask
    Bug("a mask is not written as positions", "rules",
        "	if (bit_masks_of(filter) != BIT_MASKS_WIDENED)\n		return filter;\n", "	if (written.value.length > 0)\n		return filter;\n"),
    Bug("a mask in an $elemMatch is overlooked", "rules",
        '		       (element_is(element, "$not") || element_is(element, "$elemMatch"));\n', '		       element_is(element, "$not");\n'),
    Bug("a bit test behind a $limit becomes a query", "rules",
        "		if (element_is(&verb, barriers[i]))\n			return MATCH_STANDS_APART;\n", "		if (element_is(&verb, barriers[i]))\n			return before;\n"),
]

# States that clients have forged
_OF_STATES = [
    Bug("a pipeline that computes names has no guard", "rules",
        "			if (!stage_spells_names(&verb))\n				return true;\n",
        "			(void)stage_spells_names(&verb);\n", test="e2e/test_forged_state.py"),
    Bug("a generation fills a document that it does not link to", "rules",
        "	if (same_value(id, link))\n		return true;\n	if (element_integer(id, &one)",
        "	if (id)\n		return true;\n	if (element_integer(id, &one)", test="e2e/test_damaged_states.py"),
    Bug("under a collation a joined batch is another document's", "rules",
        '	reassemble_add_same_text(&condition, link.bytes, "$_id");\n', "", test="e2e/test_damaged_states.py"),
]

BUGS += [bug._replace(reads=True) for bug in _OF_READS] + _OF_STATES
