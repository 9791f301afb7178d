/* Tests rules/config/rule_document.c: a rule with its defaults filled in, under the file's own
 * keys. */
#include "tests/unit/unit.h"

#include "rules/config/config.h"
#include "rules/config/rule_document.h"

#include <bson/bson.h>
#include <stdlib.h>

static void expect_written(const char *rule, const char *expected)
{
	static const struct config_world nothing;
	auto_free char *file = bson_strdup_printf(
		"listen: [{ address: h:1, server: h:2 }]\nrules: [{ %s }]\n", rule);
	auto_free char *problems = NULL;
	struct config *config = config_parse("f", bytes_of(file), &nothing, &problems);
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);
	bson_t view;
	char *text;

	cr_assert(config, "%s", problems);
	rule_write(&out, rule_set_at(config->rules, 0));
	writer_close(&out, start);
	config_free(config);
	cr_assert(bson_init_static(&view, out.data, out.length));
	text = bson_as_relaxed_extended_json(&view, NULL);
	cr_assert_str_eq(text, expected);
	bson_free(text);
}

Test(rule_write, every_default_is_there)
{
	expect_written(
		"name: r, namespace: shop.sales, array: a.b, threshold: 50, overflow: "
		"{ link: of, array: more }",
		"{ \"name\" : \"r\", \"namespace\" : \"shop.sales\", \"array\" : \"a.b\", "
		"\"threshold\" : 50, \"max_bytes\" : 1048576, \"fold_limit\" : 16777216, "
		"\"when_outlier\" : \"keep\", "
		"\"settle\" : \"1s\", \"gather\" : 100, \"quiet\" : \"1s\", \"gc_delay\" : "
		"\"1m\", \"sweep\" : \"1h\", \"existing\" : \"wait\", \"access\" : \"full\", "
		"\"change_streams\" : \"exact\", \"damaged\" : \"fail\", \"expose\" : [  ], "
		"\"overflow\" : { \"collection\" : \"{collection}_a_b_overflow\", \"layout\" "
		": \"batches\", \"link\" : \"of\", \"array\" : \"more\", \"batch\" : { "
		"\"size\" : 1000, \"max_bytes\" : 262144 }, \"listed\" : \"false\" } }");
}

Test(rule_write, what_the_file_says)
{
	expect_written(
		"name: r, namespace: 't_*.c', array: a, threshold: 0, max_bytes: 2KB, "
		"when_outlier: empty, sweep: off, access: read-only, change_streams: as_stored, "
		"damaged: skip, "
		"flag: { field: f, value: "
		"\"true\" }, counters: { total: t, owner: app }, reference: { field: r, format: "
		"'{_id}_x' }, expose: [reference, flag], overflow: { collection: '{collection}_o', "
		"layout: elements, link: of, created: at, listed: true, indexes: [{ keys: { at: -1 "
		"} }] }",
		"{ \"name\" : \"r\", \"namespace\" : \"t_*.c\", \"array\" : \"a\", \"threshold\" : "
		"0, \"max_bytes\" : 2048, \"fold_limit\" : 16777216, "
		"\"when_outlier\" : \"empty\", \"settle\" : \"1s\", "
		"\"gather\" : 100, \"quiet\" : \"1s\", \"gc_delay\" : \"1m\", \"sweep\" : \"off\", "
		"\"existing\" : \"wait\", \"access\" : \"read-only\", "
		"\"change_streams\" : \"as_stored\", \"damaged\" : \"skip\", \"flag\" : { "
		"\"field\" : \"f\", \"value\" : \"true\", "
		"\"otherwise\" : \"absent\" }, \"counters\" : { \"total\" : \"t\", \"owner\" : "
		"\"app\" }, \"reference\" : { \"field\" : \"r\", \"format\" : \"{_id}_x\" }, "
		"\"expose\" : [ \"flag\", \"reference\" ], \"overflow\" : { \"collection\" : "
		"\"{collection}_o\", \"layout\" : \"elements\", \"link\" : \"of\", \"created\" : "
		"\"at\", \"listed\" : \"true\", \"indexes\" : [ { \"keys\" : { \"at\" : -1 } } ] } "
		"}");
}
