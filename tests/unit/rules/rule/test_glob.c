/* Tests rules/rule/glob.c: patterns against names, and against each other. */
#include "tests/unit/unit.h"

#include "rules/rule/glob.h"

static bool matches(const char *pattern, const char *name)
{
	return glob_match(bytes_of(pattern), bytes_of(name));
}

/* Meeting is symmetric: both ways are asked. */
static bool meet(const char *one, const char *other)
{
	bool there = glob_meet(bytes_of(one), bytes_of(other));

	cr_assert_eq(there, glob_meet(bytes_of(other), bytes_of(one)), "%s, %s", one, other);
	return there;
}

Test(glob, a_star_stands_for_any_run)
{
	cr_assert(matches("*", ""));
	cr_assert(matches("*", "abc"));
	cr_assert(matches("a*", "a"));
	cr_assert(matches("a*c", "abbbc"));
	cr_assert(matches("a*b*c", "a_b_b_c"));
	cr_assert(matches("*ab", "aab"));
	cr_assert(matches("a**", "a"));
	cr_assert(matches("", ""));
}

Test(glob, everything_else_stands_for_itself)
{
	cr_assert_not(matches("abc", "abd"));
	cr_assert_not(matches("abc", "ab"));
	cr_assert_not(matches("ab", "abc"));
	cr_assert_not(matches("a*c", "abcd"));
	cr_assert_not(matches("a?c", "abc"));
	cr_assert_not(matches("", "a"));
	cr_assert_not(matches("*ab*ba*", "aba"));
}

Test(glob, a_hostile_name_takes_no_exponential_time)
{
	char pattern[201], name[4001];

	for (int i = 0; i < 200; i++)
		pattern[i] = i % 2 ? 'a' : '*';
	pattern[199] = 'b';
	pattern[200] = '\0';
	memset(name, 'a', 4000);
	name[4000] = '\0';
	cr_assert_not(matches(pattern, name));
}

Test(glob, patterns_meet_where_one_name_matches_both)
{
	cr_assert(meet("a", "a"));
	cr_assert(meet("*", ""));
	cr_assert(meet("*", "*"));
	cr_assert(meet("a*", "*b"));
	cr_assert(meet("a*c", "ab*"));
	cr_assert(meet("tenant_*", "tenant_1"));
	cr_assert(meet("*_a_overflow", "*_b_a_overflow"));
	cr_assert(meet("x*y*z", "*yz"));
}

Test(glob, patterns_do_not_meet_where_no_name_matches_both)
{
	cr_assert_not(meet("a", "b"));
	cr_assert_not(meet("a", ""));
	cr_assert_not(meet("a*", "b*"));
	cr_assert_not(meet("*_a", "*_b"));
	cr_assert_not(meet("tenant_*", "tenant"));
	cr_assert_not(meet("ab*ba", "aba"));
}
