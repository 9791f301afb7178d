/* Expressions by which mongod tells a sound state from a damaged one. */
#include "rules/reassembly/sound.h"

#include "rules/rule/generation.h"
#include "rules/rule/names.h"

/* A whole number, not below 0. */
static void add_is_count(struct call *call, const char *path)
{
	struct call test;

	call_unary(call, "$isNumber", path);
	test = call_call(call, "$gte");
	call_text(&test, path);
	call_number(&test, 0);
	call_close(&test);
	test = call_call(call, "$eq");
	call_text(&test, path);
	call_unary(&test, "$trunc", path);
	call_close(&test);
}

/* {$or: [{$eq: [n, 0]}, <the document has the array, and its head>]} */
static void add_has_head(struct call *call, const char *array, const char *head, const char *count)
{
	struct call either = call_call(call, "$or"), test = call_call(&either, "$eq"), both;

	call_text(&test, count);
	call_number(&test, 0);
	call_close(&test);
	both = call_call(&either, "$and");
	call_unary(&both, "$isArray", array);
	test = call_call(&both, "$gte");
	call_unary(&test, "$size", array);
	call_text(&test, head);
	call_close(&test);
	call_close(&both);
	call_close(&either);
}

static void add_comparison(struct call *call, const char *verb, const char *path, int filled_with)
{
	struct call test = call_call(call, verb);
	uint8_t bytes[GENERATION_BYTES];
	char name[12];

	memset(bytes, filled_with, sizeof(bytes));
	call_text(&test, path);
	writer_binary(call->out, writer_index(name, test.place++),
		      (struct bytes){bytes, sizeof(bytes)});
	call_close(&test);
}

/* Tests of generation_read. mongod 6.0 has no operator that tells a subtype. It compares binaries
 * by length, then by subtype, then by their bytes: between these two lie just the sound names. */
static void add_generation_tests(struct call *call, const char *path)
{
	add_comparison(call, "$gte", path, 0x00);
	add_comparison(call, "$lte", path, 0xff);
}

/* What Spillway writes: {g: <16 bytes>, h, n} */
static void add_sound_state(struct call *call, const struct rule *rule)
{
	auto_text array = text_join("$", rule->array, ""),
		  state = text_join("$_spill.", rule->key, ""),
		  generation = text_join("$_spill.", rule->key, ".g"),
		  head = text_join("$_spill.", rule->key, ".h"),
		  count = text_join("$_spill.", rule->key, ".n");
	struct call all = call_call(call, "$and");

	call_type_is(&all, state.bytes, "object");
	add_generation_tests(&all, generation.bytes);
	add_is_count(&all, head.bytes);
	add_is_count(&all, count.bytes);
	add_has_head(&all, array.bytes, head.bytes, count.bytes);
	call_close(&all);
}

/* {$not: {$or: [<another array's alone>, <sound>]}}: of a document that has `_spill`. */
void sound_add_damaged(struct call *call, const struct rule *rule)
{
	auto_text state = text_join("$_spill.", rule->key, "");
	struct call not = call_call(call, "$not"), either = call_call(&not, "$or"),
		    both = call_call(&either, "$and");

	call_type_is(&both, "$" NAME_STATE, "object");
	call_type_is(&both, state.bytes, "missing");
	call_close(&both);
	add_sound_state(&either, rule);
	call_close(&either);
	call_close(&not );
}
