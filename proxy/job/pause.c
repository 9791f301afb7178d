/* `spillway pause` and `spillway resume`: write into spillway.pauses which rules are paused. */
#include "proxy/job/pause.h"

#include "proxy/base/config_file.h"
#include "proxy/base/json_text.h"
#include "proxy/base/log.h"
#include "proxy/job/job.h"
#include "proxy/pace/pauses.h"
#include "rules/rule/text.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

struct pausing {
	const char *command;
	const struct config *config;
	const char *only; /* a rule's name; NULL: all of the file */
	struct link *link;
	bool pauses; /* else resumes */
	bool json;
};

static int fail(const struct pausing *pausing, int code, const char *ended, const char *text)
{
	auto_free char *plain = text_plain(text);

	if (pausing->json)
		json_print_failure(pausing->command, ended, plain);
	fprintf(stderr, "spillway: %s\n", plain);
	return code;
}

static void tell(const struct pausing *pausing, const char *rule, bool changed)
{
	if (pausing->json)
		return;
	if (pausing->pauses)
		printf("rule '%s' %s: nothing is moved under it until 'spillway resume'\n", rule,
		       changed ? "is paused" : "was paused already");
	else
		printf("rule '%s' %s\n", rule, changed ? "goes on" : "was not paused");
}

static enum link_result change(const struct pausing *pausing, const char *rule)
{
	char host[HOST_NAME_MAX + 1] = "";
	bool changed = false;
	enum link_result result;

	(void)gethostname(host, sizeof(host) - 1);
	result = pausing->pauses ? pauses_write(pausing->link, rule, host, &changed)
				 : pauses_remove(pausing->link, rule, &changed);
	if (result == LINK_DONE)
		tell(pausing, rule, changed);
	return result;
}

static int change_all(const struct pausing *pausing)
{
	enum link_result result = LINK_DONE;
	bool any = false;

	for (size_t i = 0; result == LINK_DONE && i < rule_set_count(pausing->config->rules); i++) {
		const char *name = rule_set_at(pausing->config->rules, i)->name;

		if (pausing->only && strcmp(name, pausing->only) != 0)
			continue;
		any = true;
		result = change(pausing, name);
	}
	if (result == LINK_DONE && pausing->only && !any)
		return fail(pausing, JOB_USAGE, "bad file", "the file has no rule of this name");
	if (result == LINK_DONE && pausing->json)
		printf("{ \"command\" : \"%s\", \"ended\" : \"done\" }\n", pausing->command);
	if (result == LINK_DONE)
		return JOB_GOOD;
	return fail(pausing, result == LINK_LOST ? JOB_NO_SERVER : JOB_FINDINGS,
		    result == LINK_LOST ? "lost" : "refused", link_error(pausing->link)->message);
}

static int run(const struct command_line *line, bool pauses)
{
	static const atomic_bool never;
	auto_free char *problems = NULL;
	struct pausing pausing = {.command = program_commands[line->command].name,
				  .only = line->argument_count ? line->arguments[0] : NULL,
				  .pauses = pauses,
				  .json = line->values[OPTION_JSON]};
	struct config *config = config_load(line->values[OPTION_CONFIG], &problems);
	bson_error_t error = {0};
	int code;

	if (!config) {
		if (pausing.json)
			json_print_failure(pausing.command, "bad file", problems);
		fputs(problems, stderr);
		return JOB_USAGE;
	}
	log_configure(CONFIG_LOG_ERROR, false);
	pausing.config = config;
	pausing.link = link_open(config->upstream_uri, &never, &error);
	code = pausing.link ? change_all(&pausing)
			    : fail(&pausing, JOB_NO_SERVER, "lost", error.message);
	link_free(pausing.link);
	config_free(config);
	return code;
}

int pause_main(const struct command_line *line)
{
	return run(line, true);
}

int resume_main(const struct command_line *line)
{
	return run(line, false);
}
