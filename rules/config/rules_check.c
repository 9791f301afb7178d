/* Checks what takes more than one setting: a rule's fields against its array, rules against each
 * other. */
#include "rules/config/rules_file.h"

#include "rules/config/section.h"
#include "rules/rule/glob.h"
#include "rules/rule/hash.h"
#include "rules/rule/text.h"

#include <stdlib.h>

/* Where a rule's overflow documents live, as patterns. */
struct overflow_place {
	const char *database;
	char *collection; /* owned */
};

/* Hashes of what rules have in common if they have anything: of thousands each is compared with
 * each, and a look at these must do for most. */
struct mark {
	uint64_t database, collection; /* 0: a pattern, or missing */
};

struct marks {
	uint64_t name;
	struct mark main, overflow;
};

static uint64_t mark_name(const char *name)
{
	return name && !glob_is(bytes_of(name)) ? hash_bytes(bytes_of(name), 1) : 0;
}

static struct marks *marks_of(const struct rule_draft *drafts, const struct overflow_place *places,
			      size_t count)
{
	struct marks *marks = must_calloc(count, sizeof(*marks));

	for (size_t i = 0; i < count; i++) {
		const struct rule *rule = &drafts[i].rule;

		marks[i].name = mark_name(rule->name);
		marks[i].main =
			(struct mark){mark_name(rule->database), mark_name(rule->collection)};
		marks[i].overflow = (struct mark){mark_name(places[i].database),
						  mark_name(places[i].collection)};
	}
	return marks;
}

static bool hashes_meet(uint64_t one, uint64_t other)
{
	return one == other || one == 0 || other == 0;
}

/* False only where nothing can be in both. */
static bool marks_meet(const struct mark *one, const struct mark *other)
{
	return hashes_meet(one->collection, other->collection) &&
	       hashes_meet(one->database, other->database);
}

static bool names_meet(const char *one, const char *other)
{
	struct bytes first = bytes_of(one), second = bytes_of(other);

	if (!glob_is(first) && !glob_is(second))
		return bytes_equal(first, second);
	if (!glob_is(first))
		return glob_match(second, first);
	if (!glob_is(second))
		return glob_match(first, second);
	return glob_meet(first, second);
}

static bool has_namespace(const struct rule_draft *draft)
{
	return draft->rule.database && draft->rule.collection;
}

/* Where the setting stands; if it is missing, the section that should have it. */
static struct place place_of(const struct rule_draft *draft, const char *path)
{
	return section_place_below(draft->node, path);
}

static int line_of(const struct rule_draft *draft)
{
	return draft->node->at.line;
}

static const char *name_of(const struct rule_draft *draft)
{
	return draft->rule.name ? draft->rule.name : "without a name";
}

/* ---- A rule by itself. */

/* A field of main documents that a rule names beside its array. */
struct named {
	const char *field; /* NULL: none */
	const char *words; /* before the field */
	const char *role;
	const char *path; /* in the rule */
};

#define NAMED_FIELDS 4
struct named_fields {
	struct named all[NAMED_FIELDS];
};

static struct named_fields fields_of(const struct rule_draft *draft)
{
	const struct rule *rule = &draft->rule;

	return (struct named_fields){
		{{rule->flag.field, "the flag's field", "flag", "flag.field"},
		 {rule->counters.total, "the counter", "counter of elements", "counters.total"},
		 {rule->counters.documents, "the counter", "counter of overflow documents",
		  "counters.documents"},
		 {rule->reference.field, "the reference's field", "reference", "reference.field"}}};
}

static bool is_field(const struct named *one, const struct named *other)
{
	return one->field && other->field && strcmp(one->field, other->field) == 0;
}

static void check_field(const struct rule_draft *draft, const struct named *named,
			struct problems *problems)
{
	const char *array = draft->rule.array;
	enum path_relation relation;

	if (!named->field || !array)
		return;
	relation = path_relate(bytes_of(named->field), array);
	if (relation != PATH_APART)
		problem_add(problems, place_of(draft, named->path), "%s '%s' %s the array '%s'",
			    named->words, text_quote(bytes_of(named->field)).text,
			    relation == PATH_SAME ? "is" : "holds",
			    text_quote(bytes_of(array)).text);
}

static void check_fields(const struct rule_draft *draft, struct problems *problems)
{
	struct named_fields fields = fields_of(draft);

	for (size_t i = 0; i < NAMED_FIELDS; i++) {
		const struct named *named = &fields.all[i];

		check_field(draft, named, problems);
		for (size_t j = 0; j < i; j++)
			if (is_field(named, &fields.all[j]))
				problem_add(problems, place_of(draft, named->path),
					    "%s '%s' is the %s, too", named->words,
					    text_quote(bytes_of(named->field)).text,
					    fields.all[j].role);
	}
}

/* Two main collections must not share one overflow collection. */
static void check_pattern(const struct rule_draft *draft, struct problems *problems)
{
	const struct rule *rule = &draft->rule;

	if (!has_namespace(draft) || !rule->overflow.collection)
		return;
	if (glob_is(bytes_of(rule->database)) && rule->overflow.database)
		problem_add(
			problems, place_of(draft, "overflow.collection"),
			"the rule matches several databases, so that their overflow would mix in "
			"one; leave the database out of 'collection'");
	if (glob_is(bytes_of(rule->collection)) &&
	    !strstr(rule->overflow.collection, RULE_COLLECTION_MARK))
		problem_add(
			problems, place_of(draft, "overflow.collection"),
			"the rule matches several collections, so that their overflow would mix "
			"in one; write " RULE_COLLECTION_MARK " in 'collection'");
}

/* ---- Two rules. */

static void check_names(const struct rule_draft *one, const struct rule_draft *other,
			struct problems *problems)
{
	if (one->rule.name && other->rule.name && strcmp(one->rule.name, other->rule.name) == 0)
		problem_add(problems, place_of(other, "name"),
			    "the name '%s' is taken by the rule in line %d",
			    text_quote(bytes_of(other->rule.name)).text, line_of(one));
}

static void check_arrays(const struct rule_draft *one, const struct rule_draft *other,
			 struct problems *problems)
{
	static const char *const relations[] = {
		[PATH_SAME] = "is the array of",
		[PATH_ABOVE] = "holds the array of",
		[PATH_BELOW] = "lies in the array of",
	};
	enum path_relation relation;

	if (!one->rule.array || !other->rule.array)
		return;
	relation = path_relate(bytes_of(other->rule.array), one->rule.array);
	if (relation != PATH_APART)
		problem_add(problems, place_of(other, "array"),
			    "'%s' %s the rule '%s' in line %d, and both match one namespace",
			    text_quote(bytes_of(other->rule.array)).text, relations[relation],
			    name_of(one), line_of(one));
	else if (strcmp(one->rule.key, other->rule.key) == 0)
		problem_add(problems, place_of(other, "array"),
			    "'%s' and '%s' of the rule '%s' would be one key in '_spill'",
			    text_quote(bytes_of(other->rule.array)).text,
			    text_quote(bytes_of(one->rule.array)).text, name_of(one));
}

static void check_fields_apart(const struct rule_draft *draft, const struct rule_draft *other,
			       struct problems *problems)
{
	struct named_fields fields = fields_of(draft);

	for (size_t i = 0; other->rule.array && i < NAMED_FIELDS; i++) {
		const struct named *named = &fields.all[i];

		if (named->field &&
		    path_relate(bytes_of(named->field), other->rule.array) != PATH_APART)
			problem_add(problems, place_of(draft, named->path),
				    "%s '%s' is or holds the array of the rule '%s' in line %d",
				    named->words, text_quote(bytes_of(named->field)).text,
				    name_of(other), line_of(other));
	}
}

static void check_fields_differ(const struct rule_draft *one, const struct rule_draft *other,
				struct problems *problems)
{
	struct named_fields before = fields_of(one), fields = fields_of(other);

	for (size_t i = 0; i < NAMED_FIELDS; i++)
		for (size_t j = 0; j < NAMED_FIELDS; j++)
			if (is_field(&fields.all[i], &before.all[j]))
				problem_add(problems, place_of(other, fields.all[i].path),
					    "%s '%s' is the %s of the rule '%s' in line %d, too",
					    fields.all[i].words,
					    text_quote(bytes_of(fields.all[i].field)).text,
					    before.all[j].role, name_of(one), line_of(one));
}

static void check_two(const struct rule_draft *one, const struct rule_draft *other,
		      struct problems *problems)
{
	check_names(one, other, problems);
	if (!has_namespace(one) || !has_namespace(other))
		return;
	if (!names_meet(one->rule.database, other->rule.database) ||
	    !names_meet(one->rule.collection, other->rule.collection))
		return;
	check_arrays(one, other, problems);
	check_fields_apart(one, other, problems);
	check_fields_apart(other, one, problems);
	check_fields_differ(one, other, problems);
}

/* ---- Overflow collections. */

static struct overflow_place *overflow_places(const struct rule_draft *drafts, size_t count)
{
	struct overflow_place *places = must_calloc(count, sizeof(*places));

	for (size_t i = 0; i < count; i++) {
		const struct rule *rule = &drafts[i].rule;
		const char *database = rule->overflow.database;

		if (!has_namespace(&drafts[i]) || !rule->overflow.collection)
			continue;
		places[i].database = database ? database : rule->database;
		places[i].collection = rule_overflow_collection(rule, bytes_of(rule->collection));
	}
	return places;
}

/* A pattern in the collection's part never means an overflow collection, so that `shop.*` is fine.
 */
static void check_overflow_is_free(const struct overflow_place *place,
				   const struct rule_draft *draft, const struct rule_draft *other,
				   struct problems *problems)
{
	const struct rule *ruled = &other->rule;

	if (!has_namespace(other) || glob_is(bytes_of(ruled->collection)))
		return;
	if (names_meet(place->database, ruled->database) &&
	    names_meet(place->collection, ruled->collection))
		problem_add(
			problems, place_of(draft, "overflow.collection"),
			"the overflow collection '%s.%s' is itself under the rule '%s' in line %d",
			place->database, place->collection, name_of(other), line_of(other));
}

static void check_overflow_is_own(const struct overflow_place *place,
				  const struct overflow_place *before,
				  const struct rule_draft *draft, const struct rule_draft *other,
				  struct problems *problems)
{
	if (before->collection && names_meet(place->database, before->database) &&
	    names_meet(place->collection, before->collection))
		problem_add(
			problems, place_of(draft, "overflow.collection"),
			"the overflow collection '%s.%s' is also that of the rule '%s' in line %d",
			place->database, place->collection, name_of(other), line_of(other));
}

static void check_overflow_length(const struct overflow_place *place,
				  const struct rule_draft *draft, struct problems *problems)
{
	if (strlen(place->database) + 1 + strlen(place->collection) > RULE_NAMESPACE_MAX)
		problem_add(problems, place_of(draft, "overflow.collection"),
			    "the overflow collection's name '%s' is longer than the server allows",
			    text_quote(bytes_of(place->collection)).text);
}

/* With all before it. */
static void check_before(const struct rule_draft *drafts, const struct marks *marks, size_t index,
			 struct problems *problems)
{
	for (size_t i = 0; i < index; i++)
		if (marks[i].name == marks[index].name ||
		    marks_meet(&marks[i].main, &marks[index].main))
			check_two(&drafts[i], &drafts[index], problems);
}

static void check_overflow(const struct rule_draft *drafts, const struct overflow_place *places,
			   const struct marks *marks, size_t index, size_t count,
			   struct problems *problems)
{
	check_overflow_length(&places[index], &drafts[index], problems);
	for (size_t i = 0; i < count; i++) {
		if (marks_meet(&marks[index].overflow, &marks[i].main))
			check_overflow_is_free(&places[index], &drafts[index], &drafts[i],
					       problems);
		if (i < index && marks_meet(&marks[index].overflow, &marks[i].overflow))
			check_overflow_is_own(&places[index], &places[i], &drafts[index],
					      &drafts[i], problems);
	}
}

void rules_check(const struct rule_draft *drafts, size_t count, struct problems *problems)
{
	auto_free struct overflow_place *places = overflow_places(drafts, count);
	auto_free struct marks *marks = marks_of(drafts, places, count);

	for (size_t i = 0; i < count; i++) {
		check_fields(&drafts[i], problems);
		check_pattern(&drafts[i], problems);
		check_before(drafts, marks, i, problems);
	}
	for (size_t i = 0; i < count; i++)
		if (places[i].collection)
			check_overflow(drafts, places, marks, i, count, problems);
	for (size_t i = 0; i < count; i++)
		free(places[i].collection);
}
