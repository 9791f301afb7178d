/* `spillway health`: asks the admin address for /readyz. */
#include "proxy/check/health.h"

#include "proxy/base/config_file.h"
#include "proxy/check/ask_admin.h"

#include <stdlib.h>

static int ask(const struct config *config, const struct admin_files *files)
{
	auto_free char *answer = ask_admin(config, files, "/readyz");

	/* A certificate that was renewed serves only after a reload: that is no reason to end. */
	if (!answer && files->cert)
		answer = ask_anybody(config, "/readyz");
	if (answer) {
		printf("%s%s", answer, strchr(answer, '\n') ? "" : "\n");
		return 0;
	}
	fprintf(stderr,
		"spillway health: '%s' does not answer that Spillway is ready: see the log of "
		"'spillway serve'\n",
		config->admin.address);
	return 1;
}

static int ask_as_configured(const struct config *config)
{
	auto_free char *mistake = NULL;
	struct admin_files files = {0};
	int code;

	if (!config->admin.address)
		return command_line_refuse(PROGRAM_HEALTH, "the file has no 'admin': write the "
							   "address that is to be asked there");
	if (!admin_files_load(&files, config, &mistake))
		return command_line_refuse(PROGRAM_HEALTH, "%s", mistake);
	code = ask(config, &files);
	admin_files_fini(&files);
	return code;
}

int health_main(const struct command_line *line)
{
	auto_free char *problems = NULL;
	struct config *config = config_load(line->values[OPTION_CONFIG], &problems);
	int code = EXIT_USAGE;

	if (config)
		code = ask_as_configured(config);
	else
		fputs(problems, stderr);
	config_free(config);
	return code;
}
