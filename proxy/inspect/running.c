/* Asks the running Spillway of a configuration file. */
#include "proxy/inspect/running.h"

#include "proxy/base/config_file.h"
#include "proxy/check/ask_admin.h"

#include <stdio.h>
#include <stdlib.h>

#define URI_TOO_LONG 414

must_check bool running_open(struct running *running, const struct command_line *line)
{
	auto_free char *problems = NULL;
	auto_free char *mistake = NULL;

	*running = (struct running){0};
	running->config = config_load(line->values[OPTION_CONFIG], &problems);
	if (!running->config) {
		fputs(problems, stderr);
		return false;
	}
	if (!running->config->admin.address)
		mistake = bson_strdup("the file has no 'admin' address, by which a running "
				      "Spillway could be asked: add one, and start Spillway anew");
	else if (admin_files_load(&running->files, running->config, &mistake))
		return true;
	fprintf(stderr, "%s\n", mistake);
	running_close(running);
	return false;
}

void running_close(struct running *running)
{
	admin_files_fini(&running->files);
	config_free(running->config);
}

static void complain(const struct running *running)
{
	const char *address = running->config->admin.address;

	if (running->too_long)
		fprintf(stderr,
			"the command is too long to be asked for at the admin address '%s': "
			"explain it without --live\n",
			address);
	else
		fprintf(stderr,
			"no Spillway answers at the admin address '%s': see whether it runs with "
			"this file, and whether its token and certificate are those that the file "
			"names\n",
			address);
}

must_check bson_t *running_ask(struct running *running, const char *path)
{
	int status;
	auto_free char *answer = ask_admin_status(running->config, &running->files, path, &status);
	bson_t *document = answer ? bson_new_from_json((const uint8_t *)answer, -1, NULL) : NULL;

	running->too_long = status == URI_TOO_LONG;
	if (!document)
		complain(running);
	return document;
}
