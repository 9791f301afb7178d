/* Preloaded into a program under test: allocations fail as the test says, in a file that both map
 * (support/failing.py). */
#include "tests/support/preloaded.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As support/failing.py has them. */
struct control {
	_Atomic int64_t least;   /* bytes: what is smaller is neither counted nor fails */
	_Atomic int64_t nth;     /* the first to fail; 0: none */
	_Atomic int64_t lasting; /* whether all that follow fail, too */
	_Atomic int64_t counted;
	_Atomic int64_t failed;
	_Atomic int64_t large; /* bytes: larger blocks are counted in `live` */
	_Atomic int64_t live;  /* that have not been freed */
	_Atomic int64_t room;  /* lasting: bytes that were unmapped since, for who comes next */
};

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

static struct control none, *control = &none;

__attribute__((constructor)) static void open_control(void)
{
	control = map_control("FAILING_MALLOC", &none, sizeof(none));
}

static bool is_out(void)
{
	return control->nth > 0 && control->lasting && control->counted >= control->nth;
}

static bool takes_room(int64_t size)
{
	int64_t room = control->room;

	while (room >= size)
		if (atomic_compare_exchange_weak(&control->room, &room, room - size))
			return true;
	return false;
}

static bool fails(size_t size)
{
	int64_t number;

	if (control == &none || (int64_t)size < control->least)
		return false;
	number = ++control->counted;
	if (control->nth == 0 || number < control->nth ||
	    (number > control->nth && !control->lasting))
		return false;
	if (number > control->nth && takes_room((int64_t)size))
		return false;
	control->failed++;
	errno = ENOMEM;
	return true;
}

static void *note(void *memory, int by)
{
	if (control->large > 0 && memory && (int64_t)malloc_usable_size(memory) >= control->large)
		control->live += by;
	return memory;
}

void *malloc(size_t size)
{
	return fails(size) ? NULL : note(__libc_malloc(size), 1);
}

void *calloc(size_t count, size_t size)
{
	return fails(count * size) ? NULL : note(__libc_calloc(count, size), 1);
}

void *realloc(void *memory, size_t size)
{
	void *moved;

	if (fails(size))
		return NULL;
	note(memory, -1);
	moved = __libc_realloc(memory, size);
	note(moved ? moved : memory, size > 0 || moved);
	return moved;
}

void free(void *memory)
{
	note(memory, -1);
	__libc_free(memory);
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
	if (is_out() && (int64_t)size >= control->least && !takes_room((int64_t)size)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
}

int munmap(void *at, size_t size)
{
	int result = (int)syscall(SYS_munmap, at, size);

	if (is_out())
		control->room += (int64_t)size;
	return result;
}
