/* Tests proxy/spill/group.c: what goes to the server, byte for byte. */
#include "tests/unit/spilling.h"

#include "proxy/spill/group.h"

#define DOCUMENT(id, state) "{'_id': " #id ", 'f': [1, 2, 3, 4]" state "}"

Test(group, documents_are_born_stored_and_cut_together)
{
	static const char *const replies[] = {
		SCRIPTED_BATCH("[" DOCUMENT(7, ) ", " DOCUMENT(8, ) ", " DOCUMENT(9, ) "]"),
		"{'ok': 1.0, 'values': [9]}",
		SCRIPTED_DONE(2),
		SCRIPTED_BATCH("[{'_id': 7, 'f': [1, 2, 3, 4], " S(
			3, 0) "}, {'_id': 8, 'f': [1, 2, 3, 4], " S(3, 0) "}]"),
		SCRIPTED_DONE(2),
		SCRIPTED_DONE(2),
		NULL};
	struct mover_target target = spilling_target(&plain_rule);
	struct scripted script;
	struct buffer ids = {0};
	struct group *group;

	scripted_begin(&script, SCRIPTED_MEMBER, replies);
	for (int i = 7; i < 10; i++) {
		struct bytes id = made_bson(made_text("{'_id': %d}", i));

		buffer_append(&ids, id.data, id.length);
	}
	group = group_new(script.link, &target, buffer_view(&ids));
	cr_assert_eq(group_look(group), LINK_DONE);
	cr_assert_eq(group_move(group), LINK_DONE);
	cr_assert(group->members[0].in && group->members[1].in && !group->members[2].in);
	group_free(group);
	buffer_fini(&ids);
	scripted_end(&script);
}
