/* Tests proxy/ownership/rule_owner.c and what it asks: rule_record.c, referrers.c, renamed.c,
 * neighbours.c. What goes to the server, byte for byte. */
#include "tests/unit/spilling.h"

#include "proxy/ownership/rule_owner.h"
#include "proxy/ownership/rule_record.h"

#define NONE SCRIPTED_BATCH("[]")
#define UUID(letter) "{'$binary': {'base64': 'AAAAAAAAAAAAAAAAAAAA" letter "A==', 'subType': '04'}}"
#define FORBIDDEN "{'ok': 0.0, 'code': 13, 'errmsg': 'not authorized'}"
#define OTHER_RECORD \
	"{'_id': {'namespace': 'shop.other', 'array': 'f'}, 'layout': {'overflow': " \
	"'more.books_more'}}"

typedef enum link_result (*asking)(struct link *link, struct mover_target *target, char *reason,
				   size_t size);

static void play(const struct rule *rule, asking ask, const char *reason,
		 const char *const *replies)
{
	struct mover_target target = spilling_target(rule);
	struct scripted script;
	char got[900] = "";

	scripted_begin(&script, SCRIPTED_MEMBER, replies);
	cr_assert_eq(ask(script.link, &target, got, sizeof(got)), LINK_DONE);
	cr_assert_str_eq(got, reason);
	scripted_end(&script);
}

#define expect(rule, ask, reason, ...) \
	play((rule), (ask), (reason), (const char *const[]){__VA_ARGS__, NULL})

Test(rule_owner, an_empty_overflow_is_recorded)
{
	expect(&full_rule, rule_owner_hold, "", NONE, NONE, NONE, SCRIPTED_DONE(1), NONE,
	       SCRIPTED_DONE(1), SCRIPTED_BATCH("[{'_id': {}}]"),
	       SCRIPTED_BATCH("[{'name': 'books', 'info': {'uuid': " UUID("B") "}}]"), NONE,
	       SCRIPTED_DONE(1));
}

Test(rule_owner, a_sample_of_documents_tells_whose_an_overflow_is)
{
	expect(&plain_rule, rule_owner_ask, "", NONE,
	       SCRIPTED_BATCH("[{'of': 7, '_spill': {'g': " G "}}]"),
	       SCRIPTED_BATCH("[{'_id': 7, " S(3, 1) "}]"));
	expect(&plain_rule, rule_owner_ask,
	       "documents of 'shop.others' refer to its overflow 'more.books_more', and no record "
	       "says that this is the rule's: correct the namespace, the array or the overflow in "
	       "the file",
	       NONE, "{'ok': 0.0, 'code': 50, 'errmsg': 'time is up'}",
	       SCRIPTED_BATCH("[{'of': 7, '_spill': {'g': " G "}}]"), NONE,
	       SCRIPTED_BATCH("[{'name': 'books'}, {'name': 'others'}]"),
	       SCRIPTED_BATCH("[{'_id': 7, " S(3, 1) "}]"));
}

Test(rule_owner, an_empty_overflow_that_another_record_names_is_taken_over)
{
	expect(&plain_rule, rule_owner_hold, "", NONE, SCRIPTED_BATCH("[" OTHER_RECORD "]"), NONE,
	       NONE, SCRIPTED_DONE(1), SCRIPTED_DONE(1), NONE, SCRIPTED_DONE(1), NONE);
}

static enum link_result ask_renamed(struct link *link, struct mover_target *target, char *reason,
				    size_t size)
{
	return rule_owner_renamed(link, target, reason, size);
}

Test(rule_owner, a_collection_that_is_gone_was_renamed)
{
	expect(&plain_rule, ask_renamed,
	       "documents of 'shop.new' refer to its overflow 'more.books_more': the collection "
	       "was "
	       "renamed; give it its name back, or drop it where nobody needs it",
	       NONE, SCRIPTED_BATCH("[{'uuid': " UUID("C") "}]"), NONE,
	       SCRIPTED_BATCH("[{'name': 'new'}]"), SCRIPTED_BATCH("[{'_id': 1}]"));
}

static enum link_result place(struct link *link, struct mover_target *target, char *reason,
			      size_t size)
{
	struct element id;
	struct place at;

	(void)reason;
	(void)size;
	cr_assert(document_find(made_bson("{'_id': 7}"), "_id", &id));
	at = (struct place){id.type, id.value};
	cr_assert_eq(rule_record_place(link, target, &at, 2), LINK_DONE);
	cr_assert_eq(rule_record_place(link, target, NULL, 0), LINK_DONE);
	cr_assert_eq(rule_record_write(link, target, true), LINK_DONE);
	return rule_record_remove(link, target);
}

Test(rule_owner, a_record_is_written_and_removed)
{
	expect(&full_rule, place, "", SCRIPTED_DONE(1), SCRIPTED_DONE(1), SCRIPTED_DONE(1),
	       SCRIPTED_DONE(1));
}

static void pass_by(void *context, struct bytes record)
{
	(void)context;
	(void)record;
}

static enum link_result look(struct link *link, struct mover_target *target, char *reason,
			     size_t size)
{
	bool found = false;

	(void)target;
	(void)reason;
	(void)size;
	cr_assert_eq(rule_record_each(link, pass_by, NULL), LINK_DONE);
	cr_assert_eq(rule_record_find_overflow(link, made_bson(OTHER_RECORD), &found), LINK_DONE);
	cr_assert(found);
	return LINK_DONE;
}

Test(rule_owner, records_are_read)
{
	expect(&plain_rule, look, "", SCRIPTED_BATCH("[" OTHER_RECORD "]"),
	       SCRIPTED_BATCH("[{'_id': 1}]"));
}
