/* What the libraries share that are preloaded into a program under test: a file that the program
 * and the test both map (support/failing.py). */
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The file that the environment names; `none` where it names none. */
static inline void *map_control(const char *variable, void *none, size_t size)
{
	const char *path = getenv(variable);
	int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *mapped;

	if (file < 0)
		return none;
	mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	return mapped == MAP_FAILED ? none : mapped;
}
