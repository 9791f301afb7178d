/* One document under a rule, read from the server until it holds still, and judged. */
#include "proxy/verify/verify_look.h"
#include "proxy/upstream/target_read.h"

#include "proxy/upstream/clauses.h"
#include "proxy/mover/look.h"
#include "rules/rule/overflow_document.h"
#include "rules/rule/own_fields.h"

#include <bson/bson.h>
#include <time.h>

#define LOOKS 6
#define LOOK_PAUSE_MS 20

static void write_candidates(struct buffer *out, const char *name, const void *rule)
{
	look_write_candidates(out, name, rule);
}

#define CANDIDATES(flag) "{$or: [@candidates, {_spill: {$exists: true}}" flag "]}"

void verify_write_filter(struct buffer *out, const char *name, const struct rule *rule)
{
	const char *flag = rule->flag.field;
	const struct element value = {.type = rule->flag.value.type,
				      .value = rule->flag.value.value};

	template_write(out, name, flag ? CANDIDATES(", {'@flag': {$eq: @value}}") : CANDIDATES(""),
		       fill_with("candidates", write_candidates, rule),
		       fill("flag", flag ? flag : ""), fill("value", &value));
}

static void take_batch(void *context, struct bytes batch)
{
	verify_document_batch(context, batch);
}

static bool same_value(struct bytes one, struct bytes other, const char *path)
{
	struct element first, second;
	bool found = document_find_path(one, path, &first);

	if (found != document_find_path(other, path, &second))
		return false;
	return !found || (first.type == second.type && bytes_equal(first.value, second.value));
}

/* In all that is judged: an application may write other fields as often as it likes. */
static bool same_document(const struct rule *rule, struct bytes one, struct bytes other)
{
	bool same = same_value(one, other, "_spill") && same_value(one, other, rule->array);

	for (enum own_field field = OWN_FLAG; same && field < OWN_FIELDS; field++) {
		const char *name = own_field_name(rule, field);

		same = !name || same_value(one, other, name);
	}
	return same && (!rule->flag.field || same_value(one, other, rule->flag.field));
}

/* The document, its overflow, and the document once more: all of one moment where the two are the
 * same. */
static enum link_result look_once(struct job *job, const struct mover_target *target,
				  const struct element *id, struct verify_document *verify,
				  struct bytes main, bool *changed)
{
	int64_t young_from = (int64_t)time(NULL) - target->rule->gc_delay_ms / 1000 - 1;
	struct bytes again;
	uint8_t *image = NULL;
	enum link_result result;

	verify_document_init(verify, target->rule, main, young_from);
	result = target_read_overflow(job->link, target, id, take_batch, verify);
	if (result != LINK_DONE)
		return result;
	verify_document_end(verify, main);
	*changed = false;
	if (verify->count == 0)
		return LINK_DONE;
	result = target_read_document(job->link, target, id, &image, &again);
	*changed = result == LINK_DONE && (!image || !same_document(target->rule, main, again));
	bson_free(image);
	return result;
}

static void say_busy(struct verify_document *verify)
{
	verify->count = 1;
	verify->found[0].finding = VERIFY_BUSY;
	verify->found[0].detail[0] = '\0';
}

must_check enum link_result verify_look(struct job *job, const struct mover_target *target,
					const struct element *id, struct verify_document *verify,
					uint8_t **image, struct bytes *main)
{
	enum link_result result = LINK_DONE;
	bool changed = true;

	*verify = (struct verify_document){0};
	*image = NULL;
	for (int i = 0; changed && i < LOOKS; i++) {
		verify_document_fini(verify);
		*verify = (struct verify_document){0};
		bson_free(*image);
		*image = NULL;
		if (i > 0 && !job_pause(LOOK_PAUSE_MS))
			return LINK_LOST;
		result = target_read_document(job->link, target, id, image, main);
		if (result != LINK_DONE || !*image)
			return result;
		result = look_once(job, target, id, verify, *main, &changed);
		if (result != LINK_DONE)
			return result;
	}
	if (changed)
		say_busy(verify);
	return LINK_DONE;
}
