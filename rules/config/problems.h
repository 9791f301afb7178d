/* What is wrong with a configuration file: collected, then shown in the order of the file. */
#pragma once

#include "protocol/bytes.h"

/* Where something stands; both count from 1. */
struct place {
	int line;
	int column;
	const char *file; /* an included one; NULL: the configuration file; not owned */
};

struct problem {
	struct place at;
	char *text;
};

/* All zeros but the name is none. Beyond PROBLEMS_MAX they are only counted. */
#define PROBLEMS_MAX 200
struct problems {
	const char *name; /* of the file; not owned */
	struct problem *items;
	size_t count;
	size_t unheld; /* how many more there were */
};

void problem_add(struct problems *problems, struct place at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* One line each, `NAME:LINE:COLUMN: text`; freed by the caller. Empties `problems`. */
char *problems_steal(struct problems *problems);
void problems_fini(struct problems *problems);
