/* Says what is wanted of the overflow, how much that is, and asks for it. */
#include "rules/merge/merge_inner.h"

#include "protocol/writer.h"
#include "rules/rule/names.h"
#include "rules/rule/overflow_document.h"

/* The most bytes that one filter asks by; what is left is asked by another. */
#define FILTER_LIMIT (8 << 20)

/* How large a document will be. */
static size_t gap_wants(const struct gap *gap)
{
	return gap->cut.until - gap->cut.first;
}

/* How large what fills it will be. */
static double gap_guess(const struct gap *gap)
{
	return gap->there > 0 ? (double)gap_wants(gap) * (double)gap->size / (double)gap->there : 0;
}

static double entry_guess(const struct merge *merge, const struct entry *entry)
{
	double size = (double)entry->document.length;

	for (size_t i = entry->first_gap; i < entry->first_gap + entry->gap_count; i++)
		size += gap_guess(gap_at(merge, i));
	return size;
}

size_t merge_fitting(const struct merge *merge, size_t most)
{
	size_t count = merge_document_count(merge), fitting = 0;
	double size = 0;

	while (fitting < count) {
		size += entry_guess(merge, entry_at(merge, fitting));
		if (size > (double)most)
			break;
		fitting++;
	}
	return fitting == 0 && count > 0 ? 1 : fitting;
}

static double entry_wants(const struct merge *merge, const struct entry *entry)
{
	double wanted = 0;

	for (size_t i = entry->first_gap; i < entry->first_gap + entry->gap_count; i++)
		wanted += (double)gap_wants(gap_at(merge, i));
	return wanted;
}

size_t merge_half(const struct merge *merge)
{
	size_t count = merge_document_count(merge), half = 0;
	double wanted = 0, passed = 0;

	for (size_t i = 0; i < count; i++)
		wanted += entry_wants(merge, entry_at(merge, i));
	while (half + 1 < count && passed <= wanted / 2)
		passed += entry_wants(merge, entry_at(merge, half++));
	return half > 1 && passed > wanted / 2 ? half - 1 : half;
}

static bool generation_wanted(const struct generation *generation, size_t target)
{
	return generation->target == target && generation->users > 0 &&
	       generation->asked == ASKED_NOT;
}

bool merge_wants(const struct merge *merge, size_t target)
{
	for (size_t i = 0; i < generation_count(merge); i++) {
		if (generation_wanted(generation_at(merge, i), target))
			return true;
	}
	return false;
}

static bool gap_is_wanted(const struct merge *merge, const struct gap *gap, size_t target)
{
	return gap->id && gap->target == target &&
	       generation_wanted(generation_at(merge, gap->generation), target);
}

size_t merge_wanted_elements(const struct merge *merge, size_t target)
{
	size_t count = 0;

	for (size_t i = 0; i < gap_count(merge); i++)
		if (gap_is_wanted(merge, gap_at(merge, i), target))
			count += gap_wants(gap_at(merge, i));
	return count;
}

double merge_wanted_bytes(const struct merge *merge, size_t target)
{
	double bytes = 0;

	for (size_t i = 0; i < gap_count(merge); i++)
		if (gap_is_wanted(merge, gap_at(merge, i), target))
			bytes += gap_guess(gap_at(merge, i));
	return bytes;
}

/* {$in: [...]} of the links of generations that are wanted: these are being asked for then. */
static void write_links(struct merge *merge, size_t target, struct buffer *out)
{
	size_t condition =
		writer_open_document(out, merge->namespace->targets[target].rule->overflow.link);
	size_t list = writer_open_array(out, "$in");
	size_t count = 0;
	char name[12];

	for (size_t i = 0; i < generation_count(merge); i++) {
		struct generation *generation = generation_at(merge, i);

		if (!generation_wanted(generation, target))
			continue;
		if (count > 0 && out->length - condition > FILTER_LIMIT)
			break;
		writer_renamed(out, writer_index(name, count++), &generation->link);
		generation->asked = ASKED_NOW;
	}
	writer_close(out, list);
	writer_close(out, condition);
}

static void write_generations(struct merge *merge, struct buffer *out)
{
	size_t condition = writer_open_document(out, NAME_STATE ".g");
	size_t list = writer_open_array(out, "$in");
	size_t count = 0;
	char name[12];

	for (size_t i = 0; i < generation_count(merge); i++) {
		struct generation *generation = generation_at(merge, i);

		if (generation->asked != ASKED_NOW)
			continue;
		writer_binary(out, writer_index(name, count++),
			      (struct bytes){generation->id, GENERATION_BYTES});
		generation->asked = ASKED_BEFORE;
	}
	writer_close(out, list);
	writer_close(out, condition);
}

static void write_bound(struct buffer *out, const char *field, const char *verb, size_t bound)
{
	size_t condition = writer_open_document(out, field);

	writer_int64(out, verb, (int64_t)bound);
	writer_close(out, condition);
}

/* A batch holds at most batch_size elements: position x lies in batch x / batch_size + 1 or a later
 * one, and from there on the index leads. */
static void write_bounds(struct buffer *out, const struct rule *rule,
			 const struct generation *generation)
{
	size_t condition;

	if (generation->edited)
		return; /* copies have numbers of their own, and a position is no index any more */
	if (rule->overflow.layout == RULE_BATCHES) {
		write_bound(out, overflow_order_path(rule), "$gte",
			    generation->from / (size_t)rule->overflow.batch_size + 1);
		write_bound(out, NAME_STATE ".p", "$lt", generation->until);
		return;
	}
	condition = writer_open_document(out, NAME_STATE ".p");
	writer_int64(out, "$gte", (int64_t)generation->from);
	writer_int64(out, "$lt", (int64_t)generation->until);
	writer_close(out, condition);
}

/* The batches of one generation that overlap its windows. */
static void write_overlap(struct merge *merge, size_t target, struct generation *generation,
			  struct buffer *out)
{
	const struct rule *rule = merge->namespace->targets[target].rule;
	size_t link = writer_open_document(out, rule->overflow.link), list;

	list = writer_open_array(out, "$in");
	writer_renamed(out, "0", &generation->link);
	writer_close(out, list);
	writer_close(out, link);
	writer_binary(out, NAME_STATE ".g", (struct bytes){generation->id, GENERATION_BYTES});
	write_bounds(out, rule, generation);
	generation->asked = ASKED_BEFORE;
}

static size_t next_wanted(const struct merge *merge, size_t target, size_t at)
{
	while (at < generation_count(merge) && !generation_wanted(generation_at(merge, at), target))
		at++;
	return at;
}

/* {$or: [<batches>, ...]}, or the only one of them */
static void write_overlaps(struct merge *merge, size_t target, struct buffer *out)
{
	size_t at = next_wanted(merge, target, 0), start = out->length, place = 0, either, branch;
	char name[12];

	if (next_wanted(merge, target, at + 1) == generation_count(merge)) {
		write_overlap(merge, target, generation_at(merge, at), out);
		return;
	}
	either = writer_open_array(out, "$or");
	for (; at < generation_count(merge) && out->length - start < FILTER_LIMIT;
	     at = next_wanted(merge, target, at + 1)) {
		branch = writer_open_document(out, writer_index(name, place++));
		write_overlap(merge, target, generation_at(merge, at), out);
		writer_close(out, branch);
	}
	writer_close(out, either);
}

void merge_write_filter(struct merge *merge, size_t target, struct buffer *out, const char *name)
{
	size_t filter = writer_open_document(out, name);

	if (merge->windows || merge->marked) {
		write_overlaps(merge, target, out);
	} else {
		write_links(merge, target, out);
		write_generations(merge, out);
	}
	writer_close(out, filter);
}

void merge_write_sort(const struct merge *merge, size_t target, struct buffer *out,
		      const char *name)
{
	const struct rule *rule = merge->namespace->targets[target].rule;
	size_t sort = writer_open_document(out, name);

	writer_int32(out, rule->overflow.link, 1);
	writer_int32(out, overflow_order_path(rule), 1);
	writer_close(out, sort);
}
