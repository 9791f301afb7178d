/* The running Spillway of a configuration file, asked by its admin address. */
#pragma once

#include "proxy/base/admin_files.h"
#include "proxy/base/command_line.h"

#include <bson/bson.h>

#define EXIT_NO_ANSWER 3

struct running {
	struct config *config;
	struct admin_files files;
	bool too_long; /* what was asked for last is more than an address may be */
};

/* Reads the file of --config, and what it names for `admin`. False: it is told what is wrong. */
must_check bool running_open(struct running *running, const struct command_line *line);
void running_close(struct running *running);
/* The answer, JSON, of a page of the admin address; NULL: it is told why there is none. */
must_check bson_t *running_ask(struct running *running, const char *path);
