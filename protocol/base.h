/* What every file may use: attributes, assertions on our own mistakes, cleanup helpers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define must_check __attribute__((warn_unused_result))

/* Always on, for mistakes of our own; never for bytes from the network, a file or a user. */
#define require(condition) ((condition) ? (void)0 : require_failed(#condition, __FILE__, __LINE__))

_Noreturn void require_failed(const char *condition, const char *file, int line);

/* Memory that is there or the process ends, as libbson does. What may grow to megabytes with what
 * others send is better asked for by buffer_try_reserve. */
void *must_malloc(size_t size) __attribute__((malloc, returns_nonnull));
void *must_calloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *must_realloc(void *memory, size_t size) __attribute__((returns_nonnull));
char *must_strndup(const char *text, size_t length) __attribute__((malloc, returns_nonnull));

/* Where the system gives no memory: makes so much of it free, or waits, and says whether to try
 * again. NULL: nobody can. Set before there are threads. `attempt` counts from 0. */
extern bool (*memory_on_need)(size_t size, unsigned attempt);
/* The same; the process ends where it does not help. */
void memory_need(size_t size, unsigned attempt);

void auto_free_memory(void *pointer_to_pointer);
#define auto_free __attribute__((cleanup(auto_free_memory)))

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static inline size_t least(size_t one, size_t other)
{
	return one < other ? one : other;
}
