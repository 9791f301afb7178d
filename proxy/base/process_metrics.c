/* Memory, processor time, descriptors and start of the process. */
#include "proxy/base/process_metrics.h"

#include "proxy/base/command_line.h"
#include "rules/rule/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int memory = -1;  /* /proc/self/statm */
static DIR *descriptors; /* /proc/self/fd */
static struct timespec started;

void process_metrics_open(void)
{
	memory = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	descriptors = opendir("/proc/self/fd");
	clock_gettime(CLOCK_REALTIME, &started);
}

/* -1: not known. */
static int64_t resident_bytes(void)
{
	char text[128] = "";
	const char *second;

	if (memory < 0 || pread(memory, text, sizeof(text) - 1, 0) <= 0)
		return -1;
	second = strchr(text, ' ');
	return second ? strtoll(second, NULL, 10) * sysconf(_SC_PAGESIZE) : -1;
}

static int64_t open_descriptors(void)
{
	int64_t count = 0;

	if (!descriptors)
		return -1;
	rewinddir(descriptors);
	for (const struct dirent *each; (each = readdir(descriptors));)
		count += each->d_name[0] != '.';
	return count;
}

struct process_figures process_figures(void)
{
	struct timespec used = {0};
	struct rlimit most = {0};

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	getrlimit(RLIMIT_NOFILE, &most);
	return (struct process_figures){resident_bytes(), open_descriptors(),
					(int64_t)most.rlim_cur,
					used.tv_sec * 1000 + used.tv_nsec / 1000000};
}

static void print(struct buffer *out, const char *type, const char *name, const char *help,
		  const char *value)
{
	text_append(out, "# HELP %s %s\n# TYPE %s %s\n%s %s\n", name, help, name, type, name,
		    value);
}

/* Nothing is printed of what is not known. */
static void print_count(struct buffer *out, const char *name, const char *help, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, value);
	if (value >= 0)
		print(out, "gauge", name, help, text);
}

static void print_seconds(struct buffer *out, const char *type, const char *name, const char *help,
			  struct timespec value)
{
	char text[48];

	snprintf(text, sizeof(text), "%lld.%06ld", (long long)value.tv_sec, value.tv_nsec / 1000);
	print(out, type, name, help, text);
}

void process_metrics_print(struct buffer *out)
{
	struct timespec used = {0};
	struct rlimit most = {0};

	text_append(out,
		    "# HELP spillway_build_info Always 1; the label is the version.\n"
		    "# TYPE spillway_build_info gauge\n"
		    "spillway_build_info{version=\"%s\"} 1\n",
		    program_version());
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	print_seconds(out, "counter", "process_cpu_seconds_total",
		      "Processor time that the process has used.", used);
	print_count(out, "process_resident_memory_bytes",
		    "Memory of the process that is in use now.", resident_bytes());
	print_count(out, "process_open_fds", "Descriptors that are open.", open_descriptors());
	if (getrlimit(RLIMIT_NOFILE, &most) == 0)
		print_count(out, "process_max_fds", "Descriptors that may be open.",
			    (int64_t)most.rlim_cur);
	print_seconds(out, "gauge", "process_start_time_seconds",
		      "When the process started, in seconds since 1970.", started);
}
