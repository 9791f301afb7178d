/* Tests rules/stream/change.c and change_write.c: an update as mongod tells it, and as clients see
 * it. The rule is on shop.books: array f, a hidden flag has_extras. */
#include "tests/unit/shop.h"

#include "protocol/writer.h"
#include "rules/stream/change.h"

static struct shop shop;

static const struct ruled_namespace *books(void)
{
	bool full;

	return namespace_cache_find(shop.cache, bytes_of("shop"), bytes_of("books"), &full);
}

#define A "{'$binary': {'base64': 'AAAAAAAAAAAAAAAAAAAAAA==', 'subType': '00'}}"
#define B "{'$binary': {'base64': 'BBBBBBBBBBBBBBBBBBBBBA==', 'subType': '00'}}"
#define STATE(g, h, n) "{'g': " g ", 'h': " h ", 'n': " n "}"
#define CHANGE(updated, removed, truncated) \
	"{'updatedFields': {" updated "}, 'removedFields': [" removed "], 'truncatedArrays': " \
	"[" truncated "]}"

struct change_case {
	const char *state; /* NULL: none */
	const char *change;
	enum change_meaning meaning;
	const char *seen; /* NULL: nothing is left; "?": it can't be told */
};

static struct array_state state_of(const char *json)
{
	struct element field = {.type = BSON_BYTE_DOCUMENT};
	struct array_state state;

	if (json)
		field.value = made_bson(json);
	cr_assert(array_state_read(json ? &field : NULL, &state));
	return state;
}

static void expect(const struct change_case *each, size_t number)
{
	struct change_task task = {.namespace = books()};
	struct array_state state = state_of(each->state), before = state;
	struct bytes change = made_bson(each->change);
	auto_buffer struct buffer out = {0};
	struct change_written written = {0};
	struct element seen;
	size_t start = writer_open(&out);
	bool told;

	task.meaning = change_advance(change, task.namespace->targets[0].rule, &state);
	if (state.alive)
		task.before = before;
	cr_expect_eq(task.meaning, each->meaning, "case %zu: %d", number, (int)task.meaning);
	told = change_write(change, &task, &out, &written);
	writer_close(&out, start);
	cr_expect_eq(told, !each->seen || strcmp(each->seen, "?") != 0, "case %zu", number);
	cr_expect_eq(written.left, told ? each->seen != NULL : written.left, "case %zu", number);
	if (!told || !each->seen)
		return;
	cr_assert(document_find(buffer_view(&out), "updateDescription", &seen));
	cr_expect(bytes_equal(seen.value, made_bson(each->seen)), "case %zu: %s", number,
		  made_json(seen.value));
}

Test(change, what_clients_see_of_an_update)
{
	static const char split[] = STATE(A, "3", "10"), whole[] = STATE(A, "3", "0"),
			  empty[] = STATE(A, "0", "10");
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
		expect(&cases[i], i);
	shop_close(&shop);
	made_free();
}

/* The client has set the array to what main holds: only the state's end is told. */
Test(change, an_array_set_to_what_is_stored_is_named)
{
	struct bytes change = made_bson(CHANGE("'x': 1", "'_spill.f'", ""));
	struct array_state state = state_of(STATE(A, "3", "10"));
	struct element array = {.type = BSON_BYTE_ARRAY, .value = made_bson("[1, 2]")};
	auto_buffer struct buffer out = {0};
	struct change_written written;
	struct change_task task;
	struct element seen;
	size_t start;

	shop = shop_open();
	task = (struct change_task){.namespace = books(), .set = array};
	task.meaning = change_advance(change, books()->targets[0].rule, &state);
	cr_assert_eq(task.meaning, CHANGE_SET);
	start = writer_open(&out);
	cr_assert(change_write(change, &task, &out, &written) && written.left);
	writer_close(&out, start);
	cr_assert(document_find(buffer_view(&out), "updateDescription", &seen));
	made_expect(seen.value, CHANGE("'x': 1, 'f': [1, 2]", "", ""));
	shop_close(&shop);
	made_free();
}

/* mongod tells an $addToSet as a write of the array. */
Test(change, a_written_array_is_whole_or_told_by_positions)
{
	struct bytes change = made_bson(CHANGE("'f': [1, 2, 3, 9]", "", ""));
	struct change_task task;
	auto_buffer struct buffer out = {0};
	struct change_written written;
	struct element seen;
	size_t start;

	shop = shop_open();
	task = (struct change_task){.namespace = books(), .before = state_of(STATE(A, "3", "2"))};
	start = writer_open(&out);
	cr_assert(change_write(change, &task, &out, &written));
	cr_assert(written.left && written.array.data, "the whole one is wanted");
	out.length = start + 4;
	task.by_positions = true;
	cr_assert(change_write(change, &task, &out, &written) && !written.array.data);
	writer_close(&out, start);
	cr_assert(document_find(buffer_view(&out), "updateDescription", &seen));
	made_expect(seen.value, CHANGE("'f.5': 9", "", ""));
	out.length = 0;
	start = writer_open(&out);
	task.whole =
		(struct element){.type = BSON_BYTE_ARRAY, .value = made_bson("[1, 2, 3, 4, 5, 9]")};
	task.by_positions = false;
	cr_assert(change_write(change, &task, &out, &written) && !written.array.data);
	writer_close(&out, start);
	cr_assert(document_find(buffer_view(&out), "updateDescription", &seen));
	made_expect(seen.value, CHANGE("'f': [1, 2, 3, 4, 5, 9]", "", ""));
	shop_close(&shop);
	made_free();
}
