/* The sandbox of `serve`: what takes over the process can start no program, write no file, and read
 * few. */
#pragma once

#include "rules/config/config.h"

struct sandbox {
	bool wanted;
	int landlock; /* the kernel's version; 0: none */
	bool filters; /* system calls */
	int error;    /* why not: errno's */
};

/* Before any thread starts: it holds for this one and those that it starts. The
 * configuration, and the files that it and the connection string name, such as certificates, stay
 * readable, also when they are replaced. */
struct sandbox sandbox_enter(const struct config *config);
/* Says in the log what there is, if something is missing. */
void sandbox_tell(const struct sandbox *sandbox);
