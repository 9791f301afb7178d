/* Tests rules/rule/known_indexes.c: one place for what all threads know. What it is asked for, the
 * tests of the probe have. */
#include "tests/unit/wire_make.h"

#include "rules/rule/known_indexes.h"

#include <stdio.h>

#define NAMESPACES 3000 /* some share a row */

static struct index_book book;

static struct known_indexes *find(size_t number)
{
	char name[24];

	snprintf(name, sizeof(name), "c%zu", number);
	return index_book_find(&book, bytes_of("shop"), bytes_of(name));
}

Test(known_indexes, what_everybody_has_left_is_gone_and_no_other)
{
	struct known_indexes *kept, *left;

	index_book_init(&book, 5);
	kept = find(1);
	left = find(2);
	cr_assert_eq(find(2), left);
	known_indexes_take(left, made_bson("{'0': {'key': {'a': 1}}}"));
	known_indexes_take(kept, made_bson("{'0': {'key': {'a': 1}}}"));
	index_book_leave(&book, left);
	cr_assert(known_indexes_serve(find(2), "a"));
	index_book_leave(&book, left);
	index_book_leave(&book, left);
	cr_assert_not(known_indexes_serve(find(2), "a"), "it was made anew");
	cr_assert(known_indexes_serve(find(1), "a"));
	index_book_leave(&book, NULL);
	index_book_fini(&book);
}

Test(known_indexes, each_collection_has_its_own)
{
	static struct known_indexes *found[NAMESPACES];

	index_book_init(&book, 5);
	for (size_t i = 0; i < NAMESPACES; i++)
		found[i] = find(i);
	known_indexes_take(found[7], made_bson("{'0': {'key': {'a': 1}}}"));
	for (size_t i = 0; i < NAMESPACES; i++) {
		cr_assert_eq(find(i), found[i]);
		cr_assert_eq(known_indexes_serve(found[i], "a"), i == 7);
	}
	cr_assert_neq(index_book_find(&book, bytes_of("else"), bytes_of("c7")), found[7]);
	cr_assert_not(known_indexes_serve(NULL, "a"));
	index_book_fini(&book);
	made_free();
}

Test(known_indexes, the_last_word_counts)
{
	struct known_indexes *indexes;

	index_book_init(&book, 5);
	indexes = find(1);
	known_indexes_take(indexes, made_bson("{'0': {'key': {'a': 1}}, '1': {'key': {'b': 1}}}"));
	known_indexes_take(indexes, made_bson("{'0': {'key': {'b': 1}}}"));
	cr_assert(known_indexes_serve(indexes, "b"));
	cr_assert_not(known_indexes_serve(indexes, "a"));
	known_indexes_take(indexes, made_bson("{}"));
	cr_assert_not(known_indexes_serve(indexes, "b"));
	index_book_fini(&book);
	made_free();
}

static bool is_sparse(const void *context, struct bytes index)
{
	(void)context;
	return document_truth(index, "sparse");
}

Test(known_indexes, a_hint_means_what_mongod_takes_for_the_same_keys)
{
	static const struct {
		const char *hint;
		enum index_meant meant;
	} cases[] = {
		{"{'': 'plain'}", INDEX_MEANT},
		{"{'': 'thin'}", INDEX_MEANT_SO},
		{"{'': 'other'}", INDEX_NOT_KNOWN},
		{"{'': 5}", INDEX_NOT_KNOWN},
		{"{'': {'a': 1}}", INDEX_MEANT_SO}, /* two have these keys */
		{"{'': {'a': 1.0}}", INDEX_MEANT_SO},
		{"{'': {'a': 1.5}}", INDEX_MEANT_SO}, /* in doubt */
		{"{'': {'a': -1}}", INDEX_NOT_KNOWN},
		{"{'': {'a': 2}}", INDEX_NOT_KNOWN},
		{"{'': {'a': '2dsphere'}}", INDEX_NOT_KNOWN},
		{"{'': {'a': 1, 'b': 1}}", INDEX_NOT_KNOWN},
		{"{'': {'c': 'hashed'}}", INDEX_MEANT},
		{"{'': {'c': 1}}", INDEX_NOT_KNOWN},
		{"{'': {'c': 'hashed', 'd': -1}}", INDEX_NOT_KNOWN},
		{"{'': {'d': -1}}", INDEX_NOT_KNOWN},
		{"{'': {'d': -1, 'e': 1}}", INDEX_MEANT},
		{"{'': {'e': 1, 'd': -1}}", INDEX_NOT_KNOWN},
		{"{'': {}}", INDEX_NOT_KNOWN},
	};
	struct known_indexes *indexes;
	struct element hint;

	index_book_init(&book, 5);
	indexes = find(1);
	cr_assert_eq(known_indexes_judge(indexes, &(struct element){0}, is_sparse, NULL),
		     INDEX_NOT_KNOWN);
	known_indexes_take(indexes,
			   made_bson("{'0': {'name': 'plain', 'key': {'a': 1}}, '1': {'name': "
				     "'thin', 'key': {'a': 1}, 'sparse': true}, '2': {'name': 'h', "
				     "'key': {'c': 'hashed'}}, '3': {'name': 'two', 'key': {'d': "
				     "-1, 'e': 1}}}"));
	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		cr_assert(document_find(made_bson(cases[i].hint), "", &hint));
		cr_expect_eq(known_indexes_judge(indexes, &hint, is_sparse, NULL), cases[i].meant,
			     "%s", cases[i].hint);
		cr_expect_eq(known_indexes_judge(NULL, &hint, is_sparse, NULL), INDEX_NOT_KNOWN);
	}
	index_book_fini(&book);
	made_free();
}

struct chatter {
	pthread_t thread;
	struct bytes word;
};

static void *talk(void *context)
{
	const struct chatter *chatter = context;

	for (size_t i = 0; i < 20000; i++)
		known_indexes_take(find(i % 3), chatter->word);
	return NULL;
}

Test(known_indexes, threads_tell_and_ask_at_once)
{
	struct chatter chatters[2] = {{.word = made_bson("{'0': {'key': {'a': 1, 'b': 1}}}")},
				      {.word = made_bson("{'0': {'key': {'a': 1}}}")}};

	index_book_init(&book, 5);
	for (size_t i = 0; i < 3; i++)
		known_indexes_take(find(i), chatters[0].word);
	for (size_t i = 0; i < ARRAY_LENGTH(chatters); i++)
		cr_assert_eq(pthread_create(&chatters[i].thread, NULL, talk, &chatters[i]), 0);
	for (size_t i = 0; i < 20000; i++)
		cr_assert(known_indexes_serve(
			index_book_find(&book, bytes_of("shop"), bytes_of("c1")), "a"));
	for (size_t i = 0; i < ARRAY_LENGTH(chatters); i++)
		cr_assert_eq(pthread_join(chatters[i].thread, NULL), 0);
	index_book_fini(&book);
	made_free();
}

Test(known_indexes, an_index_sorts_by_its_first_keys_or_their_reverse)
{
	struct known_indexes *indexes;

	index_book_init(&book, 5);
	indexes = find(1);
	known_indexes_take(indexes, made_bson("{'0': {'key': {'a': 1, 'b': -1}},"
					      " '1': {'key': {'c': 1}, 'sparse': true},"
					      " '2': {'key': {'d': 'text'}}}"));
	cr_assert(known_indexes_sort(indexes, made_bson("{'a': 1}")));
	cr_assert(known_indexes_sort(indexes, made_bson("{'a': -1, 'b': 1}")));
	cr_assert_not(known_indexes_sort(indexes, made_bson("{'a': 1, 'b': 1}")));
	cr_assert_not(known_indexes_sort(indexes, made_bson("{'b': -1}")));
	cr_assert_not(known_indexes_sort(indexes, made_bson("{'a': 1, 'b': -1, 'c': 1}")));
	cr_assert_not(known_indexes_sort(indexes, made_bson("{'c': 1}")));
	cr_assert_not(known_indexes_sort(indexes, made_bson("{'d': 1}")));
	cr_assert_not(known_indexes_sort(indexes, made_bson("{}")));
	cr_assert_not(known_indexes_sort(NULL, made_bson("{'a': 1}")));
	index_book_fini(&book);
	made_free();
}

#define COLLATED "'collation': {'locale': 'en'}"

Test(known_indexes, a_distinct_is_answered_from_the_index_with_the_fewest_fields)
{
	static const struct {
		const char *indexes;
		enum collation_given collation;
		enum index_scan scan;
	} cases[] = {
		{"{'0': {'key': {'_id': 1}, 'name': '_id_'}}", COLLATION_NONE, INDEX_SCAN_NONE},
		{"{'0': {'key': {'a.b': 1}}}", COLLATION_NONE, INDEX_SCAN_KEYS},
		{"{'0': {'key': {'a.b': -1, 'c': 1}}}", COLLATION_NONE, INDEX_SCAN_KEYS},
		{"{'0': {'key': {'a.b': 2.5}}}", COLLATION_SIMPLE, INDEX_SCAN_KEYS},
		{"{'0': {'key': {'a.b': 1}}}", COLLATION_OTHER, INDEX_SCAN_NONE},
		{"{'0': {'key': {'a': 1}}, '1': {'key': {'a.b.c': 1}}}", COLLATION_NONE,
		 INDEX_SCAN_NONE},
		{"{'0': {'key': {'c': 1, 'a.b': 1}}}", COLLATION_NONE, INDEX_SCAN_NONE},
		{"{'0': {'key': {'a.b': 'hashed'}}}", COLLATION_NONE, INDEX_SCAN_NONE},
		{"{'0': {'key': {'a.$**': 1}}}", COLLATION_NONE, INDEX_SCAN_NONE},
		{"{'0': {'key': {'a.b': 1}, 'hidden': true}}", COLLATION_NONE, INDEX_SCAN_NONE},
		{"{'0': {'key': {'a.b': 1}, 'partialFilterExpression': {'c': 1}}}", COLLATION_NONE,
		 INDEX_SCAN_NONE},
		{"{'0': {'key': {'a.b': 1}, 'sparse': true}}", COLLATION_NONE, INDEX_SCAN_SPARSE},
		{"{'0': {'key': {'a.b': 1, 'c': 1}, 'sparse': true}}", COLLATION_NONE,
		 INDEX_SCAN_AMBIGUOUS},
		{"{'0': {'key': {'a.b': 1, 'c': 1}, 'sparse': true}, '1': {'key': {'a.b': 1}}}",
		 COLLATION_NONE, INDEX_SCAN_KEYS},
		{"{'0': {'key': {'a.b': 1}}, '1': {'key': {'a.b': -1}, 'sparse': true}}",
		 COLLATION_NONE, INDEX_SCAN_AMBIGUOUS},
		{"{'0': {'key': {'a.b': 1}, " COLLATED "}}", COLLATION_NONE, INDEX_SCAN_NONE},
		{"{'0': {'key': {'a.b': 1}, " COLLATED "}}", COLLATION_OTHER, INDEX_SCAN_FETCHES},
		{"{'0': {'key': {'_id': 1}, 'name': '_id_', " COLLATED
		 "}, '1': {'key': {'a.b': 1}, " COLLATED "}}",
		 COLLATION_NONE, INDEX_SCAN_FETCHES},
		{"{'0': {'key': {'_id': 1}, 'name': '_id_', " COLLATED
		 "}, '1': {'key': {'a.b': 1}}}",
		 COLLATION_NONE, INDEX_SCAN_NONE},
		{"{'0': {'key': {'_id': 1}, 'name': '_id_', " COLLATED
		 "}, '1': {'key': {'a.b': 1}}}",
		 COLLATION_SIMPLE, INDEX_SCAN_KEYS},
	};
	struct known_indexes *indexes;

	index_book_init(&book, 5);
	indexes = find(1);
	cr_assert_eq(known_indexes_scan(indexes, bytes_of("a.b"), COLLATION_NONE),
		     INDEX_SCAN_UNKNOWN);
	cr_assert_eq(known_indexes_scan(NULL, bytes_of("a.b"), COLLATION_NONE), INDEX_SCAN_UNKNOWN);
	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		known_indexes_take(indexes, made_bson(cases[i].indexes));
		cr_assert_eq(known_indexes_scan(indexes, bytes_of("a.b"), cases[i].collation),
			     cases[i].scan, "%s", cases[i].indexes);
	}
	index_book_fini(&book);
	made_free();
}
