/* Writes lines to a descriptor in a thread of its own: whoever has a line to say never waits.
 *
 * Lines wait in a ring of bounded size. When the ring is full, lines are dropped and counted until
 * half of the ring is free. Then one line says how many were lost. */
#pragma once

#include "protocol/base.h"

#include <stdatomic.h>

#define LOG_WRITER_LINE 4096 /* a write's most: pipes take that much at once */

struct log_writer;

/* Writes the line that tells of `dropped` lines, with its '\n'; returns its length. */
typedef size_t log_writer_tell(char *line, size_t size, int64_t dropped);

/* The same file as the descriptor's, to which a caller may write without waiting; -1: none. The
 * sandbox must not be entered yet. */
int log_writer_open(int descriptor);
/* `room`: bytes of the ring. The descriptor stays the caller's, and blocking if it is; `at_once`
 * (log_writer_open) is taken over. */
struct log_writer *log_writer_new(int descriptor, int at_once, size_t room, log_writer_tell *tell);
/* Any thread. `line` ends with '\n'. */
void log_writer_put(struct log_writer *writer, const char *line, size_t length);
/* Adds what was dropped, and what will be, to a counter; NULL: to none any more. */
void log_writer_count(struct log_writer *writer, _Atomic int64_t *counter);
/* True where all is written and the writer is freed. False where a reader did not take it within
 * `milliseconds`: the thread still waits for that reader, and the writer stays with it. */
must_check bool log_writer_stop(struct log_writer *writer, int64_t milliseconds);
