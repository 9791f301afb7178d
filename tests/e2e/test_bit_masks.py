"""Bit tests with a binary mask, which mongod evaluates in two ways: rightly in a query, and with a mask that is too
wide elsewhere when a byte of the mask is 0x80 or more. Each read and write must do what mongod does there.
"""

import pytest
from bson import Binary, Int64, Regex

from support import exact
from support.twins import twins

REFUSED = 115
MASKS = [Binary(bytes(mask), subtype) for mask, subtype in (
    ([0x80], 0), ([0xff], 0), ([0, 0x80], 0), ([1, 0xfe, 0, 1], 0), ([0] * 6 + [0x81], 0), ([0] * 7 + [0x80], 0),
    ([0x81] + [0] * 8 + [0xff], 0), ([0x80], 2),
    ([0x80], 5), ([0xc0], 128), ([0xff] * 40, 0), ([1], 0), ([], 0))]
OPERATORS = ("$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear")
HIGH = MASKS[0]
NUMBERS = [255, 254, 128, 127, -1, 0, Int64(2**40 + 128), Int64(-(2**63)), 128.0, 1.5, Binary(b"\x80", 0),
           Binary(b"\xff" * 20, 0), "a",
    None, [128], {"x": 255, "y": 1}]


def documents():
    """Ordinary documents, outliers, and numbers outside of arrays."""
    made = [{"list": [number], "n": number, "kept": {"list": [{"x": number}]}} for number in NUMBERS]
    made += [{"list": NUMBERS[at:at + 4], "n": at, "kept": {"list": [{"x": each,
        "y": 1} for each in NUMBERS[at:at + 5]]}} for at in range(0, len(NUMBERS), 3)]
    made += [{"list": 255, "n": 255}, {"n": -1}, {"list": [], "n": 0}, {"list": [1, 2, 3, 255, 254], "n": 9}]
    return [{"_id": number, **each} for number, each in enumerate(made)]


@pytest.fixture(scope="module")
def books():
    with twins() as made:
        yield made


@pytest.fixture
def full(books):
    """All documents, put there anew only behind a test that changed them."""
    if not getattr(books, "is_full", False):
        books.fill(documents())
        books.settle()
        books.is_full = True
    return books


@pytest.fixture
def changed(books):
    books.is_full = False
    return books


def _same(twins, command, may_refuse=False):
    """The reply, as every arm gives it; an arm may refuse where the case says so."""
    answers = {arm.name: arm.call(command) for arm in twins.arms}
    refused = {name for name, answer in answers.items()
               if exact.plain(exact.get(answer, "code") or (16, b"\0" * 4)) == REFUSED}
    assert may_refuse or not refused, exact.show_document(answers[refused.pop()])
    twins.same(command, {name: exact.show_document(answer) for name, answer in answers.items() if name not in refused})
    return answers["plain"], refused


def _found(reply):
    return [exact.plain(exact.get(document, "_id")) for _, (_, document) in exact.get(reply, "cursor.firstBatch")[1]]


def forms(operator, mask):
    test = {operator: mask}
    return [
        {"list": test}, {"kept.list.x": test}, {"list.1": test}, {"n": test, "list": {"$exists": True}},
        {"list": {"$not": test}},
        {"list": {"$elemMatch": test}},
        {"kept.list": {"$elemMatch": {"x": test, "y": 1}}}, {"$or": [{"list": test}, {"n": 9}]},
        {"$nor": [{"list": test}, {"n": 9}]},
        {"$and": [{"list": test}, {"n": {"$ne": 3}}]},
        {"list": {"$all": [{"$elemMatch": test}]}}, {"list": {"$elemMatch": {"$not": test}}},
        {"list": test, "$expr": {"$ne": ["$n", 3]}},
        {"list": {"$elemMatch": {"$elemMatch": test}}}, {"kept.list": {"$elemMatch": {"$or": [{"x": test}, {"y": 2}]}}},
        {"list": {**test, "$gt": 1}},
        {"list": {"$not": {"$elemMatch": test}}},
    ]


@pytest.mark.share(8)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: f"{mask.hex()[:20]}-{mask.subtype}")
def test_finds(full, operator, mask):
    for query in forms(operator, mask):
        _same(full, {"find": "books", "filter": query, "sort": {"_id": 1}})
    query = {"list": {operator: mask}}
    _same(full, {"count": "books", "query": query})
    _same(full, {"distinct": "books", "key": "_id", "query": query})
    _same(full, {"aggregate": "books", "pipeline": [{"$match": query}, {"$sort": {"_id": 1}}, {"$project": {"n": 1}}],
                 "cursor": {}})


def test_it_makes_a_difference(full):
    """Else nothing here would be tested: mongod's two answers differ."""
    query = {"list": {"$bitsAllSet": HIGH}}
    asked = _found(_same(full, {"find": "books", "filter": query, "projection": {"_id": 1}, "sort": {"_id": 1}})[0])
    stages = [{"$facet": {"found": [{"$match": query}, {"$sort": {"_id": 1}}, {"$project": {"_id": 1}}]}},
              {"$unwind": "$found"},
        {"$replaceWith": "$found"}]
    behind = _found(_same(full, {"aggregate": "books", "pipeline": stages, "cursor": {}})[0])
    assert asked != behind and len(asked) > 5


# What looks like a test and is a value.
VALUES = [
    {"list": {"$in": [{"$bitsAllSet": HIGH}]}}, {"list": {"x": {"$bitsAllSet": HIGH}}},
    {"list": {"$eq": {"$bitsAllSet": HIGH}}},
    {"list": {"$elemMatch": {"x": {"y": {"$bitsAllSet": HIGH}}}}},
    {"list": {"$ref": "c", "$id": 1, "$bitsAllSet": HIGH}}, {"list": {"$bitsAllSet": HIGH, "$ref": "c", "$id": 1}},
    {"$expr": {"$eq": [{"$first": "$kept.list"}, {"$literal": {"$bitsAllSet": HIGH}}]}},
    {"list": {"$all": [{"$bitsAllSet": HIGH}]}}, {"$bitsAllSet": HIGH, "list": 1},
    {"list": {"$bitsAllSet": HIGH, "x": 1}},
    {"list": {"$not": {"$bitsAllSet": HIGH, "$bad": 1}}},
    {"list": {"$elemMatch": {"$ref": "c", "$bitsAllSet": HIGH}}},
    {"list": {"$in": [Regex("a"), {"$not": {"$bitsAllSet": HIGH}}]}},
]


@pytest.mark.share(8)
@pytest.mark.parametrize("query", VALUES, ids=lambda query: str(query)[:60])
def test_values_stay_what_they_are(changed, query):
    held = [{"$bitsAllSet": HIGH}, {"x": {"$bitsAllSet": HIGH}}, {"x": {"y": {"$bitsAllSet": HIGH}}}]
    command = {"find": "books", "filter": query, "sort": {"_id": 1}, "projection": {"_id": 1}}
    changed.fill([{"_id": number, "list": [each, 1, 2], "kept": {"list": [each]}} for number, each in enumerate(held)])
    changed.settle()
    _same(changed, command)


WRITES = [
    {"delete": "books", "deletes": [{"q": {"list": {"$bitsAnyClear": HIGH}}, "limit": 0}]},
    {"delete": "books", "deletes": [{"q": {"kept.list.x": {"$bitsAllSet": HIGH}}, "limit": 0}]},
    {"update": "books",
     "updates": [{"q": {"list": {"$bitsAllSet": HIGH}}, "u": {"$set": {"n": "hit"}}, "multi": True}]},
    {"update": "books",
     "updates": [{"q": {"list": {"$bitsAllSet": MASKS[2]}, "_id": {"$lt": 90}}, "u": {"$push": {"list": 5}},
        "multi": True}]},
    {"update": "books",
     "updates": [{"q": {"n": {"$bitsAllSet": HIGH}}, "u": {"$set": {"list.0": "hit"}}, "multi": True}]},
    {"findAndModify": "books", "query": {"list": {"$bitsAllSet": HIGH}, "n": {"$ne": 255}}, "sort": {"_id": -1},
        "update": {"$set": {"list.$[]": 0}}, "new": True},
    {"findAndModify": "books", "query": {"list": {"$bitsAllClear": HIGH}}, "sort": {"_id": 1}, "remove": True},
    # mongod itself evaluates these with a mask that is too wide.
    {"update": "books", "updates": [{"q": {"_id": {"$lt": 90}}, "u": {"$set": {"list.$[e]": "hit"}},
        "arrayFilters": [{"e": {"$bitsAnyClear": HIGH}}], "multi": True}]},
    {"update": "books",
     "updates": [{"q": {"_id": {"$lt": 90}}, "u": {"$pull": {"list": {"$bitsAllSet": HIGH}}}, "multi": True}]},
    {"update": "books",
     "updates": [{"q": {"_id": {"$lt": 90}}, "u": {"$pull": {"kept.list": {"x": {"$bitsAnyClear": HIGH}}}},
        "multi": True}]},
    {"update": "books",
     "updates": [{"q": {"_id": 17, "list": {"$elemMatch": {"$bitsAllSet": HIGH}}}, "u": {"$set": {"list.$": "hit"}}}]},
]


@pytest.mark.parametrize("command", WRITES, ids=lambda command: str(command)[:90])
def test_writes(changed, command):
    made = documents()
    if "delete" not in command:
        # Operators on the array fail where there is none.
        made = [document for document in made if isinstance(document.get("list"), list) and document["list"]
                and "kept" in document]
    changed.run(made, [command])


@pytest.mark.parametrize("projection", [
    {"list": {"$elemMatch": {"$bitsAllSet": HIGH}}}, {"list": {"$elemMatch": {"$bitsAnyClear": HIGH}}},
    {"kept.list": {"$elemMatch": {"x": {"$bitsAllSet": HIGH}}}},
    {"list": {"$elemMatch": {"$not": {"$bitsAnyClear": HIGH}}}, "n": 1},
], ids=str)
@pytest.mark.parametrize("query", [{}, {"list": {"$bitsAllSet": HIGH}}], ids=["all", "some"])
def test_projections(full, projection, query):
    _same(full, {"find": "books", "projection": projection, "filter": query, "sort": {"_id": 1}})


TEST = {"list": {"$bitsAllSet": HIGH}}
GROUPED = [{"$group": {"_id": None, "found": {"$push": "$_id"}}}]
PIPELINES = [
    [{"$match": {"n": {"$ne": 3}}}, {"$match": TEST}],
    [{"$match": TEST}, {"$match": {"kept.list.x": {"$bitsAnyClear": HIGH}}}],
    [{"$sort": {"_id": 1}}, {"$match": TEST}],
    [{"$sort": {"list": 1, "_id": 1}}, {"$match": TEST}],
    [{"$facet": {"found": [{"$match": TEST}, {"$sort": {"_id": 1}}, *GROUPED]}}],
    [{"$facet": {"found": [{"$sort": {"_id": 1}}, {"$match": TEST}, *GROUPED]}}],
    [{"$limit": 1}, {"$project": {"_id": 1}},
     {"$lookup": {"from": "books", "pipeline": [{"$match": TEST}, {"$sort": {"_id": 1}}, *GROUPED],
        "as": "found"}}],
    [{"$limit": 1}, {"$project": {"_id": 1}},
     {"$lookup": {"from": "books", "pipeline": [{"$sort": {"_id": 1}}, {"$match": TEST}, *GROUPED],
        "as": "found"}}],
    [{"$limit": 1}, {"$project": {"_id": 1}}, {"$lookup": {"from": "books", "pipeline": [{"$match": {"n": {"$ne": 1}}},
        {"$facet": {"in": [{"$match": TEST}, {"$sort": {"_id": 1}}, *GROUPED]}}], "as": "found"}}],
    [{"$match": {"_id": 1}}, {"$project": {"_id": 1}}, {"$unionWith": {"coll": "books", "pipeline": [{"$match": TEST},
        {"$sort": {"_id": 1}}]}}],
    [{"$match": TEST},
     {"$graphLookup": {"from": "books", "startWith": 1, "connectFromField": "none", "connectToField": "_id",
        "as": "joined", "restrictSearchWithMatch": {"n": {"$bitsAllSet": HIGH}}}}, {"$sort": {"_id": 1}}],
]
# mongod may move the $match to the front, or past stages of Spillway's, or not.
UNCLEAR = [
    [{"$sort": {"_id": 1}}, {"$limit": 20}, {"$match": TEST}],
    [{"$sort": {"_id": 1}}, {"$limit": 20},
     {"$match": {"list": {"$not": {"$elemMatch": {"$bitsAllSet": HIGH}}}, "n": {"$gte": 1}}}],
    [{"$sort": {"_id": 1}}, {"$skip": 3}, {"$match": TEST}],
    [{"$sort": {"_id": 1}}, {"$limit": 20}, {"$set": {"size": {"$size": {"$ifNull": ["$kept.list", []]}}}},
     {"$match": TEST}],
    [{"$sort": {"_id": 1}}, {"$limit": 25},
     {"$match": {"n": {"$bitsAllSet": HIGH}, "list": {"$bitsAnySet": HIGH}}}],
    [{"$limit": 1}, {"$project": {"_id": 1}},
     {"$lookup": {"from": "books", "pipeline": [{"$sort": {"_id": 1}}, {"$limit": 30},
        {"$match": TEST}, *GROUPED], "as": "found"}}],
    [{"$set": {"size": {"$size": {"$ifNull": ["$kept.list", []]}}}}, {"$match": TEST}],
    [{"$project": {"list": 1}}, {"$match": TEST}],
    [{"$unwind": "$list"}, {"$match": TEST}],
    [{"$replaceWith": "$$ROOT"}, {"$match": TEST}], [{"$match": {"_id": 1}}, {"$unionWith": "books"}, {"$match": TEST}],
    [{"$set": {"list": {"$ifNull": ["$list", 1]}}}, {"$match": {"$and": [TEST, {"n": 9}]}}],
    [{"$limit": 1}, {"$lookup": {"from": "books", "pipeline": [{"$set": {"x": 1}}, {"$match": TEST}], "as": "found"}}],
    [{"$limit": 1},
     {"$lookup": {"from": "nothing", "pipeline": [{"$unionWith": "books"}, {"$match": TEST}], "as": "found"}}],
    [{"$facet": {"found": [{"$unionWith": "books"}, {"$match": TEST}]}}],
]


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: str(pipeline)[:80])
def test_pipelines(full, pipeline):
    _same(full, {"aggregate": "books", "pipeline": pipeline, "cursor": {}})


def _with_positions(value):
    """The value with the list of positions in the mask's place."""
    if isinstance(value, dict):
        return {name: _with_positions(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_positions(each) for each in value]
    return [7] if value == HIGH else value


@pytest.mark.parametrize("pipeline", UNCLEAR, ids=lambda pipeline: str(pipeline)[:80])
def test_pipelines_in_which_mongod_may_move_the_test(full, pipeline):
    _same(full, {"aggregate": "books", "pipeline": [*pipeline, {"$sort": {"_id": 1}}], "cursor": {}}, may_refuse=True)
    positions = _with_positions(pipeline)
    assert positions != pipeline
    _same(full, {"aggregate": "books", "pipeline": [*positions, {"$sort": {"_id": 1}}], "cursor": {}})


def test_a_mask_that_is_too_long_is_refused(full):
    query = {"list": {"$bitsAllSet": Binary(b"\xff" * 100_000, 0)}}
    # Its bytes leave the sign alone.
    small = {"list": {"$bitsAllSet": Binary(b"\x7f" * 100_000, 0)}}
    _same(full, {"find": "books", "filter": small, "sort": {"_id": 1}})
    full.is_full = False
    for command in ({"find": "books", "filter": query}, {"count": "books", "query": query},
                    {"aggregate": "books", "pipeline": [{"$match": query}, {"$project": {"n": {"$size": "$list"}}}],
                     "cursor": {}},
                    {"delete": "books", "deletes": [{"q": query, "limit": 0}]}):
        answers = {arm.name: exact.show_document(arm.call(command)) for arm in full.arms}
        assert all(("code: 115" in answer) == (name != "plain") for name, answer in answers.items())
