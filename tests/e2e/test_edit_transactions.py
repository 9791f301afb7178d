"""Edits in a client's transaction of several documents: seen inside, not outside, whole when committed and without a trace when aborted.

Each transaction runs at mongod on a plain collection and through Spillway on arrays that have moved: every reply must be the same.
"""

import collections
import itertools
import threading
import uuid

import pymongo
import pytest
from bson import Binary, Int64
from test_edit_cuts import EDITS, FREE, LIST, RULE, Place, update

from support import exact
from support.cluster import Cluster
from support.process import wait_for
from support.shim import Shim
from support.spillway import Spillway
from support.verify import verify

SECOND = [4, 5, 6, 7, 8, 9]
OPERATIONS = {
    **EDITS,
    "old image": {"findAndModify": "@", "query": {"_id": "#"}, "update": {"$pop": {"list": 1}}},
    "removed": {"findAndModify": "@", "query": {"list": 7, "n": 1}, "remove": True},
    "set by match": update({"$set": {"list.$": "seven"}}, {"list": 7}),
    "set by filter": update({"$set": {"list.$[large]": 0}}, arrayFilters=[{"large": {"$gt": 4}}]),
    "multi": {"update": "@", "updates": [{"q": {}, "u": {"$pull": {"list": {"$in": [4, 6]}}}, "multi": True}]},
    "multi by the array": {"update": "@", "updates": [{"q": {"list": 9}, "u": {"$pop": {"list": 1}}, "multi": True}]},
    "insert": {"insert": "@", "documents": [{"_id": "third", "list": LIST}, {"_id": "fourth", "list": []}]},
    "upsert": {"update": "@", "updates": [{"q": {"_id": "third"}, "u": {"$push": {"list": 1}}, "upsert": True}]},
    "upsert by the array": {"update": "@", "updates": [
        {"q": {"_id": "third", "list": {"$ne": 3}}, "u": {"$push": {"list": 3}}, "upsert": True}]},
    "replace": update({"n": 3, "list": LIST[::-1]}),
    "set whole": update({"$set": {"list": [1]}}),
    "unset": update({"$unset": {"list": ""}}),
    "elsewhere": update({"$inc": {"n": 1}}),
    "nothing": update({"$pull": {"list": 11}}),
    "delete many": {"delete": "@", "deletes": [{"q": {"list": {"$size": 6}}, "limit": 0}]},
    "several": {"update": "@", "updates": [
        {"q": {"_id": "#"}, "u": {"$push": {"list": 8}}}, {"q": {"list": 8}, "u": {"$pull": {"list": 8}}, "multi": True},
        {"q": {"_id": "second"}, "u": {"$addToSet": {"list": 9}}}, {"q": {"_id": "none"}, "u": {"$pop": {"list": 1}}}]},
    "duplicate": {"insert": "@", "documents": [{"_id": "second", "list": []}]},
    "no array": update({"$pull": {"n": 1}}),
}
READS = [
    {"find": "@", "sort": {"_id": 1}},
    {"find": "@", "filter": {"n": {"$gt": 0}}, "projection": {"list": 1}, "sort": {"_id": -1}},
    {"aggregate": "@", "pipeline": [{"$match": {"n": {"$lt": 9}}}, {"$sort": {"_id": 1}}], "cursor": {}},
]
ALL = READS[0]
COMMIT, ABORT = "commitTransaction", "abortTransaction"


class Transaction:
    """A session's one transaction, on one connection."""

    def __init__(self, place, connection, collection):
        self.place = place
        self.connection = connection
        self.collection = collection
        self.session = [("lsid", {"id": Binary(uuid.uuid4().bytes, 4)}), ("txnNumber", Int64(1)), ("autocommit", False)]
        self.begun = False
        place.open.append(self)

    def call(self, command):
        start = [] if self.begun else [("startTransaction", True)]
        self.begun = True
        return told(self.place.call(self.connection, command, self.collection, [*self.session, *start]))

    def end(self, how):
        self.place.open.remove(self)
        return told(self.place.call_admin(self.connection, [(how, 1), *self.session]))


def told(reply):
    """What must be equal: neither times nor names of collections."""
    kept = {name: value for name, value in reply.items() if name not in FREE}
    return {**kept, "cursor": {**kept["cursor"], "ns": "@"}} if "cursor" in kept else kept


class Shop(Place):
    """Two books each, and both ways to them."""

    def __init__(self, cluster, shim, cut, other):
        super().__init__(cluster, shim, cut, other)
        self.through = self.other
        self.open = []

    def call_admin(self, connection, parts):
        return connection.call(exact.document([*parts, ("$db", "admin")])).plain()

    def fill(self):
        for transaction in list(self.open):  # a test that failed left it
            transaction.end(ABORT)
        super().fill()
        for collection, connection in (("books", self.other), ("plain", self.direct)):
            self.call(connection, {"insert": collection, "documents": [{"_id": "second", "n": 2, "list": SECOND}]})
        spilled = {"_spill.list.n": {"$gt": 0}}
        wait_for(lambda: self.client.shop.books.count_documents(spilled) == 2, "the tails to move", 30, 0.005)

    def ways(self):
        return [(self.direct, "plain"), (self.through, "books")]

    def seen(self):
        """All books as others see them, at mongod and through Spillway."""
        return [told(self.call(connection, ALL, collection)) for connection, collection in self.ways()]


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        yield made


@pytest.fixture(scope="module")
def spillway(cluster):
    with Spillway([cluster.primary], [RULE]) as made:
        yield made


@pytest.fixture(scope="module")
def shop(cluster, spillway):
    with Shim(cluster.primary.port) as shim:
        upstream = {"upstream": {"uri": f"mongodb://{cluster.primary.address}/"}}
        with Spillway([shim], [RULE], upstream) as cut:
            yield Shop(cluster, shim, cut, spillway)


def both(shop):
    """A transaction at mongod, and one through Spillway."""
    return [Transaction(shop, connection, collection) for connection, collection in shop.ways()]


def same(transactions, command):
    plain, through = (transaction.call(command) for transaction in transactions)
    assert without_text(through) == without_text(plain), command
    return through


def without_text(reply):
    """mongod's texts name collections and indexes."""
    errors = [{**error, "errmsg": ""} for error in reply.get("writeErrors", ())]
    return {**reply, "errmsg": "", "writeErrors": errors}


def end(transactions, how):
    plain, through = (transaction.end(how) for transaction in transactions)
    assert without_text(through) == without_text(plain)


@pytest.mark.parametrize("how", [COMMIT, ABORT])
@pytest.mark.parametrize("first", ["it comes first", "it comes behind a read"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation(shop, name, first, how):
    shop.fill()
    before = shop.seen()
    transactions = both(shop)
    if first != "it comes first":
        same(transactions, ALL)
    reply = same(transactions, OPERATIONS[name])
    failed = reply["ok"] == 0 or "writeErrors" in reply
    for read in [] if failed else READS:
        same(transactions, read)
    assert shop.seen() == before, "seen before it is committed"
    end(transactions, how)
    plain, through = shop.seen()
    assert through == plain
    assert failed or how == COMMIT or [plain, through] == before


@pytest.mark.parametrize("how", [COMMIT, ABORT])
def test_all_operations_in_one(shop, how):
    shop.fill()
    before = shop.seen()
    names = [name for name in OPERATIONS if name not in ("duplicate", "no array", "removed", "delete", "upsert by the array")]
    transactions = both(shop)
    for name in names:
        same(transactions, OPERATIONS[name])
        for read in READS:
            same(transactions, read)
    assert shop.seen() == before
    end(transactions, how)
    plain, through = shop.seen()
    assert through == plain
    assert how == COMMIT or [plain, through] == before
