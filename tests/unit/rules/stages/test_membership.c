/* Tests rules/stages/membership.c: what is asked of the overflow for a value, in either layout. */
#include "tests/unit/wire_make.h"

#include "protocol/message.h"
#include "rules/stages/membership.h"

static struct rule batches = {.array = (char *)"a.f",
			      .key = (char *)"a/f",
			      .overflow = {.link = (char *)"of", .array = (char *)"part"}};
static struct rule elements = {.array = (char *)"a.f",
			       .key = (char *)"a/f",
			       .overflow = {.link = (char *)"of", .layout = RULE_ELEMENTS}};

/* The conditions as one list, or NULL where it is no such write. */
static const char *asked(struct membership *membership)
{
	struct bytes conditions = buffer_view(&membership->overflow), condition;
	const char *all = "";

	if (!membership->known)
		return NULL;
	while (message_next_document(&conditions, &condition))
		all = made_text("%s%s%s", all, *all ? ", " : "", made_json(condition));
	return all;
}

static const char *of(struct rule *rule, bool update, const char *json)
{
	struct target target = {.rule = rule};
	struct ruled_namespace namespace = {.target_count = 1, .targets = &target};
	struct membership membership;
	struct element wrapped;
	const char *all;

	if (update) {
		wrapped = (struct element){.type = BSON_BYTE_DOCUMENT, .value = made_bson(json)};
		membership_of_update(&wrapped, &namespace, &membership);
	} else {
		membership_of_filter(made_bson(json), &namespace, &membership);
	}
	all = asked(&membership);
	membership_fini(&membership);
	return all;
}

static void expect(struct rule *rule, bool update, const char *json, const char *wanted)
{
	const char *found = of(rule, update, json);

	if (!wanted) {
		cr_assert_null(found, "%s: %s", json, found);
	} else {
		cr_assert(found, "%s", json);
		cr_assert_str_eq(found, wanted);
	}
	made_free();
}

#define KEPT "\"_spill.v\" : { \"$not\" : { \"$type\" : \"array\" } } }"

Test(membership, a_guard_in_batches)
{
	expect(&batches, false, "{'_id': 1, 'a.f': {'$ne': 5}}", "{ \"part\" : { \"$eq\" : 5 } }");
	expect(&batches, false, "{'a.f.x': {'$nin': [5, 'b']}}",
	       "{ \"part.x\" : { \"$eq\" : 5 } }, { \"part.x\" : { \"$eq\" : \"b\" } }");
}

Test(membership, a_guard_in_documents_of_one_element)
{
	expect(&elements, false, "{'_id': 1, 'a.f': {'$ne': 5}}",
	       "{ \"_spill.v\" : { \"$eq\" : 5, \"$not\" : { \"$type\" : \"array\" } } }");
	expect(&elements, false, "{'a.f.x.y': {'$ne': 5}}",
	       "{ \"x.y\" : { \"$eq\" : 5 }, \"_spill.v\" : { \"$exists\" : false } }, "
	       "{ \"_spill.v.x.y\" : { \"$eq\" : 5 }, " KEPT);
	expect(&elements, false, "{'a.f._id': {'$ne': 5}}",
	       "{ \"_spill.v._id\" : { \"$eq\" : 5 }, " KEPT);
	expect(&elements, false, "{'a.f.of.y': {'$ne': 5}}",
	       "{ \"_spill.v.of.y\" : { \"$eq\" : 5 }, " KEPT);
}

Test(membership, a_set_in_documents_of_one_element)
{
	expect(&elements, true, "{'$addToSet': {'a.f': 5}}",
	       "{ \"_spill.v\" : { \"$eq\" : 5, \"$not\" : { \"$type\" : \"array\" } } }");
	expect(&elements, true, "{'$addToSet': {'a.f': {'x': 1}}}", NULL);
	expect(&batches, true, "{'$addToSet': {'a.f': {'x': 1}}}",
	       "{ \"part\" : { \"$elemMatch\" : { \"$eq\" : { \"x\" : 1 } } }, "
	       "\"part.x\" : { \"$eq\" : 1 } }");
}

Test(membership, what_is_no_such_write)
{
	static const char *const filters[] = {
		"{'a.f': 5}",        "{'a.f': {'$ne': null}}", "{'a.f.0': {'$ne': 5}}",
		"{'a': {'$ne': 5}}", "{'a.f': {'$ne': [1]}}",  "{'_id': 1}"};

	for (size_t i = 0; i < ARRAY_LENGTH(filters); i++) {
		expect(&batches, false, filters[i], NULL);
		expect(&elements, false, filters[i], NULL);
	}
}
