"""Edits of arrays that do not fit into a document: their batches are edited in place."""

import socket
import struct
import threading
from uuid import uuid4

import pymongo
import pytest
from bson import Int64, encode
from bson.binary import Binary
from pymongo.errors import BulkWriteError, OperationFailure, WriteError

from support.editions import array_of, empty
from support.operate import RULE, spill
from support.process import wait_for
from support.shim import Shim
from support.spillway import Spillway
from support.wire import Connection

RULES = [{**RULE, "gc_delay": "1h", "settle": "1h", "quiet": "1h", "sweep": "off", "gather": 1000000}]
TEXT = "x" * 100_000
COUNT = 180


@pytest.fixture
def shop(direct):
    return empty(direct, "model")


@pytest.fixture
def books(client, shop):
    return client.shop.books


@pytest.fixture
def array(shop):
    """18 MB; and the same without its texts, directly at mongod."""
    elements = [{"n": each, "k": each % 7, "text": TEXT} for each in range(COUNT)]
    spill(shop, "long", elements, state={"g": Binary(uuid4().bytes)})
    shop.model.insert_one({"_id": "long", "list": short(elements)})
    return elements


def short(array):
    return [{key: value for key, value in each.items() if key != "text"} if isinstance(each, dict) else each
            for each in array]


def same(shop, books):
    expected = shop.model.find_one({"_id": "long"})["list"]
    assert short(array_of(shop, "long")) == expected
    assert short(books.find_one({"_id": "long"})["list"]) == expected


EDITS = {
    "one by a field": ({}, {"$pull": {"list": {"n": 90}}}, None),
    "several": ({}, {"$pull": {"list": {"n": {"$in": [1, 2, 50, 51, 52, 179]}}}}, None),
    "several by value": ({}, {"$pullAll": {"list": [{"n": 60, "k": 4}, 7]}}, None),
    "a field of one": ({}, {"$set": {"list.$[x].k": 70, "seen": True}}, [{"x.n": 77}]),
    "fields of many": ({}, {"$inc": {"list.$[x].k": 1, "list.$[x].m": 2}}, [{"x.n": {"$gte": 170}}]),
    "a field of all": ({}, {"$unset": {"list.$[].k": 1}}, None),
    "by index": ({}, {"$set": {"list.100.k": "hundred"}}, None),
    "by index in the head": ({}, {"$set": {"list.1.k": "one"}}, None),
    "beyond the end": ({}, {"$set": {"list.182": {"n": 182}}}, None),
    "the last": ({}, {"$pop": {"list": 1}}, None),
    "the first": ({}, {"$pop": {"list": -1}}, None),
    "the one that is matched": ({"list.n": 120}, {"$set": {"list.$.k": "found"}}, None),
    "the one that is matched in the head": ({"list": {"$elemMatch": {"n": 2}}}, {"$inc": {"list.$.k": 5}}, None),
    "if another is there": ({"list.n": 4}, {"$pull": {"list": {"n": 140}}}, None),
    "if none is there": ({"list.n": 400}, {"$pull": {"list": {"n": 141}}}, None),
}


def differs(name):
    """Texts are part of an element, so that the model has no element equal to one of the array."""
    return name in ("several by value",)


@pytest.mark.parametrize("name", [name for name in EDITS if not differs(name)])
def test_an_edit_is_that_of_mongod(books, shop, array, name):
    filter, update, filters = EDITS[name]
    expected = shop.model.update_one({"_id": "long", **filter}, update, array_filters=filters)
    done = books.update_one({"_id": "long", **filter}, update, array_filters=filters)
    assert (done.matched_count, done.modified_count) == (expected.matched_count, expected.modified_count)
    same(shop, books)
    again = books.update_one({"_id": "long", **filter}, update, array_filters=filters)
    expected = shop.model.update_one({"_id": "long", **filter}, update, array_filters=filters)
    assert (again.matched_count, again.modified_count) == (expected.matched_count, expected.modified_count)
    same(shop, books)
    assert books.find_one({"_id": "long"}).get("seen") == shop.model.find_one({"_id": "long"}).get("seen")


def test_many_edits_of_one_array(books, shop, array):
    for filter, update, filters in [each for name, each in EDITS.items() if not differs(name)]:
        expected = shop.model.update_one({"_id": "long", **filter}, update, array_filters=filters)
        done = books.update_one({"_id": "long", **filter}, update, array_filters=filters)
        assert (done.matched_count, done.modified_count) == (expected.matched_count, expected.modified_count), update
        books.update_one({"_id": "long"}, {"$push": {"list": {"n": 1000}}})
        shop.model.update_one({"_id": "long"}, {"$push": {"list": {"n": 1000}}})
    same(shop, books)


def test_values_are_taken_out(books, shop, array):
    assert books.update_one({"_id": "long"}, {"$pullAll": {"list": [array[60], array[0], 7]}}).modified_count == 1
    assert [each["n"] for each in array_of(shop, "long")] == [each for each in range(COUNT) if each not in (0, 60)]


def test_an_error_on_an_element_is_that_of_mongod(books, shop, array):
    for update in ({"$inc": {"list.$[].n.x": 1}}, {"$inc": {"list.150.n.x": 1}}, {"$push": {"list.$[].n": 1}}):
        with pytest.raises(WriteError) as direct:
            shop.model.update_one({"_id": "long"}, {**update, "$set": {"seen": 1}})
        with pytest.raises(WriteError) as told:
            books.update_one({"_id": "long"}, {**update, "$set": {"seen": 1}})
        assert told.value.code == direct.value.code, told.value.details
    assert "seen" not in books.find_one({"_id": "long"})
    same(shop, books)
    with pytest.raises(OperationFailure) as told:
        books.find_one_and_update({"_id": "long"}, {"$inc": {"list.$[].text": 1}})
    assert told.value.code == 14 and told.value.details["codeName"] == "TypeMismatch"


def test_a_validator_is_bypassed(books, shop, array):
    """What Spillway notes in the document on the way is not judged, either."""
    shop.books.update_one({"_id": "long"}, {"$set": {"odd": True}})
    shop.command("collMod", "books", validator={"odd": {"$ne": True}})
    try:
        with pytest.raises(OperationFailure) as told:
            books.update_one({"_id": "long"}, {"$pull": {"list": {"n": 90}}})
        assert told.value.code == 115 and "validator" in told.value.details["errmsg"]
        done = books.update_one({"_id": "long"}, {"$pull": {"list": {"n": 90}}}, bypass_document_validation=True)
        assert done.modified_count == 1
    finally:
        shop.command("collMod", "books", validator={})
    shop.model.update_one({"_id": "long"}, {"$pull": {"list": {"n": 90}}})
    same(shop, books)


def test_find_one_and_update(books, shop, array):
    before = books.find_one_and_update({"_id": "long"}, {"$pull": {"list": {"n": {"$gte": 100}}}})
    assert [each["n"] for each in before["list"]] == list(range(COUNT))
    after = books.find_one_and_update({"_id": "long", "list.n": 99}, {"$set": {"list.$.k": "last"}},
                                      return_document=pymongo.ReturnDocument.AFTER)
    assert [each["n"] for each in after["list"]] == list(range(100)) and after["list"][99]["k"] == "last"
    found = books.find_one_and_update({"_id": "long"}, {"$pop": {"list": 1}}, {"list": 0})
    assert "list" not in found and len(books.find_one({"_id": "long"})["list"]) == 99


def test_statements_of_one_command(books, shop, array):
    result = books.bulk_write([
        pymongo.UpdateOne({"_id": "long"}, {"$pull": {"list": {"n": 9}}}),
        pymongo.UpdateOne({"_id": "long"}, {"$push": {"list": {"n": 180}}}),
        pymongo.UpdateOne({"_id": "long"}, {"$set": {"list.$[x].k": -1}}, array_filters=[{"x.n": {"$in": [10, 180]}}]),
    ])
    assert result.modified_count == 3
    with pytest.raises(BulkWriteError) as caught:
        books.bulk_write([pymongo.UpdateOne({"_id": "long"}, {"$pull": {"list": {"n": 11}}}),
                          pymongo.UpdateOne({"_id": "long"}, {"$push": {"list": {"$each": [1], "$sort": 1}}}),
                          pymongo.UpdateOne({"_id": "long"}, {"$pull": {"list": {"n": 12}}})])
    assert caught.value.details["nModified"] == 1 and caught.value.details["writeErrors"][0]["code"] == 10334
    assert books.update_many({}, {"$pull": {"list": {"n": 13}}}).modified_count == 1
    left = [each["n"] for each in array_of(shop, "long")]
    assert left == [each for each in range(COUNT + 1) if each not in (9, 11, 13)]
    assert array_of(shop, "long")[9]["k"] == -1


REFUSED = {
    "the whole order": lambda books: books.update_one({"_id": "long"}, {"$push": {"list": {"$each": [1], "$sort": 1}}}),
    "a pipeline": lambda books: books.update_one({"_id": "long"}, [{"$set": {"list": {"$reverseArray": "$list"}}}]),
    "time stamps": lambda books: books.update_one({"_id": "long"},
                                                  {"$currentDate": {"list.$[].at": {"$type": "timestamp"}}}),
    "several values": lambda books: books.update_one({"_id": "long"}, {"$addToSet": {"list": {"$each": [1, 2]}}}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_whole_array_is_refused(books, shop, array, name):
    with pytest.raises(OperationFailure) as caught:
        REFUSED[name](books)
    assert caught.value.code == 10334, caught.value.details
    same(shop, books)


@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_includes_the_edits(client, shop, books, array, commits):
    def edit(collection, session):
        collection.update_one({"_id": "long"}, {"$pop": {"list": 1}}, session=session)
        collection.update_one({"_id": "long", "list": {"$elemMatch": {"n": {"$gt": 119, "$lt": 121}}}},
                              {"$set": {"list.$.k": "found"}}, session=session)
        collection.update_one({"_id": "long"}, {"$push": {"list": {"n": 200, "k": 0}}}, session=session)
        collection.update_one({"_id": "long"}, {"$pull": {"list": {"n": {"$in": [1, 60, 61, 200]}}}}, session=session)
        nothing = collection.update_one({"_id": "long"}, {"$pull": {"list": {"n": 60}}}, session=session)
        assert (nothing.matched_count, nothing.modified_count) == (1, 0)

    with client.start_session() as session, session.start_transaction():
        edit(books, session)
        inside = short(books.find_one({"_id": "long"}, session=session)["list"])
        same(shop, books)
        if not commits:
            session.abort_transaction()
    if commits:
        edit(shop.model, None)
        assert inside == shop.model.find_one({"_id": "long"})["list"]
    same(shop, books)


def test_what_fits_again_is_folded_back_in_a_transaction(client, books, shop, array):
    with client.start_session() as session, session.start_transaction():
        for gone in ({"$gte": 20}, 5):
            done = books.update_one({"_id": "long"}, {"$pull": {"list": {"n": gone}}}, session=session)
            assert done.modified_count == 1
        inside = books.find_one({"_id": "long"}, session=session)["list"]
    assert inside == [array[each] for each in range(20) if each != 5]
    assert "_spill" not in shop.books.find_one({"_id": "long"})
    assert books.find_one({"_id": "long"})["list"] == inside


def test_what_fits_again_is_folded_back(books, shop, array):
    books.update_one({"_id": "long"}, {"$pull": {"list": {"n": {"$gte": 20}}}})
    assert "e" in shop.books.find_one({"_id": "long"})["_spill"]["list"]
    assert books.update_one({"_id": "long"}, {"$pull": {"list": {"n": 5}}}).modified_count == 1
    assert "_spill" not in shop.books.find_one({"_id": "long"})
    assert [each["n"] for each in books.find_one({"_id": "long"})["list"]] == [each for each in range(20) if each != 5]


def test_no_transaction_stays_open(cluster, books, shop, array):
    """Of edits that were done, refused, or changed nothing."""
    books.update_one({"_id": "long"}, {"$pull": {"list": {"n": 1}}})
    books.update_one({"_id": "long"}, {"$pull": {"list": {"n": 1}}})
    books.update_one({"_id": "long", "list.n": 77777}, {"$pull": {"list": {"n": 2}}})
    with pytest.raises(WriteError):
        books.update_one({"_id": "long"}, {"$inc": {"list.$[].text": 1}})
    with cluster.client() as direct:
        assert not open_transactions(direct)


def test_a_connection_has_one_session_for_its_edits(spillway, direct, shop, array):
    """mongod keeps a session for half an hour, and takes a million of them."""
    def sessions():
        return len(list(direct.admin.aggregate([{"$listLocalSessions": {"allUsers": True}}])))

    with Connection(spillway.port) as client:
        client.call(encode({"update": "books", "updates": [pull(1)], "$db": "shop"}))
        before = sessions()
        for number in range(2, 7):
            done = client.call(encode({"update": "books", "updates": [pull(number), pull(number + 10)], "$db": "shop"}))
            assert done.plain()["nModified"] == 2
            done = client.call(encode(bulk([pull(number + 20), pull(number + 30)])))
            assert done.plain()["nModified"] == 2
        assert sessions() < before + 5  # the mover may have come by


def pull(number):
    return {"q": {"_id": "long"}, "u": {"$pull": {"list": {"n": number}}}}


def bulk(statements, **more):
    """The same as mongod 8.0's bulkWrite."""
    ops = [{"update": 0, "filter": each["q"], "updateMods": each["u"]} for each in statements]
    return {"bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": "shop.books"}], **more, "$db": "admin"}


def open_transactions(direct):
    return list(direct.admin.aggregate([{"$currentOp": {"idleSessions": True, "allUsers": True}},
                                        {"$match": {"transaction": {"$exists": True}}}]))


@pytest.mark.parametrize("bulked", [False, True], ids=["update", "bulkWrite"])
@pytest.mark.parametrize("reset", [False, True], ids=["end", "reset"])
def test_a_client_that_goes_leaves_no_transaction_open(cluster, direct, shop, array, reset, bulked):
    """Else other writes of the document would wait for a minute."""
    held, goes_on = threading.Event(), threading.Event()
    retryable = {"lsid": {"id": Binary.from_uuid(uuid4())}, "txnNumber": Int64(1)}
    edit = {"update": "books", "updates": [pull(90)], **retryable, "$db": "shop"}
    if bulked:
        edit = bulk([pull(90)], **retryable)

    def hook(request):
        if request.name == "insert" and request.get("autocommit"):
            held.set()
            assert goes_on.wait(60)

    with Shim(cluster.primary.port, hook) as shim, Spillway([shim], RULES) as spillway:
        client = Connection(spillway.port)
        client.send(encode(edit))
        assert held.wait(60)
        if reset:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        goes_on.set()
        wait_for(lambda: not open_transactions(direct), "the transaction to end")
    assert array_of(shop, "long") == array
