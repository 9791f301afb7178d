/* Where `analyze` takes the connection string from: a file, the command line or the environment. */
#include "proxy/analyze/analyze_uri.h"

#include "protocol/bytes.h"
#include "proxy/base/config_file.h"
#include "rules/config/uri.h"
#include "rules/rule/text.h"

#include <stdio.h>

static char *mistake_of(const char *text)
{
	return must_strndup(text, strlen(text));
}

static char *from_file(const char *path, char **mistake)
{
	auto_free char *reason = NULL;
	auto_buffer struct buffer text = {0};
	char *uri;

	if (strstr(path, "://")) { /* of which nothing may be repeated */
		*mistake = mistake_of("--uri-file takes the name of a file that holds the URI");
		return NULL;
	}
	uri = config_read_uri(path, &reason);
	if (uri)
		return uri;
	text_append(&text, "--uri-file: '%s' %s", path, reason);
	*mistake = text_steal(&text);
	return NULL;
}

static char *from_argument(const char *argument)
{
	if (uri_has_secret(argument))
		fputs("spillway: the URI on the command line holds a password, which all users of "
		      "this machine can see in the list of processes; use --uri-file, "
		      "or " ANALYZE_URI " in the environment\n",
		      stderr);
	return must_strndup(argument, strlen(argument));
}

char *analyze_uri(const struct command_line *line, int *taken, char **mistake)
{
	const char *file = line->values[OPTION_URI_FILE], *environment = getenv(ANALYZE_URI);
	const char *first = line->argument_count > 0 ? line->arguments[0] : "";
	bool given = strstr(first, "://");

	*taken = 0;
	if (file && !given)
		return from_file(file, mistake);
	if (!file && !given && environment && *environment)
		return must_strndup(environment, strlen(environment));
	if (!file && line->argument_count > 0) {
		*taken = 1;
		return from_argument(first);
	}
	*mistake = mistake_of(file ? "URI and --uri-file are both given: leave one out"
				   : "URI and NAMESPACE are needed");
	return NULL;
}

void analyze_uri_free(char *uri)
{
	if (uri)
		bytes_wipe(bytes_of(uri));
	free(uri);
}
