/* Credentials of the process stay in its memory: no core dumps, and no debugger of the same user.
 */
#include "proxy/process/secrets.h"

#include "proxy/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

void secrets_keep(void)
{
	const struct rlimit none = {0, 0};
	const char *allowed = getenv(SECRETS_ALLOW_CORE);

	if (allowed && strcmp(allowed, "1") == 0)
		return;
	if (prctl(PR_SET_DUMPABLE, 0) != 0 || setrlimit(RLIMIT_CORE, &none) != 0)
		log_warning("1023 core dumps, which would hold passwords, could not be switched "
			    "off: %s",
			    strerror(errno));
}
