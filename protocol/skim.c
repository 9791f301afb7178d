/* Reads a message piece by piece and keeps little of it. */
#include "protocol/skim.h"

#include "protocol/writer.h"

#include <stdlib.h>

#define UNIT_MAX 1024 /* fields that are kept are shorter */
#define SHORTEST_BODY 5

enum skim_state {
	SKIM_HEADER, /* and flags */
	SKIM_SECTION,
	SKIM_FIELDS, /* of the body */
	SKIM_OVER,   /* the body is complete, or can't be read */
};

struct skim {
	struct buffer unit; /* the part at hand, until it is complete: UNIT_MAX at most */
	struct buffer body; /* elements that were kept, one behind the other */
	size_t skip;        /* bytes that only go by */
	size_t left;        /* of the body, its closing NUL too */
	struct frame_header header;
	uint32_t flags;
	uint8_t state;
	bool complete; /* the body has gone by */
};

static const char *const wanted[] = {
	"$db",        "lsid",      "txnNumber",           "autocommit", "startTransaction",
	"apiVersion", "apiStrict", "apiDeprecationErrors"};

static bool is_wanted(const struct skim *skim, const struct element *field)
{
	if (skim->body.length == 0) /* the command's name */
		return true;
	for (size_t i = 0; i < ARRAY_LENGTH(wanted); i++)
		if (element_is(field, wanted[i]))
			return true;
	return false;
}

/* Each of these takes one unit, which then goes by. False where it is not complete. */

static bool take_header(struct skim *skim)
{
	enum frame_state state;

	if (skim->unit.length < FRAME_HEADER_LENGTH + 4)
		return false;
	state = frame_next(buffer_view(&skim->unit), &skim->header);
	skim->flags = (uint32_t)load_int32(skim->unit.data + FRAME_HEADER_LENGTH);
	skim->skip = FRAME_HEADER_LENGTH + 4;
	skim->state = (state == FRAME_PARTIAL || state == FRAME_READY) &&
				      skim->header.opcode == OPCODE_MESSAGE
			      ? SKIM_SECTION
			      : SKIM_OVER;
	return true;
}

static bool take_section(struct skim *skim)
{
	int32_t length;

	if (skim->unit.length < 5)
		return false;
	length = load_int32(skim->unit.data + 1);
	skim->skip = 5;
	if (length < SHORTEST_BODY || length > FRAME_MAX_LENGTH || skim->unit.data[0] > 1) {
		skim->state = SKIM_OVER;
	} else if (skim->unit.data[0] == 1) {
		skim->skip = (size_t)length + 1;
	} else {
		skim->left = (size_t)length - 4;
		skim->state = SKIM_FIELDS;
	}
	return true;
}

/* An element that is longer than what is kept. */
static bool pass_long(struct skim *skim, const struct cursor *cursor)
{
	size_t length;

	if (skim->unit.length < UNIT_MAX)
		return false;
	if (cursor_length(cursor, &length) && length < skim->left && skim->body.length > 0) {
		skim->left -= length;
		skim->skip = length;
	} else {
		skim->state = SKIM_OVER;
	}
	return true;
}

static bool take_field(struct skim *skim)
{
	bool whole = skim->unit.length >= skim->left;
	size_t there = whole ? skim->left - 1 : skim->unit.length;
	struct cursor cursor = {skim->unit.data, skim->unit.data + there,
				whole ? 0 : skim->left - there};
	struct element field;

	switch (cursor_next(&cursor, &field)) {
	case CURSOR_ELEMENT:
		if (is_wanted(skim, &field))
			writer_element(&skim->body, &field);
		skim->skip = element_raw(&field).length;
		skim->left -= element_raw(&field).length;
		return true;
	case CURSOR_PARTIAL:
		return pass_long(skim, &cursor);
	case CURSOR_END:
		skim->complete = skim->unit.data[0] == 0;
		break;
	case CURSOR_INVALID:
		break;
	}
	skim->state = SKIM_OVER;
	return true;
}

static bool take_unit(struct skim *skim)
{
	switch ((enum skim_state)skim->state) {
	case SKIM_HEADER:
		return take_header(skim);
	case SKIM_SECTION:
		return take_section(skim);
	case SKIM_FIELDS:
		return take_field(skim);
	case SKIM_OVER:
		skim->skip = skim->unit.length;
		return true;
	}
	require(!"a state without a name");
}

static void take_units(struct skim *skim)
{
	while (skim->unit.length > 0 && take_unit(skim)) {
		size_t gone = least(skim->skip, skim->unit.length);

		buffer_consume(&skim->unit, gone);
		skim->skip -= gone;
	}
}

void skim_take(struct skim *skim, struct bytes bytes)
{
	while (bytes.length > 0) {
		bool passes = skim->skip > 0;
		size_t more =
			least(bytes.length, passes ? skim->skip : UNIT_MAX - skim->unit.length);

		if (passes)
			skim->skip -= more;
		else
			buffer_append(&skim->unit, bytes.data, more);
		bytes.data += more;
		bytes.length -= more;
		take_units(skim);
	}
}

must_check bool skim_end(const struct skim *skim, struct buffer *frame)
{
	size_t start, body;

	if (!skim->complete)
		return false;
	start = message_begin(frame, skim->header.request_id, skim->header.response_to,
			      skim->flags & ~(uint32_t)MESSAGE_CHECKSUM_PRESENT);
	message_begin_body(frame);
	body = writer_open(frame);
	buffer_append(frame, skim->body.data, skim->body.length);
	writer_close(frame, body);
	message_end(frame, start);
	return true;
}

struct skim *skim_new(void)
{
	return must_calloc(1, sizeof(struct skim));
}

void skim_free(struct skim *skim)
{
	if (!skim)
		return;
	buffer_fini(&skim->unit);
	buffer_fini(&skim->body);
	free(skim);
}
