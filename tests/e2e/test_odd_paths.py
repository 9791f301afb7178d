"""Filters on paths with parts that are empty or begin with `$`.

mongod refuses these in some places (40353, 15998, 16410) and not in others.
"""

import pytest

from support import exact
from support.twins import twins

REFUSED = 115
DOCUMENTS = [
    {"_id": 1, "list": [1, 2, 3, 4, 5], "kept": {"list": [{"": 1}, {"": 2}, 3, 4]}}, {"_id": 2,
        "list": [{"": 1}, {"x": {"": 5}}, 3, {"": {"x": 7}}], "kept": {"list": [1]}},
    {"_id": 3, "list": 5}, {"_id": 4, "list": {"": 1}}, {"_id": 5},
    {"_id": 6, "list": [{"": None}, {"x": {"": None}}, 2],
        "": {"list": [1]}},
]
PATHS = ("list.", "list..x", "list.x.", ".list", "list.0.", "kept.list.", "kept..list", ".", "..",
         "list.$", "list.$.x", "list.x.$", "list.$x", "list.0.$[]", "kept.list.$", "kept.$list")
SERVED = ("list.$id", "list.x.$ref", "list.0.$db")
CONDITIONS = (1, None, {"$exists": True}, {"$gt": 0}, {"$ne": 1}, {"$in": [1, 5]}, {"$type": "int"})


@pytest.fixture(scope="module")
def books():
    with twins() as made:
        made.fill(DOCUMENTS)
        made.settle()
        yield made


def commands(query):
    yield {"find": "books", "filter": query, "sort": {"_id": 1}}
    yield {"find": "books", "filter": query, "projection": {"n": {"$size": {"$ifNull": ["$kept.list", []]}}},
           "sort": {"_id": 1}}
    yield {"count": "books", "query": query}
    yield {"distinct": "books", "key": "_id", "query": query}
    yield {"aggregate": "books", "pipeline": [{"$match": query}, {"$sort": {"_id": 1}}], "cursor": {}}
    yield {"aggregate": "books", "pipeline": [{"$match": query}, {"$group": {"_id": None, "n": {"$sum": 1}}}],
           "cursor": {}}
    yield {"aggregate": "books", "pipeline": [{"$sort": {"_id": 1}}, {"$match": query}, {"$project": {"_id": 1}}],
           "cursor": {}}
    yield {"aggregate": "books",
           "pipeline": [{"$sort": {"_id": 1}}, {"$limit": 4}, {"$match": query}, {"$project": {"_id": 1}}],
        "cursor": {}}
    yield {"aggregate": "books",
           "pipeline": [{"$facet": {"found": [{"$match": query}, {"$sort": {"_id": 1}}, {"$project": {"_id": 1}}]}}],
        "cursor": {}}
    yield {"aggregate": "books", "pipeline": [{"$limit": 1}, {"$project": {"_id": 1}}, {"$lookup": {
        "from": "books", "pipeline": [{"$match": query}, {"$sort": {"_id": 1}}, {"$project": {"_id": 1}}],
        "as": "found"}}], "cursor": {}}
    yield {"update": "books", "updates": [{"q": query, "u": {"$set": {"seen": True}}, "multi": True}]}
    yield {"update": "books", "updates": [{"q": query, "u": {"$unset": {"seen": True}}, "multi": True}]}
    yield {"findAndModify": "books", "query": query, "sort": {"_id": 1}, "update": {"$set": {"seen": 2}},
           "fields": {"_id": 1}}
    yield {"findAndModify": "books", "query": query, "sort": {"_id": 1}, "update": {"$unset": {"seen": 2}},
           "fields": {"_id": 1}}


def compare(books, path, refused):
    """Each command's answers; of these, `refused` leaves out Spillway's refusals."""
    for condition in CONDITIONS:
        for command in commands({path: condition}):
            answers = {arm.name: exact.show_document(arm.call(command)) for arm in books.arms}
            books.same(command, {name: answer for name, answer in answers.items()
                                 if not refused or f"code: {REFUSED}," not in answer})


@pytest.mark.parametrize("path", SERVED)
def test_paths_into_references(books, path):
    compare(books, path, refused=False)


@pytest.mark.parametrize("path", PATHS)
def test_paths_with_odd_parts(books, path):
    compare(books, path, refused=True)
