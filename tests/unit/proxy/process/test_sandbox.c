/* Tests landlock.c, seccomp.c and sandbox.c: each attempt is a process of its own. */
#include "proxy/process/sandbox.h"

#include "proxy/process/landlock.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_ENTERED 201

static int error_of(long result)
{
	return result < 0 ? errno : 0;
}

static int open_and_close(const char *path, int flags)
{
	int descriptor = open(path, flags, 0600);

	if (descriptor >= 0)
		close(descriptor);
	return error_of(descriptor);
}

#ifndef SPILLWAY_COVERAGE /* a program that counts what runs is not shut in */
static int starts_a_program(void)
{
	char *arguments[] = {"/bin/true", NULL};

	return error_of(execv(arguments[0], arguments));
}

static int starts_a_program_by_descriptor(void)
{
	char *arguments[] = {"/bin/true", NULL};

	return error_of(syscall(SYS_execveat, AT_FDCWD, arguments[0], arguments, NULL, 0));
}

static int writes_a_file(void)
{
	return open_and_close("/dev/null", O_WRONLY);
}

static int makes_a_file(void)
{
	return open_and_close("/tmp/spillway-sandbox-test", O_RDWR | O_CREAT);
}

static int removes_a_file(void)
{
	return error_of(unlink("/tmp/spillway-sandbox-test"));
}

static int changes_a_mode(void)
{
	return error_of(chmod("/tmp", 01777));
}

/* fchmodat2, of Linux 6.6: headers may not know it. */
static int changes_a_mode_by_a_later_call(void)
{
	return error_of(syscall(452, AT_FDCWD, "/tmp", 01777, 0));
}

static int mounts(void)
{
	return error_of(mount("none", "/tmp", "tmpfs", 0, NULL));
}

static int loads_a_module(void)
{
	return error_of(syscall(SYS_init_module, NULL, 0UL, ""));
}

static int loads_a_kernel(void)
{
	return error_of(syscall(SYS_kexec_load, 0UL, 0UL, NULL, 0UL));
}

static int loads_bpf(void)
{
	return error_of(syscall(SYS_bpf, 0, NULL, 0U));
}

static int asks_for_keys(void)
{
	return error_of(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, -1, 0));
}

static int handles_faults(void)
{
	return error_of(syscall(SYS_userfaultfd, 0));
}

static int changes_personality(void)
{
	return error_of(personality(0xffffffff));
}

static int changes_the_user(void)
{
	return error_of(setuid(getuid()));
}

static int reads_other_memory(void)
{
	return error_of(syscall(SYS_process_vm_readv, getppid(), NULL, 0UL, NULL, 0UL, 0UL));
}

static int makes_a_namespace(void)
{
	return error_of(unshare(CLONE_NEWUSER));
}

static int clones_a_namespace(void)
{
	return error_of(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, 0UL));
}

#if !defined(__SANITIZE_ADDRESS__)
static int traces(void)
{
	return error_of(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}
#endif

static void *run_thread(void *context)
{
	return context;
}

static int starts_a_thread(void)
{
	pthread_t thread;
	int error = pthread_create(&thread, NULL, run_thread, NULL);

	return error ? error : pthread_join(thread, NULL);
}

static int reads_the_resolvers_file(void)
{
	return open_and_close("/etc/nsswitch.conf", O_RDONLY);
}

static int reads_its_own_state(void)
{
	return open_and_close("/proc/self/status", O_RDONLY);
}

/* What the attempt returns in a process in the sandbox. */
static int in_sandbox(int (*attempt)(void))
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct config config = {0};
		struct sandbox sandbox = sandbox_enter(&config);

		_exit(sandbox.filters ? attempt() : NOT_ENTERED);
	}
	cr_assert_gt(child, 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status), "it ended by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

Test(sandbox, what_it_forbids_fails_with_eperm)
{
	static const struct {
		const char *name;
		int (*attempt)(void);
	} attempts[] = {
		{"exec", starts_a_program},
		{"execveat", starts_a_program_by_descriptor},
		{"open to write", writes_a_file},
		{"create", makes_a_file},
		{"unlink", removes_a_file},
		{"chmod", changes_a_mode},
		{"mount", mounts},
		{"init_module", loads_a_module},
		{"kexec_load", loads_a_kernel},
		{"bpf", loads_bpf},
		{"keyctl", asks_for_keys},
		{"userfaultfd", handles_faults},
		{"personality", changes_personality},
		{"setuid", changes_the_user},
		{"process_vm_readv", reads_other_memory},
		{"unshare", makes_a_namespace},
		{"clone", clones_a_namespace},
#if !defined(__SANITIZE_ADDRESS__)
		{"ptrace", traces},
#endif
	};

	for (size_t i = 0; i < ARRAY_LENGTH(attempts); i++) {
		int error = in_sandbox(attempts[i].attempt);

		cr_assert_eq(error, EPERM, "%s: %d", attempts[i].name, error);
	}
}

Test(sandbox, a_call_that_is_newer_than_the_list_is_not_there)
{
	cr_assert_eq(in_sandbox(changes_a_mode_by_a_later_call), ENOSYS);
}

Test(sandbox, what_serve_needs_goes_on)
{
	cr_assert_eq(in_sandbox(starts_a_thread), 0);
	cr_assert_eq(in_sandbox(reads_the_resolvers_file), 0);
	cr_assert_eq(in_sandbox(reads_its_own_state), 0);
}
#endif

static char folder[] = "/tmp/spillway-sandbox-XXXXXX";

static void write_text(const char *name)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	cr_assert(file);
	fputs("x", file);
	fclose(file);
}

/* Whether it is read with this folder allowed. */
static int read_with(const char *allowed)
{
	const char *const folders[] = {allowed, NULL}; /* NULL: none */
	char path[64];
	pid_t child = fork();
	int status;

	if (child == 0) {
		snprintf(path, sizeof(path), "%s/file", folder);
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
			_exit(NOT_ENTERED);
		_exit(landlock_enter(folders) > 0 ? open_and_close(path, O_RDONLY) : NOT_ENTERED);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	return WEXITSTATUS(status);
}

/* A kernel without landlock answers NOT_ENTERED to both. */
Test(sandbox, files_are_read_below_the_given_folders_alone)
{
	char path[64];
	int denied, allowed;

	cr_assert(mkdtemp(folder));
	write_text("file");
	denied = read_with(NULL);
	allowed = read_with(folder);
	snprintf(path, sizeof(path), "%s/file", folder);
	unlink(path);
	rmdir(folder);
	if (denied == NOT_ENTERED)
		cr_assert_eq(allowed, NOT_ENTERED);
	else
		cr_assert(denied == EACCES && allowed == 0, "%d, %d", denied, allowed);
}
