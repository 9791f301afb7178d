/*
 * What the fuzz targets share. libFuzzer calls LLVMFuzzerTestOneInput with one text after another;
 * a target states by require() what must hold for any of them.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include "protocol/bytes.h"
#include "protocol/cursor.h"
#include "protocol/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require_inside(struct bytes part, struct bytes whole)
{
	require(part.length == 0 ||
		(part.data >= whole.data && part.length <= whole.length &&
		 (size_t)(part.data - whole.data) <= whole.length - part.length));
}

/* Element by element, and each where the one before it ended. */
static inline void require_elements_inside(struct bytes document)
{
	const uint8_t *at = document.data + 4;
	struct cursor cursor;
	struct element element;
	enum cursor_step step;

	if (!cursor_open(&cursor, document))
		return;
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT) {
		require(element_raw(&element).data == at);
		require_inside(element_raw(&element), document);
		require_inside(element.name, element_raw(&element));
		require_inside(element.value, element_raw(&element));
		at += element_raw(&element).length;
	}
	require(step != CURSOR_PARTIAL);
	require(step != CURSOR_END || at + 1 == document.data + document.length);
}

#endif
