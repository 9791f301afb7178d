/* Tests proxy/ownership/recorded_rule.c: what a record says of a rule, and how another rule differs
 * from it.
 */
#include "tests/unit/unit.h"
#include "tests/unit/wire_make.h"

#include "proxy/ownership/recorded_rule.h"
#include "rules/config/config.h"
#include "rules/rule/text.h"

#include <stdlib.h>

#define RULE "name: r, namespace: shop.b*, array: list, threshold: 3"
#define OVERFLOW ", overflow: { link: of, array: more, batch: { field: i } }"

/* A rule of a file, at work on shop.books. */
struct ruled {
	struct config *config;
	struct target_set *targets;
	struct mover_target *target;
};

static struct ruled rule_of(const char *text)
{
	auto_buffer struct buffer file = {0};
	auto_free char *problems = NULL;
	struct ruled ruled;

	text_append(&file, "listen: [{ address: h:1, server: h:2 }]\nrules: [{ %s }]\n", text);
	ruled.config = config_parse("f", buffer_view(&file), NULL, &problems);
	cr_assert(ruled.config, "%s", problems);
	ruled.targets = target_set_new(ruled.config->rules);
	ruled.target = target_get(ruled.targets, rule_set_at(ruled.config->rules, 0),
				  bytes_of("shop"), bytes_of("books"));
	return ruled;
}

static void ruled_fini(struct ruled *ruled)
{
	target_set_free(ruled->targets);
	config_free(ruled->config);
}

static void write_record(struct buffer *out, const struct mover_target *target)
{
	size_t start = writer_open(out);

	recorded_rule_write_key(out, target);
	recorded_rule_write(out, target);
	writer_close(out, start);
}

/* What the record of the one rule says of the other; `difference` is freed by the caller. */
static enum rule_record compare(const char *was, const char *is, char **difference)
{
	struct ruled before = rule_of(was), after = rule_of(is);
	auto_buffer struct buffer record = {0}, told = {0};
	enum rule_record found;

	write_record(&record, before.target);
	found = recorded_rule_compare(buffer_view(&record), after.target, "limits");
	recorded_rule_tell_difference(&told, buffer_view(&record), after.target);
	*difference = text_steal(&told);
	ruled_fini(&before);
	ruled_fini(&after);
	return found;
}

static void expect(const char *was, const char *is, enum rule_record expected, const char *told)
{
	auto_free char *difference = NULL;

	cr_assert_eq(compare(was, is, &difference), expected, "%s", is);
	cr_assert_str_eq(difference, told);
}

Test(recorded_rule, what_has_changed_since)
{
	expect(RULE OVERFLOW, RULE OVERFLOW, RULE_RECORD_SAME, "");
	expect(RULE OVERFLOW, RULE ", settle: 2s" OVERFLOW, RULE_RECORD_OLDER, "");
	expect(RULE OVERFLOW, RULE ", max_bytes: 2MB" OVERFLOW, RULE_RECORD_LIMITS, "");
	expect(RULE OVERFLOW, RULE ", max_bytes: 2MB, flag: { field: f, value: 1 }" OVERFLOW,
	       RULE_RECORD_OTHER, ": 'flag.field' was not set and is 'f' in the file");
	expect(RULE OVERFLOW, RULE ", overflow: { link: of, array: most }", RULE_RECORD_OTHER,
	       ": 'overflow.array' was 'more' and is 'most' in the file, 'overflow.batch.field' "
	       "was 'i' and is not set in the file");
}

Test(recorded_rule, a_format_that_is_not_known)
{
	static const struct {
		const char *record;
		int64_t format;
	} cases[] = {{"{'rule': 'r'}", 0},         {"{'format': 1}", 0},
		     {"{'format': 1.0}", 0},       {"{'format': 2}", 2},
		     {"{'format': 0}", INT64_MAX}, {"{'format': '1'}", INT64_MAX}};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
		cr_expect_eq(recorded_rule_newer_format(made_bson(cases[i].record)),
			     cases[i].format, "%s", cases[i].record);
}

/* Those of the last release have neither of the two. */
Test(recorded_rule, a_record_without_the_rule_and_its_hash)
{
	struct ruled ruled = rule_of(RULE OVERFLOW);
	auto_buffer struct buffer whole = {0}, record = {0};
	size_t start = writer_open(&record);
	struct cursor cursor;
	struct element part;

	write_record(&whole, ruled.target);
	cr_assert(cursor_open(&cursor, buffer_view(&whole)));
	while (cursor_next(&cursor, &part) == CURSOR_ELEMENT)
		if (!element_is(&part, "resolved") && !element_is(&part, "hash"))
			writer_element(&record, &part);
	writer_close(&record, start);
	cr_assert_lt(record.length, whole.length);
	cr_assert_eq(recorded_rule_compare(buffer_view(&record), ruled.target, "limits"),
		     RULE_RECORD_OLDER);
	ruled_fini(&ruled);
}

/* Records are held against it by people and programs: it may not change by itself. */
Test(recorded_rule, the_hash_of_a_rule)
{
	struct ruled ruled = rule_of(RULE OVERFLOW);
	auto_buffer struct buffer record = {0};
	struct element hash;
	struct bytes text;

	write_record(&record, ruled.target);
	cr_assert(document_find(buffer_view(&record), "hash", &hash));
	cr_assert(element_string(&hash, &text));
	cr_assert_str_eq((const char *)text.data,
			 "99b33b308b3bcc99870ad2fe7807ef6c36be85e9976d2a8cfdac0893728fa8aa");
	ruled_fini(&ruled);
}

Test(recorded_rule, the_names_in_a_record)
{
	struct ruled ruled = rule_of(RULE OVERFLOW);
	auto_buffer struct buffer record = {0};
	struct recorded_name name;

	write_record(&record, ruled.target);
	cr_assert(recorded_rule_main(buffer_view(&record), &name));
	cr_assert(bytes_are(name.database, "shop") && bytes_are(name.collection, "books") &&
		  bytes_are(name.namespace, "shop.books") && bytes_are(name.array, "list"));
	cr_assert(recorded_rule_overflow(buffer_view(&record), &name));
	cr_assert(bytes_are(name.database, "shop") &&
		  bytes_are(name.collection, "books_list_overflow"));
	ruled_fini(&ruled);
}
