#include "proxy/base/log_writer.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define LINE "0123456789abcde\n" /* 16 bytes */
#define ROOM 256

static size_t tell(char *line, size_t size, int64_t dropped)
{
	return (size_t)snprintf(line, size, "%" PRId64 " lost\n", dropped);
}

/* A pipe that takes nothing more; returns how much is in it. */
static size_t full_pipe(int ends[2])
{
	static const char zeros[4096];
	size_t in_it = 0;
	ssize_t written;

	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	while ((written = write(ends[1], zeros, sizeof(zeros))) > 0)
		in_it += (size_t)written;
	cr_assert_eq(fcntl(ends[1], F_SETFL, 0), 0);
	return in_it;
}

static void empty(int end, size_t length)
{
	char bytes[4096];

	while (length > 0) {
		ssize_t got = read(end, bytes, least(length, sizeof(bytes)));

		cr_assert_gt(got, 0);
		length -= (size_t)got;
	}
}

static void read_text(int end, char *text, size_t size)
{
	size_t length = 0;
	ssize_t got;

	while ((got = read(end, text + length, size - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
}

static void put_lines(struct log_writer *writer, int count)
{
	for (int i = 0; i < count; i++)
		log_writer_put(writer, LINE, strlen(LINE));
}

Test(log_writer, lines_come_whole_and_in_order)
{
	int ends[2];
	char line[32], got[32];
	struct log_writer *writer;

	cr_assert_eq(pipe(ends), 0);
	writer = log_writer_new(ends[1], -1, ROOM, tell);
	for (int i = 0; i < 1000; i++) {
		snprintf(line, sizeof(line), "line %d\n", i);
		log_writer_put(writer, line, strlen(line));
		cr_assert_eq(read(ends[0], got, sizeof(got)), (ssize_t)strlen(line));
		cr_assert(memcmp(got, line, strlen(line)) == 0, "%s", line);
	}
	cr_assert(log_writer_stop(writer, 60000));
	close(ends[0]);
	close(ends[1]);
}

/* The writer holds one line in its hand and the ring the rest; one line says how many are lost. */
Test(log_writer, what_does_not_fit_is_dropped_counted_and_told_once)
{
	_Atomic int64_t counter = 0;
	char text[8192], wanted[64];
	size_t in_it;
	int ends[2];
	struct log_writer *writer;
	int64_t lost;

	in_it = full_pipe(ends);
	writer = log_writer_new(ends[1], -1, ROOM, tell);
	put_lines(writer, 50);
	log_writer_count(writer, &counter);
	put_lines(writer, 50);
	lost = counter;
	cr_assert(lost == 100 - ROOM / 16 || lost == 99 - ROOM / 16, "%d lost", (int)lost);
	empty(ends[0], in_it);
	cr_assert(log_writer_stop(writer, 60000));
	close(ends[1]);
	read_text(ends[0], text, sizeof(text));
	snprintf(wanted, sizeof(wanted), LINE "%d lost\n", (int)lost);
	cr_assert_eq(strlen(text), (size_t)(100 - lost) * 16 + strlen(wanted) - 16);
	cr_assert_str_eq(text + strlen(text) - strlen(wanted), wanted);
	close(ends[0]);
}

Test(log_writer, after_a_loss_lines_go_on_behind_the_line_that_tells_of_it)
{
	char text[8192], before[16] = {0};
	size_t in_it;
	int ends[2];
	struct log_writer *writer;

	in_it = full_pipe(ends);
	writer = log_writer_new(ends[1], -1, ROOM, tell);
	put_lines(writer, 50);
	empty(ends[0], in_it);
	while (!strstr(before, "lost")) {
		cr_assert_gt(read(ends[0], before, 1), 0);
		if (*before == ' ')
			cr_assert_eq(read(ends[0], before, 5), 5);
	}
	log_writer_put(writer, "next\n", 5);
	cr_assert(log_writer_stop(writer, 60000));
	close(ends[1]);
	read_text(ends[0], text, sizeof(text));
	cr_assert_str_eq(text, "next\n");
	close(ends[0]);
}

Test(log_writer, a_reader_that_never_reads_does_not_hold_up_the_end)
{
	int ends[2];
	static struct log_writer *writer; /* nobody can free it: no leak */

	(void)full_pipe(ends);
	writer = log_writer_new(ends[1], -1, ROOM, tell);
	put_lines(writer, 1);
	cr_assert_not(log_writer_stop(writer, 10));
	log_writer_put(writer, LINE, strlen(LINE)); /* dropped, and nobody waits */
	close(ends[0]);
}
