/* Preloaded into a program under test: system calls on sockets do less than they were asked for, or
 * fail, as the test says, in a file that both map (support/failing.py). */
#include "tests/support/preloaded.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* As support/failing.py has them. */
struct control {
	_Atomic int64_t most;       /* bytes of one read or write; 0: as many as asked for */
	_Atomic int64_t read_error; /* errno; 0: none */
	_Atomic int64_t write_error;
	_Atomic int64_t accept_error;
	_Atomic int64_t every; /* of so many calls one fails */
	_Atomic int64_t calls;
	_Atomic int64_t failed; /* or did less than they were asked for */
};

static struct control none, *control = &none;

__attribute__((constructor)) static void open_control(void)
{
	control = map_control("FAILING_IO", &none, sizeof(none));
}

static bool is_socket(int file)
{
	socklen_t length = sizeof(int);
	int type, before = errno;
	bool is = getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM;

	errno = before;
	return is;
}

static bool fails(int64_t error)
{
	if (error == 0 || control->every == 0 || ++control->calls % control->every != 0)
		return false;
	control->failed++;
	errno = (int)error;
	return true;
}

static size_t part(size_t size)
{
	size_t most = (size_t)control->most;

	if (most == 0 || size <= most)
		return size;
	control->failed++;
	return most;
}

ssize_t read(int file, void *to, size_t size)
{
	bool odd = is_socket(file);

	if (odd && fails(control->read_error))
		return -1;
	return syscall(SYS_read, file, to, odd ? part(size) : size);
}

ssize_t write(int file, const void *from, size_t size)
{
	bool odd = is_socket(file);

	if (odd && fails(control->write_error))
		return -1;
	return syscall(SYS_write, file, from, odd ? part(size) : size);
}

ssize_t writev(int file, const struct iovec *parts, int count)
{
	if (!is_socket(file) || count < 1)
		return syscall(SYS_writev, file, parts, count);
	return write(file, parts[0].iov_base, parts[0].iov_len);
}

int accept4(int file, struct sockaddr *address, socklen_t *length, int flags)
{
	if (fails(control->accept_error))
		return -1;
	return (int)syscall(SYS_accept4, file, address, length, flags);
}
