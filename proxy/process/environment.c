/* Numbers in the environment. */
#include "proxy/process/environment.h"

#include <errno.h>
#include <stdlib.h>

int64_t environment_number(const char *variable)
{
	const char *text = getenv(variable);
	char *end;
	long long number;

	if (!text || !*text)
		return 0;
	errno = 0;
	number = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0' && number > 0 ? number : 0;
}
