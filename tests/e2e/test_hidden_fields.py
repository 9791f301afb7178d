"""A flag, counters and a reference that clients don't see are in no answer: not shown, and not found, sorted or
counted by."""

import contextlib
import itertools

import pytest
from bson import Binary, CodecOptions, Int64, decode, encode
from bson.raw_bson import RawBSONDocument
from pymongo.errors import OperationFailure

from support.process import wait_for
from support.spillway import QuotedText, Spillway
from support.wire import Connection

pytestmark = pytest.mark.share(8)
RULES = [
    {"name": name, "namespace": f"shop.{name}", "array": "list", "threshold": 3, "settle": "5ms", "quiet": "5ms",
     "gc_delay": "0s", "change_streams": "as_stored",
     "flag": {"field": "split", "value": True}, "counters": {"total": "total", "documents": "parts"},
     "reference": {"field": "ref", "format": QuotedText("{_id}_x")},
     "overflow": {"collection": f"{name}_tails", "link": "book", **layout}}
    for name, layout in (("batches", {"array": "part", "batch": {"size": 4}}), ("elements", {"layout": "elements"}))
]
DOCUMENTS = [{"_id": number, "list": list(range(number)), "z": number % 2} for number in range(10)]
CONDITIONS = [{"split": True}, {"split": {"$ne": True}}, {"total": {"$gt": 5}}, {"ref": "9_x"},
              {"parts": {"$exists": False}},
              {"$expr": {"$gt": ["$total", 5]}}, {"$or": [{"split": True}, {"z": 0}]}, {"$nor": [{"split": True}]}]
BESIDE = [{}, {"z": 1}, {"list": 7}, {"list": {"$size": 8}}]
FILTERS = [{"$and": [condition, beside]} for condition in CONDITIONS for beside in BESIDE]
TOP = [{**condition, **beside} for condition in CONDITIONS[:5] for beside in BESIDE]


@pytest.fixture(params=["batches", "elements"])
def shop(request, client, direct):
    """(a ruled collection with outliers, the same documents in a plain one)"""
    ruled, plain = client.shop[request.param], direct.shop.plain
    for collection in (ruled, plain):
        collection.drop()
        collection.insert_many(DOCUMENTS)
    wait_for(lambda: direct.shop[request.param].count_documents({"split": True}) == 6, "tails to move")
    return ruled, plain


READS = {
    "find": lambda books, query: sorted(book["_id"] for book in books.find(query)),
    "count": lambda books, query: books.count_documents(query),
    "sorted": lambda books, query: list(books.find(query, sort=[("total", -1), ("_id", 1)])),
    "computed": lambda books, query: list(books.find(query, {"t": "$total", "f": {"$type": "$split"}},
                                                     sort=[("_id", 1)])),
    "distinct": lambda books, query: books.distinct("total", query),
    "grouped": lambda books, query: list(books.aggregate([{"$match": query},
                                                          {"$group": {"_id": "$split", "n": {"$sum": 1}}}])),
    "joined": lambda books, query: list(books.database.aggregate([
        {"$documents": [{"x": True}]},
        {"$lookup": {"from": books.name, "localField": "x", "foreignField": "split", "as": "found"}}])),
}


@pytest.mark.parametrize("read", READS)
def test_no_read_tells_of_it(shop, read):
    ruled, plain = shop
    for query in [*FILTERS, *TOP]:
        assert READS[read](ruled, query) == READS[read](plain, query), query


PROJECTIONS = [{"split": 1}, {"split": 1, "z": 1}, {"_id": 0, "total": 1}, {"list": 0, "split.x": 0},
               {"list": 0, "ref": {"x": 0}}, {"parts": 0},
               {"list": 1, "split": 1}, {"list": {"$slice": 1}, "split": 1}, {"list": {"$slice": 1}, "ref.x": 0}]


@pytest.mark.parametrize("projection", PROJECTIONS, ids=str)
def test_no_projection_brings_it(shop, projection):
    finds = [list(books.find({}, projection, sort=[("_id", 1)], batch_size=3)) for books in shop]
    assert finds[0] == finds[1]
    images = [books.find_one_and_update({"_id": 9}, {"$set": {"n": 1}}, projection) for books in shop]
    assert images[0] == images[1]


WHOLE = [{"$sort": {"_id": 1}}]
COMPUTED = [
    [{"$project": {"total": {"$size": "$list"}}}],
    [{"$project": {"_id": 0, "split": "$z", "parts": {"$literal": 7}}}],
    [{"$group": {"_id": "$_id", "split": {"$first": "$z"}, "n": {"$sum": {"$size": "$list"}}}}, {"$sort": {"_id": 1}}],
    [*WHOLE, {"$set": {"parts": 7}}],
    [*WHOLE, {"$addFields": {"split": {"$gt": ["$z", 0]}, "total": {"$size": "$list"}}}],
    [*WHOLE, {"$set": {"split.z": "$z"}}],
    [*WHOLE, {"$set": {"_spill": {"list": "$z"}}}],
    [*WHOLE, {"$set": {"_spill/id": 1, "total": 1}}],
    [*WHOLE, {"$replaceWith": {"ref": "$_id", "n": {"$size": "$list"}}}],
    [*WHOLE, {"$replaceRoot": {"newRoot": {"$mergeObjects": [{"total": 5, "split": True}, "$$ROOT"]}}}],
    [*WHOLE, {"$replaceWith": {"$arrayToObject": [[{"k": {"$concat": ["to", "tal"]}, "v": "$list"}]]}}],
    [*WHOLE, {"$project": {"d": {"ref": "$z", "split": "$list"}}}, {"$replaceRoot": {"newRoot": "$d"}}],
    [{"$unwind": {"path": "$list", "includeArrayIndex": "parts"}}, {"$sort": {"_id": 1, "parts": 1}}],
    [*WHOLE, {"$lookup": {"from": "others", "localField": "z", "foreignField": "_id", "as": "ref"}}],
    [*WHOLE, {"$graphLookup": {"from": "others", "startWith": "$z", "connectFromField": "x", "connectToField": "_id",
                               "as": "split"}}],
    [*WHOLE,
     {"$setWindowFields": {"sortBy": {"_id": 1},
                           "output": {"total": {"$sum": "$z", "window": {"documents": ["unbounded", "current"]}}}}}],
    [*WHOLE, {"$fill": {"output": {"ref": {"value": "none"}}}}],
    [{"$project": {"z": "$_id", "_id": 0}}, {"$sort": {"z": 1}},
     {"$densify": {"field": "z", "range": {"step": 0.5, "bounds": "full"}}},
     {"$set": {"split": "$z"}}],
    [{"$match": {"_id": {"$lt": 0}}}, {"$unionWith": "others"}, {"$sort": {"_id": 1}}],
    [{"$match": {"z": 0}}, {"$count": "total"}],
    [{"$facet": {"parts": [{"$match": {"z": 0}}, {"$sort": {"_id": 1}}], "split": [{"$count": "n"}]}}],
    [{"$match": {"list": 5}}, {"$project": {"total": {"$sum": "$list"}}}, {"$sort": {"_id": 1}}],
]


RAW = CodecOptions(document_class=RawBSONDocument)


def batches_of(name, pipeline, size, ports):
    """The bytes of each of the cursor's documents, by batches: each read through another port than the one before,
    without a session."""
    with contextlib.ExitStack() as stack:
        connections = itertools.cycle([stack.enter_context(Connection(port)) for port in ports])

        def call(command):
            return decode(next(connections).call(encode({**command, "$db": "shop"})).body, RAW)["cursor"]

        reply = call({"aggregate": name, "pipeline": pipeline, "cursor": {"batchSize": size}})
        batches = [reply["firstBatch"]]
        while reply["id"]:
            reply = call({"getMore": Int64(reply["id"]), "collection": name, "batchSize": max(size, 1)})
            batches.append(reply["nextBatch"])
    return [[each.raw for each in batch] for batch in batches]


@pytest.fixture(scope="module")
def ports(cluster, spillway):
    """Of two Spillways before the same server."""
    with Spillway([cluster.primary], RULES, name="other") as other:
        yield spillway.port, other.port


@pytest.mark.parametrize("pipeline", COMPUTED, ids=str)
def test_what_a_pipeline_calls_so_is_in_every_batch(cluster, shop, ports, direct, pipeline):
    ruled, plain = shop
    direct.shop.others.drop()
    direct.shop.others.insert_many([{"_id": 0, "split": 1, "total": [1]}, {"split": False, "_id": 1},
                                    {"_id": 2, "_spill": 5, "parts": None, "ref": "r"},
                                    {"_id": 3, "_spill": {"g": 1}}])
    for size in (0, 1, 3):
        expected = batches_of(plain.name, pipeline, size, [cluster.primary.port])
        for through in (ports[:1], ports):
            found = batches_of(ruled.name, pipeline, size, through)
            assert found == expected, (size, [[decode(each) for each in batch] for batch in found])


@pytest.mark.parametrize("stage", [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"n": 1}]}}, {"$unionWith": "others"},
                                   {"$set": {"split": 7}}], ids=str)
def test_names_that_only_a_collation_takes_for_it_stay(shop, direct, stage):
    ruled, plain = shop
    direct.shop.others.drop()
    for books in shop:
        books.update_many({}, {"$set": {"SPLIT": "ours", "Total": 5, "pärts": 1}})
    for strict in ({}, {"apiVersion": "1", "apiStrict": True}):
        answers = [books.database.command({"aggregate": books.name, "pipeline": [{"$sort": {"_id": 1}}, stage],
                                           "cursor": {},
                                           "collation": {"locale": "en", "strength": 1},
                                           **strict})["cursor"]["firstBatch"] for books in shop]
        assert [list(each.items()) for each in answers[0]] == [list(each.items()) for each in answers[1]]


def test_between_two_generations_fields_have_their_order(shop, direct):
    """The flag stands while an array that was folded back waits to be moved again (docs/internals/spill-protocol.md,
    V2)."""
    ruled, plain = shop
    array = list(range(6))
    plain.insert_one({"_id": 10, "list": array, "z": 0})
    state = {"g": Binary(bytes(16), 0), "h": 3, "n": 0, "a": ["split", "total", "parts", "ref"], "b": {}}
    direct.shop[ruled.name].insert_one({"_id": 10, "list": array, "z": 0, "_spill": {"list": state}, "split": True,
                                        "total": 6, "parts": 0, "ref": "10_x"})
    pipeline = [{"$match": {"_id": {"$gte": 9}}}, {"$sort": {"_id": 1}},
                {"$set": {"size": {"$size": "$list"}, "split": {"$type": "$list"}, "ref": 1}}]
    answers = [[list(each.items()) for each in books.aggregate(pipeline)] for books in shop]
    assert answers[0] == answers[1]


def test_what_a_change_stream_calls_so_comes(shop):
    ruled, _ = shop
    with ruled.watch([{"$match": {"operationType": "insert"}},
                      {"$set": {"total": 5, "ref": "$documentKey._id"}}]) as stream:
        ruled.insert_many({"_id": number} for number in (50, 51))
        for number in (50, 51):
            event = next(stream)
            assert (event["total"], event["ref"], list(event)[-2:]) == (5, number, ["total", "ref"])


def test_what_is_marked_is_still_the_clients_pipeline(shop, direct):
    ruled, plain = shop
    stages = [{"$sort": {"_id": 1}}, {"$set": {"total": {"$size": "$list"}}}]
    for books in shop:
        books.aggregate([*stages, {"$out": f"copy_of_{books.name}"}])
    assert list(direct.shop[f"copy_of_{ruled.name}"].find()) == list(direct.shop.copy_of_plain.find())
    assert "_spill/computed" in str(ruled.database.command("explain",
                                                           {"aggregate": ruled.name, "pipeline": stages, "cursor": {}}))
    with ruled.database.client.start_session() as session, session.start_transaction():
        assert list(ruled.aggregate(stages, session=session, batchSize=2)) == list(plain.aggregate(stages))
    with pytest.raises(OperationFailure) as failed:
        ruled.aggregate([{"$group": {"_id": 1, "total": {"$sum": {"$divide": ["$z", 0]}}}}])
    with pytest.raises(OperationFailure) as expected:
        plain.aggregate([{"$group": {"_id": 1, "total": {"$sum": {"$divide": ["$z", 0]}}}}])
    assert (failed.value.code,
            failed.value.details["errmsg"]) == (expected.value.code, expected.value.details["errmsg"])


def test_writes_find_what_clients_see(shop):
    ruled, plain = shop
    for query in TOP:
        for change in ({"$inc": {"n": 1}}, {"$push": {"list": 50}}, {"$pull": {"list": 1}}):
            said = [books.update_many(query, change).raw_result for books in shop]
            assert (said[0]["n"], said[0]["nModified"]) == (said[1]["n"], said[1]["nModified"]), (query, change)
        assert ruled.find_one_and_update(query, {"$set": {"last": 1}}, sort=[("_id", -1)]) == \
            plain.find_one_and_update(query, {"$set": {"last": 1}}, sort=[("_id", -1)]), query
        assert list(ruled.find(sort=[("_id", 1)])) == list(plain.find(sort=[("_id", 1)])), query
    for query in TOP[::3]:
        assert ruled.delete_one(query).deleted_count == plain.delete_one(query).deleted_count, query
    assert ruled.count_documents({}) == plain.count_documents({})


def test_indexes_may_have_them(shop):
    ruled, _ = shop
    ruled.create_index("split")
    ruled.create_index("z", partialFilterExpression={"split": True}, name="of outliers")
    assert ruled.count_documents({"_id": 9}, hint="split_1") == 1


ORDERED = {"$sort": {"_id": 1}}
SETTING = {
    "at the top": lambda name: [ORDERED, {"$set": {"split": 9, "ref": 9}}],
    "without the array": lambda name: [{"$project": {"list": 0}}, ORDERED, {"$set": {"split": 9}}],
    "in a facet": lambda name: [{"$facet": {"all": [ORDERED]}}, {"$set": {"all.split": 9}}],
    "in a group": lambda name: [ORDERED, {"$group": {"_id": 1, "all": {"$push": "$$ROOT"}}},
                                {"$set": {"all.total": 9}}],
    "in a field": lambda name: [{"$replaceWith": {"one": "$$ROOT"}}, {"$sort": {"one._id": 1}},
                                {"$set": {"one": {"split": 9}}}],
    "in a field, without the array": lambda name: [{"$project": {"list": 0}}, ORDERED,
                                                   {"$replaceWith": {"one": "$$ROOT"}}, {"$set": {"one.parts": 9}}],
    "joined": lambda name: [ORDERED, {"$lookup": {"from": name, "pipeline": [ORDERED], "as": "all"}},
                            {"$set": {"all.split": 9}}],
    "joined, and put in its place": lambda name: [
        {"$match": {"_id": 1}}, {"$lookup": {"from": name, "pipeline": [ORDERED], "as": "all"}}, {"$unwind": "$all"},
        {"$replaceWith": "$all"}, {"$set": {"split": 9}}],
    "found by $graphLookup": lambda name: [{"$match": {"_id": 1}},
                                           {"$graphLookup": {"from": name, "startWith": 9, "connectFromField": "none",
                                                             "connectToField": "_id", "as": "all"}},
                                           {"$set": {"all.total": 9}}],
    "united": lambda name: [{"$match": {"_id": -1}}, {"$unionWith": {"coll": name, "pipeline": [ORDERED]}},
                            {"$set": {"total": 9}}],
    "united, by $setField": lambda name: [
        {"$match": {"_id": -1}}, {"$unionWith": {"coll": name, "pipeline": [ORDERED]}},
        {"$replaceWith": {"$setField": {"field": "split", "input": "$$ROOT", "value": 9}}}],
}


@pytest.mark.parametrize("how", SETTING)
def test_a_field_of_its_name_that_a_pipeline_sets_stands_where_mongod_puts_it(shop, how):
    """Behind all fields that came with the document, and not where the hidden one was."""
    for books in shop:
        books.update_many({}, {"$set": {"last": 1}})
    raw = CodecOptions(document_class=RawBSONDocument)
    ruled, plain = ([each.raw for each in books.with_options(raw).aggregate(SETTING[how](books.name))]
                    for books in shop)
    assert ruled == plain


NAME_TWICE = RawBSONDocument(encode({"_id": 10, "x": 1, "y": 2, "list": []}).replace(b"y", b"x"))


@pytest.mark.parametrize("pipeline", [[{"$set": {"split": 9}}], [{"$project": {"list": 0}}, {"$set": {"split": 9}}],
                                      [{"$set": {"split": {"$size": "$list"}}}]], ids=str)
def test_a_field_whose_name_stands_twice_stays(shop, pipeline):
    raw = CodecOptions(document_class=RawBSONDocument)
    for books in shop:
        books.insert_one(NAME_TWICE)
    ruled, plain = ([each.raw for each in books.with_options(raw).aggregate([{"$match": {"_id": 10}}, *pipeline])]
                    for books in shop)
    assert ruled == plain
