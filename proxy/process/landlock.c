/* Which files the process may still open: system files and certificates, to read. */
#include "proxy/process/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
/* All of version 1; each later version has one more. */
#define ACCESS_RIGHTS_1 ((1ULL << 13) - 1)
#define VERSION_REFER 2
#define VERSION_TRUNCATE 3
#define VERSION_DEVICES 5
#define RIGHT_REFER (1ULL << 13)
#define RIGHT_TRUNCATE (1ULL << 14)
#define RIGHT_DEVICES (1ULL << 15)

/* Libraries and their settings, the resolver's and time zone's files, certificates of
 * authorities; what the driver and the C library ask of the system. Folders, since files
 * are replaced. */
static const char *const system_folders[] = {
	"/usr",
	"/lib",
	"/lib64",
	"/etc",
	"/proc",
	"/sys/devices/system/cpu",
	"/run/systemd/resolve",
	"/run/resolvconf",
	"/run/NetworkManager",
	"/run/nscd",
	"/dev/null",
	"/dev/random",
	"/dev/urandom",
	NULL,
};

static uint64_t rights_of(long version)
{
	uint64_t rights = ACCESS_RIGHTS_1;

	if (version >= VERSION_REFER)
		rights |= RIGHT_REFER;
	if (version >= VERSION_TRUNCATE)
		rights |= RIGHT_TRUNCATE;
	if (version >= VERSION_DEVICES)
		rights |= RIGHT_DEVICES;
	return rights;
}

/* What is not there cannot be read either way. */
static void let_read(int ruleset, const char *path)
{
	struct landlock_path_beneath_attr below = {.allowed_access = READING};
	struct stat status;

	below.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (below.parent_fd < 0)
		return;
	if (fstat(below.parent_fd, &status) == 0 && !S_ISDIR(status.st_mode))
		below.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;
	(void)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &below, 0U);
	close(below.parent_fd);
}

int landlock_enter(const char *const *folders)
{
	long version =
		syscall(SYS_landlock_create_ruleset, NULL, 0UL, LANDLOCK_CREATE_RULESET_VERSION);
	struct landlock_ruleset_attr handled = {.handled_access_fs = rights_of(version)};
	int ruleset;
	bool entered;

	if (version < 1)
		return 0;
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &handled,
			       sizeof(handled.handled_access_fs), 0U);
	if (ruleset < 0)
		return 0;
	for (const char *const *folder = system_folders; *folder; folder++)
		let_read(ruleset, *folder);
	for (; *folders; folders++)
		let_read(ruleset, *folders);
	entered = syscall(SYS_landlock_restrict_self, ruleset, 0U) == 0;
	close(ruleset);
	return entered ? (int)version : 0;
}
