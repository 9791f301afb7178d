"""The first allocation fails, then the second, and so on, until a run in which none does.

Clients see the right answer, error 365, or the end of their connection. A write happens once or not at all. The
process lives, and nothing is left behind.

`tests/run` leaves out some of the small allocations of writes, which are many; `tests/run full` leaves out none.
"""

import functools
import itertools

import pymongo
import pytest
from pymongo.errors import AutoReconnect, OperationFailure

from support import share
from support.failing import Failing
from support.process import wait_for
from support.spillway import Spillway

RULE = {
    "name": "memory", "namespace": "shop.books", "array": "list", "threshold": 3,
    "settle": "10ms", "quiet": "10ms", "gc_delay": "0s", "sweep": "off",
    "flag": {"field": "more", "value": True},
    "overflow": {"collection": "more_books", "layout": "batches", "link": "book", "array": "part",
                 "batch": {"size": 500}},
}
UNAVAILABLE = 365
ANY, LARGE = 1, 65537  # more than 64 KiB: Spillway has to be ready to go without
FAILURES = [(ANY, False), (LARGE, False), (LARGE, True)]  # one; a large one; all large ones from one on
STEP = share.part(37, every=1)
LIST = [{"n": i, "text": "x" * 100} for i in range(2000)]
BOOK = {"_id": 1, "title": "a", "list": LIST}
OTHERS = [{"_id": i, "text": "x" * 200000} for i in (2, 3, 4)]
MATCH = {"$match": {"_id": 1, "list.n": 7}}

READS = {
    "find": lambda books: list(books.find({"_id": 1})),
    "find of a part": lambda books: list(books.find({"_id": 1}, {"list": {"$slice": -1000}})),
    "find of what is not split": lambda books: list(books.find({"_id": {"$gt": 1}})),
    "find by an element": lambda books: list(books.find({"list.n": 7})),
    "getMore": lambda books: list(books.find({}, batch_size=2, sort=[("_id", 1)])),
    "aggregate": lambda books: list(books.aggregate([MATCH])),
    "aggregate of parts": lambda books: list(books.aggregate([MATCH, {"$unwind": "$list"}], batchSize=1000)),
    "distinct": lambda books: books.distinct("list.text", {"_id": 1}),
    "collection without a rule": lambda books: list(books.database.others.find()),
}


def update(change):
    return lambda books, number: books.update_one({"_id": 1}, change(number)).raw_result["n"]


WRITES = {
    "push": update(lambda number: {"$push": {"list": {"n": number, "text": "y" * 100000}}}),
    "pop": update(lambda number: {"$pop": {"list": -1}, "$set": {"title": f"{number}"}}),
    "set": update(lambda number: {"$set": {"list.5.n": -number}}),
    "pipeline": update(lambda number: [{"$set": {"list": {"$slice": ["$list", 1, 5000]}}}]),
    "findAndModify": lambda books, number: books.find_one_and_update({"_id": 1}, {"$pop": {"list": 1}}),
    "replace": lambda books, number: books.replace_one({"_id": 1}, {"list": LIST[number:]}).raw_result["n"],
    "insert": lambda books, number: books.insert_one({"_id": 10 + number, "list": LIST}).inserted_id,
}


@pytest.fixture(scope="module")
def failing():
    made = Failing("malloc")
    made.set(large=LARGE)
    yield made
    made.close()


@pytest.fixture(scope="module")
def spillway(cluster, failing):
    made = Spillway([cluster.primary], [RULE], {"workers": 1})
    made.command = [*failing.wrapper, *made.command]
    with made:
        yield made


@pytest.fixture(scope="module")
def large_blocks(failing):
    """How many there may be without clients: threads keep some, each of its own."""
    return failing.get("live") + 8


@pytest.fixture
def books(spillway, failing, large_blocks):
    options = {"directConnection": True, "maxPoolSize": 1, "heartbeatFrequencyMS": 600000, "retryReads": False}
    with pymongo.MongoClient("127.0.0.1", spillway.port, **options) as client:
        books = client.shop.books
        store(books)
        yield books
    wait_for(lambda: failing.get("live") <= large_blocks, "large blocks to be freed")


@pytest.fixture
def stored(cluster, books):
    """Straight at mongod: what is stored, and twins of what clients see."""
    with cluster.client() as client:
        shop = client.shop
        for name, documents in (("others", OTHERS), ("twins", [BOOK, *OTHERS])):
            shop[name].drop()
            shop[name].insert_many(documents)
        settle(shop)
        yield shop


def store(books):
    books.delete_many({"_id": {"$ne": 1}})
    books.replace_one({"_id": 1}, BOOK, upsert=True)
    books.insert_many(OTHERS)


def settle(shop):
    """The array lies in the overflow, as before each run."""
    wait_for(lambda: "_spill" in shop.books.find_one({"_id": 1}, {"_spill": 1}), "the array to be moved")


def each_failure(failing, every=1):
    """Yields for each allocation that is to fail, in each way; a way ends behind a run in which none has. What it
    yields numbers the runs of a test."""
    runs = itertools.count(1)
    for least, lasting in FAILURES:
        for number in itertools.count(1, every if least == ANY else 1):
            failing.set(least=least, counted=0, failed=0, room=0, lasting=lasting, nth=number)
            yield next(runs)
            failing.set(nth=0)
            if failing.get("failed") == 0:
                break


def attempt(ask, *books):
    """What the client got; None where it was told that it gets nothing."""
    try:
        return ask(*books)
    except OperationFailure as error:
        assert error.code == UNAVAILABLE, error
    except AutoReconnect:
        pass
    return None


@pytest.mark.parametrize("name", READS)
def test_a_read_is_right_or_fails(name, books, stored, failing, spillway):
    expected = READS[name](books)
    for number in each_failure(failing):
        reply = attempt(READS[name], books)
        spillway.require_running()
        assert reply in (None, expected), number
    assert READS[name](books) == expected


@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_done_once_or_fails(name, books, stored, failing, spillway):
    def twin():
        return [stored.twins.find_one({"_id": each}) for each in (1, 10 + number)]

    for number in each_failure(failing, STEP):
        reply = attempt(functools.partial(WRITES[name], number=number), books)
        failing.set(nth=0)
        spillway.require_running()
        before, expected = twin(), WRITES[name](stored.twins, number)
        seen = [books.find_one({"_id": each}) for each in (1, 10 + number)]
        assert reply in (None, expected), number
        assert seen == twin() or (reply is None and seen == before), number
        if seen == before:
            stored.twins.replace_one({"_id": 1}, before[0])
            stored.twins.delete_one({"_id": 10 + number})
        settle(stored)


def test_the_mover_waits_for_memory(books, stored, failing, spillway):
    def is_split():
        return "_spill" in stored.books.find_one({"_id": 1}, {"_spill": 1})

    for number in each_failure(failing, STEP):
        nth = failing.get("nth")
        failing.set(nth=0)
        book = {**BOOK, "title": f"{number}"}
        books.replace_one({"_id": 1}, book)
        failing.set(nth=failing.get("counted") + nth)
        wait_for(lambda: failing.get("failed") > 0 or is_split(), "the mover to come that far")
        failing.set(nth=0)
        settle(stored)
        spillway.require_running()
        assert books.find_one({"_id": 1}) == book
