/* Keeps computed names away from Spillway's own. */
#include "rules/stages/stage_guard.h"

#include "rules/rule/names.h"
#include "rules/reassembly/reassemble.h"

/* {$set: {_spill: {$cond: [<some name is Spillway's own>, <error>, "$$REMOVE"]}}} */
static void write_name_guard(struct buffer *out, size_t place)
{
	char name[12];
	size_t stage = writer_open_document(out, writer_index(name, place));
	size_t set = writer_open_document(out, "$set");
	struct call choice = call_open(out, NAME_STATE, "$cond");

	reassemble_add_reserved(&choice);
	reassemble_add_forged(&choice);
	call_text(&choice, "$$REMOVE");
	call_close(&choice);
	writer_close(out, set);
	writer_close(out, stage);
}

void stage_guard_write(struct buffer *out, const char *name, const struct element *u)
{
	size_t array = writer_open_array(out, name), place = 0;
	struct cursor stages;
	struct element stage;
	char index[12];

	require(cursor_open(&stages, u->value)); /* it has been classified */
	while (cursor_next(&stages, &stage) == CURSOR_ELEMENT)
		writer_renamed(out, writer_index(index, place++), &stage);
	write_name_guard(out, place);
	writer_close(out, array);
}
