"""Writes by a condition on the array, without an _id: the overflow says which outliers they mean, and it is the
document that mongod alone would take."""

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.process import wait_for

pytestmark = pytest.mark.share(4)
RULES = [{"name": "list", "namespace": "shop.books*", "array": "list", "threshold": 3, "settle": "5ms", "quiet": "5ms",
          "gc_delay": "1m",
          "overflow": {"layout": "batches", "link": "book", "array": "part", "batch": {"size": 10}}}]
BOOKS = [  # not in the order of their _ids; outliers stand before, between and behind others that have the same
    {"_id": number, "n": place,
     "list": [number % 2, *(1000 * number + i for i in range(30 if place % 3 == 0 else 1)), number % 4 + 10]}
    for place, number in enumerate((7, 3, 12, 1, 9, 4, 0, 8, 2, 11, 5, 6, 10))
]
SIDES = [{"$inc": {"n": 100}}, {"$pull": {"list": 11}}, {"$set": {"list.$": "found"}}]
QUERIES = [{"list": 11}, {"list": 1}, {"list": 7029}, {"list": 7000}, {"list": "none"}, {"list": {"$in": [13, 5029]}},
           {"list": {"$all": [1, 13]}}, {"list": {"$elemMatch": {"$gt": 9000, "$lt": 9500}}},
           {"list": 11, "n": {"$gt": 2}},
           {"$or": [{"list": 1029}, {"n": 4}]}, {"list": {"$gte": 7010, "$lt": 7020}},
           {"list": 10, "list.30": {"$exists": True}}]
MODIFIED = [{"sort": {"n": -1}}, {"sort": {"list": -1, "_id": 1}}, {"remove": True}]
COMMANDS = [
    *({"update": "books", "updates": [{"q": query, "u": side, "multi": multi}]}
      for query in QUERIES for side, multi in zip(SIDES, (False, True, False))),
    *({"delete": "books", "deletes": [{"q": query, "limit": limit}]} for query in QUERIES for limit in (0, 1)),
    *({"update": "books", "updates": [{"q": query, "u": {"$set": {"n": 1}}, "upsert": True}]} for query in QUERIES[:5]),
    *({"findAndModify": "books", "query": query, **({} if "remove" in more else {"update": {"$inc": {"n": 5}}}), **more}
      for query in QUERIES for more in MODIFIED),
    {"update": "books",
     "updates": [{"q": {"list": 11}, "u": {"$inc": {"n": 1}}}, {"q": {"list": 5029}, "u": {"$push": {"list": 5}}},
                                    {"q": {"list": 5}, "u": {"$inc": {"n": 1}}}]},
    {"update": "books",
     "updates": [{"q": {"list": "ELEVEN"}, "u": {"$inc": {"n": 1}}, "collation": {"locale": "en", "strength": 2}}]},
    {"update": "books", "updates": [{"q": {"list": {"$bad": 1}}, "u": {"$inc": {"n": 1}}}]},
]


@pytest.fixture(scope="module")
def arms(cluster, spillway):
    """(straight at mongod, through Spillway, what is stored there)"""
    with cluster.client() as direct, pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        yield direct.plain, client.shop, direct.shop


def fill(arms, name, first):
    """The books, with other _ids than any before: what is left of a deleted document's array keeps the next one's in
    its place."""
    plain, ruled, stored = arms
    books = [{**book, "_id": first + book["_id"]} for book in BOOKS]
    for database in (plain, ruled):
        database[name].delete_many({})
        database[name].insert_many(books)
    outliers = sum(len(book["list"]) > 3 for book in BOOKS)
    wait_for(lambda: stored[name].count_documents({"_spill.list.n": {"$gt": 0}}) == outliers, "tails to move")


def told(database, command):
    try:
        reply = database.command(command)
    except OperationFailure as error:
        reply = error.details
    return {name: value
            for name, value in reply.items() if name not in ("$clusterTime", "operationTime", "opTime", "electionId")}


def without_ids(value):
    """An upsert without an _id gets one that is made."""
    text = str(value)
    return text if "ObjectId" not in text else text[:text.index("ObjectId")]


@pytest.mark.parametrize("indexed", [False, True], ids=["no index", "an index"])
@pytest.mark.parametrize("number", range(0, len(COMMANDS), 8))
def test_it_is_the_document_that_mongod_takes(arms, number, indexed):
    plain, ruled, _ = arms
    name = f"books{number}{'i' if indexed else ''}"
    for database in (plain, ruled):
        if indexed:
            database[name].create_index("list")
    for place, command in enumerate(COMMANDS[number:number + 8]):
        command = {**command, next(iter(command)): name}
        fill(arms, name, 100 * place)
        answers = [without_ids(told(database, command)) for database in (plain, ruled)]
        assert answers[0] == answers[1], command
        found = [without_ids(list(database[name].find({}, sort=[("n", 1), ("_id", 1)]))) for database in (plain, ruled)]
        assert found[0] == found[1], command


def test_no_outlier_is_put_together_to_be_searched(cluster, spillway):
    """What mongod looks at for a write does not grow with the outliers."""
    with cluster.client() as direct, pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        books, stored = client.shop.books, direct.shop
        books.drop()
        books.create_index("list")
        books.insert_many({"_id": i, "n": i, "list": [1000 * i + n for n in range(100)]} for i in range(60))
        wait_for(lambda: stored.books.count_documents({"_spill.list.n": 97}) == 60, "tails to move")
        stored.command("profile", 2)
        assert books.update_one({"list": 59099}, {"$inc": {"n": 1}}).modified_count == 1
        assert books.delete_many({"list": -1}).deleted_count == 0
        stored.command("profile", 0)
        looked = [entry.get("docsExamined", 0) for entry in stored["system.profile"].find()]
        stored.drop_collection("system.profile")
        assert len(looked) > 4 and sum(looked) < 60, looked
        assert books.find_one({"_id": 59})["n"] == 60
