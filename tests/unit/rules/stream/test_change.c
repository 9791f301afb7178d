/* Tests rules/stream/change.c and change_write.c: an update as mongod tells it, and as clients see
 * it. shop.books has one rule: array f, a hidden flag has_extras. shop.pairs has two: f and a.g. */
#include "tests/unit/shop.h"

#include "protocol/writer.h"
#include "rules/stream/change.h"

static struct shop shop;

static const struct ruled_namespace *found(const char *collection)
{
	bool full;

	return namespace_cache_find(shop.cache, bytes_of("shop"), bytes_of(collection), &full);
}

#define A "{'$binary': {'base64': 'AAAAAAAAAAAAAAAAAAAAAA==', 'subType': '00'}}"
#define B "{'$binary': {'base64': 'BBBBBBBBBBBBBBBBBBBBBA==', 'subType': '00'}}"
#define STATE(g, h, n) "{'g': " g ", 'h': " h ", 'n': " n "}"
#define CHANGE(updated, removed, truncated) \
	"{'updatedFields': {" updated "}, 'removedFields': [" removed "], 'truncatedArrays': " \
	"[" truncated "]}"

struct change_case {
	const char *states; /* `_spill` before the update; NULL: there is none */
	const char *change;
	enum change_meaning meaning;
	const char *seen; /* NULL: nothing is left; "?": it can't be told */
};

static struct change_task advanced(const struct ruled_namespace *namespace, const char *states,
				   struct bytes change)
{
	struct change_task task = {.namespace = namespace};
	struct array_states before = {0};

	cr_assert(array_states_read(namespace,
				    made_bson(states ? made_text("{'_spill': %s}", states) : "{}"),
				    &before));
	change_advance(change, &before, &task);
	array_states_fini(&before);
	return task;
}

static enum change_meaning meaning_of(const struct change_task *task)
{
	if (task->unclear)
		return CHANGE_UNCLEAR;
	if (task->edited)
		return CHANGE_EDITED;
	if (task->own)
		return CHANGE_OWN;
	return change_unknown(task) ? CHANGE_SET : CHANGE_CLIENTS;
}

static void expect(const char *collection, const struct change_case *each, size_t number)
{
	struct bytes change = made_bson(each->change);
	struct change_task task = advanced(found(collection), each->states, change);
	auto_buffer struct buffer out = {0};
	struct change_written written = {0};
	struct element seen;
	size_t start = writer_open(&out);
	bool told;

	cr_expect_eq(meaning_of(&task), each->meaning, "case %zu: %d", number,
		     (int)meaning_of(&task));
	told = change_write(change, &task, &out, &written);
	change_task_fini(&task);
	writer_close(&out, start);
	cr_expect_eq(told, !each->seen || strcmp(each->seen, "?") != 0, "case %zu", number);
	cr_expect_eq(written.left, told ? each->seen != NULL : written.left, "case %zu", number);
	if (!told || !each->seen)
		return;
	cr_assert(document_find(buffer_view(&out), "updateDescription", &seen));
	cr_expect(bytes_equal(seen.value, made_bson(each->seen)), "case %zu: %s", number,
		  made_json(seen.value));
}

#define ONE(state) "{'f': " state "}"

Test(change, what_clients_see_of_an_update)
{
	static const char split[] = ONE(STATE(A, "3", "10")), whole[] = ONE(STATE(A, "3", "0")),
			  empty[] = ONE(STATE(A, "0", "10"));
	const struct change_case cases[] = {
		/* no state: positions are those of the array */
		{NULL, CHANGE("'f.7': 1, 'x': 2", "'f.2'", "{'field': 'f', 'newSize': 2}"),
		 CHANGE_CLIENTS,
		 CHANGE("'f.7': 1, 'x': 2", "'f.2'", "{'field': 'f', 'newSize': 2}")},
		{whole, CHANGE("'f.7': 1", "", ""), CHANGE_CLIENTS, CHANGE("'f.7': 1", "", "")},
		/* behind the head the overflow stands in between */
		{split, CHANGE("'f.2': 1, 'f.3': 2, 'f.12.x': 3, 'fx.3': 4", "", ""),
		 CHANGE_CLIENTS, CHANGE("'f.2': 1, 'f.13': 2, 'f.22.x': 3, 'fx.3': 4", "", "")},
		{split, CHANGE("", "'f.4.x', 'y'", "{'field': 'f', 'newSize': 4}"), CHANGE_CLIENTS,
		 CHANGE("", "'f.14.x', 'y'", "{'field': 'f', 'newSize': 14}")},
		{split, CHANGE("", "", "{'field': 'f.3.y', 'newSize': 4}"), CHANGE_CLIENTS,
		 CHANGE("", "", "{'field': 'f.13.y', 'newSize': 4}")},
		{empty, CHANGE("'f': [1, 2]", "", ""), CHANGE_CLIENTS,
		 CHANGE("'f.10': 1, 'f.11': 2", "", "")},
		{split, CHANGE("'has_extras': true", "", ""), CHANGE_CLIENTS, NULL},
		/* birth, cut, the next generation, tidy, undo */
		{NULL, CHANGE("'_spill': {'f': " STATE(A, "3", "0") "}", "", ""), CHANGE_CLIENTS,
		 NULL},
		{NULL, CHANGE("'_spill.f': " STATE(A, "3", "0"), "", ""), CHANGE_CLIENTS, NULL},
		{split,
		 CHANGE("'_spill.f.n': 12, 'has_extras': true", "", "{'field': 'f', 'newSize': 3}"),
		 CHANGE_OWN, NULL},
		{empty, CHANGE("'f': [], '_spill.f.n': 12", "", ""), CHANGE_OWN, NULL},
		{split, CHANGE("'f': [1, 2, 3, 4], '_spill.f': " STATE(B, "2", "0"), "", ""),
		 CHANGE_OWN, NULL},
		{NULL, CHANGE("", "'_spill'", ""), CHANGE_CLIENTS, NULL},
		{whole, CHANGE("", "'_spill.f'", ""), CHANGE_CLIENTS, NULL},
		/* a fold takes all of `_spill`, a client's write the array's state */
		{split, CHANGE("'f': [1, 2]", "'_spill', 'has_extras'", ""), CHANGE_OWN, NULL},
		{split, CHANGE("'f': [1, 2], 'x': 1", "'has_extras', '_spill.f'", ""),
		 CHANGE_CLIENTS, CHANGE("'f': [1, 2], 'x': 1", "", "")},
		{split, CHANGE("", "'f', '_spill.f'", ""), CHANGE_CLIENTS, CHANGE("", "'f'", "")},
		/* nobody writes so */
		{split, CHANGE("", "'f'", ""), CHANGE_CLIENTS, "?"},
		{split, CHANGE("'f': 5", "", ""), CHANGE_CLIENTS, "?"},
		{split, CHANGE("'f.x': 5", "", ""), CHANGE_CLIENTS, "?"},
		{split, CHANGE("", "", "{'field': 'f', 'newSize': 2}"), CHANGE_CLIENTS, "?"},
		{NULL, CHANGE("'_spill.f': " STATE(A, "3", "5"), "", ""), CHANGE_UNCLEAR, "?"},
		{split, CHANGE("'_spill.f': " STATE(B, "3", "5"), "", ""), CHANGE_UNCLEAR, "?"},
		{split, CHANGE("'_spill.f.n': 'x'", "", ""), CHANGE_UNCLEAR, "?"},
		{split, CHANGE("'_spill.other.n': 1", "", ""), CHANGE_UNCLEAR, "?"},
		{NULL, "{'updatedFields': {}, 'something': {}}", CHANGE_CLIENTS, "?"},
	};

	shop = shop_open();
	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
		expect("books", &cases[i], i);
	shop_close(&shop);
	made_free();
}

#define EDITED(h, n, r, v, more) \
	"{'e': {'g': " A ", 'l': " B ", 'b': 4, 'h': " h ", 'n': " n ", 'r': " r ", 'v': " v more \
	"}}"

/* Positions of the overflow without elements are none of the array's. */
Test(change, what_clients_see_of_an_array_that_was_edited_in_place)
{
	static const char split[] = ONE(STATE(A, "3", "10")),
			  edited[] = ONE(EDITED("3", "10", "4", "2", "")),
			  emptied[] = ONE(EDITED("3", "4", "4", "2", ""));
	const struct change_case cases[] = {
		{edited, CHANGE("'f.2': 1, 'f.3': 2, 'f.12.x': 3", "'f.4.x'", ""), CHANGE_CLIENTS,
		 CHANGE("'f.2': 1, 'f.9': 2, 'f.18.x': 3", "'f.10.x'", "")},
		{edited, CHANGE("", "", "{'field': 'f', 'newSize': 4}"), CHANGE_CLIENTS,
		 CHANGE("", "", "{'field': 'f', 'newSize': 10}")},
		/* the form before the first edit, and what waits for one */
		{split, CHANGE("'_spill.f': " EDITED("3", "10", "0", "0", ", 'w': " A), "", ""),
		 CHANGE_CLIENTS, NULL},
		{edited, CHANGE("'_spill.f': " EDITED("3", "10", "4", "2", ", 'w': " A), "", ""),
		 CHANGE_CLIENTS, NULL},
		{edited, CHANGE("", "'_spill.f.e.w'", ""), CHANGE_CLIENTS, NULL},
		{edited, CHANGE("'_spill.f.t': 1", "", ""), CHANGE_CLIENTS, NULL},
		/* an edit */
		{edited, CHANGE("'_spill.f.e.v': 3, '_spill.f.e.r': 5", "'_spill.f.e.w'", ""),
		 CHANGE_EDITED, "?"},
		{edited, CHANGE("'f.3': 5, '_spill.f.e.v': 3, '_spill.f.e.h': 2", "", ""),
		 CHANGE_EDITED, "?"},
		{split, CHANGE("'_spill.f': " EDITED("3", "10", "1", "1", ""), "", ""),
		 CHANGE_EDITED, "?"},
		/* a cut, a fold, the next generation */
		{edited, CHANGE("'_spill.f.e.n': 12", "", "{'field': 'f', 'newSize': 3}"),
		 CHANGE_OWN, NULL},
		{edited, CHANGE("'f': [1, 2]", "'_spill'", ""), CHANGE_OWN, NULL},
		{edited, CHANGE("'f': [1, 2], '_spill.f': " STATE(B, "2", "0"), "", ""), CHANGE_OWN,
		 NULL},
		/* a client's write of the array */
		{edited, CHANGE("'f': [1, 2]", "'_spill.f'", ""), CHANGE_CLIENTS,
		 CHANGE("'f': [1, 2]", "", "")},
		{edited, CHANGE("", "'_spill.f'", ""), CHANGE_SET, NULL},
		/* no element is left in the overflow: the array is as it is stored */
		{emptied, CHANGE("", "'_spill.f'", ""), CHANGE_CLIENTS, NULL},
		{emptied, CHANGE("'f': [1, 2, 3, 4], 'f.1': 1", "", ""), CHANGE_CLIENTS,
		 CHANGE("'f': [1, 2, 3, 4], 'f.1': 1", "", "")},
		/* nobody writes so */
		{edited, CHANGE("'_spill.f.e': 1", "", ""), CHANGE_UNCLEAR, "?"},
		{edited, CHANGE("'_spill.f.e.g': 1", "", ""), CHANGE_UNCLEAR, "?"},
		{edited, CHANGE("'_spill.f.e.v': 'x'", "", ""), CHANGE_UNCLEAR, "?"},
	};

	shop = shop_open();
	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
		expect("books", &cases[i], i);
	shop_close(&shop);
	made_free();
}

/* Arrays f and a.g: each has a state of its own. */
Test(change, what_clients_see_of_several_arrays)
{
	static const char both[] = "{'f': " STATE(A, "3", "10") ", 'a/g': " STATE(B, "2", "5") "}",
			  other[] = "{'a/g': " STATE(B, "2", "5") "}";
	const struct change_case cases[] = {
		{both, CHANGE("'f.3': 1, 'a.g.2': 2, 'a.x': 3", "'a.g.1.y'", ""), CHANGE_CLIENTS,
		 CHANGE("'f.13': 1, 'a.g.7': 2, 'a.x': 3", "'a.g.1.y'", "")},
		{other, CHANGE("'f.3': 1, 'a.g.2': 2", "", "{'field': 'a.g', 'newSize': 2}"),
		 CHANGE_CLIENTS,
		 CHANGE("'f.3': 1, 'a.g.7': 2", "", "{'field': 'a.g', 'newSize': 7}")},
		/* a cut of one */
		{both, CHANGE("'_spill.a/g.n': 7", "", "{'field': 'a.g', 'newSize': 2}"),
		 CHANGE_OWN, NULL},
		/* which mongod may tell as a write of all that it is in */
		{both,
		 CHANGE("'a': {'g': [1, 2]}, '_spill': {'f': " STATE(
				A, "3", "10") ", 'a/g': " STATE(B, "2", "7") "}",
			"", ""),
		 CHANGE_OWN, NULL},
		/* a birth beside a state; births of both */
		{other, CHANGE("'_spill.f': " STATE(A, "3", "0"), "", ""), CHANGE_CLIENTS, NULL},
		/* a fold of one, of both */
		{both,
		 CHANGE("'f': [1, 2], '_spill': "
			"{'a/g': " STATE(B, "2", "5") "}",
			"", ""),
		 CHANGE_OWN, NULL},
		{both, CHANGE("'f': [1, 2], 'a.g': [1]", "'_spill'", ""), CHANGE_OWN, NULL},
		/* a client's write of one, of both */
		{both, CHANGE("'f': [1, 2], 'a.g.2': 3", "'_spill.f'", ""), CHANGE_CLIENTS,
		 CHANGE("'f': [1, 2], 'a.g.7': 3", "", "")},
		{both, CHANGE("'f': [1, 2], 'a': {'g': [3]}", "'_spill.f', '_spill.a/g'", ""),
		 CHANGE_CLIENTS, CHANGE("'f': [1, 2], 'a': {'g': [3]}", "", "")},
		{both, CHANGE("'a.g': [1, 2]", "'_spill.f', '_spill.a/g'", ""), CHANGE_SET,
		 CHANGE("'a.g': [1, 2]", "", "")},
		{both, CHANGE("'a': 5", "", ""), CHANGE_CLIENTS, "?"},
		{both, CHANGE("'f': [1, 2, 3, 4], 'a.g': [1, 2, 3]", "", ""), CHANGE_CLIENTS, "?"},
	};

	shop = shop_open();
	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
		expect("pairs", &cases[i], i);
	shop_close(&shop);
	made_free();
}

/* The client has set arrays to what main holds: only the end of their states is told. */
Test(change, arrays_set_to_what_is_stored_are_named)
{
	struct bytes change = made_bson(CHANGE("'x': 1", "'_spill.f', '_spill.a/g'", ""));
	struct element array = {.type = BSON_BYTE_ARRAY, .value = made_bson("[1, 2]")};
	auto_buffer struct buffer out = {0};
	struct change_written written;
	struct change_array *unknown;
	struct change_task task;
	struct element seen;
	size_t start;

	shop = shop_open();
	task = advanced(found("pairs"),
			"{'f': " STATE(A, "3", "10") ", 'a/g': " STATE(B, "2", "5") "}", change);
	while ((unknown = change_unknown(&task))) {
		unknown->set = array;
		unknown->asked = true;
	}
	start = writer_open(&out);
	cr_assert(change_write(change, &task, &out, &written) && written.left);
	writer_close(&out, start);
	cr_assert(document_find(buffer_view(&out), "updateDescription", &seen));
	made_expect(seen.value, CHANGE("'x': 1, 'f': [1, 2], 'a.g': [1, 2]", "", ""));
	change_task_fini(&task);
	shop_close(&shop);
	made_free();
}

static void expect_whole(const struct change_task *task, struct bytes change, const char *seen)
{
	auto_buffer struct buffer out = {0};
	struct change_written written;
	size_t start = writer_open(&out);
	struct element update;

	cr_assert(change_write(change, task, &out, &written) && written.stored.type == 0);
	writer_close(&out, start);
	cr_assert(document_find(buffer_view(&out), "updateDescription", &update));
	made_expect(update.value, seen);
}

/* mongod tells an $addToSet as a write of the array. */
Test(change, a_written_array_is_whole_or_told_by_positions)
{
	struct bytes change = made_bson(CHANGE("'f': [1, 2, 3, 9]", "", ""));
	auto_buffer struct buffer out = {0};
	struct change_written written;
	struct change_task task;

	shop = shop_open();
	task = advanced(found("books"), ONE(STATE(A, "3", "2")), change);
	(void)writer_open(&out);
	cr_assert(change_write(change, &task, &out, &written));
	cr_assert(written.left && element_is(&written.stored, "f"), "the whole one is wanted");
	task.by_positions = true;
	expect_whole(&task, change, CHANGE("'f.5': 9", "", ""));
	task.whole =
		(struct element){.type = BSON_BYTE_ARRAY, .value = made_bson("[1, 2, 3, 4, 5, 9]")};
	task.by_positions = false;
	expect_whole(&task, change, CHANGE("'f': [1, 2, 3, 4, 5, 9]", "", ""));
	change_task_fini(&task);
	shop_close(&shop);
	made_free();
}

/* So may a pipeline that changes a small document with an array in it. */
Test(change, a_written_parent_is_whole)
{
	struct bytes change = made_bson(CHANGE("'a': {'g': [1, 2, 9], 'x': 1}", "", ""));
	auto_buffer struct buffer out = {0};
	struct change_written written;
	struct change_task task;

	shop = shop_open();
	task = advanced(found("pairs"), "{'a/g': " STATE(A, "2", "2") "}", change);
	(void)writer_open(&out);
	cr_assert(change_write(change, &task, &out, &written));
	cr_assert(element_is(&written.stored, "a"), "the whole one is wanted");
	task.by_positions = true;
	cr_assert_not(change_write(change, &task, &out, &written), "it has no positions");
	task.by_positions = false;
	task.whole = (struct element){.type = BSON_BYTE_DOCUMENT,
				      .value = made_bson("{'g': [1, 2, 3, 4, 9], 'x': 1}")};
	expect_whole(&task, change, CHANGE("'a': {'g': [1, 2, 3, 4, 9], 'x': 1}", "", ""));
	change_task_fini(&task);
	shop_close(&shop);
	made_free();
}
