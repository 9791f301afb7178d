"""Whole collections: dump and restore, statistics, mapReduce, explain, on ruled namespaces."""

import pymongo
import pytest
from bson import Decimal128, Int64, ObjectId, Regex, Timestamp
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.errors import OperationFailure

from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway

RAW = CodecOptions(document_class=RawBSONDocument)
RULES = [
    {"name": name, "namespace": f"shop.{name}", "array": "a.list", "threshold": 3, "settle": "5ms", "gc_delay": "0s",
     "flag": {"field": "more", "value": True},
     "overflow": {"layout": "batches", "link": "main", "array": "part", "batch": {"size": 10}}}
    for name in ("books", "restored")
]
ODD = [None, 1.5, float("nan"), "é", {"b": 1, "a": [2, {}]}, [], [1, [2]], b"\0", ObjectId(), Int64(5), Regex("a", "i"),
       Decimal128("1.10"), Timestamp(3, 4), True, {"": 0}]
DOCUMENTS = [
    {"_id": 1, "title": "ordinary", "a": {"list": [1, 2]}, "z": 1},
    {"_id": 2, "a": {"before": 1, "list": ODD * 5, "after": 2}, "title": "odd"},
    {"_id": 3, "title": "none"},
    {"_id": 4, "a": {"list": None}},
    {"_id": 5, "a": 7, "title": "scalar"},
    {"_id": {"x": 1}, "title": "fat", "a": {"list": ["x" * 20000] * 60}},
    *({"_id": f"n{number}", "a": {"list": list(range(number))}} for number in range(60)),
]


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        with made.client() as direct:
            direct.shop.plain.insert_many(DOCUMENTS)
        yield made


@pytest.fixture(scope="module")
def spillway(cluster):
    with Spillway([cluster.primary], RULES) as made:
        with pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client, cluster.client() as direct:
            client.shop.books.create_index("title")
            client.shop.books.create_index("a.list")
            client.shop.books.insert_many(DOCUMENTS)
            at_rest(direct.shop.books)
        yield made


def at_rest(collection):
    wait_for(lambda: not collection.count_documents({"a.list.3": {"$exists": True}}), "tails to move")


@pytest.fixture
def shop(spillway):
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as made:
        yield made.shop


def dump(collection):
    """As mongodump reads: by _id, raw, through getMore."""
    with collection.with_options(RAW).find(hint={"_id": 1}, batch_size=7, no_cursor_timeout=True) as found:
        return [document.raw for document in found]


def test_a_dump_and_its_restoration_are_the_plain_documents_byte_for_byte(shop, direct):
    plain = dump(direct.shop.plain)
    dumped = dump(shop.books)
    assert dumped == plain and len(dumped) == len(DOCUMENTS)
    shop.restored.drop()
    indexes = [index
               for index in shop.command("listIndexes", "books")["cursor"]["firstBatch"] if index["name"] != "_id_"]
    shop.command("create", "restored")
    for start in range(0, len(dumped), 20):  # mongorestore: in batches, and the indexes last
        batch = [RawBSONDocument(each) for each in dumped[start:start + 20]]
        shop.restored.with_options(RAW).insert_many(batch, ordered=False, bypass_document_validation=True)
    shop.command("createIndexes", "restored", indexes=indexes)
    at_rest(direct.shop.restored)
    assert direct.shop.restored_a_list_overflow.estimated_document_count() > 60
    assert dump(shop.restored) == plain
    assert shop.restored.index_information().keys() == shop.books.index_information().keys()
    names = direct.shop.restored_a_list_overflow.index_information()
    assert "spillway:a.list_1" in names


def shape(value):
    """The names of all fields of a reply, and the kinds of what stands in them."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items() if name not in ("$clusterTime", "operationTime")}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return "number" if isinstance(value, (int, float)) else type(value).__name__


STATISTICS = {
    "collStats": {"collStats": "@"}, "validate": {"validate": "@"}, "dataSize": {"dataSize": "shop.@"},
    "count": {"count": "@"}, "listIndexes": {"listIndexes": "@"},
    "$collStats": {"aggregate": "@", "pipeline": [{"$collStats": {"count": {}, "storageStats": {}}}], "cursor": {}},
    "$indexStats": {"aggregate": "@", "pipeline": [{"$indexStats": {}}], "cursor": {}},
    "listCollections": {"listCollections": 1, "filter": {"name": "@"}},
    "dbStats": {"dbStats": 1}, "planCacheClear": {"planCacheClear": "@"},
}


def on(command, name):
    def put(value):
        if isinstance(value, dict):
            return {key: put(item) for key, item in value.items()}
        return value.replace("@", name) if isinstance(value, str) else value
    return put(command)


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_are_what_mongod_says(shop, direct, name):
    command = on(STATISTICS[name], "books")
    mine, theirs = shop.command(command), direct.shop.command(command)
    assert shape(mine) == shape(theirs)
    if name == "count":
        assert mine["n"] == len(DOCUMENTS)
    assert {"shop"} <= set(shop.client.list_database_names())
    assert shop.books.estimated_document_count() == len(DOCUMENTS)


@pytest.mark.parametrize("command", [
    {"mapReduce": "books", "out": {"inline": 1}}, {"mapReduce": "books", "out": "elsewhere"},
    {"mapReduce": "plain", "out": "books"}, {"mapreduce": "books", "out": {"inline": 1}},
])
def test_map_reduce_is_refused(shop, command):
    with pytest.raises(OperationFailure) as caught:
        shop.command({**command, "map": "function() { emit(1, this.a.list.length) }", "reduce": "function() {}"})
    assert caught.value.code == 115 and "mapReduce" in caught.value.details["errmsg"]


UPDATE = {"q": {"a.list": 1}, "u": {"$set": {"x": 1}}, "multi": True}
EXPLAINED = {
    "find": {"find": "@", "filter": {"title": "odd"}},
    "find in the array": {"find": "@", "filter": {"a.list": 1}},
    "count": {"count": "@", "query": {"title": "odd"}},
    "count in the array": {"count": "@", "query": {"a.list": 1}},
    "distinct": {"distinct": "@", "key": "title"},
    "distinct in the array": {"distinct": "@", "key": "a.list"},
    "aggregate": {"aggregate": "@", "pipeline": [{"$match": {"title": "odd"}}, {"$project": {"title": 1}}],
                  "cursor": {}},
    "aggregate in the array": {"aggregate": "@", "pipeline": [{"$unwind": "$a.list"}], "cursor": {}},
    "update": {"update": "@", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}}]},
    "update in the array": {"update": "@", "updates": [UPDATE]},
    "delete": {"delete": "@", "deletes": [{"q": {"title": "odd"}, "limit": 0}]},
    "delete in the array": {"delete": "@", "deletes": [{"q": {"a.list": 1}, "limit": 0}]},
    "findAndModify": {"findAndModify": "@", "query": {"_id": 1}, "update": {"$set": {"x": 1}}},
    "findAndModify in the array": {"findAndModify": "@", "query": {"a.list": 1}, "remove": True},
}


@pytest.mark.parametrize("verbosity", ["queryPlanner", "executionStats"])
@pytest.mark.parametrize("name", EXPLAINED)
def test_explain_answers_in_mongod_s_form_and_changes_nothing(shop, name, verbosity):
    before = dump(shop.books)
    explained = shop.command("explain", on(EXPLAINED[name], "books"), verbosity=verbosity)
    assert {"command", "serverInfo", "ok"} <= explained.keys()
    aggregates = "aggregate" in EXPLAINED[name]
    first = explained.get("stages", [{"$cursor": explained}])[0]["$cursor"] if aggregates else explained
    assert "winningPlan" in first["queryPlanner"]
    assert ("executionStats" in first) == (verbosity == "executionStats")
    assert dump(shop.books) == before
