/* Fuzzes the configuration file: any text is refused with its mistakes named, or read; and what is
 * read is printed so that it reads back as the same. */
#include "rules/config/config.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* libfyaml 0.7 loses a few hundred bytes for some quoted scalars (its issue 233). It never calls
 * us, so that nothing of ours can hide behind this. */
const char *__lsan_default_suppressions(void)
{
	return "leak:libfyaml.so";
}

static char *problems_of(struct bytes text, struct config **config)
{
	char *problems = NULL;

	*config = config_parse("f", text, NULL, &problems);
	require(!*config == !!problems);
	require(!problems || strncmp(problems, "f:", 2) == 0);
	return problems;
}

static void check_round_trip(const struct config *config)
{
	struct config *again;
	auto_free char *printed = config_print(config);
	auto_free char *problems = problems_of(bytes_of(printed), &again);
	auto_free char *printed_again = NULL;

	require(!problems);
	printed_again = config_print(again);
	require(strcmp(printed, printed_again) == 0);
	config_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config *config;
	char *problems = problems_of((struct bytes){data, size}, &config);

	if (config)
		check_round_trip(config);
	config_free(config);
	free(problems);
	return 0;
}
