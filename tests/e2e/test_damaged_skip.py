"""`damaged: skip`: reads leave damaged documents out and count them, writes fail."""

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.operate import RULE
from support.process import wait_for

LAYOUTS = {"batches": RULE["overflow"], "elements": {"collection": "tails", "link": "book", "layout": "elements"}}
RULES = [{**RULE, "name": name, "namespace": f"{name}.books", "settle": "5ms", "quiet": "5ms", "gc_delay": "60s",
          "sweep": "off", "damaged": "skip", "overflow": layout}
         for name, layout in LAYOUTS.items()]
DAMAGES = {
    "lost": lambda database: database.tails.delete_many({"book": {"$regex": "^bad"}}),
    "a gap": lambda database: database.tails.delete_one({"book": {"$regex": "^bad"}, "_spill.p": 4}),
    "a state that is none": lambda database: database.books.update_one({"name": "bad"}, {"$set": {"_spill": 5}}),
    "a count that is a text": lambda database: database.books.update_one({"name": "bad"},
                                                                         {"$set": {"_spill.list.n": "x"}}),
}
GOOD = ["1", "2", "3"]
READS = {
    "find": lambda books: ids(books.find()),
    "find in batches of two": lambda books: ids(books.find(batch_size=2)),
    "find by the array": lambda books: ids(books.find({"list": {"$not": {"$size": 77}}})),
    "find by the array in batches": lambda books: ids(books.find({"list": {"$not": {"$size": 77}}}, batch_size=1)),
    "find of windows": lambda books: ids(books.find({}, {"list": {"$slice": [6, 4]}})),
    "find of windows, computed": lambda books: ids(books.find({}, {"list": {"$slice": [6, 4]},
                                                                   "name": 1, "x": {"$literal": 1}})),
    "find by an element": lambda books: ids(books.find({"list": 7})),
    "count": lambda books: books.count_documents({"list": {"$not": {"$size": 77}}}),
    "distinct": lambda books: sorted(books.distinct("name", {"list": {"$not": {"$size": 77}}})),
    "$group": lambda books: [each["n"] for each in books.aggregate([
        {"$project": {"n": {"$size": "$list"}}}, {"$group": {"_id": None, "n": {"$sum": "$n"}}}])],
    "$unwind": lambda books: len(list(books.aggregate([{"$unwind": "$list"}], batchSize=5))),
    "$lookup": lambda books: ids(books.database.one.aggregate([
        {"$lookup": {"from": "books", "pipeline": [], "as": "found"}}]).next()["found"]),
}


def ids(documents):
    return sorted(each["name"] for each in documents)


@pytest.fixture(params=[(layout, damage) for layout in LAYOUTS for damage in DAMAGES], ids=" ".join)
def books(cluster, spillway, request):
    """Through Spillway: three good documents and a damaged one. No `_id` comes twice: its garbage would delay moves."""
    layout, damage = request.param
    with cluster.client() as direct, pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        stored, books = direct[layout], client[layout].books
        books.delete_many({})
        stored.one.replace_one({"_id": 1}, {}, upsert=True)
        books.insert_many({"_id": f"{each} {damage}", "name": each, "list": list(range(20))} for each in GOOD)
        moved = {"_spill.list.n": 17}
        wait_for(lambda: stored.books.count_documents(moved) == len(GOOD), "tails to move")
        books.insert_one({"_id": f"bad {damage}", "name": "bad", "list": list(range(20))})
        wait_for(lambda: stored.books.count_documents(moved) == len(GOOD) + 1, "the tail to move")
        DAMAGES[damage](stored)
        yield books, stored


def test_reads_leave_it_out_and_writes_fail(books, spillway):
    collection, stored = books
    counted = spillway.metrics()["spillway_damaged_documents_skipped_total"]
    for name, read in READS.items():
        expected = {"count": 3, "$group": [60], "$unwind": 60}.get(name, GOOD)
        assert read(collection) == expected, name
    assert spillway.metrics()["spillway_damaged_documents_skipped_total"] > counted
    assert "a read left out a damaged document (damaged: skip)" in spillway.said()
    assert collection.find_one({"name": "bad"}) is None
    before = stored.books.find_one({"name": "bad"})
    for condition in ({"_id": before["_id"]}, {"list": {"$size": 20}}):
        with pytest.raises(OperationFailure) as caught:
            collection.update_many(condition, {"$pull": {"list": 1}})
        assert caught.value.code == 301, caught.value.details
    assert stored.books.find_one({"name": "bad"}) == before
