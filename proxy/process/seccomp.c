/* Which system calls the process may still make. A program for the kernel's filter: the calls of a
 * list fail with EPERM, some by their arguments, all others pass.
 *
 *      architecture? - number - too new? - in the list? - opens to write? - a namespace? - passes
 */
#include "proxy/process/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0
#endif

#define OTHER_ABI 0x40000000U /* x32's calls have this bit */
/* What Linux 6.1 does not have may do what the list forbids, as fchmodat2 and setxattrat do. */
#define FIRST_UNKNOWN 451U
#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND)
#define NAMESPACES \
	((unsigned)(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | \
		    CLONE_NEWUTS | CLONE_NEWCGROUP))
#define PROGRAM_MAX 400
#define DATA(field) ((uint32_t)offsetof(struct seccomp_data, field))

static const int denied[] = {
	/* programs, other processes */
	SYS_execve,
	SYS_execveat,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_kcmp,
	SYS_pidfd_getfd,
	SYS_process_madvise,
	SYS_perf_event_open,
#if !defined(__SANITIZE_ADDRESS__) /* looks for leaks by it */
	SYS_ptrace,
#endif
	/* file systems */
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_move_mount,
	SYS_open_tree,
	SYS_fsopen,
	SYS_fsconfig,
	SYS_fsmount,
	SYS_fspick,
	SYS_mount_setattr,
	SYS_quotactl,
	SYS_quotactl_fd,
	SYS_swapon,
	SYS_swapoff,
	SYS_name_to_handle_at,
	SYS_open_by_handle_at,
	/* files */
	SYS_truncate,
	SYS_mknodat,
	SYS_mkdirat,
	SYS_unlinkat,
	SYS_symlinkat,
	SYS_linkat,
	SYS_renameat2,
	SYS_fchmod,
	SYS_fchmodat,
	SYS_fchown,
	SYS_fchownat,
	SYS_setxattr,
	SYS_lsetxattr,
	SYS_fsetxattr,
	SYS_removexattr,
	SYS_lremovexattr,
	SYS_fremovexattr,
	SYS_utimensat,
	/* the kernel */
	SYS_kexec_load,
	SYS_kexec_file_load,
	SYS_bpf,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_reboot,
	SYS_acct,
	SYS_syslog,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_clock_adjtime,
	SYS_adjtimex,
	SYS_sethostname,
	SYS_setdomainname,
	SYS_userfaultfd,
	SYS_io_uring_setup,
	SYS_io_uring_enter,
	SYS_io_uring_register,
	SYS_personality,
	/* keys */
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	/* users, namespaces */
	SYS_setuid,
	SYS_setgid,
	SYS_setreuid,
	SYS_setregid,
	SYS_setresuid,
	SYS_setresgid,
	SYS_setfsuid,
	SYS_setfsgid,
	SYS_setgroups,
	SYS_capset,
	SYS_unshare,
	SYS_setns,
#if defined(__x86_64__)
	SYS_creat,
	SYS_mknod,
	SYS_mkdir,
	SYS_rmdir,
	SYS_unlink,
	SYS_symlink,
	SYS_link,
	SYS_rename,
	SYS_renameat,
	SYS_chmod,
	SYS_chown,
	SYS_lchown,
	SYS_utime,
	SYS_utimes,
	SYS_futimesat,
	SYS_iopl,
	SYS_ioperm,
	SYS_modify_ldt,
#endif
};

struct program {
	struct sock_filter steps[PROGRAM_MAX];
	unsigned short count;
};

static void step(struct program *program, struct sock_filter one)
{
	require(program->count < PROGRAM_MAX);
	program->steps[program->count++] = one;
}

static void load(struct program *program, uint32_t offset)
{
	step(program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

static void end_with(struct program *program, uint32_t verdict)
{
	step(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

/* The next `skipped` steps are for this call alone. */
static void only_for(struct program *program, int call, uint8_t skipped)
{
	step(program,
	     (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, skipped));
}

static void refuse(struct program *program, int call, int error)
{
	only_for(program, call, 1);
	end_with(program, SECCOMP_RET_ERRNO | (uint32_t)error);
}

/* Refused where an argument, by its place, has one of these bits. */
static void refuse_bits(struct program *program, int call, unsigned argument, unsigned bits)
{
	only_for(program, call, 4);
	load(program, DATA(args) + argument * (uint32_t)sizeof(uint64_t));
	step(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
	end_with(program, SECCOMP_RET_ERRNO | EPERM);
	end_with(program, SECCOMP_RET_ALLOW);
}

static void write_program(struct program *program)
{
	load(program, DATA(arch));
	step(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
	end_with(program, SECCOMP_RET_KILL_PROCESS);
	load(program, DATA(nr));
	step(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, OTHER_ABI, 0, 1));
	end_with(program, SECCOMP_RET_ERRNO | EPERM);
	/* Callers know older calls. */
	step(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_UNKNOWN, 0, 1));
	end_with(program, SECCOMP_RET_ERRNO | ENOSYS);
	for (size_t i = 0; i < ARRAY_LENGTH(denied); i++)
		refuse(program, denied[i], EPERM);
	/* Their arguments are behind a pointer, and callers know older calls. */
	refuse(program, SYS_clone3, ENOSYS);
	refuse(program, SYS_openat2, ENOSYS);
	refuse_bits(program, SYS_clone, 0, NAMESPACES);
#if defined(__x86_64__)
	refuse_bits(program, SYS_open, 1, WRITES);
#endif
	refuse_bits(program, SYS_openat, 2, WRITES);
	end_with(program, SECCOMP_RET_ALLOW);
}

must_check bool seccomp_enter(void)
{
	struct program program = {.count = 0};
	struct sock_fprog filter = {.filter = program.steps};

	if (!ARCHITECTURE) {
		errno = ENOSYS;
		return false;
	}
	write_program(&program);
	filter.len = program.count;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}
