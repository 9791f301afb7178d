#include "proxy/client/deadlines.h"

#include "tests/unit/unit.h"

Test(deadlines, the_longest_running_is_the_first)
{
	struct deadline_list list = {0};
	struct deadline one = {0}, two = {0}, three = {0};

	deadline_begin(&list, &one, 5);
	deadline_begin(&list, &two, 6);
	deadline_begin(&list, &three, 7);
	cr_expect(list.first == &one && one.runs && one.since == 5);
	deadline_begin(&list, &one, 8);
	cr_expect(list.first == &two && list.last == &one && one.since == 8);
	deadline_end(&list, &three);
	cr_expect(two.next == &one && one.previous == &two && !three.runs);
	deadline_end(&list, &three);
	deadline_end(&list, &two);
	deadline_end(&list, &one);
	cr_expect(!list.first && !list.last);
}

Test(deadlines, one_alone_begins_anew)
{
	struct deadline_list list = {0};
	struct deadline one = {0};

	deadline_begin(&list, &one, 5);
	deadline_begin(&list, &one, 9);
	cr_expect(list.first == &one && list.last == &one && !one.next && !one.previous);
	cr_expect(one.since == 9);
}
