/* Membership of an array that was edited in place: what counts in one edition
 * (docs/internals/spill-protocol.md#membership).
 *
 * A batch of the later name holds what the array has at its positions. Of an older one a batch of
 * the later name may overrule a part: where two batch sizes have stored the same elements. */
#include "rules/read/member_inner.h"

#include "protocol/template.h"
#include "rules/rule/names.h"
#include "rules/rule/overflow_document.h"

void member_edited_write(struct buffer *out, const struct member *member, const char *question)
{
	const struct rule *rule = member->target->rule;

	template_write_fields(out, question,
			      fill("collection", member->target->overflow_collection),
			      fill("link", rule->overflow.link), fill("id", &member->id),
			      COUNTS_FILLS(&member->editions), fill("array", rule->overflow.array),
			      fill("order", overflow_order_path(rule)),
			      fill_document("condition", buffer_view(&member->probe.overflow)),
			      fill("end", member->hit_end));
}

/* False where it is not what was asked for. */
static bool read_counted(const struct member *member, struct bytes document,
			 struct counted *counted)
{
	struct element length;

	return placed_find(document, &counted->placed) &&
	       placed_counts(&counted->placed, &member->editions) &&
	       document_find(document, MEMBER_LENGTH, &length) &&
	       element_integer(&length, &counted->held) && counted->held >= 0;
}

static bool is_later(const struct member *member, const struct counted *counted)
{
	return bytes_equal(counted->placed.generation, member->editions.later);
}

/* Behind the positions of MAIN's state it may be newer than that. */
enum member_found member_edited_take_hit(struct member *member, struct bytes document)
{
	struct counted counted = {.held = 0};
	int64_t end;

	if (!read_counted(member, document, &counted))
		return MEMBER_UNSURE;
	if (is_later(member, &counted) && counted.placed.width >= 0)
		return MEMBER_THERE;
	end = counted.placed.position + counted.held;
	if (is_later(member, &counted))
		return end <= member->editions.moved ? MEMBER_THERE : MEMBER_CHANGED;
	member->hit = counted.placed.position;
	member->hit_end = end;
	return end <= member->editions.bound ? MEMBER_OLDER : MEMBER_UNSURE;
}

enum member_found member_edited_take_later(const struct member *member, struct cursor documents)
{
	struct element document;

	while (cursor_next(&documents, &document) == CURSOR_ELEMENT) {
		struct counted counted = {.held = 0};

		if (!read_counted(member, document.value, &counted) ||
		    placed_end(&counted.placed, &member->editions, counted.held) > member->hit)
			return MEMBER_UNSURE;
	}
	return MEMBER_THERE;
}

/* Each position is accounted for: HIT has looked at all that counts. */
enum member_found member_edited_take_all(const struct member *member, struct cursor documents)
{
	auto_buffer struct buffer list = {0};
	enum counts_step step = COUNTS_HOLE;
	const struct counted *of;
	struct element document;
	struct counts counts;
	int64_t skip, take;

	while (cursor_next(&documents, &document) == CURSOR_ELEMENT) {
		struct counted counted = {.held = 0};

		if (!read_counted(member, document.value, &counted))
			return MEMBER_UNSURE;
		buffer_append(&list, &counted, sizeof(counted));
	}
	if (list.length == 0)
		return MEMBER_CHANGED;
	counts_open(&counts, &member->editions, (struct counted *)(void *)list.data,
		    list.length / sizeof(struct counted));
	while ((step = counts_next(&counts, &of, &skip, &take)) == COUNTS_PIECE)
		;
	return step == COUNTS_END ? MEMBER_MISSING : MEMBER_CHANGED;
}
