/* Matches names against patterns with `*`, without recursion. */
#include "rules/rule/glob.h"

must_check bool glob_match(struct bytes pattern, struct bytes name)
{
	size_t at = 0, text = 0;
	size_t after_star = 0, retry = 0; /* after_star: 0 until a star was met */

	while (text < name.length) {
		bool more = at < pattern.length;

		if (more && pattern.data[at] == '*') {
			after_star = ++at;
			retry = text;
		} else if (more && pattern.data[at] == name.data[text]) {
			at++;
			text++;
		} else if (after_star) { /* the last star takes one byte more */
			at = after_star;
			text = ++retry;
		} else {
			return false;
		}
	}
	while (at < pattern.length && pattern.data[at] == '*')
		at++;
	return at == pattern.length;
}

/* Can the rest of `one` from i and the rest of `other` from j make the same name? `below` is the
 * row for i + 1, `row` the one for i, filled from the right. */
static void fill_row(struct bytes one, struct bytes other, size_t i, bool *row, const bool *below)
{
	bool star = i < one.length && one.data[i] == '*';

	for (size_t j = other.length + 1; j-- > 0;) {
		bool last = j == other.length;
		bool other_star = !last && other.data[j] == '*';

		if (i == one.length)
			row[j] = last || (other_star && row[j + 1]);
		else if (star)
			row[j] = below[j] || (!last && row[j + 1]);
		else if (other_star)
			row[j] = row[j + 1] || below[j];
		else
			row[j] = !last && one.data[i] == other.data[j] && below[j + 1];
	}
}

/* Before their first stars, and behind their last ones: most patterns differ there. */
static bool ends_meet(struct bytes one, struct bytes other)
{
	size_t shorter = one.length < other.length ? one.length : other.length, i = 0;

	while (i < shorter && one.data[i] != '*' && one.data[i] == other.data[i])
		i++;
	if (i < shorter && one.data[i] != '*' && other.data[i] != '*')
		return false;
	for (i = 1; i <= shorter; i++) {
		uint8_t a = one.data[one.length - i], b = other.data[other.length - i];

		if (a == '*' || b == '*')
			return true;
		if (a != b)
			return false;
	}
	return true;
}

must_check bool glob_meet(struct bytes one, struct bytes other)
{
	auto_free bool *rows = NULL;
	bool *row, *below;

	if (!ends_meet(one, other))
		return false;
	rows = must_calloc(2 * (other.length + 1), sizeof(*rows));
	row = rows;
	below = rows + other.length + 1;
	for (size_t i = one.length + 1; i-- > 0;) {
		bool *filled = row;

		fill_row(one, other, i, row, below);
		row = below;
		below = filled;
	}
	return below[0];
}
