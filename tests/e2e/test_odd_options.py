"""Options of writes whose values are of odd types: what mongod takes for nothing, for a number or refuses, it does
through Spillway."""

import pytest
from bson import Decimal128, Int64
from test_odm_shapes import bulk, modify, write

from support import exact
from support.twins import twins

pytestmark = pytest.mark.share(3)
BOOKS = [{"_id": number, "n": number, "list": [1, 2, 5, number, {"x": 1}, "a"]} for number in range(1, 5)]
VALUES = [None, "x", {}, True, 0, 0.5, float("nan")]
ONE = {"_id": 1}


def delete(option, value):
    statement = {"q": {"list": 77}, "limit": 1, option: value}
    return {"delete": "books", "deletes": [statement]}


def each(command, *options):
    """Of each option the commands with all values."""
    return {option: [command(**{option: value}) for value in VALUES] for option in options}


STATEMENT = ("upsert", "multi", "collation", "hint", "arrayFilters", "c")
CASES = {
    "update": each(lambda **option: bulk(write({"$push": {"list": 3}}, ONE, **option)), *STATEMENT),
    "edit": each(lambda **option: bulk(write({"$inc": {"list.5": 1, "list.1": 1}}, {"n": 1}, **option)), *STATEMENT),
    "by element": each(lambda **option: bulk(write({"$set": {"n": 8}}, {"list": 2}, **option)), "upsert", "multi",
                       "collation"),
    "delete": {option: [delete(option, value) for value in VALUES] for option in ("limit", "collation", "hint")},
    "findAndModify": each(lambda **option: modify({"$pop": {"list": -1}}, {"list": 5}, **option),
                          "upsert", "new", "remove", "collation", "hint", "sort", "fields", "let"),
}


@pytest.fixture(scope="module")
def arms():
    with twins(("soon2", "rest2")) as made:
        yield made


@pytest.mark.parametrize("command, option",
                         [(command, option) for command, options in CASES.items() for option in options])
def test_an_option_means_what_it_means_to_mongod(arms, command, option):
    arms.run(BOOKS, CASES[command][option])


KEYED = (exact.ARRAY, [("x", exact.value_of({"e": 1}))])
MALFORMED = [{"u": [5]}, {"u": [{"$set": {"n": 1}}, None]}, {"u": [["$set"]]}, {"arrayFilters": [5]},
             {"arrayFilters": [{"e": 1}, [{"e": 1}]]}, {"arrayFilters": [None]}, {"arrayFilters": KEYED}]


@pytest.mark.parametrize("fields", MALFORMED)
def test_a_malformed_statement_is_found_before_another_is_run(arms, fields):
    first, second = write({"$pull": {"list": 5}}, ONE), write({"$pull": {"list": 2}}, {"_id": 2})
    arms.run(BOOKS, [bulk(first, {**second, **fields}, ordered=ordered) for ordered in (True, False)])


STABLE = [{"apiStrict": True}, {"apiStrict": 1, "apiVersion": "1"}, {"apiStrict": True, "apiVersion": "2"},
          {"apiStrict": False, "apiVersion": "1"}]


@pytest.mark.parametrize("fields", STABLE)
def test_a_distinct_with_a_wrong_apistrict_is_mongods_error(arms, fields):
    arms.run(BOOKS, [{"distinct": "books", "key": key, "query": {"list": 5}, **fields} for key in ("list", "n")])


def test_a_find_by_id_and_element_tells_of_a_score_that_is_none(arms):
    score = {"$meta": "textScore"}
    arms.run(BOOKS, [{"find": "books", "filter": {"_id": 1, "list": number}, "projection": {"list": score}}
                     for number in (5, 77)])


@pytest.mark.parametrize("limit", VALUES)
def test_a_limit_that_is_no_number_deletes_all(arms, limit):
    arms.run(BOOKS, [{"delete": "books", "deletes": [{"q": {"list": 5}, "limit": limit}]}])


@pytest.mark.parametrize("ordered", VALUES)
def test_an_error_ends_statements_that_are_in_order(arms, ordered):
    updates = [write({"$pull": {"list": 5}}, ONE), write({"$push": {"n": 1}}, ONE), write({"$pull": {"list": 2}}, ONE)]
    deletes = [{"q": query, "limit": 1} for query in ({"list": 77}, {"$x": 1}, {"list": 3})]
    arms.run(BOOKS, [{"update": "books", "updates": updates, "ordered": ordered},
                     {"delete": "books", "deletes": deletes, "ordered": ordered}])


CONCERNS = [{"w": w, **more} for w in (0, 0.5, -0.5, 0.0)
            for more in ({}, {"j": True}, {"j": 1}, {"j": False}, {"fsync": True}, {"wtimeout": 5})]
CONCERNS += [{"w": w} for w in (float("nan"), Decimal128("0"), Decimal128("1"), Int64(0),
                                -1)] + [{"w": 0, "j": "x"}, {"w": 0, "x": 1}, {"w": 1.0}, {"w": 1.5}]


@pytest.mark.parametrize("concern", CONCERNS)
def test_a_write_is_unacknowledged_where_mongod_says_nothing(arms, concern):
    statement = {"q": {"list": 2}, "u": {"$set": {"list.1": 9}}}
    arms.run(BOOKS, [{"update": "books", "updates": [statement], "writeConcern": concern},
                     {"delete": "books", "deletes": [{"q": {"list.5": "a"}, "limit": 1}], "writeConcern": concern}])


READS = [{"find": "books", "filter": {"list": 5}, "sort": {"_id": 1}},
         {"find": "books", "projection": {"list": {"$slice": 2}}, "sort": {"_id": 1}}]


@pytest.mark.parametrize("fields", [{"readOnce": True}, {"mirrored": True}, {"term": Int64(1)}, {"term": "x"},
                                    {"allowSpeculativeMajorityRead": True}, {"requestResumeToken": False},
                                    {"requestResumeToken": True}, {"resumeAfter": {}}, {"neverHeardOf": 1}])
def test_options_that_servers_give_each_other_change_no_answer(arms, fields):
    arms.run(BOOKS, [{**read, **fields} for read in READS])


@pytest.mark.parametrize("explains", [True, False])
def test_a_wrong_aggregate_that_explains_itself_needs_no_cursor(arms, explains):
    wrong = [{"$sort": {"list": 0}}, {"$bad": 1}, {"$project": {}}, {"$project": {"list": {"$slice": 1}}}]
    arms.run(BOOKS, [{"aggregate": "books", "pipeline": [stage], "explain": explains} for stage in wrong])


def test_a_catalog_lists_the_collection(arms):
    arms.run(BOOKS, [{"aggregate": "books", "pipeline": [{"$listCatalog": {}}, {"$project": {"name": 1, "type": 1}}],
                      "cursor": {}}])
