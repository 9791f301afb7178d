/* Whether the servers take writes, and a majority acknowledges them. */
#include "proxy/upstream/majority.h"

#include "protocol/cursor.h"
#include "rules/rule/text.h"

#define PATIENCE_MS 3000 /* a server may be busy, and an election takes as long */
#define STUCK_MS 5000    /* for which the majority may have nothing new while others write */

/* A Timestamp of the hello's lastWrite; 0 where there is none. */
static uint64_t time_at(struct bytes hello, const char *path)
{
	struct element time;

	return document_find_path(hello, path, &time) && time.type == BSON_BYTE_TIMESTAMP
		       ? (uint64_t)load_int64(time.value.data)
		       : 0;
}

/* Of all that the server knows of, a majority has all, or more than when it was asked before. */
static bool is_acknowledged(struct majority *majority, struct bytes hello, int64_t now)
{
	uint64_t written = time_at(hello, "lastWrite.opTime.ts");
	uint64_t acknowledged = time_at(hello, "lastWrite.majorityOpTime.ts");

	if (acknowledged >= written || acknowledged != majority->acknowledged)
		majority->moved_at = now;
	majority->acknowledged = acknowledged;
	return now < majority->moved_at + STUCK_MS;
}

static enum majority_lack lack_of(struct majority *majority, struct bytes hello, int64_t now)
{
	struct element element;

	if (hello.length == 0)
		return MAJORITY_NO_ANSWER;
	if (!document_find(hello, "setName", &element))
		return MAJORITY_THERE; /* a standalone, or a mongos */
	if (!document_find(hello, "primary", &element))
		return MAJORITY_NO_PRIMARY;
	return is_acknowledged(majority, hello, now) ? MAJORITY_THERE : MAJORITY_UNACKNOWLEDGED;
}

void majority_take(struct majority *majority, struct bytes hello, int64_t now)
{
	enum majority_lack lack = lack_of(majority, hello, now);

	if (lack == MAJORITY_THERE)
		majority->lacking_since = 0;
	else if (majority->lacking_since == 0)
		majority->lacking_since = now;
	majority->lack = lack;
}

bool majority_is_lost(const struct majority *majority, int64_t now)
{
	return majority->lack == MAJORITY_UNACKNOWLEDGED ||
	       (majority->lack != MAJORITY_THERE && now >= majority->lacking_since + PATIENCE_MS);
}

/* 'a', 'b' and 'c' */
static void say_silent(struct buffer *out, const struct majority_member *members, size_t count,
		       size_t silent)
{
	for (size_t i = 0; i < count; i++) {
		if (members[i].answers)
			continue;
		text_append(out, "'%s'%s", members[i].server,
			    --silent > 1 ? ", " : (silent == 1 ? " and " : ""));
	}
}

static void say_what(struct buffer *out, enum majority_lack lack, struct bytes set)
{
	struct text_quote name = text_quote(set);

	if (lack == MAJORITY_NO_PRIMARY)
		text_append(out, "the replica set '%s' has no primary: ", name.text);
	else if (lack == MAJORITY_UNACKNOWLEDGED)
		text_append(out,
			    "no majority of the replica set '%s' acknowledges writes: ", name.text);
}

void majority_say(struct buffer *out, enum majority_lack lack, struct bytes set,
		  const struct majority_member *members, size_t count)
{
	size_t silent = 0;

	for (size_t i = 0; i < count; i++)
		silent += !members[i].answers;
	say_what(out, lack, set);
	if (count == 0) {
		text_append(out, "none of the servers that the seed leads to answers");
		return;
	}
	if (silent == 0) {
		text_append(out, lack == MAJORITY_NO_PRIMARY
					 ? "all members answer; an election takes some seconds, "
					   "and where none comes of it rs.status() tells why"
					 : "all members answer; rs.status() tells which of them is "
					   "behind or recovering");
		return;
	}
	text_append(out, "%zu of %zu servers %s: ", silent, count,
		    silent == 1 ? "does not answer" : "do not answer");
	say_silent(out, members, count, silent);
	text_append(out, "; start %s, or see why %s can't be reached from here",
		    silent == 1 ? "it" : "them", silent == 1 ? "it" : "they");
}
