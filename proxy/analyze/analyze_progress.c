/* What `analyze` says on a terminal while it works. */
#include "proxy/analyze/analyze_progress.h"

#include "proxy/base/clock.h"

#include <stdio.h>
#include <unistd.h>

#define SHOW_MS 200

bool progress_seen(void)
{
	return isatty(STDERR_FILENO);
}

void progress_say(const char *text)
{
	if (progress_seen())
		fprintf(stderr, "\r\033[K%s", text ? text : "");
}

void progress_show(int64_t looked, int64_t total, int64_t began, int64_t *told)
{
	int64_t now = clock_now(), passed = now - began + 1;

	if (!progress_seen() || looked == 0 || now - *told < SHOW_MS)
		return;
	*told = now;
	progress_say("");
	fprintf(stderr, "%lld of about %lld documents (%lld %%) looked at, %lld documents a second",
		(long long)looked, (long long)total,
		(long long)(total > looked ? looked * 100 / total : 100),
		(long long)(looked * 1000 / passed));
	if (total > looked)
		fprintf(stderr, ", %lld s to go",
			(long long)((total - looked) * passed / looked / 1000));
}
