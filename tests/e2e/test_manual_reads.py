"""What MongoDB's manual shows of querying and projecting arrays, on plain and on ruled arrays alike; the data are ours.

An example is a filter with options of find; some are also counted, and some are pipelines.
"""

import pytest
from bson import Decimal128, Regex

from support import exact
from support.twins import twins

pytestmark = pytest.mark.share(3)
# What this version may still refuse; where it doesn't, the answer must be mongod's.
REFUSED = 115


def words():
    """Arrays of scalars: words in `list`, measures in `kept.list`."""
    return [
        {"_id": 1, "item": "rope", "count": 25, "list": ["blank", "red"], "kept": {"list": [14, 21]}},
        {"_id": 2, "item": "tape", "count": 50, "list": ["red", "blank"], "kept": {"list": [14, 21]}},
        {"_id": 3, "item": "sheet", "count": 100, "list": ["red", "blank", "plain"], "kept": {"list": [14, 21]}},
        {"_id": 4, "item": "diary", "count": 75, "list": ["blank", "red"], "kept": {"list": [22.85, 30]}},
        {"_id": 5, "item": "card", "count": 45, "list": ["blue"], "kept": {"list": [10, 15.25]}},
        {"_id": 6, "item": "note", "count": 5, "list": [], "kept": {"list": None}},
        {"_id": 7, "item": "bare", "count": None},
        {"_id": 8, "item": "odd", "list": "red", "kept": {"list": 21}},
        {"_id": 9, "item": "deep", "list": [["red", "blank"], "red", None], "kept": {"list": [[14, 21], 30, 7, 22.5]}},
    ]


def shelves():
    """Arrays of documents."""
    return [
        {"_id": 1, "item": "rope", "list": [{"shop": "A", "count": 5}, {"shop": "C", "count": 15}]},
        {"_id": 2, "item": "tape", "list": [{"shop": "C", "count": 5}]},
        {"_id": 3, "item": "sheet", "list": [{"shop": "A", "count": 60}, {"shop": "B", "count": 15}]},
        {"_id": 4, "item": "diary", "list": [{"shop": "A", "count": 40}, {"shop": "B", "count": 5}]},
        {"_id": 5, "item": "card", "list": [{"shop": "B", "count": 15}, {"shop": "C", "count": 35}]},
        {"_id": 6, "item": "none", "list": [{"shop": "D"}, {"count": [1, 5, 40]}, 7]},
        {"_id": 7, "item": "kept", "kept": {"list": [{"shop": "A", "count": 5, "by": {"name": "x", "age": 3}}] * 4}},
    ]


def posts():
    """Comments behind comments, of which pages are shown."""
    return [
        {"_id": 1, "title": "first", "list": [
            {"who": "ann", "votes": 3}, {"who": "bob", "votes": 1}, {"who": "cid", "votes": 9},
            {"who": "ann", "votes": 4}, {"who": "eve", "votes": 2}], "kept": {"by": "x", "list": [1, 2, 3, 4]}},
        {"_id": 2, "title": "second", "list": [{"who": "bob", "votes": 7}], "kept": {"by": "y", "list": []}},
        {"_id": 3, "title": "third", "list": []},
        {"_id": 4, "title": "fourth", "list": "none"},
        {"_id": 5, "title": "fifth"},
    ]


QUERIES = {
    "the whole array, in its order": (words, {"list": ["red", "blank"]}),
    "all of these, in any order": (words, {"list": {"$all": ["red", "blank"]}}),
    "all of nested arrays": (words, {"list": {"$all": [["red", "blank"]]}}),
    "an element": (words, {"list": "red"}),
    "an element below a document": (words, {"kept.list": {"$gt": 25}}),
    "several conditions, each by any element": (words, {"kept.list": {"$gt": 15, "$lt": 20}}),
    "several conditions by one element": (words, {"kept.list": {"$elemMatch": {"$gt": 22, "$lt": 30}}}),
    "by position": (words, {"kept.list.1": {"$gt": 25}}),
    "by the array's length": (words, {"list": {"$size": 3}}),
    "by no length": (words, {"list": {"$not": {"$size": 2}}}),
    "an element of a list": (words, {"list": {"$in": ["blue", "plain"]}}),
    "by expressions in a list": (words, {"list": {"$in": [Regex("^bl"), "nothing"]}}),
    "no element of a list": (words, {"list": {"$nin": ["blue", "blank"]}}),
    "not this element": (words, {"list": {"$ne": "red"}}),
    "a regular expression": (words, {"list": {"$regex": "^PL", "$options": "i"}}),
    "a type of an element": (words, {"list": {"$type": "string"}}),
    "the type array": (words, {"list": {"$type": "array"}}),
    "types": (words, {"kept.list": {"$type": ["double", "null"]}}),
    "a remainder": (words, {"kept.list": {"$mod": [7, 0]}}),
    "null or missing": (words, {"list": None}),
    "missing": (words, {"list": {"$exists": False}}),
    "an empty array": (words, {"list": []}),
    "at least so many": (words, {"list.1": {"$exists": True}}),
    "and, or, nor": (words, {"$or": [{"list": "blue"}, {"$and": [{"kept.list": 14}, {"list.2": "plain"}]}],
                             "$nor": [{"item": "rope"}]}),
    "all by element": (words, {"kept.list": {"$all": [{"$elemMatch": {"$gt": 13, "$lt": 15}},
                                                       {"$elemMatch": {"$gt": 20}}]}}),
    "an expression": (words, {"$expr": {"$gt": [{"$size": {"$ifNull": [{"$cond": [
        {"$isArray": "$list"}, "$list", []]}, []]}}, 1]}}),
    "an element, as a whole document": (shelves, {"list": {"shop": "A", "count": 5}}),
    "the same with other order": (shelves, {"list": {"count": 5, "shop": "A"}}),
    "a field of any element": (shelves, {"list.count": {"$lte": 20}}),
    "a field of one place": (shelves, {"list.0.count": {"$lte": 20}}),
    "several fields of one element": (shelves, {"list": {"$elemMatch": {"count": 5, "shop": "A"}}}),
    "a range of one element": (shelves, {"list": {"$elemMatch": {"count": {"$gt": 10, "$lte": 20}}}}),
    "a range of any elements": (shelves, {"list.count": {"$gt": 10, "$lte": 20}}),
    "fields of any elements": (shelves, {"list.count": 5, "list.shop": "A"}),
    "an element without a field": (shelves, {"list.shop": None}),
    "no element with it": (shelves, {"list.shop": {"$exists": False}}),
    "an element of an array in an element": (shelves, {"list.count": {"$elemMatch": {"$gt": 30}}}),
    "deep in elements": (shelves, {"kept.list.by.name": "x", "kept.list.3.by.age": {"$lt": 9}}),
    "no such element": (shelves, {"list": {"$not": {"$elemMatch": {"shop": "A", "count": {"$gte": 40}}}}}),
}

PROJECTIONS = {
    "some fields": (posts, {}, {"title": 1, "list": 1}),
    "without _id": (posts, {}, {"title": 1, "list": 1, "_id": 0}),
    "all but the array": (posts, {}, {"list": 0}),
    "fields of documents": (posts, {}, {"title": 1, "kept.by": 1}),
    "the array below": (posts, {}, {"kept.list": 1}),
    "all but the array below": (posts, {}, {"kept.list": 0}),
    "as a document": (posts, {}, {"title": 1, "kept": {"list": 1}}),
    "a field of the elements": (posts, {}, {"title": 1, "list.votes": 1}),
    "all but a field of the elements": (posts, {}, {"list.votes": 0}),
    "the last element": (posts, {}, {"title": 1, "list": {"$slice": -1}}),
    "the first three": (posts, {}, {"list": {"$slice": 3}}),
    "the last three": (posts, {}, {"list": {"$slice": -3}}),
    "from a place": (posts, {}, {"list": {"$slice": [1, 3]}}),
    "from a place before the end": (posts, {}, {"list": {"$slice": [-4, 2]}}),
    "beyond the end": (posts, {}, {"list": {"$slice": [20, 2]}}),
    "a slice and fields": (posts, {}, {"list": {"$slice": 1}, "kept": 0}),
    "a slice below a document": (posts, {}, {"kept.list": {"$slice": 2}}),
    "the first element that matched": (posts, {"list.votes": {"$gte": 4}}, {"list.$": 1}),
    "the first of the words that matched": (words, {"list": {"$gte": "plain"}}, {"list.$": 1}),
    "one element by its field": (posts, {}, {"title": 1, "list": {"$elemMatch": {"who": "ann"}}}),
    "one element by several": (posts, {"title": "first"},
                               {"list": {"$elemMatch": {"who": "ann", "votes": {"$gt": 3}}}}),
    "one word": (words, {}, {"list": {"$elemMatch": {"$eq": "red"}}}),
    "the length": (words, {"list.0": {"$exists": True}, "_id": {"$ne": 8}}, {"n": {"$size": "$list"}}),
    "elements by an expression": (posts, {"_id": {"$lte": 3}}, {"list": {"$filter": {
        "input": "$list", "as": "each", "cond": {"$gt": ["$$each.votes", 2]}}}}),
    "an element by an expression": (posts, {"_id": {"$lte": 3}}, {"top": {"$arrayElemAt": ["$list", -1]}, "list": 1}),
    "a sum": (posts, {"_id": {"$lte": 3}}, {"votes": {"$sum": "$list.votes"}, "title": 1}),
    "words": (words, {"_id": 3}, {"text": {"$reduce": {"input": "$list", "initialValue": "", "in": {
        "$concat": ["$$value", "$$this", ","]}}}}),
    "in another order": (words, {"_id": {"$lte": 5}}, {"list": {"$reverseArray": "$list"}}),
    "is it in there": (words, {"_id": {"$lte": 5}}, {"red": {"$in": ["red", "$list"]}}),
    "numbers as they are": (words, {}, {"kept.list": Decimal128("1")}),
}

PIPELINES = {
    "without the arrays": (words, [{"$match": {"_id": {"$lte": 9}}}, {"$project": {"list": 0, "kept": 0}},
                                   {"$sort": {"_id": 1}}]),
    "without them, then computed": (posts, [{"$sort": {"_id": -1}}, {"$unset": ["list", "kept.list", "kept.more"]}, {
        "$set": {"list": [1, 2], "n": {"$size": {"$ifNull": ["$kept.list", []]}}}}, {"$match": {"list": 2}},
        {"$limit": 4}]),
    "without one of them": (words, [{"$unset": "list"}, {"$sort": {"_id": 1}}, {"$limit": 4}]),
    "without them in a facet": (words, [{"$project": {"list": 0, "kept": 0}}, {"$facet": {
        "all": [{"$sort": {"_id": 1}}, {"$limit": 3}],
        "n": [{"$match": {"list": {"$exists": True}}}, {"$count": "n"}]}}]),
    "taken apart": (words, [{"$match": {"_id": {"$lte": 5}}}, {"$unwind": "$list"}, {"$sort": {"_id": 1, "list": 1}}]),
    "with places and empty ones": (posts, [{"$unwind": {
        "path": "$list", "includeArrayIndex": "at", "preserveNullAndEmptyArrays": True}},
        {"$sort": {"_id": 1, "at": 1}}]),
    "by word": (words, [{"$unwind": "$list"}, {"$group": {"_id": "$list", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]),
    "counted by word": (words, [{"$unwind": "$list"}, {"$sortByCount": "$list"}, {"$sort": {"count": -1, "_id": 1}}]),
    "elements named": (posts, [{"$match": {"_id": {"$lte": 3}}}, {"$project": {"who": {"$map": {
        "input": "$list", "as": "each", "in": "$$each.who"}}}}, {"$sort": {"_id": 1}}]),
    "put together": (words, [{"$match": {"_id": {"$lte": 5}}}, {"$project": {
        "both": {"$concatArrays": ["$list", "$kept.list"]}, "with": {"$setUnion": ["$list", ["new"]]}}},
                             {"$addFields": {"with": {"$size": "$with"}}}, {"$sort": {"_id": 1}}]),
    "the last": (posts, [{"$match": {"_id": {"$lte": 3}}}, {"$project": {
        "first": {"$first": "$list"}, "last": {"$last": "$list"}, "at": {"$indexOfArray": ["$list.who", "cid"]}}},
                         {"$sort": {"_id": 1}}]),
    "in buckets": (words, [{"$match": {"_id": {"$lte": 5}}}, {"$bucket": {
        "groupBy": {"$size": "$list"}, "boundaries": [0, 2, 3, 9], "output": {"items": {"$push": "$item"}}}}]),
    "joined in the place of a field": (posts, [{"$lookup": {"from": "others", "localField": "title",
                                                            "foreignField": "x", "as": "title"}},
                                               {"$sort": {"_id": 1}}]),
    "joined by variables, and counted": (posts, [
        {"$lookup": {"let": {"id": "$_id"}, "pipeline": [{"$documents": [{"a": 1}]}, {"$set": {"of": "$$id"}}],
                     "as": "kept.more"}},
        {"$set": {"n": {"$size": "$list"}}}, {"$sort": {"_id": 1}}]),
    "fields beside it set and taken": (posts,
                                       [{"$set": {"title": {"$concat": ["$title", "!"]}, "kept.by": 1, "new": "$_id"}},
                                               {"$unset": ["kept.by", "x"]}, {"$addFields": {"new": "$$REMOVE"}},
                                               {"$sort": {"_id": 1}}]),
    "set, then taken apart": (words, [{"$match": {"_id": {"$lte": 5}}}, {"$set": {"item": 1}}, {"$unwind": "$list"},
                                      {"$unset": "kept"},
                                      {"$sort": {"_id": 1, "list": 1}}]),
    "other values in their place": (words, [{"$set": {"list": "$$REMOVE", "kept.list": 1, "kept.more": {"$add": [
        {"$ifNull": ["$count", 0]}, 1]}}}, {"$sort": {"_id": 1}}]),
    "another value in the place of one": (words, [{"$set": {"list": "$item"}}, {"$sort": {"_id": 1}}]),
    "into its elements": (posts, [{"$set": {"list": {"x": 1}, "kept": 5}}, {"$sort": {"_id": 1}}]),
    "replaced by other fields": (words, [{"$sort": {"_id": 1}}, {"$replaceWith": {"a": "$item", "b": "$count"}}]),
    "replaced by a hidden field": (words, [
        {"$sort": {"_id": 1}}, {"$replaceWith": {"a": "$has_list", "has_list": 1}}]),
    "in buckets of another field": (words, [{"$bucket": {"groupBy": "$_id", "boundaries": [0, 4, 10], "output": {
        "n": {"$sum": 1}, "has_list": {"$sum": 1}}}}]),
    "in automatic buckets": (words, [{"$bucketAuto": {"groupBy": "$_id", "buckets": 3}}]),
    "carried to a group": (words, [
        {"$set": {"tags": ["x", "y"]}}, {"$unwind": {"path": "$tags", "includeArrayIndex": "at"}},
        {"$match": {"at": {"$lt": 9}}}, {"$group": {"_id": "$tags", "n": {"$sum": "$count"}}}, {"$sort": {"_id": 1}}]),
    "carried to where they go": (words, [
        {"$set": {"tags": ["x", "y"]}}, {"$unwind": "$tags"}, {"$unset": ["list", "kept"]},
        {"$sort": {"_id": 1, "tags": 1}}]),
    "carried to the end": (words, [{"$set": {"tags": ["x", "y"]}}, {"$unwind": "$tags"},
                                   {"$sort": {"_id": 1, "tags": 1}}]),
    "pruned by another field": (words, [
        {"$redact": {"$cond": [{"$gt": ["$count", 40]}, "$$KEEP", "$$PRUNE"]}}, {"$project": {"item": 1}},
        {"$sort": {"_id": 1}}]),
    "over a window": (words, [{"$setWindowFields": {"sortBy": {"_id": 1}, "output": {
        "sum": {"$sum": "$count", "window": {"documents": ["unbounded", "current"]}}}}},
        {"$project": {"list": 0, "kept": 0}}, {"$sort": {"_id": 1}}]),
    "filled": (words, [{"$fill": {"sortBy": {"_id": 1}, "output": {
        "count": {"method": "linear"}, "new": {"value": 1}}}}, {"$project": {"count": 1, "new": 1}},
        {"$sort": {"_id": 1}}]),
    "densified": (words, [{"$densify": {"field": "_id", "range": {"step": 1, "bounds": [0, 12]}}},
                          {"$group": {"_id": None, "n": {"$sum": 1}}}]),
    "beside other documents": (words, [{"$unionWith": {"pipeline": [{"$documents": [{"_id": 99, "has_list": 1}]}]}},
                                       {"$project": {"has_list": 1}}, {"$sort": {"_id": 1}}]),
    "beside other documents, without them": (words, [
        {"$unionWith": {"pipeline": [{"$documents": [{"_id": 99, "has_list": 1}]}]}},
        {"$project": {"list": 0, "kept": 0}}, {"$sort": {"_id": 1}}]),
    "in a facet of groups": (words, [{"$facet": {
        "a": [{"$group": {"_id": "$item"}}, {"$sort": {"_id": 1}}],
        "b": [{"$match": {"count": 25}}, {"$count": "n"}]}}]),
    "in a facet that shows some": (words, [{"$facet": {
        "a": [{"$sort": {"_id": 1}}, {"$limit": 2}, {"$project": {"kept": 0}}], "b": [{"$count": "n"}]}}]),
    "the same as a filter": (shelves, [{"$match": {"list": {"$elemMatch": {"shop": "A", "count": {"$gt": 9}}}}},
                                       {"$sort": {"_id": 1}}]),
}


@pytest.fixture(scope="module")
def arms():
    with twins(("rest0", "rest2")) as made:
        made.data = None
        yield made


@pytest.fixture
def ask(arms):
    """Runs a command on documents in all arms; movers have done their work."""
    def run(documents, command, refused=()):
        if arms.data != documents:
            arms.fill(documents())
            arms.settle()
            arms.data = documents
        replies = {arm.name: arm.call(command) for arm in arms.arms}
        codes = {name: exact.plain(exact.get(reply, "code")) for name, reply in replies.items()
                 if exact.get(reply, "code")}
        if refused and set(codes.values()) == {REFUSED}:
            return
        arms.same(command, {name: exact.show_document(reply) for name, reply in replies.items()})
    return run


@pytest.mark.parametrize("name", QUERIES)
def test_a_query(ask, name):
    documents, query = QUERIES[name]
    ask(documents, {"find": "books", "filter": query, "sort": {"_id": 1}})
    ask(documents, {"count": "books", "query": query})
    ask(documents, {"find": "books", "filter": query, "projection": {"item": 1}, "sort": {"_id": -1}, "limit": 2})
    ask(documents, {"distinct": "books", "key": "item", "query": query})


@pytest.mark.parametrize("name", PROJECTIONS)
def test_a_projection(ask, name):
    documents, query, projection = PROJECTIONS[name]
    special = "matched" in name or name.startswith("one ") or "below a document" in name
    ask(documents, {"find": "books", "filter": query, "projection": projection, "sort": {"_id": 1}}, special)


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline(ask, name):
    documents, pipeline = PIPELINES[name]
    ask(documents, {"aggregate": "books", "pipeline": pipeline, "cursor": {}})


SHORT = {"$lt": [{"$size": "$list"}, 3]}  # fails where there is no array
ANY_LENGTH = {"$lt": [{"$size": {"$ifNull": ["$list", []]}}, 99]}  # never fails
GUARDS = [
    {"list": "red"}, {"list": {"$type": "array"}}, {"list.0": {"$exists": True}}, {"list": {"$size": 2}},
    {"list": {"$all": ["red"]}},
    {"list": {"$elemMatch": {"$gt": "q"}}}, {"list": {"$exists": True}}, {"count": {"$gt": 9}}, {"list": {"$ne": "x"}},
    {"list": {"$gt": "a", "$lt": "z"}}, {"list": {"$all": ["red", "blank"]}},
    {"list": {"$gt": "q"}, "count": {"$gte": 0, "$lt": 99}},
    {"$or": [{"list": "blue"}, {"list": "plain"}]}, {"$nor": [{"list": "red"}, {"list": {"$exists": False}}]},
]


@pytest.mark.parametrize("order", [1, -1])
def test_who_fails_first_behind_a_sort_by_id(ask, order):
    """mongod reads by that index, and gives what comes before."""
    pipeline = [{"$match": {"$expr": SHORT}}, {"$sort": {"_id": order}}]
    for more in ([], [{"$project": {"item": 1}}], [{"$limit": 2}], [{"$skip": 1}, {"$count": "n"}]):
        ask(words, {"aggregate": "books", "pipeline": pipeline + more, "cursor": {}})


@pytest.mark.parametrize("guard", GUARDS)
def test_what_may_fail_is_looked_at_when_mongod_does(arms, ask, guard):
    """A query's plan has $expr last; behind other stages a $match is taken as it is written."""
    for query in ({**guard, "$expr": SHORT}, {"$expr": SHORT, **guard}, {"$and": [{"$expr": SHORT}, guard]},
                  {"$or": [{"$expr": SHORT}, {"list": {"$exists": False}}, {"list": {"$type": 2}}]}):
        ask(words, {"find": "books", "filter": query, "sort": {"_id": 1}})
        ask(words, {"find": "books", "filter": query, "sort": {"_id": 1}, "limit": 1})
        ask(words, {"count": "books", "query": query})
        ask(words, {"distinct": "books", "key": "item", "query": query})
        ask(words, {"aggregate": "books", "pipeline": [{"$match": query}, {"$sort": {"_id": 1}}], "cursor": {}})
        ask(words,
            {"aggregate": "books", "pipeline": [{"$sort": {"_id": 1}}, {"$limit": 9}, {"$match": query}], "cursor": {}})
        ask(words, {"aggregate": "books", "pipeline": [{"$match": {"item": {"$gt": ""}}}, {"$match": query},
                                                       {"$sort": {"_id": 1}}], "cursor": {}})
        # mongod makes an $in of that one
        some = [] if "$or" in guard else [{"_id": {"$gt": 0}}, {"_id": {"$in": [6, 7]}}]
        for front in ({"$expr": ANY_LENGTH}, {"list": "red"}, *some):
            ask(words, {"aggregate": "books", "pipeline": [{"$match": front}, {"$match": query}, {"$sort": {"_id": 1}}],
                        "cursor": {}})
        ask(words, {"aggregate": "books",
                    "pipeline": [{"$limit": 1}, {"$unionWith": {"coll": "books", "pipeline": [{"$match": query}]}},
                                                       {"$sort": {"_id": 1}}], "cursor": {}})
        ask(words, {"aggregate": "books", "pipeline": [{"$limit": 1}, {"$unionWith": {"coll": "books", "pipeline": [
            {"$match": {"$expr": ANY_LENGTH}}, {"$match": query}]}}, {"$sort": {"_id": 1}}], "cursor": {}})
    for query in ({**guard, "$expr": SHORT}, {"$expr": SHORT, **guard}):
        ask(words, {"update": "books", "updates": [{"q": {"_id": 3, **query}, "u": {"$set": {"seen": 1}}}]})
        ask(words, {"update": "books", "updates": [{"q": query, "u": {"$push": {"list": "red"}}}]})
    arms.data = None


@pytest.mark.parametrize("key", ["list", "kept.list", "list.shop", "list.count", "kept.list.by", "kept.list.by.name"])
@pytest.mark.parametrize("documents", [words, shelves])
def test_distinct_values(ask, documents, key):
    """In their order, arrays among them too."""
    for options in ({}, {"query": {"list": {"$exists": True}}}, {"collation": {"locale": "en", "strength": 1}}):
        ask(documents, {"distinct": "books", "key": key, **options})


def repeated():
    """Names that stand twice, beside the arrays and in what they lie in."""
    def document(*pairs):
        return exact.DOCUMENT, exact.pairs_of(pairs)
    return [
        document(("_id", number), ("n", 1),
                 ("kept", document(("x", 1), ("list", list(range(length))), ("x", "second"))),
                 ("list", list(range(length))), ("n", "second"),
                 ("other", [document(("y", 1), ("deep", [1, 2, 3]), ("y", 2))]))
        for number, length in enumerate((0, 1, 2))
    ]


TWICE = [
    {"find": "books"}, {"find": "books", "projection": {"kept.list": {"$slice": -2}}},
    {"find": "books", "filter": {"list": {"$gte": 0}}, "projection": {"n": 1, "kept.list": {"$slice": [1, 5]}}},
    {"find": "books", "filter": {"list": 0}, "projection": {"other.deep": {"$slice": 1}, "kept.list": {"$slice": 3}}},
    {"find": "books", "filter": {"list": 0}, "projection": {"other.none": {"$slice": 1}, "kept.none": {"$slice": 3}}},
    {"count": "books", "query": {"kept.list": 1, "kept.x": 1}},
    {"count": "books", "query": {"kept.list": 1, "n": "second"}},
]


@pytest.mark.parametrize("command", TWICE, ids=str)
def test_names_that_stand_twice(arms, command):
    """In ordinary documents. Mongod would lose them where it puts others together: those are refused."""
    if arms.data != repeated:
        arms.fill(repeated())
        arms.settle()
        arms.data = repeated
    replies = {arm.name: arm.call(command) for arm in arms.arms if arm.name != "rest0"}
    arms.same(command, {name: exact.show_document(reply) for name, reply in replies.items()})


def mixed():
    """Documents, what is none, and lists of both, beside one another."""
    values = [1, [1, 2, 3], {"deep": [1, 2, 3], "z": 1}, {"deep": 5}, [{"deep": [1, 2]}, 7],
              {"deep": [{"deep": [1, 2]}, 7]}]
    return [{"_id": number, "list": values[:number], "kept": {"list": values[:number]}, "other": values, "n": 1}
            for number in range(len(values) + 1)]


MIXED = [{"list.deep": {"$slice": 1}, "n": 1}, {"list.deep": {"$slice": -1}}, {"other.deep": {"$slice": 1}, "list": 1},
         {"kept.list.deep": {"$slice": [1, 1]}, "kept.list.z": 1},
         {"other.deep.deep": {"$slice": 1}, "kept.list": {"$slice": 2}}]


@pytest.mark.parametrize("projection", MIXED, ids=str)
@pytest.mark.parametrize("query", [{}, {"list": {"$exists": True}}, {"list.deep": 5}], ids=str)
def test_windows_in_documents_among_others(ask, query, projection):
    """What an inclusion leaves out of an array leaves no hole."""
    ask(mixed, {"find": "books", "filter": query, "projection": projection, "sort": {"_id": 1}})
