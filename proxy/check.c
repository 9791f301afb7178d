/* Checks a configuration file and shows it with its defaults filled in; then names the documents
 * that are never moved. */
#include "proxy/check.h"

#include "proxy/check_documents.h"
#include "proxy/config_file.h"

#include <stdio.h>
#include <stdlib.h>

int check_run(const char *config_path)
{
	auto_free char *problems = NULL;
	auto_free char *text = NULL;
	struct config *config = config_load(config_path, &problems);
	size_t found;

	if (!config) {
		fputs(problems, stderr);
		return 2;
	}
	text = config_print(config);
	fputs(text, stdout);
	fflush(stdout);
	found = check_documents(config);
	config_free(config);
	return found > 0 ? 1 : 0;
}
