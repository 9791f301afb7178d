/* Tests proxy/fitness/findings.c: findings as text and as JSON. */
#include "tests/unit/unit.h"

#include "proxy/base/json_text.h"
#include "proxy/fitness/findings.h"
#include "rules/rule/text.h"

#include <bson/bson.h>

static char *print(const struct findings *findings)
{
	auto_buffer struct buffer out = {0};

	findings_text(&out, findings);
	return text_steal(&out);
}

Test(findings, problems_come_before_notes)
{
	struct findings findings = {0};
	auto_buffer struct buffer out = {0};
	size_t start;
	char *json;

	auto_free char *nothing = print(&findings);
	cr_assert_str_eq(nothing, "nothing found that needs doing\n");
	findings_add(&findings, FINDING_NO_ACCESS_CONTROL, NULL, "%s is open", "all");
	findings_add(&findings, FINDING_NO_ACCESS_CONTROL, NULL, "all is open"); /* told once */
	findings_add(&findings, FINDING_UNFIT_INDEX_OVER_ARRAY, "books", "an index");
	findings_remedy(&findings, "drop %s", "it");
	auto_free char *text = print(&findings);
	cr_assert_str_eq(text,
			 "finding (index-over-array): rule 'books': an index\n  to do: drop it\n"
			 "note (no-access-control): all is open\n1 finding\n");
	cr_assert_eq(findings.problems, 1);
	start = writer_open(&out);
	findings_bson(&out, &findings);
	writer_close(&out, start);
	json = json_text(buffer_view(&out));
	cr_assert_str_eq(json, "{ \"findings\" : [ { \"kind\" : \"index\", \"code\" : "
			       "\"index-over-array\", \"rule\" : \"books\", "
			       "\"what\" : \"an index\", \"remedy\" : \"drop it\" } ], \"notes\" : "
			       "[ { \"kind\" : \"rights\", \"code\" : \"no-access-control\", "
			       "\"what\" : \"all is open\" } ] }");
	bson_free(json);
	findings_fini(&findings);
}

Test(findings, a_rule_that_can_not_hold_has_the_code_and_the_remedy_of_its_reason)
{
	struct findings findings = {0};

	for (enum unfit_code code = 0; code <= UNFIT_OVERFLOW_INDEX_BLOCKED; code++) {
		findings_add(&findings, (enum finding_code)code, "books", "a reason");
		cr_assert_str_eq(findings.list[code].remedy, unfit_remedy(code));
	}
	cr_assert_eq(findings.problems, findings.count);
	cr_assert_str_eq(unfit_remedy(UNFIT_OVERFLOW_INDEX_TTL), "drop the index");
	findings_fini(&findings);
}
