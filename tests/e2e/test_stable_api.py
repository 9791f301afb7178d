"""The Stable API: what a client declares holds for every command of ours, and a server may require it."""

import uuid

import pymongo
import pytest
from bson import Binary, Int64
from pymongo.server_api import ServerApi
from test_edit_errors import BOOKS, PULL, delete, failed, remove, told
from test_odm_shapes import bulk, modify, update, write

from support.spillway import Spillway
from support.twins import twins

RULE = {
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 3,
    "overflow": {"layout": "batches", "link": "book", "array": "part"},
}
STRICT = {"apiVersion": "1", "apiStrict": True, "apiDeprecationErrors": True}
ENGLISH = {"locale": "en", "strength": 2}
FIVE = {"list": 5}
COMMANDS = [
    {"find": "books", "filter": FIVE, "sort": {"_id": 1}},
    {"find": "books", "projection": {"list": {"$slice": -2}}, "sort": {"_id": 1}},
    {"find": "books", "projection": {"list": {"$elemMatch": {"$gt": 6}}}, "sort": {"_id": 1}},
    {"find": "books", "filter": {"list": {"$size": 8}}},
    {"find": "books", "projection": {"_id": 0, "list": 1}, "filter": {"_id": 1}},
    {"find": "books", "projection": {"list.x": 1}, "sort": {"_id": 1}}, {"find": "books", "sort": {"list": -1}},
    {"aggregate": "books", "pipeline": [{"$unwind": "$list"}, {"$sort": {"_id": 1}}], "cursor": {}},
    {"aggregate": "books", "pipeline": [{"$match": {"_id": 1}}, {"$set": {"c": {"$size": "$list"}}}], "cursor": {}},
    {"aggregate": "books",
     "pipeline": [{"$lookup": {"from": "books", "localField": "n", "foreignField": "list", "as": "o"}},
                                        {"$sort": {"_id": 1}}], "cursor": {}},
    {"count": "books", "query": FIVE}, {"distinct": "books", "key": "list"}, {"distinct": "books", "key": "n"},
    *(command for query in ({"_id": 1}, {"_id": 1, "list": 5}, {"n": 3, "list": 8}, {"n": 1}, {"list": {"$ne": 8}})
      for command in (update(PULL, query), update(PULL, query, multi=True), update({"$push": {"list": 9}}, query),
                      update({"$addToSet": {"list": 9}}, query), update({"$set": {"list": [1, 2, 3, 4]}}, query),
                      update({"$push": {"list": {"$each": [5, 6], "$position": 1}}}, query),
                      modify({"$inc": {"list.0": 1}}, query, new=True),
                      update(PULL, query, collation=ENGLISH), update(PULL, query, hint="none"),
                      modify(PULL, query, hint="none"))),
    bulk(write(PULL, {"_id": 1}), write({"$push": {"list": 3}}, {"_id": 3}), write({"$pop": {"list": 1}}, {"n": 3})),
    update(PULL, {"_id": 50, "list": 7}, upsert=True), remove({"n": 3}), delete({"list": 9}), delete({"list": 3}, 0),
]


@pytest.fixture(scope="module")
def arms():
    with twins(("rest2", "each2")) as made:
        made.fill(BOOKS)
        made.settle()
        yield made


@pytest.fixture
def required(arms):
    def require(value):
        assert arms.direct.command("admin", {"setParameter": 1, "requireApiVersion": value, "apiVersion": "1"})["ok"]
    arms.fill(BOOKS)
    arms.settle()
    require(True)
    yield
    require(False)


def test_a_server_that_requires_the_version_gets_it_with_every_command(arms, required):
    """What is strict for the client is so for us. The movers' connections are there already when the server begins
    to."""
    errors = 0
    for command in COMMANDS:
        command = {**command, **STRICT}
        answers = {arm.name: told(arm, command) for arm in arms.arms}
        errors += bool(failed(dict(answers["plain"])))
        arms.same(command, answers)
        arms.settle()
    assert errors < len(COMMANDS) / 4, "what names no index fails, and distinct"


def test_the_command_that_ends_a_transaction_declares_it(arms, required):
    session = {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(1), "autocommit": False, **STRICT}
    ruled = arms.arms[1]
    assert dict(told(ruled, {**update({"$set": {"n": 9}}), **session, "startTransaction": True}))["ok"]
    assert dict(told(ruled, {**update({"$set": {"_spill": 9}}), **session}))["code"] == 115
    commit = ruled.connection.command("admin", {"commitTransaction": 1, **session})
    assert (commit["code"], commit["codeName"]) == (251, "NoSuchTransaction")


def test_spillway_starts_in_front_of_such_a_server(cluster):
    """It knows the member's name, asked as clients' connections reach it."""
    def require(value):
        with cluster.client(server_api=ServerApi("1")) as direct:
            direct.admin.command({"setParameter": 1, "requireApiVersion": value})

    # Nobody makes an index there later: mongod 6.0 asks itself whether it is ready, without a version, for ever.
    with Spillway([cluster.primary], [RULE]):
        pass
    require(True)
    try:
        with Spillway([cluster.primary], [RULE]) as spillway, \
                pymongo.MongoClient("127.0.0.1", spillway.port, replicaSet="rs0", server_api=ServerApi("1")) as client:
            assert client.admin.command("ping")["ok"] == 1.0
            assert client.primary == ("127.0.0.1", spillway.port)
    finally:
        require(False)
