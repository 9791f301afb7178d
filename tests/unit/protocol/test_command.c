/* Tests protocol/command.c: the kinds of commands, their fields, and which of those stand twice. */
#include <stdlib.h>

#include "tests/unit/samples.h"

#include "protocol/command.h"

static const char *const known_names[] = {
	"to",
	"$db",
	"let",
	"min",
	"max",
	"key",
	"out",
	"lsid",
	"sort",
	"hint",
	"query",
	"filter",
	"fields",
	"update",
	"remove",
	"upsert",
	"viewOn",
	"capped",
	"nsInfo",
	"ops",
	"errorsOnly",
	"stmtId",
	"updates",
	"deletes",
	"ordered",
	"stmtIds",
	"indexes",
	"comment",
	"tailable",
	"pipeline",
	"txnNumber",
	"maxTimeMS",
	"collation",
	"batchSize",
	"returnKey",
	"documents",
	"validator",
	"autocommit",
	"apiVersion",
	"apiStrict",
	"projection",
	"collection",
	"timeseries",
	"readConcern",
	"writeConcern",
	"$clusterTime",
	"$readPreference",
	"startTransaction",
	"apiDeprecationErrors",
};

Test(command, names_have_kinds_and_traits)
{
	static const struct {
		const char *name;
		enum command_kind kind;
		unsigned traits;
	} commands[] = {
		{"find", COMMAND_FIND, COMMAND_ASKS_RIGHTS | COMMAND_EXPLAINABLE},
		{"findAndModify", COMMAND_FIND_AND_MODIFY,
		 COMMAND_ASKS_RIGHTS | COMMAND_EXPLAINABLE},
		{"findandmodify", COMMAND_FIND_AND_MODIFY,
		 COMMAND_ASKS_RIGHTS | COMMAND_EXPLAINABLE},
		{"hello", COMMAND_HELLO, 0},
		{"isMaster", COMMAND_HELLO, 0},
		{"ismaster", COMMAND_HELLO, 0},
		{"getMore", COMMAND_GET_MORE, 0},
		{"bulkWrite", COMMAND_BULK_WRITE, COMMAND_REACHES_FURTHER},
		{"compact", COMMAND_ON_COLLECTION, COMMAND_ASKS_RIGHTS},
		{"convertToCapped", COMMAND_OTHER, COMMAND_ASKS_RIGHTS},
		{"dropUser", COMMAND_ON_OTHERS, 0},
		{"logout", COMMAND_SIGN_IN, 0},
		{"internalRenameIfOptionsAndIndexesMatch", COMMAND_RENAME_INSIDE,
		 COMMAND_ASKS_RIGHTS | COMMAND_REACHES_FURTHER},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(commands); i++) {
		const struct command_name *found = command_named(bytes_of(commands[i].name));

		cr_assert_str_eq(found->text, commands[i].name);
		cr_assert_eq(found->kind, commands[i].kind, "%s", commands[i].name);
		cr_assert_eq(found->traits, commands[i].traits, "%s", commands[i].name);
	}
}

Test(command, other_names_have_none)
{
	static const char *const names[] = {
		"",      "f",        "Find",    "finds",
		"Hello", "ISMASTER", "helloOk", "internalRenameIfOptionsAndIndexesMatches"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
		const struct command_name *found = command_named(bytes_of(names[i]));

		cr_assert_str_eq(found->text, "an unknown command", "%s", names[i]);
		cr_assert_eq(found->kind, COMMAND_OTHER);
		cr_assert_eq(found->traits, 0);
	}
}

/* {first: "c", <name>: 1} and maybe the name again. */
static void compose(struct buffer *body, const char *name, bool twice)
{
	size_t start = writer_open(body);

	writer_string(body, "first", "c");
	writer_int32(body, name, 1);
	if (twice)
		writer_int64(body, name, 2);
	writer_close(body, start);
}

Test(command, every_field_has_a_name_and_a_place_of_its_own)
{
	bool seen[FIELD_COUNT] = {0};

	cr_assert_eq(ARRAY_LENGTH(known_names), FIELD_COUNT);
	for (size_t i = 0; i < FIELD_COUNT; i++) {
		auto_buffer struct buffer body = {0};
		struct command command;
		size_t there = 0;

		compose(&body, known_names[i], false);
		cr_assert(command_parse(buffer_view(&body), &command));
		cr_assert_not(command.duplicate);
		for (enum command_field field = 0; field < FIELD_COUNT; field++) {
			if (!command_has(&command, field))
				continue;
			cr_assert(element_is(&command.fields[field], known_names[i]));
			cr_assert_not(seen[field]);
			seen[field] = true;
			there++;
		}
		cr_assert_eq(there, 1, "%s", known_names[i]);
	}
}

Test(command, a_name_like_a_known_one_is_no_field)
{
	static const char *const names[] = {"",
					    "$dc",
					    "$d",
					    "$dbx",
					    "UPDATES",
					    "updatez",
					    "a name that is longer than any other"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
		auto_buffer struct buffer body = {0};
		struct command command;

		compose(&body, names[i], true);
		cr_assert(command_parse(buffer_view(&body), &command));
		cr_assert_not(command.duplicate);
		for (enum command_field field = 0; field < FIELD_COUNT; field++)
			cr_assert_not(command_has(&command, field), "%s", names[i]);
	}
}

Test(command, a_field_that_stands_twice_is_noticed)
{
	for (size_t i = 0; i < ARRAY_LENGTH(known_names); i++) {
		auto_buffer struct buffer body = {0};
		struct command command;

		compose(&body, known_names[i], true);
		cr_assert(command_parse(buffer_view(&body), &command));
		cr_assert(command.duplicate, "%s", known_names[i]);
	}
}

Test(command, of_a_session_null_is_none)
{
	static const char *const names[] = {"txnNumber", "autocommit", "startTransaction"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
		auto_buffer struct buffer body = {0};
		struct command command;
		size_t start = writer_open(&body);

		writer_string(&body, "first", "c");
		writer_renamed(&body, names[i], &(struct element){.type = BSON_BYTE_NULL});
		writer_close(&body, start);
		cr_assert(command_parse(buffer_view(&body), &command));
		cr_assert_not(command_has(&command, command_field_of(bytes_of(names[i]))));
	}
}

Test(command, its_own_name_twice_is_noticed)
{
	auto_buffer struct buffer body = {0};
	struct command command;

	compose(&body, "first", false);
	cr_assert(command_parse(buffer_view(&body), &command));
	cr_assert(command.duplicate);
}

Test(command, collection_and_database_are_strings_or_empty)
{
	auto_buffer struct buffer update = sample("command/update");
	auto_buffer struct buffer get_more = sample("command/get_more");
	auto_buffer struct buffer no_database = {0};
	struct command command;

	cr_assert(command_parse(buffer_view(&update), &command));
	cr_assert(element_is(&command.first, "update"));
	cr_assert(bytes_are(command.collection, "books"));
	cr_assert(bytes_are(command.database, "shop"));
	cr_assert(command_has(&command, FIELD_UPDATES));
	cr_assert_not(command_has(&command, FIELD_UPDATE), "the command's own name is no field");
	cr_assert(command_parse(buffer_view(&get_more), &command));
	cr_assert_eq(command.collection.length, 0);
	cr_assert(command_has(&command, FIELD_COLLECTION));
	compose(&no_database, "$db", false);
	cr_assert(command_parse(buffer_view(&no_database), &command));
	cr_assert_eq(command.database.length, 0, "a number is no database");
}

static bool reads(struct bytes body)
{
	struct command command;

	if (!command_parse(body, &command))
		return false;
	cr_assert(inside(element_raw(&command.first), body));
	cr_assert(inside(command.collection, body));
	cr_assert(inside(command.database, body));
	for (enum command_field field = 0; field < FIELD_COUNT; field++)
		cr_assert(!command_has(&command, field) ||
			  inside(element_raw(&command.fields[field]), body));
	return true;
}

Test(command, a_broken_body_is_no_command)
{
	auto_buffer struct buffer body = sample("command/find");

	cr_assert(reads(buffer_view(&body)));
	cr_assert_eq(prefixes_taken(buffer_view(&body), reads), 0);
	cr_assert_gt(changes_taken(buffer_view(&body), reads), 0);
	cr_assert_not(reads(LITERAL("\5\0\0\0\0")), "an empty document names nothing");
}
