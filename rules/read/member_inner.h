/* What member.c and member_edited.c share. */
#pragma once

#include "rules/read/member.h"
#include "rules/rule/counts.h"

/* Elements of main's part of the array, or of an overflow document. Clients have no names that
 * begin so. */
#define MEMBER_LENGTH "_spill/length"

static inline bool member_is_edited(const struct member *member)
{
	return member->editions.later.data;
}

/* ---- member_edited.c: an array that was edited in place ---- */

/* Questions to the overflow, with what counts in the edition of MAIN's document. */
#define MEMBER_EDITED_PLACES \
	"projection: {_id: 0, _spill: 1, '" MEMBER_LENGTH "': {$size: '$@array'}}, "
#define MEMBER_EDITED_HIT \
	"{find: @collection, filter: {'@link': {$eq: @id}, " COUNTS_CONDITIONS \
	", $and: [{..@condition}]}, " MEMBER_EDITED_PLACES "limit: 1, singleBatch: true}"
#define MEMBER_EDITED_ALL \
	"{find: @collection, filter: {'@link': {$eq: @id}, " COUNTS_CONDITIONS \
	"}, sort: {@order: 1}, " MEMBER_EDITED_PLACES "batchSize: 2147483647, singleBatch: true}"
#define MEMBER_EDITED_LATER \
	"{find: @collection, filter: {'@link': {$eq: @id}, " COUNTS_CONDITIONS \
	", $and: [{'_spill.g': @later, '_spill.p': {$lt: @end}}]}, sort: {@order: " \
	"1}, " MEMBER_EDITED_PLACES "batchSize: 2147483647, singleBatch: true}"

void member_edited_write(struct buffer *out, const struct member *member, const char *question);
/* Of the document that HIT has found, or of those that the others have. */
enum member_found member_edited_take_hit(struct member *member, struct bytes document);
enum member_found member_edited_take_all(const struct member *member, struct cursor documents);
enum member_found member_edited_take_later(const struct member *member, struct cursor documents);
