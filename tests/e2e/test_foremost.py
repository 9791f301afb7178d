"""Finds that sort by the array with a limit: mongod's order, and only outliers that may come first are put together.

The first documents are found by what main holds, and by the best batch of the overflow. Arrays that move and are
folded back meanwhile must change nothing.
"""

import contextlib
import datetime
import itertools
import random
import threading

import pymongo
import pytest
from bson import Binary, CodecOptions, Decimal128, Int64, MaxKey, MinKey, ObjectId

from support.process import wait_for


def rule(name, **more):
    return {"name": name, "namespace": f"shop.{name}", "array": "list", "threshold": 3, "settle": "5ms", "quiet": "5ms",
            "gc_delay": "30s", "overflow": {"collection": f"{name}_more", "link": "book", "array": "part",
                                            "batch": {"size": 4}, "indexes": [{"keys": {"part": 1}}]}, **more}


RULES = [rule("kept"), rule("emptied", when_outlier="empty"), rule("moved"), rule("moved_down"), rule("early")]
COLLATED = rule("collated")
RULES.append(COLLATED)
TWIN = "twin"
ORDERS = [{"list": 1}, {"list": -1}, {"list": 1, "_id": 1}, {"list": -1, "_id": 1}, {"list": 1, "_id": -1}]
CASELESS = {"locale": "en", "strength": 1}


def values(rng):
    """One element, of any type."""
    return rng.choice((
        rng.randrange(-50, 50), rng.randrange(1000), rng.random() * 100, Int64(rng.randrange(60)),
        rng.choice("abcXYZ") + str(rng.randrange(20)), None, [], [rng.randrange(9)], {}, {"x": rng.randrange(9)},
        True, datetime.datetime(2026, 1, rng.randrange(1, 29)), Decimal128(str(rng.randrange(40))),
        ObjectId(), Binary(b"x" * rng.randrange(3)), float("nan"), MinKey(), MaxKey(),
    ))


def make(rng, number):
    """A document: an outlier, an ordinary one, or without an array."""
    kind = rng.randrange(12)
    plain = rng.random() < 0.5  # of numbers alone
    element = (lambda: rng.randrange(1000)) if plain else (lambda: values(rng))
    document = {"_id": rng.choice((number, f"B{number}", float(number) + 0.5)), "n": number}
    if kind == 0:
        return document
    if kind == 1:
        return {**document, "list": rng.choice((None, 5, "a", {}))}
    count = rng.randrange(4) if kind < 7 else rng.randrange(4, 30)
    return {**document, "list": [element() for _ in range(count)]}


def overflown(database, name):
    return sum(len(batch["part"]) for batch in database[f"{name}_more"].find())


def wait_until_moved(database, name, documents):
    """All that is behind the head."""
    kept = 0 if name == "emptied" else 3
    wanted = sum(len(one["list"]) - kept for one in documents
                 if isinstance(one.get("list"), list) and len(one["list"]) > 3)
    wait_for(lambda: overflown(database, name) >= wanted, "all tails to be moved")


@contextlib.contextmanager
def profiled(database):
    database.command("profile", 2)
    asked = []
    try:
        yield asked
    finally:
        database.command("profile", 0)
        asked += database["system.profile"].find({"command.aggregate": {"$exists": True}})
        database["system.profile"].drop()


def fast(asked, good=True):
    """Aggregates that put the best batch beside the documents, and that gave an answer or none."""
    return [one for one in asked if "{'hit': 1}" in str(one["command"]) and (good == ("errMsg" not in one))]


def keys_by_id(twin, order):
    """{id: the key that mongod sorts by}, in mongod's order. Under a collation keys are no texts."""
    twin = twin.with_options(CodecOptions(unicode_decode_error_handler="surrogateescape"))
    return {repr(one["_id"]): repr(one["key"]) for one in twin.aggregate(
        [{"$sort": order}, {"$project": {"key": {"$meta": "sortKey"}}}])}


def check(ruled, twin, order, limit, **more):
    """The same documents as straight at mongod; among equals, others that are as good."""
    keys = keys_by_id(twin, order)
    skip = more.get("skip", 0)
    wanted = list(keys.values())[skip:skip + limit]
    found = list(ruled.find({}, sort=list(order.items()), limit=limit, **more))
    ids = [repr(one["_id"]) for one in found]
    assert [keys[one] for one in ids] == wanted, (order, limit, more)
    assert len(set(ids)) == len(ids), (order, limit, more)
    if "_id" in order:
        assert ids == list(keys)[skip:skip + limit]
    whole = {repr(one["_id"]): repr(one) for one in twin.find({"_id": {"$in": [one["_id"] for one in found]}}, **{
        name: value for name, value in more.items() if name == "projection"})}
    assert [repr(one) for one in found] == [whole[one] for one in ids]


def fill(direct, client, name, documents, collation=None):
    """Through Spillway, and straight into the twin."""
    for one in (direct.shop[name], direct.shop[TWIN], direct.shop[f"{name}_more"]):
        one.drop()
    direct.shop.create_collection(TWIN, collation=collation)
    direct.shop.create_collection(name, collation=collation)
    client.shop[name].create_index("list")
    direct.shop[TWIN].create_index("list")
    direct.shop[TWIN].insert_many(documents)
    client.shop[name].insert_many(documents)
    wait_until_moved(direct.shop, name, documents)
    wait_for(lambda: "part_1" in str(direct.shop[f"{name}_more"].index_information())
             or "spillway:list_1" in direct.shop[f"{name}_more"].index_information(), "the overflow's index")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["kept", "emptied"])
def test_random_arrays_come_in_mongods_order(direct, client, name, seed):
    rng = random.Random(seed)
    documents = [make(rng, number) for number in range(rng.choice((8, 40, 120)))]
    fill(direct, client, name, documents)
    ruled, twin = client.shop[name], direct.shop[TWIN]
    with profiled(direct.shop) as asked:
        for order, limit in itertools.product(ORDERS, (1, 2, 5, 30)):
            check(ruled, twin, order, limit)
            check(ruled, twin, order, limit, skip=rng.randrange(1, 9))
            check(ruled, twin, order, limit, projection=rng.choice((
                {"n": 1}, {"list": 0}, {"_id": 1, "list": 1}, {"n": 1, "size": {"$type": "$list"}})))
    assert len(fast(asked)) > 30
    assert fast(asked, good=False)


def test_nothing_is_put_together_if_ordinary_documents_come_first(direct, client):
    documents = [{"_id": number, "list": [number]} for number in range(200)]
    documents += [{"_id": 1000 + number, "list": [1000 + number] * 40} for number in range(5)]
    fill(direct, client, "early", documents)
    with profiled(direct.shop) as asked:
        assert [one["_id"] for one in client.shop.early.find({}, sort=[("list", 1)], limit=5)] == list(range(5))
    assert len(asked) == 1 and fast(asked), asked
    assert asked[0]["docsExamined"] == 6


def test_a_collations_order(direct, client):
    rng = random.Random(5)
    documents = [{"_id": number, "list": [rng.choice("abcABC") + rng.choice("xyXY") for _ in range(rng.randrange(12))]}
                 for number in range(60)]
    fill(direct, client, "collated", documents, collation=CASELESS)
    for order, limit in itertools.product(ORDERS, (1, 3, 10)):
        check(client.shop.collated, direct.shop[TWIN], order, limit)
        check(client.shop.collated, direct.shop[TWIN], order, limit, skip=2)


@pytest.mark.parametrize(("name", "order"), [("moved", 1), ("moved_down", -1)])
def test_arrays_that_move_meanwhile_keep_their_place(direct, client, name, order):
    """Each has a best element that stays. Others are pushed and pulled, so arrays move out and are folded back."""
    count, far = 12, -order * 10**6
    documents = [{"_id": number, "list": [-far + number, order * number * 10, -far]} for number in range(count)]
    fill(direct, client, name, documents)
    ruled = client.shop[name]
    for number in range(count):  # the best element of some moves out
        if number % 2:
            ruled.update_one({"_id": number}, {"$set": {"list": [-far] * 6 + [order * number * 10] + [-far] * 3}})
    stop = threading.Event()
    failures = []

    def write(seed):
        rng = random.Random(seed)
        with pymongo.MongoClient("127.0.0.1", client.address[1], directConnection=True) as own:
            while not stop.is_set():
                number = rng.randrange(count)
                extra = -far + rng.randrange(50) * order
                more = {"$each": [extra] * rng.randrange(1, 9)}
                own.shop[name].update_one({"_id": number}, {"$push": {"list": more}})
                if rng.random() < 0.4:
                    own.shop[name].update_one({"_id": number}, {"$pull": {"list": extra}})

    def run(seed):
        try:
            write(seed)
        except Exception as failure:  # told below
            failures.append(failure)

    writers = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
    for writer in writers:
        writer.start()
    try:
        with profiled(direct.shop) as asked:
            for turn in range(150):
                limit = 1 + turn % 6
                found = [one["_id"] for one in ruled.find({}, {"n": 1}, sort=[("list", order)], limit=limit)]
                assert found == list(range(limit)), (turn, found)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert not failures, failures
    assert fast(asked)  # how many, the writers decide
