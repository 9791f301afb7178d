/* Whether strangers can use the admin address: by its place, token and certificate. */
#include "proxy/check/check_inner.h"

#include "proxy/base/admin_files.h"

#include <stdlib.h>

static void check_files(struct check *check)
{
	struct admin_files files = {0};
	auto_free char *mistake = NULL;

	if (!admin_files_load(&files, check->config, &mistake))
		findings_add(&check->findings, FINDING_ADMIN_FILES, NULL, "%s", mistake);
	admin_files_fini(&files);
}

void check_admin(struct check *check)
{
	const char *address = check->config->admin.address;

	if (!address)
		return;
	check_files(check);
	switch (admin_exposure(check->config)) {
	case ADMIN_OPEN:
		findings_add(&check->findings, FINDING_ADMIN_OPEN, NULL,
			     "the admin address '%s' can be reached from other machines and asks "
			     "for no token",
			     address);
		break;
	case ADMIN_CLEAR:
		findings_add(&check->findings, FINDING_ADMIN_CLEAR, NULL,
			     "the admin address '%s' can be reached from other machines without "
			     "TLS, so its token can be read on the way",
			     address);
		break;
	case ADMIN_SAFE:
		break;
	}
}
