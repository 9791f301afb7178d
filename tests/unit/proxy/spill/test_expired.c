/* Tests proxy/spill/expired.c: what goes to the server. */
#include "tests/unit/spilling.h"

#include "proxy/spill/expired.h"

#define AT_ONCE 1000 /* by one transaction */

/* That many expired copies, none of which has a number to hand on. */
static const char *found(size_t count)
{
	auto_buffer struct buffer list = {0};

	for (size_t i = 0; i < count; i++) {
		const char *each =
			made_text("%s{'_id': %zu, 'number': -1, 'position': 0}", i ? ", " : "", i);

		buffer_append(&list, each, strlen(each));
	}
	buffer_append(&list, "", 1);
	return made_text(SCRIPTED_BATCH("[%s]"), (const char *)list.data);
}

static size_t count_commands(const struct scripted *script, const char *name)
{
	size_t count = 0;

	for (size_t at = 0; at < script->commands.length;) {
		const uint8_t *command = script->commands.data + at;

		count += strcmp((const char *)command + 5, name) == 0;
		at += (size_t)load_int32(command);
	}
	return count;
}

static void remove_expired(const char *const *replies, size_t finds, size_t commits)
{
	const struct expired expired = {.any = true, .bound = 2, .edition = 3};
	struct mover_target target = spilling_target(&plain_rule);
	struct scripted script;
	struct element id;

	scripted_begin(&script, SCRIPTED_MEMBER, replies);
	cr_assert(document_find(made_bson("{'_id': 7}"), "_id", &id));
	cr_assert_eq(expired_remove(script.link, &target, &id, &expired), LINK_DONE);
	cr_assert_eq(count_commands(&script, "find"), finds);
	cr_assert_eq(count_commands(&script, "commitTransaction"), commits);
	scripted_end(&script);
}

Test(expired, what_was_removed_hands_its_number_on)
{
	remove_expired((const char *const[]){SCRIPTED_BATCH("[{'_id': 1, 'number': 2, 'position': "
							    "4}, {'_id': 5, 'number': -3, "
							    "'position': 0}]"),
					     SCRIPTED_DONE(2), SCRIPTED_DONE(1), NULL},
		       1, 1);
}

Test(expired, nothing_is_left_to_be_removed)
{
	remove_expired((const char *const[]){SCRIPTED_BATCH("[]"), NULL}, 1, 0);
}

/* One transaction with all of them could not end in time. */
Test(expired, many_go_by_several_transactions)
{
	const char *const many = found(AT_ONCE);

	remove_expired((const char *const[]){many, SCRIPTED_DONE(1000), SCRIPTED_DONE(1), many,
					     SCRIPTED_DONE(1000), SCRIPTED_DONE(1), found(1),
					     SCRIPTED_DONE(1), NULL},
		       3, 3);
}
