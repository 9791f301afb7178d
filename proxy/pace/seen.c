/* Outliers that stood there when a collection was swept for the first time. */
#include "proxy/pace/seen.h"

#include "rules/rule/hash.h"

#include <stdlib.h>

uint64_t seen_hash(const struct element *id, int64_t size)
{
	return hash_bytes(id->value, hash_fold((uint64_t)size + 1, 0x9e3779b97f4a7c15) + id->type);
}

must_check bool seen_add(struct target_seen *seen, uint64_t hash)
{
	if (seen->count == SEEN_MOST) {
		seen->full = true;
		return false;
	}
	if ((seen->count & (seen->count - 1)) == 0)
		seen->hashes =
			must_realloc(seen->hashes, (2 * seen->count + 1) * sizeof(*seen->hashes));
	seen->hashes[seen->count++] = hash;
	return true;
}

static int compare(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return a < b ? -1 : a > b;
}

void seen_end(struct target_seen *seen, bool whole)
{
	if (!whole) {
		free(seen->hashes);
		*seen = (struct target_seen){0};
		return;
	}
	if (seen->count > 0)
		qsort(seen->hashes, seen->count, sizeof(*seen->hashes), compare);
	seen->whole = true;
}

bool seen_waits(const struct target_seen *seen, uint64_t hash)
{
	return seen->full || (seen->count > 0 && bsearch(&hash, seen->hashes, seen->count,
							 sizeof(*seen->hashes), compare));
}
