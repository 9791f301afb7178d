/* How many files the process may have open, and how many connections that leaves room for. */
#include "proxy/process/descriptors.h"

#include "proxy/base/log.h"

#include <inttypes.h>
#include <sys/resource.h>

#define HOW_TO_RAISE "LimitNOFILE= of a systemd unit, or 'ulimit -n' of a shell"

/* The limit of open files, once it is as high as it may be. */
static int64_t raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 1024;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	getrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur > INT32_MAX ? INT32_MAX : (int64_t)limit.rlim_cur;
}

static int64_t needed(int64_t connections)
{
	return DESCRIPTORS_RESERVED + DESCRIPTORS_OF_SESSION * connections;
}

must_check bool descriptors_raise(int64_t connections, int64_t *sockets, bson_error_t *error)
{
	int64_t limit = raise_limit();
	int64_t room = (limit - DESCRIPTORS_RESERVED) / DESCRIPTORS_OF_SESSION;

	if (room < CONNECTIONS_LEAST) {
		bson_set_error(error, 0, 0,
			       "the limit of open files is %" PRId64 ", which leaves room for "
			       "fewer than %d connections; raise the limit to %" PRId64
			       " for limits.connections (%" PRId64 "): " HOW_TO_RAISE,
			       limit, CONNECTIONS_LEAST, needed(connections), connections);
		return false;
	}
	if (room < connections)
		log_warning("1020 the limit of open files is %" PRId64
			    ", which leaves room for %" PRId64
			    " connections, fewer than limits.connections (%" PRId64
			    "); raise the limit to %" PRId64 ": " HOW_TO_RAISE,
			    limit, room, connections, needed(connections));
	*sockets = limit - DESCRIPTORS_RESERVED;
	return true;
}
