/* Writes lines to a descriptor in a thread of its own: whoever has a line to say never waits. */
#include "proxy/base/log_writer.h"

#include "proxy/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct log_writer {
	pthread_mutex_t lock; /* of all below; nobody waits for a reader under it */
	pthread_cond_t filled;
	pthread_cond_t ended_now;
	pthread_t thread;
	int descriptor;
	int at_once; /* the same file, to which a caller may write without waiting; -1: none */
	log_writer_tell *tell;
	char *ring;
	size_t room, from, used;
	bool dropping;
	int64_t dropped;          /* and not told of yet */
	int64_t uncounted;        /* dropped before there was a counter */
	_Atomic int64_t *counter; /* NULL: none */
	bool writing;             /* the thread has taken a line that is not written yet */
	bool stopping, ended;
};

/* ---- The ring, under the lock. */

static void append(struct log_writer *writer, const char *bytes, size_t length)
{
	size_t to = (writer->from + writer->used) % writer->room;
	size_t first = least(length, writer->room - to);

	memcpy(writer->ring + to, bytes, first);
	memcpy(writer->ring, bytes + first, length - first);
	writer->used += length;
}

/* The next line, or its first LOG_WRITER_LINE bytes. */
static size_t take(struct log_writer *writer, char *line)
{
	size_t length = 0;
	bool whole = false;

	while (!whole && length < writer->used && length < LOG_WRITER_LINE) {
		line[length] = writer->ring[(writer->from + length) % writer->room];
		whole = line[length++] == '\n';
	}
	writer->from = (writer->from + length) % writer->room;
	writer->used -= length;
	return length;
}

static void drop(struct log_writer *writer)
{
	writer->dropping = true;
	writer->dropped++;
	if (writer->counter)
		atomic_fetch_add_explicit(writer->counter, 1, memory_order_relaxed);
	else
		writer->uncounted++;
}

/* The line that tells of lost ones stands where they are missing. */
static void tell_dropped(struct log_writer *writer)
{
	char line[LOG_WRITER_LINE];
	size_t length = writer->tell(line, sizeof(line), writer->dropped);

	writer->dropping = false;
	writer->dropped = 0;
	append(writer, line, length);
}

/* How much of a line the descriptor took, if no earlier line waits: whoever reads the log finds the
 * line there as soon as what it tells of can be seen. */
static size_t put_at_once(const struct log_writer *writer, const char *line, size_t length)
{
	ssize_t written;

	if (writer->at_once < 0 || writer->used > 0 || writer->writing || writer->dropping ||
	    writer->stopping)
		return 0;
	written = write(writer->at_once, line, length);
	return written > 0 ? (size_t)written : 0;
}

void log_writer_put(struct log_writer *writer, const char *line, size_t length)
{
	size_t most, written;

	pthread_mutex_lock(&writer->lock);
	written = put_at_once(writer, line, length);
	line += written;
	length -= written;
	most = writer->dropping ? writer->room / 2 : writer->room;
	if (length == 0) {
		/* all of it is there */
	} else if (writer->stopping || writer->used + length > most) {
		drop(writer);
	} else {
		if (writer->dropping)
			tell_dropped(writer);
		append(writer, line, length);
		pthread_cond_signal(&writer->filled);
	}
	pthread_mutex_unlock(&writer->lock);
}

void log_writer_count(struct log_writer *writer, _Atomic int64_t *counter)
{
	pthread_mutex_lock(&writer->lock);
	writer->counter = counter;
	if (counter) {
		atomic_fetch_add_explicit(counter, writer->uncounted, memory_order_relaxed);
		writer->uncounted = 0;
	}
	pthread_mutex_unlock(&writer->lock);
}

/* ---- The thread. */

/* The descriptor may be shared with processes that do not want it to block. */
static bool wait_writable(int descriptor)
{
	struct pollfd wanted = {.fd = descriptor, .events = POLLOUT};

	return poll(&wanted, 1, -1) > 0 || errno == EINTR;
}

static void write_whole(int descriptor, const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t written = write(descriptor, bytes, length);

		if (written > 0) {
			bytes += written;
			length -= (size_t)written;
		} else if (written < 0 && errno == EAGAIN) {
			if (!wait_writable(descriptor))
				return;
		} else if (written == 0 || errno != EINTR) {
			return; /* nobody is there to be told */
		}
	}
}

static void *run(void *context)
{
	struct log_writer *writer = context;
	char line[LOG_WRITER_LINE];

	pthread_mutex_lock(&writer->lock);
	while (writer->used > 0 || !writer->stopping) {
		size_t length;

		if (writer->used == 0) {
			pthread_cond_wait(&writer->filled, &writer->lock);
			continue;
		}
		length = take(writer, line);
		writer->writing = true;
		pthread_mutex_unlock(&writer->lock);
		write_whole(writer->descriptor, line, length);
		pthread_mutex_lock(&writer->lock);
		writer->writing = false;
		if (writer->used == 0 && writer->dropping)
			tell_dropped(writer);
	}
	writer->ended = true;
	pthread_cond_signal(&writer->ended_now);
	pthread_mutex_unlock(&writer->lock);
	return NULL;
}

/* Signals are the main thread's business. */
static void start_thread(struct log_writer *writer)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	require(pthread_create(&writer->thread, NULL, run, writer) == 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A pipe is opened once more, because the descriptor's own flags are shared with other processes. A
 * file takes lines as they come. Anything else may make its writer wait. */
int log_writer_open(int descriptor)
{
	struct stat status;
	char path[32];

	if (fstat(descriptor, &status) != 0)
		return -1;
	if (S_ISREG(status.st_mode))
		return fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
	if (!S_ISFIFO(status.st_mode))
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
	return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
}

struct log_writer *log_writer_new(int descriptor, int at_once, size_t room, log_writer_tell *tell)
{
	struct log_writer *writer = must_calloc(1, sizeof(*writer));

	writer->descriptor = descriptor;
	writer->at_once = at_once;
	writer->tell = tell;
	writer->room = room;
	writer->ring = must_malloc(room);
	pthread_mutex_init(&writer->lock, NULL);
	pthread_cond_init(&writer->filled, NULL);
	clock_condition_init(&writer->ended_now);
	start_thread(writer);
	return writer;
}

must_check bool log_writer_stop(struct log_writer *writer, int64_t milliseconds)
{
	int64_t until = clock_now() + milliseconds;
	bool ended;

	pthread_mutex_lock(&writer->lock);
	writer->stopping = true;
	pthread_cond_signal(&writer->filled);
	while (!writer->ended && clock_now() < until)
		clock_condition_wait(&writer->ended_now, &writer->lock, until);
	ended = writer->ended;
	pthread_mutex_unlock(&writer->lock);
	if (!ended) {
		pthread_detach(writer->thread);
		return false;
	}
	pthread_join(writer->thread, NULL);
	pthread_cond_destroy(&writer->filled);
	pthread_cond_destroy(&writer->ended_now);
	pthread_mutex_destroy(&writer->lock);
	if (writer->at_once >= 0)
		close(writer->at_once);
	free(writer->ring);
	free(writer);
	return true;
}
