"""A flag, counters and a reference that clients don't see are in no answer: not shown, and not found, sorted or counted by."""

import pytest

from support.process import wait_for
from support.spillway import QuotedText

RULES = [
    {"name": name, "namespace": f"shop.{name}", "array": "list", "threshold": 3, "settle": "5ms", "quiet": "5ms", "gc_delay": "0s",
     "flag": {"field": "split", "value": True}, "counters": {"total": "total", "documents": "parts"},
     "reference": {"field": "ref", "format": QuotedText("{_id}_x")}, "overflow": {"collection": f"{name}_tails", "link": "book", **layout}}
    for name, layout in (("batches", {"array": "part", "batch": {"size": 4}}), ("elements", {"layout": "elements"}))
]
DOCUMENTS = [{"_id": number, "list": list(range(number)), "z": number % 2} for number in range(10)]
CONDITIONS = [{"split": True}, {"split": {"$ne": True}}, {"total": {"$gt": 5}}, {"ref": "9_x"}, {"parts": {"$exists": False}},
              {"$expr": {"$gt": ["$total", 5]}}, {"$or": [{"split": True}, {"z": 0}]}, {"$nor": [{"split": True}]}]
BESIDE = [{}, {"z": 1}, {"list": 7}, {"list": {"$size": 8}}]
FILTERS = [{"$and": [condition, beside]} for condition in CONDITIONS for beside in BESIDE]
TOP = [{**condition, **beside} for condition in CONDITIONS[:5] for beside in BESIDE]


@pytest.fixture(params=["batches", "elements"])
def shop(request, client, direct):
    """(a ruled collection with outliers, the same documents in a plain one)"""
    ruled, plain = client.shop[request.param], direct.shop.plain
    for collection in (ruled, plain):
        collection.drop()
        collection.insert_many(DOCUMENTS)
    wait_for(lambda: direct.shop[request.param].count_documents({"split": True}) == 6, "tails to move")
    return ruled, plain


READS = {
    "find": lambda books, query: sorted(book["_id"] for book in books.find(query)),
    "count": lambda books, query: books.count_documents(query),
    "sorted": lambda books, query: list(books.find(query, sort=[("total", -1), ("_id", 1)])),
    "computed": lambda books, query: list(books.find(query, {"t": "$total", "f": {"$type": "$split"}}, sort=[("_id", 1)])),
    "distinct": lambda books, query: books.distinct("total", query),
    "grouped": lambda books, query: list(books.aggregate([{"$match": query}, {"$group": {"_id": "$split", "n": {"$sum": 1}}}])),
    "joined": lambda books, query: list(books.database.aggregate([
        {"$documents": [{"x": True}]}, {"$lookup": {"from": books.name, "localField": "x", "foreignField": "split", "as": "found"}}])),
}


@pytest.mark.parametrize("read", READS)
def test_no_read_tells_of_it(shop, read):
    ruled, plain = shop
    for query in [*FILTERS, *TOP]:
        assert READS[read](ruled, query) == READS[read](plain, query), query


PROJECTIONS = [{"split": 1}, {"split": 1, "z": 1}, {"_id": 0, "total": 1}, {"list": 0, "split.x": 0}, {"list": 0, "ref": {"x": 0}}, {"parts": 0},
               {"list": 1, "split": 1}, {"list": {"$slice": 1}, "split": 1}, {"list": {"$slice": 1}, "ref.x": 0}]


@pytest.mark.parametrize("projection", PROJECTIONS, ids=str)
def test_no_projection_brings_it(shop, projection):
    finds = [list(books.find({}, projection, sort=[("_id", 1)], batch_size=3)) for books in shop]
    assert finds[0] == finds[1]
    images = [books.find_one_and_update({"_id": 9}, {"$set": {"n": 1}}, projection) for books in shop]
    assert images[0] == images[1]


def test_writes_find_what_clients_see(shop):
    ruled, plain = shop
    for query in TOP:
        for change in ({"$inc": {"n": 1}}, {"$push": {"list": 50}}, {"$pull": {"list": 1}}):
            said = [books.update_many(query, change).raw_result for books in shop]
            assert (said[0]["n"], said[0]["nModified"]) == (said[1]["n"], said[1]["nModified"]), (query, change)
        assert ruled.find_one_and_update(query, {"$set": {"last": 1}}, sort=[("_id", -1)]) == \
            plain.find_one_and_update(query, {"$set": {"last": 1}}, sort=[("_id", -1)]), query
        assert list(ruled.find(sort=[("_id", 1)])) == list(plain.find(sort=[("_id", 1)])), query
    for query in TOP[::3]:
        assert ruled.delete_one(query).deleted_count == plain.delete_one(query).deleted_count, query
    assert ruled.count_documents({}) == plain.count_documents({})


def test_indexes_may_have_them(shop):
    ruled, _ = shop
    ruled.create_index("split")
    ruled.create_index("z", partialFilterExpression={"split": True}, name="of outliers")
    assert ruled.count_documents({"_id": 9}, hint="split_1") == 1
