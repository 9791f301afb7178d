"""$text on other fields than the array is mongod's own affair; where its index is over the array it is refused."""

import pytest
from pymongo.errors import OperationFailure

from support.process import wait_for

pytestmark = pytest.mark.share(2)
BATCHES = {"array": "part", "batch": {"size": 3}}
RULES = [
    {"name": name, "namespace": f"shop.{name}", "array": "list", "threshold": 2, "settle": "5ms", "quiet": "5ms",
     "gc_delay": "0s",
     "counters": {"total": "total"}, "overflow": {"collection": f"{name}_tails", "link": "book", **layout}}
    for name, layout in (("batches", BATCHES), ("fresh", BATCHES), ("elements", {"layout": "elements"}))
]
BOOKS = [{"_id": number, "n": number % 3, "title": "red fish" + " blue" * number, "list": list(range(number))}
         for number in range(8)]
BLUE = {"$text": {"$search": "blue"}}
SCORE = {"$meta": "textScore"}
BY_SCORE = [("score", SCORE), ("_id", 1)]
FILTERS = [BLUE, {"n": 1, **BLUE}, {"$and": [BLUE, {"n": {"$gt": 0}}]}, {"$or": [BLUE, {"_id": 0}]}]


@pytest.fixture(params=["batches", "elements"])
def shop(request, client, direct):
    """(a ruled collection with outliers, the same documents in a plain one)"""
    ruled, plain = client.shop[request.param], direct.shop.plain
    for collection in (ruled, plain):
        collection.drop()
        collection.create_index([("title", "text")])
        collection.insert_many(BOOKS)
    wait_for(lambda: direct.shop[request.param].count_documents({"_spill.list.n": {"$gt": 0}}) == 5, "tails to move")
    return ruled, plain


READS = {
    "find": lambda books, query: list(books.find(query, sort=[("_id", 1)])),
    "score": lambda books, query: list(books.find(query, {"score": SCORE}, sort=BY_SCORE)),
    "score and fields": lambda books, query: list(books.find(query, {"list": 1, "score": SCORE}, sort=BY_SCORE)),
    "window": lambda books, query: list(books.find(query, {"list": {"$slice": -2}}, sort=BY_SCORE)),
    "window and score": lambda books, query: list(books.find(query, {"score": SCORE, "list": {"$slice": 1}, "n": 0},
                                                             sort=BY_SCORE)),
    "computed": lambda books, query: list(books.find(query, {"length": {"$size": "$list"}, "score": SCORE},
                                                     sort=BY_SCORE, limit=3)),
    "by the array": lambda books, query: list(books.find(query, sort=[("list", -1), ("_id", 1)])),
    "count": lambda books, query: books.count_documents(query),
    "distinct": lambda books, query: sorted(books.distinct("list", query)),
    "pipeline": lambda books, query: list(books.aggregate([
        {"$match": query}, {"$match": {"list": 3}}, {"$set": {"score": SCORE}}, {"$sort": {"score": 1, "_id": 1}}])),
    "explain": lambda books, query: books.database.command("explain", {"find": books.name, "filter": query})["ok"],
}


@pytest.mark.parametrize("read", READS)
def test_reads(shop, read):
    for query in FILTERS:
        ruled, plain = (READS[read](books, query) for books in shop)
        assert ruled == plain, query


WRITES = {
    "push": lambda books, query: books.update_many(query, {"$push": {"list": 9}}).raw_result,
    "pull": lambda books, query: books.update_many(query, {"$pull": {"list": 2}}).raw_result,
    "whole": lambda books, query: books.update_many(query, {"$set": {"list": [1, 2, 3, 4]}}).raw_result,
    "pipeline": lambda books, query: books.update_many(query, [{"$set": {"length": {"$size": "$list"}}}]).raw_result,
    "findAndModify": lambda books, query: books.find_one_and_update(query, {"$inc": {"list.$[]": 1}},
                                                                    sort=[("_id", -1)]),
    "delete": lambda books, query: books.delete_many(query).raw_result,
}


@pytest.mark.parametrize("write", WRITES)
def test_writes(shop, write):
    for query in FILTERS:
        ruled, plain = (WRITES[write](books, query) for books in shop)
        for reply in (ruled, plain):
            for time in ("opTime", "operationTime", "$clusterTime", "electionId"):
                (reply or {}).pop(time, None)
        assert ruled == plain, query
        assert READS["find"](shop[0], {}) == READS["find"](shop[1], {}), query


def test_an_index_that_is_over_the_array(client, direct):
    """Somebody has made it straight at mongod: no text index is known, and it is looked up."""
    direct.shop.fresh.create_index([("title", "text"), ("list", "text")])
    assert refusal(client.shop.fresh) == 115


def refusal(books):
    try:
        list(books.find(BLUE))
    except OperationFailure as error:
        return error.code
    return None


def test_no_index(shop, direct):
    ruled, _ = shop
    ruled.drop_index("title_text")
    assert refusal(ruled) == 27
