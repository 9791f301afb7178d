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

bool (*memory_on_need)(size_t size, unsigned attempt);

void memory_need(size_t size, unsigned attempt)
{
	if (memory_on_need && memory_on_need(size, attempt))
		return;
	fputs("out of memory\n", stderr);
	abort();
}

void *must_malloc(size_t size)
{
	unsigned attempt = 0;
	void *memory;

	while (!(memory = malloc(size ? size : 1)))
		memory_need(size, attempt++);
	return memory;
}

void *must_calloc(size_t count, size_t size)
{
	unsigned attempt = 0;
	void *memory;

	while (!(memory = calloc(count ? count : 1, size ? size : 1)))
		memory_need(count * size, attempt++);
	return memory;
}

void *must_realloc(void *memory, size_t size)
{
	unsigned attempt = 0;
	void *moved;

	while (!(moved = realloc(memory, size ? size : 1)))
		memory_need(size, attempt++);
	return moved;
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
