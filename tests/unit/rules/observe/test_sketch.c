/* Tests rules/observe/sketch.c: who is met often is never missed, in fixed memory. */
#include "tests/unit/unit.h"

#include "rules/observe/sketch.h"

#include <stdio.h>

#define KEY 4711

static struct sketch sketch, other;

static void push(struct sketch *into, const char *collection, const char *array, int document,
		 int64_t elements)
{
	char id[16];

	snprintf(id, sizeof(id), "%d", document);
	sketch_count(into,
		     &(struct sketch_push){.database = bytes_of("d"),
					   .collection = bytes_of(collection),
					   .array = bytes_of(array),
					   .document = bytes_of(id),
					   .elements = elements,
					   .bytes = 10 * elements},
		     KEY);
}

Test(sketch, counts_arrays_and_their_documents)
{
	push(&sketch, "c", "a", 1, 5);
	push(&sketch, "c", "a", 2, 1);
	push(&sketch, "c", "a", 1, 2);
	push(&sketch, "c", "b", 1, 100);
	push(&sketch, "c", "none", 1, 0);
	sketch_sort(&sketch);
	cr_assert_str_eq(sketch.arrays[0].namespace, "d.c");
	cr_assert_str_eq(sketch.arrays[0].array, "b");
	cr_assert_str_eq(sketch.arrays[1].array, "a");
	cr_assert_eq(sketch.arrays[1].pushes, 3);
	cr_assert_eq(sketch.arrays[1].elements, 8);
	cr_assert_eq(sketch.arrays[1].bytes, 80);
	cr_assert_eq(sketch_grown(&sketch.arrays[1], 0), 7);
	cr_assert_eq(sketch_grown(&sketch.arrays[1], 1), 1);
	cr_assert_eq(sketch_grown(&sketch.arrays[1], 2), 0);
	cr_assert_eq(sketch_grown(&sketch.arrays[1], SKETCH_DOCUMENTS), 0);
	cr_assert_null(sketch.arrays[2].namespace);
	sketch_fini(&sketch);
}

/* Ten times as many arrays, and documents, as there are places. */
Test(sketch, a_heavy_hitter_is_found_among_many)
{
	char name[16];

	for (int i = 0; i < 10 * SKETCH_ARRAYS; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		push(&sketch, name, "a", i, 1);
		push(&sketch, "busy", "a", i % 3 ? i : -1, 1);
	}
	sketch_sort(&sketch);
	cr_assert_str_eq(sketch.arrays[0].namespace, "d.busy");
	cr_assert_eq(sketch.arrays[0].elements, 10 * SKETCH_ARRAYS);
	cr_assert_gt(sketch_grown(&sketch.arrays[0], 0), SKETCH_ARRAYS);
	cr_assert_leq(sketch_grown(&sketch.arrays[0], 0), 10 * SKETCH_ARRAYS / 3 + 1,
		      "what is said of a document is sure");
	sketch_fini(&sketch);
}

Test(sketch, what_several_have_counted_is_put_together)
{
	push(&sketch, "c", "a", 1, 5);
	push(&other, "c", "a", 1, 6);
	push(&other, "c", "a", 2, 7);
	push(&other, "e", "a", 1, 1);
	sketch_merge(&sketch, &other);
	sketch_sort(&sketch);
	cr_assert_eq(sketch.arrays[0].elements, 18);
	cr_assert_eq(sketch.arrays[0].pushes, 3);
	cr_assert_eq(sketch_grown(&sketch.arrays[0], 0), 11);
	cr_assert_eq(sketch_grown(&sketch.arrays[0], 1), 7);
	cr_assert_str_eq(sketch.arrays[1].namespace, "d.e");
	sketch_fini(&sketch);
	sketch_fini(&other);
}
