/* Tests proxy/upstream/pages.c: what goes to the server, byte for byte. */
#include "tests/unit/spilling.h"

#include "proxy/upstream/pages.h"

#define INDEX(number) \
	SCRIPTED_BATCH("[{'name': 'of_1', 'unique': true, 'key': {'of': 1, '" number "': 1}}]")

static void write_filter(struct buffer *out, const char *name, const struct rule *rule)
{
	writer_string(out, name, rule->name);
}

static void pass_by(void *context, struct bytes document)
{
	(void)document;
	++*(int *)context;
}

static void walk_ids(bool overflow)
{
	static const char *const replies[] = {SCRIPTED_BATCH("[{'_id': 100, 'of': 7}]"),
					      SCRIPTED_BATCH("[{'_id': 5}, {'of': 5}]"),
					      SCRIPTED_BATCH("[]"),
					      SCRIPTED_BATCH("[{'_id': 150}]"), NULL};
	struct mover_target target = spilling_target(&plain_rule);
	struct id_pages pages = {.target = &target, .size = 100, .overflow = overflow};
	struct scripted script;
	int count = 0;

	scripted_begin(&script, SCRIPTED_MEMBER, replies);
	pages.link = script.link;
	for (int i = 0; i < 2; i++)
		cr_assert_eq(id_pages_next(&pages, write_filter, pass_by, &count), LINK_DONE);
	cr_assert(pages.ended && count == 2); /* one has no _id: no mongod answers so */
	id_pages_fini(&pages);
	scripted_end(&script);
}

Test(pages, main_documents_and_overflow_by_id)
{
	walk_ids(false);
	walk_ids(true);
}

static void walk_links(const struct rule *rule, const char *const *replies)
{
	struct mover_target target = spilling_target(rule);
	struct link_pages pages = {.target = &target};
	struct scripted script;

	scripted_begin(&script, SCRIPTED_MEMBER, replies);
	pages.link = script.link;
	cr_assert_eq(link_pages_next(&pages), LINK_DONE);
	cr_assert_eq(pages.count, 2);
	cr_assert_eq(pages.all[0].moved, 4);
	cr_assert_eq(pages.all[0].time, 12);
	cr_assert_eq(pages.all[1].moved, LINKED_NO_DOCUMENT);
	/* As if the page had been full. */
	pages.ended = false;
	cr_assert_eq(link_pages_next(&pages), LINK_DONE);
	link_pages_fini(&pages);
	scripted_end(&script);
}

#define OWNER "[{'_id': 7, 'moved': 4, 'at': {'$date': {'$numberLong': '12'}}}]"

Test(pages, links_by_the_index_of_the_overflow)
{
	walk_links(&full_rule,
		   (const char *const[]){
			   INDEX("number"),
			   SCRIPTED_BATCH("[{'of': 7, 'number': 1}, {'of': 8, 'number': "
					  "1}]"),
			   SCRIPTED_BATCH(OWNER), INDEX("number"), SCRIPTED_BATCH("[]"), NULL});
	walk_links(&plain_rule,
		   (const char *const[]){
			   INDEX("_spill.i"),
			   SCRIPTED_BATCH("[{'of': 7, '_spill': {'i': 1}}, {'of': 8}]"),
			   SCRIPTED_BATCH(OWNER), INDEX("_spill.i"), SCRIPTED_BATCH("[]"), NULL});
}
