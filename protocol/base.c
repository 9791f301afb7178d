/* Ends the program on our own mistakes and on lack of memory. */
#include "protocol/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void require_failed(const char *condition, const char *file, int line)
{
	fprintf(stderr, "%s:%d: requirement failed: %s\n", file, line, condition);
	abort();
}

static void *or_abort(void *memory)
{
	if (!memory) {
		fputs("out of memory\n", stderr);
		abort();
	}
	return memory;
}

void *must_malloc(size_t size)
{
	return or_abort(malloc(size ? size : 1));
}

void *must_calloc(size_t count, size_t size)
{
	return or_abort(calloc(count ? count : 1, size ? size : 1));
}

void *must_realloc(void *memory, size_t size)
{
	return or_abort(realloc(memory, size ? size : 1));
}

char *must_strndup(const char *text, size_t length)
{
	char *copy = must_malloc(length + 1);

	/* Empty bytes may have no address, which memcpy does not take. */
	if (length)
		memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

void auto_free_memory(void *pointer_to_pointer)
{
	free(*(void **)pointer_to_pointer);
}
