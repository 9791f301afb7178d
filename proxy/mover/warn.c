/* Tells, but not too often, that servers refuse what the mover asks. */
#include "proxy/mover/warn.h"
#include "proxy/base/clock.h"

#include "proxy/base/log.h"
#include "proxy/mover/queue.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#define KINDS_MAX 64
#define PERIOD_MS 60000

struct kind {
	const struct mover_target *target;
	int64_t code;
	int64_t told_at;
	int64_t held;
};

struct mover_warnings {
	pthread_mutex_t lock;
	size_t count;
	struct kind kinds[KINDS_MAX];
};

struct mover_warnings *mover_warnings_new(void)
{
	struct mover_warnings *warnings = must_calloc(1, sizeof(*warnings));

	pthread_mutex_init(&warnings->lock, NULL);
	return warnings;
}

void mover_warnings_free(struct mover_warnings *warnings)
{
	pthread_mutex_destroy(&warnings->lock);
	free(warnings);
}

/* Where there is no room, in the place of the one that was told first. */
static struct kind *kind_of(struct mover_warnings *warnings, const struct mover_target *target,
			    int64_t code, int64_t now)
{
	struct kind *oldest = warnings->kinds;

	for (struct kind *kind = warnings->kinds; kind < warnings->kinds + warnings->count;
	     kind++) {
		if (kind->target == target && kind->code == code)
			return kind;
		if (kind->told_at < oldest->told_at)
			oldest = kind;
	}
	if (warnings->count < KINDS_MAX)
		oldest = &warnings->kinds[warnings->count++];
	*oldest = (struct kind){.target = target, .code = code, .told_at = now - PERIOD_MS};
	return oldest;
}

must_check bool mover_warnings_due(struct mover_warnings *warnings,
				   const struct mover_target *target, int64_t code, int64_t now,
				   int64_t *held)
{
	struct kind *kind;
	bool due;

	pthread_mutex_lock(&warnings->lock);
	kind = kind_of(warnings, target, code, now);
	due = now >= kind->told_at + PERIOD_MS;
	*held = kind->held;
	kind->held = due ? 0 : kind->held + 1;
	kind->told_at = due ? now : kind->told_at;
	pthread_mutex_unlock(&warnings->lock);
	return due;
}

static const char *what_to_do(int64_t code)
{
	switch (code) {
	case ERROR_UNAUTHORIZED:
		return "'spillway check' prints the role that the upstream account needs";
	case ERROR_DOCUMENT_VALIDATION_FAILURE:
		return "a validator is in the way, of the collection or of its overflow: change it";
	case ERROR_DUPLICATE_KEY:
		return "a unique index is in the way: see 'spillway check'";
	default:
		return "elements stay in their documents until that is mended; see 'spillway "
		       "check'";
	}
}

/* Without what stands in a document: mongod tells the key that is there twice. */
static size_t length_of_words(const char *message)
{
	const char *key = strstr(message, " dup key:");

	return key ? (size_t)(key - message) : strlen(message);
}

void mover_warn(struct mover_warnings *warnings, const struct mover_target *target,
		const struct link_error *error)
{
	int64_t held;

	if (!mover_warnings_due(warnings, target, error->code, clock_now(), &held))
		return;
	log_warning("4001 mover: '%s.%s': rule '%s': tails don't move: code %" PRId64
		    ": %.*s (%" PRId64 " more like it since the last line); %s",
		    target->database, target->collection, target->rule->name, error->code,
		    (int)length_of_words(error->message), error->message, held,
		    what_to_do(error->code));
}
