/* What every file may use: attributes, assertions on our own mistakes, cleanup helpers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define must_check __attribute__((warn_unused_result))

/* Always on, for mistakes of our own; never for bytes from the network, a file or a user. */
#define require(condition) ((condition) ? (void)0 : require_failed(#condition, __FILE__, __LINE__))

_Noreturn void require_failed(const char *condition, const char *file, int line);

/* Memory that is there or the process ends, as libbson does. */
void *must_malloc(size_t size) __attribute__((malloc, returns_nonnull));
void *must_calloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *must_realloc(void *memory, size_t size) __attribute__((returns_nonnull));
char *must_strndup(const char *text, size_t length) __attribute__((malloc, returns_nonnull));

void auto_free_memory(void *pointer_to_pointer);
#define auto_free __attribute__((cleanup(auto_free_memory)))

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static inline size_t least(size_t one, size_t other)
{
	return one < other ? one : other;
}
