/* Tests rules/stages/mixed_paths.c: what it takes on a collection with many rules. */
#include "tests/unit/wire_make.h"

#include "protocol/writer.h"
#include "rules/stages/mixed_paths.h"

#include <stdio.h>
#include <time.h>

#define RULES 155
#define STAGES 1000
#define MOST_SECONDS 5 /* some tenths of one; all stages behind for each array take a minute */

static struct rule rules[RULES];
static struct target targets[RULES];
static char arrays[RULES][16];

static struct ruled_namespace many_rules(void)
{
	for (size_t i = 0; i < RULES; i++) {
		snprintf(arrays[i], sizeof(arrays[i]), "a%zu", i);
		rules[i].array = arrays[i];
		targets[i].rule = &rules[i];
	}
	return (struct ruled_namespace){.targets = targets, .target_count = RULES};
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The stages that are written before these: each is STAGES times in a pipeline, before `last`. */
static size_t written_before(const char *json, const char *last)
{
	const struct ruled_namespace namespace = many_rules();
	auto_buffer struct buffer pipeline = {0}, out = {0};
	struct bytes stage = made_bson(json);
	size_t start = writer_open(&pipeline), place = 0;
	struct element each;
	struct cursor cursor;
	char index[12];

	for (size_t i = 0; i < STAGES; i++)
		writer_document(&pipeline, writer_index(index, i), stage);
	writer_document(&pipeline, writer_index(index, STAGES), made_bson(last));
	writer_close(&pipeline, start);
	cr_assert(cursor_open(&cursor, buffer_view(&pipeline)));
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
		unmixed_write(&out, &place, &each, cursor, UNMIXED_LATER, &namespace);
	return place;
}

Test(mixed_paths, many_stages_of_a_collection_with_many_rules_are_looked_at_once)
{
	double start = seconds();

	cr_expect_eq(written_before("{'$match': {'g': 1}}", "{'$count': 'n'}"), 0);
	cr_expect_eq(written_before("{'$sort': {'a7.x': 1}}", "{'$skip': 1}"), 0);
	cr_expect_eq(written_before("{'$sort': {'a7.x': 1, 'a9.0': 1}}", "{'$count': 'n'}"),
		     2 * STAGES);
	cr_expect_eq(written_before("{'$densify': {'field': 'a7.x'}}", "{'$count': 'n'}"), STAGES);
	cr_expect_lt(seconds() - start, MOST_SECONDS);
}
