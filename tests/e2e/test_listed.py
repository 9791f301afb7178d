"""Overflow collections are not listed, do not count in dbStats, and hinder no drop of all collections."""

import itertools
import os
import pathlib
import subprocess

import pymongo
import pytest
from bson import Int64, Regex
from pymongo.errors import OperationFailure

from support import exact
from support.cluster import Cluster
from support.process import wait_for
from support.wire import MORE_TO_COME, Connection

LONG = list(range(40))


def rule(name, namespace, **overflow):
    return {"name": name, "namespace": namespace, "array": "list", "threshold": 3, "settle": "5ms", "quiet": "5ms",
            "gc_delay": "60s", "overflow": {"layout": "batches", "link": "main", "array": "part", "batch": {"size": 10},
                                            **overflow}}


RULES = [
    rule("books", "shop.books", collection="extra_books"),
    rule("notes", "shop.notes", collection="notes_more", listed=True),
    rule("apart", "shop.apart", collection="elsewhere.apart_parts"),
    rule("tenants", "tenant_*.posts"),
    rule("many", "many.*", collection="{collection}_tails+"),
    rule("harness", "harness.books", collection="extra_books"),
]
HIDDEN = {"shop": ["extra_books"], "elsewhere": ["apart_parts"], "tenant_1": ["posts_list_overflow"],
          "many": ["a_tails+", "b\n_tails+"]}
MAIN = {"shop": ["books", "notes", "apart"], "elsewhere": [], "tenant_1": ["posts"], "many": ["a", "b\n"]}


def spill(client, direct):
    for database, names in MAIN.items():
        for name in names:
            client[database][name].insert_many({"_id": i, "list": LONG, "x": i} for i in range(3))
            stored = direct[database][name]
            wait_for(lambda: stored.count_documents({"list": LONG[:3]}) == 3, "tails to move")  # noqa: B023
    for database in MAIN:
        client[database].plain.insert_one({"_id": 1})
        client[database].plain.create_index("x")


@pytest.fixture(scope="module")
def cluster():
    with Cluster(durable=False) as made:
        yield made


@pytest.fixture(scope="module")
def kept(spillway, cluster):
    """What tests only read."""
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client, cluster.client() as direct:
        spill(client, direct)
        direct.shop.create_collection("seen", viewOn="extra_books", pipeline=[])
        direct.admin.command("fsync")
        yield client


@pytest.fixture
def filled(client, direct):
    """What a test may drop."""
    for database in MAIN:
        direct.drop_database(database)
    spill(client, direct)
    return client


def test_lists_leave_overflow_collections_out(kept, direct):
    for database, hidden in HIDDEN.items():
        stored = set(direct[database].list_collection_names())
        assert set(hidden) < stored
        assert set(kept[database].list_collection_names()) == stored - set(hidden)
        infos = [info for info in direct[database].list_collections() if info["name"] not in hidden]
        assert sorted(kept[database].list_collections(), key=str) == sorted(infos, key=str)
    assert "notes_more" in kept.shop.list_collection_names()


FILTERS = [{}, {"name": "books"}, {"name": "extra_books"}, {"name": {"$in": ["extra_books", "books"]}},
           {"name": Regex("^e")}, {"type": "collection"}, {"$nor": [{"name": "books"}]}, {"type": "view"},
           {"$or": [{"name": "extra_books"}, {"name": "plain"}]}, {"info.readOnly": False, "$nor": [{"name": "x"}]},
           {"options": {}}, {"name": {"$ne": "x"}, "$comment": "why"}, {"$expr": {"$eq": ["$name", "plain"]}}, None]


@pytest.mark.parametrize("more", [{}, {"nameOnly": True}, {"nameOnly": True, "authorizedCollections": True}])
def test_filters_find_all_others_as_mongod_does(kept, direct, more):
    for condition in FILTERS:
        command = {"listCollections": 1, "filter": condition, **more}
        mine, theirs = (sorted(at.shop.command(command)["cursor"]["firstBatch"], key=str) for at in (kept, direct))
        assert mine == [info for info in theirs if info["name"] != "extra_books"], condition


def test_a_list_in_batches_goes_on_by_get_more(kept, direct):
    first = kept.shop.command({"listCollections": 1, "cursor": {"batchSize": 1}})["cursor"]
    assert len(first["firstBatch"]) == 1 and first["ns"] == "shop.$cmd.listCollections"
    more = kept.shop.command({"getMore": Int64(first["id"]), "collection": "$cmd.listCollections"})["cursor"]
    names = {info["name"] for info in first["firstBatch"] + more["nextBatch"]}
    assert names == set(direct.shop.list_collection_names()) - {"extra_books"}


def said(call):
    with pytest.raises(OperationFailure) as caught:
        call()
    return {key: value for key, value in caught.value.details.items() if key not in ("$clusterTime", "operationTime")}


@pytest.mark.parametrize("more", [
    {"filter": 3}, {"filter": []}, {"filter": {"$nonsense": 1}}, {"filter": {"$where": "true"}}, {"nonsense": 1},
    {"filter": {"name": {"$regex": "("}}}, {"cursor": 5}, {"cursor": {"batchSize": -1}}])
def test_what_is_wrong_with_a_list_mongod_says(kept, direct, more):
    mine, theirs = (said(lambda: at.shop.command({"listCollections": 1, **more})) for at in (kept, direct))  # noqa: B023
    assert mine == theirs


SUMS = {"count": "objects", "size": "dataSize", "storageSize": "storageSize", "nindexes": "indexes",
        "totalIndexSize": "indexSize", "freeStorageSize": "freeStorageSize"}


@pytest.mark.parametrize("scale", [1, 1000, 1024.9, 3])
def test_db_stats_count_what_is_listed(kept, direct, scale):
    for database in MAIN:
        mine = kept[database].command({"dbStats": 1, "scale": scale, "freeStorage": 1})
        theirs = direct[database].command({"dbStats": 1, "scale": scale, "freeStorage": 1})
        names = direct[database].list_collection_names(filter={"type": "collection"})
        listed = [name for name in names if name not in HIDDEN[database]]
        each = [direct[database].command("collStats", name) for name in listed]
        for name, total in SUMS.items():
            whole = sum(stats[name] for stats in each)
            assert mine[total] == (whole if name in ("count", "nindexes") else whole / int(scale)), (database, total)
        assert mine["collections"] == len(listed) == theirs["collections"] - len(HIDDEN[database])
        assert mine["avgObjSize"] == sum(stats["size"] for stats in each) / mine["objects"]
        assert mine["totalSize"] == (mine["storageSize"] * int(scale) + mine["indexSize"] * int(scale)) / int(scale)
        assert mine.keys() == theirs.keys()
        assert {name: type(mine[name]) for name in mine} == {name: type(theirs[name]) for name in theirs}


def test_db_stats_of_a_database_without_overflow_are_mongod_s(filled, direct):
    direct.shop.drop_collection("extra_books")
    for command in ({"dbStats": 1}, {"dbstats": 1}, {"dbStats": 1, "scale": 1024}):
        mine, theirs = (at.shop.command(command) for at in (filled, direct))
        assert mine["objects"] == theirs["objects"] and mine["dataSize"] == theirs["dataSize"]
    for more in ({"scale": 0}, {"scale": "a"}, {"nonsense": 1}):
        mine, theirs = ((lambda: at.shop.command({"dbStats": 1, **more})) for at in (filled, direct))  # noqa: B023
        try:
            expected = theirs()
        except OperationFailure:
            assert said(mine) == said(theirs)
        else:
            assert mine().keys() == expected.keys()


ORDERS = list(itertools.permutations(["books", "extra_books", "notes", "notes_more"]))


@pytest.mark.parametrize("order", ORDERS[::5])
def test_all_collections_can_be_dropped_in_any_order(filled, direct, order):
    for name in order:
        reply = filled.shop.command({"drop": name})
        assert reply["ns"] == f"shop.{name}" and reply["nIndexesWas"] >= 1 and reply["ok"] == 1
    assert "books" not in direct.shop.list_collection_names()
    for name in ("extra_books", "notes_more"):
        wait_for(lambda: direct.shop[name].count_documents({}) == 0, "the overflow to be empty")  # noqa: B023
    for name in ("books", "notes"):
        filled.shop[name].insert_one({"_id": 1, "list": LONG})
        assert filled.shop[name].find_one()["list"] == LONG


def test_a_dropped_overflow_collection_takes_no_tail_along(filled, direct):
    filled.shop.extra_books.drop()
    assert direct.shop.extra_books.count_documents({}) > 0
    assert [found["list"] for found in filled.shop.books.find()] == [LONG] * 3
    assert said(lambda: filled.elsewhere.command({"drop": "nothing"}))["code"] == 26
    direct.shop.extra_books.drop()
    assert said(lambda: filled.shop.command({"drop": "extra_books"})) == said(
        lambda: direct.shop.command({"drop": "extra_books"}))
    assert said(lambda: filled.shop.command({"drop": "extra_books", "nonsense": 1})) == said(
        lambda: direct.shop.command({"drop": "extra_books", "nonsense": 1}))


def test_what_an_application_has_under_an_overflow_s_name_is_not_said_to_be_dropped(filled, direct):
    direct.many["mine_tails+"].insert_one({"_id": 1})
    refused = said(lambda: filled.many.command({"drop": "mine_tails+"}))
    assert refused["code"] == 115 and "lacks the index" in refused["errmsg"] and "many.mine_tails+" in refused["errmsg"]
    assert direct.many["mine_tails+"].count_documents({}) == 1


def test_what_is_listed_is_dropped_by_the_usual_loop(filled, direct):
    for database in MAIN:
        for name in filled[database].list_collection_names():
            filled[database].drop_collection(name)
        assert [name for name in filled[database].list_collection_names() if name != "notes_more"] == []
    spill(filled, direct)
    for database in ("shop", "tenant_1", "many"):
        filled.drop_database(database)
        assert set(filled[database].list_collection_names()) <= {"notes_more"}  # a mover may make it anew
    filled.shop.books.insert_one({"list": LONG})
    assert filled.shop.books.find_one()["list"] == LONG


def test_a_list_that_wants_no_answer_gets_none(kept, spillway):
    with Connection(spillway.port) as connection:
        for command in ({"listCollections": 1}, {"dbStats": 1}, {"drop": "extra_books"}):
            connection.call(exact.document({**command, "$db": "shop"}), flags=MORE_TO_COME)
        assert connection.command("admin", {"ping": 1}).keys() >= {"ok"}


SHELL = """db = db.getSiblingDB("harness");
db.books.insertOne({_id: 1, list: [...Array(40).keys()]});
db.getCollectionNames().forEach(name => db.getCollection(name).drop());
db.getCollection("extra_books").drop();
print(JSON.stringify(db.getCollectionNames()), db.stats().collections);"""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.stdout.split() or done.stderr


def test_unmodified_clients_drop_all_that_they_see(direct, spillway):
    uri = f"mongodb://{spillway.address}/?directConnection=true"
    program = pathlib.Path(__file__).parent / "clients" / "drop_all.js"
    assert run(os.environ["NODE"], program, uri) == ["done"]
    assert run(os.environ["MONGOSH"], uri, "--quiet", "--norc", "--eval", SHELL) == ["[]", "0"]
    wait_for(lambda: direct.harness.extra_books.count_documents({}) == 0, "the overflow to be empty")
