"""Where a rule can't hold, Spillway says so: at the start by its end, later by refusing what the rule concerns."""

import contextlib

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway

pytestmark = pytest.mark.share(1)


def rule(collection, **options):
    overflow = {"layout": "batches", "link": "main", "array": "part", "batch": {"size": 10}}
    return {"name": collection, "namespace": f"shop.{collection}", "array": "list", "threshold": 3,
            "settle": "20ms", "gc_delay": "0s", "flag": {"field": "more", "value": True},
            **options, "overflow": overflow}


@contextlib.contextmanager
def stopped(spillway):
    """One that is started by the test itself, and gone after it."""
    try:
        yield spillway
    finally:
        spillway.__exit__()


def capped(shop):
    shop.create_collection("capped", capped=True, size=10000)


def view(shop):
    shop.create_collection("view", viewOn="books", pipeline=[])


def series(shop):
    shop.create_collection("series", timeseries={"timeField": "at"})


def unique(shop):
    shop.unique.create_index("list.isbn", unique=True)


def validated(shop):
    shop.create_collection("validated", validator={"list": {"$type": "string"}})


def closed(shop):
    schema = {"additionalProperties": False, "properties": {"_id": {}, "title": {}}}
    shop.create_collection("closed", validator={"$jsonSchema": schema})


def text(shop):
    shop.text.create_index([("$**", "text")])


def place(shop):
    shop.place.create_index([("list.at", "2dsphere")])


def old(shop):
    shop.old.create_index("list.at", expireAfterSeconds=3600)


def own(shop):
    shop.own.create_index([("more", "2dsphere")])


def language(shop):
    shop.language.create_index([("title", "text")], language_override="more")


def taken(shop):
    shop.taken_list_overflow.insert_many([{"main": 1, "part": [1]}, {"main": 1, "part": [2]}])


@pytest.mark.parametrize("make, words", [
    (capped, "capped"), (view, "view"), (series, "time series"), (unique, "unique"),
    (validated, "validator"), (closed, "_spill"), (text, "text"), (place, "2dsphere"), (old, "TTL"),
    (own, "geospatial"), (language, "text"),
    (taken, "unique index of link and batch"),
])
def test_a_namespace_that_is_unfit_at_the_start_ends_it(cluster, direct, make, words):
    make(direct.shop)
    with stopped(Spillway([cluster.primary], [rule(make.__name__)])) as spillway:
        said = spillway.refuses_to_start()
    assert words in said and make.__name__ in said


SLOW_MAJORITY = {"code": 64, "codeName": "WriteConcernFailed", "errmsg": "waiting for replication timed out"}


@pytest.mark.parametrize("failure", [{"writeConcernError": SLOW_MAJORITY}, {"errorCode": 117}, {"errorCode": 112}])
def test_what_passes_by_itself_says_nothing_of_the_namespace(cluster, direct, failure):
    settings = {"failCommands": ["createIndexes"], "appName": "spillway", **failure}
    direct.admin.command({"configureFailPoint": "failCommand", "mode": {"times": 2}, "data": settings})
    with Spillway([cluster.primary], [rule("soon")]) as spillway, \
            pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        client.shop.soon.insert_one({"list": list(range(9))})
        wait_for(lambda: direct.shop.soon.find_one()["list"] == [0, 1, 2], "the tail to move")
        direct.drop_database("shop")


@pytest.mark.parametrize("code", [11601, 134, 43, 9001])
def test_what_passes_leaves_the_verdict_that_was(cluster, direct, code):
    """Nobody's push is refused for it, and what is to be judged is judged soon."""
    settings = {"failCommands": ["listIndexes", "listCollections"], "appName": "spillway", "errorCode": code}
    with Spillway([cluster.primary], [rule("calm")]) as spillway, \
            pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        client.shop.calm.insert_one({"_id": 1, "list": [1]})
        before = direct.admin.command({"configureFailPoint": "failCommand", "mode": "alwaysOn",
                                       "data": settings})["count"]
        client.shop.calm.create_index("title")
        direct.admin.command({"waitForFailPoint": "failCommand", "timesEntered": before + 2, "maxTimeMS": 20000})
        client.shop.calm.update_one({"_id": 1}, {"$push": {"list": 1}})
        direct.admin.command({"configureFailPoint": "failCommand", "mode": "off"})
        assert "can't hold" not in spillway.said()
        direct.drop_database("shop")


def test_an_index_that_comes_later_closes_the_rule(cluster, direct):
    with Spillway([cluster.primary], [rule("late")]) as spillway, \
            pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        client.shop.late.insert_one({"_id": 1, "list": [1]})
        direct.shop.late.create_index("list", unique=True)
        # Another command of that kind makes Spillway look.
        client.shop.late.create_index("title")
        wait_for(lambda: refuses(client), "the rule to be closed")
        assert client.shop.other.insert_one({"list": [1] * 9}).acknowledged
        direct.shop.late.drop_index("list_1")
        client.shop.late.create_index("year")
        wait_for(lambda: not refuses(client), "the rule to be open again")


def test_the_sweep_finds_its_index_whatever_else_has_its_keys(cluster, direct):
    tails, keys = direct.shop.swept_list_overflow, [("main", 1), ("_spill.i", 1)]
    tails.create_index(keys, unique=True, hidden=True)
    with Spillway([cluster.primary], [rule("swept", sweep="100ms", quiet="20ms")]) as spillway:
        assert spillway.says("its index 'main_1__spill.i_1' is hidden")
        for name in ("mine", "mine by another name", None):
            direct.shop.swept.insert_one({"_id": 1, "list": list(range(30))})
            wait_for(lambda: tails.count_documents({}) > 0, "the move")
            direct.shop.swept.delete_one({})
            if name == "mine":
                wait_for(lambda: "can't be walked: its index" in spillway.said(), "a sweep")
            if name:
                tails.create_index(keys, name=name)
            wait_for(lambda: tails.count_documents({}) == 0, "the sweep")
            if name:
                tails.drop_index(name)
            if name == "mine":
                direct.shop.command("collMod", tails.name, index={"name": "main_1__spill.i_1", "hidden": False})


@pytest.mark.parametrize("layout", ["batches", "elements"])
def test_a_unique_index_of_anothers_on_the_overflow(cluster, direct, layout):
    """Through Spillway none is made; what one that was made elsewhere refuses is told."""
    ruled, path = rule(f"only_{layout}"), "part.k" if layout == "batches" else "k"
    ruled["overflow"] = {"layout": layout, "link": "main", **({"array": "part"} if layout == "batches" else {})}
    with Spillway([cluster.primary], [ruled]) as spillway, \
            pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        main, tails = client.shop[ruled["name"]], f"{ruled['name']}_list_overflow"
        for options in ({"unique": True}, {"prepareUnique": True}):
            with pytest.raises(OperationFailure) as refused:
                client.shop[tails].create_index(path, **options)
            assert refused.value.code == 115
        client.shop[tails].create_index(path)
        main.insert_one({"_id": 1, "list": [{"k": i} for i in range(9)]})
        wait_for(lambda: "_spill" in direct.shop[ruled["name"]].find_one({"_id": 1}), "the move")
        direct.shop[tails].create_index(path, unique=True, name="theirs")
        main.insert_one({"_id": 2, "list": [{"k": i} for i in range(9)]})
        wait_for(lambda: spillway.metrics()["spillway_move_errors_total"] > 0, "what it refuses")
        wait_for(lambda: "a unique index is in the way" in spillway.said(), "the log")
        assert spillway.says("index: theirs (") and len(main.find_one({"_id": 2})["list"]) == 9
        direct.shop[tails].drop_index("theirs")
        wait_for(lambda: len(direct.shop[ruled["name"]].find_one({"_id": 2})["list"]) == 3, "another try")
        client.shop[ruled["name"]].drop()
    direct.drop_database("spillway")


def refuses(client):
    try:
        client.shop.late.update_one({"_id": 1}, {"$push": {"list": 2}})
        return False
    except OperationFailure as error:
        assert "unique" in error.details["errmsg"]
        return True


def test_a_member_without_a_listener_ends_the_start():
    with Cluster(2) as both, stopped(Spillway([both.primary], [rule("books")])) as spillway:
        said = spillway.refuses_to_start()
        assert both.members[1].address in said and "listen" in said


def test_without_a_server_it_starts_and_waits(cluster, direct):
    direct.shop.patient.insert_one({"_id": 1, "list": list(range(9))})
    cluster.primary.kill()
    with stopped(Spillway([cluster.primary], [rule("patient", existing="move")])) as spillway:
        spillway.start(ready=False)
        wait_for(lambda: spillway.admin("/readyz")[0] == 503, "the start without a server")
        cluster.primary.start()
        cluster.wait_for_primary()
        wait_for(spillway.ready, "the server to be found", pause=0.05)
        wait_for(lambda: direct.shop.patient.find_one()["list"] == [0, 1, 2], "the sweep")
