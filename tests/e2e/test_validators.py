"""Validators on a ruled collection: what they say of presence and type holds as at mongod, all else is refused."""

import pytest
from pymongo.errors import OperationFailure

from support.cluster import Cluster
from support.process import wait_for

pytestmark = pytest.mark.share(3)
LONG = [{"n": number} for number in range(30)]
RULES = [
    {"name": name, "namespace": f"shop.{name}", "array": array, "threshold": 3, "settle": "5ms", "quiet": "5ms",
     "gc_delay": "0s", "overflow": {"layout": "batches", "link": "main", "array": "part", "batch": {"size": 10}}}
    for name, array in (("books", "list"), ("deep", "a.list"))
]


@pytest.fixture(scope="module")
def cluster():
    with Cluster(durable=False) as made:
        yield made


def schema(**properties):
    return {"$jsonSchema": {"bsonType": "object", "properties": properties}}


ARRAY = {"bsonType": "array", "description": "all of them"}
EXACT = {
    "other fields": {"title": {"$type": "string"}, "year": {"$not": {"$lt": 1900}}},
    "the array is there": {"list": {"$exists": True}},
    "it is an array": {"list": {"$type": "array"}},
    "it is one or missing": {"$or": [{"list": {"$exists": False}}, {"list": {"$type": "array"}}]},
    "an expression on its type": {"$expr": {"$or": [{"$isArray": "$list"}, {"$eq": ["$title", "none"]}]}},
    "a schema": {"$jsonSchema": {"bsonType": "object", "required": ["title", "list"],
                                 "properties": {"list": ARRAY, "title": {"bsonType": "string", "maxLength": 5}}}},
    "a schema by parts": {"$and": [schema(list={"bsonType": ["array", "null"]}), {"title": {"$ne": "x"}}]},
    "other fields' elements": schema(tags={"items": {"bsonType": "string"}, "maxItems": 2},
                                     by={"properties": {"list": {"maxItems": 1}}}),
    "a closed document around another array": schema(by={"additionalProperties": False, "properties": {"x": {}}}),
    "other fields compared": {"$expr": {"$lte": ["$year", {"$ifNull": ["$until", 3000]}]}},
}
DEEP = {
    "around it": schema(a={"bsonType": "object", "required": ["list"], "properties": {"list": ARRAY},
                           "additionalProperties": False}),
    "around it, by conditions": {"a": {"$type": "object"}, "a.list": {"$type": "array"}},
    "around it, counted": schema(a={"maxProperties": 1}),
}
WRITES = [
    {"$push": {"list": {"n": 99}}}, {"$push": {"list": {"$each": [{"n": 1}], "$position": 0}}},
    {"$pull": {"list": {"n": 2}}}, {"$set": {"list.7.n": "seven"}}, {"$set": {"title": 5}}, {"$set": {"title": "b"}},
    {"$set": {"title": "too long"}}, {"$unset": {"title": 1}}, {"$set": {"year": 1800}}, {"$set": {"year": 4000}},
    {"$set": {"until": 5}}, {"$set": {"tags": [1]}}, {"$set": {"tags": ["a", "b", "c"]}}, {"$set": {"tags": ["a"]}},
    {"$set": {"by": {"y": 1}}}, {"$set": {"by": {"list": [1, 2]}}}, {"$set": {"by": {"x": 1}}}, {"$set": {"list": 5}},
    {"$set": {"list": None}}, {"$unset": {"list": 1}}, {"$set": {"list": []}}, {"$set": {"list": LONG}},
    {"$rename": {"list": "other"}}, [{"$set": {"list": {"$concatArrays": ["$list", [1]]}}}], [{"$unset": "list"}],
]


def deeper(write):
    """The same inside of the document around the array."""
    text = {"list": "a.list", "list.7.n": "a.list.7.n"}
    if isinstance(write, list):
        return [{"$set": {"a.list": {"$concatArrays": ["$a.list", [1]]}}}, {"$set": {"a.more": 1}}]
    return {verb: {text.get(name, name): text.get(value, value) if isinstance(value, str) else value
                   for name, value in fields.items()} for verb, fields in write.items()}


def outcome(collection, method, *arguments):
    """How many documents were changed, or the error's code."""
    try:
        done = getattr(collection, method)(*arguments)
    except OperationFailure as error:
        return None, error.code
    return getattr(done, "modified_count", 0), None


def same(books, plain, *call):
    mine, theirs = outcome(books, *call), outcome(plain, *call)
    assert mine == theirs
    return theirs


def compare(books, plain, stored, document, writes):
    path = "a.list.3" if "a" in document else "list.3"
    verdicts = set()
    for number, write in enumerate(writes):
        if same(books, plain, "insert_one", {**document, "_id": number})[1] is None:
            wait_for(lambda: not stored.count_documents({path: {"$exists": True}}), "the tail to move")
        for each in (write, {"$set": {"z": 1}}):
            verdicts.add(same(books, plain, "update_one", {"_id": number}, each)[1])
        assert list(books.find({"_id": number})) == list(plain.find({"_id": number})), write
    return verdicts


@pytest.mark.parametrize("case", [*EXACT, *DEEP])
def test_a_validator_that_sees_no_elements_judges_as_at_mongod(client, direct, case):
    name = "books" if case in EXACT else "deep"
    validator = EXACT.get(case) or DEEP[case]
    books, plain = client.shop[name], direct.shop.plain
    for collection in (books, plain):
        collection.drop()
        collection.database.create_collection(collection.name, validator=validator)
    document = {"title": "a", "list": LONG} if name == "books" else {"title": "a", "a": {"list": LONG}}
    writes = WRITES if name == "books" else [*map(deeper, WRITES), {"$set": {"a.x": 1}}, {"$set": {"a": 3}}]
    verdicts = compare(books, plain, direct.shop[name], document, writes)
    assert verdicts >= {None, 121} or case in ("around it, counted",), verdicts


ANOTHER = "check elements in the application"
REFUSED = {
    "items": (schema(list={"items": {"bsonType": "object"}}), ANOTHER),
    "minItems": (schema(list={"bsonType": "array", "minItems": 1}), ANOTHER),
    "maxItems": (schema(list={"maxItems": 100}), ANOTHER),
    "uniqueItems": (schema(list={"uniqueItems": True}), ANOTHER),
    "items, one of several": ({"$jsonSchema": {"anyOf": [schema(list={"items": {}})["$jsonSchema"]]}}, ANOTHER),
    "$size": ({"list": {"$size": 3}}, ANOTHER),
    "$size of an expression": ({"$expr": {"$lte": [{"$size": "$list"}, 100]}}, ANOTHER),
    "elements": ({"list.n": {"$gte": 0}}, ANOTHER),
    "a position": ({"list.50": {"$exists": False}}, ANOTHER),
    "a field by its name": ({"$expr": {"$gt": [{"$size": {"$getField": "list"}}, 1]}}, "part only"),
    "the size of all, at least": ({"$expr": {"$gte": [{"$bsonSize": "$$ROOT"}, 10]}}, "whole documents"),
    "the size of all, exactly": ({"$expr": {"$eq": [{"$bsonSize": "$$ROOT"}, 1000]}}, "whole documents"),
    "no other fields": ({"$jsonSchema": {"properties": {"_id": {}, "list": {}}, "additionalProperties": False}},
                        "_spill"),
    "no other fields, in a list": ({"$and": [{"$jsonSchema": {"properties": {"_id": {}, "list": {}},
                                                              "additionalProperties": False}}]}, "_spill"),
    "the number of fields": ({"$jsonSchema": {"maxProperties": 3}}, "_spill"),
}


def refuses(call, word):
    with pytest.raises(OperationFailure) as caught:
        call()
    assert caught.value.code == 115 and word in caught.value.details["errmsg"], caught.value.details


@pytest.mark.parametrize("case", REFUSED)
def test_a_validator_that_sees_a_part_is_refused_when_it_is_made(client, direct, case):
    validator, word = REFUSED[case]
    shop = client.shop
    shop.books.drop()
    refuses(lambda: shop.create_collection("books", validator=validator), word)
    shop.create_collection("books")
    refuses(lambda: shop.command("collMod", "books", validator=validator), word)
    shop.command("collMod", "books", validator=validator, validationAction="warn")
    refuses(lambda: shop.command("collMod", "books", validationAction="error"), word)
    shop.command("collMod", "books", validationLevel="off")
    shop.command("collMod", "books", validationAction="error")
    refuses(lambda: shop.command("collMod", "books", validationLevel="moderate"), word)
    shop.books.insert_one({"_id": 1, "list": LONG})
    wait_for(lambda: direct.shop.books.count_documents({"list": LONG[:3]}) == 1, "the tail to move")
    assert shop.books.find_one() == {"_id": 1, "list": LONG}


def test_a_closed_document_that_allows_the_state_lets_tails_move(client, direct):
    closed = {"$jsonSchema": {"properties": {"_id": {}, "list": ARRAY, "_spill": {"bsonType": "object"}},
                              "additionalProperties": False}}
    client.shop.books.drop()
    client.shop.create_collection("books", validator=closed)
    client.shop.books.insert_one({"_id": 1, "list": LONG})
    wait_for(lambda: direct.shop.books.count_documents({"list": LONG[:3]}) == 1, "the tail to move")
    assert outcome(client.shop.books, "update_one", {}, {"$set": {"x": 1}}) == (None, 121)
    client.shop.books.update_one({}, {"$pull": {"list": {"n": 29}}})
    assert client.shop.books.find_one()["list"] == LONG[:29]
