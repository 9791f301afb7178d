"""An overflow document of one element has fields of its own beside the element's. A stage that sets a field of such a
name puts it where mongod puts it: behind the element's others."""

import pytest
from bson import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

from support.process import wait_for
from support.spillway import Spillway

RULE = {"name": "books", "namespace": "shop.books", "array": "list", "threshold": 2, "settle": "5ms", "quiet": "5ms",
        "overflow": {"layout": "elements", "collection": "tails", "link": "book"}}
ELEMENTS = [{"y": 1}, {"book": 2, "y": 1}, {"y": 3, "z": 4}, {"book": 5, "y": 6}, {"y": 7, "book": 8},
            {"_id": 9, "y": 1}, 10, {"x": {"book": 11}}, {}]
PIPELINES = {
    "the link": [{"$set": {"list.book": "set"}}],
    "the link, from a field": [{"$set": {"list": {"book": "$n"}}}],
    "_id": [{"$addFields": {"list._id": "set"}}],
    "both, behind other stages": [{"$fill": {"output": {"n": {"value": 1}}}}, {"$match": {"n": {"$gt": 0}}},
                                  {"$set": {"list": {"_id": 1, "book": 2}}}],
    "by $project": [{"$project": {"list": {"book": {"$literal": "set"}, "y": 1}}}],
    "an element alone": [{"$unwind": "$list"}, {"$set": {"list.book": "set", "list._id": "set"}}],
    "in an expression": [{"$set": {"list": {"$map": {"input": "$list", "in": {"$mergeObjects": [
        {"$cond": [{"$eq": [{"$type": "$$this"}, "object"]}, "$$this", {}]}, {"book": 1}]}}}}}],
}


@pytest.fixture(scope="module")
def books(cluster):
    """(through Spillway, straight at mongod)"""
    raw = CodecOptions(document_class=RawBSONDocument)
    with cluster.client() as direct, Spillway([cluster.primary], [RULE]) as spillway, \
            MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        direct.drop_database("shop")
        for collection in (client.shop.books, direct.shop.plain):
            collection.insert_one({"_id": 1, "n": 0, "list": ELEMENTS})
        wait_for(lambda: direct.shop.tails.count_documents({}) == len(ELEMENTS) - 2, "the tail to move")
        yield [database.get_collection(name, raw)
               for database, name in ((client.shop, "books"), (direct.shop, "plain"))]


@pytest.mark.parametrize("name", PIPELINES)
def test_a_set_field_stands_where_mongod_puts_it(books, name):
    ruled, plain = ([each.raw for each in collection.aggregate(PIPELINES[name])] for collection in books)
    assert ruled == plain


def test_so_it_does_in_a_finds_projection(books):
    projection = {"list": {"book": {"$literal": "set"}, "y": 1}}
    ruled, plain = ([each.raw for each in collection.find({}, projection)] for collection in books)
    assert ruled == plain
