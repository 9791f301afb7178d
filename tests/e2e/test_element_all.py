"""$all inside an $elemMatch of values, which mongod can't read back if it takes a stage's filter apart: error 2. Each
read and write must find what mongod finds by a query.
"""

import pytest
from bson import Regex

from support import exact
from support.twins import twins

A, B = Regex("a"), Regex("b", "i")
LISTS = (
    [1], [1, 2], [1, 1.0], [], [None], ["a"], [A], [A, B], [A, "ab"], [[1]], [[1, 2], 1], [{"x": 1}], [{}],
    [{"$ref": "c", "$id": 1}], [{"$elemMatch": {"$gt": 1}}, {"$elemMatch": {"$lt": 3}}], [{"$elemMatch": {"x": 1}}],
    [{"$elemMatch": {"$all": [1, 2]}}],
)
ELEMENTS = [1, 2, 1.0, None, "a", "ab", "B", A, B, [1], [1, 2], [[1, 2], 1], [2, [1]], {"x": 1}, {"x": [1, 2]}, {}, [],
            [{"x": 1}], {"$ref": "c", "$id": 1}]


def documents():
    made = [{"list": [each], "kept": {"list": [{"x": each}, {"x": [each, 1]}]}, "n": at}
            for at, each in enumerate(ELEMENTS)]
    made += [{"list": ELEMENTS[at:at + 5], "kept": {"list": [{"x": [each]} for each in ELEMENTS[at:at + 4]]},
              "n": at} for at in range(0, len(ELEMENTS), 3)]
    made += [{"list": 1, "n": 1}, {"list": [], "n": 0}, {"n": 2}, {"list": [3, 4, 5, 1, [1, 2]], "n": 9}]
    return [{"_id": number, **each} for number, each in enumerate(made)]


def conditions(listed):
    """On an array whose elements may be arrays."""
    every = {"$all": listed}
    return [{"$elemMatch": every}, {"$elemMatch": {"$not": every}}, {"$elemMatch": {"$gt": 0, **every}},
            {"$elemMatch": {**every, "$regex": "b", "$options": "i"}}, {"$elemMatch": {"$elemMatch": every}},
            {"$elemMatch": {"$not": {**every, "$exists": True}}}, {"$not": {"$elemMatch": every}},
            {"$all": [{"$elemMatch": every}]}]


def filters(listed):
    made = []
    for condition in conditions(listed):
        # A second condition makes mongod take the filter apart.
        made += [{"list": condition}, {"list": condition, "n": {"$ne": 3}}]
    inner = {"$elemMatch": {"$all": listed}}
    return [*made, {"$or": [{"list": inner}, {"n": 9}], "n": {"$gte": 0}}, {"$nor": [{"list": inner}, {"n": 9}]},
            {"kept.list.x": inner, "n": {"$ne": 1}}, {"kept.list": {"$elemMatch": {"x": inner}}, "n": {"$ne": 1}},
            {"list": inner, "$expr": {"$gte": ["$n", 0]}}]


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


def _same(twins, command):
    """The plain arm's reply, as every arm gives it."""
    answers = {arm.name: arm.call(command) for arm in twins.arms}
    twins.same(command, {name: exact.show_document(answer) for name, answer in answers.items()})
    assert exact.plain(exact.get(answers["plain"], "ok")) == 1, exact.show_document(answers["plain"])
    return answers["plain"]


@pytest.mark.share(8)
@pytest.mark.parametrize("listed", LISTS, ids=str)
def test_finds(full, listed):
    for query in filters(listed):
        _same(full, {"find": "books", "filter": query, "sort": {"_id": 1}})
    query = {"list": {"$elemMatch": {"$all": listed}}, "n": {"$ne": 3}}
    _same(full, {"count": "books", "query": query})
    _same(full, {"distinct": "books", "key": "_id", "query": query})
    _same(full, {"find": "books", "filter": query, "sort": {"_id": 1}, "collation": {"locale": "en", "strength": 1}})


def test_they_find_something(full):
    """Else nothing here would be tested."""
    found = [_same(full, {"count": "books", "query": query}) for listed in LISTS for query in filters(listed)[:2]]
    assert sum(exact.plain(exact.get(reply, "n")) > 0 for reply in found) > len(found) // 2


TEST = {"list": {"$elemMatch": {"$all": [[1, 2]]}}, "n": {"$gte": 0}}
GROUPED = [{"$group": {"_id": None, "found": {"$push": "$_id"}}}]
PIPELINES = [
    [{"$match": TEST}, {"$sort": {"_id": 1}}],
    [{"$match": {"n": {"$ne": 3}}}, {"$match": TEST}, {"$sort": {"_id": 1}}],
    # mongod leaves these in one piece; Spillway's stages stand before them.
    [{"$sort": {"_id": 1}}, {"$limit": 30}, {"$match": TEST}],
    [{"$sort": {"_id": 1}}, {"$skip": 3}, {"$match": {**TEST, "$expr": {"$gte": ["$n", 0]}}}],
    [{"$facet": {"found": [{"$match": TEST}, {"$sort": {"_id": 1}}, *GROUPED]}}],
    [{"$limit": 1}, {"$project": {"_id": 1}},
     {"$lookup": {"from": "books", "pipeline": [{"$match": TEST}, {"$sort": {"_id": 1}}, *GROUPED], "as": "found"}}],
    [{"$limit": 1}, {"$project": {"_id": 1}},
     {"$lookup": {"from": "books", "pipeline": [{"$sort": {"_id": 1}}, {"$limit": 30}, {"$match": TEST}, *GROUPED],
        "as": "found"}}],
    [{"$match": {"_id": 1}}, {"$project": {"_id": 1}},
     {"$unionWith": {"coll": "books", "pipeline": [{"$match": TEST}, {"$sort": {"_id": 1}}]}}],
]


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: str(pipeline)[:80])
def test_pipelines(full, pipeline):
    _same(full, {"aggregate": "books", "pipeline": pipeline, "cursor": {}})


@pytest.mark.parametrize("stage", [{"$set": {"x": {"$size": {"$ifNull": ["$kept.list", []]}}}}, {"$sort": {"n": 1}},
    {"$sort": {"list": 1}}], ids=str)
def test_behind_a_stage_of_the_clients_it_is_answered(full, stage):
    """mongod alone fails: it takes the filter apart to move a part of it."""
    command = {"aggregate": "books", "pipeline": [stage, {"$match": TEST}, {"$sort": {"_id": 1}},
        {"$project": {"_id": 1}}], "cursor": {}}
    right = _same(full, {"find": "books", "filter": TEST, "sort": {"_id": 1}, "projection": {"_id": 1}})
    for arm in full.arms:
        answer = arm.call(command)
        if arm.name == "plain":
            assert exact.plain(exact.get(answer, "code")) == 2
        else:
            assert (exact.show(exact.get(answer, "cursor.firstBatch"))
                    == exact.show(exact.get(right, "cursor.firstBatch")))


WRITES = [
    {"delete": "books", "deletes": [{"q": TEST, "limit": 0}]},
    {"update": "books", "updates": [{"q": TEST, "u": {"$set": {"n": "hit"}}, "multi": True}]},
    {"update": "books", "updates": [{"q": TEST, "u": {"$push": {"list": 5}}, "multi": True}]},
    {"update": "books", "updates": [{"q": TEST, "u": {"$set": {"list.0": "hit"}}, "multi": True}]},
    {"update": "books", "updates": [{"q": {"_id": 10, **TEST}, "u": {"$set": {"list.$": "hit"}}}]},
    {"findAndModify": "books", "query": TEST, "sort": {"_id": -1}, "update": {"$set": {"list.$[]": 0}}, "new": True},
    {"findAndModify": "books", "query": TEST, "sort": {"_id": 1}, "remove": True},
]


@pytest.mark.parametrize("command", WRITES, ids=lambda command: str(command)[:90])
def test_writes(changed, command):
    changed.run(documents(), [command])


@pytest.mark.parametrize("projection", [{"list": {"$elemMatch": {"$all": [[1, 2]]}}},
    {"list": {"$elemMatch": {"$not": {"$all": [1, 2]}}}}], ids=str)
def test_projections(full, projection):
    _same(full, {"find": "books", "projection": projection, "sort": {"_id": 1}})
    _same(full, {"find": "books", "projection": projection, "filter": TEST, "sort": {"_id": 1}})


@pytest.mark.parametrize("listed", [[{"$gt": 1}], [1, {"$elemMatch": {"$gt": 1}}], 1, [{"$gt": 1, "$ref": "c"}]],
    ids=str)
def test_what_mongod_refuses_is_refused(full, listed):
    command = {"find": "books", "filter": {"list": {"$elemMatch": {"$all": listed}}, "n": 1}}
    answers = {arm.name: arm.call(command) for arm in full.arms}
    full.same(command, {name: exact.show_document(answer) for name, answer in answers.items()})
    assert exact.plain(exact.get(answers["plain"], "code")) == 2


def test_documents_whose_first_name_begins_with_a_dollar_are_not_served(full):
    """Spillway can't tell such a value from an operator that mongod would refuse."""
    query = {"list": {"$elemMatch": {"$all": [{"$none": 1}]}}, "n": {"$ne": 3}}
    codes = {arm.name: exact.get(arm.call({"find": "books", "filter": query}), "code") for arm in full.arms}
    assert codes.pop("plain") is None
    assert {exact.plain(code) for code in codes.values()} == {2}
